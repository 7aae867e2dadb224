-- What is to be tried again, by when: workers look several times a second for what has just become due, and must not go over
-- every lane for it. Only failed deliveries are in it, so a destination that is well pays nothing.
CREATE INDEX delivery_retry ON delivery (next_attempt_at, webhook_id) WHERE attempt_count > 0;
