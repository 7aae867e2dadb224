-- What a job came to, where it succeeded.
CREATE OR REPLACE FUNCTION job_outcome(state text, total integer, failed integer, withheld integer) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN state <> 'succeeded' THEN NULL WHEN withheld > 0 THEN 'withheld' WHEN failed = 0 THEN 'complete'
            WHEN failed < total THEN 'partial' ELSE 'nothing' END;
