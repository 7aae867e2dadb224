-- Jobs that fetch from a partner.
--
-- How far a fetch has come: written with each page, in the transaction of its chunks.
CREATE TABLE partner_fetch (
    job_id uuid PRIMARY KEY REFERENCES job ON DELETE CASCADE,
    -- where the next page begins, in the partner's words
    cursor text,
    pages integer NOT NULL DEFAULT 0,
    -- what the partner wants to get with the next fetch, if this one succeeds as a whole
    memo text,
    changed_at timestamptz NOT NULL DEFAULT now(),
    -- The memo holds only while the rows of that answer are the last that were stored: a retry writes its rows over later ones,
    -- and what it has read is never what is stored as a whole.
    keeps_memo boolean NOT NULL DEFAULT true
);

-- Keys (hashes of SKUs) that a running fetch has seen: emptied when it ends.
CREATE TABLE partner_fetch_key (
    job_id uuid NOT NULL REFERENCES partner_fetch ON DELETE CASCADE,
    key uuid NOT NULL,
    PRIMARY KEY (job_id, key)
);

-- What a partner wants to get with the next request for the same: from the last fetch that succeeded as a whole. Rows of another
-- answer delete it (shared/domain/src/job/fetching.rs).
CREATE TABLE partner_memo (
    eshop_id uuid NOT NULL REFERENCES eshop ON DELETE CASCADE,
    kind text NOT NULL,
    source text NOT NULL,
    memo text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now(),
    -- one that is not is not asked with
    is_current boolean NOT NULL DEFAULT false,
    PRIMARY KEY (eshop_id, kind, source)
);

-- Tokens that a partner refuses until a moment. By the token's hash, not by e-shop: several e-shops may use one token, and
-- the partner blocks all of them.
CREATE TABLE partner_block (
    token_hash bytea PRIMARY KEY,
    until timestamptz NOT NULL,
    message text NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX partner_block_by_end ON partner_block (until);
