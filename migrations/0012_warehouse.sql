-- Warehouse (physical), wms (virtual, with the inventory) and which wms works in which warehouse.
CREATE TABLE warehouse (
    id uuid PRIMARY KEY,
    organisation_id uuid NOT NULL REFERENCES organisation,
    name text NOT NULL,
    custom_id text NOT NULL,
    default_wms_id uuid,
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX warehouse_by_creation ON warehouse (organisation_id, created_at, id);
CREATE INDEX warehouse_by_change ON warehouse (changed_at, id);

CREATE TABLE wms (
    id uuid PRIMARY KEY,
    organisation_id uuid NOT NULL REFERENCES organisation,
    name text NOT NULL,
    distribution_center uuid NOT NULL,
    store_key text NOT NULL,
    internal_id text NOT NULL,
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX wms_by_creation ON wms (organisation_id, created_at, id);
CREATE INDEX wms_by_change ON wms (changed_at, id);

CREATE TABLE warehouse_wms (
    warehouse_id uuid NOT NULL REFERENCES warehouse ON DELETE CASCADE,
    wms_id uuid NOT NULL REFERENCES wms ON DELETE CASCADE,
    PRIMARY KEY (warehouse_id, wms_id)
);
CREATE INDEX warehouse_wms_by_wms ON warehouse_wms (wms_id, warehouse_id);

ALTER TABLE warehouse ADD CONSTRAINT default_wms_works_in_the_warehouse
    FOREIGN KEY (id, default_wms_id) REFERENCES warehouse_wms (warehouse_id, wms_id) DEFERRABLE INITIALLY DEFERRED;
