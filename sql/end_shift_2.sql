-- End a shift whose counter has not changed since it was read, and queue its runs.
--
-- Runs without a write since their claim count this as a loss. A run that was lost twice gets a priority at
-- which a worker runs it alone, and has no workflow, which would run it beside others; each further time it
-- is queued later, up to an hour. The suspects of one version count as one: when one of them is lost alone,
-- the others wait as long, and get its count and its record of the builds. Otherwise a thousand suspects
-- would end a worker each, one after the other.
--
-- It waits for no lock: a worker that was stopped within a write locks its rows as long as its connection
-- exists. Skipped rows become strays, and are queued as such later.
create function end_shift_2(p_shift uuid, p_beats bigint, p_alone int) returns bigint
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
  with tried as (
    select distinct on (account_id, automation_id, version) account_id, automation_id, version, lost, setbacks, available_at
    from run_work where run_id = any(ids) and priority > p_alone and lost > 2
    order by account_id, automation_id, version, lost desc
  ), suspect as materialized (
    select s.run_id, t.lost, t.setbacks, t.available_at from tried t cross join lateral (
      select run_id from run_work w
      where w.status = 'queued' and not w.held and not w.own and w.priority > p_alone
        and w.account_id = t.account_id and w.automation_id = t.automation_id and w.version = t.version
        and w.run_id <> all(ids)
      for update skip locked) s
  )
  update run_work w set lost = greatest(w.lost, s.lost), setbacks = s.setbacks,
    available_at = greatest(w.available_at, s.available_at)
  from suspect s where w.run_id = s.run_id;
  return coalesce(cardinality(ids), 0);
end $$
