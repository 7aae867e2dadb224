-- What is in stock: one row a product, warehouse and wms. Its rules are domains, as those of products.
CREATE DOMAIN pieces AS integer CONSTRAINT pieces_are_not_negative CHECK (VALUE >= 0);
CREATE DOMAIN sum_of_pieces AS bigint CONSTRAINT sum_of_pieces_is_not_negative CHECK (VALUE >= 0);

CREATE TABLE product_stock (
    id uuid PRIMARY KEY,
    organisation_id uuid NOT NULL REFERENCES organisation,
    product_id uuid NOT NULL REFERENCES product ON DELETE CASCADE,
    warehouse_id uuid NOT NULL REFERENCES warehouse,
    wms_id uuid NOT NULL REFERENCES wms,
    quantity pieces NOT NULL,
    -- what orders hold; more than there is, after a count that found fewer
    held sum_of_pieces NOT NULL DEFAULT 0,
    -- what sent orders wait for
    missing sum_of_pieces NOT NULL DEFAULT 0,
    booked integer NOT NULL GENERATED ALWAYS AS (least(held, quantity)::integer) STORED,
    required bigint NOT NULL GENERATED ALWAYS AS (greatest(0, missing - greatest(0, quantity - held))) STORED,
    incoming pieces NOT NULL DEFAULT 0,
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- as of products: when the row was inserted, not when its transaction began
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- since when the allocator has to look at it: orders that wait for it, or bookings that it no longer covers
    marked_at timestamptz,
    CONSTRAINT stock_is_one_row_a_product_warehouse_and_wms UNIQUE (product_id, warehouse_id, wms_id)
) WITH (fillfactor = 70);
CREATE INDEX product_stock_by_creation ON product_stock (organisation_id, created_at, id);
CREATE INDEX product_stock_by_change ON product_stock (organisation_id, changed_at, id);
CREATE INDEX product_stock_by_warehouse ON product_stock (warehouse_id);
CREATE INDEX product_stock_by_wms ON product_stock (wms_id);
-- for callers who see several organisations, as for products
CREATE INDEX product_stock_by_creation_of_all ON product_stock (created_at, id);
CREATE INDEX product_stock_by_change_of_all ON product_stock (changed_at, id);
CREATE INDEX product_stock_by_mark ON product_stock (warehouse_id, wms_id, marked_at) WHERE marked_at IS NOT NULL;

-- Stock movements: why a stock is what it is. `quantity` and `incoming` of a stock are the sums of its movements; a
-- statement that changes one writes the other. Append only, like the audit. No foreign keys, as with events: a stock sync
-- writes a movement a row, and the same statement writes what they would guard.
CREATE TABLE stock_movement (
    id uuid PRIMARY KEY,
    -- when the pieces moved, not when the transaction began: movements are polled by it, as `createdAt`
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    organisation_id uuid NOT NULL,
    product_id uuid NOT NULL,
    warehouse_id uuid NOT NULL,
    wms_id uuid NOT NULL,
    kind text NOT NULL CONSTRAINT kind_is_known
        CHECK (kind IN ('announced', 'received', 'withdrawn', 'counted', 'expedited', 'found')),
    -- what was added to the stock's quantity, and to its incoming pieces
    quantity integer NOT NULL,
    incoming integer NOT NULL,
    stock_advice_id uuid,
    -- what came with it at once, of the same advice
    receipt_id uuid CONSTRAINT only_what_came_is_of_a_receipt CHECK (receipt_id IS NULL OR kind = 'received'),
    expedition_id uuid,
    expedition_item_id uuid,
    actor_type text NOT NULL,
    actor_id uuid,
    actor_name text NOT NULL,
    CONSTRAINT a_movement_moves_something CHECK (quantity <> 0 OR incoming <> 0),
    CONSTRAINT a_movement_of_an_advice_names_it
        CHECK ((kind IN ('announced', 'received', 'withdrawn')) = (stock_advice_id IS NOT NULL)),
    CONSTRAINT a_movement_of_an_expedition_names_it
        CHECK ((kind IN ('expedited', 'found')) = (expedition_id IS NOT NULL)
               AND (kind = 'expedited') = (expedition_item_id IS NOT NULL)),
    CONSTRAINT a_movement_moves_what_its_kind_says CHECK (CASE kind
        WHEN 'announced' THEN quantity = 0 AND incoming > 0
        WHEN 'received' THEN quantity > 0 AND incoming BETWEEN -quantity AND 0
        WHEN 'withdrawn' THEN quantity = 0 AND incoming < 0
        WHEN 'expedited' THEN quantity < 0 AND incoming = 0
        WHEN 'found' THEN quantity > 0 AND incoming = 0
        ELSE incoming = 0 END)
);
CREATE INDEX stock_movement_by_product ON stock_movement (product_id, id);
CREATE INDEX stock_movement_by_expedition ON stock_movement (expedition_id) WHERE expedition_id IS NOT NULL;
CREATE INDEX stock_movement_by_creation ON stock_movement (organisation_id, at, id);
CREATE INDEX stock_movement_by_advice ON stock_movement (stock_advice_id, id) WHERE stock_advice_id IS NOT NULL;

REVOKE UPDATE, DELETE, TRUNCATE ON stock_movement FROM longshore_service;
