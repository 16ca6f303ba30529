-- Cancel runs. The caller has locked their rows of run_work, and must pass the returned gates, which the runs
-- had passed, to `leave_gates_1`.
create function end_cancelled_2(p_runs uuid[]) returns table (run_id uuid, gate uuid)
language plpgsql volatile as $$
begin
  update runs r set status = 'cancelled', completed_at = now(), started_at = w.started_at,
    progress = w.progress
  from run_work w
  where w.run_id = any(p_runs) and r.id = w.run_id and r.id = any(p_runs) and r.completed_at is null;
  return query
    delete from run_work w where w.run_id = any(p_runs)
    returning w.run_id, case when w.begun then nullif(w.gate, '00000000-0000-0000-0000-000000000000') end;
end $$
