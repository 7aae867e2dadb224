-- Whether a job waits for its turn: its organisation has as much on the queue as its share is. The number is WINDOW of
-- shared/domain/src/job/dispatch.rs, and what counts is what that finds first.
CREATE OR REPLACE FUNCTION job_waits_for_turn(waiting uuid, place bigint, calls boolean) RETURNS boolean
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    -- a dry run (shared/domain/src/job/preview.rs) lets all others go first
    share_size CONSTANT integer := CASE WHEN place < 4611686018427387904 THEN 4 ELSE 1 END;
    own_share uuid;
    -- before the first line
    start CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
    ahead integer;
BEGIN
    SELECT share INTO own_share FROM job WHERE id = waiting;
    IF calls THEN
        SELECT count(*) INTO ahead FROM (
            SELECT FROM job e
            CROSS JOIN LATERAL (SELECT FROM job_chunk c WHERE c.job_id = e.id AND c.state = 'queued' AND c.calls_partner
                                AND c.next_attempt_at <= now() LIMIT 1) AS due
            WHERE e.source IS NOT NULL AND e.state IN ('queued', 'running', 'retrying') AND e.organisation_id = own_share
              AND e.acceptance < place
            LIMIT share_size) AS a;
        RETURN ahead >= share_size;
    END IF;
    SELECT count(*) INTO ahead FROM (
        SELECT FROM job e
        CROSS JOIN LATERAL (SELECT FROM job_chunk c WHERE c.job_id = e.id AND c.state = 'queued' AND NOT c.calls_partner
                            AND c.next_attempt_at <= now() LIMIT 1) AS due
        WHERE e.sequence IS NULL AND e.state IN ('queued', 'running', 'retrying')
          AND e.share = own_share AND e.acceptance < place
        LIMIT share_size) AS a;
    IF ahead >= share_size THEN
        RETURN true;
    END IF;
    WITH RECURSIVE line (sequence) AS (
        (SELECT sequence FROM job
         WHERE sequence IS NOT NULL AND state IN ('queued', 'running', 'retrying')
           AND (organisation_id, sequence) > (own_share, start) AND organisation_id <= own_share
         ORDER BY organisation_id, sequence LIMIT 1)
        UNION ALL
        SELECT following.sequence
        FROM line l CROSS JOIN LATERAL (
            SELECT sequence FROM job
            WHERE sequence IS NOT NULL AND state IN ('queued', 'running', 'retrying')
              AND (organisation_id, sequence) > (own_share, l.sequence) AND organisation_id <= own_share
            ORDER BY organisation_id, sequence LIMIT 1) AS following
    )
    SELECT ahead + count(*) INTO ahead FROM (
        SELECT FROM line l
        CROSS JOIN LATERAL (
            SELECT e.id, e.acceptance FROM job e
            WHERE e.sequence = l.sequence AND e.state IN ('queued', 'running', 'retrying') AND e.out_of_line_until IS NULL
              AND e.kind <> 'stock.send'
            ORDER BY e.acceptance LIMIT 1) AS first
        CROSS JOIN LATERAL (SELECT FROM job_chunk c WHERE c.job_id = first.id AND c.state = 'queued' AND NOT c.calls_partner
                            AND c.next_attempt_at <= now() LIMIT 1) AS due
        WHERE first.acceptance < place AND first.id <> waiting
        LIMIT share_size) AS a;
    RETURN ahead >= share_size;
END $$;
