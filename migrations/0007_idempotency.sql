-- Idempotency keys: one row a caller, method, path and key. The claim is committed before the
-- work starts, so a second request gets its answer at once; the answer is written in the transaction of the change.
CREATE TABLE idempotency (
    caller_id uuid NOT NULL,
    method text NOT NULL,
    path text NOT NULL,
    key text NOT NULL,
    -- SHA-256 of the body; absent while a stream is still being received
    body_hash bytea,
    -- a claim without an answer past this moment was left by a process that died
    claimed_until timestamptz NOT NULL,
    claim uuid NOT NULL,
    -- what became of the request; absent until it is answered
    outcome text,
    headers jsonb,
    body text,
    -- the job that was accepted: a repeated request shows its present state
    job_id uuid,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- whose records the caller might see when it used the key (SHA-256), so that it is not shown what it may no longer see
    scope bytea,
    PRIMARY KEY (caller_id, method, path, key)
);
CREATE INDEX idempotency_by_age ON idempotency (created_at);
-- The execution of a request finds its key by its claim. Not partial, so that writing the answer changes no index.
CREATE UNIQUE INDEX idempotency_by_claim ON idempotency (claim);
