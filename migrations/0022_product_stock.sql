-- What is in stock: one row a product, warehouse and wms.
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
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT stock_is_one_row_a_product_warehouse_and_wms UNIQUE (product_id, warehouse_id, wms_id)
) WITH (fillfactor = 70);
CREATE INDEX product_stock_by_creation ON product_stock (organisation_id, created_at, id);
CREATE INDEX product_stock_by_change ON product_stock (organisation_id, changed_at, id);
CREATE INDEX product_stock_by_warehouse ON product_stock (warehouse_id);
CREATE INDEX product_stock_by_wms ON product_stock (wms_id);
-- for callers who see several organisations, as for products
CREATE INDEX product_stock_by_creation_of_all ON product_stock (created_at, id);
CREATE INDEX product_stock_by_change_of_all ON product_stock (changed_at, id);
CREATE TRIGGER raise_version BEFORE UPDATE ON product_stock FOR EACH ROW
    WHEN (NEW.version <> OLD.version OR NEW.changed_at <> OLD.changed_at) EXECUTE FUNCTION raise_version();

-- Stock movements: why a stock is what it is. `quantity` and `incoming` of a stock are the sums of its movements; a
-- statement that changes one writes the other. Append only, like the audit. No foreign keys, as with events: a stock sync
-- writes a movement a row, and the same statement writes what they would guard.
CREATE TABLE stock_movement (
    id uuid PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    organisation_id uuid NOT NULL,
    product_id uuid NOT NULL,
    warehouse_id uuid NOT NULL,
    wms_id uuid NOT NULL,
    kind text NOT NULL CONSTRAINT kind_is_known CHECK (kind IN ('announced', 'received', 'withdrawn', 'counted')),
    -- what was added to the stock's quantity, and to its incoming pieces
    quantity integer NOT NULL,
    incoming integer NOT NULL,
    stock_advice_id uuid,
    actor_type text NOT NULL,
    actor_id uuid,
    actor_name text NOT NULL,
    CONSTRAINT a_movement_moves_something CHECK (quantity <> 0 OR incoming <> 0),
    CONSTRAINT a_movement_of_an_advice_names_it CHECK ((kind = 'counted') = (stock_advice_id IS NULL)),
    CONSTRAINT a_movement_moves_what_its_kind_says CHECK (CASE kind
        WHEN 'announced' THEN quantity = 0 AND incoming > 0
        WHEN 'received' THEN quantity > 0 AND incoming BETWEEN -quantity AND 0
        WHEN 'withdrawn' THEN quantity = 0 AND incoming < 0
        ELSE incoming = 0 END)
);
CREATE INDEX stock_movement_by_product ON stock_movement (product_id, id);
CREATE INDEX stock_movement_by_advice ON stock_movement (stock_advice_id, id) WHERE stock_advice_id IS NOT NULL;

CREATE FUNCTION stock_movement_is_append_only() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'stock movements are append only' USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TRIGGER stock_movement_is_append_only BEFORE UPDATE OR DELETE ON stock_movement
    FOR EACH ROW EXECUTE FUNCTION stock_movement_is_append_only();
CREATE TRIGGER stock_movement_is_not_emptied BEFORE TRUNCATE ON stock_movement
    FOR EACH STATEMENT EXECUTE FUNCTION stock_movement_is_append_only();
REVOKE UPDATE, DELETE, TRUNCATE ON stock_movement FROM longshore_service;
