-- Deliveries. No foreign keys, as with events.
--
-- The live queue: only what is still to be done. One statement moves what ends to the history.
CREATE TABLE delivery (
    id uuid PRIMARY KEY,
    webhook_id uuid NOT NULL,
    -- that of its webhook
    eshop_id uuid,
    event_id uuid NOT NULL,
    next_attempt_at timestamptz NOT NULL,
    attempt_count smallint NOT NULL DEFAULT 0,
    -- failed attempts so far: [{number, at, durationMs, status, error, response}]
    attempts jsonb NOT NULL DEFAULT '[]',
    redelivery_of uuid,
    -- the batch in which it is tried again
    batch_id uuid,
    created_at timestamptz NOT NULL DEFAULT now()
) WITH (
    -- a queue: every row is deleted soon, so dead ones must go as soon
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX delivery_by_due ON delivery (webhook_id, next_attempt_at, id);
-- A delivery is found by its id with this index, whatever the statistics say: `delivery_by_due` ends in the id, too. After a
-- vacuum found the queue empty, Postgres expects no row, takes the key and `delivery_by_due` to cost the same, and may read
-- all of the latter, with its dead entries, for each outcome. A hash has no levels to descend, so it always costs less.
CREATE INDEX delivery_by_id ON delivery USING hash (id);
-- what an ordered lane must send before anything newer; empty while destinations are well
CREATE INDEX delivery_tried ON delivery (webhook_id, created_at, id) WHERE attempt_count > 0;
-- Retries by time: workers look several times a second for what has just become due, and must not go over every lane for
-- it. Only failed deliveries are in it, and those that wait for their batch, so a healthy destination pays nothing.
CREATE INDEX delivery_retry ON delivery (next_attempt_at, webhook_id) WHERE attempt_count > 0 OR next_attempt_at > created_at;
CREATE INDEX delivery_by_batch ON delivery (batch_id) WHERE batch_id IS NOT NULL;
-- Redeliveries by event: each batch of a recovery looks whether its events are under way. A first delivery pays nothing.
CREATE INDEX delivery_redelivered ON delivery (webhook_id, event_id) WHERE redelivery_of IS NOT NULL;

-- Batches that a worker has begun, each written before its first attempt: whoever takes the lane over sends the same. What
-- became of one is recorded with its deliveries, by the statement that removes it.
CREATE TABLE webhook_batch (
    webhook_id uuid NOT NULL,
    id uuid NOT NULL,
    -- in the order in which they are sent
    deliveries uuid[] NOT NULL,
    PRIMARY KEY (webhook_id, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE delivery_history (
    id uuid NOT NULL,
    webhook_id uuid NOT NULL,
    eshop_id uuid,
    organisation_id uuid NOT NULL,
    event_id uuid NOT NULL,
    event_type text NOT NULL,
    entity_id uuid NOT NULL,
    state text NOT NULL CONSTRAINT an_ended_delivery_is_delivered_exhausted_or_cancelled
        CHECK (state IN ('delivered', 'exhausted', 'cancelled')),
    attempt_count smallint NOT NULL,
    attempts jsonb NOT NULL,
    redelivery_of uuid,
    -- the last one in which it was sent
    batch_id uuid,
    created_at timestamptz NOT NULL,
    finished_at timestamptz NOT NULL,
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE TABLE delivery_history_default PARTITION OF delivery_history DEFAULT;
CREATE INDEX delivery_history_by_webhook ON delivery_history (webhook_id, id);
CREATE INDEX delivery_history_by_entity ON delivery_history (entity_id, id);
CREATE INDEX delivery_history_by_organisation ON delivery_history (organisation_id, id);
CREATE INDEX delivery_history_by_eshop ON delivery_history (eshop_id, id);
-- rows come in the order of time, so a summary of blocks finds it, at almost no cost for a write
CREATE INDEX delivery_history_by_creation ON delivery_history USING brin (created_at);
CREATE INDEX delivery_history_by_end ON delivery_history USING brin (finished_at);
-- what did not succeed, and what was sent again: both few while destinations are well
CREATE INDEX delivery_history_unsuccessful ON delivery_history (webhook_id, finished_at) WHERE state <> 'delivered';
-- What was delivered long after it was made, which its id does not tell: the rest of a period is found by the ids of its
-- time. Few while destinations are well.
CREATE INDEX delivery_history_late ON delivery_history (webhook_id, finished_at)
    WHERE state = 'delivered' AND finished_at - created_at > interval '1 hour';
CREATE INDEX delivery_history_redelivered ON delivery_history (webhook_id, event_id) WHERE redelivery_of IS NOT NULL;
-- equal keys are stored once, so a batch costs little more than one delivery
CREATE INDEX delivery_history_by_batch ON delivery_history (batch_id) WHERE batch_id IS NOT NULL;
REVOKE ALL ON delivery_history_default FROM longshore_service;

INSERT INTO history (table_name, span, keep_days, age_column) VALUES ('delivery_history', 'week', 30, 'finished_at');
