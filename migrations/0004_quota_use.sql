-- How many records of a kind an organisation has, so that a quota is looked up, not counted among millions. Each
-- session adds to a row of its own (as far as its number allows), so creations do not wait for each other. The sum of
-- the rows counts. The triggers of `quota_count` and its like write them.
CREATE TABLE quota_use (
    organisation_id uuid NOT NULL,
    kind text NOT NULL,
    shard smallint NOT NULL,
    used bigint NOT NULL,
    PRIMARY KEY (organisation_id, kind, shard)
) WITH (fillfactor = 50);
