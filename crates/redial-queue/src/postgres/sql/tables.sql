create table version (version int not null);

create table queue (
    number int primary key generated always as identity (maxvalue 16777215),
    name text not null unique,
    paused boolean not null default false,
    rate_count bigint,
    -- In nanoseconds, as in the engine.
    rate_per bigint,
    rate_burst bigint,
    -- When the token bucket is full again, in nanoseconds since 1970.
    full_at bigint not null default 0,
    per_key bigint not null default 1,
    most_dead bigint
) with (fillfactor = 50);

-- States: 0 waiting, 1 held, 2 running, 3 dead.
create table job (
    id bigint primary key generated always as identity,
    queue int not null,
    state smallint not null check (state between 0 and 3),
    priority smallint not null check (priority between 0 and 7),
    -- The earliest start of a job that is waiting, held or running; of a dead one, when it died.
    due timestamptz not null,
    -- When the last claim was made, and when its lease runs out.
    claimed timestamptz,
    until timestamptz,
    -- When to check the lease; not later than `until`. It is indexed, and a heartbeat does not change it: a heartbeat writes no index.
    checked timestamptz,
    -- The number of the last claim in the upper bits and of the queue in the lower 24, so that a late settlement can be counted
    -- for its queue even if the job is gone.
    fence bigint not null default 0,
    attempts int not null default 0,
    step int not null default 0,
    drawn bigint not null default 0,
    -- Whether the next attempt is a poll, because the last answer was "not yet".
    poll boolean not null default false,
    created timestamptz not null,
    begun timestamptz,
    key text,
    policy text,
    idempotency_key text not null,
    reason text,
    headers json not null,
    history jsonb not null default '[]',
    payload bytea not null
) with (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.2,
    autovacuum_analyze_threshold = 20000
);

create index job_waiting on job (queue, priority, due, id) where state = 0;
create index job_running on job (queue, checked) where state = 2;
create index job_dead on job (queue, id) where state = 3;
create index job_died on job (queue, due, id) where state = 3;
create index job_key on job (queue, key, state, id) where key is not null;

-- Counts the results of jobs. A queue has one row for each concurrent transaction, so that they do not wait for each other.
create table tally (
    id bigint primary key generated always as identity,
    queue int not null,
    enqueued bigint not null default 0,
    done bigint not null default 0,
    retried bigint not null default 0,
    died bigint not null default 0,
    lost bigint not null default 0,
    stale bigint not null default 0,
    dropped bigint not null default 0,
    -- Dead letters that were redriven or removed.
    fetched bigint not null default 0
) with (fillfactor = 20, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

create index tally_queue on tally (queue);
