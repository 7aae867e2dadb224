-- What guarded syncs keep aside (shared/domain/src/job/withheld.rs): rows that would switch off a product, with nothing but that,
-- cancel an order, or set a stock to 0.
CREATE TABLE job_withheld (
    job_id uuid NOT NULL REFERENCES job ON DELETE CASCADE,
    index integer NOT NULL,
    line bigint,
    key text,
    -- the product, stock or order
    entity_id uuid NOT NULL,
    organisation_id uuid NOT NULL,
    field text NOT NULL CONSTRAINT field_is_known CHECK (field IN ('active', 'quantity', 'status')),
    changes jsonb NOT NULL,
    -- of the chunk that it came in
    acceptance bigint NOT NULL,
    payload bytea NOT NULL,
    kept_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (job_id, index)
);
CREATE INDEX job_withheld_by_entity ON job_withheld (entity_id);
CREATE INDEX job_withheld_by_organisation ON job_withheld (organisation_id, field);
CREATE INDEX job_withheld_by_time ON job_withheld (kept_at);

-- Whether an order with the status can be cancelled: its goods have not left.
CREATE FUNCTION can_be_cancelled(status text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN status IN ('on_hold', 'incorrect', 'awaiting_reservation', 'waiting_for_goods', 'stock_ok', 'awaiting_processing', 'take_out',
                  'completion');

-- What of it would still destroy. The acceptance number of a product shows whether it was switched, or said to be on, since. Goods that
-- have arrived since are not part of what a count of 0 has seen.
CREATE VIEW withheld AS
SELECT w.* FROM job_withheld w
WHERE CASE w.field
    WHEN 'active' THEN EXISTS (SELECT FROM product p WHERE p.id = w.entity_id AND p.active AND p.active_acceptance < w.acceptance)
    WHEN 'quantity' THEN EXISTS (
        SELECT FROM product_stock s WHERE s.id = w.entity_id AND s.quantity > 0 AND to_jsonb(s.quantity) <= w.changes -> 'quantity' -> 0)
    ELSE EXISTS (SELECT FROM expedition e WHERE e.id = w.entity_id AND can_be_cancelled(e.status))
END;

-- What dry runs would do to their items, and releases to what is withheld.
CREATE VIEW job_previewed AS
SELECT job_id, index, line, key, would, id, exists, changes, code, message FROM job_preview_row
UNION ALL
SELECT job_id, index, line, key, CASE field WHEN 'status' THEN 'cancel' ELSE 'update' END, entity_id, true, changes, NULL, NULL FROM withheld;
