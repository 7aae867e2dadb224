-- A row that is inserted behind a lock says when it was inserted, not when its transaction began. A caller that polls reads the last
-- minute again, and never saw a row whose transaction had waited for longer. Changes of rows do the same (raise_version).
-- One table a migration: none is kept locked while another is waited for.
ALTER TABLE product ALTER COLUMN changed_at SET DEFAULT clock_timestamp();
