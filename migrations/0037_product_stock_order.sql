-- Stocks in order of creation and of change for callers who see more than one organisation, as for products.
CREATE INDEX product_stock_by_creation_of_all ON product_stock (created_at, id);
CREATE INDEX product_stock_by_change_of_all ON product_stock (changed_at, id);
