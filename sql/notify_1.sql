-- Send notifications. Queued runs are announced to one live worker, chosen at random by its room: waking all
-- would make all of them claim. If none has room, one of the full workers gets the notification, and serves
-- the new accounts in its next claim. It is a hint: each worker also checks by itself from time to time. The
-- payload contains ids of accounts, up to 200: 36 characters and a comma for each.
create function notify_1(p_channels text[], p_payloads text[]) returns void language sql volatile as $$
  select pg_notify(n.channel, n.payload) from unnest(p_channels, p_payloads) as n (channel, payload)
  where n.channel <> 'runs_queued'
  union all
  select pg_notify('runs_queued_' || replace(c.worker_id::text, '-', ''), coalesce((
    select left(string_agg(a.id, ','), 200 * 37)
    from unnest(p_channels, p_payloads) as a (channel, id) where a.channel = 'runs_queued' and a.id <> ''), ''))
  from (
    select s.worker_id from shifts s
    where s.room >= 0 and s.beat_at > clock_timestamp() - interval '4 seconds'
    order by -ln(1 - random()) / greatest(s.room, 0.01) limit 1) c
  where 'runs_queued' = any(p_channels)
$$
