-- What else changes the counts that a partner is to have: another SKU or type of a product, and another default wms of a warehouse, for
-- partners' warehouses that are mapped to it without a wms.
CREATE FUNCTION product_has_another_sku_or_type() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    -- no product has the SKU now, or it is that of a product without stock
    IF OLD.type = 'physical' THEN
        INSERT INTO stock_withdrawn (eshop_id, product_sku)
        SELECT e.eshop_id, OLD.product_sku FROM product_eshop e
        WHERE e.product_id = OLD.id
          AND (partner_is_sent_stocks(e.eshop_id) OR partner_has_a_count(e.eshop_id, OLD.product_sku))
        ORDER BY e.eshop_id
        ON CONFLICT (eshop_id, product_sku) DO UPDATE SET withdrawn_at = excluded.withdrawn_at;
    END IF;
    INSERT INTO eshop_stock_change (eshop_id, products)
    SELECT e.eshop_id, ARRAY[NEW.id] FROM product_eshop e
    WHERE e.product_id = NEW.id AND partner_is_sent_stocks(e.eshop_id);
    RETURN NULL;
END
$$;
CREATE TRIGGER product_has_another_sku_or_type AFTER UPDATE ON product FOR EACH ROW
    WHEN ((NEW.product_sku, NEW.type) IS DISTINCT FROM (OLD.product_sku, OLD.type))
    EXECUTE FUNCTION product_has_another_sku_or_type();

CREATE FUNCTION warehouse_has_another_default_wms() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO eshop_stock_change (eshop_id)
    SELECT DISTINCT s.eshop_id
    FROM integration_warehouse m JOIN integration_setting s ON s.id = ANY (ARRAY[m.setting_id])
    WHERE m.warehouse_id = NEW.id AND m.wms_id IS NULL AND s.active AND s.stock_sync_enabled;
    RETURN NULL;
END
$$;
CREATE TRIGGER warehouse_has_another_default_wms AFTER UPDATE ON warehouse FOR EACH ROW
    WHEN (NEW.default_wms_id IS DISTINCT FROM OLD.default_wms_id)
    EXECUTE FUNCTION warehouse_has_another_default_wms();
