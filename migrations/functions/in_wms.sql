-- Whether a caller that is the program of a wms may see a record of a wms.
CREATE OR REPLACE FUNCTION in_wms(bound uuid, wms uuid) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN bound IS NULL OR wms = bound;
