-- E-shop: products are sold in it, and webhooks are bound to it.
CREATE TABLE eshop (
    id uuid PRIMARY KEY,
    organisation_id uuid NOT NULL REFERENCES organisation,
    name text NOT NULL,
    default_warehouse_id uuid REFERENCES warehouse,
    active boolean NOT NULL,
    partners jsonb CONSTRAINT partners_is_an_array CHECK (jsonb_typeof(partners) = 'array'),
    sales_channel_id text,
    wait_before_processing boolean NOT NULL,
    edit_before_processing boolean NOT NULL,
    integration_type text CONSTRAINT integration_type_is_known CHECK (integration_type IN ('baselinker', 'feed')),
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX eshop_by_creation ON eshop (organisation_id, created_at, id);
CREATE INDEX eshop_by_change ON eshop (changed_at, id);
CREATE INDEX eshop_by_default_warehouse ON eshop (default_warehouse_id);

CREATE TABLE eshop_warehouse (
    eshop_id uuid NOT NULL REFERENCES eshop ON DELETE CASCADE,
    warehouse_id uuid NOT NULL REFERENCES warehouse ON DELETE CASCADE,
    PRIMARY KEY (eshop_id, warehouse_id)
);
CREATE INDEX eshop_warehouse_by_warehouse ON eshop_warehouse (warehouse_id, eshop_id);
