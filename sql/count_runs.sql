-- Record the changes of a statement in the numbers of runs by workflow and status; a sweep adds the rows up.
create function count_runs()
 returns trigger
 language plpgsql
as $$
begin
    if tg_op = 'INSERT' then
        insert into run_counts (account_id, automation_id, status, runs)
        select account_id, automation_id, status, count(*) from changed where status is not null
        group by account_id, automation_id, status;
    elsif tg_op = 'DELETE' then
        insert into run_counts (account_id, automation_id, status, runs)
        select account_id, automation_id, status, -count(*) from former where status is not null
        group by account_id, automation_id, status;
    else
        insert into run_counts (account_id, automation_id, status, runs)
        select account_id, automation_id, status, sum(n) from (
            select account_id, automation_id, status, -1 as n from former where status is not null
            union all
            select account_id, automation_id, status, 1 from changed where status is not null
        ) as moved
        group by account_id, automation_id, status having sum(n) <> 0;
    end if;
    return null;
end $$
