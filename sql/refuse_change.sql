-- Refuse to change or delete rows that are written once.
create function refuse_change()
 returns trigger
 language plpgsql
as $$
begin
    raise exception 'rows of % are written once', tg_table_name using errcode = 'restrict_violation';
end $$
