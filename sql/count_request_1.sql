-- Log a request to a source in each of its windows.
--
-- Up to 120 requests, a window logs the moment of each. Above that it has 120 cells, and logs the end of a
-- request's cell, so that each counts at least as long as it must. The caller has locked the bucket.
create function count_request_1(p_bucket text, p_requests int[], p_seconds int[], p_now timestamptz)
returns void language sql volatile as $$
  insert into source_windows as w (bucket, seconds, moments, totals, forgotten)
  select p_bucket, seconds,
    array[case when requests <= 120 then p_now else date_bin(cell, p_now, 'epoch') + cell end], array[1], 0
  from unnest(p_requests, p_seconds) as r (requests, seconds),
    lateral (select make_interval(secs => seconds / 120.0) as cell) as c
  on conflict (bucket, seconds) do update set (moments, totals, forgotten) = (
    select w.moments[gone + 1:size - joined] || moment, w.totals[gone + 1:size - joined] || total + 1, base
    from (select cardinality(w.moments) as size,
        width_bucket(p_now - make_interval(secs => w.seconds), w.moments) as gone) as a,
      lateral (select coalesce(w.totals[size], w.forgotten) as total,
        coalesce(w.totals[gone], w.forgotten) as base,
        greatest(excluded.moments[1], w.moments[size]) as moment) as b,
      lateral (select (gone < size and w.moments[size] = moment)::int as joined) as c
  )
$$
