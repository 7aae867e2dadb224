-- The hand-over of an order follows its status, whoever changes that:
--
-- - One that becomes `awaiting_processing` in a wms with an active setting is due, unless it is older than the setting says; one that comes back from
--   `waiting_for_cancel` is handed over already. One in doubt (0035) is asked back first, by the wms that may have it; it is handed over
--   when that has given it back.
-- - One that leaves it and was not called is no longer due: nothing is left of it, or its last number.
-- - What the warehouse reports is its acceptance, too. While a withdrawal is under way, only its answer ends it, unless the
--   order is packed.
-- - The warehouse that says it cannot do an order does not have it.
-- - No order that the warehouse may have is taken back: who does that says first that it was withdrawn or refused. One that is not on
--   the line of the warehouse and that it may have nevertheless, since a set-back, goes on here until that.
-- - A call of an order that is under way ends before the next one begins, also where a report has decided what it was made
--   for, and the order is due again with its next number: a change of the status leaves `handover_in_call_until`, and what
--   is due again waits for it.
CREATE OR REPLACE FUNCTION expedition_handover_follows() RETURNS trigger
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
    SELECT e.id, e.wms_id, 'pending', handover_floor() + 1, now(), e.priority, e.created_at
    FROM unnest(ids, olds, news) AS g (id, before, after) JOIN expedition e ON e.id = ANY (ARRAY[g.id])
    JOIN wms_setting s ON s.wms_id = ANY (ARRAY[e.wms_id]) AND s.active AND e.created_at >= s.since
    WHERE g.after = 'awaiting_processing' AND g.before <> 'waiting_for_cancel'
    ON CONFLICT (id) DO UPDATE
    SET handover_wms_id = CASE WHEN h.handover_in_doubt THEN h.handover_wms_id ELSE excluded.handover_wms_id END,
        handover_state = CASE WHEN h.handover_in_doubt THEN 'withdrawing' ELSE 'pending' END,
        handover_then = CASE WHEN h.handover_in_doubt THEN 'awaiting_processing' END,
        handover_number = CASE WHEN h.handover_in_doubt THEN h.handover_number ELSE greatest(h.handover_number, handover_floor()) + 1 END,
        handover_since = now(), handover_attempts = 0, handover_next_attempt_at = greatest(now(), h.handover_in_call_until),
        handover_error = NULL, wms_internal_id = NULL, handover_priority = excluded.handover_priority,
        handover_created_at = excluded.handover_created_at
    WHERE h.handover_state IS NULL OR h.handover_state IN ('refused', 'withdrawn')
        -- asked back already, while it was to stay where it was
        OR h.handover_in_doubt AND h.handover_state = 'withdrawing' AND h.handover_then IS NULL;
    IF NOT EXISTS (SELECT FROM expedition_handover) THEN
        RETURN NULL;
    END IF;
    -- Not "= 'pending'": while there are few rows, the index of those seems as good as the key, and is read as a whole for each order.
    DELETE FROM expedition_handover h USING unnest(ids, olds) AS g (id, before)
    WHERE h.id = ANY (ARRAY[g.id]) AND g.before = 'awaiting_processing' AND coalesce(h.handover_state, '') = 'pending'
      -- the first number: of an order that became due before the floor was raised, too
      AND h.handover_number IN (1, handover_floor() + 1);
    UPDATE expedition_handover h
    SET handover_state = n.state, handover_since = now(), handover_attempts = 0,
        handover_number = h.handover_number - CASE WHEN n.state IS NULL THEN 1 ELSE 0 END,
        handover_next_attempt_at = NULL, handover_error = NULL
    FROM unnest(ids, olds, news) AS g (id, before, after)
    CROSS JOIN LATERAL (
        SELECT o.handover_state AS old,
               CASE WHEN o.handover_state = 'pending' THEN NULL
                    WHEN g.after = 'incorrect' THEN 'refused'
                    ELSE 'accepted' END AS state
        FROM expedition_handover o WHERE o.id = g.id OFFSET 0
    ) n
    WHERE h.id = ANY (ARRAY[g.id])
      -- one that is sent while it is in doubt, and refused by a rule
      AND NOT (g.before = 'on_hold' AND g.after = 'incorrect')
      AND CASE n.old
        WHEN 'pending' THEN g.before = 'awaiting_processing'
        WHEN 'sending' THEN g.after IN ('take_out', 'completion', 'waiting_for_the_carrier', 'carrier_picked_up',
                                      'ready_to_takeover', 'delivered', 'incorrect')
        WHEN 'withdrawing' THEN g.after IN ('waiting_for_the_carrier', 'carrier_picked_up', 'ready_to_takeover', 'delivered',
                                          'incorrect')
        WHEN 'accepted' THEN g.after = 'incorrect'
        ELSE false END;
    SELECT g.id INTO kept
    FROM unnest(ids, olds, news) AS g (id, before, after) JOIN expedition_handover h ON h.id = ANY (ARRAY[g.id])
    WHERE NOT is_handed_over(g.after, NULL) AND g.after <> 'awaiting_processing' AND is_handed_over(g.after, h.handover_state)
      AND (g.after IN ('on_hold', 'canceled') OR g.before = 'awaiting_processing' OR is_handed_over(g.before, NULL))
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the warehouse may have expedition %', kept
            USING ERRCODE = 'check_violation', CONSTRAINT = 'what_is_handed_over_is_not_taken_back';
    END IF;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER expedition_handover_follows AFTER UPDATE ON expedition
    REFERENCING OLD TABLE AS was NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION expedition_handover_follows();
