-- Whether the partner of an e-shop gets stocks at all. In PL/pgSQL, for the reason of `a_partner_is_told_of`.
CREATE OR REPLACE FUNCTION partner_is_sent_stocks(eshop uuid) RETURNS boolean
LANGUAGE plpgsql STABLE
AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM integration_setting s
        WHERE s.eshop_id = eshop AND s.active AND s.stock_sync_enabled
          AND EXISTS (SELECT FROM integration_warehouse m WHERE m.setting_id = s.id));
END
$$;
