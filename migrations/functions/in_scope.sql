-- Whether a caller may see a record of an organisation; without `scope`, a caller sees all. Both are one expression, so
-- Postgres inlines them: a query is planned as if it contained the expression itself.
CREATE OR REPLACE FUNCTION in_scope(scope uuid[], organisation uuid) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN scope IS NULL OR organisation = ANY (scope);

-- The same for a record that can belong to several organisations instead of one: the caller must see all of them.
CREATE OR REPLACE FUNCTION in_scope(scope uuid[], organisation uuid, organisations uuid[]) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN scope IS NULL OR organisation = ANY (scope) OR organisations <@ scope;
