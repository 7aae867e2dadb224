-- The next moment at which an e-shop's stocks are compared: between one and five at night, each e-shop at its own.
CREATE OR REPLACE FUNCTION next_night(eshop uuid) RETURNS timestamptz
LANGUAGE sql STABLE
RETURN (
    SELECT tonight + CASE WHEN tonight <= now() THEN interval '1 day' ELSE interval '0' END
    FROM (SELECT date_trunc('day', now(), 'UTC')
              + make_interval(secs => 3600 + (hashtextextended(eshop::text, 0) & 16383) % 14400) AS tonight) AS n);
