-- Writes the stocks that came to `stock_change`, one row a statement and warehouse.
CREATE OR REPLACE FUNCTION stock_was_added() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    -- most of the time, no partner gets stocks
    IF EXISTS (SELECT FROM integration_setting WHERE active AND stock_sync_enabled) THEN
        INSERT INTO stock_change (warehouse_id, wms_id, products)
        SELECT warehouse_id, wms_id, array_agg(product_id) FROM added
        WHERE quantity <> booked
        GROUP BY warehouse_id, wms_id HAVING a_partner_is_told_of(warehouse_id);
    END IF;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER stock_was_added AFTER INSERT ON product_stock REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION stock_was_added();
