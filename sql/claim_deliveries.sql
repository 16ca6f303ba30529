-- Claim due deliveries for a batch: a share for each account and each endpoint.
-- Claims run one after the other: each counts those that earlier ones have taken. A claim waits for no other
-- lock.
create function claim_deliveries(
  p_batch uuid, p_rows integer, p_window integer, p_account_window integer, p_strikes integer,
  p_throttled_rows integer, p_throttled_seconds double precision)
 returns table(claimed integer, seconds double precision)
 language plpgsql
 set lock_timeout to '200ms'
as $$
#variable_conflict use_column
declare
  moment timestamptz;
  jump uuid := '00000000-0000-0000-0000-000000000000';
  found_endpoints uuid[] := '{}';
  served uuid[] := '{}';
  next_ats timestamptz[] := '{}';
  throttled uuid[] := '{}';
  room int;
  left_rows int := p_rows;
  lane record;
  others boolean;
  of_account int;
  of_endpoint int;
  of_batch int;
  most int;
  tokens int;
  taken int;
  wait_until timestamptz;
  burst int;
  apart interval;
begin
  perform pg_advisory_xact_lock(hashtext('claim_deliveries'));
  moment := clock_timestamp();
  loop
    select w.endpoint_id into jump from delivery_work w
    where w.status = 'queued' and w.endpoint_id > jump order by w.endpoint_id limit 1;
    exit when jump is null;
    found_endpoints := found_endpoints || jump;
  end loop;
  if cardinality(found_endpoints) = 0 then
    return;
  end if;
  select p_window - count(*) into room from delivery_work w where w.status = 'running';
  others := (select count(distinct e.account_id) > 1 from endpoints e
             where e.id = any(found_endpoints) and e.is_active
               and (e.paused_until is null or e.paused_until <= moment));

  for lane in
    select e.id, e.account_id, e.rate_limit, e.strikes, e.paused_until, greatest(e.next_at, moment) as next_at
    from endpoints e
    join lateral (select max(o.served_at) as served_at from endpoints o where o.account_id = e.account_id) a
      on true
    where e.id = any(found_endpoints) and e.is_active
    order by a.served_at nulls first, e.served_at nulls first, e.id
  loop
    exit when left_rows <= 0 or room <= 0;
    if lane.paused_until > moment then
      wait_until := least(wait_until, lane.paused_until);
      continue;
    end if;
    select count(*), count(*) filter (where w.endpoint_id = lane.id),
      count(*) filter (where w.batch_id = p_batch)
    into of_account, of_endpoint, of_batch
    from delivery_work w where w.account_id = lane.account_id and w.status = 'running';
    -- Nobody gets more while he has as many at work as are free, nor does an endpoint of what its account may
    -- have: however many hang, there is room for others.
    most := least(left_rows, p_account_window - of_account, (room - of_account + 1) / 2,
                  (p_account_window - of_account - of_endpoint + 1) / 2);
    if others then
      most := least(most, greatest(1, p_rows / 4) - of_batch);
    end if;
    if lane.strikes >= p_strikes then
      most := least(most, p_throttled_rows - of_endpoint);
    end if;
    if lane.rate_limit is not null then
      -- A token bucket that holds a tenth of a minute's, and fills so that no minute has more than all; a
      -- second is for the way to the receiver, which takes now longer, now shorter.
      burst := greatest(1, lane.rate_limit / 10);
      apart := interval '61 seconds' / (lane.rate_limit - burst + 1);
      tokens := floor(burst - extract(epoch from lane.next_at - moment) / extract(epoch from apart));
      if tokens <= 0 then
        wait_until := least(wait_until, lane.next_at - (burst - 1) * apart);
      end if;
      most := least(most, tokens);
    end if;
    continue when most <= 0;
    -- One that somebody holds has its turn later: nobody else waits for it.
    perform from endpoints e where e.id = lane.id for no key update skip locked;
    continue when not found;
    -- An array is made once; a subquery may be read again for each row joined to it, and lock others then.
    update delivery_work w set status = 'running', batch_id = p_batch, wake_at = null
    where w.delivery_id = any(array(
      select delivery_id from delivery_work
      where status = 'queued' and endpoint_id = lane.id and available_at <= moment
      order by available_at, delivery_id limit most for update skip locked));
    get diagnostics taken = row_count;
    continue when taken = 0;
    left_rows := left_rows - taken;
    room := room - taken;
    served := served || lane.id;
    next_ats := next_ats || (lane.next_at + taken * coalesce(apart, interval '0'));
    if lane.strikes >= p_strikes then
      throttled := throttled || lane.id;
    end if;
  end loop;

  update endpoints e set served_at = clock_timestamp(),
    next_at = case when e.rate_limit is null then null else s.next_at end,
    paused_until = case when e.id = any(throttled)
      then greatest(e.paused_until, moment + make_interval(secs => p_throttled_seconds))
      else e.paused_until end
  from unnest(served, next_ats) as s (id, next_at) where e.id = s.id;
  if left_rows < p_rows then
    insert into delivery_batches (id, deliveries) values (p_batch, p_rows - left_rows);
  end if;
  return query select p_rows - left_rows, extract(epoch from wait_until - moment)::float;
end $$
