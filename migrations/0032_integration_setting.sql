-- Integration settings of e-shops (decisions, section 4): how the worker reaches the partner's system, and what it is to do
-- there. At most one an e-shop. Credentials are sealed; their key's id stands in the sealed bytes.
CREATE TABLE integration_setting (
    id uuid PRIMARY KEY,
    eshop_id uuid NOT NULL CONSTRAINT an_eshop_has_one_integration_setting UNIQUE REFERENCES eshop,
    organisation_id uuid NOT NULL REFERENCES organisation,
    integration_type text NOT NULL CONSTRAINT integration_type_is_known CHECK (integration_type IN ('baselinker', 'feed')),
    active boolean NOT NULL,
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
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX integration_setting_by_organisation ON integration_setting (organisation_id);

-- Which of our warehouses, and which wms in it, a warehouse of the partner is; without a wms, the warehouse's default.
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
