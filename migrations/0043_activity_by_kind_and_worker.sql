-- What the service did by the minute in more detail, for the operator's charts and counts (shared/kernel/src/activity.rs): by the
-- kind of job, by the worker, and what was exhausted at each webhook. As with the rest of the activity, processes count in memory
-- and add to these rows every few seconds, and what is older than a day is summed up by the hour.
CREATE TABLE job_activity (
    kind text NOT NULL,
    minute timestamptz NOT NULL,
    succeeded bigint NOT NULL CONSTRAINT succeeded_is_not_negative CHECK (succeeded >= 0),
    failed bigint NOT NULL CONSTRAINT failed_is_not_negative CHECK (failed >= 0),
    -- how long all of them took together, and the slowest one
    milliseconds bigint NOT NULL CONSTRAINT milliseconds_are_not_negative CHECK (milliseconds >= 0),
    slowest bigint NOT NULL CONSTRAINT slowest_is_not_negative CHECK (slowest >= 0),
    PRIMARY KEY (kind, minute)
) WITH (fillfactor = 50); -- counting up stays within the page
CREATE INDEX job_activity_by_minute ON job_activity (minute);

CREATE TABLE worker_activity (
    -- <host>-<process id>
    worker text NOT NULL,
    minute timestamptz NOT NULL,
    -- jobs that it ended, and its calls to destinations
    jobs bigint NOT NULL CONSTRAINT jobs_are_not_negative CHECK (jobs >= 0),
    jobs_failed bigint NOT NULL CONSTRAINT failed_jobs_are_not_negative CHECK (jobs_failed >= 0),
    calls bigint NOT NULL CONSTRAINT calls_are_not_negative CHECK (calls >= 0),
    calls_failed bigint NOT NULL CONSTRAINT failed_calls_are_not_negative CHECK (calls_failed >= 0),
    -- the most bytes of memory that it used; null: its system does not say it
    memory bigint,
    PRIMARY KEY (worker, minute)
) WITH (fillfactor = 50);
-- the workers that were there last are found by it alone
CREATE INDEX worker_activity_by_minute ON worker_activity (minute, worker);

-- Deliveries that were given up. Few while destinations are well, so that a day is counted on every page of the console.
CREATE TABLE exhausted_activity (
    minute timestamptz NOT NULL,
    -- no foreign key: it would lock the webhook with each write; old rows are removed by their age
    webhook_id uuid NOT NULL,
    deliveries bigint NOT NULL CONSTRAINT some_were_exhausted CHECK (deliveries > 0),
    PRIMARY KEY (minute, webhook_id)
) WITH (fillfactor = 50);
