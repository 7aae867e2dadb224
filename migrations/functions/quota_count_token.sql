-- As `quota_count`, for access tokens, row by row: those of an organisation that belong to no account and are not
-- revoked.
CREATE OR REPLACE FUNCTION quota_count_token() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    was integer := 0;
    is_now integer := 0;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        was := (OLD.organisation_id IS NOT NULL AND OLD.revoked_at IS NULL
                AND num_nonnulls(OLD.admin_id, OLD.business_user_id) = 0)::integer;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        is_now := (NEW.organisation_id IS NOT NULL AND NEW.revoked_at IS NULL
                   AND num_nonnulls(NEW.admin_id, NEW.business_user_id) = 0)::integer;
    END IF;
    IF was <> is_now THEN
        INSERT INTO quota_use AS q (organisation_id, kind, shard, used)
        VALUES (coalesce(NEW.organisation_id, OLD.organisation_id), TG_TABLE_NAME, pg_backend_pid() % 1024, is_now - was)
        ON CONFLICT (organisation_id, kind, shard) DO UPDATE SET used = q.used + excluded.used;
    END IF;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER access_token_comes_into_its_quota AFTER INSERT OR DELETE ON access_token
    FOR EACH ROW EXECUTE FUNCTION quota_count_token();
CREATE OR REPLACE TRIGGER access_token_leaves_its_quota AFTER UPDATE OF revoked_at ON access_token
    FOR EACH ROW WHEN (OLD.revoked_at IS DISTINCT FROM NEW.revoked_at) EXECUTE FUNCTION quota_count_token();
