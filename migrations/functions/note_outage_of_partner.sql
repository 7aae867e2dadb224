-- The partner of an e-shop fails, or no longer does.
CREATE OR REPLACE FUNCTION note_outage_of_partner() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM end_outage(NEW.eshop_id);
    IF NEW.error IS NOT NULL THEN
        INSERT INTO outage (called, name, kind, organisation_id, eshop_id, began_at, error, job_id)
        VALUES (NEW.eshop_id, NEW.integration_type, 'partner', NEW.organisation_id, NEW.eshop_id, coalesce(NEW.error_at, now()), NEW.error, NEW.error_job)
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER outage AFTER UPDATE OF error ON integration_setting FOR EACH ROW
WHEN ((OLD.error IS NULL) <> (NEW.error IS NULL)) EXECUTE FUNCTION note_outage_of_partner();
