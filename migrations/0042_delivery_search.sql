-- What searching the history of deliveries and recovering from it need (decisions, section 7).
CREATE INDEX delivery_history_by_organisation ON delivery_history (organisation_id, id);
CREATE INDEX delivery_history_by_eshop ON delivery_history (eshop_id, id);
-- time: rows come in its order, so that a summary of blocks finds it, at next to no cost for those who write
CREATE INDEX delivery_history_by_creation ON delivery_history USING brin (created_at);
CREATE INDEX delivery_history_by_end ON delivery_history USING brin (finished_at);
-- what did not succeed, and what was sent again: both few while destinations are well
CREATE INDEX delivery_history_unsuccessful ON delivery_history (webhook_id, finished_at) WHERE state <> 'delivered';
CREATE INDEX delivery_history_redelivered ON delivery_history (webhook_id, event_id) WHERE redelivery_of IS NOT NULL;
