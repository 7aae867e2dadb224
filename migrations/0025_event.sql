-- Events. No foreign keys: they cost a quarter of the rate of a bulk change, and one statement
-- writes what they would guard.
CREATE TABLE event (
    id uuid NOT NULL,
    type text NOT NULL,
    organisation_id uuid NOT NULL,
    entity_type text NOT NULL,
    entity_id uuid NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    -- the `data` of the webhook's body
    data jsonb NOT NULL,
    -- the e-shops that it concerns
    eshops uuid[] NOT NULL DEFAULT '{}',
    -- those whose connectors may see the record, where others hear of it, too; null: all that it concerns
    seen_by uuid[],
    -- The request that caused it, and the W3C trace context to continue: they find a delivery in the logs by the
    -- request's id, and join it to the trace of the request.
    request_id text,
    traceparent text,
    -- the transaction: readers read what was committed between two snapshots (docs/reference/event-readers.md#reading)
    written_by xid8 NOT NULL DEFAULT pg_current_xact_id(),
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE INDEX event_by_writer ON event (organisation_id, written_by, id);
-- what a trace caused; nothing where no trace context is sent
CREATE INDEX event_by_trace ON event (substr(traceparent, 4, 32)) WHERE traceparent IS NOT NULL;
CREATE TABLE event_default PARTITION OF event DEFAULT;
REVOKE ALL ON event_default FROM longshore_service;

-- A week longer than its deliveries: a delivery that waits for its last retry still finds its event.
INSERT INTO history (table_name, span, keep_days, age_column) VALUES ('event', 'week', 37, 'at');
