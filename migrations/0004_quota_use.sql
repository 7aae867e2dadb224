-- How many records of a kind an organisation has, so that a quota is looked up, not counted among millions. Each
-- session adds to a row of its own (as far as its number allows), so creations do not wait for each other. The sum of
-- the rows counts. The triggers are created with their tables.
CREATE TABLE quota_use (
    organisation_id uuid NOT NULL,
    kind text NOT NULL,
    shard smallint NOT NULL,
    used bigint NOT NULL,
    PRIMARY KEY (organisation_id, kind, shard)
) WITH (fillfactor = 50);

-- Counts what a statement has inserted into a table with organisations, or deleted from it.
CREATE FUNCTION quota_count() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO quota_use AS q (organisation_id, kind, shard, used)
        SELECT organisation_id, TG_TABLE_NAME, pg_backend_pid() % 1024, count(*)
        FROM came GROUP BY organisation_id ORDER BY organisation_id
        ON CONFLICT (organisation_id, kind, shard) DO UPDATE SET used = q.used + excluded.used;
    ELSE
        INSERT INTO quota_use AS q (organisation_id, kind, shard, used)
        SELECT organisation_id, TG_TABLE_NAME, pg_backend_pid() % 1024, -count(*)
        FROM went GROUP BY organisation_id ORDER BY organisation_id
        ON CONFLICT (organisation_id, kind, shard) DO UPDATE SET used = q.used + excluded.used;
    END IF;
    RETURN NULL;
END
$$;

-- The same for images, whose organisation is that of their product.
CREATE FUNCTION quota_count_images() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO quota_use AS q (organisation_id, kind, shard, used)
        SELECT p.organisation_id, TG_TABLE_NAME, pg_backend_pid() % 1024, count(*)
        FROM came JOIN product p ON p.id = ANY (ARRAY[came.product_id]) GROUP BY 1 ORDER BY 1
        ON CONFLICT (organisation_id, kind, shard) DO UPDATE SET used = q.used + excluded.used;
    ELSE
        INSERT INTO quota_use AS q (organisation_id, kind, shard, used)
        SELECT p.organisation_id, TG_TABLE_NAME, pg_backend_pid() % 1024, -count(*)
        FROM went JOIN product p ON p.id = ANY (ARRAY[went.product_id]) GROUP BY 1 ORDER BY 1
        ON CONFLICT (organisation_id, kind, shard) DO UPDATE SET used = q.used + excluded.used;
    END IF;
    RETURN NULL;
END
$$;

-- The same for access tokens, row by row: those of an organisation that belong to no account and are not revoked.
CREATE FUNCTION quota_count_token() RETURNS trigger LANGUAGE plpgsql AS $$
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
