-- The webhooks that need somebody, found without looking at those that are well. A lane's lease changes none of these
-- columns, so that taking it stays an update within its page.
CREATE INDEX webhook_lane_failing ON webhook_lane (failing_since) WHERE failures > 0;
CREATE INDEX webhook_disabled ON webhook (disabled_at) WHERE disabled_at IS NOT NULL;
