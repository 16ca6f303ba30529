-- Create the weekly partitions that will be needed soon.
create function make_history_partitions(ahead interval)
 returns void
 language plpgsql
as $$
declare
  whole text;
  child text;
  week timestamptz;
  upto uuid;
begin
  perform pg_advisory_xact_lock(hashtext('make_history_partitions'));
  foreach whole in array array['runs', 'run_steps', 'run_step_items', 'events', 'deliveries', 'delivery_attempts'] loop
    select p.upper_id into upto from history_partitions p where p.parent = whole
    order by p.upper_id desc limit 1;
    week := date_trunc('week', now() - interval '24 hours', 'UTC');
    while week < now() + ahead loop
      if upto is null or first_id(week) >= upto then
        child := whole || to_char(week at time zone 'UTC', '_YYYYMMDD');
        execute format('create table %I (like %I including defaults including constraints)', child, whole);
        if whole = 'runs' then
          execute format(
            'alter table %I set (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01),'
            ' add constraint id_time check ('
            'uuid_extract_timestamp(id) between queued_at - interval ''24 hours'''
            ' and queued_at + interval ''24 hours'')', child);
        end if;
        execute format('alter table %I attach partition %I for values from (%L) to (%L)',
                       whole, child, first_id(week), first_id(week + interval '168 hours'));
      end if;
      week := week + interval '168 hours';
    end loop;
  end loop;
end $$
