-- What an event comes of: the request that caused it, and the W3C trace context to go on with. With them a delivery is found
-- in the logs by the request's id, and joins the trace of the request. Both are copies for readers, and bind nothing.
ALTER TABLE event ADD COLUMN request_id text, ADD COLUMN traceparent text;
