-- The statuses of orders that wait for pieces: `ExpeditionStatus::is_waiting`.
CREATE OR REPLACE FUNCTION is_waiting(status text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN status IN ('awaiting_reservation', 'waiting_for_goods');
