"""The claim of runs, which the database decides for all workers."""

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

# Several statements with a snapshot each: the count after the locks then includes what the previous holder of
# the locks has committed. A single statement would admit too many runs.
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
  was_aside boolean, asked_at timestamptz
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
           order by w.available_at, w.run_id limit least(most, p_rows) for update skip locked) w)
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
        returning w.run_id, s.begun, s.available_at, s.bytes, w.progress, w.started_at, s.lost
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
        chosen.was_aside, moment
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


def upgrade() -> None:
    op.execute(CLAIM_RUNS)


def downgrade() -> None:
    op.execute("drop function claim_runs")
