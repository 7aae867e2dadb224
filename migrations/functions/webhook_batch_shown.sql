-- How the events of a webhook are put together, as it is shown; null: a call for each.
CREATE OR REPLACE FUNCTION webhook_batch_shown(events integer, wait interval) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN events IS NOT NULL
            THEN jsonb_build_object('maxEvents', events, 'maxWaitMs', (extract(epoch FROM wait) * 1000)::int) END;
