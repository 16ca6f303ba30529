-- Return the moment from which a source has this many places free: now, or when enough requests have left
-- each window.
--
-- A waiting caller (`p_waits`) gets four fifths of a window, rounded down, and at least one request. More
-- places than a window ever has are computed as if it were used up again and again.
create function source_place_1(
  p_bucket text, p_requests int[], p_seconds int[], p_waits boolean, p_places bigint, p_now timestamptz
) returns timestamptz language sql stable as $$
  select coalesce(max(
    case when missing > 0 then moments[1 + width_bucket(base + missing - 1, totals)] + length else p_now end
      + (p_places - 1) / share * length
  ), p_now)
  from unnest(p_requests, p_seconds) as r (requests, seconds)
    left join source_windows w on w.bucket = p_bucket and w.seconds = r.seconds,
    lateral (select make_interval(secs => r.seconds) as length,
      case when p_waits then greatest(1, requests::bigint * 4 / 5) else requests end as share) as a,
    lateral (select width_bucket(p_now - length, moments) as gone) as b,
    lateral (select coalesce(totals[gone], forgotten, 0) as base) as c,
    lateral (select coalesce(totals[cardinality(totals)], forgotten, 0) - base
      - share + (p_places - 1) % share + 1 as missing) as d
$$
