-- The system of a warehouse fails, or no longer does.
CREATE OR REPLACE FUNCTION note_outage_of_wms() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM end_outage(NEW.wms_id);
    INSERT INTO outage (called, name, kind, organisation_id, began_at, error)
    SELECT m.id, m.name, 'warehouse', s.organisation_id, NEW.failing_since, NEW.error
    FROM wms_setting s JOIN wms m ON m.id = s.wms_id
    WHERE s.wms_id = NEW.wms_id AND NEW.failing_since IS NOT NULL
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER outage AFTER UPDATE OF failing_since ON wms_lane FOR EACH ROW
WHEN (OLD.failing_since IS DISTINCT FROM NEW.failing_since) EXECUTE FUNCTION note_outage_of_wms();
