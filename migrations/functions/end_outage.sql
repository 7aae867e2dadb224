-- The outage of what is called is over. One of under a minute is not kept.
CREATE OR REPLACE FUNCTION end_outage(failing uuid) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM outage WHERE called = failing AND ended_at IS NULL AND began_at > now() - interval '1 minute';
    UPDATE outage SET ended_at = now() WHERE called = failing AND ended_at IS NULL;
END $$;
