-- Supplier: where goods come from; each stock advice names one.
CREATE TABLE supplier (
    id uuid PRIMARY KEY,
    organisation_id uuid NOT NULL REFERENCES organisation,
    name text NOT NULL CONSTRAINT supplier_name_has_a_length CHECK (char_length(name) BETWEEN 1 AND 255),
    company_name text,
    active boolean NOT NULL,
    first_name text,
    last_name text,
    degree text,
    degree2 text,
    street text,
    house_nr text,
    city text,
    zip text,
    country text CONSTRAINT supplier_country_is_two_letters CHECK (country ~ '^[A-Z]{2}$'),
    phone text,
    email text,
    registration_number text,
    vat_number text,
    note text,
    ref1 text,
    ref2 text,
    ref3 text,
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX supplier_by_creation ON supplier (organisation_id, created_at, id);
CREATE INDEX supplier_by_change ON supplier (changed_at, id);
