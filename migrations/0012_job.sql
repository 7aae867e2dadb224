-- Jobs (decisions, section 5): the record, its chunks (the unit of dispatch, execution, retry and progress), and the
-- errors of single items.
CREATE TABLE job (
    id uuid PRIMARY KEY,
    kind text NOT NULL,
    state text NOT NULL CONSTRAINT state_is_known CHECK (state IN (
        'receiving', 'queued', 'running', 'retrying', 'succeeded', 'failed', 'cancelled')),
    organisation_id uuid REFERENCES organisation,
    eshop_id uuid REFERENCES eshop,
    -- set when the job is accepted; a retry is a new acceptance
    acceptance bigint,
    -- jobs of one sequence run one after the other, in the order of acceptance
    sequence uuid,
    -- what the kind needs besides the items
    parameters jsonb NOT NULL DEFAULT '{}',
    total integer NOT NULL DEFAULT 0,
    done integer NOT NULL DEFAULT 0,
    changed integer NOT NULL DEFAULT 0,
    unchanged integer NOT NULL DEFAULT 0,
    failed integer NOT NULL DEFAULT 0,
    chunks_open integer NOT NULL DEFAULT 0 CONSTRAINT open_chunks_are_not_negative CHECK (chunks_open >= 0),
    attempts integer NOT NULL DEFAULT 0,
    error text,
    actor_type text NOT NULL,
    actor_id uuid,
    actor_name text NOT NULL,
    request_id text,
    traceparent text,
    -- who receives renews this; past it the sender or the process is gone, and the job is removed
    receiving_until timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    finished_at timestamptz,
    changed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT progress_adds_up CHECK (done = changed + unchanged + failed AND done <= total),
    CONSTRAINT an_accepted_job_has_a_number CHECK (state = 'receiving' OR acceptance IS NOT NULL),
    CONSTRAINT only_a_receiving_job_has_a_receiver CHECK ((state = 'receiving') = (receiving_until IS NOT NULL)),
    CONSTRAINT an_ended_job_has_an_end
        CHECK ((state IN ('succeeded', 'failed', 'cancelled')) = (finished_at IS NOT NULL)),
    CONSTRAINT an_ended_job_has_no_open_chunk
        CHECK (state NOT IN ('succeeded', 'failed', 'cancelled') OR chunks_open = 0)
) WITH (fillfactor = 70);
CREATE INDEX job_by_creation ON job (organisation_id, created_at, id);
CREATE INDEX job_by_change ON job (changed_at, id);
CREATE INDEX job_by_eshop ON job (eshop_id, created_at);
CREATE INDEX job_live ON job (acceptance) WHERE state IN ('queued', 'running', 'retrying');
CREATE INDEX job_in_sequence ON job (sequence, acceptance)
    WHERE sequence IS NOT NULL AND state IN ('queued', 'running', 'retrying');
CREATE INDEX job_receiving ON job (receiving_until) WHERE state = 'receiving';

CREATE TABLE job_chunk (
    job_id uuid NOT NULL REFERENCES job ON DELETE CASCADE,
    number integer NOT NULL,
    state text NOT NULL CONSTRAINT state_is_known CHECK (state IN (
        'queued', 'running', 'succeeded', 'failed', 'cancelled')),
    -- the items, encoded and compressed; emptied when the chunk has succeeded
    payload bytea,
    item_count integer NOT NULL CONSTRAINT a_chunk_has_items CHECK (item_count > 0),
    -- position of its first item in the job, unless `indexes` names each
    first_index integer NOT NULL,
    indexes integer[],
    -- hashes of the items' keys, kept until acceptance has looked for the same key twice
    keys uuid[],
    -- positions in the chunk of items whose key stands earlier in the job
    duplicates integer[] NOT NULL DEFAULT '{}',
    -- executions so far, and those that ended with the death of their process
    attempts integer NOT NULL DEFAULT 0,
    crashes integer NOT NULL DEFAULT 0,
    -- fencing token: raised by each claim; a result that bears an older one changes nothing
    token bigint NOT NULL DEFAULT 0,
    leased_until timestamptz,
    next_attempt_at timestamptz NOT NULL DEFAULT now(),
    changed integer NOT NULL DEFAULT 0,
    unchanged integer NOT NULL DEFAULT 0,
    failed integer NOT NULL DEFAULT 0,
    error text,
    started_at timestamptz,
    finished_at timestamptz,
    PRIMARY KEY (job_id, number),
    CONSTRAINT a_running_chunk_is_leased CHECK ((state = 'running') = (leased_until IS NOT NULL))
);
-- payloads arrive compressed
ALTER TABLE job_chunk ALTER COLUMN payload SET STORAGE EXTERNAL;
CREATE INDEX job_chunk_due ON job_chunk (next_attempt_at) WHERE state = 'queued';
CREATE INDEX job_chunk_leased ON job_chunk (leased_until) WHERE state = 'running';

CREATE TABLE job_item_error (
    job_id uuid NOT NULL REFERENCES job ON DELETE CASCADE,
    index integer NOT NULL,
    key text,
    code text NOT NULL,
    message text NOT NULL,
    -- the item as it came (bytes: it may be no JSON), for a retry
    payload bytea NOT NULL,
    PRIMARY KEY (job_id, index)
);
