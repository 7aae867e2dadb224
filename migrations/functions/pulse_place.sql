-- Where this session writes: the cluster, the database, the table `pulse` in it, and the timeline of the WAL (the control file lags
-- after a promotion); and whether a commit waits for no standby. No row on a standby, which has no WAL of its own.
CREATE OR REPLACE FUNCTION pulse_place(
    OUT system_identifier bigint, OUT database_oid bigint, OUT table_oid bigint, OUT timeline integer, OUT is_asynchronous boolean
) RETURNS SETOF record
LANGUAGE plpgsql STABLE ROWS 1
AS $$
BEGIN
    IF pg_is_in_recovery() THEN
        RETURN;
    END IF;
    SELECT c.system_identifier INTO pulse_place.system_identifier FROM pg_control_system() c;
    SELECT d.oid INTO pulse_place.database_oid FROM pg_database d WHERE d.datname = current_database();
    table_oid := 'public.pulse'::regclass::oid;
    timeline := ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer;
    is_asynchronous := current_setting('synchronous_standby_names') = ''
        OR current_setting('synchronous_commit') IN ('off', 'local');
    RETURN NEXT;
END
$$;
