-- Plans of look-ups by key are made once and kept, and Postgres makes them for the size that it believes a table has.
-- Autovacuum corrects that once a minute at most: by then a catalogue can have 33,000 products, each found by a plan
-- that was made for 57. Workers call this every second. It analyses each table that has outgrown its statistics, which
-- makes every session plan again. A table is analysed at most ten times that way, each time it has doubled, until it is
-- so large that no plan for a small one is left. A table that was never analysed is left alone: Postgres takes it to be
-- larger than it is.
--
-- A list of an e-shop's products joins `product_eshop`, and an e-shop that came after the last analysis seems to have no
-- products there: the plan would compare each of its first catalogue with each. So that table is also analysed when it
-- has grown by a fiftieth, however large it is. It is narrow: a million rows take a tenth of a second.
CREATE OR REPLACE FUNCTION analyse_what_grew() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
-- so that it does not wait behind maintenance of a table, and does not cancel it either
SET lock_timeout = '100ms'
AS $$
DECLARE
    grown text;
    analysed integer := 0;
BEGIN
    -- one worker is enough
    IF NOT pg_try_advisory_xact_lock(hashtext('analyse_what_grew')) THEN
        RETURN 0;
    END IF;
    FOR grown IN
        SELECT c.relname
        FROM pg_class c
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND c.reltuples >= 0
          AND (c.relpages < 1000
                 AND pg_relation_size(c.oid) >= 2 * greatest(c.relpages, 1) * current_setting('block_size')::bigint
               OR c.relname = 'product_eshop'
                 AND pg_relation_size(c.oid) >= (c.relpages + greatest(c.relpages / 50, 8)) * current_setting('block_size')::bigint)
    LOOP
        EXECUTE format('ANALYZE (SKIP_LOCKED) %I', grown);
        analysed := analysed + 1;
    END LOOP;
    RETURN analysed;
END
$$;

REVOKE EXECUTE ON FUNCTION analyse_what_grew() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION analyse_what_grew() TO longshore_service;
