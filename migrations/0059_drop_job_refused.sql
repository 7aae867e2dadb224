-- no-transaction
-- job_refused_of_organisation serves the same look.
DROP INDEX CONCURRENTLY IF EXISTS job_refused;
