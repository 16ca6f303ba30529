-- End a shift whose counter has not changed since it was read, and queue its runs.
--
-- Runs without a write since their claim count this as a loss. A run that was lost twice gets a priority at
-- which a worker runs it alone, and has no workflow, which would run it beside others; each further time it
-- is queued later, up to an hour.
--
-- It waits for no lock: a worker that was stopped within a write locks its rows as long as its connection
-- exists. Skipped rows become strays, and are queued as such later.
create function end_shift_1(p_shift uuid, p_beats bigint, p_alone int) returns bigint
language plpgsql volatile as $$
declare
  ids uuid[];
begin
  perform from shifts where id = p_shift and beats = p_beats for update skip locked;
  if not found then
    return null;
  end if;
  delete from shifts where id = p_shift;
  select array_agg(l.run_id) into ids from (
    select run_id from run_work where carrier = p_shift order by run_id for update skip locked) l;
  update runs set takeovers = takeovers + 1, taken_over_at = now() where id = any(ids);
  update run_work w set status = 'queued', carrier = null, claim_id = null, wake_at = null,
    available_at = clock_timestamp()
      + case when w.lost < 2 then interval '0' else least(60 * power(2, least(w.lost - 2, 6)), 3600) * interval '1 second' end,
    lost = least(w.lost + 1, 1000), own = w.own and w.lost < 1,
    priority = case when w.lost >= 1 and w.priority < p_alone then w.priority + p_alone else w.priority end
  where w.run_id = any(ids);
  return coalesce(cardinality(ids), 0);
end $$
