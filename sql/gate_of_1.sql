-- Return the gate of a workflow's runs: the workflow's id if it limits the runs under way; otherwise the nil
-- id.
create function gate_of_1(p_automation uuid) returns uuid language sql stable as $$
  select case when concurrency_limit is null then '00000000-0000-0000-0000-000000000000'::uuid else id end
  from automations where id = p_automation
$$
