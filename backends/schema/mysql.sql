-- SPDX-License-Identifier: Apache-2.0
-- The lease table and the counter of fencing numbers, for MariaDB 10.6 and
-- MySQL 8.0.20. Idempotent. IDs are bytes: both servers compare those alike,
-- with no regard to case or trailing blanks. Times are microseconds since the
-- Unix epoch. No index may contain expires_at or updated_at, which every
-- renewal changes. checkpoint_bytes is there because InnoDB reads a whole state
-- to tell its length. The counter is never behind the rows.
create table if not exists leasehold_leases (
  work_id varbinary(512) not null primary key,
  holder_id varbinary(512) not null,
  fencing_token bigint not null,
  expires_at bigint not null,
  exit_mode varchar(16) character set ascii collate ascii_bin
    check (exit_mode in ('finished', 'abandoned', 'retired')),
  prev_exit_mode varchar(16) character set ascii collate ascii_bin
    not null default 'none' check (prev_exit_mode in
      ('none', 'finished', 'abandoned', 'retired', 'expired')),
  prev_holder_id varbinary(512),
  acquired_at bigint not null,
  updated_at bigint not null,
  request_id bigint,
  checkpoint_seq bigint,
  checkpoint_bytes bigint,
  checkpoint longblob
) engine = InnoDB row_format = dynamic;
create table if not exists leasehold_leases_seq (
  id tinyint not null primary key check (id = 1),
  last_number bigint not null
) engine = InnoDB;
insert into leasehold_leases_seq (id, last_number)
  select 1, most.number from (
    select coalesce(max(fencing_token), 0) as number from leasehold_leases
  ) most
  on duplicate key update last_number = greatest(last_number, most.number);
