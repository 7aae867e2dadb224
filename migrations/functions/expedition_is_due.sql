-- An order that is created as `awaiting_processing` in a wms with an active setting is due in that transaction, unless it is older
-- than the setting says.
CREATE OR REPLACE FUNCTION expedition_is_due() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO expedition_handover (id, handover_wms_id, handover_state, handover_number, handover_next_attempt_at,
                                     handover_priority, handover_created_at)
    SELECT c.id, c.wms_id, 'pending', handover_floor() + 1, now(), c.priority, c.created_at
    FROM came c JOIN wms_setting s ON s.wms_id = ANY (ARRAY[c.wms_id]) AND s.active
    WHERE c.status = 'awaiting_processing' AND c.created_at >= s.since;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER expedition_is_due AFTER INSERT ON expedition
    REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION expedition_is_due();
