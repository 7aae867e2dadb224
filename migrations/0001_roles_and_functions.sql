-- The service runs as `longshore_service`, which owns nothing: it uses the tables, and may only insert into and select
-- from the audit. The login that migrates owns everything and is a member of the role, so one login can serve both.
DO $$
BEGIN
    CREATE ROLE longshore_service NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL; -- roles belong to the cluster: another database has created it, or is creating it now
END
$$;

DO $$
BEGIN
    EXECUTE format('GRANT longshore_service TO %I', current_user);
EXCEPTION WHEN unique_violation OR invalid_grant_operation OR SQLSTATE 'XX000' THEN
    NULL; -- granted by another session at this moment ("tuple concurrently updated")
END
$$;

GRANT USAGE ON SCHEMA public TO longshore_service;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO longshore_service;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE ON SEQUENCES TO longshore_service;

-- A version 7 UUID of a moment (RFC 9562): the key of tables that are partitioned by time. The 12 bits after the
-- milliseconds hold the rest of the moment (section 6.2, method 3), four steps a microsecond, so keys have the order of
-- the changes of a record. One expression that names the moment once, so that Postgres inlines it into set-based
-- statements.
CREATE FUNCTION uuid_v7_at(moment timestamptz) RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN (overlay(lpad(to_hex((extract(epoch FROM moment) * 4096000)::bigint), 15, '0') PLACING '7' FROM 13 FOR 0)
        || substring(gen_random_uuid()::text FROM 20))::uuid;

-- A version 7 UUID of now.
CREATE FUNCTION uuid_v7() RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN uuid_v7_at(clock_timestamp());

-- The least version 7 UUID of a moment: the bound of a partition, the start of a scan by time.
CREATE FUNCTION uuid_v7_floor(moment timestamptz) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (overlay(lpad(to_hex((extract(epoch FROM moment) * 4096000)::bigint), 15, '0') PLACING '7' FROM 13 FOR 0)
        || '8000000000000000')::uuid;

-- Acceptance numbers: a later acceptance has a greater number.
CREATE SEQUENCE acceptance AS bigint;

-- The version of a record: a number that each change of what the record shows raises by one, and `changed_at`, which
-- grows with it. The start of the transaction would not do for `changed_at`: a sync that waits for a lock while a PUT
-- goes through would write last and look older. Both are set here, under the lock of the row, for each statement that
-- raises `version` or touches `changed_at`. What the service only observes touches neither.
CREATE FUNCTION raise_version() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    NEW.version := OLD.version + 1;
    NEW.changed_at := greatest(clock_timestamp(), OLD.changed_at + interval '1 microsecond');
    RETURN NEW;
END
$$;

-- Whether a caller may see a record of an organisation; without `scope`, a caller sees all. Both are one expression, so
-- Postgres inlines them: a query is planned as if it contained the expression itself.
CREATE FUNCTION in_scope(scope uuid[], organisation uuid) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN scope IS NULL OR organisation = ANY (scope);

-- The same for a record that can belong to several organisations instead of one: the caller must see all of them.
CREATE FUNCTION in_scope(scope uuid[], organisation uuid, organisations uuid[]) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN scope IS NULL OR organisation = ANY (scope) OR organisations <@ scope;

-- Whether a caller that is bound to an e-shop may see a record of an e-shop.
CREATE FUNCTION in_eshop(bound uuid, eshop uuid) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN bound IS NULL OR eshop = bound;

-- Whether a caller that is the program of a wms may see a record of a wms.
CREATE FUNCTION in_wms(bound uuid, wms uuid) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN bound IS NULL OR wms = bound;

-- `data` of an event: the record, what identifies it for people and receivers, and the new values of its changed fields.
-- `record::event_data` builds the same from a body. Stable as `jsonb_build_object`, else Postgres does not inline it.
CREATE FUNCTION event_data(id uuid, identity jsonb, changed text[], fields jsonb) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE
RETURN identity || jsonb_build_object('id', id, 'changedFields', changed, 'fields', fields);
