-- When what is called failed: a destination of webhooks, the partner of an e-shop, the system of a warehouse. Timelines show it
-- (shared/operate/src/timeline/owner.rs), and a lane or a setting knows only the outage of now. Outages of under a minute are not kept, so
-- that one thing has at most one row a minute, however often it fails.
CREATE TABLE outage (
    -- the webhook, the e-shop of the partner, or the wms
    called uuid NOT NULL,
    -- what people call it, also after it is deleted
    name text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('webhook', 'partner', 'warehouse')),
    organisation_id uuid NOT NULL REFERENCES organisation (id) ON DELETE CASCADE,
    -- of a webhook or a partner
    eshop_id uuid REFERENCES eshop (id) ON DELETE CASCADE,
    began_at timestamptz NOT NULL,
    ended_at timestamptz,
    error text,
    -- whose call of the partner failed
    job_id uuid,
    PRIMARY KEY (called, began_at)
);
CREATE UNIQUE INDEX outage_that_lasts ON outage (called) WHERE ended_at IS NULL;
-- for the retention
CREATE INDEX outage_ended ON outage (ended_at);
CREATE INDEX outage_of_organisation_began ON outage (organisation_id, began_at);
CREATE INDEX outage_of_organisation_ended ON outage (organisation_id, ended_at);
CREATE INDEX outage_of_eshop_began ON outage (eshop_id, began_at);
CREATE INDEX outage_of_eshop_ended ON outage (eshop_id, ended_at);

CREATE FUNCTION end_outage(failing uuid) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM outage WHERE called = failing AND ended_at IS NULL AND began_at > now() - interval '1 minute';
    UPDATE outage SET ended_at = now() WHERE called = failing AND ended_at IS NULL;
END $$;

CREATE FUNCTION note_outage_of_webhook() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM end_outage(NEW.webhook_id);
    INSERT INTO outage (called, name, kind, organisation_id, eshop_id, began_at)
    SELECT id, destination, 'webhook', organisation_id, eshop_id, NEW.failing_since FROM webhook
    WHERE id = NEW.webhook_id AND NEW.failing_since IS NOT NULL
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER outage AFTER UPDATE OF failing_since ON webhook_lane FOR EACH ROW
WHEN (OLD.failing_since IS DISTINCT FROM NEW.failing_since) EXECUTE FUNCTION note_outage_of_webhook();

CREATE FUNCTION note_outage_of_wms() RETURNS trigger
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
CREATE TRIGGER outage AFTER UPDATE OF failing_since ON wms_lane FOR EACH ROW
WHEN (OLD.failing_since IS DISTINCT FROM NEW.failing_since) EXECUTE FUNCTION note_outage_of_wms();

CREATE FUNCTION note_outage_of_partner() RETURNS trigger
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
CREATE TRIGGER outage AFTER UPDATE OF error ON integration_setting FOR EACH ROW
WHEN ((OLD.error IS NULL) <> (NEW.error IS NULL)) EXECUTE FUNCTION note_outage_of_partner();

CREATE FUNCTION end_outage_of_deleted() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM end_outage((to_jsonb(OLD) ->> TG_ARGV[0])::uuid);
    RETURN NULL;
END $$;
CREATE TRIGGER outage_of_deleted AFTER DELETE ON webhook_lane FOR EACH ROW
WHEN (OLD.failing_since IS NOT NULL) EXECUTE FUNCTION end_outage_of_deleted('webhook_id');
CREATE TRIGGER outage_of_deleted AFTER DELETE ON wms_lane FOR EACH ROW
WHEN (OLD.failing_since IS NOT NULL) EXECUTE FUNCTION end_outage_of_deleted('wms_id');
CREATE TRIGGER outage_of_deleted AFTER DELETE ON integration_setting FOR EACH ROW
WHEN (OLD.error IS NOT NULL) EXECUTE FUNCTION end_outage_of_deleted('eshop_id');

-- what fails now
INSERT INTO outage (called, name, kind, organisation_id, eshop_id, began_at)
SELECT w.id, w.destination, 'webhook', w.organisation_id, w.eshop_id, l.failing_since
FROM webhook_lane l JOIN webhook w ON w.id = l.webhook_id WHERE l.failures > 0;
INSERT INTO outage (called, name, kind, organisation_id, began_at, error)
SELECT m.id, m.name, 'warehouse', s.organisation_id, l.failing_since, l.error
FROM wms_lane l JOIN wms_setting s ON s.wms_id = l.wms_id JOIN wms m ON m.id = l.wms_id WHERE l.failing_since IS NOT NULL;
INSERT INTO outage (called, name, kind, organisation_id, eshop_id, began_at, error, job_id)
SELECT eshop_id, integration_type, 'partner', organisation_id, eshop_id, error_at, error, error_job
FROM integration_setting WHERE error IS NOT NULL AND error_at IS NOT NULL;
