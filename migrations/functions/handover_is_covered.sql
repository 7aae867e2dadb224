-- Whether each stock of an order has the pieces that are held in it: one that holds too much is about to be set right, and
-- that may take the pieces of this order. In PL/pgSQL, for the reason of `a_partner_is_told_of`.
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
