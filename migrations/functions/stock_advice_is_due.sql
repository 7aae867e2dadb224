-- Whether an open advice is to be closed: so many days after it was expected, and after its last receipt.
CREATE OR REPLACE FUNCTION stock_advice_is_due(advice uuid, expected_at timestamptz, days integer) RETURNS boolean
LANGUAGE sql STABLE
RETURN CASE WHEN days IS NULL OR expected_at + make_interval(days => days) > now() THEN false
    ELSE NOT EXISTS (
        SELECT FROM stock_movement m
        WHERE m.stock_advice_id = advice AND m.kind = 'received' AND m.at + make_interval(days => days) > now())
    END;
