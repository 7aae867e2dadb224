-- Jobs that go to a partner by themselves (decisions, section 6). Such a job names its source; the first of its chunks has
-- no items: it calls the partner, and whatever it is given is recorded as chunks of items beside it.
ALTER TABLE job
    -- what of the partner is read or written (an inventory, a warehouse); null: the caller brought the rows
    ADD COLUMN source text;
-- an equal trigger finds the job that still waits; while one runs, one follower waits
CREATE UNIQUE INDEX one_job_of_a_kind_waits_for_a_source ON job (eshop_id, kind, source)
    WHERE source IS NOT NULL AND state = 'queued';

ALTER TABLE job_chunk
    ADD COLUMN calls_partner boolean NOT NULL DEFAULT false,
    DROP CONSTRAINT a_chunk_has_items,
    ADD CONSTRAINT a_chunk_has_items CHECK (item_count > 0 OR calls_partner);

-- what is told of an item that was taken (a rounded weight): neither counted as failed nor tried again
ALTER TABLE job_item_error ADD COLUMN notice boolean NOT NULL DEFAULT false;

-- How far a fetch has come: written with each page, in the transaction of its chunks.
CREATE TABLE partner_fetch (
    job_id uuid PRIMARY KEY REFERENCES job ON DELETE CASCADE,
    -- where the next page begins, in the partner's words
    cursor text,
    pages integer NOT NULL DEFAULT 0,
    -- what the partner wants to be told at the next fetch, if this one goes in whole
    memo text,
    changed_at timestamptz NOT NULL DEFAULT now()
);

-- Keys (hashes of SKUs) that a running fetch has seen: emptied when it ends.
CREATE TABLE partner_fetch_key (
    job_id uuid NOT NULL REFERENCES partner_fetch ON DELETE CASCADE,
    key uuid NOT NULL,
    PRIMARY KEY (job_id, key)
);

-- What a partner wants to be told when it is asked for the same again: of the last fetch of which everything went in.
CREATE TABLE partner_memo (
    eshop_id uuid NOT NULL REFERENCES eshop ON DELETE CASCADE,
    kind text NOT NULL,
    source text NOT NULL,
    memo text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (eshop_id, kind, source)
);
