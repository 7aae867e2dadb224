-- no-transaction
-- The orders that a warehouse packed although it did not have them any more, the last ones first (shared/operate/src/attention/reports.rs).
CREATE INDEX CONCURRENTLY IF NOT EXISTS wms_contradiction_by_wms ON wms_contradiction (wms_id, at);
