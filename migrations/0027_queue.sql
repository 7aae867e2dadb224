-- Queues: what the operator wishes of each (decisions, section 5). Every worker reads it and obeys within seconds; Redis
-- knows nothing of it, so a wish survives whatever Redis loses.
CREATE TABLE queue (
    id uuid PRIMARY KEY,
    name text NOT NULL
        CONSTRAINT name_is_known CHECK (name IN ('chunk', 'lane', 'upkeep')) CONSTRAINT name_is_unique UNIQUE,
    paused boolean NOT NULL DEFAULT false,
    -- null: what each worker was started with
    concurrency integer CONSTRAINT concurrency_is_1_to_1024 CHECK (concurrency BETWEEN 1 AND 1024),
    changed_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO queue (id, name) VALUES (uuid_v7(), 'chunk'), (uuid_v7(), 'lane'), (uuid_v7(), 'upkeep');
REVOKE INSERT, DELETE, TRUNCATE ON queue FROM longshore_service;
