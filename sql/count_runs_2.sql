-- Record the changes of a statement in the numbers of runs, and the runs that it ended in the statistics.
--
-- Both are rows of their own, which sweeps add up. A run that has ended counts once, whatever is written later.
-- Runs are accepted before they end, so to insert one counts nothing.
create function count_runs_2()
 returns trigger
 language plpgsql
as $$
begin
    with moved as materialized (
        select account_id, automation_id, status, error, completed_at, started_at, -1 as n
        from former where status is not null
        union all
        select account_id, automation_id, status, error, completed_at, started_at, 1
        from changed where status is not null
    ), counted as (
        insert into run_counts (account_id, automation_id, status, runs)
        select account_id, automation_id, status, sum(n) from moved
        group by account_id, automation_id, status having sum(n) <> 0
    )
    insert into stat_entries (account_id, minute, figure, subject, outcome, code, bucket, amount)
    select account_id, date_trunc('minute', completed_at, 'UTC'), 'runs', automation_id::text, status,
        coalesce(error->>'code', ''), duration_bucket_1(completed_at - started_at), sum(n)
    from moved group by 1, 2, 4, 5, 6, 7 having sum(n) <> 0;
    return null;
end $$
