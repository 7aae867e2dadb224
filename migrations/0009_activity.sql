-- What the service did, by the minute, for the operator's charts (shared/kernel/src/activity.rs). Counting the records
-- themselves would read millions of them; this is a few dozen rows a minute at any load.
CREATE TABLE activity (
    minute timestamptz NOT NULL,
    subject text NOT NULL CONSTRAINT subject_has_a_queue
        CHECK (subject IN ('job', 'delivery', 'partner', 'handover', 'upkeep')),
    -- as it is stored with the subject: succeeded, failed, cancelled; delivered, failed, exhausted
    outcome text NOT NULL,
    -- how long it took: at most 2^slot milliseconds, and more than half of that
    slot smallint NOT NULL CONSTRAINT slot_is_0_to_31 CHECK (slot BETWEEN 0 AND 31),
    count bigint NOT NULL CONSTRAINT something_happened CHECK (count > 0),
    PRIMARY KEY (minute, subject, outcome, slot)
);

-- How much was waiting at that minute; a minute without a row had no worker to look.
CREATE TABLE backlog (
    minute timestamptz PRIMARY KEY,
    jobs_open bigint NOT NULL,
    jobs_oldest_seconds double precision NOT NULL,
    deliveries_due bigint NOT NULL,
    deliveries_oldest_seconds double precision NOT NULL
);

-- The same in more detail: by the kind of job, by the worker, and what was exhausted at each webhook. Processes count in
-- memory and add to these rows every few seconds, and what is older than a day is summed up by the hour.
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
-- The webhooks that deliveries were exhausted at (shared/domain/src/webhook/health/exhausted.rs): a look skips from one to the
-- next, however many minutes each has.
CREATE INDEX exhausted_activity_by_webhook ON exhausted_activity (webhook_id, minute);
