-- A product came to an e-shop: its partner is to have the counts of it.
CREATE OR REPLACE FUNCTION product_was_attached() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO eshop_stock_change (eshop_id, products)
    SELECT eshop_id, array_agg(product_id) FROM added
    GROUP BY eshop_id HAVING partner_is_sent_stocks(eshop_id);
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER product_was_attached AFTER INSERT ON product_eshop REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION product_was_attached();
