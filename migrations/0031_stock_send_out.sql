-- Stocks that have changed and have to be sent to a partner: a trigger writes them in the transaction of the change, so
-- no code path can forget it, and one row a statement, so a stock sync of a million rows costs a thousand. Nothing is
-- written where no partner gets the stocks of the warehouse.
CREATE TABLE stock_change (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    warehouse_id uuid NOT NULL,
    wms_id uuid NOT NULL,
    products uuid[] NOT NULL
);

-- Products whose stock must be sent to an e-shop's partner. The number shows whether a stock changed again while it was
-- being sent.
CREATE SEQUENCE stock_due_number;
CREATE TABLE stock_due (
    eshop_id uuid NOT NULL REFERENCES eshop ON DELETE CASCADE,
    product_id uuid NOT NULL REFERENCES product ON DELETE CASCADE,
    number bigint NOT NULL DEFAULT nextval('stock_due_number'),
    PRIMARY KEY (eshop_id, product_id)
);
CREATE INDEX stock_due_by_product ON stock_due (product_id);

-- When changes may be sent to an e-shop's partner again, and when all its stocks are compared with what the partner
-- has.
CREATE TABLE stock_send_out (
    eshop_id uuid PRIMARY KEY REFERENCES eshop ON DELETE CASCADE,
    next_at timestamptz NOT NULL,
    compare_at timestamptz NOT NULL,
    -- When its last send-out failed, until one succeeds or its setting is stored again: changes rest meanwhile
    -- (shared/domain/src/partner/send_out/changes.rs).
    failed_at timestamptz
);
CREATE INDEX stock_send_out_by_comparison ON stock_send_out (compare_at);

-- Changes of an e-shop, not of a stock, after which its partner must be sent other counts: a product came to the e-shop or left
-- it, or has another SKU or type, or a warehouse has another default wms. Triggers write them in the transaction of the change,
-- one row a statement and e-shop, and the dispatcher takes them (shared/domain/src/partner/send_out/changes.rs). Rows are only
-- added: a writer waits for no other, and none is lost.
CREATE TABLE eshop_stock_change (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    eshop_id uuid NOT NULL,
    -- null: any product of the e-shop may be concerned
    products uuid[]
);
CREATE INDEX eshop_stock_change_of_all ON eshop_stock_change (id) WHERE products IS NULL;

-- SKUs whose product has left the e-shop: its partner is to have none of them, and keeps its last count otherwise. A row
-- remains until the partner has taken zero (shared/domain/src/partner/send_out/withdrawn.rs).
CREATE TABLE stock_withdrawn (
    eshop_id uuid NOT NULL REFERENCES eshop ON DELETE CASCADE,
    product_sku text NOT NULL,
    withdrawn_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (eshop_id, product_sku)
);

-- What a partner took of items whose SKU is withdrawn, in each mapped warehouse: it is to have none. Items that it was never
-- sent, and that it never listed, are not among them. `OFFSET 0` has items looked up by the few SKUs, and not SKUs by all items
-- of the e-shop.
CREATE VIEW partner_stock_withdrawn AS
SELECT x.eshop_id, t.partner_warehouse, i.inventory, i.item, x.product_sku, t.taken, t.refused
FROM stock_withdrawn x
JOIN integration_setting s ON s.eshop_id = x.eshop_id
CROSS JOIN LATERAL (
    SELECT i.inventory, i.item FROM partner_item i
    WHERE i.eshop_id = x.eshop_id AND i.product_sku = x.product_sku
      AND (i.inventory = '' OR i.inventory = ANY (s.inventories))
    OFFSET 0) AS i
CROSS JOIN LATERAL (
    SELECT t.partner_warehouse, t.taken, t.refused FROM partner_stock t
    WHERE t.eshop_id = x.eshop_id AND t.inventory = i.inventory AND t.item = i.item
    OFFSET 0) AS t
JOIN integration_warehouse m ON m.setting_id = s.id AND m.partner_warehouse = t.partner_warehouse
-- it, or another product with the SKU, may have come to the e-shop since
WHERE (SELECT true
       FROM product p JOIN product_eshop e ON e.product_id = p.id AND e.eshop_id = x.eshop_id
       WHERE p.organisation_id = s.organisation_id AND p.product_sku = x.product_sku AND p.type = 'physical'
       LIMIT 1) IS NULL;
