-- no-transaction
-- A delivery is found by its id with this index, whatever the statistics say. `delivery_by_due` ends in the id, too. After a vacuum
-- found the queue empty, Postgres expects no row, takes the key and `delivery_by_due` to cost the same, and may read all of the
-- latter, with its dead entries, for each outcome. A hash has no levels to descend, so it always costs less.
CREATE INDEX CONCURRENTLY IF NOT EXISTS delivery_by_id ON delivery USING hash (id);
