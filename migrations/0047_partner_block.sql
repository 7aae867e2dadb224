-- Tokens that a partner refuses until a moment (decisions, section 6). By the token's hash, not by e-shop: a token may serve
-- several, and is blocked for all of them.
CREATE TABLE partner_block (
    token_hash bytea PRIMARY KEY,
    until timestamptz NOT NULL,
    message text NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX partner_block_by_end ON partner_block (until);
