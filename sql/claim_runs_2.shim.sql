-- Pass a claim on to `claim_runs_3`, for the releases of before migration 0045 that still run.
create or replace function claim_runs_2(
  p_shift uuid, p_own boolean, p_rows int, p_bytes bigint, p_room int, p_window int, p_account_window int,
  p_priorities int[], p_after uuid[], p_accounts uuid[], p_at_work int[],
  p_cursor_priorities int[], p_cursor_accounts uuid[], p_cursor_gates uuid[],
  p_mark_priorities int[], p_mark_accounts uuid[], p_mark_gates uuid[],
  p_begun_from timestamptz[], p_new_from timestamptz[]
) returns table (
  run_id uuid, claim_id uuid, account_id uuid, automation_id uuid, version int, priority smallint, gate uuid,
  begun boolean, available_at timestamptz, started_at timestamptz, bytes int, progress json,
  restarted boolean, trigger text, input json, request json, queued_at timestamptz, parent_run_id uuid,
  lost smallint, had_workflow boolean, last_accounts uuid[], more boolean, asked_at timestamptz,
  passed_priorities int[], passed_accounts uuid[], passed_gates uuid[]
) language plpgsql volatile as $$
begin
  return query select
    c.run_id, c.claim_id, c.account_id, c.automation_id, c.version, c.priority, c.gate, c.begun,
    c.available_at, c.started_at, c.bytes, c.progress, c.restarted, c.trigger, c.input, c.request,
    c.queued_at, c.parent_run_id, c.lost, c.had_workflow, c.last_accounts, c.more, c.asked_at,
    c.passed_priorities, c.passed_accounts, c.passed_gates
  from claim_runs_3(
    p_shift, p_own, p_rows, p_bytes, p_room, p_window, p_account_window, p_priorities, p_after,
    p_accounts, p_at_work, p_cursor_priorities, p_cursor_accounts, p_cursor_gates, p_mark_priorities,
    p_mark_accounts, p_mark_gates, p_begun_from, p_new_from
  ) c;
end $$
