-- Queue held runs again, one for each entry: the oldest of the gate, and as many of each other priority, so
-- that claims decide on the order. A claim holds those again for which there is no room; a sweep finds those
-- that were not promoted.
create function promote_held_2(p_gates uuid[]) returns bigint language sql volatile as $$
  with freed as (
    select gate, count(*) as places from unnest(p_gates) as f (gate) group by gate
  ), chosen as materialized (
    select w.run_id from freed f cross join unnest(array[1, 2, 4, 11, 12, 14]) as p (priority) cross join lateral (
      select w.run_id from run_work w where w.held and w.gate = f.gate and w.priority = p.priority
      order by w.available_at, w.run_id limit f.places) w
  ), locked as materialized (
    select w.run_id from run_work w join chosen using (run_id) where w.held order by w.run_id
    for update of w skip locked
  ), promoted as (
    update run_work w set held = false from locked l where w.run_id = l.run_id returning w.run_id
  )
  select count(*) from promoted
$$
