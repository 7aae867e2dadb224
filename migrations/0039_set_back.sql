-- What is known of Postgres being set back: a restore, a point in time, or a failover that lost commits. Outsiders (warehouses,
-- receivers) then know more than these tables (docs/backup.md#after-a-restore).

-- The pulse: workers raise it each second in a commit of its own, and processes and Redis remember the highest that was committed.
-- One that is lower than what is remembered means that commits were lost.
CREATE TABLE pulse (
    one boolean PRIMARY KEY DEFAULT true CONSTRAINT there_is_one_pulse CHECK (one),
    -- each set-back begins the next one
    epoch integer NOT NULL DEFAULT 1 CONSTRAINT epoch_is_positive CHECK (epoch >= 1),
    number bigint NOT NULL DEFAULT 0,
    at timestamptz NOT NULL DEFAULT now(),
    -- Where it was raised: the cluster, the database, this table (a dump restored into the same database makes another one), and
    -- the timeline of the WAL. Null: it never was.
    system_identifier bigint,
    database_oid bigint,
    table_oid bigint,
    timeline integer,
    -- no standby was waited for, so a promoted one may lack the last second
    is_asynchronous boolean NOT NULL DEFAULT true,
    CONSTRAINT a_pulse_has_a_whole_place
        CHECK (num_nulls(system_identifier, database_oid, table_oid, timeline) IN (0, 4))
);
INSERT INTO pulse DEFAULT VALUES;
REVOKE INSERT, DELETE, TRUNCATE ON pulse FROM longshore_service;

-- Each set-back that was seen. Until `longshore-api restored` has mended it, nothing is handed over to a warehouse.
CREATE TABLE set_back (
    -- the epoch that it began
    epoch integer PRIMARY KEY,
    seen_at timestamptz NOT NULL DEFAULT now(),
    -- how it was seen, for people
    reason text NOT NULL,
    -- What was committed after the pulse that was found (`since`) and before the last that is remembered (`until`; null: nobody
    -- remembers one) may be lost.
    since timestamptz NOT NULL,
    "until" timestamptz,
    -- the numbers of hand-overs that are given since are higher; null: it was not chosen yet
    handover_floor integer,
    mended_at timestamptz
);
REVOKE DELETE, TRUNCATE ON set_back FROM longshore_service;
CREATE INDEX set_back_pending ON set_back (epoch) WHERE mended_at IS NULL;

-- What `longshore-api restored` has done in an epoch, and what it said: it does none of it twice.
CREATE TABLE set_back_step (
    epoch integer NOT NULL REFERENCES set_back,
    step text NOT NULL,
    said text NOT NULL,
    done_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (epoch, step)
);
REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON set_back_step FROM longshore_service;

-- The version below which none is given to what changes from now on: receivers keep the highest version that they saw, also of what
-- was lost. `longshore-api restored` replaces this function and the next, and nothing else does.
CREATE FUNCTION version_floor() RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 0;

-- The same for the numbers of hand-overs.
CREATE FUNCTION handover_floor() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 0;

-- Orders that a warehouse has reported on since a set-back, and that are not here.
CREATE TABLE wms_lost_order (
    id uuid PRIMARY KEY,
    wms_id uuid NOT NULL,
    -- as the warehouse names it
    expedition_id uuid NOT NULL,
    organisation_id uuid NOT NULL,
    -- the highest number of a hand-over that it has named
    number integer,
    -- the last report
    report jsonb NOT NULL,
    -- when the first and the last report came
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT an_order_of_a_wms_is_lost_once UNIQUE (wms_id, expedition_id)
);
CREATE INDEX wms_lost_order_by_organisation ON wms_lost_order (organisation_id, created_at);
-- those of a warehouse, the last ones first (shared/operate/src/attention/reports.rs)
CREATE INDEX wms_lost_order_by_wms ON wms_lost_order (wms_id, created_at);
CREATE INDEX wms_lost_order_by_age ON wms_lost_order (created_at);
