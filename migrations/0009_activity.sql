-- What the service did, by the minute, for the operator's charts (shared/kernel/src/activity.rs). Counting the records
-- themselves would read millions of them; this is a few dozen rows a minute at any load.
CREATE TABLE activity (
    minute timestamptz NOT NULL,
    subject text NOT NULL CONSTRAINT subject_is_known CHECK (subject IN ('job', 'delivery')),
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
