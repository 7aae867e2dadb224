-- The version of a record: a number that each change of what the record shows raises by one (and once for each set-back
-- of Postgres to above `version_floor`), and `changed_at`, which grows with it. The start of the transaction would not
-- do for `changed_at`: a sync that waits for a lock while a PUT goes through would write last and look older. Both are
-- set here, under the lock of the row, for each statement that raises `version` or touches `changed_at`. What the
-- service only observes touches neither.
CREATE OR REPLACE FUNCTION raise_version() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    NEW.version := greatest(OLD.version, version_floor()) + 1;
    NEW.changed_at := greatest(clock_timestamp(), OLD.changed_at + interval '1 microsecond');
    RETURN NEW;
END
$$;

-- One for each table of records. A job has a function of its own (raise_job_version), and so has an order (expedition_moves).
CREATE OR REPLACE TRIGGER raise_version BEFORE UPDATE ON organisation FOR EACH ROW
    WHEN (NEW.version <> OLD.version OR NEW.changed_at <> OLD.changed_at) EXECUTE FUNCTION raise_version();
CREATE OR REPLACE TRIGGER raise_version BEFORE UPDATE ON warehouse FOR EACH ROW
    WHEN (NEW.version <> OLD.version OR NEW.changed_at <> OLD.changed_at) EXECUTE FUNCTION raise_version();
CREATE OR REPLACE TRIGGER raise_version BEFORE UPDATE ON wms FOR EACH ROW
    WHEN (NEW.version <> OLD.version OR NEW.changed_at <> OLD.changed_at) EXECUTE FUNCTION raise_version();
CREATE OR REPLACE TRIGGER raise_version BEFORE UPDATE ON eshop FOR EACH ROW
    WHEN (NEW.version <> OLD.version OR NEW.changed_at <> OLD.changed_at) EXECUTE FUNCTION raise_version();
CREATE OR REPLACE TRIGGER raise_version BEFORE UPDATE ON supplier FOR EACH ROW
    WHEN (NEW.version <> OLD.version OR NEW.changed_at <> OLD.changed_at) EXECUTE FUNCTION raise_version();
CREATE OR REPLACE TRIGGER raise_version BEFORE UPDATE ON admin FOR EACH ROW
    WHEN (NEW.version <> OLD.version OR NEW.changed_at <> OLD.changed_at) EXECUTE FUNCTION raise_version();
CREATE OR REPLACE TRIGGER raise_version BEFORE UPDATE ON business_user FOR EACH ROW
    WHEN (NEW.version <> OLD.version OR NEW.changed_at <> OLD.changed_at) EXECUTE FUNCTION raise_version();
CREATE OR REPLACE TRIGGER raise_version BEFORE UPDATE ON session FOR EACH ROW
    WHEN (NEW.version <> OLD.version OR NEW.changed_at <> OLD.changed_at) EXECUTE FUNCTION raise_version();
CREATE OR REPLACE TRIGGER raise_version BEFORE UPDATE ON access_token FOR EACH ROW
    WHEN (NEW.version <> OLD.version OR NEW.changed_at <> OLD.changed_at) EXECUTE FUNCTION raise_version();
CREATE OR REPLACE TRIGGER raise_version BEFORE UPDATE ON carrier FOR EACH ROW
    WHEN (NEW.version <> OLD.version OR NEW.changed_at <> OLD.changed_at) EXECUTE FUNCTION raise_version();
CREATE OR REPLACE TRIGGER raise_version BEFORE UPDATE ON carrier_service FOR EACH ROW
    WHEN (NEW.version <> OLD.version OR NEW.changed_at <> OLD.changed_at) EXECUTE FUNCTION raise_version();
CREATE OR REPLACE TRIGGER raise_version BEFORE UPDATE ON packaging_option FOR EACH ROW
    WHEN (NEW.version <> OLD.version OR NEW.changed_at <> OLD.changed_at) EXECUTE FUNCTION raise_version();
CREATE OR REPLACE TRIGGER raise_version BEFORE UPDATE ON product FOR EACH ROW
    WHEN (NEW.version <> OLD.version OR NEW.changed_at <> OLD.changed_at) EXECUTE FUNCTION raise_version();
CREATE OR REPLACE TRIGGER raise_version BEFORE UPDATE ON product_stock FOR EACH ROW
    WHEN (NEW.version <> OLD.version OR NEW.changed_at <> OLD.changed_at) EXECUTE FUNCTION raise_version();
CREATE OR REPLACE TRIGGER raise_version BEFORE UPDATE ON stock_advice FOR EACH ROW
    WHEN (NEW.version <> OLD.version OR NEW.changed_at <> OLD.changed_at) EXECUTE FUNCTION raise_version();
CREATE OR REPLACE TRIGGER raise_version BEFORE UPDATE ON webhook FOR EACH ROW
    WHEN (NEW.version <> OLD.version OR NEW.changed_at <> OLD.changed_at) EXECUTE FUNCTION raise_version();
CREATE OR REPLACE TRIGGER raise_version BEFORE UPDATE ON event_reader FOR EACH ROW
    WHEN (NEW.version <> OLD.version OR NEW.changed_at <> OLD.changed_at) EXECUTE FUNCTION raise_version();
CREATE OR REPLACE TRIGGER raise_version BEFORE UPDATE ON integration_setting FOR EACH ROW
    WHEN (NEW.version <> OLD.version OR NEW.changed_at <> OLD.changed_at) EXECUTE FUNCTION raise_version();
CREATE OR REPLACE TRIGGER raise_version BEFORE UPDATE ON carrier_preference FOR EACH ROW
    WHEN (NEW.version <> OLD.version OR NEW.changed_at <> OLD.changed_at) EXECUTE FUNCTION raise_version();
CREATE OR REPLACE TRIGGER raise_version BEFORE UPDATE ON wms_setting FOR EACH ROW
    WHEN (NEW.version <> OLD.version OR NEW.changed_at <> OLD.changed_at) EXECUTE FUNCTION raise_version();
