-- no-transaction
-- The webhooks that deliveries were exhausted at (shared/domain/src/webhook/health/exhausted.rs): a look skips from one to the next,
-- however many minutes each has.
CREATE INDEX CONCURRENTLY IF NOT EXISTS exhausted_activity_by_webhook ON exhausted_activity (webhook_id, minute);
