-- What guarded syncs keep aside (shared/domain/src/job/withheld.rs): rows that would switch off a product, cancel an order, or set a
-- stock to 0, with nothing but that.
CREATE TABLE job_withheld (
    job_id uuid NOT NULL REFERENCES job ON DELETE CASCADE,
    index integer NOT NULL,
    line bigint,
    key text,
    -- the product, stock or order
    entity_id uuid NOT NULL,
    organisation_id uuid NOT NULL,
    field text NOT NULL CONSTRAINT field_is_known CHECK (field IN ('active', 'quantity', 'status')),
    would text NOT NULL,
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

-- What of it would still destroy. That somebody has switched a product since, or said that it is on, its acceptance number tells.
CREATE VIEW withheld AS
SELECT w.* FROM job_withheld w
WHERE CASE w.field
    WHEN 'active' THEN EXISTS (SELECT FROM product p WHERE p.id = w.entity_id AND p.active AND p.active_acceptance < w.acceptance)
    WHEN 'quantity' THEN EXISTS (SELECT FROM product_stock s WHERE s.id = w.entity_id AND s.quantity > 0)
    ELSE EXISTS (SELECT FROM expedition e WHERE e.id = w.entity_id AND e.status NOT IN ('canceled', 'waiting_for_cancel', 'delivered'))
END;
