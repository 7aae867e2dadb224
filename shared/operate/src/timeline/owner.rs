//! The timelines of an e-shop and of an organisation: what people changed, jobs, and what began to fail or recovered.
//!
//! Rows are compared, as in `(organisation_id, created_at) >= (…)`, since only the index that is meant has that order: where an
//! organisation is compared alone, Postgres may read the newest of all instead, until it finds enough of it.
//!
//! What a job did to its items is in its line. Of an e-shop, everything that was done to it, its setting, its webhooks and its
//! access tokens is shown; of an organisation, what people did.

use std::collections::HashMap;

use longshore_domain::account::audit::search::{self, Entry as Found};
use longshore_domain::job::kind::JobState;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, JobId, OrganisationId};
use longshore_kernel::problem::Problem;
use uuid::Uuid;

use super::{
    About, Called, Entry, Health, Jobs, Record, SHOWN, Source, Timeline, Turn, Wanted, merged, source,
};

/// Webhooks, and access tokens, of an e-shop whose records are read: the newest of each.
const THINGS: i64 = 50;
/// Days within which webhooks were deleted that are still named. There is no limit beside it: with one, Postgres may read the newest
/// records of all until it finds enough.
const DELETED_DAYS: i32 = 90;
/// Jobs that are folded: the newest.
const FOLDED: i64 = 1_000;

/// Whose timeline it is.
#[derive(Clone, Copy, Debug)]
struct Owner {
    organisation: OrganisationId,
    eshop: Option<EshopId>,
}

/// The timeline of an e-shop. The caller must have access to it.
pub async fn of_eshop(
    db: &Database,
    scope: &Scope,
    organisation: OrganisationId,
    eshop: EshopId,
    wanted: &Wanted,
) -> Result<Timeline, Problem> {
    let owner = Owner { organisation, eshop: Some(eshop) };
    let (records, rest) = tokio::try_join!(
        async {
            if wanted.audit {
                of_things(db, scope, owner, eshop, wanted).await
            } else {
                Ok(Source::default())
            }
        },
        both(db, scope, owner, wanted),
    )?;
    let [jobs, health] = rest;
    Ok(merged([records, jobs, health]))
}

/// The timeline of an organisation. The caller must have access to it; one that is bound to an e-shop sees what is of that.
pub async fn of_organisation(
    db: &Database,
    scope: &Scope,
    organisation: OrganisationId,
    wanted: &Wanted,
) -> Result<Timeline, Problem> {
    let owner = Owner { organisation, eshop: scope.eshop() };
    let (records, rest) = tokio::try_join!(
        async {
            if wanted.audit { of_people(db, scope, owner, wanted).await } else { Ok(Source::default()) }
        },
        both(db, scope, owner, wanted),
    )?;
    let [jobs, health] = rest;
    Ok(merged([records, jobs, health]))
}

async fn both(db: &Database, scope: &Scope, owner: Owner, wanted: &Wanted) -> Result<[Source; 2], Problem> {
    let (jobs, health) = tokio::try_join!(
        async { if wanted.jobs { jobs(db, scope, owner, wanted).await } else { Ok(Source::default()) } },
        health(db, scope, owner, wanted),
    )?;
    Ok([jobs, health])
}

/// What people did in an organisation, as the search of the audit finds it.
async fn of_people(db: &Database, scope: &Scope, owner: Owner, wanted: &Wanted) -> Result<Source, Problem> {
    let filter = search::Filter {
        organisation: Some(owner.organisation),
        since: wanted.since,
        until: wanted.until,
        ..search::Filter::default()
    };
    let found = search::search(db, scope, &filter).await?;
    let entries = found.entries.into_iter().filter_map(|entry| match entry {
        Found::Record(line) => Some(Entry::Record(record(*line))),
        Found::Job(_) => None,
    });
    Ok(Source { entries: entries.collect(), end: found.next.map(|place| place.at) })
}

fn record(line: search::Line) -> Record {
    Record {
        at: line.at,
        action: line.action,
        entity_type: line.entity_type,
        entity: line.entity,
        name: line.name,
        order: None,
        actor_type: line.actor_type,
        actor: line.actor,
        changes: line.changes,
        request_id: line.request_id,
        job: line.job,
        job_kind: None,
    }
}

/// What was done to an e-shop and to what belongs to it.
async fn of_things(
    db: &Database,
    scope: &Scope,
    owner: Owner,
    eshop: EshopId,
    wanted: &Wanted,
) -> Result<Source, Problem> {
    let names = things(db, owner.organisation, eshop).await?;
    let about = About {
        entities: std::iter::once(eshop.get()).chain(names.keys().copied()).collect(),
        since: wanted.since,
        until: wanted.until,
        ..About::default()
    };
    let mut records = source::records(db, scope, &about).await?;
    for record in &mut records {
        record.name = names.get(&record.entity).cloned();
    }
    Ok(Source::newest(records, Entry::Record))
}

/// What belongs to an e-shop, with its name: its setting, its webhooks, also those that were deleted, and its access tokens.
async fn things(
    db: &Database,
    organisation: OrganisationId,
    eshop: EshopId,
) -> Result<HashMap<Uuid, String>, Problem> {
    let found = sqlx::query!(
        r#"SELECT id AS "id!", name AS "name!" FROM (
               SELECT id, integration_type AS name FROM integration_setting WHERE eshop_id = $1
               UNION ALL
               (SELECT id, destination FROM webhook WHERE eshop_id = $1 ORDER BY id DESC LIMIT $3)
               UNION ALL
               (SELECT id, name FROM access_token WHERE eshop_id = $1 ORDER BY id DESC LIMIT $3)
               UNION ALL
               (SELECT entity_id, changes -> 'destination' ->> 0 FROM audit
                WHERE organisation_id = $2 AND action COLLATE "C" = 'webhook.delete' AND job_id IS NULL
                  AND id >= uuid_v7_floor(now() - make_interval(days => $4))
                  AND changes -> 'eshop' ->> 0 = $1::uuid::text AND changes -> 'destination' ->> 0 IS NOT NULL)
           ) AS thing"#,
        eshop.get(),
        organisation.get(),
        THINGS,
        DELETED_DAYS,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found.into_iter().map(|thing| (thing.id, thing.name)).collect())
}

/// Jobs, those of an hour that did the same and came to the same in one line.
async fn jobs(db: &Database, scope: &Scope, owner: Owner, wanted: &Wanted) -> Result<Source, Problem> {
    let found = sqlx::query!(
        r#"WITH looked_at AS MATERIALIZED (
               (SELECT id, kind, state, eshop_id, changed, failed, error, created_at FROM job
                WHERE (eshop_id, created_at) >= ($3, coalesce($4::timestamptz, '-infinity')) AND (eshop_id, created_at) < ($3, coalesce($5::timestamptz, 'infinity'))
                  AND in_scope($1, organisation_id, organisations)
                ORDER BY eshop_id DESC, created_at DESC LIMIT $6)
               UNION ALL
               (SELECT id, kind, state, eshop_id, changed, failed, error, created_at FROM job
                WHERE $3::uuid IS NULL AND (organisation_id, created_at) >= ($2, coalesce($4::timestamptz, '-infinity'))
                  AND (organisation_id, created_at) < ($2, coalesce($5::timestamptz, 'infinity')) AND in_scope($1, organisation_id, organisations)
                ORDER BY organisation_id DESC, created_at DESC LIMIT $6)
           ), folded AS (
               SELECT max(created_at) AS at, min(created_at) AS since, kind, state, count(*) AS jobs, sum(changed) AS changed,
                      sum(failed) AS failed, eshop_id, (array_agg(id ORDER BY created_at DESC, id DESC))[1] AS newest,
                      (array_agg(error ORDER BY created_at DESC, id DESC) FILTER (WHERE error IS NOT NULL))[1] AS error
               FROM looked_at GROUP BY date_trunc('hour', created_at, 'UTC'), kind, state, eshop_id
           )
           SELECT f.at AS "at!", f.since AS "since!", f.kind AS "kind!", f.state AS "state!: JobState", f.jobs AS "jobs!",
                  f.changed AS "changed!", f.failed AS "failed!", f.newest AS "newest!: JobId", f.error,
                  f.eshop_id AS "eshop_id: EshopId", (SELECT name FROM eshop s WHERE s.id = f.eshop_id) AS eshop,
                  (SELECT CASE WHEN count(*) >= $6 THEN min(created_at) END FROM looked_at) AS end
           FROM folded f ORDER BY f.at DESC LIMIT $7"#,
        scope.organisations() as Option<&[OrganisationId]>,
        owner.organisation.get(),
        owner.eshop as Option<EshopId>,
        wanted.since,
        wanted.until,
        FOLDED,
        i64::try_from(SHOWN).map_err(Problem::internal)?,
    )
    .fetch_all(&db.lists)
    .await?;
    let read_to = found.first().and_then(|row| row.end);
    let jobs = found.into_iter().map(|row| Jobs {
        at: row.at,
        since: row.since,
        kind: row.kind,
        state: row.state,
        jobs: row.jobs,
        changed: row.changed,
        failed: row.failed,
        newest: row.newest,
        error: row.error,
        eshop_id: row.eshop_id,
        eshop: row.eshop,
    });
    let mut source = Source::newest(jobs.collect(), Entry::Jobs);
    source.end = source.end.max(read_to);
    Ok(source)
}

/// When what is called began to fail and no longer failed, and which webhooks were disabled.
async fn health(db: &Database, scope: &Scope, owner: Owner, wanted: &Wanted) -> Result<Source, Problem> {
    let found = sqlx::query!(
        r#"WITH kind AS (
               SELECT array_remove(ARRAY[CASE WHEN $6 THEN 'webhook' END, CASE WHEN $7 THEN 'partner' END,
                                         -- a wms belongs to no e-shop
                                         CASE WHEN $8 AND $3::uuid IS NULL THEN 'warehouse' END], NULL) AS kinds
           ), began AS (
               (SELECT o.* FROM outage o, kind
                WHERE (eshop_id, began_at) >= ($3, coalesce($4::timestamptz, '-infinity')) AND (eshop_id, began_at) < ($3, coalesce($5::timestamptz, 'infinity'))
                  AND o.kind = ANY (kind.kinds) AND in_scope($1, organisation_id)
                ORDER BY eshop_id DESC, began_at DESC LIMIT $9)
               UNION ALL
               (SELECT o.* FROM outage o, kind
                WHERE $3::uuid IS NULL AND (organisation_id, began_at) >= ($2, coalesce($4::timestamptz, '-infinity')) AND (organisation_id, began_at) < ($2, coalesce($5::timestamptz, 'infinity'))
                  AND o.kind = ANY (kind.kinds) AND in_scope($1, organisation_id)
                ORDER BY organisation_id DESC, began_at DESC LIMIT $9)
           ), ended AS (
               (SELECT o.* FROM outage o, kind
                WHERE (eshop_id, ended_at) >= ($3, coalesce($4::timestamptz, '-infinity')) AND (eshop_id, ended_at) < ($3, coalesce($5::timestamptz, 'infinity'))
                  AND o.kind = ANY (kind.kinds) AND in_scope($1, organisation_id)
                ORDER BY eshop_id DESC, ended_at DESC LIMIT $9)
               UNION ALL
               (SELECT o.* FROM outage o, kind
                WHERE $3::uuid IS NULL AND (organisation_id, ended_at) >= ($2, coalesce($4::timestamptz, '-infinity')) AND (organisation_id, ended_at) < ($2, coalesce($5::timestamptz, 'infinity'))
                  AND o.kind = ANY (kind.kinds) AND in_scope($1, organisation_id)
                ORDER BY organisation_id DESC, ended_at DESC LIMIT $9)
           ), turn AS (
               SELECT called, name, kind, eshop_id, began_at AS at, 'failing' AS turn, error AS why, job_id, NULL::timestamptz AS since FROM began
               UNION ALL
               SELECT called, name, kind, eshop_id, ended_at, 'recovered', NULL, job_id, began_at FROM ended
               UNION ALL
               -- the audit of an e-shop has it
               (SELECT id, destination, 'webhook', eshop_id, disabled_at, 'disabled', disabled_reason, NULL, NULL FROM webhook
                WHERE $6 AND $3::uuid IS NULL AND organisation_id = $2 AND in_scope($1, organisation_id)
                  AND disabled_at >= coalesce($4, '-infinity') AND disabled_at < coalesce($5, 'infinity')
                ORDER BY disabled_at DESC LIMIT $9)
           )
           SELECT called AS "called!", t.name AS "name!", kind AS "kind!", eshop_id AS "eshop: EshopId", s.name AS "eshop_name?", at AS "at!",
                  turn AS "turn!: Turn", why, job_id AS "job: JobId", since
           FROM turn t LEFT JOIN eshop s ON s.id = ANY (ARRAY[t.eshop_id])
           ORDER BY at DESC, called, turn DESC LIMIT $9"#,
        scope.organisations() as Option<&[OrganisationId]>,
        owner.organisation.get(),
        owner.eshop as Option<EshopId>,
        wanted.since,
        wanted.until,
        wanted.deliveries,
        wanted.settings,
        wanted.systems,
        i64::try_from(SHOWN).map_err(Problem::internal)?,
    )
    .fetch_all(&db.lists)
    .await?;
    let health = found.into_iter().map(|row| {
        let (called, name) = match row.eshop {
            Some(eshop) if row.kind == "partner" => {
                let name = match row.eshop_name {
                    Some(shop) if owner.eshop.is_none() => format!("{} of {shop}", row.name),
                    _ => row.name,
                };
                (Called::Partner(eshop, row.job), name)
            }
            Some(_) => (Called::Webhook(row.called.into()), row.name),
            None => (Called::Warehouse(row.called.into()), row.name),
        };
        Health { at: row.at, called, name, turn: row.turn, why: row.why, since: row.since }
    });
    Ok(Source::newest(health.collect(), Entry::Health))
}
