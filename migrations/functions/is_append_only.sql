-- What is only added to, in the words of the argument. The rights of the service forbid the rest, too; this also holds for the owner of
-- the tables.
CREATE OR REPLACE FUNCTION is_append_only() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION '% are append only', TG_ARGV[0] USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE OR REPLACE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE ON audit
    FOR EACH ROW EXECUTE FUNCTION is_append_only('audit records');
CREATE OR REPLACE TRIGGER audit_is_not_emptied BEFORE TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION is_append_only('audit records');
CREATE OR REPLACE TRIGGER stock_movement_is_append_only BEFORE UPDATE OR DELETE ON stock_movement
    FOR EACH ROW EXECUTE FUNCTION is_append_only('stock movements');
CREATE OR REPLACE TRIGGER stock_movement_is_not_emptied BEFORE TRUNCATE ON stock_movement
    FOR EACH STATEMENT EXECUTE FUNCTION is_append_only('stock movements');
