-- no-transaction
-- The syncs that refused all of their rows, or most of many (shared/operate/src/attention/refused.rs), by organisation: a look gives each
-- organisation a share, so that one with many does not hide those of others.
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_refused_of_organisation ON job (organisation_id, eshop_id, kind, created_at)
    WHERE state = 'succeeded' AND kind IN ('product.sync', 'stock.sync', 'stock.send', 'expedition.sync')
      AND failed > 0 AND (failed = total OR (failed >= 100 AND failed >= total - failed));
