-- Carrier service (specification, parts 1 and 2): one shipping option of a carrier, seen by those who see the carrier.
CREATE TABLE carrier_service (
    id uuid PRIMARY KEY,
    carrier_id uuid NOT NULL REFERENCES carrier,
    name text NOT NULL CONSTRAINT carrier_service_name_has_a_length CHECK (char_length(name) BETWEEN 1 AND 255),
    code integer NOT NULL CONSTRAINT carrier_service_code_is_not_negative CHECK (code >= 0),
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT carrier_service_code_is_unique_in_its_carrier UNIQUE (carrier_id, code)
);
CREATE INDEX carrier_service_by_name ON carrier_service (name, id);
CREATE INDEX carrier_service_by_creation ON carrier_service (created_at, id);
CREATE INDEX carrier_service_by_change ON carrier_service (changed_at, id);
