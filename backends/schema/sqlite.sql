-- SPDX-License-Identifier: Apache-2.0
-- The lease table and the counter of fencing numbers. Idempotent. Times are
-- microseconds since the Unix epoch. 64-bit columns are declared bigint: what
-- is declared integer is cut to 32 bits by some drivers.
create table if not exists leasehold_leases (
  work_id text not null primary key,
  holder_id text not null,
  fencing_token bigint not null,
  expires_at bigint not null,
  exit_mode text
    check (exit_mode in ('finished', 'abandoned', 'retired')),
  prev_exit_mode text not null default 'none'
    check (prev_exit_mode in
      ('none', 'finished', 'abandoned', 'retired', 'expired')),
  prev_holder_id text,
  acquired_at bigint not null,
  updated_at bigint not null,
  request_id bigint,
  checkpoint_seq bigint,
  checkpoint blob
) without rowid;
create table if not exists leasehold_leases_seq (
  id bigint not null primary key check (id = 1),
  last_number bigint not null
) without rowid;
insert or ignore into leasehold_leases_seq values (1, 0);
