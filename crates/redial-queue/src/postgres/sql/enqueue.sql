-- Returns each job's outcome (0 added, 1 replaced, 2 kept, 3 refused) and number, in the order of the arrays.
create function enqueue(
    name text, payloads bytea[], headers text[], keys text[], whens smallint[], priorities smallint[],
    delays bigint[], starts bigint[], policies text[], idempotency_keys text[]
) returns table (what smallint, id bigint) language plpgsql as $$
declare
    q queue;
    t timestamptz;
    n bigint := 0;
    one record;
begin
    select * into q from queue where queue.name = $1;
    if not found then
        insert into queue (name) values ($1) on conflict do nothing;
        select * into q from queue where queue.name = $1;
    end if;
    if q.per_key > 0 or 0 < any(whens) then
        perform lock_keys(array_fill(q.number, array[cardinality(keys)]), keys);
    end if;
    t := clock_timestamp();

    if array_position(whens, 0::smallint) is not null and not 0 < any(whens)
        and (q.per_key = 0 or cardinality(array_remove(keys, null)) = 0) then
        return query
            insert into job (queue, state, priority, due, created, key, policy, idempotency_key, headers, payload)
            select q.number, 0, p, start_of(t, d, s), t, k, pol, idem, h::json, pay
            from unnest(payloads, $3, keys, priorities, delays, starts, policies, idempotency_keys)
                with ordinality as u (pay, h, k, p, d, s, pol, idem, ord)
            order by ord
            returning 0::smallint, job.id;
        n := cardinality(payloads);
    else
        for one in
            select * from unnest(payloads, $3, keys, whens, priorities, delays, starts, policies, idempotency_keys)
                with ordinality as u (pay, head, k, how, p, delay, start, pol, idem, place)
            order by place
        loop
            select * into what, id from enqueue_one(
                q.number, q.per_key, t, one.pay, one.head, one.k, one.how, one.p,
                start_of(t, one.delay, one.start), one.pol, one.idem
            );
            n := n + (what = 0)::int;
            return next;
        end loop;
    end if;
    if n > 0 then
        perform count_up(q.number, enqueued => n);
    end if;
end $$;

create function start_of(t timestamptz, delay bigint, start bigint) returns timestamptz language sql stable as $$
    select case when start is null then t + delay * interval '1 microsecond'
        else timestamptz 'epoch' + start * interval '1 microsecond' end
$$;

-- Enqueues one job. The caller holds the lock of its key.
create function enqueue_one(
    of_queue int, per_key bigint, t timestamptz, pay bytea, head text, of_key text, how smallint, level smallint,
    start timestamptz, pol text, idem text, out what smallint, out id bigint
) language plpgsql as $$
declare
    waiting constant smallint := 0;
    held constant smallint := 1;
    other job;
    hold boolean := false;
begin
    if of_key is not null and how > 0 then
        select * into other from job j where j.state <= held and j.id = greatest(
            (select k.id from job k
                where k.queue = of_queue and k.key = of_key and k.state >= waiting and k.state <= waiting
                order by k.state desc, k.id desc limit 1),
            (select k.id from job k
                where k.queue = of_queue and k.key = of_key and k.state >= held and k.state <= held
                order by k.state desc, k.id desc limit 1)
        ) for update;
        if found then
            what := how;
            id := other.id;
            if how = 1 then
                update job set
                    payload = pay, headers = head::json, priority = level, policy = pol, idempotency_key = idem,
                    attempts = 0, step = 0, drawn = 0, poll = false, history = '[]', begun = null,
                    due = case when other.attempts > 0 then greatest(other.due, start) else start end
                where job.id = other.id;
            end if;
            return;
        end if;
    end if;
    if of_key is not null and per_key > 0 then
        hold := room_for(of_queue, of_key, per_key) = 0;
        -- There is room, but older jobs of the key may still be held: they go first.
        if not hold and promote(of_queue, of_key) then
            hold := room_for(of_queue, of_key, per_key) = 0;
        end if;
    end if;
    what := 0;
    insert into job (queue, state, priority, due, created, key, policy, idempotency_key, headers, payload)
    values (of_queue, hold::int, level, start, t, of_key, pol, idem, head::json, pay)
    returning job.id into enqueue_one.id;
end $$;
