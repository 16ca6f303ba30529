-- Decide whether a source may be asked once, and count that request if it may.
--
-- `reason` is null if it may. Otherwise it is the cause, and `retry_after` the seconds until it may be asked;
-- `quota` is true if the only cause is that the bucket's windows have no room for this caller.
--
-- Rows are locked in the order of their names, as by all other writers. After the time of an open breaker one
-- request passes, and delays the others for a moment.
--
-- Accounts that wait (`p_account`) share the rest in turns. Each account that was refused has a row with the
-- number of its next turn. A request takes the turn of its account. An account with a lower number is ahead
-- by the difference, one with the same number by one if it got that number earlier. This holds until
-- `ends_at`: shortly after the time when the account should come back, and for a quarter of a second after
-- each of its requests. A new account begins with the lowest number.
--
-- A bucket has at most a thousand rows. A further account is refused as the last of those that wait, and
-- begins anew when it comes back.
create function admit_request_2(
  p_source text, p_bucket text, p_requests int[], p_seconds int[], p_account uuid,
  p_failures int, p_probe float8, p_weight float8, p_now timestamptz,
  out reason text, out quota boolean, out retry_after float8
) language plpgsql volatile as $$
#variable_conflict use_column
declare
  moment timestamptz;
  place timestamptz;
  mine bigint;
  mine_since timestamptz;
  ahead bigint := 0;
  ahead_until timestamptz;
  may_wait boolean := false;
begin
  -- The request goes out at once. What a crash of the database forgets are the last moments of a log.
  perform set_config('synchronous_commit', 'off', true);
  quota := false;
  insert into provider_states (source, failures, error_rate, limited_rate)
  select name, 0, 0, 0 from unnest(array[p_source, p_bucket]) as t (name)
  where not exists (select from provider_states where source = name)
  group by name order by name on conflict do nothing;
  perform from provider_states where source in (p_source, p_bucket) order by source for update;
  moment := coalesce(p_now, clock_timestamp());

  select blocked_as, extract(epoch from blocked_until - moment)::float8 into reason, retry_after
  from provider_states where source in (p_source, p_bucket) and blocked_until > moment
  order by blocked_until desc limit 1;
  if found then
    return;
  end if;

  if p_account is not null then
    delete from source_turns where bucket = p_bucket and ends_at <= moment;
    select turn, since into mine, mine_since from source_turns
    where bucket = p_bucket and account_id = p_account;
    may_wait := found;
    if not may_wait then
      select min(turn), moment, count(*) < 1000 into mine, mine_since, may_wait
      from source_turns where bucket = p_bucket;
    end if;
    select coalesce(sum(case when turn = mine then (since < mine_since)::int else mine - turn end), 0), max(ends_at)
    into ahead, ahead_until
    from source_turns where bucket = p_bucket and account_id <> p_account and turn <= mine;
  end if;

  place := source_place_1(p_bucket, p_requests, p_seconds, p_account is not null, ahead + 1, moment);
  if place > moment and ahead > 0 then
    place := least(place, greatest(ahead_until,
      source_place_1(p_bucket, p_requests, p_seconds, true, 1, moment)));
  end if;

  if place > moment then
    reason := 'rate_limited';
    quota := true;
    retry_after := extract(epoch from place - moment)::float8;
    update provider_states set limited_rate = limited_rate * (1 - p_weight) + p_weight where source = p_source;
    if may_wait then
      insert into source_turns as t (bucket, account_id, turn, since, ends_at)
      values (p_bucket, p_account, coalesce(mine, 0), mine_since,
        place + make_interval(secs => least(30, 1 + retry_after / 10)))
      on conflict (bucket, account_id) do update set ends_at = excluded.ends_at;
    end if;
    return;
  end if;

  perform count_request_1(p_bucket, p_requests, p_seconds, moment);
  if mine is not null and may_wait then
    insert into source_turns as t (bucket, account_id, turn, since, ends_at)
    values (p_bucket, p_account, mine + 1, moment, moment + interval '250 ms')
    on conflict (bucket, account_id) do update
    set turn = excluded.turn, since = excluded.since, ends_at = excluded.ends_at;
  end if;
  update provider_states set
    blocked_until = case when failures >= p_failures then moment + make_interval(secs => p_probe) end,
    blocked_as = case when failures >= p_failures then 'cooling_down' end
  where source in (p_source, p_bucket) and (failures >= p_failures or blocked_until is not null);
end
$$
