"""The waits of steps, the memory of workflows, and the number of a workflow's unfinished runs."""

from importlib import import_module

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_TABLES = """
alter table automations add column concurrency_limit integer;
alter table runs add column parent_run_id uuid, add column depth smallint, add column upload_id uuid;
alter table run_work add column parent_run_id uuid, add column upload_id uuid;
create index ix_run_work_parent_run_id on run_work (parent_run_id) where parent_run_id is not null;
create index ix_run_work_upload_id on run_work (upload_id) where upload_id is not null;
create table run_answers (
  run_id uuid not null, step_id text not null, output json not null, answered_at timestamptz not null,
  constraint pk_run_answers primary key (run_id, step_id)
);
create table remembered_keys (
  automation_id uuid not null
    constraint fk_remembered_keys_automation_id_automations references automations (id) on delete cascade,
  key text not null, first_at timestamptz not null, expires_at timestamptz not null, count bigint not null,
  constraint pk_remembered_keys primary key (automation_id, key)
);
create index ix_remembered_keys_expires_at on remembered_keys (expires_at)
"""
# Every end of a run's wait calls this. A run at work learns of it from `woken`.
_WAKE_RUNS = """
create function wake_runs(p_runs uuid[]) returns setof uuid language sql volatile as $$
  update run_work w set woken = true,
    status = case when w.status = 'waiting' then 'queued' else w.status end,
    available_at = case when w.status = 'waiting' then clock_timestamp() else w.available_at end,
    batch_id = case when w.status = 'waiting' then null else w.batch_id end,
    wake_at = case when w.status = 'waiting' then null else w.wake_at end
  where w.run_id = any(p_runs)
  returning w.run_id
$$
"""
# Runs that were begun as steps, and their own ones, are useless without their parents. The caller has locked
# the parents.
CANCEL_CHILDREN = """
create function cancel_children(p_parents uuid[]) returns setof uuid language plpgsql volatile as $$
declare
  level uuid[] := p_parents;
  found uuid[] := '{}';
begin
  -- Whoever begins a child holds its parent meanwhile: of one that is locked here, all children are seen.
  loop
    select array_agg(c.run_id) into level from (
      select w.run_id from run_work w where w.parent_run_id = any(level) order by w.run_id for update) c;
    exit when level is null;
    found := found || level;
  end loop;
  return query
    with gone as (
      delete from run_work w where w.run_id = any(found)
      returning w.run_id, w.started_at, w.batch_id, w.progress
    )
    update runs r set status = 'cancelled', completed_at = now(), started_at = g.started_at,
      batch_id = g.batch_id, progress = g.progress
    from gone g where r.id = g.run_id and r.id = any(found) and r.completed_at is null
    returning r.id;
end $$
"""
# The workflow named for failures runs once for each failed run, if it is active. A failure in such a run
# starts nothing, and neither does one too deep, because two workflows may name each other.
_START_AFTER_FAILURE = """
create function start_after_failure(r runs, workflow_name text, p_handler uuid, p_priority int, p_deepest int)
returns uuid language plpgsql volatile as $$
declare
  chosen record;
  made uuid := time_ordered_id();
  given json;
begin
  select a.id, a.version, l.id as lane_id into chosen
  from automations a
  join lanes l on l.automation_id = a.id and l.version = a.version and l.priority = p_priority
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
  insert into run_work (run_id, account_id, automation_id, lane_id, status, begun, available_at, bytes)
  values (made, r.account_id, chosen.id, chosen.lane_id, 'queued', false, clock_timestamp(),
          octet_length(given::text));
  return made;
end $$
"""
# As before, but a workflow with a limit on concurrent runs begins no more than that.
CLAIM_RUNS = """
create function claim_runs(
  p_batch uuid, p_executor uuid, p_worker uuid, p_rows int, p_bytes bigint, p_window int,
  p_account_window int, p_interactive int, p_any_priority boolean,
  p_known bigint[], p_begun_from timestamptz[], p_new_from timestamptz[], p_passed_over bigint[],
  p_open_lanes bigint[], p_open_batches uuid[], p_open_executors uuid[]
) returns table (
  batch_id uuid, executor uuid, run_id uuid, lane_id bigint, account_id uuid, automation_id uuid,
  version int, priority smallint, started_at timestamptz, begun boolean, available_at timestamptz,
  bytes int, progress json, restarted boolean, trigger text, input json, request json,
  was_aside boolean, asked_at timestamptz, queued_at timestamptz, parent_run_id uuid
) language plpgsql volatile set lock_timeout = '200ms' as $$
#variable_conflict use_column
declare
  moment timestamptz := clock_timestamp();
  found_lanes bigint[] := '{}';
  tried bigint[] := p_passed_over;
  jump bigint := 0;
  known int := 1;
  upto bigint;
  next_lane bigint;
  room int;
  lowest int := 5;
  chosen record;
  others boolean;
  most int;
  begun_from timestamptz;
  new_from timestamptz;
  joined uuid;
  most_lost int;
  joined_executor uuid;
  most_new int;
begin
  -- Lanes with work. Those that are known are looked at from where work can be; between them, one jumps from
  -- lane to lane in the index.
  loop
    upto := coalesce(p_known[known], 9223372036854775807);
    loop
      select w.lane_id into next_lane from run_work w
      where w.status = 'queued' and w.lane_id > jump and w.lane_id < upto order by w.lane_id limit 1;
      exit when next_lane is null;
      found_lanes := found_lanes || next_lane;
      jump := next_lane;
    end loop;
    exit when known > cardinality(p_known);
    if exists (select from run_work w where w.status = 'queued' and w.lane_id = upto and not w.begun
               and w.available_at between p_new_from[known] and moment)
      or exists (select from run_work w where w.status = 'queued' and w.lane_id = upto and w.begun
                 and w.available_at between p_begun_from[known] and moment)
    then
      found_lanes := found_lanes || upto;
    end if;
    jump := upto;
    known := known + 1;
  end loop;
  if cardinality(found_lanes) = 0 then
    return;
  end if;

  select p_window - count(*) into room
  from batches b join run_work w on w.batch_id = b.id where not b.parked and w.status = 'running';
  -- The last tenth is kept for those who wait for an answer.
  if room < p_window / 10 then
    lowest := p_interactive;
  end if;

  while room > 0 loop
    select l.id, l.account_id, l.automation_id, l.version, l.priority, l.setbacks is not null as was_aside
    into chosen
    from lanes l join tenants t on t.account_id = l.account_id
    where l.id = any(found_lanes) and l.id <> all(tried) and l.priority <= lowest
      and (l.aside_until is null or l.aside_until <= moment)
    order by case when p_any_priority then 0 else l.priority end, t.served_at nulls first,
      l.served_at nulls first, l.id
    limit 1 for no key update of l, t skip locked;
    exit when not found;
    others := exists (
      select from lanes l where l.id = any(found_lanes) and l.account_id <> chosen.account_id);
    -- Nobody has more at work than is free: however many wait for long, there is room for others.
    most := least(room, p_account_window);
    if others then
      most := least(most, greatest(1, p_account_window / 4));
    end if;
    select least(most, least(room, p_account_window) - count(*)) into most
    from batches b join run_work w on w.batch_id = b.id
    where b.account_id = chosen.account_id and not b.parked and w.status = 'running';
    if most <= 0 then
      tried := tried || (select array_agg(l.id) from lanes l
                         where l.id = any(found_lanes) and l.account_id = chosen.account_id);
      continue;
    end if;
    -- How many of it may begin: those count that have begun and not ended, those that wait too.
    select a.concurrency_limit into most_new from automations a where a.id = chosen.automation_id;
    if most_new is not null then
      select greatest(0, most_new - count(*)) into most_new from (
        select 1 from lanes l join batches b on b.lane_id = l.id join run_work w on w.batch_id = b.id
        where l.automation_id = chosen.automation_id
        union all
        select 1 from lanes l join run_work w on w.lane_id = l.id and w.status = 'queued' and w.begun
        where l.automation_id = chosen.automation_id) as under_way;
    end if;
    known := array_position(p_known, chosen.id);
    begun_from := coalesce(p_begun_from[known], '-infinity');
    new_from := coalesce(p_new_from[known], '-infinity');
    -- A batch of this lane that the claimer has open takes the runs in; a workflow sees to it already. But
    -- what was lost with its worker twice goes alone: it may be to blame.
    select w.lost into most_lost from run_work w
    where w.status = 'queued' and w.lane_id = chosen.id and w.begun
      and w.available_at between begun_from and moment
    order by w.available_at, w.run_id limit 1;
    update batches b set runs = b.runs
    where coalesce(most_lost, 0) < 2 and b.id = p_open_batches[array_position(p_open_lanes, chosen.id)]
      and b.executor = p_open_executors[array_position(p_open_lanes, chosen.id)] and not b.parked
    returning b.id, b.executor into joined, joined_executor;
    return query
      with halves as (
        (select w.run_id, w.begun, w.available_at, w.bytes, w.lost from (
           select * from run_work w
           where w.status = 'queued' and w.lane_id = chosen.id and w.begun
             and w.available_at between begun_from and moment
           order by w.available_at, w.run_id limit least(most, p_rows) for update skip locked) w)
        union all
        (select w.run_id, w.begun, w.available_at, w.bytes, w.lost from (
           select * from run_work w
           where w.status = 'queued' and w.lane_id = chosen.id and not w.begun
             and w.available_at between new_from and moment
           order by w.available_at, w.run_id limit least(most, p_rows, most_new) for update skip locked) w)
      ), in_order as (
        select h.*, row_number() over turn as place, sum(h.bytes) over turn as size,
          max(h.lost) over turn as most_lost
        from halves h window turn as (order by h.begun desc, h.available_at, h.run_id)
      ), served as (
        select * from in_order o
        where o.place = 1 or (o.place <= least(most, p_rows) and o.size <= p_bytes and o.most_lost < 2)
      ), taken as (
        update run_work w set status = 'running', batch_id = coalesce(joined, p_batch),
          wake_at = null, woken = false, begun = true, started_at = coalesce(w.started_at, now())
        from served s where w.run_id = s.run_id
        returning w.run_id, s.begun, s.available_at, s.bytes, w.progress, w.started_at, s.lost,
          w.parent_run_id
      ), batch as (
        insert into batches (id, executor, worker_id, beat_at, account_id, lane_id, runs, trigger)
        select p_batch, p_executor, p_worker, clock_timestamp(), chosen.account_id, chosen.id, count(*),
          case when min(r.trigger) = max(r.trigger) then min(r.trigger) else 'mixed' end
        from taken t join runs r on r.id = t.run_id having count(*) > 0 and joined is null
      )
      select coalesce(joined, p_batch), coalesce(joined_executor, p_executor), t.run_id, chosen.id,
        chosen.account_id, chosen.automation_id, chosen.version, chosen.priority,
        t.started_at, t.begun, t.available_at, t.bytes, t.progress, r.restarted_from is not null, r.trigger,
        case when t.bytes <= 65536 then r.input end, case when t.bytes <= 65536 then r.request end,
        chosen.was_aside, moment, r.queued_at, t.parent_run_id
      from taken t join runs r on r.id = t.run_id;
    if found then
      update lanes set served_at = clock_timestamp(), runs_total = runs_total + (
        select count(*) from run_work w
        where w.batch_id = coalesce(joined, p_batch) and w.started_at = now())
      where id = chosen.id;
      update tenants set served_at = clock_timestamp() where account_id = chosen.account_id;
      return;
    end if;
    tried := tried || chosen.id;
  end loop;
  -- Something waits that may not be served now.
  return next;
end $$
"""
_FUNCTIONS = ("claim_runs", "start_after_failure", "cancel_children", "wake_runs")


def upgrade() -> None:
    op.execute(_TABLES)
    op.execute(_WAKE_RUNS)
    op.execute(CANCEL_CHILDREN)
    op.execute(_START_AFTER_FAILURE)
    op.execute("drop function claim_runs")
    op.execute(CLAIM_RUNS)
    _find_by_id("claim_runs")


def downgrade() -> None:
    for function in _FUNCTIONS:
        op.execute(f"drop function {function}")
    op.execute("drop table run_answers, remembered_keys")
    op.execute("alter table run_work drop column parent_run_id, drop column upload_id")
    op.execute("alter table runs drop column parent_run_id, drop column depth, drop column upload_id")
    op.execute("alter table automations drop column concurrency_limit")
    op.execute(import_module("migrations.versions.0011_claim_runs").CLAIM_RUNS)
    _find_by_id("claim_runs")


def _find_by_id(function: str) -> None:
    """Make the function find a claimed run by its id, whatever the statistics of a young partition."""
    op.execute(f"alter function {function} set enable_hashjoin = off set enable_mergejoin = off")
