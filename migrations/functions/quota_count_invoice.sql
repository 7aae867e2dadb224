-- As `quota_count`, for the bytes of invoices, row by row: another one takes the place of an invoice. Their organisation is that of
-- their order, which is deleted after them.
CREATE OR REPLACE FUNCTION quota_count_invoice() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO quota_use AS q (organisation_id, kind, shard, used)
    SELECT organisation_id, 'object_bytes', pg_backend_pid() % 1024, coalesce(NEW.size, 0) - coalesce(OLD.size, 0)
    FROM expedition WHERE id = ANY (ARRAY[coalesce(NEW.expedition_id, OLD.expedition_id)])
    ON CONFLICT (organisation_id, kind, shard) DO UPDATE SET used = q.used + excluded.used;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER expedition_invoice_counts_towards_its_quota AFTER INSERT OR DELETE OR UPDATE OF size ON expedition_invoice
    FOR EACH ROW EXECUTE FUNCTION quota_count_invoice();
