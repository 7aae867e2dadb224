-- Until when a lane rests because of its rate. No payment is for longer than this: a later end is by a clock that was set back.
CREATE OR REPLACE FUNCTION rests_until(paid_until timestamptz) RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE WHEN paid_until < now() + interval '25 seconds' THEN paid_until END;
