-- The hand-over of orders to the systems of warehouses.
--
-- The setting of a wms: how its system is reached. Without an active one, orders of the wms go on by hand.
CREATE TABLE wms_setting (
    wms_id uuid PRIMARY KEY REFERENCES wms,
    organisation_id uuid NOT NULL REFERENCES organisation,
    active boolean NOT NULL,
    -- no call begins; orders become due as before
    paused boolean NOT NULL,
    base_url text NOT NULL,
    -- sealed: AES-256-GCM under the service's key
    credentials bytea NOT NULL,
    max_in_flight integer NOT NULL CONSTRAINT max_in_flight_is_1_to_64 CHECK (max_in_flight BETWEEN 1 AND 64),
    secret bytea NOT NULL,
    -- how often the secret was rotated
    rotations integer NOT NULL DEFAULT 0,
    -- orders that were created before go on by hand
    since timestamptz NOT NULL DEFAULT '-infinity',
    -- It was switched on, or `since` has changed, and orders that were awaiting_processing before that may not be due yet: workers make them due.
    -- A transaction that looked at the setting before the switch was committed leaves such an order, so this ends when every
    -- transaction has ended that was running at `fills_before` (shared/domain/src/expedition/handover/fill.rs).
    fills boolean NOT NULL,
    fills_before xid8,
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now(),
    -- It was stored anew, or a test found its system working: orders whose calls failed wait for up to 15 minutes, and are called
    -- again soon. Workers make them due from `wakes_at` on, step by step (shared/domain/src/expedition/handover/wake.rs); null:
    -- nothing is left to do. They become due twice: at once, and after every call has ended that was under way then.
    wakes_at timestamptz,
    wakes_again boolean NOT NULL DEFAULT true,
    CONSTRAINT only_what_fills_has_a_bound CHECK (fills OR fills_before IS NULL)
);
CREATE INDEX wms_setting_by_organisation ON wms_setting (organisation_id);

-- Secrets that were rotated away, and still sign until a day later, as those of webhooks.
CREATE TABLE wms_former_secret (
    wms_id uuid NOT NULL REFERENCES wms_setting ON DELETE CASCADE,
    signs_until timestamptz NOT NULL,
    -- sealed, as in `wms_setting`
    secret bytea NOT NULL,
    PRIMARY KEY (wms_id, signs_until)
);

-- The lane of a wms, made with its setting: as `webhook_lane`, whose comments explain the columns.
CREATE TABLE wms_lane (
    wms_id uuid PRIMARY KEY REFERENCES wms_setting ON DELETE CASCADE,
    token bigint NOT NULL DEFAULT 0,
    leased_until timestamptz NOT NULL DEFAULT '-infinity',
    ending boolean NOT NULL DEFAULT false,
    rotations integer NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    failing_since timestamptz,
    probe_at timestamptz,
    probes integer NOT NULL DEFAULT 0,
    held_until timestamptz,
    -- the last failure, until a call succeeds or the setting is stored again
    error text,
    error_at timestamptz,
    error_expedition_id uuid,
    CONSTRAINT failing_since_goes_with_failures CHECK ((failures = 0) = (failing_since IS NULL)),
    CONSTRAINT an_open_breaker_has_seen_failures CHECK (probe_at IS NULL OR failures > 0),
    CONSTRAINT only_an_open_breaker_counts_probes CHECK (probe_at IS NOT NULL OR probes = 0),
    CONSTRAINT an_error_has_a_time CHECK ((error IS NULL) = (error_at IS NULL))
) WITH (fillfactor = 50);

-- Where an order stands between the service and the system of its warehouse. A row exists from the first time that it is due.
-- It is a table of its own, since calls change it and the record's version stays; its columns have names of their own, since
-- lists join it to `expedition`.
--
-- Whoever changes a row has locked the order. Only the triggers `expedition_is_due` and
-- `expedition_handover_follows` make an order due, and only the latter takes that back.
CREATE TABLE expedition_handover (
    -- of the order. No cascade: an order that was handed over is kept.
    id uuid PRIMARY KEY REFERENCES expedition,
    handover_wms_id uuid NOT NULL,
    -- null: it was due again, and no longer is; only the number is remembered
    handover_state text CONSTRAINT handover_state_is_known
        CHECK (handover_state IN ('pending', 'sending', 'accepted', 'withdrawing', 'refused', 'withdrawn')),
    -- which hand-over of the order this is; where the state is null, the last one that a call was made of
    handover_number integer NOT NULL CONSTRAINT handover_number_is_positive CHECK (handover_number >= 1),
    handover_since timestamptz NOT NULL DEFAULT now(),
    -- calls that have begun in this state
    handover_attempts integer NOT NULL DEFAULT 0
        CONSTRAINT handover_attempts_is_not_negative CHECK (handover_attempts >= 0),
    handover_next_attempt_at timestamptz,
    -- A call may be under way until then: it is recorded before the call begins, and taken away with its outcome. Nothing else is
    -- called of the order before.
    handover_in_call_until timestamptz,
    handover_error text,
    wms_internal_id text,
    -- Since a set-back of Postgres (0039) the warehouse may have the order under a number that is not known here: whatever takes the order
    -- back, or hands it over again, first asks it back by `handover_number`, which is higher than any that the warehouse knows
    -- (shared/domain/src/expedition/handover/doubt.rs).
    handover_in_doubt boolean NOT NULL DEFAULT false,
    -- of an order in doubt: the last number that it was handed over by, as far as is known here; null: none
    handover_known_number integer,
    -- while it is withdrawing: what becomes of the order when the warehouse has given it back, where its status does not say so
    handover_then text CONSTRAINT handover_then_is_known CHECK (handover_then IN ('on_hold', 'canceled', 'awaiting_processing')),
    -- of an order in doubt: the warehouse has it, and may have been given other items or another address
    handover_contents_unknown boolean NOT NULL DEFAULT false,
    -- the turn, which does not change while the order is due
    handover_priority integer NOT NULL,
    handover_created_at timestamptz NOT NULL,
    CONSTRAINT what_is_called_has_a_next_attempt
        CHECK ((coalesce(handover_state IN ('pending', 'sending', 'withdrawing'), false)) = (handover_next_attempt_at IS NOT NULL)),
    CONSTRAINT what_is_in_doubt_is_not_due CHECK (NOT handover_in_doubt OR coalesce(handover_state <> 'pending', true))
) WITH (fillfactor = 70);
-- what is called for the first time, in turn
CREATE INDEX expedition_handover_pending ON expedition_handover
    (handover_wms_id, handover_priority DESC, handover_created_at, id) WHERE handover_state = 'pending';
-- what a call was made of, and has not been answered
CREATE INDEX expedition_handover_called ON expedition_handover (handover_wms_id, handover_next_attempt_at, id)
    WHERE handover_state IN ('sending', 'withdrawing');
CREATE INDEX expedition_handover_by_state ON expedition_handover (handover_state, handover_since, id);
-- what a set-back has left: few, and none without one
CREATE INDEX expedition_handover_doubtful ON expedition_handover (handover_wms_id, id)
    WHERE handover_in_doubt;
