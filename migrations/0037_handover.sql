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
    -- It was switched on, and orders that were awaiting_processing before that may not be due yet: workers make them due.
    -- A transaction that looked at the setting before the switch was committed leaves such an order, so this ends when every
    -- transaction has ended that was running at `fills_before` (shared/domain/src/expedition/handover/fill.rs).
    fills boolean NOT NULL,
    fills_before xid8,
    version bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT only_what_fills_has_a_bound CHECK (fills OR fills_before IS NULL)
);
CREATE INDEX wms_setting_by_organisation ON wms_setting (organisation_id);
CREATE TRIGGER raise_version BEFORE UPDATE ON wms_setting FOR EACH ROW
    WHEN (NEW.version <> OLD.version OR NEW.changed_at <> OLD.changed_at) EXECUTE FUNCTION raise_version();

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
-- Whoever changes a row has locked the order. Only the trigger below makes an order due, and only it takes that back.
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
    -- the turn, which does not change while the order is due
    handover_priority integer NOT NULL,
    handover_created_at timestamptz NOT NULL,
    CONSTRAINT what_is_called_has_a_next_attempt
        CHECK ((coalesce(handover_state IN ('pending', 'sending', 'withdrawing'), false)) = (handover_next_attempt_at IS NOT NULL))
) WITH (fillfactor = 70);
-- what is called for the first time, in turn
CREATE INDEX expedition_handover_pending ON expedition_handover
    (handover_wms_id, handover_priority DESC, handover_created_at, id) WHERE handover_state = 'pending';
-- what a call was made of, and has not been answered
CREATE INDEX expedition_handover_called ON expedition_handover (handover_wms_id, handover_next_attempt_at, id)
    WHERE handover_state IN ('sending', 'withdrawing');
CREATE INDEX expedition_handover_by_state ON expedition_handover (handover_state, handover_since, id);

-- Whether the warehouse has an order, or may have it: the one home of this rule in SQL. `ExpeditionStatus::is_handed_over` is the
-- same in the service. One expression, which Postgres inlines.
CREATE FUNCTION is_handed_over(status text, handover_state text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN status IN ('take_out', 'completion', 'waiting_for_the_carrier', 'carrier_picked_up', 'ready_to_takeover',
                  'probably_delivered', 'delivered', 'waiting_for_cancel')
    OR coalesce(handover_state IN ('sending', 'accepted', 'withdrawing'), false);

-- Whether each stock of an order has the pieces that are held in it: one that holds too much is about to be set right, and that
-- may take the pieces of this order.
CREATE FUNCTION handover_is_covered(expedition uuid) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
RETURN NOT EXISTS (
    SELECT FROM expedition e JOIN expedition_item i ON i.expedition_id = e.id
    JOIN product_stock s ON s.product_id = i.product_id AND s.warehouse_id = e.warehouse_id AND s.wms_id = e.wms_id
    WHERE e.id = expedition AND s.held > s.quantity);

-- Whether a call of a wms is due.
CREATE FUNCTION handover_is_due(wms uuid) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
RETURN EXISTS (SELECT FROM expedition_handover h
               WHERE h.handover_wms_id = wms AND h.handover_state IN ('sending', 'withdrawing')
                 AND h.handover_next_attempt_at <= now())
    OR EXISTS (SELECT FROM expedition_handover h
               WHERE h.handover_wms_id = wms AND h.handover_state = 'pending' AND h.handover_next_attempt_at <= now()
                 AND handover_is_covered(h.id));

-- An order that is created as `awaiting_processing` in a wms with an active setting is due in that transaction.
CREATE FUNCTION expedition_is_due() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO expedition_handover (id, handover_wms_id, handover_state, handover_number, handover_next_attempt_at,
                                     handover_priority, handover_created_at)
    SELECT c.id, c.wms_id, 'pending', 1, now(), c.priority, c.created_at
    FROM came c JOIN wms_setting s ON s.wms_id = ANY (ARRAY[c.wms_id]) AND s.active
    WHERE c.status = 'awaiting_processing';
    RETURN NULL;
END
$$;
CREATE TRIGGER expedition_is_due AFTER INSERT ON expedition
    REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION expedition_is_due();

-- The hand-over of an order follows its status, whoever changes that:
--
-- - One that becomes `awaiting_processing` in a wms with an active setting is due; one that comes back from
--   `waiting_for_cancel` is handed over already.
-- - One that leaves it and was not called is no longer due: nothing is left of it, or its last number.
-- - What the warehouse reports is its acceptance, too. While a withdrawal is under way, only its answer ends it, unless the
--   order is packed.
-- - The warehouse that says it cannot do an order does not have it.
-- - No order that the warehouse may have is taken back: who does that says first that it was withdrawn or refused.
CREATE FUNCTION expedition_handover_follows() RETURNS trigger
LANGUAGE plpgsql
AS $$
DECLARE
    -- the orders whose status has changed, with the status before and after
    ids uuid[];
    olds text[];
    news text[];
    kept uuid;
BEGIN
    -- By grouping: a join of the two would be planned for the one order of the first statement of a session, and compare each of
    -- a thousand with each in a later one. What follows looks each order up by its key.
    SELECT array_agg(g.id), array_agg(g.before), array_agg(g.after) INTO ids, olds, news
    FROM (SELECT t.id, min(t.status) FILTER (WHERE NOT t.is_new) AS before, min(t.status) FILTER (WHERE t.is_new) AS after
          FROM (SELECT id, status, false AS is_new FROM was UNION ALL SELECT id, status, true FROM came) AS t
          GROUP BY t.id) AS g
    WHERE g.before <> g.after;
    IF ids IS NULL THEN
        RETURN NULL;
    END IF;
    INSERT INTO expedition_handover AS h (id, handover_wms_id, handover_state, handover_number, handover_next_attempt_at,
                                          handover_priority, handover_created_at)
    SELECT e.id, e.wms_id, 'pending', 1, now(), e.priority, e.created_at
    FROM unnest(ids, olds, news) AS g (id, before, after) JOIN expedition e ON e.id = ANY (ARRAY[g.id])
    JOIN wms_setting s ON s.wms_id = ANY (ARRAY[e.wms_id]) AND s.active
    WHERE g.after = 'awaiting_processing' AND g.before <> 'waiting_for_cancel'
    ON CONFLICT (id) DO UPDATE
    SET handover_wms_id = excluded.handover_wms_id, handover_state = 'pending', handover_number = h.handover_number + 1,
        handover_since = now(), handover_attempts = 0, handover_next_attempt_at = now(), handover_in_call_until = NULL,
        handover_error = NULL, wms_internal_id = NULL, handover_priority = excluded.handover_priority,
        handover_created_at = excluded.handover_created_at
    WHERE h.handover_state IS NULL OR h.handover_state IN ('refused', 'withdrawn');
    IF NOT EXISTS (SELECT FROM expedition_handover) THEN
        RETURN NULL;
    END IF;
    -- Not "= 'pending'": while there are few rows, the index of those seems as good as the key, and is read as a whole for each order.
    DELETE FROM expedition_handover h USING unnest(ids, olds) AS g (id, before)
    WHERE h.id = ANY (ARRAY[g.id]) AND g.before = 'awaiting_processing' AND coalesce(h.handover_state, '') = 'pending'
      AND h.handover_number = 1;
    UPDATE expedition_handover h
    SET handover_state = n.state, handover_since = now(), handover_attempts = 0,
        handover_number = h.handover_number - CASE WHEN n.state IS NULL THEN 1 ELSE 0 END,
        handover_next_attempt_at = NULL,
        -- a call that is under way ends before the order is asked back
        handover_in_call_until = CASE WHEN n.state = 'accepted' THEN h.handover_in_call_until END, handover_error = NULL
    FROM unnest(ids, olds, news) AS g (id, before, after)
    CROSS JOIN LATERAL (
        SELECT o.handover_state AS old,
               CASE WHEN o.handover_state = 'pending' THEN NULL
                    WHEN g.after = 'incorrect' THEN 'refused'
                    ELSE 'accepted' END AS state
        FROM expedition_handover o WHERE o.id = g.id OFFSET 0
    ) n
    WHERE h.id = ANY (ARRAY[g.id]) AND CASE n.old
        WHEN 'pending' THEN g.before = 'awaiting_processing'
        WHEN 'sending' THEN g.after IN ('take_out', 'completion', 'waiting_for_the_carrier', 'carrier_picked_up',
                                      'ready_to_takeover', 'delivered', 'incorrect')
        WHEN 'withdrawing' THEN g.after IN ('waiting_for_the_carrier', 'carrier_picked_up', 'ready_to_takeover', 'delivered',
                                          'incorrect')
        WHEN 'accepted' THEN g.after = 'incorrect'
        ELSE false END;
    SELECT g.id INTO kept
    FROM unnest(ids, news) AS g (id, after) JOIN expedition_handover h ON h.id = ANY (ARRAY[g.id])
    WHERE NOT is_handed_over(g.after, NULL) AND g.after <> 'awaiting_processing' AND is_handed_over(g.after, h.handover_state)
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the warehouse may have expedition %', kept
            USING ERRCODE = 'check_violation', CONSTRAINT = 'what_is_handed_over_is_not_taken_back';
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER expedition_handover_follows AFTER UPDATE ON expedition
    REFERENCING OLD TABLE AS was NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION expedition_handover_follows();
