-- Return a moment in the format of the API.
create function iso_time(moment timestamp with time zone)
 returns text
 language sql
 immutable parallel safe strict
as $$
  select to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$
