-- The rights of the service forbid it, too; this also holds for the owner of the table.
CREATE OR REPLACE FUNCTION stock_movement_is_append_only() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'stock movements are append only' USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE OR REPLACE TRIGGER stock_movement_is_append_only BEFORE UPDATE OR DELETE ON stock_movement
    FOR EACH ROW EXECUTE FUNCTION stock_movement_is_append_only();
CREATE OR REPLACE TRIGGER stock_movement_is_not_emptied BEFORE TRUNCATE ON stock_movement
    FOR EACH STATEMENT EXECUTE FUNCTION stock_movement_is_append_only();
