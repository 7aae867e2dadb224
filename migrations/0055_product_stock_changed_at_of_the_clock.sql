-- As of products (0054): when the row was inserted, not when its transaction began.
ALTER TABLE product_stock ALTER COLUMN changed_at SET DEFAULT clock_timestamp();
