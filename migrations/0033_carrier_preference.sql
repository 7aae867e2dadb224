-- Carrier preferences: by what carrier an order is shipped that is sent without one. Those of the e-shop come before those of
-- the organisation, each in the order of their positions.
CREATE TABLE carrier_preference (
    id uuid PRIMARY KEY,
    organisation_id uuid NOT NULL REFERENCES organisation,
    -- null: of every e-shop of the organisation
    eshop_id uuid REFERENCES eshop,
    position integer NOT NULL CONSTRAINT position_is_not_negative CHECK (position >= 0),
    active boolean NOT NULL,
    carrier_id uuid NOT NULL REFERENCES carrier,
    carrier_service_id uuid REFERENCES carrier_service,
    conditions jsonb NOT NULL CONSTRAINT conditions_are_an_object CHECK (jsonb_typeof(conditions) = 'object'),
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT position_is_unique_in_the_organisation_and_eshop UNIQUE NULLS NOT DISTINCT (organisation_id, eshop_id, position)
);
CREATE INDEX carrier_preference_by_eshop ON carrier_preference (eshop_id) WHERE eshop_id IS NOT NULL;
CREATE INDEX carrier_preference_by_carrier ON carrier_preference (carrier_id);
CREATE INDEX carrier_preference_by_carrier_service ON carrier_preference (carrier_service_id)
    WHERE carrier_service_id IS NOT NULL;
CREATE INDEX carrier_preference_by_creation ON carrier_preference (organisation_id, created_at, id);
CREATE INDEX carrier_preference_by_change ON carrier_preference (changed_at, id);
