-- Start the workflow that handles another's failures, once for each failed run, if it is active. A failure of
-- such a run starts nothing, and neither does a run that is too deep, because two workflows may handle each
-- other's failures.
create function start_after_failure_2(r runs, workflow_name text, p_handler uuid, p_priority int, p_deepest int)
returns uuid language plpgsql volatile as $$
declare
  chosen record;
  made uuid := time_ordered_id();
  given json;
begin
  select a.id, a.version into chosen from automations a
  where a.id = p_handler and a.account_id = r.account_id and a.status = 'active' and a.deleted_at is null;
  if not found or r.trigger = 'on_failure' or coalesce(r.depth, 0) >= p_deepest then
    return null;
  end if;
  given := json_build_object(
    'run', json_build_object(
      'id', r.id, 'workflow_id', r.automation_id, 'workflow_name', workflow_name,
      'workflow_version', r.version, 'status', r.status, 'trigger', r.trigger,
      'credits_used', r.credits_used, 'queued_at', iso_time(r.queued_at),
      'started_at', iso_time(r.started_at), 'completed_at', iso_time(r.completed_at),
      'duration_ms', round(extract(epoch from r.completed_at - r.started_at) * 1000)::bigint),
    'error', r.error, 'input', r.input);
  insert into runs (id, account_id, automation_id, version, trigger, input, input_bytes, queued_at,
                    parent_run_id, depth)
  values (made, r.account_id, chosen.id, chosen.version, 'on_failure', given, octet_length(given::text),
          now(), r.id, coalesce(r.depth, 0) + 1);
  insert into run_work (run_id, account_id, automation_id, version, priority, gate, status, begun, available_at,
                        bytes)
  values (made, r.account_id, chosen.id, chosen.version, p_priority, gate_of_1(chosen.id), 'queued', false,
          clock_timestamp(), octet_length(given::text));
  return made;
end $$
