-- Syncs by the clock (decisions, section 4): when a setting's next one is due. There is a row while the sync is enabled.
CREATE TABLE partner_clock (
    setting_id uuid NOT NULL REFERENCES integration_setting ON DELETE CASCADE,
    -- kind of the job that is started
    kind text NOT NULL,
    interval_minutes integer NOT NULL CONSTRAINT interval_is_positive CHECK (interval_minutes > 0),
    next_run_at timestamptz NOT NULL,
    PRIMARY KEY (setting_id, kind)
);
CREATE INDEX partner_clock_due ON partner_clock (next_run_at);

INSERT INTO partner_clock (setting_id, kind, interval_minutes, next_run_at)
SELECT id, 'product.sync', product_sync_interval, now() + random() * interval '1 minute'
FROM integration_setting WHERE active AND product_sync_enabled;

-- What went wrong the last time, until something goes right or the setting is stored anew.
ALTER TABLE integration_setting
    ADD COLUMN error text,
    ADD COLUMN error_at timestamptz,
    ADD COLUMN error_kind text,
    ADD COLUMN error_job uuid,
    ADD CONSTRAINT an_error_has_a_time CHECK ((error IS NULL) = (error_at IS NULL));
