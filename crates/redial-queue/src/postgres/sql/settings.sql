-- The functions that clients call find the others whatever the client's search path is. They are planned without statistics: a
-- table that was empty a moment ago has none yet, and every statement here is meant to be an index scan.
do $$
declare
    f regprocedure;
begin
    for f in
        select p.oid from pg_proc p where p.pronamespace = current_schema()::regnamespace and p.proname in (
            'enqueue', 'claim', 'settle', 'beat', 'remove_jobs', 'redrive_jobs', 'change_queue', 'counts'
        )
    loop
        execute format('alter function %s set search_path = %I, pg_temp', f, current_schema());
        execute format('alter function %s set enable_seqscan = off', f);
        if f::text not like '%counts(%' then
            execute format('alter function %s set enable_bitmapscan = off', f);
            execute format('alter function %s set enable_hashjoin = off', f);
            execute format('alter function %s set enable_mergejoin = off', f);
            execute format('alter function %s set plan_cache_mode = force_generic_plan', f);
        end if;
    end loop;
end $$;
