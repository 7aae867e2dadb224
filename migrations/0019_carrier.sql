-- Carrier: it belongs to the operator, and its organisations see it.
CREATE TABLE carrier (
    id uuid PRIMARY KEY,
    name text NOT NULL CONSTRAINT carrier_name_has_a_length CHECK (char_length(name) BETWEEN 1 AND 255),
    code integer NOT NULL CONSTRAINT carrier_code_is_unique UNIQUE
        CONSTRAINT carrier_code_is_not_negative CHECK (code >= 0),
    countries_of_operation text[] NOT NULL,
    active boolean NOT NULL,
    version bigint NOT NULL DEFAULT 1,
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

-- Carrier service: one shipping option of a carrier. A caller who sees the carrier sees its services.
CREATE TABLE carrier_service (
    id uuid PRIMARY KEY,
    carrier_id uuid NOT NULL REFERENCES carrier,
    name text NOT NULL CONSTRAINT carrier_service_name_has_a_length CHECK (char_length(name) BETWEEN 1 AND 255),
    code integer NOT NULL CONSTRAINT carrier_service_code_is_not_negative CHECK (code >= 0),
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT carrier_service_code_is_unique_in_its_carrier UNIQUE (carrier_id, code)
);
CREATE INDEX carrier_service_by_name ON carrier_service (name, id);
CREATE INDEX carrier_service_by_creation ON carrier_service (created_at, id);
CREATE INDEX carrier_service_by_change ON carrier_service (changed_at, id);
