-- Return the smallest time-ordered id of a moment.
create function first_id(moment timestamp with time zone)
 returns uuid
 language sql
 immutable parallel safe strict
as $$
  select (lpad(to_hex(floor(extract(epoch from moment) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$
