-- Stock movements: why a stock is what it is. `quantity` and `incoming` of a stock are the sums of its movements; whoever
-- changes one writes the other in the same statement. Append only, like the audit. No foreign keys, as with events: a
-- stock sync writes one a row, and what they would guard is written by the same statement.
CREATE TABLE stock_movement (
    id uuid PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    organisation_id uuid NOT NULL,
    product_id uuid NOT NULL,
    warehouse_id uuid NOT NULL,
    wms_id uuid NOT NULL,
    kind text NOT NULL CONSTRAINT kind_is_known CHECK (kind IN ('announced', 'received', 'withdrawn', 'counted')),
    -- what was added to the stock's quantity, and to what it has coming
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

-- What was in stock before there were movements. Nothing was incoming: only an advice announces.
INSERT INTO stock_movement (id, organisation_id, product_id, warehouse_id, wms_id, kind, quantity, incoming, actor_type,
                            actor_name)
SELECT uuid_v7(), organisation_id, product_id, warehouse_id, wms_id, 'counted', quantity, 0, 'migration', 'migration'
FROM product_stock WHERE quantity <> 0;
