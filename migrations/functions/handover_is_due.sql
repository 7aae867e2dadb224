-- Whether a call of a wms is due. In PL/pgSQL, for the reason of `a_partner_is_told_of`.
CREATE OR REPLACE FUNCTION handover_is_due(wms uuid) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
    RETURN EXISTS (SELECT FROM expedition_handover h
                   WHERE h.handover_wms_id = wms AND h.handover_state IN ('sending', 'withdrawing')
                     AND h.handover_next_attempt_at <= now())
        OR EXISTS (SELECT FROM expedition_handover h
                   WHERE h.handover_wms_id = wms AND h.handover_state = 'pending' AND h.handover_next_attempt_at <= now()
                     AND h.handover_created_at >= (SELECT s.since FROM wms_setting s WHERE s.wms_id = wms)
                     AND handover_is_covered(h.id));
END
$$;
