-- Products in order of creation and of change for callers who see more than one organisation: theirs begin with it, so
-- that without these a page, and a poll by `changedAt.gte`, reads and sorts the whole table. Each costs a bulk change an
-- index entry a row (docs/performance.md has both sides).
CREATE INDEX product_by_creation_of_all ON product (created_at, id);
CREATE INDEX product_by_change_of_all ON product (changed_at, id);
