-- no-transaction
-- The syncs of an e-shop that refused all of their rows, or most of many (shared/operate/src/attention/refused.rs): a look skips from one
-- kind of one e-shop to the next, however many syncs refused a few rows. A sync is added once, when it ends.
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_refused ON job (eshop_id, kind, created_at)
    WHERE state = 'succeeded' AND kind IN ('product.sync', 'stock.sync', 'stock.send', 'expedition.sync')
      AND failed > 0 AND (failed = total OR (failed >= 100 AND failed >= total - failed));
