-- Product. Its rules are repeated here as constraints: the database refuses a bulk statement that
-- slips past the validation.
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
    product_sku text NOT NULL CONSTRAINT product_sku_has_a_length CHECK (char_length(product_sku) BETWEEN 1 AND 255),
    internal_sku text NOT NULL CONSTRAINT internal_sku_has_a_length CHECK (char_length(internal_sku) BETWEEN 1 AND 255),
    product_group uuid,
    name text NOT NULL CONSTRAINT name_has_2_to_255_characters CHECK (char_length(name) BETWEEN 2 AND 255),
    description text CONSTRAINT description_has_2_to_255_characters CHECK (char_length(description) BETWEEN 2 AND 255),
    weight integer CONSTRAINT weight_is_0_to_10000000_grams CHECK (weight BETWEEN 0 AND 10000000),
    height integer CONSTRAINT height_is_0_to_20000_millimeters CHECK (height BETWEEN 0 AND 20000),
    width integer CONSTRAINT width_is_0_to_20000_millimeters CHECK (width BETWEEN 0 AND 20000),
    length integer CONSTRAINT length_is_0_to_20000_millimeters CHECK (length BETWEEN 0 AND 20000),
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
    country_of_origin text CONSTRAINT country_of_origin_is_two_letters CHECK (country_of_origin ~ '^[A-Z]{2}$'),
    hs_code text CONSTRAINT hs_code_has_up_to_25_characters CHECK (char_length(hs_code) <= 25),
    type text NOT NULL CONSTRAINT type_is_known CHECK (type IN ('physical', 'virtual', 'bundle')),
    category text CONSTRAINT category_is_known CHECK (category IN ('dangerous_substances')),
    services text[] NOT NULL DEFAULT '{}'
        CONSTRAINT services_are_known CHECK (services <@ ARRAY['inbound_localisation_check']),
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
