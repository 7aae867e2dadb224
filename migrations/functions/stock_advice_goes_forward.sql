-- An advice goes from new to receiving, and ends closed or cancelled; an ended advice stays ended.
CREATE OR REPLACE FUNCTION stock_advice_goes_forward() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'a stock advice does not go from % to %', OLD.status, NEW.status
        USING ERRCODE = 'check_violation', CONSTRAINT = 'a_stock_advice_goes_forward';
END
$$;
CREATE OR REPLACE TRIGGER a_stock_advice_goes_forward BEFORE UPDATE OF status ON stock_advice
    FOR EACH ROW WHEN (OLD.status IN ('closed', 'cancelled') OR NEW.status = 'new')
    EXECUTE FUNCTION stock_advice_goes_forward();
