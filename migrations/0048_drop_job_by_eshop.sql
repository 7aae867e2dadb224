-- no-transaction
-- job_of_eshop begins with its columns.
DROP INDEX CONCURRENTLY IF EXISTS job_by_eshop;
