-- A function in SQL that has a subquery is parsed and planned anew by each statement that calls it. These are called by the triggers of
-- products and stocks, and by the lanes of warehouses: it was a third of the statement that creates a product. In PL/pgSQL, a
-- connection plans them once.
CREATE OR REPLACE FUNCTION a_partner_is_told_of(warehouse uuid) RETURNS boolean
LANGUAGE plpgsql STABLE
AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM integration_warehouse m JOIN integration_setting s ON s.id = m.setting_id
        WHERE m.warehouse_id = warehouse AND s.active AND s.stock_sync_enabled);
END
$$;

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

CREATE OR REPLACE FUNCTION partner_has_a_count(eshop uuid, sku text) RETURNS boolean
LANGUAGE plpgsql STABLE
AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM partner_item i
        JOIN partner_stock t ON t.eshop_id = i.eshop_id AND t.inventory = i.inventory AND t.item = i.item
        WHERE i.eshop_id = eshop AND i.product_sku = sku);
END
$$;

CREATE OR REPLACE FUNCTION handover_is_covered(expedition uuid) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
    RETURN NOT EXISTS (
        SELECT FROM expedition e JOIN expedition_item i ON i.expedition_id = e.id
        JOIN product_stock s ON s.product_id = i.product_id AND s.warehouse_id = e.warehouse_id AND s.wms_id = e.wms_id
        WHERE e.id = handover_is_covered.expedition AND s.held > s.quantity);
END
$$;

CREATE OR REPLACE FUNCTION handover_is_due(wms uuid) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
    RETURN EXISTS (SELECT FROM expedition_handover h
                   WHERE h.handover_wms_id = wms AND h.handover_state IN ('sending', 'withdrawing')
                     AND h.handover_next_attempt_at <= now())
        OR EXISTS (SELECT FROM expedition_handover h
                   WHERE h.handover_wms_id = wms AND h.handover_state = 'pending' AND h.handover_next_attempt_at <= now()
                     AND handover_is_covered(h.id));
END
$$;
