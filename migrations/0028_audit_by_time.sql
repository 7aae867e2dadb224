-- The audit is asked by time across organisations. Records arrive in the order of time, so that this index only grows at
-- its end.
CREATE INDEX audit_by_time ON audit (at, id);
