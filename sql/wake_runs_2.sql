-- Queue runs whose wait is over. A run that is at work learns of it by `woken`.
create function wake_runs_2(p_runs uuid[]) returns setof uuid language sql volatile as $$
  update run_work w set woken = true,
    status = case when w.status = 'waiting' then 'queued' else w.status end,
    available_at = case when w.status = 'waiting' then clock_timestamp() else w.available_at end,
    wake_at = case when w.status = 'waiting' then null else w.wake_at end
  where w.run_id = any(p_runs)
  returning w.run_id
$$
