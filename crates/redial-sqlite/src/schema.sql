-- One row. `time` is the latest saved time of the store; `wall`, `boot` and `uptime` are the clocks of the machine at that
-- moment. `repairs` counts the repairs of the time, `fence` the claims.
CREATE TABLE redial_store (
    version INTEGER NOT NULL,
    time INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    wall INTEGER NOT NULL,
    boot TEXT,
    uptime INTEGER,
    repairs INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE redial_queue (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    paused INTEGER NOT NULL DEFAULT 0,
    rate_count INTEGER,
    rate_per INTEGER,
    rate_burst INTEGER,
    full_at INTEGER NOT NULL DEFAULT 0,
    per_key INTEGER NOT NULL DEFAULT 1,
    most_dead INTEGER,
    waiting INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0,
    enqueued INTEGER NOT NULL DEFAULT 0,
    done INTEGER NOT NULL DEFAULT 0,
    retried INTEGER NOT NULL DEFAULT 0,
    died INTEGER NOT NULL DEFAULT 0,
    lost INTEGER NOT NULL DEFAULT 0,
    stale INTEGER NOT NULL DEFAULT 0,
    dropped INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Times are in microseconds since 1970. state: 0 waiting or running, 1 held, 2 dead; `due` of a dead job is when it died.
-- poll: 1 if the next attempt is a poll, because the last answer was "not yet".
-- A running job is in redial_running as well, whose values take precedence: a claim does not write to this table.
CREATE TABLE redial_job (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue INTEGER NOT NULL,
    state INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    due INTEGER NOT NULL,
    created INTEGER NOT NULL,
    begun INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0,
    step INTEGER NOT NULL DEFAULT 0,
    drawn INTEGER NOT NULL DEFAULT 0,
    poll INTEGER NOT NULL DEFAULT 0,
    key TEXT,
    policy TEXT,
    idempotency_key TEXT NOT NULL,
    reason TEXT,
    headers TEXT NOT NULL,
    history TEXT NOT NULL DEFAULT '[]',
    payload BLOB NOT NULL
) STRICT;
CREATE INDEX redial_keyed ON redial_job (queue, key, state, id) WHERE key IS NOT NULL;
CREATE INDEX redial_held ON redial_job (queue, id) WHERE state = 1;
CREATE INDEX redial_dead ON redial_job (queue, id) WHERE state = 2;
CREATE INDEX redial_died ON redial_job (queue, due, id) WHERE state = 2;

-- Waiting jobs that are not held, in the order of claims.
CREATE TABLE redial_ready (
    queue INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    due INTEGER NOT NULL,
    id INTEGER NOT NULL,
    PRIMARY KEY (queue, priority, due, id)
) STRICT, WITHOUT ROWID;

-- Running jobs: when they were claimed, and when their lease runs out.
CREATE TABLE redial_running (
    id INTEGER PRIMARY KEY,
    queue INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    due INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    since INTEGER NOT NULL,
    until INTEGER NOT NULL,
    begun INTEGER NOT NULL,
    attempts INTEGER NOT NULL
) STRICT;
CREATE INDEX redial_lease ON redial_running (queue, until);

-- Responses by idempotency key; null while the request is being executed.
CREATE TABLE redial_idempotency (
    key BLOB NOT NULL PRIMARY KEY,
    fingerprint BLOB NOT NULL,
    owner BLOB NOT NULL,
    lease INTEGER NOT NULL,
    ends INTEGER NOT NULL,
    response BLOB
) STRICT;
CREATE INDEX redial_idempotency_ends ON redial_idempotency (ends);
