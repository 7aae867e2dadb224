-- Whether a caller that is bound to an e-shop may see a record of an e-shop.
CREATE OR REPLACE FUNCTION in_eshop(bound uuid, eshop uuid) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN bound IS NULL OR eshop = bound;
