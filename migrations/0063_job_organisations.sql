-- Whose a job is that is about the products of several organisations: it was the first one's, which saw it and could cancel it,
-- and the others did not. Now it is for whoever may see all of them. Its organisation_id is null, so that the version before,
-- beside which this runs, shows it to nobody who may not see everything. Null here: it is of organisation_id, as are all jobs
-- from before, or nobody's.
ALTER TABLE job ADD COLUMN organisations uuid[],
    -- true of every job there is; to make sure of it would read the whole table while nobody else can
    ADD CONSTRAINT several_organisations_are_no_single_one
        CHECK (organisations IS NULL OR (organisation_id IS NULL AND cardinality(organisations) > 1)) NOT VALID;
-- beside job_by_creation, for whoever sees several organisations; whoever sees one never sees these
CREATE INDEX job_of_several ON job (created_at, id) WHERE organisations IS NOT NULL;
