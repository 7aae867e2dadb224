-- What is deleted fails no longer. The argument of the trigger is the column that says what was called.
CREATE OR REPLACE FUNCTION end_outage_of_deleted() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM end_outage((to_jsonb(OLD) ->> TG_ARGV[0])::uuid);
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER outage_of_deleted AFTER DELETE ON webhook_lane FOR EACH ROW
WHEN (OLD.failing_since IS NOT NULL) EXECUTE FUNCTION end_outage_of_deleted('webhook_id');
CREATE OR REPLACE TRIGGER outage_of_deleted AFTER DELETE ON wms_lane FOR EACH ROW
WHEN (OLD.failing_since IS NOT NULL) EXECUTE FUNCTION end_outage_of_deleted('wms_id');
CREATE OR REPLACE TRIGGER outage_of_deleted AFTER DELETE ON integration_setting FOR EACH ROW
WHEN (OLD.error IS NOT NULL) EXECUTE FUNCTION end_outage_of_deleted('eshop_id');
