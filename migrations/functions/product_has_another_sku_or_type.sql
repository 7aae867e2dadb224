-- Another SKU or type of a product changes the counts that partners are to have: none of the former SKU, and those of the
-- present one.
CREATE OR REPLACE FUNCTION product_has_another_sku_or_type() RETURNS trigger
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
CREATE OR REPLACE TRIGGER product_has_another_sku_or_type AFTER UPDATE ON product FOR EACH ROW
    WHEN ((NEW.product_sku, NEW.type) IS DISTINCT FROM (OLD.product_sku, OLD.type))
    EXECUTE FUNCTION product_has_another_sku_or_type();
