-- no-transaction
-- The jobs of reports of warehouses that refused some (shared/operate/src/attention/reports.rs): a look skips from one warehouse to the next.
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_refused_reports ON job (organisation_id, sequence, created_at)
    WHERE kind = 'expedition.news' AND state = 'succeeded' AND failed > 0;
