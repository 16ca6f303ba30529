-- Return the patterns that match a type of event.
-- All, a prefix, the type.
create function event_patterns(type text)
 returns text[]
 language sql
 immutable parallel safe strict
as $$
  select array['*', type] || array(
    select array_to_string(parts[1:n], '.') || '.*'
    from (select string_to_array(type, '.') as parts) as named, generate_subscripts(parts, 1) as n
    where n < cardinality(parts))
$$
