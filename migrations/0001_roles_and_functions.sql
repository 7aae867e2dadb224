-- The service runs as `longshore_service`, which owns nothing: it may use the tables, and may only insert into and
-- select from the audit. Whoever migrates owns everything and is a member, so that one login serves both.
DO $$
BEGIN
    CREATE ROLE longshore_service NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL; -- roles belong to the cluster: another database has it already, or makes it at this moment
END
$$;

DO $$
BEGIN
    EXECUTE format('GRANT longshore_service TO %I', current_user);
EXCEPTION WHEN unique_violation OR invalid_grant_operation OR SQLSTATE 'XX000' THEN
    NULL; -- granted by somebody else at this moment ("tuple concurrently updated")
END
$$;

GRANT USAGE ON SCHEMA public TO longshore_service;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO longshore_service;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE ON SEQUENCES TO longshore_service;

-- A version 7 UUID of this moment (RFC 9562): the key of what is partitioned by time. One expression, so that it is
-- inlined into set-based statements.
CREATE FUNCTION uuid_v7() RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN encode(
    set_bit(set_bit(
        overlay(uuid_send(gen_random_uuid())
            PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
        52, 1), 53, 1),
    'hex')::uuid;

-- The least version 7 UUID of a moment: the bound of a partition, the start of a scan by time.
CREATE FUNCTION uuid_v7_floor(moment timestamptz) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (lpad(to_hex((extract(epoch FROM moment) * 1000)::bigint), 12, '0') || '70008000000000000000')::uuid;

-- Acceptance numbers: whoever was accepted later has the greater one.
CREATE SEQUENCE acceptance AS bigint;

-- History is partitioned by day or month on its version 7 keys. `history_prepare` creates the partitions ahead,
-- `history_expire` drops those past their age; both run as the owner, since the service may not create or drop.
CREATE TABLE history (
    table_name text PRIMARY KEY,
    span text NOT NULL CONSTRAINT span_is_day_or_month CHECK (span IN ('day', 'month')),
    keep_days integer NOT NULL CONSTRAINT history_is_kept_at_least_a_week CHECK (keep_days >= 7)
);

CREATE FUNCTION history_prepare(days_ahead integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
AS $$
DECLARE
    today timestamp := date_trunc('day', now() AT TIME ZONE 'UTC');
    kept record;
    start timestamp;
    part text;
    made integer := 0;
BEGIN
    -- One at a time: workers call this together.
    PERFORM pg_advisory_xact_lock(hashtext('history_prepare'));
    FOR kept IN SELECT table_name, span FROM history LOOP
        FOR start IN SELECT generate_series(date_trunc(kept.span, today), today + make_interval(days => days_ahead),
                                            ('1 ' || kept.span)::interval) LOOP
            part := kept.table_name || to_char(start, '_YYYYMMDD');
            CONTINUE WHEN to_regclass(quote_ident(part)) IS NOT NULL;
            BEGIN
                EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)',
                    part, kept.table_name, uuid_v7_floor(start AT TIME ZONE 'UTC'),
                    uuid_v7_floor((start + ('1 ' || kept.span)::interval) AT TIME ZONE 'UTC'));
                -- reached through its parent only: a grant here would be a way around the parent's
                EXECUTE format('REVOKE ALL ON %I FROM longshore_service', part);
                made := made + 1;
            EXCEPTION WHEN check_violation THEN
                NULL; -- the default partition holds rows of that time already, and keeps them
            END;
        END LOOP;
    END LOOP;
    RETURN made;
END
$$;

CREATE FUNCTION history_expire() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
AS $$
DECLARE
    gone text;
    dropped integer := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('history_prepare'));
    FOR gone IN
        SELECT child.relname
        FROM history h
        JOIN pg_inherits i ON i.inhparent = to_regclass(quote_ident(h.table_name))
        JOIN pg_class child ON child.oid = i.inhrelid
        WHERE child.relname ~ ('^' || h.table_name || '_[0-9]{8}$')
          AND to_date(right(child.relname, 8), 'YYYYMMDD') + ('1 ' || h.span)::interval
              < (now() AT TIME ZONE 'UTC') - make_interval(days => h.keep_days)
    LOOP
        EXECUTE format('DROP TABLE %I', gone);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END
$$;

REVOKE EXECUTE ON FUNCTION history_prepare(integer), history_expire() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION history_prepare(integer), history_expire() TO longshore_service;
