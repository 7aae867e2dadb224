-- What warehouses have reported of orders. Each report has an id that is unique in its wms, and takes effect once: a row says
-- that it was taken, and with what content. Rows are kept for 90 days (shared/domain/src/expedition/news/retention.rs). No
-- foreign keys, as with stock movements: the statement that writes a row has locked what they would guard.
CREATE TABLE wms_news (
    wms_id uuid NOT NULL,
    id text NOT NULL CONSTRAINT id_has_a_length CHECK (char_length(id) BETWEEN 1 AND 100),
    expedition_id uuid NOT NULL,
    -- SHA-256 of the row, with its members sorted
    digest bytea NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (wms_id, id)
);
CREATE INDEX wms_news_by_age ON wms_news (received_at);
CREATE INDEX wms_news_by_expedition ON wms_news (expedition_id, received_at);

-- Orders that a warehouse has packed although they were cancelled, or under a number that it had given back: their pieces
-- have left the stock, once for each number, and their status has stayed. Number 0: the order was handed over by hand.
-- After a set-back of Postgres (0039) also those that it has by a number that is not known here, packed or not.
CREATE TABLE wms_contradiction (
    expedition_id uuid NOT NULL REFERENCES expedition ON DELETE CASCADE,
    number integer NOT NULL CONSTRAINT number_is_not_negative CHECK (number >= 0),
    wms_id uuid NOT NULL,
    news_id text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    -- the order was not handed over by that number, as far as is known here
    is_lost boolean NOT NULL DEFAULT false,
    -- its pieces have left the stock
    has_left boolean NOT NULL DEFAULT true,
    PRIMARY KEY (expedition_id, number),
    CONSTRAINT only_what_is_lost_may_not_have_left CHECK (has_left OR is_lost)
);
-- those of a warehouse, the last ones first (shared/operate/src/attention/reports.rs)
CREATE INDEX wms_contradiction_by_wms ON wms_contradiction (wms_id, at);
