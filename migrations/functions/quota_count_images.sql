-- As `quota_count`, for images, whose organisation is that of their product, and for their bytes.
CREATE OR REPLACE FUNCTION quota_count_images() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO quota_use AS q (organisation_id, kind, shard, used)
        SELECT p.organisation_id, k.kind, pg_backend_pid() % 1024, sum(k.used)
        FROM came JOIN product p ON p.id = ANY (ARRAY[came.product_id])
        CROSS JOIN LATERAL (VALUES (TG_TABLE_NAME::text, 1), ('object_bytes', came.size)) AS k (kind, used)
        GROUP BY 1, 2 ORDER BY 1, 2
        ON CONFLICT (organisation_id, kind, shard) DO UPDATE SET used = q.used + excluded.used;
    ELSE
        INSERT INTO quota_use AS q (organisation_id, kind, shard, used)
        SELECT p.organisation_id, k.kind, pg_backend_pid() % 1024, -sum(k.used)
        FROM went JOIN product p ON p.id = ANY (ARRAY[went.product_id])
        CROSS JOIN LATERAL (VALUES (TG_TABLE_NAME::text, 1), ('object_bytes', went.size)) AS k (kind, used)
        GROUP BY 1, 2 ORDER BY 1, 2
        ON CONFLICT (organisation_id, kind, shard) DO UPDATE SET used = q.used + excluded.used;
    END IF;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER product_image_comes_into_its_quota AFTER INSERT ON product_image
    REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION quota_count_images();
CREATE OR REPLACE TRIGGER product_image_leaves_its_quota AFTER DELETE ON product_image
    REFERENCING OLD TABLE AS went FOR EACH STATEMENT EXECUTE FUNCTION quota_count_images();
