-- Organisation: the tenant. What a caller may see depends on it.
CREATE TABLE organisation (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    registration_number text NOT NULL,
    vat_number text NOT NULL,
    address_line1 text NOT NULL,
    address_line2 text NOT NULL,
    address_line3 text NOT NULL,
    primary_country text NOT NULL CONSTRAINT primary_country_is_two_letters CHECK (primary_country ~ '^[A-Z]{2}$'),
    owner uuid,
    owners uuid[] NOT NULL,
    active boolean NOT NULL,
    code text,
    automatic_exchange_enabled boolean NOT NULL,
    ignore_address_validation boolean NOT NULL,
    stock_advice_close_interval integer
        CONSTRAINT stock_advice_close_interval_is_not_negative CHECK (stock_advice_close_interval >= 0),
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX organisation_by_creation ON organisation (created_at, id);
CREATE INDEX organisation_by_change ON organisation (changed_at, id);
