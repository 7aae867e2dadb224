-- Webhooks (specification, part 6; decisions, section 7): the subscription, and its lane, the small row that workers
-- lease and count failures on while the subscription itself stays untouched.
CREATE TABLE webhook (
    id uuid PRIMARY KEY,
    organisation_id uuid NOT NULL REFERENCES organisation,
    eshop_id uuid NOT NULL REFERENCES eshop,
    event text NOT NULL CONSTRAINT event_is_known CHECK (event IN (
        'organization_change', 'product_change', 'product_stock_change', 'stock_advice_status_change',
        'expedition_status_change', 'expedition_booked_change', 'sync_finished', 'test', '*')),
    destination text NOT NULL,
    active boolean NOT NULL,
    authentication_type text NOT NULL
        CONSTRAINT authentication_type_is_known CHECK (authentication_type IN ('none', 'basic', 'bearer', 'header')),
    -- sealed: AES-256-GCM under the service's key
    authentication bytea CONSTRAINT authentication_goes_with_its_type
        CHECK ((authentication_type = 'none') = (authentication IS NULL)),
    secret bytea NOT NULL,
    previous_secret bytea,
    previous_secret_until timestamptz
        CONSTRAINT a_previous_secret_ends CHECK ((previous_secret IS NULL) = (previous_secret_until IS NULL)),
    disabled_at timestamptz,
    disabled_reason text
        CONSTRAINT a_disabled_webhook_has_a_reason CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL)),
    max_in_flight integer NOT NULL DEFAULT 16
        CONSTRAINT max_in_flight_is_1_to_256 CHECK (max_in_flight BETWEEN 1 AND 256),
    ordered boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT a_disabled_webhook_is_not_active CHECK (disabled_at IS NULL OR NOT active)
);
CREATE INDEX webhook_by_creation ON webhook (organisation_id, created_at, id);
CREATE INDEX webhook_by_change ON webhook (changed_at, id);
CREATE INDEX webhook_by_eshop ON webhook (eshop_id, event);

CREATE TABLE webhook_lane (
    webhook_id uuid PRIMARY KEY REFERENCES webhook ON DELETE CASCADE,
    -- fencing token: raised by each lease; an outcome that bears an older one changes nothing
    token bigint NOT NULL DEFAULT 0,
    leased_until timestamptz NOT NULL DEFAULT '-infinity',
    -- failed attempts since the last success, and since when there was nothing else
    failures integer NOT NULL DEFAULT 0,
    failing_since timestamptz,
    CONSTRAINT failing_since_goes_with_failures CHECK ((failures = 0) = (failing_since IS NULL))
) WITH (fillfactor = 50);
