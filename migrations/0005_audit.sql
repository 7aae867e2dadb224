-- Audit records: written in the transaction of the change, never altered.
CREATE TABLE audit (
    id uuid NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    actor_type text NOT NULL,
    actor_id uuid,
    actor_name text NOT NULL,
    action text NOT NULL,
    entity_type text NOT NULL,
    entity_id uuid NOT NULL,
    organisation_id uuid,
    changes jsonb NOT NULL,
    request_id text,
    job_id uuid,
    PRIMARY KEY (id)
) PARTITION BY RANGE (id);
CREATE TABLE audit_default PARTITION OF audit DEFAULT;
CREATE INDEX audit_by_organisation ON audit (organisation_id, id);
CREATE INDEX audit_by_entity ON audit (entity_id, id);
-- records arrive in the order of time, so this index only grows at its end
CREATE INDEX audit_by_time ON audit (at, id);
-- What one request did, and the actions of a kind, newest first. What a job does to its items is thousands of records, which
-- are found by their job: leaving them out keeps these small, and costs a bulk change nothing.
CREATE INDEX audit_by_request ON audit (request_id, id) WHERE job_id IS NULL AND request_id IS NOT NULL;
CREATE INDEX audit_by_action ON audit (action COLLATE "C", id) WHERE job_id IS NULL;
CREATE INDEX audit_by_action_of_organisation ON audit (organisation_id, action COLLATE "C", id) WHERE job_id IS NULL;
-- records of a job arrive one after the other, so this index grows at its end, too
CREATE INDEX audit_by_job ON audit (job_id, id) WHERE job_id IS NOT NULL;
-- What people did, in the order of time, however much programs do.
CREATE INDEX audit_of_people ON audit (id)
    WHERE job_id IS NULL AND actor_type IN ('admin', 'business_user', 'command_line');
CREATE INDEX audit_of_people_of_organisation ON audit (organisation_id, id)
    WHERE job_id IS NULL AND actor_type IN ('admin', 'business_user', 'command_line');
CREATE INDEX audit_of_people_by_action ON audit (action COLLATE "C", id)
    WHERE job_id IS NULL AND actor_type IN ('admin', 'business_user', 'command_line');

REVOKE UPDATE, DELETE ON audit FROM longshore_service;
REVOKE ALL ON audit_default FROM longshore_service;

INSERT INTO history (table_name, span, keep_days) VALUES ('audit', 'month', 730);
