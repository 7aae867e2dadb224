-- Another default wms of a warehouse changes the counts of partners' warehouses that are mapped to it without a wms.
CREATE OR REPLACE FUNCTION warehouse_has_another_default_wms() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO eshop_stock_change (eshop_id)
    SELECT DISTINCT s.eshop_id
    FROM integration_warehouse m JOIN integration_setting s ON s.id = ANY (ARRAY[m.setting_id])
    WHERE m.warehouse_id = NEW.id AND m.wms_id IS NULL AND s.active AND s.stock_sync_enabled;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER warehouse_has_another_default_wms AFTER UPDATE ON warehouse FOR EACH ROW
    WHEN (NEW.default_wms_id IS DISTINCT FROM OLD.default_wms_id)
    EXECUTE FUNCTION warehouse_has_another_default_wms();
