-- The items with which an order was handed over, where a body has replaced them since. A warehouse that packs it under that number
-- nevertheless took these out of the stock (shared/domain/src/expedition/news/fold.rs).
CREATE TABLE expedition_former_item (
    expedition_id uuid NOT NULL REFERENCES expedition ON DELETE CASCADE,
    -- the last number of a hand-over that had them
    number integer NOT NULL,
    position integer NOT NULL,
    id uuid NOT NULL,
    product_id uuid NOT NULL,
    quantity integer NOT NULL,
    PRIMARY KEY (expedition_id, number, position)
);
