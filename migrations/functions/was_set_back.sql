-- Whether Postgres was set back in the last 90 days: warehouses may then report what is not known here. In PL/pgSQL, for the reason of
-- `a_partner_is_told_of`.
CREATE OR REPLACE FUNCTION was_set_back() RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
    RETURN EXISTS (SELECT FROM set_back WHERE seen_at > now() - interval '90 days');
END
$$;
