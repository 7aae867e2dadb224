-- When the last send-out of an e-shop failed, until one succeeds or its setting is stored again: changes rest meanwhile
-- (shared/domain/src/partner/send_out/changes.rs).
ALTER TABLE stock_send_out ADD COLUMN failed_at timestamptz;
