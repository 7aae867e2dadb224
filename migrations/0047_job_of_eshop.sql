-- no-transaction
-- The jobs of an e-shop in the order of lists, which ends in the id. Without the id in the index, Postgres sorts all of them for a page
-- as soon as it expects few.
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_of_eshop ON job (eshop_id, created_at, id);
