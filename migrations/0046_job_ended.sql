-- no-transaction
-- The jobs that ended in a state: the console lists and counts them without reading those that have not ended, or that ended
-- otherwise. A job is added once, when it ends.
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_ended ON job (state, created_at, id)
    WHERE state IN ('succeeded', 'failed', 'cancelled');
