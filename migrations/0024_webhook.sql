-- Webhooks: the subscription, and its lane, the small row that workers
-- lease and count failures on while the subscription itself stays untouched.
CREATE TABLE webhook (
    id uuid PRIMARY KEY,
    organisation_id uuid NOT NULL REFERENCES organisation,
    -- null: it hears of all e-shops of its organisation, and of the organisation itself
    eshop_id uuid REFERENCES eshop,
    -- what it hears of: the one, or the other
    source_id uuid NOT NULL GENERATED ALWAYS AS (coalesce(eshop_id, organisation_id)) STORED,
    -- the types that it hears of
    events text[] NOT NULL CONSTRAINT events_are_known CHECK (cardinality(events) BETWEEN 1 AND 20 AND events <@ ARRAY[
        'organization_change', 'product_change', 'product_stock_change', 'stock_advice_status_change',
        'expedition_status_change', 'expedition_booked_change', 'expedition_change', 'expedition_deleted', 'sync_finished',
        'job_finished', 'restored', 'test']),
    -- the same in a word: the only type, or `*`, which stands for those that there were; null: several
    event text CONSTRAINT event_says_the_same CHECK (event = '*' OR events = ARRAY[event]),
    destination text NOT NULL,
    active boolean NOT NULL,
    authentication_type text NOT NULL
        CONSTRAINT authentication_type_is_known CHECK (authentication_type IN ('none', 'basic', 'bearer', 'header')),
    -- sealed: AES-256-GCM under the service's key
    authentication bytea CONSTRAINT authentication_goes_with_its_type
        CHECK ((authentication_type = 'none') = (authentication IS NULL)),
    secret bytea NOT NULL,
    -- how often the secret was rotated, or the webhook deactivated
    rotations integer NOT NULL DEFAULT 0,
    disabled_at timestamptz,
    disabled_reason text
        CONSTRAINT a_disabled_webhook_has_a_reason CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL)),
    max_in_flight integer NOT NULL DEFAULT 16
        CONSTRAINT max_in_flight_is_1_to_256 CHECK (max_in_flight BETWEEN 1 AND 256),
    ordered boolean NOT NULL DEFAULT false,
    -- how many events a call has at most, and how long the first of them waits for more; null: a call for each event
    batch_events integer CONSTRAINT batch_events_are_1_to_500 CHECK (batch_events BETWEEN 1 AND 500),
    batch_wait interval NOT NULL DEFAULT '0'
        CONSTRAINT batch_wait_is_up_to_a_minute CHECK (batch_wait BETWEEN '0' AND '1 minute'),
    -- how many calls may begin in a second; null: any number
    max_per_second numeric
        CONSTRAINT max_per_second_is_0_1_to_1000 CHECK (max_per_second BETWEEN 0.1 AND 1000),
    -- which events it hears of, and the same for Postgres to judge by; null: all of its types
    criteria jsonb,
    matches jsonpath CONSTRAINT criteria_are_judged_by CHECK ((criteria IS NULL) = (matches IS NULL)),
    -- which members of their data it is sent; null: all
    selected text[],
    -- Who made it. No foreign keys: it outlives accounts and tokens.
    created_by text,
    created_by_type text,
    created_by_id uuid,
    -- the token of a connector: whoever has it has the webhook, and it is deactivated when the token ends
    made_by uuid,
    -- made for one e-shop only: it is not told of a record that a connector of the e-shop may not see
    bound boolean NOT NULL DEFAULT false,
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT only_a_webhook_of_an_eshop_is_bound CHECK (NOT bound OR eshop_id IS NOT NULL),
    CONSTRAINT few_batches_are_in_flight CHECK (batch_events IS NULL OR max_in_flight <= 4),
    -- what waits is due later than what comes after the wait is shortened
    CONSTRAINT only_batches_without_order_wait CHECK (batch_wait = '0' OR (batch_events IS NOT NULL AND NOT ordered)),
    CONSTRAINT a_disabled_webhook_is_not_active CHECK (disabled_at IS NULL OR NOT active)
);
CREATE INDEX webhook_by_creation ON webhook (organisation_id, created_at, id);
CREATE INDEX webhook_by_change ON webhook (changed_at, id);
CREATE INDEX webhook_by_eshop ON webhook (eshop_id);
CREATE INDEX webhook_by_source ON webhook (source_id);
CREATE INDEX webhook_by_maker ON webhook (made_by) WHERE made_by IS NOT NULL;
-- webhooks that need attention are found without reading the healthy ones
CREATE INDEX webhook_disabled ON webhook (disabled_at) WHERE disabled_at IS NOT NULL;
-- those that somebody deactivated: the overview names them, and most webhooks are active
CREATE INDEX webhook_inactive ON webhook (source_id, changed_at, id)
    WHERE NOT active AND disabled_at IS NULL;

-- What webhooks hear of, as people call it.
CREATE VIEW webhook_source AS
    SELECT id, name FROM eshop UNION ALL SELECT id, name || ', all e-shops' FROM organisation;

-- Secrets that were rotated away, and still sign until a day later. Several, because a webhook may
-- be rotated again within that day, and receivers that verify with an older secret must not be cut off by it.
CREATE TABLE webhook_former_secret (
    webhook_id uuid NOT NULL REFERENCES webhook ON DELETE CASCADE,
    signs_until timestamptz NOT NULL,
    -- sealed, as in `webhook`
    secret bytea NOT NULL,
    PRIMARY KEY (webhook_id, signs_until)
);

CREATE TABLE webhook_lane (
    webhook_id uuid PRIMARY KEY REFERENCES webhook ON DELETE CASCADE,
    -- fencing token: raised by each lease; an outcome that bears an older one changes nothing
    token bigint NOT NULL DEFAULT 0,
    leased_until timestamptz NOT NULL DEFAULT '-infinity',
    -- the holder begins no more calls: a rotation, a deactivation and a deletion answer once no call can begin
    -- with what was read before it
    ending boolean NOT NULL DEFAULT false,
    -- that of the webhook: a lease, or its renewal, sees by the row that it locks whether what it has read is still
    -- current
    rotations integer NOT NULL DEFAULT 0,
    -- failed attempts since the last success, and the time of the first of them
    failures integer NOT NULL DEFAULT 0,
    failing_since timestamptz,
    -- The breaker (shared/domain/src/webhook/breaker.rs): after several failures in a row it is open, and the lane sends one
    -- probe at `probe_at`; null while it is closed. Kept here rather than in a worker, so that every worker obeys it and
    -- a restart does not forget it.
    probe_at timestamptz,
    -- probes that have failed since it opened
    probes integer NOT NULL DEFAULT 0,
    -- A destination that asks for a pause (429 or 503 with Retry-After) gets it from the whole lane, probes included. Kept
    -- beside the breaker, because the success of a call that was under way closes the breaker and does not end the pause.
    held_until timestamptz,
    -- The rate of its calls: those until then are paid for, by the holder of this token (shared/domain/src/webhook/lane/rate.rs).
    -- Nobody else begins one before.
    paid_until timestamptz,
    paid_by bigint,
    -- Where a look at a lane begins: nothing that is due lies before it. While a long transaction keeps vacuum from
    -- removing what was delivered, each look would read all of that.
    nothing_before timestamptz NOT NULL DEFAULT '1970-01-01 00:00:00+00',
    -- Five days of failures disable a webhook (shared/domain/src/webhook/lane/outcome.rs); days in which nothing waited, and
    -- nothing was tried, are none of them. When the last attempt failed, and since when attempts have failed without such a
    -- pause.
    failed_at timestamptz,
    tried_since timestamptz,
    -- the delivery of the last test: while the queue is paused, it is sent, and nothing else
    test uuid,
    CONSTRAINT failing_since_goes_with_failures CHECK ((failures = 0) = (failing_since IS NULL)),
    CONSTRAINT an_open_breaker_has_seen_failures CHECK (probe_at IS NULL OR failures > 0),
    CONSTRAINT only_an_open_breaker_counts_probes CHECK (probe_at IS NOT NULL OR probes = 0)
) WITH (fillfactor = 50);
-- a lane's lease changes none of these columns, so taking it stays an update within its page
CREATE INDEX webhook_lane_failing ON webhook_lane (failing_since) WHERE failures > 0;
CREATE INDEX webhook_lane_tested ON webhook_lane (test) WHERE test IS NOT NULL;

-- How calls of each destination went, by five minutes, and by the hour after a day: every attempt counts, whether or not its
-- delivery has ended. Workers count in memory and add to it every few seconds (shared/kernel/src/activity.rs), so a delivery
-- writes nothing for it.
CREATE TABLE webhook_activity (
    -- no foreign key: it would lock the webhook with each write; old rows are removed by their age
    webhook_id uuid NOT NULL,
    minute timestamptz NOT NULL,
    delivered bigint NOT NULL CONSTRAINT delivered_is_not_negative CHECK (delivered >= 0),
    failed bigint NOT NULL CONSTRAINT failed_is_not_negative CHECK (failed >= 0),
    -- how long all of them took together, and the slowest one
    milliseconds bigint NOT NULL CONSTRAINT milliseconds_are_not_negative CHECK (milliseconds >= 0),
    slowest bigint NOT NULL CONSTRAINT slowest_is_not_negative CHECK (slowest >= 0),
    PRIMARY KEY (webhook_id, minute)
) WITH (fillfactor = 50); -- counting up stays within the page
CREATE INDEX webhook_activity_by_minute ON webhook_activity (minute);
