-- History is partitioned by week or month on its version 7 keys. `history_prepare` creates the partitions ahead,
-- `history_expire` drops those past their age. Both run as the owner, because the service may not create or drop. Partitions
-- of a day would be about 45 of each table: a connection that reads them for the first time would plan for up to 70 ms, and
-- each later read would open all their indexes.
--
-- The span of a table can be changed at any time (docs/operating.md#retention): new partitions begin where the last one ends,
-- and each is dropped by its own end.
--
-- Creating or dropping a partition locks its table exclusively. Behind a long reader (a list without a limit, a dump),
-- waiting for this lock would block every change and every webhook. So both functions wait only briefly for each table,
-- and try again in the next minute: partitions are created a week ahead.
CREATE TABLE history (
    table_name text PRIMARY KEY,
    span text NOT NULL CONSTRAINT span_is_day_week_or_month CHECK (span IN ('day', 'week', 'month')),
    keep_days integer NOT NULL CONSTRAINT history_is_kept_at_least_a_week CHECK (keep_days >= 7),
    age_column text
);
COMMENT ON COLUMN history.age_column IS 'by which rows of the default partition are removed; none: they stay';
REVOKE ALL ON history FROM longshore_service;
GRANT SELECT ON history TO longshore_service;

-- The partitions of history, and the key before which the rows of each are; nothing for the default ones.
CREATE VIEW history_partition AS
SELECT h.table_name, c.relname AS name,
       substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''([0-9a-f-]{36})''\)')::uuid AS ends_before
FROM history h
JOIN pg_inherits i ON i.inhparent = to_regclass(quote_ident(h.table_name))
JOIN pg_class c ON c.oid = i.inhrelid;
REVOKE ALL ON history_partition FROM longshore_service;
