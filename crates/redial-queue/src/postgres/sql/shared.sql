-- Whoever looks at which jobs of a key there are and acts on it holds the key's lock, until its transaction ends. Always taken
-- before any row, and in one order. Many keys at once would not fit into the server's table of locks: they lock the queue.
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

-- Adds to a queue's tally, in a row that nobody else is adding to.
create function count_up(
    of_queue int, enqueued bigint = 0, done bigint = 0, retried bigint = 0, died bigint = 0, lost bigint = 0,
    stale bigint = 0, dropped bigint = 0
) returns void language plpgsql as $$
declare
    mine bigint;
begin
    -- A snapshot that is as old as the transaction cannot change a row that others change all the time.
    if current_setting('transaction_isolation') = 'read committed' then
        select t.id into mine from tally t where t.queue = of_queue limit 1 for update skip locked;
    end if;
    if mine is null then
        insert into tally (queue, enqueued, done, retried, died, lost, stale, dropped)
        values (of_queue, $2, $3, $4, $5, $6, $7, $8);
        return;
    end if;
    update tally t set
        enqueued = t.enqueued + $2, done = t.done + $3, retried = t.retried + $4, died = t.died + $5,
        lost = t.lost + $6, stale = t.stale + $7, dropped = t.dropped + $8
    where t.id = mine;
end $$;

-- Makes one row of those that nobody is adding to.
create function fold_tally(of_queue int) returns void language plpgsql as $$
begin
    with gone as (
        delete from tally t where t.id = any(array(
            select f.id from tally f where f.queue = of_queue for update skip locked
        )) returning *
    )
    insert into tally (queue, enqueued, done, retried, died, lost, stale, dropped)
    select of_queue, sum(enqueued), sum(done), sum(retried), sum(died), sum(lost), sum(stale), sum(dropped)
    from gone having count(*) > 0;
end $$;

-- Lets jobs of a key out of hold, the oldest first, as many as there is room for. The caller holds the key's lock.
create function promote(of_queue int, of_key text) returns boolean language plpgsql as $$
declare
    room bigint;
begin
    select case when q.per_key > 0 then q.per_key end into room from queue q where q.number = of_queue;
    if room is not null then
        room := room - (select count(*) from job j where j.queue = of_queue and j.key = of_key and j.state = 0)
                     - (select count(*) from job j where j.queue = of_queue and j.key = of_key and j.state = 2);
        if room <= 0 then
            return false;
        end if;
    end if;
    update job set state = 0 where id = any(array(
        select j.id from job j
        where j.queue = of_queue and j.key = of_key and j.state = 1
        order by j.id limit room
    ));
    return found;
end $$;

-- Drops the oldest dead letters of a queue that has more than it may have.
create function drop_dead(of_queue int) returns void language plpgsql as $$
declare
    most bigint;
    n bigint;
begin
    select q.most_dead into most from queue q where q.number = of_queue;
    if most is null then
        return;
    end if;
    perform pg_advisory_xact_lock(hashtextextended(current_schema() || of_queue, 2));
    delete from job where state = 3 and id = any(array(
        select j.id from job j where j.queue = of_queue and j.state = 3
        order by j.due desc, j.id desc offset most
    ));
    get diagnostics n = row_count;
    if n > 0 then
        perform count_up(of_queue, dropped => n);
    end if;
end $$;

-- The history with one attempt more, and those that are too many fewer.
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
