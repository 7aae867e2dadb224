-- Whether the warehouse has an order, or may have it: the one home of this rule in SQL. `ExpeditionStatus::is_handed_over`
-- is the same in the service. One expression, which Postgres inlines.
CREATE OR REPLACE FUNCTION is_handed_over(status text, handover_state text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN status IN ('take_out', 'completion', 'waiting_for_the_carrier', 'carrier_picked_up', 'ready_to_takeover',
                  'probably_delivered', 'delivered', 'waiting_for_cancel')
    OR coalesce(handover_state IN ('sending', 'accepted', 'withdrawing'), false);
