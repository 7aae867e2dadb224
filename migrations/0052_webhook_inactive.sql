-- no-transaction
-- The webhooks that somebody deactivated: the overview names them, and most webhooks are active.
CREATE INDEX CONCURRENTLY IF NOT EXISTS webhook_inactive ON webhook (eshop_id, changed_at, id)
    WHERE NOT active AND disabled_at IS NULL;
