-- Carrier (specification, parts 1 and 2): the operator's, and seen by the organisations that are attached to it.
CREATE TABLE carrier (
    id uuid PRIMARY KEY,
    name text NOT NULL CONSTRAINT carrier_name_has_a_length CHECK (char_length(name) BETWEEN 1 AND 255),
    code integer NOT NULL CONSTRAINT carrier_code_is_unique UNIQUE
        CONSTRAINT carrier_code_is_not_negative CHECK (code >= 0),
    countries_of_operation text[] NOT NULL,
    active boolean NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX carrier_by_name ON carrier (name, id);
CREATE INDEX carrier_by_creation ON carrier (created_at, id);
CREATE INDEX carrier_by_change ON carrier (changed_at, id);

CREATE TABLE carrier_organisation (
    carrier_id uuid NOT NULL REFERENCES carrier ON DELETE CASCADE,
    organisation_id uuid NOT NULL REFERENCES organisation,
    PRIMARY KEY (carrier_id, organisation_id)
);
CREATE INDEX carrier_organisation_by_organisation ON carrier_organisation (organisation_id, carrier_id);
