-- Events and their deliveries (decisions, section 7). No foreign keys: they cost a quarter of the rate of a bulk change
-- (design, "Speed is designed in"), and what they would guard is written by one statement.
CREATE TABLE event (
    id uuid NOT NULL,
    type text NOT NULL,
    organisation_id uuid NOT NULL,
    entity_type text NOT NULL,
    entity_id uuid NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    -- the `data` of the webhook's body
    data jsonb NOT NULL,
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE TABLE event_default PARTITION OF event DEFAULT;

-- The live queue: only what is still to be done. What ends is moved to the history by one statement.
CREATE TABLE delivery (
    id uuid PRIMARY KEY,
    webhook_id uuid NOT NULL,
    eshop_id uuid NOT NULL,
    event_id uuid NOT NULL,
    next_attempt_at timestamptz NOT NULL,
    attempt_count smallint NOT NULL DEFAULT 0,
    -- failed attempts so far: [{number, at, durationMs, status, error, response}]
    attempts jsonb NOT NULL DEFAULT '[]',
    redelivery_of uuid,
    created_at timestamptz NOT NULL DEFAULT now()
) WITH (
    -- a queue: every row is deleted soon, so dead ones must go as soon
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX delivery_by_due ON delivery (webhook_id, next_attempt_at, id);
-- What an ordered lane must send before anything newer; empty while destinations are well.
CREATE INDEX delivery_tried ON delivery (webhook_id, created_at, id) WHERE attempt_count > 0;

CREATE TABLE delivery_history (
    id uuid NOT NULL,
    webhook_id uuid NOT NULL,
    eshop_id uuid NOT NULL,
    organisation_id uuid NOT NULL,
    event_id uuid NOT NULL,
    event_type text NOT NULL,
    entity_id uuid NOT NULL,
    state text NOT NULL CONSTRAINT an_ended_delivery_is_delivered_exhausted_or_cancelled
        CHECK (state IN ('delivered', 'exhausted', 'cancelled')),
    attempt_count smallint NOT NULL,
    attempts jsonb NOT NULL,
    redelivery_of uuid,
    created_at timestamptz NOT NULL,
    finished_at timestamptz NOT NULL,
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE TABLE delivery_history_default PARTITION OF delivery_history DEFAULT;
CREATE INDEX delivery_history_by_webhook ON delivery_history (webhook_id, id);
CREATE INDEX delivery_history_by_entity ON delivery_history (entity_id, id);

-- An event is kept a week longer than its deliveries: one that waits out its last retry still finds it.
INSERT INTO history (table_name, span, keep_days) VALUES ('event', 'day', 37), ('delivery_history', 'day', 30);
REVOKE ALL ON event_default, delivery_history_default FROM longshore_service;
