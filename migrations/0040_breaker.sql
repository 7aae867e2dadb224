-- The breaker of a lane (shared/src/webhook/breaker.rs): after several failures in a row it is open, and the lane sends
-- one probe at `probe_at`. Kept here rather than in a worker, so that every worker obeys it, and a restart does not
-- forget it.
ALTER TABLE webhook_lane
    -- when the next probe is due; null while the breaker is closed
    ADD COLUMN probe_at timestamptz,
    -- probes that have failed since it opened
    ADD COLUMN probes integer NOT NULL DEFAULT 0,
    ADD CONSTRAINT an_open_breaker_has_seen_failures CHECK (probe_at IS NULL OR failures > 0),
    ADD CONSTRAINT only_an_open_breaker_counts_probes CHECK (probe_at IS NOT NULL OR probes = 0);
