-- Return the bucket of a duration, as `models.stats.durations.bucket_of` does; 0 without one.
create function duration_bucket_1(p_duration interval) returns smallint language sql immutable parallel safe as $$
  select (case when p_duration is null then 0 else
    1 + ceil(2 * ln(least(greatest(extract(epoch from p_duration)::float8 * 1000, 1), 1e10)) / ln(2::float8))
  end)::smallint
$$
