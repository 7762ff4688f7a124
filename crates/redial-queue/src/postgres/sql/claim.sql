-- Leases jobs. The last row has no `id`. Its `micros` is the time until there may be more jobs, or null if the queue is empty. Its
-- `status` is 1 if nothing was claimed because the queue has a rate: the caller then passes how many jobs the rate allows.
-- The `status` of a job is 1 if its next attempt is a poll.
create function claim(of_queue text, most int, lease bigint, allowed int) returns table (
    id bigint, fence bigint, status int, micros bigint, state smallint, priority smallint, due timestamptz,
    created timestamptz, begun timestamptz, attempts int, step int, drawn bigint, key text, policy text,
    idempotency_key text, reason text, headers text, history text, payload bytea
) language plpgsql as $$
declare
    q queue;
    t timestamptz;
    ids bigint[];
    n_lost int;
begin
    select * into q from queue where queue.name = of_queue;
    if not found or q.paused then
        status := 0;
        return next;
        return;
    end if;
    if q.rate_count is not null and allowed is null then
        status := 1;
        return next;
        return;
    end if;
    t := clock_timestamp();
    most := least(most, coalesce(allowed, most));
    select c.ids, c.n_lost into ids, n_lost from choose(q.number, most, t) c;
    if cardinality(ids) > 0 then
        return query
            with taken as (
                update job j set
                    state = 2, attempts = j.attempts + 1, fence = (((j.fence >> 24) + 1) << 24) | q.number,
                    claimed = t, until = t + lease * interval '1 microsecond',
                    checked = t + lease * interval '1 microsecond', begun = coalesce(j.begun, t),
                    history = case when j.state = 2 then remember(
                        j.history, j.attempts, j.until, greatest(0, (extract(epoch from j.until - j.claimed) * 1000000)::bigint),
                        'the lease ran out: the worker was not heard of again'
                    ) else j.history end,
                    poll = j.poll and j.state = 0
                from unnest(ids) as chosen (id) where j.id = chosen.id
                returning j.*
            )
            select k.id, k.fence, k.poll::int, (extract(epoch from t - k.begun) * 1000000)::bigint, k.state, k.priority,
                k.until, k.created, k.begun, k.attempts, k.step, k.drawn, k.key, k.policy, k.idempotency_key, k.reason,
                k.headers::text, k.history::text, k.payload
            from taken k
            order by k.due + (7 - k.priority) * interval '10 seconds', k.id;
    end if;
    if n_lost > 0 then
        perform count_up(q.number, lost => n_lost);
    end if;
    id := null;
    status := 0;
    micros := next_in(q.number, t, cardinality(ids) = most);
    return next;
end $$;

-- The numbers of due jobs, which are locked, and how many of them had a lease that ran out. Each priority gets as many as the
-- common order of all due jobs gives it. Of expired leases, only the first thousand are considered.
create function choose(of_queue int, most int, t timestamptz, out ids bigint[], out n_lost int) language plpgsql as $$
declare
    running constant smallint := 2;
    level record;
    lost bigint[];
begin
    -- Leases that a heartbeat has extended are checked again when they run out.
    update job set checked = until where id = any(array(
        select j.id from job j
        where j.queue = of_queue and j.state = 2 and j.checked <= t and j.until > t
        order by j.checked limit 100 for update skip locked
    ));
    ids := '{}';
    n_lost := 0;
    for level in
        select f.p, count(*) as n, array_agg(f.id) filter (where f.p is null) as back from (
            select h.p, h.id from (
                select p, j.id, j.due + (7 - p) * interval '10 seconds' as turn
                from generate_series(0, 7) p cross join lateral (
                    select i.id, i.due from job i
                    where i.queue = of_queue and i.priority = p and i.state = 0 and i.due <= t
                    order by i.due, i.id limit most
                ) j
                union all
                select null, j.id, j.due + (7 - j.priority) * interval '10 seconds' from (
                    select i.id, i.due, i.priority from job i
                    where i.queue = of_queue and i.state = 2 and i.checked <= t and i.until <= t
                    order by i.checked limit 1000 + most
                ) j
            ) h order by h.turn, h.id limit most
        ) f group by f.p
    loop
        if level.p is not null then
            ids := ids || array(
                select i.id from job i
                where i.queue = of_queue and i.priority = level.p and i.state = 0 and i.due <= t
                order by i.due, i.id limit level.n for update skip locked
            );
            continue;
        end if;
        lost := array(
            select i.id from job i where i.id = any(level.back) and i.state = running and i.until <= t for update skip locked
        );
        -- Jobs that another worker is claiming are replaced by others.
        if cardinality(lost) < level.n then
            lost := lost || array(
                select i.id from job i
                where i.queue = of_queue and i.state = 2 and i.checked <= t and i.until <= t and i.id <> all (lost)
                order by i.checked limit level.n - cardinality(lost) for update skip locked
            );
        end if;
        ids := ids || lost;
        n_lost := cardinality(lost);
    end loop;
end $$;

-- The time until there may be something to claim, in microseconds. If fewer jobs were claimed than wanted, another worker is
-- claiming the remaining due ones right now.
create function next_in(of_queue int, t timestamptz, took_all boolean) returns bigint language plpgsql as $$
declare
    n timestamptz;
begin
    select least(
        (select min(j.due) from generate_series(0, 7) p cross join lateral (
            select i.due from job i where i.queue = of_queue and i.priority = p and i.state = 0
            order by i.due, i.id limit 1
        ) j),
        (select j.checked from job j where j.queue = of_queue and j.state = 2 order by j.checked limit 1)
    ) into n;
    return case
        when n is null then null
        when n > t then ceil(extract(epoch from n - t) * 1000000)::bigint
        when took_all then 0
        else 20000
    end;
end $$;
