-- The statuses of orders that hold pieces of their stocks: `ExpeditionStatus::is_booked`.
CREATE OR REPLACE FUNCTION is_booked(status text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN status IN ('stock_ok', 'awaiting_processing', 'take_out', 'completion', 'waiting_for_cancel');
