-- Settles claims. Verdicts: 0 done, 1 retry, 2 postpone, 3 dead, 4 retry as a poll. Returns the positions of the claims that still had their lease,
-- and the queues in which held jobs were released.
create function settle(
    ids bigint[], fences bigint[], verdicts smallint[], waits bigint[], steps int[], draws bigint[], tooks bigint[],
    outcomes text[], reasons text[], out taken int[], out woken text[]
) language plpgsql as $$
declare
    running constant smallint := 2;
    t timestamptz;
    one record;
begin
    perform lock_keys(array_agg(j.queue), array_agg(j.key))
    from unnest(ids) as u (id) join job j on j.id = u.id where j.key is not null having count(*) > 0;
    t := clock_timestamp();
    taken := '{}';
    woken := '{}';
    for one in
        with done as (
            delete from job j using unnest(ids, fences, verdicts) with ordinality as u (id, fence, verdict, place)
            where j.id = u.id and j.fence = u.fence and j.state = running and u.verdict = 0
            returning u.place, j.queue, j.key, u.verdict
        ), others as (
            update job j set
                state = case when u.verdict = 3 then 3 else 0 end,
                due = t + coalesce(u.wait, 0) * interval '1 microsecond',
                attempts = j.attempts - (u.verdict = 2)::int,
                step = coalesce(u.step, j.step), drawn = coalesce(u.drawn, j.drawn), reason = u.reason,
                poll = case when u.verdict = 2 then j.poll else u.verdict = 4 end,
                claimed = null, until = null, checked = null,
                history = case when u.verdict = 2 then j.history
                    else remember(j.history, j.attempts, t, u.took, u.outcome) end
            from unnest(ids, fences, verdicts, waits, steps, draws, tooks, outcomes, reasons) with ordinality
                as u (id, fence, verdict, wait, step, drawn, took, outcome, reason, place)
            where j.id = u.id and j.fence = u.fence and j.state = running and u.verdict > 0
            returning u.place, j.queue, j.key, u.verdict
        ), every as (select * from done union all select * from others)
        select e.queue, array_agg(e.place::int) as places, count(*) filter (where e.verdict = 0) as done,
            count(*) filter (where e.verdict in (1, 4)) as again, count(*) filter (where e.verdict = 3) as dead,
            array_agg(distinct e.key) filter (where e.key is not null and e.verdict in (0, 3)) as keys
        from every e group by e.queue
    loop
        taken := taken || one.places;
        perform count_up(one.queue, done => one.done, retried => one.again, died => one.dead);
        if one.dead > 0 then
            perform drop_dead(one.queue);
        end if;
        if promote_all(one.queue, one.keys) then
            woken := woken || (select q.name from queue q where q.number = one.queue);
        end if;
    end loop;
    perform count_stale(fences, taken);
    if random() < 0.002 then
        perform fold_tally(q.number) from queue q where q.number = any(select distinct (f & 16777215)::int from unnest(fences) f);
    end if;
end $$;

create function promote_all(of_queue int, keys text[]) returns boolean language plpgsql as $$
declare
    one text;
    any_woken boolean := false;
begin
    foreach one in array coalesce(keys, '{}') loop
        any_woken := promote(of_queue, one) or any_woken;
    end loop;
    return any_woken;
end $$;

-- Counts the claims that are not among the taken ones, each for the queue in its fence.
create function count_stale(fences bigint[], taken int[]) returns void language plpgsql as $$
begin
    if cardinality(taken) < cardinality(fences) then
        perform count_up(q.number, stale => s.n) from (
            select (u.fence & 16777215)::int as queue, count(*) as n
            from unnest(fences) with ordinality as u (fence, place)
            where u.place <> all (taken) group by 1
        ) s join queue q on q.number = s.queue;
    end if;
end $$;

-- Extends leases. Returns the positions of the claims that still had one.
create function beat(ids bigint[], fences bigint[], lease bigint) returns int[] language plpgsql as $$
declare
    running constant smallint := 2;
    t constant timestamptz := clock_timestamp();
    taken int[];
begin
    with kept as (
        update job j set
            until = t + lease * interval '1 microsecond',
            checked = least(j.checked, t + lease * interval '1 microsecond')
        from unnest(ids, fences) with ordinality as u (id, fence, place)
        where j.id = u.id and j.fence = u.fence and j.state = running
        returning u.place
    )
    select coalesce(array_agg(place::int), '{}') into taken from kept;
    perform count_stale(fences, taken);
    return taken;
end $$;
