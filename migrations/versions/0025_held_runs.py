"""Held runs, over their workflow's limit, outside the queue; no statement locks rows and reads partitions."""

from importlib import import_module

from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

_TABLES = """
alter table run_work add column held boolean not null default false;
drop index ix_run_work_queued;
create index ix_run_work_queued on run_work (lane_id, begun, available_at, run_id)
  where status = 'queued' and not held;
create index ix_run_work_held on run_work (lane_id, available_at, run_id) where held;
alter table run_work add column root_run_id uuid;
create index ix_run_work_root_run_id on run_work (root_run_id) where root_run_id is not null;
create index ix_batches_lane_id on batches (lane_id)
"""
_COUNT_UNDER_WAY = """
create function count_under_way(p_automation uuid) returns bigint language sql stable as $$
  select count(*) from (
    select from lanes l join batches b on b.lane_id = l.id join run_work w on w.batch_id = b.id
    where l.automation_id = p_automation
    union all
    select from lanes l join run_work w on w.lane_id = l.id and w.status = 'queued' and not w.held and w.begun
    where l.automation_id = p_automation) as under_way
$$
"""
# One entry for each run that may begin: the oldest held run of the workflow, by priority. If there are too
# many, the claim holds them again; a sweep finds those that were not promoted.
_PROMOTE_HELD = """
create function promote_held(p_automations uuid[]) returns bigint language sql volatile as $$
  with freed as (
    select automation_id, count(*) as places from unnest(p_automations) as f (automation_id) group by 1
  ), chosen as materialized (
    select w.run_id from freed f cross join lateral (
      select o.run_id from lanes l cross join lateral (
        select w.run_id, w.available_at from run_work w where w.held and w.lane_id = l.id
        order by w.available_at, w.run_id limit f.places) o
      where l.automation_id = f.automation_id
      order by l.priority, o.available_at, o.run_id limit f.places) w
  ), locked as materialized (
    select w.run_id from run_work w join chosen using (run_id) where w.held order by w.run_id
    for update of w skip locked
  ), promoted as (
    update run_work w set held = false from locked l where w.run_id = l.run_id returning w.run_id
  )
  select count(*) from promoted
$$
"""
# As before, in statements that do one thing each.
_CANCEL_CHILDREN = """
create or replace function cancel_children(p_parents uuid[])
returns setof uuid language plpgsql volatile as $$
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
  return query select end_cancelled(found);
end $$
"""
# The caller has locked their rows of `run_work`.
_END_CANCELLED = """
create function end_cancelled(p_runs uuid[]) returns setof uuid language plpgsql volatile as $$
begin
  update runs r set status = 'cancelled', completed_at = now(), started_at = w.started_at,
    batch_id = w.batch_id, progress = w.progress
  from run_work w
  where w.run_id = any(p_runs) and r.id = w.run_id and r.id = any(p_runs) and r.completed_at is null;
  return query delete from run_work w where w.run_id = any(p_runs) returning w.run_id;
end $$
"""
# As before, but runs of workflows at their limit are held, an account without a claim moves to the back, and
# the claimed runs are read in a separate statement.
_CLAIM_RUNS = """
create or replace function claim_runs(
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
  -- Accounts that have all that they may have at work.
  full_accounts uuid[] := '{}';
  full_lanes bigint[];
  claimed uuid[];
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
      where w.status = 'queued' and not w.held and w.lane_id > jump and w.lane_id < upto
      order by w.lane_id limit 1;
      exit when next_lane is null;
      found_lanes := found_lanes || next_lane;
      jump := next_lane;
    end loop;
    exit when known > cardinality(p_known);
    if exists (select from run_work w where w.status = 'queued' and not w.held and w.lane_id = upto
               and not w.begun and w.available_at between p_new_from[known] and moment)
      or exists (select from run_work w where w.status = 'queued' and not w.held and w.lane_id = upto
                 and w.begun and w.available_at between p_begun_from[known] and moment)
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
    where l.id = any(found_lanes) and l.id <> all(tried) and l.account_id <> all(full_accounts)
      and l.priority <= lowest
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
      full_accounts := full_accounts || chosen.account_id;
      update tenants set served_at = clock_timestamp() where account_id = chosen.account_id;
      continue;
    end if;
    -- How many of it may begin: those count that have begun and not ended, those that wait too.
    select a.concurrency_limit - count_under_way(a.id) into most_new
    from automations a where a.id = chosen.automation_id and a.concurrency_limit is not null;
    if most_new <= 0 then
      -- Neither this lane nor others of the account that are at their limit are looked at again before
      -- there is room: their runs leave the queue, some at a time.
      select array_agg(l.id) into full_lanes
      from lanes l join automations a on a.id = l.automation_id
      where l.id = any(found_lanes) and l.account_id = chosen.account_id
        and a.concurrency_limit <= count_under_way(a.id);
      with over as materialized (
        select w.run_id from unnest(full_lanes) as f (id) cross join lateral (
          select run_id from run_work w
          where w.status = 'queued' and not w.held and w.lane_id = f.id and not w.begun
          order by w.available_at, w.run_id limit 1000 for update skip locked) w
        limit 5000
      )
      update run_work w set held = true from over o where w.run_id = o.run_id;
      -- Those that have begun may go on.
      tried := tried || array(
        select f.id from unnest(full_lanes) as f (id) where not exists (
          select from run_work w where w.status = 'queued' and not w.held and w.lane_id = f.id and w.begun));
      most_new := 0;
      if chosen.id = any(tried) then
        update tenants set served_at = clock_timestamp() where account_id = chosen.account_id;
        continue;
      end if;
    end if;
    known := array_position(p_known, chosen.id);
    begun_from := coalesce(p_begun_from[known], '-infinity');
    new_from := coalesce(p_new_from[known], '-infinity');
    -- A batch of this lane that the claimer has open takes the runs in; a workflow sees to it already. But
    -- what was lost with its worker twice goes alone: it may be to blame.
    select w.lost into most_lost from run_work w
    where w.status = 'queued' and not w.held and w.lane_id = chosen.id and w.begun
      and w.available_at between begun_from and moment
    order by w.available_at, w.run_id limit 1;
    update batches b set runs = b.runs
    where coalesce(most_lost, 0) < 2 and b.id = p_open_batches[array_position(p_open_lanes, chosen.id)]
      and b.executor = p_open_executors[array_position(p_open_lanes, chosen.id)] and not b.parked
    returning b.id, b.executor into joined, joined_executor;
    with halves as (
      (select w.run_id, w.begun, w.available_at, w.bytes, w.lost from (
         select * from run_work w
         where w.status = 'queued' and not w.held and w.lane_id = chosen.id and w.begun
           and w.available_at between begun_from and moment
         order by w.available_at, w.run_id limit least(most, p_rows) for update skip locked) w)
      union all
      (select w.run_id, w.begun, w.available_at, w.bytes, w.lost from (
         select * from run_work w
         where w.status = 'queued' and not w.held and w.lane_id = chosen.id and not w.begun
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
      returning w.run_id
    )
    select array_agg(t.run_id) into claimed from taken t;
    if claimed is not null then
      if joined is null then
        insert into batches (id, executor, worker_id, beat_at, account_id, lane_id, runs, trigger)
        select p_batch, p_executor, p_worker, clock_timestamp(), chosen.account_id, chosen.id, count(*),
          case when min(r.trigger) = max(r.trigger) then min(r.trigger) else 'mixed' end
        from runs r where r.id = any(claimed);
      end if;
      update lanes set served_at = clock_timestamp(), runs_total = runs_total + (
        select count(*) from run_work w where w.run_id = any(claimed) and w.started_at = now())
      where id = chosen.id;
      update tenants set served_at = clock_timestamp() where account_id = chosen.account_id;
      -- A statement of its own: none locks rows and reads the partitions of `runs` as well.
      return query
        select coalesce(joined, p_batch), coalesce(joined_executor, p_executor), w.run_id, chosen.id,
          chosen.account_id, chosen.automation_id, chosen.version, chosen.priority,
          w.started_at, w.started_at <> now(), w.available_at, w.bytes, w.progress,
          r.restarted_from is not null, r.trigger,
          case when w.bytes <= 65536 then r.input end, case when w.bytes <= 65536 then r.request end,
          chosen.was_aside, moment, r.queued_at, w.parent_run_id
        from run_work w join runs r on r.id = w.run_id
        where w.run_id = any(claimed) and r.id = any(claimed);
      return;
    end if;
    -- Who gets nothing goes to the back.
    update tenants set served_at = clock_timestamp() where account_id = chosen.account_id;
    tried := tried || chosen.id;
  end loop;
  -- Something waits that may not be served now.
  return next;
end $$
"""


def upgrade() -> None:
    op.execute(_TABLES)
    op.execute(_COUNT_UNDER_WAY)
    op.execute(_PROMOTE_HELD)
    op.execute(_END_CANCELLED)
    op.execute(_CANCEL_CHILDREN)
    op.execute(_CLAIM_RUNS)
    _find_by_id("claim_runs")


def downgrade() -> None:
    before = import_module("migrations.versions.0019_step_kinds")
    op.execute("drop function claim_runs")
    op.execute(before.CLAIM_RUNS)
    _find_by_id("claim_runs")
    op.execute("drop function cancel_children")
    op.execute(before.CANCEL_CHILDREN)
    op.execute("drop function end_cancelled, promote_held, count_under_way")
    op.execute(
        "drop index ix_batches_lane_id; drop index ix_run_work_held; drop index ix_run_work_queued;"
        " create index ix_run_work_queued on run_work (lane_id, begun, available_at, run_id)"
        " where status = 'queued'"
    )
    op.drop_column("run_work", "held")
    op.drop_column("run_work", "root_run_id")


def _find_by_id(function: str) -> None:
    """Make the function find a claimed run by its id, whatever the statistics of a young partition."""
    op.execute(f"alter function {function} set enable_hashjoin = off set enable_mergejoin = off")
