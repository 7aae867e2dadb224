-- What holds for every change of an order, however it is made: it takes a transition of `expedition_transition`,
-- `status_since` goes with the status, and its version rises as that of every record.
CREATE OR REPLACE FUNCTION expedition_moves() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND (NEW.version <> OLD.version OR NEW.changed_at <> OLD.changed_at) THEN
        NEW.version := greatest(OLD.version, version_floor()) + 1;
        NEW.changed_at := greatest(clock_timestamp(), OLD.changed_at + interval '1 microsecond');
    END IF;
    IF TG_OP = 'INSERT' OR NEW.status <> OLD.status THEN
        PERFORM FROM expedition_transition
        WHERE from_status = CASE WHEN TG_OP = 'INSERT' THEN 'new' ELSE OLD.status END AND to_status = NEW.status;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'an expedition does not go from % to %',
                CASE WHEN TG_OP = 'INSERT' THEN 'new' ELSE OLD.status END, NEW.status
                USING ERRCODE = 'check_violation', CONSTRAINT = 'an_expedition_takes_a_known_transition';
        END IF;
        NEW.status_since := NEW.changed_at;
    END IF;
    RETURN NEW;
END
$$;
CREATE OR REPLACE TRIGGER expedition_moves BEFORE INSERT OR UPDATE ON expedition
    FOR EACH ROW EXECUTE FUNCTION expedition_moves();
