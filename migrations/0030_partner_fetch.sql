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
    changed_at timestamptz NOT NULL DEFAULT now()
);

-- Keys (hashes of SKUs) that a running fetch has seen: emptied when it ends.
CREATE TABLE partner_fetch_key (
    job_id uuid NOT NULL REFERENCES partner_fetch ON DELETE CASCADE,
    key uuid NOT NULL,
    PRIMARY KEY (job_id, key)
);

-- What a partner wants to get with the next request for the same: from the last fetch that succeeded as a whole.
CREATE TABLE partner_memo (
    eshop_id uuid NOT NULL REFERENCES eshop ON DELETE CASCADE,
    kind text NOT NULL,
    source text NOT NULL,
    memo text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now(),
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
