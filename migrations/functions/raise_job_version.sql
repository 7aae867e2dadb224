-- A job changes with its state; its progress is only observed. Statements touch `changed_at` for both.
CREATE OR REPLACE FUNCTION raise_job_version() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    NEW.progressed_at := greatest(clock_timestamp(), OLD.progressed_at);
    IF (NEW.state, NEW.attempts, NEW.error, NEW.started_at, NEW.finished_at)
       IS DISTINCT FROM (OLD.state, OLD.attempts, OLD.error, OLD.started_at, OLD.finished_at) THEN
        NEW.version := greatest(OLD.version, version_floor()) + 1;
        NEW.changed_at := greatest(clock_timestamp(), OLD.changed_at + interval '1 microsecond');
    ELSE
        NEW.changed_at := OLD.changed_at;
    END IF;
    RETURN NEW;
END
$$;
CREATE OR REPLACE TRIGGER raise_version BEFORE UPDATE ON job FOR EACH ROW
    WHEN (NEW.changed_at <> OLD.changed_at
          OR (NEW.state, NEW.attempts, NEW.error, NEW.started_at, NEW.finished_at)
             IS DISTINCT FROM (OLD.state, OLD.attempts, OLD.error, OLD.started_at, OLD.finished_at))
    EXECUTE FUNCTION raise_job_version();
