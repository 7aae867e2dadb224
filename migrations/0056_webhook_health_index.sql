-- How many webhooks are disabled, and how many destinations fail, is asked whenever somebody reads the metrics: a handful
-- among many. A lane that is well never enters the second index, so its updates stay in their page.
CREATE INDEX webhook_disabled ON webhook (id) WHERE disabled_at IS NOT NULL;
CREATE INDEX webhook_lane_failing ON webhook_lane (webhook_id) WHERE failures > 0;
