-- When what is called failed: a destination of webhooks, the partner of an e-shop, the system of a warehouse. Timelines show
-- it (shared/operate/src/timeline/owner.rs), and a lane or a setting knows only the outage of now. Triggers write it. Outages of
-- under a minute are not kept, so that one thing has at most one row a minute, however often it fails.
CREATE TABLE outage (
    -- the webhook, the e-shop of the partner, or the wms
    called uuid NOT NULL,
    -- what people call it, also after it is deleted
    name text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('webhook', 'partner', 'warehouse')),
    organisation_id uuid NOT NULL REFERENCES organisation (id) ON DELETE CASCADE,
    -- of a webhook or a partner
    eshop_id uuid REFERENCES eshop (id) ON DELETE CASCADE,
    began_at timestamptz NOT NULL,
    ended_at timestamptz,
    error text,
    -- whose call of the partner failed
    job_id uuid,
    PRIMARY KEY (called, began_at)
);
CREATE UNIQUE INDEX outage_that_lasts ON outage (called) WHERE ended_at IS NULL;
-- for the retention
CREATE INDEX outage_ended ON outage (ended_at);
CREATE INDEX outage_of_organisation_began ON outage (organisation_id, began_at);
CREATE INDEX outage_of_organisation_ended ON outage (organisation_id, ended_at);
CREATE INDEX outage_of_eshop_began ON outage (eshop_id, began_at);
CREATE INDEX outage_of_eshop_ended ON outage (eshop_id, ended_at);
