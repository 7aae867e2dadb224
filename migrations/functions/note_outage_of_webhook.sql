-- A destination of webhooks fails, or no longer does.
CREATE OR REPLACE FUNCTION note_outage_of_webhook() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM end_outage(NEW.webhook_id);
    INSERT INTO outage (called, name, kind, organisation_id, eshop_id, began_at)
    SELECT id, destination, 'webhook', organisation_id, eshop_id, NEW.failing_since FROM webhook
    WHERE id = NEW.webhook_id AND NEW.failing_since IS NOT NULL
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER outage AFTER UPDATE OF failing_since ON webhook_lane FOR EACH ROW
WHEN (OLD.failing_since IS DISTINCT FROM NEW.failing_since) EXECUTE FUNCTION note_outage_of_webhook();
