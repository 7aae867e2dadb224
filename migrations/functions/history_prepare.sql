-- Creates the partitions of history ahead: each begins where the last one ends, so the span of a table can be changed.
-- It waits only briefly for a table (see `history`), and workers call it every minute.
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

REVOKE EXECUTE ON FUNCTION history_prepare(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION history_prepare(integer) TO longshore_service;

-- the first partitions; the upkeep of the workers makes the later ones
SELECT history_prepare(7);
