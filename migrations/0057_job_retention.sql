-- Jobs are kept for a while after their end (shared/src/job/retention.rs); the upkeep finds those whose time is over.
CREATE INDEX job_by_end ON job (finished_at) WHERE finished_at IS NOT NULL;
