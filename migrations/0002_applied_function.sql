-- The functions of the folder `functions` whose text was applied, by its SHA-256: only one that changes is applied again, so a
-- migration locks no table for what is there already. The migrator writes it (shared/kernel/src/migration.rs).
CREATE TABLE applied_function (
    name text PRIMARY KEY,
    sha256 bytea NOT NULL CONSTRAINT sha256_has_32_bytes CHECK (length(sha256) = 32)
);
REVOKE INSERT, UPDATE, DELETE ON applied_function FROM longshore_service;
