-- Drops the partitions of history past their age. A row that was written after its partition was dropped is in the
-- default partition, and is removed by its age.
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

REVOKE EXECUTE ON FUNCTION history_expire() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION history_expire() TO longshore_service;
