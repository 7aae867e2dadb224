-- What is left of a rate that was noted at a moment: it fades to a third within a minute.
CREATE OR REPLACE FUNCTION faded(rate real, at timestamptz) RETURNS real
LANGUAGE sql STABLE PARALLEL SAFE
RETURN rate * exp(-least(greatest(extract(epoch FROM now() - coalesce(at, now())), 0), 3600) / 60);
