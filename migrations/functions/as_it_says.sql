-- Whether a row was written by the transaction that it names, or by a part of that: the rows of a restored dump name transactions of
-- elsewhere, and were written by an older one than those that still come here. Numbers are compared as Postgres compares them, in a circle.
CREATE OR REPLACE FUNCTION as_it_says(writer xid, said xid8) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
RETURN age(writer) <= age(said::xid);
