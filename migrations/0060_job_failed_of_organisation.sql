-- no-transaction
-- The jobs of an e-shop that failed (shared/domain/src/job/attention.rs), by organisation: a look gives each organisation a share, so that
-- one with many does not hide those of others. `IS TRUE`, here and in the look, keeps Postgres from taking an index of all jobs that ended:
-- while its statistics know of no failed job, it expects that to have one row, and would read all of them at each step.
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_failed_of_organisation ON job (organisation_id, eshop_id, kind, created_at)
    WHERE (state = 'failed') IS TRUE AND eshop_id IS NOT NULL;
