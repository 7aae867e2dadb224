-- What was permanently deleted: a later read of it is answered 410 instead of 404, for callers
-- who could have seen it. Written in the statement that deletes, never altered.
CREATE TABLE tombstone (
    entity_type text NOT NULL,
    entity_id uuid NOT NULL,
    organisation_id uuid,
    -- of a record that only those see who see its e-shop
    eshop_id uuid,
    -- of a record that a connector sees only if its token has made it; a nil one: none has
    made_by uuid,
    -- a setting that is created again under the same path goes on counting
    version bigint,
    deleted_at timestamptz NOT NULL DEFAULT now(),
    deleted_by text NOT NULL,
    PRIMARY KEY (entity_id, entity_type)
);
REVOKE UPDATE, TRUNCATE ON tombstone FROM longshore_service;
