-- Insert events, and a delivery of each to every endpoint that is subscribed to it.
--
-- An event without a subscriber is not stored, because nothing would read it. The function waits for an endpoint
-- that is being deleted. Dispatchers are notified at the commit; few events have subscribers.
create function emit_events(p_ids uuid[], p_accounts uuid[], p_types text[], p_data json[])
 returns integer
 language plpgsql
as $$
declare
  made integer;
begin
  if not exists (select from endpoints e where e.account_id = any(p_accounts) and e.is_active) then
    return 0;
  end if;
  with emitted as (
    select * from unnest(p_ids, p_accounts, p_types, p_data) as n (id, account_id, type, data)
  ), matched as materialized (
    select n.id, n.account_id, n.type, e.id as endpoint_id, time_ordered_id() as delivery_id
    from emitted n join endpoints e
      on e.account_id = n.account_id and e.is_active and e.events && event_patterns(n.type)
    order by e.id for key share of e
  ), stored as (
    insert into events (id, account_id, type, data, created_at)
    select n.id, n.account_id, n.type, n.data, now() from emitted n where n.id in (select id from matched)
  ), delivered as (
    insert into deliveries (id, account_id, endpoint_id, event_id, event_type, status, attempts,
                            next_attempt_at, created_at)
    select delivery_id, account_id, endpoint_id, id, type, 'pending', 0, now(), now() from matched
  ), work as (
    insert into delivery_work (delivery_id, event_id, account_id, endpoint_id, status, available_at)
    select delivery_id, id, account_id, endpoint_id, 'queued', clock_timestamp() from matched
  )
  select count(*) into made from matched;
  if made > 0 then
    perform pg_notify('deliveries_queued', '');
  end if;
  return made;
end $$
