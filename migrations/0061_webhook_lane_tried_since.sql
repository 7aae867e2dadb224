-- Five days of failures disable a webhook (shared/domain/src/webhook/lane/outcome.rs); days in which nothing waited, and nothing was tried,
-- are none of them. When the last attempt failed, and since when attempts have failed without such a pause. Null: none has failed since
-- this column.
ALTER TABLE webhook_lane ADD COLUMN failed_at timestamptz, ADD COLUMN tried_since timestamptz;
