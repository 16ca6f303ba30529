-- Cancel the runs that others have begun as steps, and their own child runs: nothing uses their results any
-- more. The caller has locked these others. A transaction that begins a child locks its parent, so all
-- children are visible.
create function cancel_children_2(p_parents uuid[]) returns table (run_id uuid, gate uuid)
language plpgsql volatile as $$
declare
  level uuid[] := p_parents;
  found_ids uuid[] := '{}';
begin
  loop
    select array_agg(c.run_id) into level from (
      select w.run_id from run_work w where w.parent_run_id = any(level) order by w.run_id for update) c;
    exit when level is null;
    found_ids := found_ids || level;
  end loop;
  return query select * from end_cancelled_2(found_ids);
end $$
