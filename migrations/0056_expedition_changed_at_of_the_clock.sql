-- As of products (0054): when the row was inserted, not when its transaction began.
ALTER TABLE expedition ALTER COLUMN changed_at SET DEFAULT clock_timestamp();
