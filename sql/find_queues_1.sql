-- Find queues of a priority that have work: of at most `p_most_accounts` accounts, beginning after `p_after`,
-- and of each at most `p_most_gates` gates, beginning after the account's own cursor.
--
-- It jumps from one queue to the next in the index ix_run_work_queued, so its cost depends on the queues
-- found, not on the number of waiting runs. A queue with a mark is read only from the mark, which is returned
-- with it: before it are rows that were claimed and that an old snapshot still sees. Marks are read in
-- parallel with the index, in its order: `at_mark` is the first that may belong to the account, `mark` to the
-- gate.
--
-- Bounds are compared without `or … is null`: plans are made once for all values, and a plan that does not
-- recognise a bound reads the index from its beginning.
create function find_queues_1(
  p_own boolean, p_priority int, p_after uuid, p_most_accounts int, p_most_gates int,
  p_cursor_accounts uuid[], p_cursor_gates uuid[],
  p_mark_priorities int[], p_mark_accounts uuid[], p_mark_gates uuid[],
  p_begun_from timestamptz[], p_new_from timestamptz[]
) returns table (account_id uuid, gate uuid, begun_from timestamptz, new_from timestamptz)
language plpgsql stable set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  nobody constant uuid := '00000000-0000-0000-0000-000000000000';
  top constant uuid := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
  at_account uuid := p_after;
  upto uuid := top;
  mark_accounts uuid[];
  mark_gates uuid[];
  marks_begun timestamptz[];
  marks_new timestamptz[];
  at_mark int := 1;
  mark int;
  marked uuid;
  next_account uuid;
  at_gate uuid;
  first_gate uuid;
  last_gate uuid;
  next_gate uuid;
  accounts int := 0;
  gates int;
begin
  select array_agg(m.account order by m.account, m.gate), array_agg(m.gate order by m.account, m.gate),
    array_agg(m.begun_from order by m.account, m.gate), array_agg(m.new_from order by m.account, m.gate)
  into mark_accounts, mark_gates, marks_begun, marks_new
  from unnest(p_mark_priorities, p_mark_accounts, p_mark_gates, p_begun_from, p_new_from)
    as m (priority, account, gate, begun_from, new_from)
  where m.priority = p_priority;
  for half in 1..2 loop
    if half = 2 then
      at_account := nobody;
      upto := p_after;
      at_mark := 1;
    end if;
    loop
      exit when accounts >= p_most_accounts;
      while mark_accounts[at_mark] <= at_account loop
        at_mark := at_mark + 1;
      end loop;
      marked := mark_accounts[at_mark];
      if marked > upto then
        marked := null;
      end if;
      select w.account_id into next_account from run_work w
      where w.status = 'queued' and not w.held and w.own = p_own and w.priority = p_priority
        and w.account_id > at_account and w.account_id <= upto and w.account_id < coalesce(marked, top)
      order by w.account_id limit 1;
      next_account := coalesce(next_account, marked);
      exit when next_account is null;
      gates := 0;
      first_gate := p_cursor_gates[array_position(p_cursor_accounts, next_account)];
      for part in 1..(case when first_gate is null then 1 else 2 end) loop
        at_gate := case when part = 1 then first_gate end;
        last_gate := case when part = 2 then first_gate else top end;
        mark := at_mark;
        loop
          exit when gates >= p_most_gates;
          while mark_accounts[mark] = next_account and mark_gates[mark] <= at_gate loop
            mark := mark + 1;
          end loop;
          marked := case when mark_accounts[mark] = next_account then mark_gates[mark] end;
          if marked > last_gate then
            marked := null;
          end if;
          if at_gate is null then
            select w.gate into next_gate from run_work w
            where w.status = 'queued' and not w.held and w.own = p_own and w.priority = p_priority
              and w.account_id = next_account and w.gate <= last_gate and w.gate < coalesce(marked, top)
            order by w.gate limit 1;
          else
            select w.gate into next_gate from run_work w
            where w.status = 'queued' and not w.held and w.own = p_own and w.priority = p_priority
              and w.account_id = next_account and w.gate > at_gate and w.gate <= last_gate
              and w.gate < coalesce(marked, top)
            order by w.gate limit 1;
          end if;
          begun_from := '-infinity';
          new_from := '-infinity';
          if next_gate is null and marked is not null then
            at_gate := marked;
            begun_from := marks_begun[mark];
            new_from := marks_new[mark];
            continue when not exists (select from run_work w where w.status = 'queued' and not w.held and w.own = p_own
                and w.priority = p_priority and w.account_id = next_account and w.gate = marked
                and w.begun and w.available_at >= find_queues_1.begun_from)
              and not exists (select from run_work w where w.status = 'queued' and not w.held and w.own = p_own
                and w.priority = p_priority and w.account_id = next_account and w.gate = marked
                and not w.begun and w.available_at >= find_queues_1.new_from);
            next_gate := marked;
          end if;
          exit when next_gate is null;
          at_gate := next_gate;
          gates := gates + 1;
          account_id := next_account;
          gate := next_gate;
          return next;
        end loop;
      end loop;
      at_account := next_account;
      if gates > 0 then
        accounts := accounts + 1;
      end if;
    end loop;
  end loop;
end $$
