-- What a partner took of items whose SKU is withdrawn, in each mapped warehouse: it is to have none. Items that it was never sent, and
-- that it never listed, are not among them. `OFFSET 0` has items looked up by the few SKUs, and not SKUs by all items of the e-shop.
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
