-- Who executes a request finds its idempotency key by its claim: without this, each looked through a day of keys. Whole,
-- not only those without an answer, so that writing the answer changes no index.
CREATE UNIQUE INDEX idempotency_by_claim ON idempotency (claim);

-- The chunks of a job that are still to be done, in their order, whatever Postgres believes of how many those are: the
-- look for what is due took all due chunks of all jobs instead, once for each job.
CREATE INDEX job_chunk_live ON job_chunk (job_id, number) WHERE state IN ('queued', 'running');
