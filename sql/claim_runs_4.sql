-- Claim queued runs for a shift: from many queues at once, a share for each account.
--
-- It serves the priorities in order. At each it takes a share from every queue that `find_queues_2` finds,
-- then the rest from queues that have more. Locked rows are skipped, so claims never wait. The caller passes
-- how many runs of each account the shift has at work.
--
-- Runs beyond the limit of a gate are held: they leave the queue until the end of another run, or the sweep,
-- promotes them. A row whose `run_id` is null means that runs wait that cannot be served now; `more`, that
-- runs were held, so that others may be found in their place.
--
-- At each priority the next claim continues after its account in `last_accounts`: the last one served, if not
-- all could be; otherwise the last one found. An account without claimable runs at all the gates that were
-- read is in `passed_accounts`, with the last of these gates, after which its next claim continues.
--
-- Postgres may believe that the table is almost empty, and that to read all of it is as cheap as to find a row.
-- So sorts are off, which leaves the index with the right order, and no join decides how rows are found.
create function claim_runs_4(
  p_shift uuid, p_own boolean, p_rows int, p_bytes bigint, p_room int, p_window int, p_account_window int,
  p_priorities int[], p_after uuid[], p_accounts uuid[], p_at_work int[],
  p_cursor_priorities int[], p_cursor_accounts uuid[], p_cursor_gates uuid[],
  p_mark_priorities int[], p_mark_accounts uuid[], p_before_marks uuid[],
  p_begun_from timestamptz[], p_new_from timestamptz[]
) returns table (
  run_id uuid, claim_id uuid, account_id uuid, automation_id uuid, version int, priority smallint, gate uuid,
  begun boolean, available_at timestamptz, started_at timestamptz, bytes int, progress json,
  restarted boolean, trigger text, input json, request json, queued_at timestamptz, parent_run_id uuid,
  lost smallint, had_workflow boolean, last_accounts uuid[], more boolean, asked_at timestamptz,
  passed_priorities int[], passed_accounts uuid[], passed_gates uuid[], traceparent text, request_id text
) language plpgsql volatile set lock_timeout = '200ms' set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off set enable_sort = off set enable_incremental_sort = off as $$
#variable_conflict use_column
declare
  most_gates constant int := 8;
  moment timestamptz := clock_timestamp();
  nobody constant uuid := '00000000-0000-0000-0000-000000000000';
  left_rows int := least(p_rows, p_room);
  -- A claim of few runs looks at few accounts; if none of these can be served, the caller goes on with others.
  most_accounts constant int := least(64, greatest(16, 4 * left_rows));
  left_bytes bigint := p_bytes;
  prio int;
  i int := 0;
  accounts uuid[];
  gates uuid[];
  begun_froms timestamptz[];
  new_froms timestamptz[];
  places int[];
  gate_rooms int[];
  n int;
  distinct_accounts int;
  share int;
  waits boolean := false;
  some_more boolean := false;
  some_held boolean := false;
  some_unseen boolean := false;
  last_ones uuid[] := p_after;
  cursor_accounts uuid[];
  cursor_gates uuid[];
  mark_accounts uuid[];
  before_marks uuid[];
  marks_begun timestamptz[];
  marks_new timestamptz[];
  cut boolean;
  furthest int;
  priorities_passed int[] := '{}';
  accounts_passed uuid[] := '{}';
  gates_passed uuid[] := '{}';
  taken_ids uuid[] := '{}';
  taken_begun boolean[] := '{}';
  taken_accounts uuid[] := '{}';
  new_ids uuid[];
  new_begun boolean[];
  new_workflows boolean[];
  taken_workflows boolean[] := '{}';
  new_accounts uuid[];
  new_gates uuid[];
  new_bytes bigint;
begin
  -- Whoever ends the shift waits for this, or is waited for. A build that is not admitted gets nothing.
  perform from shifts s where s.id = p_shift
    and not exists (select from builds b where b.name = s.build and b.state <> 'admitted')
  for key share;
  if not found then
    return;
  end if;
  foreach prio in array p_priorities loop
    exit when left_rows <= 0 or left_bytes <= 0;
    i := i + 1;
    if cardinality(p_cursor_accounts) > 0 then
      select array_agg(c.account_id), array_agg(c.gate) into cursor_accounts, cursor_gates
      from unnest(p_cursor_priorities, p_cursor_accounts, p_cursor_gates) as c (priority, account_id, gate)
      where c.priority = prio;
    end if;
    if cardinality(p_mark_accounts) > 0 then
      select array_agg(m.account_id order by m.account_id), array_agg(m.before order by m.account_id),
        array_agg(m.begun_from order by m.account_id), array_agg(m.new_from order by m.account_id)
      into mark_accounts, before_marks, marks_begun, marks_new
      from unnest(p_mark_priorities, p_mark_accounts, p_before_marks, p_begun_from, p_new_from)
        as m (priority, account_id, before, begun_from, new_from)
      where m.priority = prio;
    end if;
    select array_agg(q.account_id order by q.o), array_agg(q.gate order by q.o),
      array_agg(q.begun_from order by q.o), array_agg(q.new_from order by q.o), count(*),
      count(distinct q.account_id)
    into accounts, gates, begun_froms, new_froms, n, distinct_accounts
    from find_queues_2(p_own, prio, p_after[i], most_accounts, most_gates, cursor_accounts, cursor_gates,
      mark_accounts, before_marks, marks_begun, marks_new)
      with ordinality as q (account_id, gate, begun_from, new_from, o);
    continue when n = 0;
    waits := true;
    -- Nobody has more at work than is free: however many wait for long, there is room for others.
    select array_agg(greatest(0, least(
        case when distinct_accounts > 1 then greatest(1, p_account_window / 4) else p_account_window end, p_room)
      - coalesce(p_at_work[array_position(p_accounts, a.id)], 0)
      - (select count(*) from unnest(taken_accounts) as t (id) where t.id = a.id))::int order by a.o)
    into places from unnest(accounts) with ordinality as a (id, o);
    -- A gate that somebody else holds is left to them.
    if exists (select from unnest(gates) as g (id) where g.id <> nobody) then
      select array_agg(case when q.id = nobody then p_rows else coalesce(g.free, -1) end order by q.o)
      into gate_rooms
      from unnest(gates) with ordinality as q (id, o) left join (
        select l.workflow_id, greatest(0, l.lim - l.begun) as free from (
          select * from gates f where f.workflow_id = any(gates) order by f.workflow_id
          for update skip locked) l) g on g.workflow_id = q.id;
      with full_gate as (
        select q.account_id, q.gate from unnest(accounts, gates, gate_rooms) as q (account_id, gate, free)
        where q.free = 0
      ), over as materialized (
        select w.run_id from full_gate f cross join lateral (
          select run_id from run_work w
          where w.status = 'queued' and not w.held and w.own = p_own and w.priority = prio and w.account_id = f.account_id
            and w.gate = f.gate and not w.begun
          order by w.available_at, w.run_id limit 1000 for update skip locked) w
        limit 5000
      )
      update run_work w set held = true where w.run_id = any (array(select run_id from over));
      some_held := some_held or found;
    else
      gate_rooms := array_fill(p_rows, array[n]);
    end if;
    -- First each account its share; then whoever has more takes what is left.
    for pass in 1..2 loop
      share := case pass when 1 then (left_rows + distinct_accounts - 1) / distinct_accounts else left_rows end;
      with queue as materialized (
        select q.* from unnest(accounts, gates, places, gate_rooms, begun_froms, new_froms) with ordinality
          as q (account_id, gate, places, gate_room, begun_from, new_from, o)
        where q.places > 0
      ), found as (
        select q.account_id, q.gate, q.places, q.o, w.* from queue q cross join lateral (
          select h.run_id, true as begun, h.available_at, h.bytes, h.carrier is not null as had_workflow from (
            select * from run_work w
            where w.status = 'queued' and not w.held and w.own = p_own and w.priority = prio and w.account_id = q.account_id
              and w.gate = q.gate and w.begun and w.available_at between q.begun_from and moment
            order by w.available_at, w.run_id limit least(q.places, share) for update skip locked) h
          union all
          select h.run_id, false, h.available_at, h.bytes, h.carrier is not null from (
            select * from run_work w
            where w.status = 'queued' and not w.held and w.own = p_own and w.priority = prio and w.account_id = q.account_id
              and w.gate = q.gate and not w.begun and w.available_at between q.new_from and moment
            order by w.available_at, w.run_id limit greatest(0, least(q.places, share, q.gate_room))
            for update skip locked) h
        ) w
      ), in_turn as (
        select f.*, row_number() over (
          partition by f.account_id order by f.begun desc, f.available_at, f.run_id) as place
        from found f
      ), in_order as (
        select i.*, row_number() over turn as nth, sum(i.bytes) over turn as size from in_turn i
        where i.place <= least(i.places, share) window turn as (order by i.place, i.o)
      ), served as (
        select * from in_order i
        where i.nth <= left_rows and (i.size <= left_bytes or i.nth = 1 and cardinality(taken_ids) = 0)
      )
      select array_agg(s.run_id), array_agg(s.begun), array_agg(s.had_workflow), array_agg(s.account_id),
        array_agg(s.gate) filter (where not s.begun and s.gate <> nobody), sum(s.bytes), max(s.o),
        (select count(*) from in_order) > count(*)
      into new_ids, new_begun, new_workflows, new_accounts, new_gates, new_bytes, furthest, cut from served s;
      if pass = 1 then
        last_ones[i] := case when cut then coalesce(accounts[furthest], last_ones[i]) else accounts[n] end;
      end if;
      exit when new_ids is null;
      update run_work w set status = 'running', carrier = p_shift, claim_id = gen_random_uuid(),
        wake_at = null, woken = false, begun = true, started_at = coalesce(w.started_at, now())
      where w.run_id = any(new_ids);
      taken_ids := taken_ids || new_ids;
      taken_begun := taken_begun || new_begun;
      taken_workflows := taken_workflows || new_workflows;
      taken_accounts := taken_accounts || new_accounts;
      left_rows := left_rows - cardinality(new_ids);
      left_bytes := left_bytes - new_bytes;
      if new_gates is not null then
        update gates g set begun = g.begun + f.runs
        from (select id, count(*) as runs from unnest(new_gates) as f (id) group by id) f
        where g.workflow_id = f.id;
      end if;
      select array_agg(greatest(0, p.free - (
          select count(*) from unnest(new_accounts) as t (id) where t.id = accounts[p.o]))::int order by p.o)
      into places from unnest(places) with ordinality as p (free, o);
      select array_agg(case when gates[p.o] = nobody then p.free else greatest(0, p.free - (
          select count(*) from unnest(new_gates) as t (id) where t.id = gates[p.o])) end::int order by p.o)
      into gate_rooms from unnest(gate_rooms) with ordinality as p (free, o);
      exit when pass = 2 or distinct_accounts = 1 or left_rows <= 0 or left_bytes <= 0;
    end loop;
    if n > distinct_accounts then
      select priorities_passed || array_agg(prio), accounts_passed || array_agg(p.account_id),
        gates_passed || array_agg(p.gate)
      into priorities_passed, accounts_passed, gates_passed from (
        select q.account_id, (array_agg(q.gate order by q.o desc))[1] as gate
        from unnest(accounts, gates) with ordinality as q (account_id, gate, o)
        where q.account_id <> all (taken_accounts) group by q.account_id having count(*) >= most_gates) p;
    end if;
    some_unseen := some_unseen or most_accounts < 64 and distinct_accounts >= most_accounts;
    some_more := some_more or left_rows <= 0 or left_bytes <= 0 or distinct_accounts >= most_accounts
      or n > distinct_accounts or 0 >= any (places);
  end loop;
  if cardinality(taken_ids) = 0 then
    if waits then
      last_accounts := last_ones;
      more := some_held or some_unseen;
      passed_priorities := priorities_passed;
      passed_accounts := accounts_passed;
      passed_gates := gates_passed;
      return next;
    end if;
    return;
  end if;
  -- A statement of its own: none locks rows and reads the partitions of `runs` as well.
  return query
    select w.run_id, w.claim_id, w.account_id, w.automation_id, w.version, w.priority, w.gate, t.begun,
      w.available_at, w.started_at, w.bytes, w.progress, r.restarted_from is not null, r.trigger,
      case when w.bytes <= 65536 then r.input end, case when w.bytes <= 65536 then r.request end,
      r.queued_at, w.parent_run_id, w.lost, t.had_workflow, last_ones, some_more, moment,
      priorities_passed, accounts_passed, gates_passed, r.traceparent, r.request_id
    from unnest(taken_ids, taken_begun, taken_workflows) as t (run_id, begun, had_workflow)
    cross join lateral (select * from run_work w where w.run_id = t.run_id offset 0) w
    join runs r on r.id = t.run_id where r.id = any(taken_ids);
end $$
