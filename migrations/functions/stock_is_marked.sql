-- Marks a stock in the transaction that gives the allocator something to do: more is available while orders wait, or less
-- is there than orders hold. `Ledger` in the service reckons the same. A booking of what is not there is refused.
CREATE OR REPLACE FUNCTION stock_is_marked() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF NEW.held > OLD.held AND NEW.held > NEW.quantity THEN
        RAISE EXCEPTION 'stock % has % pieces and cannot hold %', NEW.id, NEW.quantity, NEW.held
            USING ERRCODE = 'check_violation', CONSTRAINT = 'a_booking_is_of_what_is_there';
    END IF;
    IF (NEW.missing > 0 AND greatest(0, NEW.quantity - NEW.held) > greatest(0, OLD.quantity - OLD.held))
        OR greatest(0, NEW.held - NEW.quantity) > greatest(0, OLD.held - OLD.quantity)
    THEN
        NEW.marked_at := coalesce(OLD.marked_at, clock_timestamp());
    END IF;
    RETURN NEW;
END
$$;
CREATE OR REPLACE TRIGGER stock_is_marked BEFORE UPDATE ON product_stock FOR EACH ROW
    WHEN ((NEW.quantity, NEW.held) IS DISTINCT FROM (OLD.quantity, OLD.held)) EXECUTE FUNCTION stock_is_marked();
