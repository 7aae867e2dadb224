-- Whether a partner gets the stocks of a warehouse. In PL/pgSQL, because a connection plans it once: a function in SQL
-- with a subquery is planned anew by each statement that calls it, and the triggers of stocks do.
CREATE OR REPLACE FUNCTION a_partner_is_told_of(warehouse uuid) RETURNS boolean
LANGUAGE plpgsql STABLE
AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM integration_warehouse m JOIN integration_setting s ON s.id = m.setting_id
        WHERE m.warehouse_id = warehouse AND s.active AND s.stock_sync_enabled);
END
$$;
