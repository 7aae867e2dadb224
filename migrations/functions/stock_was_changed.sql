-- Writes the stocks whose available pieces have changed to `stock_change`, one row a statement and warehouse.
CREATE OR REPLACE FUNCTION stock_was_changed() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF EXISTS (SELECT FROM integration_setting WHERE active AND stock_sync_enabled) THEN
        INSERT INTO stock_change (warehouse_id, wms_id, products)
        -- by grouping: a join would be planned for the one stock of the first statement of a session
        SELECT c.warehouse_id, c.wms_id, array_agg(c.product_id)
        FROM (SELECT t.product_id, t.warehouse_id, t.wms_id
              FROM (SELECT id, product_id, warehouse_id, wms_id, quantity - booked AS available FROM became
                    UNION ALL
                    SELECT id, product_id, warehouse_id, wms_id, booked - quantity FROM was) AS t
              GROUP BY t.id, t.product_id, t.warehouse_id, t.wms_id HAVING sum(t.available) <> 0) AS c
        GROUP BY c.warehouse_id, c.wms_id HAVING a_partner_is_told_of(c.warehouse_id);
    END IF;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER stock_was_changed AFTER UPDATE ON product_stock REFERENCING OLD TABLE AS was NEW TABLE AS became
    FOR EACH STATEMENT EXECUTE FUNCTION stock_was_changed();
