-- Whether a count of an SKU was sent to the partner, or read from it, at any time: sending may be switched off now.
-- In PL/pgSQL, for the reason of `a_partner_is_told_of`.
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
