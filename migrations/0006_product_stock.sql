-- What is in stock: one row a product, warehouse and wms (decisions, section 4).
CREATE TABLE product_stock (
    id uuid PRIMARY KEY,
    organisation_id uuid NOT NULL REFERENCES organisation,
    product_id uuid NOT NULL REFERENCES product ON DELETE CASCADE,
    warehouse_id uuid NOT NULL REFERENCES warehouse,
    wms_id uuid NOT NULL REFERENCES wms,
    quantity integer NOT NULL CONSTRAINT quantity_is_not_negative CHECK (quantity >= 0),
    booked integer NOT NULL DEFAULT 0 CONSTRAINT booked_is_not_negative CHECK (booked >= 0),
    missing integer NOT NULL DEFAULT 0 CONSTRAINT missing_is_not_negative CHECK (missing >= 0),
    required integer NOT NULL DEFAULT 0 CONSTRAINT required_is_not_negative CHECK (required >= 0),
    incoming integer NOT NULL DEFAULT 0 CONSTRAINT incoming_is_not_negative CHECK (incoming >= 0),
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT stock_is_one_row_a_product_warehouse_and_wms UNIQUE (product_id, warehouse_id, wms_id)
) WITH (fillfactor = 70);
CREATE INDEX product_stock_by_creation ON product_stock (organisation_id, created_at, id);
CREATE INDEX product_stock_by_change ON product_stock (organisation_id, changed_at, id);
CREATE INDEX product_stock_by_warehouse ON product_stock (warehouse_id);
CREATE INDEX product_stock_by_wms ON product_stock (wms_id);
