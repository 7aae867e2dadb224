-- Whether an organisation has events that a snapshot does not show (shared/domain/src/webhook/reader). Each transaction that was running
-- then is asked for by itself, and nothing that is not visible yet is looked for: a restored dump has events of transactions of elsewhere.
CREATE OR REPLACE FUNCTION has_events_since(of_organisation uuid, since pg_snapshot) RETURNS boolean
LANGUAGE sql STABLE
RETURN EXISTS (
        SELECT FROM event
        WHERE organisation_id = of_organisation AND written_by >= pg_snapshot_xmax(since)
          AND written_by < pg_snapshot_xmax(pg_current_snapshot()) AND as_it_says(xmin, written_by))
    OR EXISTS (
        SELECT FROM pg_snapshot_xip(since) AS running (id) CROSS JOIN LATERAL (
            SELECT FROM event WHERE organisation_id = of_organisation AND written_by = running.id
                AND as_it_says(xmin, written_by) OFFSET 0) AS written);
