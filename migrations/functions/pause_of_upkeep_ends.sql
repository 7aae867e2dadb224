-- A forgotten pause of `upkeep` would silently stop retention, schedules and charts: it ends automatically after an
-- hour.
CREATE OR REPLACE FUNCTION pause_of_upkeep_ends() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    NEW.resumes_at := CASE WHEN NEW.paused AND NEW.name = 'upkeep' THEN now() + interval '1 hour' END;
    RETURN NEW;
END
$$;
CREATE OR REPLACE TRIGGER pause_of_upkeep_ends BEFORE UPDATE OF paused ON queue
    FOR EACH ROW WHEN (NEW.paused <> OLD.paused) EXECUTE FUNCTION pause_of_upkeep_ends();
