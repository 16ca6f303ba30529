-- Find queues of a priority that have work: of at most `p_most_accounts` accounts, beginning after `p_after`,
-- and of each at most `p_most_gates` gates, beginning after the account's own cursor.
--
-- It jumps from one queue to the next in the index ix_run_work_queued, so its cost depends on the queues
-- found, not on the number of waiting runs. The index is read in parts: the accounts after `p_after`, then
-- those up to it; an account with a cursor is in two parts, too.
--
-- The first queue of an account may have a mark: before it are rows that were claimed and that an old snapshot
-- still sees. It is read only from the mark, which is returned with it. Marks are sorted by account;
-- `p_before_marks` has the highest id below each.
--
-- Only the order of that index can be had without a sort, which the caller switches off: so Postgres uses it
-- even while it believes that the table is almost empty.
create function find_queues_2(
  p_own boolean, p_priority int, p_after uuid, p_most_accounts int, p_most_gates int,
  p_cursor_accounts uuid[], p_cursor_gates uuid[],
  p_mark_accounts uuid[], p_before_marks uuid[], p_begun_from timestamptz[], p_new_from timestamptz[]
) returns table (account_id uuid, gate uuid, begun_from timestamptz, new_from timestamptz)
language plpgsql stable as $$
declare
  nobody constant uuid := '00000000-0000-0000-0000-000000000000';
  top constant uuid := 'ffffffff-ffff-ffff-ffff-ffffffffffff';
  -- The queue after which it reads, and the last one of the part.
  at_account uuid := p_after;
  at_gate uuid := top;
  to_account uuid := top;
  to_gate uuid := top;
  wrapped boolean := false;
  -- The account that is read; of one with a cursor, the part, and the queue before its first.
  reading uuid;
  part int := 0;
  cursor_gate uuid;
  before_account uuid;
  before_gate uuid;
  accounts int := 0;
  gates int := 0;
  mark int := 1;
  marked uuid;
  bound_account uuid;
  bound_gate uuid;
begin
  loop
    while p_mark_accounts[mark] <= at_account loop
      mark := mark + 1;
    end loop;
    marked := p_mark_accounts[mark];
    bound_account := to_account;
    bound_gate := to_gate;
    if (marked, nobody) <= (to_account, to_gate) then
      bound_account := p_before_marks[mark];
      bound_gate := top;
    else
      marked := null;
    end if;
    select w.account_id, w.gate into account_id, gate from run_work w
    where w.status = 'queued' and not w.held and w.own = p_own and w.priority = p_priority
      and (w.account_id, w.gate) > (at_account, at_gate) and (w.account_id, w.gate) <= (bound_account, bound_gate)
    order by w.account_id, w.gate limit 1;
    begun_from := '-infinity';
    new_from := '-infinity';
    if account_id is null and marked is null then
      if part = 1 then
        part := 2;
        at_account := before_account;
        at_gate := before_gate;
        to_gate := cursor_gate;
      elsif part = 2 then
        part := 0;
        at_account := reading;
        at_gate := top;
        to_account := case when wrapped then p_after else top end;
        to_gate := top;
      elsif not wrapped and p_after > nobody then
        wrapped := true;
        at_account := nobody;
        to_account := p_after;
      else
        return;
      end if;
      mark := 1;
      continue;
    end if;
    if account_id is null then
      account_id := marked;
      gate := nobody;
      begun_from := p_begun_from[mark];
      new_from := p_new_from[mark];
      if not exists (select from run_work w where w.status = 'queued' and not w.held and w.own = p_own
          and w.priority = p_priority and w.account_id = marked and w.gate = nobody
          and w.begun and w.available_at >= find_queues_2.begun_from)
        and not exists (select from run_work w where w.status = 'queued' and not w.held and w.own = p_own
          and w.priority = p_priority and w.account_id = marked and w.gate = nobody
          and not w.begun and w.available_at >= find_queues_2.new_from) then
        at_account := marked;
        at_gate := nobody;
        continue;
      end if;
    end if;
    if account_id is distinct from reading then
      exit when accounts >= p_most_accounts;
      accounts := accounts + 1;
      gates := 0;
      reading := account_id;
      cursor_gate := p_cursor_gates[array_position(p_cursor_accounts, account_id)];
      if cursor_gate is not null then
        part := 1;
        before_account := at_account;
        before_gate := at_gate;
        at_account := account_id;
        at_gate := cursor_gate;
        to_account := account_id;
        to_gate := top;
        continue;
      end if;
    end if;
    return next;
    gates := gates + 1;
    at_account := account_id;
    at_gate := gate;
    if gates >= p_most_gates then
      part := 0;
      at_gate := top;
      to_account := case when wrapped then p_after else top end;
      to_gate := top;
    end if;
  end loop;
end $$
