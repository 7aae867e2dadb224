-- A product left an e-shop: its partner is to have none of its SKU.
CREATE OR REPLACE FUNCTION product_was_detached() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO stock_withdrawn (eshop_id, product_sku)
    SELECT r.eshop_id, p.product_sku
    FROM removed r JOIN product p ON p.id = ANY (ARRAY[r.product_id])
    -- what was never physical has no stock of ours at the partner
    WHERE p.type = 'physical' AND (partner_is_sent_stocks(r.eshop_id) OR partner_has_a_count(r.eshop_id, p.product_sku))
    ORDER BY r.eshop_id, p.product_sku
    ON CONFLICT (eshop_id, product_sku) DO UPDATE SET withdrawn_at = excluded.withdrawn_at;
    INSERT INTO eshop_stock_change (eshop_id, products)
    SELECT eshop_id, array_agg(product_id) FROM removed
    GROUP BY eshop_id HAVING partner_is_sent_stocks(eshop_id);
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER product_was_detached AFTER DELETE ON product_eshop REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION product_was_detached();
