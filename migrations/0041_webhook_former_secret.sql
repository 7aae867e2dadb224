-- Secrets that were rotated away, and sign until a day later (decisions, section 7). Several, since a webhook may be
-- rotated again within that day, and whoever verifies with an older one must not be cut off by that.
CREATE TABLE webhook_former_secret (
    webhook_id uuid NOT NULL REFERENCES webhook ON DELETE CASCADE,
    signs_until timestamptz NOT NULL,
    -- sealed, as in `webhook`
    secret bytea NOT NULL,
    PRIMARY KEY (webhook_id, signs_until)
);
INSERT INTO webhook_former_secret (webhook_id, signs_until, secret)
SELECT id, previous_secret_until, previous_secret FROM webhook WHERE previous_secret IS NOT NULL;
-- nothing was released that reads them
ALTER TABLE webhook DROP COLUMN previous_secret, DROP COLUMN previous_secret_until;
