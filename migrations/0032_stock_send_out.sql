-- Stocks that have changed and have to be sent to a partner: a trigger writes them in the transaction of the change, so
-- no code path can forget it, and one row a statement, so a stock sync of a million rows costs a thousand. Nothing is
-- written where no partner gets the stocks of the warehouse.
CREATE TABLE stock_change (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    warehouse_id uuid NOT NULL,
    wms_id uuid NOT NULL,
    products uuid[] NOT NULL
);

CREATE FUNCTION a_partner_is_told_of(warehouse uuid) RETURNS boolean
LANGUAGE sql STABLE
RETURN EXISTS (
    SELECT FROM integration_warehouse m JOIN integration_setting s ON s.id = m.setting_id
    WHERE m.warehouse_id = warehouse AND s.active AND s.stock_sync_enabled);

CREATE FUNCTION stock_was_added() RETURNS trigger
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
CREATE TRIGGER stock_was_added AFTER INSERT ON product_stock REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION stock_was_added();

CREATE FUNCTION stock_was_changed() RETURNS trigger
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
CREATE TRIGGER stock_was_changed AFTER UPDATE ON product_stock REFERENCING OLD TABLE AS was NEW TABLE AS became
    FOR EACH STATEMENT EXECUTE FUNCTION stock_was_changed();

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
    compare_at timestamptz NOT NULL
);
CREATE INDEX stock_send_out_by_comparison ON stock_send_out (compare_at);

-- The next moment at which an e-shop's stocks are compared: between one and five at night, each e-shop at its own.
CREATE FUNCTION next_night(eshop uuid) RETURNS timestamptz
LANGUAGE sql STABLE
RETURN (
    SELECT tonight + CASE WHEN tonight <= now() THEN interval '1 day' ELSE interval '0' END
    FROM (SELECT date_trunc('day', now(), 'UTC')
              + make_interval(secs => 3600 + (hashtextextended(eshop::text, 0) & 16383) % 14400) AS tonight) AS n);
