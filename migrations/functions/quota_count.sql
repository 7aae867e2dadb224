-- Counts what a statement has inserted into a table with organisations, or deleted from it.
CREATE OR REPLACE FUNCTION quota_count() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE OR REPLACE TRIGGER warehouse_comes_into_its_quota AFTER INSERT ON warehouse
    REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION quota_count();
CREATE OR REPLACE TRIGGER warehouse_leaves_its_quota AFTER DELETE ON warehouse
    REFERENCING OLD TABLE AS went FOR EACH STATEMENT EXECUTE FUNCTION quota_count();
CREATE OR REPLACE TRIGGER wms_comes_into_its_quota AFTER INSERT ON wms
    REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION quota_count();
CREATE OR REPLACE TRIGGER wms_leaves_its_quota AFTER DELETE ON wms
    REFERENCING OLD TABLE AS went FOR EACH STATEMENT EXECUTE FUNCTION quota_count();
CREATE OR REPLACE TRIGGER eshop_comes_into_its_quota AFTER INSERT ON eshop
    REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION quota_count();
CREATE OR REPLACE TRIGGER eshop_leaves_its_quota AFTER DELETE ON eshop
    REFERENCING OLD TABLE AS went FOR EACH STATEMENT EXECUTE FUNCTION quota_count();
CREATE OR REPLACE TRIGGER supplier_comes_into_its_quota AFTER INSERT ON supplier
    REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION quota_count();
CREATE OR REPLACE TRIGGER supplier_leaves_its_quota AFTER DELETE ON supplier
    REFERENCING OLD TABLE AS went FOR EACH STATEMENT EXECUTE FUNCTION quota_count();
CREATE OR REPLACE TRIGGER business_user_comes_into_its_quota AFTER INSERT ON business_user
    REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION quota_count();
CREATE OR REPLACE TRIGGER business_user_leaves_its_quota AFTER DELETE ON business_user
    REFERENCING OLD TABLE AS went FOR EACH STATEMENT EXECUTE FUNCTION quota_count();
CREATE OR REPLACE TRIGGER product_comes_into_its_quota AFTER INSERT ON product
    REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION quota_count();
CREATE OR REPLACE TRIGGER product_leaves_its_quota AFTER DELETE ON product
    REFERENCING OLD TABLE AS went FOR EACH STATEMENT EXECUTE FUNCTION quota_count();
CREATE OR REPLACE TRIGGER stock_advice_comes_into_its_quota AFTER INSERT ON stock_advice
    REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION quota_count();
CREATE OR REPLACE TRIGGER stock_advice_leaves_its_quota AFTER DELETE ON stock_advice
    REFERENCING OLD TABLE AS went FOR EACH STATEMENT EXECUTE FUNCTION quota_count();
CREATE OR REPLACE TRIGGER webhook_comes_into_its_quota AFTER INSERT ON webhook
    REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION quota_count();
CREATE OR REPLACE TRIGGER webhook_leaves_its_quota AFTER DELETE ON webhook
    REFERENCING OLD TABLE AS went FOR EACH STATEMENT EXECUTE FUNCTION quota_count();
CREATE OR REPLACE TRIGGER expedition_comes_into_its_quota AFTER INSERT ON expedition
    REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION quota_count();
CREATE OR REPLACE TRIGGER expedition_leaves_its_quota AFTER DELETE ON expedition
    REFERENCING OLD TABLE AS went FOR EACH STATEMENT EXECUTE FUNCTION quota_count();
CREATE OR REPLACE TRIGGER carrier_preference_comes_into_its_quota AFTER INSERT ON carrier_preference
    REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION quota_count();
CREATE OR REPLACE TRIGGER carrier_preference_leaves_its_quota AFTER DELETE ON carrier_preference
    REFERENCING OLD TABLE AS went FOR EACH STATEMENT EXECUTE FUNCTION quota_count();
