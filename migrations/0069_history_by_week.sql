-- Events and deliveries are partitioned by week. By day there were about 45 partitions of each: a connection that read them for the
-- first time planned for up to 70 ms, and each later read opened all their indexes.
--
-- The span of a table can be changed at any time (docs/operating.md#retention): new partitions begin where the last one ends, and each
-- is dropped by its own end.
ALTER TABLE history DROP CONSTRAINT span_is_day_or_month;
ALTER TABLE history ADD CONSTRAINT span_is_day_week_or_month CHECK (span IN ('day', 'week', 'month'));
UPDATE history SET span = 'week' WHERE table_name IN ('event', 'delivery_history');

-- The partitions of history, and the key before which the rows of each are; nothing for the default ones.
CREATE VIEW history_partition AS
SELECT h.table_name, c.relname AS name,
       substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''([0-9a-f-]{36})''\)')::uuid AS ends_before
FROM history h
JOIN pg_inherits i ON i.inhparent = to_regclass(quote_ident(h.table_name))
JOIN pg_class c ON c.oid = i.inhrelid;
REVOKE ALL ON history_partition FROM longshore_service;

-- The moment of a version 7 UUID, to the millisecond.
CREATE FUNCTION uuid_v7_moment(id uuid) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN to_timestamp(('x' || translate(left(id::text, 13), '-', ''))::bit(48)::bigint / 1000.0);

CREATE OR REPLACE FUNCTION history_prepare(days_ahead integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '200ms'
AS $$
DECLARE
    today timestamp := date_trunc('day', now() AT TIME ZONE 'UTC');
    kept record;
    start timestamp;
    stop timestamp;
    part text;
    made integer := 0;
    made_here integer;
BEGIN
    -- One at a time: workers call this together.
    IF NOT pg_try_advisory_xact_lock(hashtext('history_prepare')) THEN
        RETURN 0;
    END IF;
    FOR kept IN
        SELECT h.table_name, h.span, uuid_v7_moment(max(p.ends_before::text)::uuid) AT TIME ZONE 'UTC' AS covered_until
        FROM history h LEFT JOIN history_partition p USING (table_name) GROUP BY h.table_name
    LOOP
        made_here := 0;
        start := greatest(date_trunc(kept.span, today), kept.covered_until);
        BEGIN
            WHILE start <= today + make_interval(days => days_ahead) LOOP
                stop := date_trunc(kept.span, start) + ('1 ' || kept.span)::interval;
                BEGIN
                    part := kept.table_name || to_char(start, '_YYYYMMDD');
                    EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)', part, kept.table_name,
                        uuid_v7_floor(start AT TIME ZONE 'UTC'), uuid_v7_floor(stop AT TIME ZONE 'UTC'));
                    -- reached through its parent only: a grant here would be a way around the parent's
                    EXECUTE format('REVOKE ALL ON %I FROM longshore_service', part);
                    made_here := made_here + 1;
                    start := stop;
                EXCEPTION WHEN check_violation THEN
                    -- the default partition holds rows of that time already, and keeps them
                    start := start + interval '1 day';
                END;
            END LOOP;
            made := made + made_here;
        EXCEPTION WHEN lock_not_available THEN
            RAISE LOG 'partitions of % are made later: somebody reads it', kept.table_name;
        END;
    END LOOP;
    RETURN made;
END
$$;

CREATE OR REPLACE FUNCTION history_expire() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '200ms'
AS $$
DECLARE
    gone text;
    kept record;
    dropped integer := 0;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('history_prepare')) THEN
        RETURN 0;
    END IF;
    FOR gone IN
        SELECT p.name FROM history_partition p JOIN history h USING (table_name)
        WHERE p.ends_before < uuid_v7_floor(now() - make_interval(days => h.keep_days))
    LOOP
        BEGIN
            EXECUTE format('DROP TABLE %I', gone);
            dropped := dropped + 1;
        EXCEPTION WHEN lock_not_available THEN
            RAISE LOG 'partition % is dropped later: somebody reads it', gone;
        END;
    END LOOP;
    FOR kept IN SELECT table_name, keep_days, age_column FROM history WHERE age_column IS NOT NULL LOOP
        EXECUTE format('DELETE FROM %1$I WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM %1$I WHERE %2$I < now() - make_interval(days => $1) LIMIT 10000))',
            kept.table_name || '_default', kept.age_column) USING kept.keep_days;
    END LOOP;
    RETURN dropped;
END
$$;

-- The days ahead make room for their week, and so does today if it is empty. Where somebody reads the table, they stay.
DO $$
DECLARE
    ahead record;
    has_rows boolean;
BEGIN
    SET LOCAL lock_timeout = '200ms';
    FOR ahead IN
        SELECT p.name FROM history_partition p JOIN history h USING (table_name)
        WHERE h.span = 'week' AND p.ends_before > uuid_v7_floor(now())
        ORDER BY p.ends_before DESC
    LOOP
        BEGIN
            EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', ahead.name);
            EXECUTE format('SELECT EXISTS (SELECT FROM %I)', ahead.name) INTO has_rows;
            -- those before it would leave a gap
            EXIT WHEN has_rows;
            EXECUTE format('DROP TABLE %I', ahead.name);
        EXCEPTION WHEN lock_not_available THEN
            EXIT;
        END;
    END LOOP;
    PERFORM history_prepare(7);
END
$$;
