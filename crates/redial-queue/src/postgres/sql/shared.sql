-- A transaction that acts on which jobs of a key exist holds the key's lock until it ends. The locks are taken before any row
-- lock, and always in the same order. Many keys would not fit into the server's lock table: they lock the whole queue.
create function lock_keys(queues int[], keys text[]) returns void language plpgsql as $$
declare
    space constant text := current_schema();
    many constant boolean := cardinality(keys) > 200;
    one bigint;
begin
    for one in
        select distinct hashtextextended(space || q, 0) as h
        from unnest(queues, keys) as u (q, k) where k is not null order by h
    loop
        if many then
            perform pg_advisory_xact_lock(one);
        else
            perform pg_advisory_xact_lock_shared(one);
        end if;
    end loop;
    if not many then
        for one in
            select distinct hashtextextended(space || q || ' ' || k, 1) as h
            from unnest(queues, keys) as u (q, k) where k is not null order by h
        loop
            perform pg_advisory_xact_lock(one);
        end loop;
    end if;
end $$;

-- Adds to a queue's tally, in a row that no other transaction is updating.
create function count_up(
    of_queue int, enqueued bigint = 0, done bigint = 0, retried bigint = 0, died bigint = 0, lost bigint = 0,
    stale bigint = 0, dropped bigint = 0, fetched bigint = 0
) returns void language plpgsql as $$
declare
    mine bigint;
begin
    -- At other isolation levels, updating a row that others update all the time would be a serialisation failure.
    if current_setting('transaction_isolation') = 'read committed' then
        select t.id into mine from tally t where t.queue = of_queue limit 1 for update skip locked;
    end if;
    if mine is null then
        insert into tally (queue, enqueued, done, retried, died, lost, stale, dropped, fetched)
        values (of_queue, $2, $3, $4, $5, $6, $7, $8, $9);
        return;
    end if;
    update tally t set
        enqueued = t.enqueued + $2, done = t.done + $3, retried = t.retried + $4, died = t.died + $5,
        lost = t.lost + $6, stale = t.stale + $7, dropped = t.dropped + $8, fetched = t.fetched + $9
    where t.id = mine;
end $$;

-- Merges the rows of a queue's tally that no other transaction is updating.
create function fold_tally(of_queue int) returns void language plpgsql as $$
begin
    with gone as (
        delete from tally t where t.id = any(array(
            select f.id from tally f where f.queue = of_queue for update skip locked
        )) returning *
    )
    insert into tally (queue, enqueued, done, retried, died, lost, stale, dropped, fetched)
    select of_queue, sum(enqueued), sum(done), sum(retried), sum(died), sum(lost), sum(stale), sum(dropped), sum(fetched)
    from gone having count(*) > 0;
end $$;

-- A plan that was made while the tables were empty is kept, so it must not scan a table that has grown since. Where the index
-- has to be `job_key`, the state is a variable, which rules out the partial indexes, and the order begins with the state.

-- How many more jobs of a key may be waiting or running; null means any number. The caller holds the key's lock.
create function room_for(of_queue int, of_key text, per_key bigint) returns bigint language plpgsql as $$
declare
    waiting constant smallint := 0;
    running constant smallint := 2;
begin
    if per_key = 0 then
        return null;
    end if;
    return greatest(0, per_key
        - (select count(*) from job j where j.queue = of_queue and j.key = of_key and j.state = waiting)
        - (select count(*) from job j where j.queue = of_queue and j.key = of_key and j.state = running));
end $$;

-- Releases held jobs of a key, oldest first, as many as there is room for. The caller holds the key's lock.
create function promote(of_queue int, of_key text) returns boolean language plpgsql as $$
declare
    held constant smallint := 1;
    room bigint;
begin
    select room_for(of_queue, of_key, q.per_key) into room from queue q where q.number = of_queue;
    if room = 0 then
        return false;
    end if;
    update job set state = 0 where id = any(array(
        select j.id from job j
        where j.queue = of_queue and j.key = of_key and j.state >= held and j.state <= held
        order by j.state, j.id limit room
    ));
    return found;
end $$;

-- Drops the oldest dead letters of a queue that exceeds its limit.
create function drop_dead(of_queue int) returns void language plpgsql as $$
declare
    most bigint;
    n bigint;
    dead constant smallint := 3;
begin
    select q.most_dead into most from queue q where q.number = of_queue;
    if most is null then
        return;
    end if;
    perform pg_advisory_xact_lock(hashtextextended(current_schema() || of_queue, 2));
    select sum(y.died - y.dropped - y.fetched) - most into n from tally y where y.queue = of_queue;
    if n is null or n <= 0 then
        return;
    end if;
    delete from job where state = dead and id = any(array(
        select j.id from job j where j.queue = of_queue and j.state = 3 order by j.due, j.id limit n
    ));
    get diagnostics n = row_count;
    if n > 0 then
        perform count_up(of_queue, dropped => n);
    end if;
end $$;

-- Appends an attempt to a history, and drops the oldest ones that exceed the limit.
create function remember(history jsonb, number int, ended timestamptz, took bigint, outcome text)
returns jsonb language plpgsql immutable as $$
begin
    history := history || jsonb_build_array(jsonb_build_array(
        number, (extract(epoch from ended) * 1000000)::bigint, took, outcome
    ));
    while jsonb_array_length(history) > 20 loop
        history := history - 0;
    end loop;
    return history;
end $$;
