-- SPDX-License-Identifier: Apache-2.0
-- The lease table. Idempotent. No index may contain expires_at or updated_at:
-- every renewal changes them, and an index would cost their HOT updates.
create sequence if not exists leasehold_leases_seq;
create table if not exists leasehold_leases (
  work_id text collate "C" primary key,
  holder_id text not null,
  fencing_token bigint not null default nextval('leasehold_leases_seq'),
  expires_at timestamptz not null,
  checkpoint bytea,
  exit_mode text
    check (exit_mode in ('finished', 'abandoned', 'retired')),
  prev_exit_mode text not null default 'none'
    check (prev_exit_mode in
      ('none', 'finished', 'abandoned', 'retired', 'expired')),
  prev_holder_id text,
  acquired_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  request_id bigint,
  checkpoint_seq bigint
) with (fillfactor = 70);
alter table leasehold_leases add column if not exists request_id bigint;
alter table leasehold_leases add column if not exists checkpoint_seq bigint;
alter table leasehold_leases alter column checkpoint set storage external;
