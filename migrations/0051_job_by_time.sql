-- Whoever runs the service looks at the newest jobs of everybody, and at those that failed, however many have succeeded
-- since. An index on all organisations by time was missing; the other holds only what has an error, so that a healthy job
-- does not pay for it.
CREATE INDEX job_by_time ON job (created_at, id);
CREATE INDEX job_with_error ON job (created_at, id) WHERE state = 'failed' OR error IS NOT NULL;
