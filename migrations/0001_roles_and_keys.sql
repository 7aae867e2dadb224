-- The service runs as `longshore_service`, which owns nothing: it uses the tables, and may only insert into and select
-- from the audit. The login that migrates owns everything and is a member of the role, so one login can serve both. It
-- creates roles only where a superuser has not created this one: below Postgres 16, who may create roles may grant itself
-- any of them, also those that run programs on the server.
DO $$
BEGIN
    IF to_regrole('longshore_service') IS NULL THEN
        CREATE ROLE longshore_service NOLOGIN;
    END IF;
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN
        NULL; -- roles belong to the cluster: another database is creating it now
    WHEN insufficient_privilege THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format(
            'there is no role longshore_service; as a superuser: CREATE ROLE longshore_service NOLOGIN; GRANT longshore_service TO %I',
            current_user);
END
$$;

DO $$
BEGIN
    -- from Postgres 16 on, who created a role is a member that may not yet change to it
    IF NOT pg_has_role(current_user, 'longshore_service',
                       CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER' ELSE 'SET' END) THEN
        EXECUTE format('GRANT longshore_service TO %I', current_user);
    END IF;
EXCEPTION
    WHEN unique_violation OR invalid_grant_operation OR SQLSTATE 'XX000' THEN
        NULL; -- granted by another session at this moment ("tuple concurrently updated")
    WHEN insufficient_privilege THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', MESSAGE = format(
            'this login is not a member of longshore_service; as a superuser: GRANT longshore_service TO %I', current_user);
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

-- The moment of a version 7 UUID, to the millisecond.
CREATE FUNCTION uuid_v7_moment(id uuid) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN to_timestamp(('x' || translate(left(id::text, 13), '-', ''))::bit(48)::bigint / 1000.0);

-- Acceptance numbers: a later acceptance has a greater number.
CREATE SEQUENCE acceptance AS bigint;
