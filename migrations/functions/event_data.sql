-- `data` of an event: the record, what identifies it for people and receivers, and the new values of its changed fields.
-- `record::event_data` builds the same from a body. Stable as `jsonb_build_object`, else Postgres does not inline it.
CREATE OR REPLACE FUNCTION event_data(id uuid, identity jsonb, changed text[], fields jsonb) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE
RETURN identity || jsonb_build_object('id', id, 'changedFields', changed, 'fields', fields);
