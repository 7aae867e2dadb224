-- Whose records the caller might see when it used the key (SHA-256), so that it is not shown what it may no longer see. Null: of keys
-- from before this column.
ALTER TABLE idempotency ADD COLUMN scope bytea;
