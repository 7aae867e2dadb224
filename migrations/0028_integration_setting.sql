-- Integration settings of e-shops: how the worker reaches the partner's system, and what it does
-- there. At most one an e-shop. Credentials are sealed; the sealed bytes name their key.
CREATE TABLE integration_setting (
    id uuid PRIMARY KEY,
    eshop_id uuid NOT NULL CONSTRAINT an_eshop_has_one_integration_setting UNIQUE REFERENCES eshop,
    organisation_id uuid NOT NULL REFERENCES organisation,
    integration_type text NOT NULL CONSTRAINT integration_type_is_known CHECK (integration_type IN ('baselinker', 'feed')),
    active boolean NOT NULL,
    -- stored by a caller who is bound to the e-shop: the scheduled syncs are bound as well
    bound boolean NOT NULL DEFAULT false,
    credentials bytea NOT NULL,
    base_url text CONSTRAINT a_feed_has_a_url CHECK (base_url IS NOT NULL OR integration_type <> 'feed'),
    inventories text[] NOT NULL,
    product_sync_enabled boolean NOT NULL,
    product_sync_interval integer NOT NULL
        CONSTRAINT product_sync_interval_is_1_to_10080_minutes CHECK (product_sync_interval BETWEEN 1 AND 10080),
    stock_sync_enabled boolean NOT NULL,
    stock_sync_interval integer NOT NULL
        CONSTRAINT stock_sync_interval_is_1_to_10080_minutes CHECK (stock_sync_interval BETWEEN 1 AND 10080),
    stock_reserve integer NOT NULL CONSTRAINT stock_reserve_is_not_negative CHECK (stock_reserve >= 0),
    -- how much a pull may destroy (shared/domain/src/job/guard.rs); null: anything
    guard jsonb,
    -- the last failure, until something succeeds or the setting is stored again
    error text,
    error_at timestamptz,
    error_kind text,
    error_job uuid,
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT an_error_has_a_time CHECK ((error IS NULL) = (error_at IS NULL))
);
CREATE INDEX integration_setting_by_organisation ON integration_setting (organisation_id);

-- The warehouse of the organisation, and the wms in it, for a warehouse of the partner; without a wms, the default wms
-- of the warehouse.
CREATE TABLE integration_warehouse (
    setting_id uuid NOT NULL REFERENCES integration_setting ON DELETE CASCADE,
    partner_warehouse text NOT NULL,
    position integer NOT NULL,
    warehouse_id uuid NOT NULL REFERENCES warehouse,
    wms_id uuid REFERENCES wms,
    PRIMARY KEY (setting_id, partner_warehouse)
);
CREATE INDEX integration_warehouse_by_warehouse ON integration_warehouse (warehouse_id);
CREATE INDEX integration_warehouse_by_wms ON integration_warehouse (wms_id);

-- Scheduled syncs: when the next sync of a setting is due. A row exists while the sync is enabled.
CREATE TABLE partner_clock (
    setting_id uuid NOT NULL REFERENCES integration_setting ON DELETE CASCADE,
    -- kind of the job that is started
    kind text NOT NULL,
    interval_minutes integer NOT NULL CONSTRAINT interval_is_positive CHECK (interval_minutes > 0),
    next_run_at timestamptz NOT NULL,
    PRIMARY KEY (setting_id, kind)
);
CREATE INDEX partner_clock_due ON partner_clock (next_run_at);
