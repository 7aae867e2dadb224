-- History is partitioned by day or month on its version 7 keys. `history_prepare` creates the partitions ahead,
-- `history_expire` drops those past their age. Both run as the owner, because the service may not create or drop.
CREATE TABLE history (
    table_name text PRIMARY KEY,
    span text NOT NULL CONSTRAINT span_is_day_or_month CHECK (span IN ('day', 'month')),
    keep_days integer NOT NULL CONSTRAINT history_is_kept_at_least_a_week CHECK (keep_days >= 7),
    age_column text
);
COMMENT ON COLUMN history.age_column IS 'by which rows of the default partition are removed; none: they stay';
REVOKE ALL ON history FROM longshore_service;
GRANT SELECT ON history TO longshore_service;

-- Creating or dropping a partition locks its table exclusively. Behind a long reader (a list without a limit, a dump),
-- waiting for this lock would block every change and every webhook. So both functions wait only briefly for each table,
-- and try again in the next minute: partitions are created a week ahead.
CREATE FUNCTION history_prepare(days_ahead integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '200ms'
AS $$
DECLARE
    today timestamp := date_trunc('day', now() AT TIME ZONE 'UTC');
    kept record;
    start timestamp;
    part text;
    made integer := 0;
    made_here integer;
BEGIN
    -- One at a time: workers call this together.
    IF NOT pg_try_advisory_xact_lock(hashtext('history_prepare')) THEN
        RETURN 0;
    END IF;
    FOR kept IN SELECT table_name, span FROM history LOOP
        made_here := 0;
        BEGIN
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
                    made_here := made_here + 1;
                EXCEPTION WHEN check_violation THEN
                    NULL; -- the default partition holds rows of that time already, and keeps them
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

-- A row that was written after its partition was dropped is in the default partition, and is removed by its age.
CREATE FUNCTION history_expire() RETURNS integer
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
        SELECT child.relname
        FROM history h
        JOIN pg_inherits i ON i.inhparent = to_regclass(quote_ident(h.table_name))
        JOIN pg_class child ON child.oid = i.inhrelid
        WHERE child.relname ~ ('^' || h.table_name || '_[0-9]{8}$')
          AND to_date(right(child.relname, 8), 'YYYYMMDD') + ('1 ' || h.span)::interval
              < (now() AT TIME ZONE 'UTC') - make_interval(days => h.keep_days)
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

REVOKE EXECUTE ON FUNCTION history_prepare(integer), history_expire() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION history_prepare(integer), history_expire() TO longshore_service;
