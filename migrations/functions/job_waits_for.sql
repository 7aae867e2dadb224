-- What a job waits for, as its `waitsFor` shows it. Null: it runs, has ended, or waits only for a free worker or its own
-- next attempt. The rules are those by which chunks are claimed (shared/domain/src/job/chunk.rs).
--
-- A page of jobs calls this for each job. Its statements look up keys, so one plan serves; planning them for the values
-- of each job took longer than all else on the page. The job is found by its key, and not among those that are under
-- way, which Postgres takes to be few while its statistics are old.
CREATE OR REPLACE FUNCTION job_waits_for(waiting uuid) RETURNS json
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    j record;
    -- the oldest of its chunks of rows that are still to be executed, and the one that calls its partner
    next record;
    calling record;
    reason text;
    ahead uuid;
    eshop uuid;
    since timestamptz;
    until timestamptz;
    calls boolean;
BEGIN
    SELECT id, kind, state, sequence, source, eshop_id, acceptance, out_of_line_until, created_at, changed_at INTO j
    FROM job WHERE id = waiting;
    IF NOT FOUND OR j.state NOT IN ('queued', 'running', 'retrying') OR EXISTS (SELECT FROM job_chunk WHERE job_id = waiting AND state = 'running') THEN
        RETURN NULL;
    END IF;
    SELECT next_attempt_at, coalesce(acceptance, j.acceptance) AS place INTO next
    FROM job_chunk WHERE job_id = waiting AND state IN ('queued', 'running') AND NOT calls_partner ORDER BY number LIMIT 1;
    SELECT next_attempt_at, waits_since INTO calling
    FROM job_chunk WHERE job_id = waiting AND state IN ('queued', 'running') AND calls_partner ORDER BY number LIMIT 1;
    IF next.place IS NOT NULL OR (j.kind = 'stock.send' AND j.out_of_line_until IS NULL) THEN
        -- the order begins with the line, so that no other index has it
        SELECT e.id, e.eshop_id INTO ahead, eshop FROM job e
        WHERE e.sequence = ANY (ARRAY[j.sequence]) AND e.acceptance < coalesce(next.place, j.acceptance) AND e.id <> j.id
          AND e.state IN ('queued', 'running', 'retrying') AND e.out_of_line_until IS NULL
          AND (e.kind = 'stock.send') = (j.kind = 'stock.send')
        ORDER BY e.sequence, e.acceptance LIMIT 1;
    ELSIF j.kind <> 'stock.send' AND j.state = 'queued' THEN
        -- pulls of one source follow each other
        SELECT e.id, e.eshop_id INTO ahead, eshop FROM job e
        WHERE e.sequence = j.sequence AND e.kind = j.kind AND e.source = j.source AND e.id <> j.id
          AND e.state IN ('running', 'retrying')
        ORDER BY e.acceptance LIMIT 1;
    END IF;
    IF ahead IS NOT NULL THEN
        reason := 'earlier_job';
        since := CASE WHEN j.state = 'queued' THEN j.changed_at
                      ELSE least(now(), coalesce(next.next_attempt_at, calling.waits_since, j.changed_at)) END;
    ELSIF next.place IS NULL AND calling.next_attempt_at > now() THEN
        reason := 'partner';
        eshop := j.eshop_id;
        since := coalesce(calling.waits_since, j.changed_at);
        until := calling.next_attempt_at;
    ELSE
        SELECT 'paused', coalesce((SELECT a.at FROM audit a WHERE a.entity_id = q.id AND a.action = 'queue.pause'
                                   ORDER BY a.id DESC LIMIT 1), q.changed_at) INTO reason, since
        FROM queue q
        -- a test obeys no pause (worker/src/dispatcher.rs)
        WHERE q.paused AND j.kind NOT IN ('integration.test', 'wms.test') AND q.name = CASE WHEN next.next_attempt_at <= now() THEN 'chunk'
                                         WHEN next.place IS NULL AND calling.next_attempt_at <= now() THEN 'partner' END;
        IF NOT FOUND THEN
            -- a chunk is due, and only others of its share go first
            IF next.next_attempt_at <= now() THEN
                since := next.next_attempt_at;
                calls := false;
            ELSIF next.place IS NULL AND calling.next_attempt_at <= now() THEN
                since := calling.next_attempt_at;
                calls := true;
            END IF;
            IF calls IS NULL OR NOT job_waits_for_turn(waiting, coalesce(next.place, j.acceptance), calls) THEN
                RETURN NULL;
            END IF;
            reason := 'turn';
        END IF;
    END IF;
    -- what it waits for may have begun before it came
    since := greatest(since, j.created_at);
    RETURN json_build_object('reason', reason, 'job', ahead, 'eshop', eshop,
                             'since', to_char(since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"'),
                             'until', to_char(until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"'));
END $$;
