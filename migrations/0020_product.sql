-- Product. Its rules are repeated here as constraints: the database refuses a bulk statement that
-- slips past the validation. They are domains: Postgres reads the constraints of a table from text for each statement, and those of a
-- domain once in a session, which is a tenth of what a change costs (`longshore-bench count`).
CREATE DOMAIN sku AS text CONSTRAINT sku_has_1_to_255_characters CHECK (char_length(VALUE) BETWEEN 1 AND 255);
CREATE DOMAIN product_text AS text CONSTRAINT product_text_has_2_to_255_characters CHECK (char_length(VALUE) BETWEEN 2 AND 255);
CREATE DOMAIN grams AS integer CONSTRAINT grams_are_0_to_10000000 CHECK (VALUE BETWEEN 0 AND 10000000);
CREATE DOMAIN millimeters AS integer CONSTRAINT millimeters_are_0_to_20000 CHECK (VALUE BETWEEN 0 AND 20000);
CREATE DOMAIN country_code AS text CONSTRAINT country_code_is_two_letters CHECK (VALUE ~ '^[A-Z]{2}$');
CREATE DOMAIN hs_code AS text CONSTRAINT hs_code_has_up_to_25_characters CHECK (char_length(VALUE) <= 25);
CREATE DOMAIN product_type AS text CONSTRAINT product_type_is_known CHECK (VALUE IN ('physical', 'virtual', 'bundle'));
CREATE DOMAIN product_category AS text CONSTRAINT product_category_is_known CHECK (VALUE IN ('dangerous_substances'));
CREATE DOMAIN product_services AS text[] CONSTRAINT product_services_are_known CHECK (VALUE <@ ARRAY['inbound_localisation_check']);

CREATE TABLE packaging_option (
    id uuid PRIMARY KEY,
    code text NOT NULL CONSTRAINT packaging_option_code_is_unique UNIQUE,
    name text NOT NULL,
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO packaging_option (id, code, name) VALUES (uuid_v7(), 'A', 'Default');

CREATE TABLE product (
    id uuid PRIMARY KEY,
    organisation_id uuid NOT NULL REFERENCES organisation,
    product_sku sku NOT NULL,
    internal_sku sku NOT NULL,
    product_group uuid,
    name product_text NOT NULL,
    description product_text,
    weight grams,
    height millimeters,
    width millimeters,
    length millimeters,
    reference_numbers text[] NOT NULL,
    packaging_type text NOT NULL REFERENCES packaging_option (code),
    imei_check_required boolean NOT NULL,
    work_around_sn_in boolean NOT NULL,
    work_around_ean_sticker boolean NOT NULL,
    work_around_warranty_inf boolean NOT NULL,
    work_around_lot boolean NOT NULL,
    active boolean NOT NULL,
    -- the acceptance number of the last write of `active`: an older one never overwrites it
    active_acceptance bigint NOT NULL,
    country_of_origin country_code,
    hs_code hs_code,
    type product_type NOT NULL,
    category product_category,
    services product_services NOT NULL DEFAULT '{}',
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- A row that is inserted behind a lock says when it was inserted, not when its transaction began: a caller that polls reads
    -- the last minute again, and would never see a row whose transaction had waited for longer. Changes do the same
    -- (raise_version).
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT product_sku_is_unique_in_the_organisation UNIQUE (organisation_id, product_sku)
) WITH (fillfactor = 70); -- bulk switches rewrite every row: room on the page keeps the new version beside the old
CREATE INDEX product_by_creation ON product (organisation_id, created_at, id);
CREATE INDEX product_by_change ON product (organisation_id, changed_at, id);
-- The same for callers who see several organisations: without these, a page, or a poll by `changedAt.gte`, reads and
-- sorts the whole table. Each costs a bulk change an index entry a row (docs/performance.md has both sides).
CREATE INDEX product_by_creation_of_all ON product (created_at, id);
CREATE INDEX product_by_change_of_all ON product (changed_at, id);
-- the search of the console: names that begin with a text
CREATE INDEX product_by_beginning_of_name ON product (organisation_id, lower(name) text_pattern_ops);

-- For the planner an organisation has ten products, independent of the sample. Where most have one or two, it
-- takes all indexes that begin with the organisation to be alike, and would read the whole catalogue of the one large
-- organisation to find one SKU. What it knows of organisations that are common in the table is unaffected.
ALTER TABLE product ALTER COLUMN organisation_id SET (n_distinct = -0.1);
-- while it is empty, because analyse_what_grew leaves alone what was never analysed
ANALYZE product (organisation_id);

CREATE TABLE product_eshop (
    product_id uuid NOT NULL REFERENCES product ON DELETE CASCADE,
    eshop_id uuid NOT NULL REFERENCES eshop,
    PRIMARY KEY (product_id, eshop_id)
);
CREATE INDEX product_eshop_by_eshop ON product_eshop (eshop_id, product_id);

CREATE TABLE product_child (
    bundle_id uuid NOT NULL REFERENCES product ON DELETE CASCADE,
    product_id uuid NOT NULL REFERENCES product,
    quantity integer NOT NULL CONSTRAINT quantity_is_positive CHECK (quantity >= 1),
    position integer NOT NULL,
    PRIMARY KEY (bundle_id, product_id)
);
CREATE INDEX product_child_by_product ON product_child (product_id);
