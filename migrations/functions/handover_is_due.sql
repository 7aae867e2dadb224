-- Whether a call of a wms is due: none is while Postgres was set back and that is not mended. In PL/pgSQL, for the reason of
-- `a_partner_is_told_of`.
CREATE OR REPLACE FUNCTION handover_is_due(wms uuid) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
    IF EXISTS (SELECT FROM set_back WHERE mended_at IS NULL) THEN
        RETURN false;
    END IF;
    RETURN EXISTS (SELECT FROM expedition_handover h
                   WHERE h.handover_wms_id = wms AND h.handover_state IN ('sending', 'withdrawing')
                     AND h.handover_next_attempt_at <= now())
        OR EXISTS (SELECT FROM expedition_handover h
                   WHERE h.handover_wms_id = wms AND h.handover_state = 'pending' AND h.handover_next_attempt_at <= now()
                     AND h.handover_created_at >= (SELECT s.since FROM wms_setting s WHERE s.wms_id = wms)
                     AND handover_is_covered(h.id));
END
$$;
