-- Return the data of the event of a run's end.
create function run_event(r runs, workflow_name text)
 returns json
 language plpgsql
 stable
as $$
declare
  started text := iso_time(r.started_at);
  seconds numeric := extract(epoch from r.completed_at - r.started_at);
  total bigint;
  failed bigint;
begin
  select sum(s.items_total), sum(s.items_failed) into total, failed from run_steps s where s.run_id = r.id;
  if r.status = 'completed' then
    return json_build_object(
      'run_id', r.id, 'workflow_id', r.automation_id, 'workflow_name', workflow_name, 'version', r.version,
      'trigger', r.trigger, 'credits_used', r.credits_used, 'items_total', total,
      'items_failed', failed, 'queued_at', iso_time(r.queued_at), 'started_at', started,
      'completed_at', iso_time(r.completed_at), 'duration_ms', floor(seconds * 1000)::bigint);
  end if;
  return json_build_object(
    'run_id', r.id, 'workflow_id', r.automation_id, 'workflow_name', workflow_name, 'version', r.version,
    'trigger', r.trigger, 'credits_used', r.credits_used, 'items_total', total,
    'items_failed', failed, 'queued_at', iso_time(r.queued_at), 'started_at', started,
    'completed_at', iso_time(r.completed_at), 'duration_ms', floor(seconds * 1000)::bigint,
    'error', json_build_object(
      'code', r.error->'code', 'message', r.error->'message', 'step', r.error->'step'));
end $$
