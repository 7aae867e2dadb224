-- Objects to remove from the object store. Postgres and the store share no transaction, so each object that may have to
-- be removed is listed here first: an upload before its bytes are put, until the record that owns them is written; a
-- deletion in the transaction that deletes the record. The upkeep removes what is due.
CREATE TABLE object_removal (
    key text PRIMARY KEY,
    due_at timestamptz NOT NULL
);
CREATE INDEX object_removal_by_due ON object_removal (due_at);
