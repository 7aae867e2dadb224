-- Whether a connector may see a webhook or a reader: one that its token has made, or that has come to it.
CREATE OR REPLACE FUNCTION in_hands(token uuid, made_by uuid) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN token IS NULL OR coalesce(made_by = token, false);
