-- What has been read of a partner's catalogue: the product of each item of an inventory, matched by SKU, so that stocks
-- can be sent with the partner's ids. A partner without inventories has one with an empty name; a partner that knows
-- only SKUs has items that are named by them.
CREATE TABLE partner_item (
    eshop_id uuid NOT NULL REFERENCES eshop ON DELETE CASCADE,
    inventory text NOT NULL,
    item text NOT NULL,
    product_sku text NOT NULL,
    seen_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (eshop_id, inventory, item)
);
CREATE INDEX partner_item_by_sku ON partner_item (eshop_id, product_sku);

-- How far the list of a partner's inventory has been read (shared/domain/src/partner/send_out/listing.rs): that some of its items
-- are known does not say that all are.
CREATE TABLE partner_listing (
    eshop_id uuid NOT NULL REFERENCES eshop ON DELETE CASCADE,
    inventory text NOT NULL,
    -- when the present or the last reading began
    began_at timestamptz NOT NULL,
    -- where its next page begins, in the partner's words; null: at the beginning
    cursor text,
    -- when the last complete reading began; null: there was none
    whole_since timestamptz,
    -- when its last page came
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (eshop_id, inventory),
    CONSTRAINT what_has_ended_goes_on_nowhere CHECK (cursor IS NULL OR whole_since IS DISTINCT FROM began_at)
);

-- How many pieces of an item the partner last took, in each of its warehouses.
CREATE TABLE partner_stock (
    eshop_id uuid NOT NULL,
    inventory text NOT NULL,
    item text NOT NULL,
    partner_warehouse text NOT NULL,
    -- null: unknown
    taken integer,
    -- the count that it refused since: not sent again automatically
    refused integer,
    changed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (eshop_id, inventory, item, partner_warehouse),
    FOREIGN KEY (eshop_id, inventory, item) REFERENCES partner_item ON DELETE CASCADE,
    CONSTRAINT what_was_taken_is_not_what_was_refused CHECK (taken IS DISTINCT FROM refused OR taken IS NULL)
) WITH (fillfactor = 70);

-- What a partner should have and what it took, of each item in each of its warehouses: available pieces where the
-- integration setting maps the warehouse, less its reserve. Only a physical product of the e-shop has stock.
CREATE VIEW partner_stock_wanted AS
SELECT s.eshop_id, m.partner_warehouse, i.inventory, i.item, p.id AS product_id, p.product_sku,
       greatest(0, coalesce(ps.quantity - ps.booked, 0) - s.stock_reserve) AS wanted, t.taken, t.refused
FROM integration_setting s
JOIN integration_warehouse m ON m.setting_id = s.id
JOIN warehouse w ON w.id = m.warehouse_id
JOIN partner_item i ON i.eshop_id = s.eshop_id AND (i.inventory = '' OR i.inventory = ANY (s.inventories))
JOIN product p ON p.organisation_id = s.organisation_id AND p.product_sku = i.product_sku AND p.type = 'physical'
JOIN product_eshop e ON e.product_id = p.id AND e.eshop_id = s.eshop_id
LEFT JOIN product_stock ps ON ps.product_id = p.id AND ps.warehouse_id = m.warehouse_id
    AND ps.wms_id = coalesce(m.wms_id, w.default_wms_id)
LEFT JOIN partner_stock t ON t.eshop_id = s.eshop_id AND t.inventory = i.inventory AND t.item = i.item
    AND t.partner_warehouse = m.partner_warehouse;
