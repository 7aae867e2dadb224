-- Objects that are to be removed from the object store. Postgres and the store share no transaction, so whatever may have
-- to be removed stands here first: an upload before its bytes are put, until the record that owns them is written; a
-- deletion from the transaction that deletes the record. The upkeep removes what is due.
CREATE TABLE object_removal (
    key text PRIMARY KEY,
    due_at timestamptz NOT NULL
);
CREATE INDEX object_removal_by_due ON object_removal (due_at);
