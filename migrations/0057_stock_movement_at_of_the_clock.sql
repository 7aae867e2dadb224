-- As of products (0054): when the pieces moved, not when the transaction began. Movements are polled by it, as createdAt.
ALTER TABLE stock_movement ALTER COLUMN at SET DEFAULT clock_timestamp();
