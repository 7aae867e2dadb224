-- Queues: what the operator wants of each. Every worker reads it and follows within seconds. It is
-- not in Redis, so it survives a Redis that loses its data.
CREATE TABLE queue (
    id uuid PRIMARY KEY,
    -- chunks that call a partner have a queue of their own: a slow partner holds up no bulk and no push
    name text NOT NULL
        CONSTRAINT name_is_known CHECK (name IN ('chunk', 'partner', 'lane', 'handover', 'upkeep'))
        CONSTRAINT name_is_unique UNIQUE,
    paused boolean NOT NULL DEFAULT false,
    resumes_at timestamptz,
    -- null: what each worker was started with
    concurrency integer CONSTRAINT concurrency_is_1_to_4096 CHECK (concurrency BETWEEN 1 AND 4096),
    changed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT only_what_is_paused_resumes CHECK (paused OR resumes_at IS NULL)
);
INSERT INTO queue (id, name)
VALUES (uuid_v7(), 'chunk'), (uuid_v7(), 'lane'), (uuid_v7(), 'upkeep'), (uuid_v7(), 'partner'), (uuid_v7(), 'handover');
REVOKE INSERT, DELETE, TRUNCATE ON queue FROM longshore_service;
