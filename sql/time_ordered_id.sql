-- Return a new id (UUIDv7).
-- It begins with the time, by the clock that selects the partition.
create function time_ordered_id()
 returns uuid
 language sql
as $$
  select (lpad(to_hex(floor(extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0') || '7'
          || substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid
$$
