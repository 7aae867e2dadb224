-- Jobs: the record, its chunks (the unit of dispatch, execution, retry and progress), and the
-- errors of single items.
CREATE TABLE job (
    id uuid PRIMARY KEY,
    kind text NOT NULL,
    state text NOT NULL CONSTRAINT state_is_known CHECK (state IN (
        'receiving', 'queued', 'running', 'retrying', 'succeeded', 'failed', 'cancelled')),
    organisation_id uuid REFERENCES organisation,
    -- whose turn it is when it is due (shared/domain/src/job/dispatch.rs): jobs of no single organisation have a share in common
    share uuid NOT NULL GENERATED ALWAYS AS (coalesce(organisation_id, '00000000-0000-0000-0000-000000000000'::uuid)) STORED,
    -- A job about products of several organisations: it is shown to callers who may see all of them, and its
    -- organisation_id is null. Null here: it belongs to organisation_id, or to no organisation.
    organisations uuid[],
    eshop_id uuid REFERENCES eshop,
    -- what of the partner is read or written (an inventory, a warehouse); null: the caller brought the rows
    source text,
    -- set when the job is accepted; a retry is a new acceptance. That of a pull is that of its oldest page that is still
    -- to be executed.
    acceptance bigint,
    -- when; of a job whose rows came by a stream, that is later than its creation; null: at its creation
    accepted_at timestamptz,
    -- jobs of one sequence run one after the other, in the order of acceptance
    sequence uuid,
    -- its chunks run one after the other, in their order; one that waits for its next attempt lets the next pass
    in_order boolean NOT NULL DEFAULT false,
    -- A job that waits for its partner (a block, a long wait between attempts) and has nothing else to do leaves the line
    -- of its sequence, so that it holds up no other sync. When its time has come it joins the line at its end, with a new
    -- acceptance number. A pull without a page to execute is out of line until infinity.
    out_of_line_until timestamptz,
    -- what the kind needs besides the items
    parameters jsonb NOT NULL DEFAULT '{}',
    total integer NOT NULL DEFAULT 0,
    done integer NOT NULL DEFAULT 0,
    changed integer NOT NULL DEFAULT 0,
    unchanged integer NOT NULL DEFAULT 0,
    failed integer NOT NULL DEFAULT 0,
    -- Rows of a guarded sync (shared/domain/src/job/withheld.rs) that would destroy too much, and what of it was executed.
    withheld integer NOT NULL DEFAULT 0,
    destructive integer NOT NULL DEFAULT 0,
    -- Item errors since it was accepted: they are kept up to a number and counted beyond it, so each chunk knows how many
    -- of its own it may keep.
    item_errors integer NOT NULL DEFAULT 0,
    -- Of jobs that recover a webhook or send deliveries again: waiting deliveries that it made due at once, and ended
    -- ones that it sent again.
    released integer NOT NULL DEFAULT 0,
    resent integer NOT NULL DEFAULT 0,
    -- Of jobs that test a connection (shared/domain/src/job/connection.rs): whether it works, what the call came to, and how
    -- long that took.
    connection_works boolean,
    connection_message text,
    connection_ms integer,
    -- Of a dry run (shared/domain/src/job/preview.rs): the kind that it tries, what its chunks found, summed up, and the job
    -- that applied it.
    preview_of text,
    preview jsonb,
    applied_by uuid,
    -- until when what it keeps is kept: its rows, with which it can be applied, then the rest of it; null: it has not ended
    preview_kept_until timestamptz,
    chunks_open integer NOT NULL DEFAULT 0 CONSTRAINT open_chunks_are_not_negative CHECK (chunks_open >= 0),
    attempts integer NOT NULL DEFAULT 0,
    error text,
    actor_type text NOT NULL,
    actor_id uuid,
    actor_name text NOT NULL,
    request_id text,
    traceparent text,
    -- the receiver renews this; past it the sender or the process is gone, and the job is removed
    receiving_until timestamptz,
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    finished_at timestamptz,
    changed_at timestamptz NOT NULL DEFAULT now(),
    -- when it made progress or changed; null: not yet
    progressed_at timestamptz,
    -- When its last attempt began: when it started, or went on after a wait in which nothing of it ran. `started_at` is its
    -- first start: between the two it may have waited for minutes for its partner, or for days for an operator who retries it.
    -- Null: not yet.
    attempt_started_at timestamptz,
    CONSTRAINT progress_adds_up CHECK (done = changed + unchanged + failed + withheld AND done <= total),
    CONSTRAINT an_accepted_job_has_a_number CHECK (state = 'receiving' OR acceptance IS NOT NULL),
    CONSTRAINT only_a_receiving_job_has_a_receiver CHECK ((state = 'receiving') = (receiving_until IS NOT NULL)),
    CONSTRAINT an_ended_job_has_an_end
        CHECK ((state IN ('succeeded', 'failed', 'cancelled')) = (finished_at IS NOT NULL)),
    CONSTRAINT an_ended_job_has_no_open_chunk
        CHECK (state NOT IN ('succeeded', 'failed', 'cancelled') OR chunks_open = 0),
    CONSTRAINT a_preview_is_of_a_kind CHECK ((kind = 'preview') = (preview_of IS NOT NULL)),
    CONSTRAINT a_tested_connection_says_all_of_it
        CHECK (num_nulls(connection_works, connection_message, connection_ms) IN (0, 3)),
    CONSTRAINT several_organisations_are_no_single_one
        CHECK (organisations IS NULL OR (organisation_id IS NULL AND cardinality(organisations) > 1))
) WITH (fillfactor = 70);
CREATE INDEX job_by_creation ON job (organisation_id, created_at, id);
CREATE INDEX job_by_change ON job (changed_at, id);
-- The jobs of an e-shop in the order of lists, which ends in the id. Without the id in the index, Postgres sorts all of them
-- for a page as soon as it expects few.
CREATE INDEX job_of_eshop ON job (eshop_id, created_at, id);
CREATE INDEX job_live ON job (acceptance) WHERE state IN ('queued', 'running', 'retrying');
CREATE INDEX job_in_sequence ON job (sequence, acceptance)
    WHERE sequence IS NOT NULL AND state IN ('queued', 'running', 'retrying');
CREATE INDEX job_receiving ON job (receiving_until) WHERE state = 'receiving';
-- an equal trigger finds the job that still waits; while one runs, one follower waits
CREATE UNIQUE INDEX one_job_of_a_kind_waits_for_a_source ON job (eshop_id, kind, source)
    WHERE source IS NOT NULL AND state = 'queued';
-- For the operator: the newest jobs of all organisations, and those with an error however many have succeeded since. The
-- second holds only what has an error, so a healthy job does not pay for it.
CREATE INDEX job_by_time ON job (created_at, id);
CREATE INDEX job_with_error ON job (created_at, id) WHERE state = 'failed' OR error IS NOT NULL;
-- The jobs that ended in a state: the console lists and counts them without reading those that have not ended, or that ended
-- otherwise. A job is added once, when it ends.
CREATE INDEX job_ended ON job (state, created_at, id) WHERE state IN ('succeeded', 'failed', 'cancelled');
-- The syncs that refused all of their rows, or most of many (shared/operate/src/attention/refused.rs), by organisation: a look
-- gives each organisation a share, so that one with many does not hide those of others. It skips from one kind of one e-shop
-- to the next, however many syncs refused a few rows.
CREATE INDEX job_refused_of_organisation ON job (organisation_id, eshop_id, kind, created_at)
    WHERE state = 'succeeded' AND kind IN ('product.sync', 'stock.sync', 'stock.send', 'expedition.sync')
      AND failed > 0 AND (failed = total OR (failed >= 100 AND failed >= total - failed));
-- The jobs of reports of warehouses that refused some (shared/operate/src/attention/reports.rs): a look skips from one
-- warehouse to the next.
CREATE INDEX job_refused_reports ON job (organisation_id, sequence, created_at)
    WHERE kind = 'expedition.news' AND state = 'succeeded' AND failed > 0;
-- The jobs of an e-shop that failed (shared/domain/src/job/attention.rs), by organisation, for the same reason. `IS TRUE`, here
-- and in the look, keeps Postgres from taking an index of all jobs that ended: while its statistics know of no failed job, it
-- expects that to have one row, and would read all of them at each step.
CREATE INDEX job_failed_of_organisation ON job (organisation_id, eshop_id, kind, created_at)
    WHERE (state = 'failed') IS TRUE AND eshop_id IS NOT NULL;
-- the job that a request or a trace asked for
CREATE INDEX job_by_request ON job (request_id) WHERE request_id IS NOT NULL;
CREATE INDEX job_by_trace ON job (substr(traceparent, 4, 32)) WHERE traceparent IS NOT NULL;
-- jobs are kept for a while after their end (shared/domain/src/job/retention.rs)
CREATE INDEX job_by_end ON job (finished_at) WHERE finished_at IS NOT NULL;
-- the tests of a connection
CREATE INDEX job_of_a_connection ON job (source, created_at) WHERE kind IN ('integration.test', 'wms.test');
-- those that wait: while their queue is paused, each look of a dispatcher reads them
CREATE INDEX job_test_live ON job (organisation_id, created_at)
    WHERE kind IN ('integration.test', 'wms.test') AND state IN ('queued', 'running', 'retrying');
-- dry runs that have ended: first their rows are forgotten, then they (shared/domain/src/job/retention.rs)
CREATE INDEX job_preview_kept ON job (preview_kept_until) WHERE preview_kept_until IS NOT NULL;
-- beside job_by_creation, for callers who see several organisations
CREATE INDEX job_of_several ON job (created_at, id) WHERE organisations IS NOT NULL;
-- whether an earlier sync is under way: each chunk of a sync looks
CREATE INDEX job_sync_live ON job (organisation_id, acceptance)
    WHERE sequence IS NOT NULL AND state IN ('queued', 'running', 'retrying');
-- Organisations take turns (shared/domain/src/job/dispatch.rs): a look skips from one e-shop's line to the next, and takes the
-- first of the other jobs, however many wait behind them. A job is in one of the first two.
CREATE INDEX job_line ON job (organisation_id, sequence, acceptance)
    WHERE sequence IS NOT NULL AND state IN ('queued', 'running', 'retrying');
CREATE INDEX job_out_of_lines ON job (share, acceptance)
    WHERE sequence IS NULL AND state IN ('queued', 'running', 'retrying');
CREATE INDEX job_calling ON job (organisation_id, acceptance)
    WHERE source IS NOT NULL AND state IN ('queued', 'running', 'retrying');

-- For the planner a line has two jobs, independent of the sample. Where few e-shops have many jobs, it takes the
-- index of all live jobs to be as good as that of the lines, and would read what waits in all others to claim a chunk, or
-- to find what may run next. The table is not analysed while it is empty: Postgres takes it to be larger than it is.
ALTER TABLE job ALTER COLUMN sequence SET (n_distinct = -0.5);

CREATE TABLE job_chunk (
    job_id uuid NOT NULL REFERENCES job ON DELETE CASCADE,
    number integer NOT NULL,
    state text NOT NULL CONSTRAINT state_is_known CHECK (state IN (
        'queued', 'running', 'succeeded', 'failed', 'cancelled')),
    -- The first chunk of a job that fetches from a partner: it has no items, and records what the partner answers as
    -- chunks of items beside it.
    calls_partner boolean NOT NULL DEFAULT false,
    -- null: that of its job. Each page of a pull has its own, and so its place in the line of its e-shop's syncs.
    acceptance bigint,
    -- the items, encoded and compressed; emptied when the chunk has succeeded
    payload bytea,
    item_count integer NOT NULL CONSTRAINT a_chunk_has_items CHECK (item_count > 0 OR calls_partner),
    -- position of its first item in the job, unless `indexes` names each
    first_index integer NOT NULL,
    indexes integer[],
    -- Where its rows are in the file, because blank lines and the header shift lines against indexes. Runs: the position
    -- of a row in the chunk and its line, and the same where lines were skipped. Null: rows of a JSON document or a
    -- partner, which have no lines.
    lines bigint[],
    -- Of a dry run, once it was executed, and of the job that applies it: for each item what it was compared with, so that it is
    -- refused where that is something else by then. Null: there was no such record.
    compared text[],
    -- of what a guarded sync kept aside, executed as it is
    is_decided boolean NOT NULL DEFAULT false,
    -- hashes of the items' keys, kept until acceptance has looked for the same key twice
    keys uuid[],
    -- positions in the chunk of items whose key occurs earlier in the job
    duplicates integer[] NOT NULL DEFAULT '{}',
    -- the line of the first item with that key, for each of them; null where it has none
    duplicates_of bigint[] NOT NULL DEFAULT '{}',
    -- executions so far, and those that ended with the death of their process
    attempts integer NOT NULL DEFAULT 0,
    crashes integer NOT NULL DEFAULT 0,
    -- A chunk that is suspected to kill its process runs in a separate process, which distinguishes it from one that was killed
    -- from outside: deaths of that process while the chunk's worker lived on.
    deaths_alone integer NOT NULL DEFAULT 0,
    -- fencing token: raised by each claim; a result that bears an older one changes nothing
    token bigint NOT NULL DEFAULT 0,
    leased_until timestamptz,
    next_attempt_at timestamptz NOT NULL DEFAULT now(),
    -- since when a chunk that calls a partner has waited without progress
    waits_since timestamptz,
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
-- The chunks of a job that are still to be done, in their order, however many Postgres believes there are: the look for
-- what is due took all due chunks of all jobs instead, once for each job.
CREATE INDEX job_chunk_live ON job_chunk (job_id, number) WHERE state IN ('queued', 'running');

CREATE TABLE job_item_error (
    job_id uuid NOT NULL REFERENCES job ON DELETE CASCADE,
    index integer NOT NULL,
    -- its line in the file; null where there are no lines
    line bigint,
    key text,
    code text NOT NULL,
    message text NOT NULL,
    -- the field that it is about, as in `items[0].quantity`; null where it is about none
    field text,
    -- a remark on an item that was taken (a rounded weight): neither counted as failed nor tried again
    notice boolean NOT NULL DEFAULT false,
    -- the item as it came (bytes: it may not be JSON), for a retry
    payload bytea NOT NULL,
    PRIMARY KEY (job_id, index)
);

-- What a dry run would do to its items, but those that it would leave as they are.
CREATE TABLE job_preview_row (
    job_id uuid NOT NULL REFERENCES job ON DELETE CASCADE,
    index integer NOT NULL,
    -- of the record; of one that does not exist yet, or is unknown, an id that nothing has
    id uuid NOT NULL,
    exists boolean NOT NULL,
    line bigint,
    key text,
    would text NOT NULL,
    changes jsonb,
    code text,
    message text,
    PRIMARY KEY (job_id, index)
);

-- Syncs of different e-shops of an organisation run side by side, and an earlier one does not set back a field that a
-- later one gave (shared/domain/src/job/mark.rs). While an earlier one is under way, a later one leaves marks: which fields of
-- which record it gave. They are removed once no earlier one is left.
CREATE TABLE sync_mark (
    organisation_id uuid NOT NULL,
    -- a product, or a stock
    entity_id uuid NOT NULL,
    -- of the sync that gave the fields
    acceptance bigint NOT NULL,
    fields text[] NOT NULL
);
CREATE INDEX sync_mark_by_organisation ON sync_mark (organisation_id, acceptance);
CREATE INDEX sync_mark_by_entity ON sync_mark (entity_id, acceptance);
