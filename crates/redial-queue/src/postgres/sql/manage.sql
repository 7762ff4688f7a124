-- Removes the given jobs that are not running and, if a state is given, are in that state. Returns how many, and the queues in
-- which held jobs were released.
create function remove_jobs(ids bigint[], in_state smallint, out removed bigint, out woken text[]) language plpgsql as $$
declare
    one record;
begin
    perform lock_keys(array_agg(j.queue), array_agg(j.key))
    from unnest(ids) as u (id) join job j on j.id = u.id where j.key is not null having count(*) > 0;
    removed := 0;
    woken := '{}';
    for one in
        with gone as (
            delete from job j where j.id = any(array(
                select f.id from job f
                where f.id = any(ids) and f.state <> 2 and (in_state is null or f.state = in_state)
                order by f.id for update
            )) returning j.queue, j.key, j.state
        )
        select g.queue, count(*) as n, count(*) filter (where g.state = 3) as dead,
            array_agg(distinct g.key) filter (where g.key is not null and g.state = 0) as keys
        from gone g group by g.queue
    loop
        removed := removed + one.n;
        if one.dead > 0 then
            perform count_up(one.queue, fetched => one.dead);
        end if;
        if promote_all(one.queue, one.keys) then
            woken := woken || (select q.name from queue q where q.number = one.queue);
        end if;
    end loop;
end $$;

-- Puts the given dead letters back into their queues, in the order of their numbers.
create function redrive_jobs(ids bigint[], after bigint, apart bigint, out redriven bigint, out woken text[])
language plpgsql as $$
declare
    t timestamptz;
    dead bigint[];
    one record;
begin
    perform lock_keys(array_agg(j.queue), array_agg(j.key))
    from unnest(ids) as u (id) join job j on j.id = u.id where j.key is not null having count(*) > 0;
    t := clock_timestamp();
    dead := array(select f.id from job f where f.id = any(ids) and f.state = 3 order by f.id for update);
    redriven := cardinality(dead);
    woken := '{}';
    for one in
        with back as (
            update job j set
                state = case when j.key is null or q.per_key = 0 then 0 else 1 end,
                due = least(
                    t + after * interval '1 microsecond' + (u.place - 1) * apart::float8 * interval '1 microsecond',
                    timestamptz '9999-12-31'
                ),
                attempts = 0, step = 0, drawn = 0, poll = false, begun = null, reason = null
            from unnest(dead) with ordinality as u (id, place), queue q
            where j.id = u.id and q.number = j.queue
            returning j.queue, j.key, j.state, q.name
        )
        select b.queue, b.name, count(*) as n, array_agg(distinct b.key) filter (where b.state = 1) as keys
        from back b group by b.queue, b.name
    loop
        perform count_up(one.queue, fetched => one.n);
        perform promote_all(one.queue, one.keys);
        woken := woken || one.name;
    end loop;
end $$;

create function change_queue(
    of_name text, is_paused boolean, count bigint, per bigint, burst bigint, keyed bigint, dead bigint
) returns void language plpgsql as $$
begin
    insert into queue as q (name, paused, rate_count, rate_per, rate_burst, per_key, most_dead)
    values ($1, $2, $3, $4, $5, $6, $7)
    on conflict (name) do update set
        paused = $2, rate_count = $3, rate_per = $4, rate_burst = $5, per_key = $6, most_dead = $7;
    perform drop_dead(q.number) from queue q where q.name = $1;
end $$;

create function counts(of_name text) returns table (
    due bigint, later bigint, held bigint, running bigint, dead bigint, oldest bigint, enqueued bigint, done bigint,
    retried bigint, died bigint, lost bigint, stale bigint, dropped bigint
) language sql as $$
    select
        levels.due, levels.later,
        (select count(*) from job j where j.queue = q.number and j.key is not null and j.state = 1),
        (select count(*) from job j where j.queue = q.number and j.state = 2),
        sums.died - sums.dropped - sums.fetched,
        greatest(0, (extract(epoch from t - levels.first) * 1000000)::bigint),
        sums.enqueued, sums.done, sums.retried, sums.died, sums.lost, sums.stale, sums.dropped
    from queue q cross join (select clock_timestamp() as t) as clock cross join lateral (
        select sum(y.enqueued)::bigint as enqueued, sum(y.done)::bigint as done, sum(y.retried)::bigint as retried,
            sum(y.died)::bigint as died, sum(y.lost)::bigint as lost, sum(y.stale)::bigint as stale,
            sum(y.dropped)::bigint as dropped, sum(y.fetched)::bigint as fetched
        from tally y where y.queue = q.number
    ) as sums cross join lateral (
        select sum(d.n)::bigint as due, sum(l.n)::bigint as later, min(f.due) as first
        from generate_series(0, 7) p cross join lateral (
            select count(*) as n from job j where j.queue = q.number and j.priority = p and j.state = 0 and j.due <= t
        ) d cross join lateral (
            select count(*) as n from job j where j.queue = q.number and j.priority = p and j.state = 0 and j.due > t
        ) l left join lateral (
            select j.due from job j where j.queue = q.number and j.priority = p and j.state = 0 order by j.due, j.id limit 1
        ) f on true
    ) as levels
    where q.name = of_name
$$;
