-- Release gates of runs that have ended, one entry for each run that had begun, and queue the oldest held run
-- in its place. Gates are locked last in a transaction, and in the order of their ids.
create function leave_gates_1(p_gates uuid[]) returns bigint language plpgsql volatile as $$
begin
  if cardinality(p_gates) = 0 then
    return 0;
  end if;
  perform from gates where workflow_id = any(p_gates) order by workflow_id for update;
  update gates g set begun = greatest(0, g.begun - l.runs)
  from (select id, count(*) as runs from unnest(p_gates) as l (id) group by id) l
  where g.workflow_id = l.id;
  return promote_held_2(p_gates);
end $$
