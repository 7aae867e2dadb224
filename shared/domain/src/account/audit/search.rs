//! Searching the audit, newest first, in bounded time however long it is.
//!
//! What people do is a small part of it, and has indexes of its own. What a job does to its items is most of it: such records are
//! not listed one by one, but folded into their job, until that job or one of its items is asked for. So an index leads to every
//! record that matches an organisation, an action, an entity, a request, a job or a time. Only the name of an actor is compared
//! record by record, for at most [`WINDOW`] of them.

use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use crate::list::criteria::containing;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, Id, JobId, OrganisationId};
use longshore_kernel::problem::Problem;

/// Entries a page.
pub const PAGE: usize = 50;
/// Records that one page looks at for the name of an actor.
pub const WINDOW: i64 = 10_000;

/// Whose records are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whose {
    /// Those of people: admins, business users, and the command line of the service.
    #[default]
    People,
    /// Those of programs and of the schedule, too.
    All,
}

/// What is wanted; all of it is required.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// By whom; an entity, a request or a job is shown with everything.
    pub whose: Whose,
    /// Of this organisation.
    pub organisation: Option<OrganisationId>,
    /// About this entity.
    pub entity: Option<Uuid>,
    /// An action that starts with this.
    pub action: Option<String>,
    /// By an actor whose name contains this text.
    pub actor: Option<String>,
    /// By this request.
    pub request: Option<String>,
    /// By this job.
    pub job: Option<JobId>,
    /// At this moment or later.
    pub since: Option<DateTime<Utc>>,
    /// Before this moment.
    pub until: Option<DateTime<Utc>>,
    /// Older than this place in the order.
    pub after: Option<Place>,
}

/// Marks the ids of entries, which are those of records and of jobs.
#[derive(Debug)]
pub struct Any;

/// A place in the order of time.
pub type Place = longshore_kernel::place::Place<Id<Any>>;

/// An entry.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A record.
    Record(Box<Line>),
    /// The records of a job.
    Job(Batch),
}

impl Entry {
    fn place(&self) -> Place {
        match self {
            Self::Record(record) => Place { at: record.at, id: record.id.into() },
            Self::Job(job) => Place { at: job.at, id: job.id.get().into() },
        }
    }
}

/// A record.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its id.
    pub id: Uuid,
    /// When.
    pub at: DateTime<Utc>,
    /// Who: kind.
    pub actor_type: String,
    /// Who: name.
    pub actor: String,
    /// What was done.
    pub action: String,
    /// To what kind of thing.
    pub entity_type: String,
    /// To which.
    pub entity: Uuid,
    /// What people call that, where it still is.
    pub name: Option<String>,
    /// The organisation, where it belongs to one.
    pub organisation_id: Option<OrganisationId>,
    /// Name of that.
    pub organisation: Option<String>,
    /// What changed: `{field: [old, new]}`.
    pub changes: Value,
    /// The request.
    pub request_id: Option<String>,
    /// The job.
    pub job: Option<JobId>,
    /// Whether it is wanted; a record where a search ended may not be.
    pub matches: bool,
    /// Whether the search ended here.
    pub is_edge: bool,
}

/// A job that changed something, with its records counted.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The job.
    pub id: JobId,
    /// When it was accepted.
    pub at: DateTime<Utc>,
    /// What it does.
    pub kind: String,
    /// Who asked for it: kind.
    pub actor_type: String,
    /// Who asked for it: name.
    pub actor: String,
    /// Items that it created or altered.
    pub changed: i32,
    /// The organisation, where it belongs to one.
    pub organisation_id: Option<OrganisationId>,
    /// Name of that.
    pub organisation: Option<String>,
    /// The e-shop, where it belongs to one.
    pub eshop_id: Option<EshopId>,
    /// Name of that.
    pub eshop: Option<String>,
    /// Whether it is wanted.
    pub matches: bool,
    /// Whether the search ended here.
    pub is_edge: bool,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The entries, newest first, at most [`PAGE`].
    pub entries: Vec<Entry>,
    /// Where the next page begins, if there may be more.
    pub next: Option<Place>,
    /// As many were looked at as one search may, and fewer than a page of them matched.
    pub cut_short: bool,
}

/// What narrows a search down by an index.
struct Inner<'w> {
    organisations: Option<&'w [OrganisationId]>,
    organisation: Option<OrganisationId>,
    since: Option<DateTime<Utc>>,
    until: Option<DateTime<Utc>>,
    at: Option<DateTime<Utc>>,
    id: Option<Id<Any>>,
    action: Option<String>,
    actor: Option<String>,
    /// What an action begins with.
    begins: &'w str,
    /// Records that one look takes.
    window: i64,
    limit: i64,
}

/// Records in the order of time; `$1` to `$10` are those of [`Inner`]. The parts of the statement: common table expressions, what
/// stands before the look at the audit, its condition, and what stands behind it.
macro_rules! records {
    ($db:expr, $inner:expr, [$ctes:literal, $before:literal, $condition:literal, $behind:literal], $matches:literal $(, $parameter:expr)* $(,)?) => {
        sqlx::query_as!(
            Line,
            $ctes
            + r#" SELECT a.id AS "id!", a.at AS "at!", a.actor_type AS "actor_type!", a.actor_name AS "actor!",
                  a.action AS "action!", a.entity_type AS "entity_type!", a.entity_id AS "entity!",
                  CASE a.entity_type
                      WHEN 'product' THEN (SELECT product_sku FROM product p WHERE p.id = a.entity_id)
                      WHEN 'product_stock' THEN (SELECT p.product_sku FROM product_stock k JOIN product p ON p.id = k.product_id
                                                 WHERE k.id = a.entity_id)
                      WHEN 'expedition' THEN (SELECT order_number FROM expedition_detail d WHERE d.id = a.entity_id)
                      WHEN 'webhook' THEN (SELECT destination FROM webhook w WHERE w.id = a.entity_id)
                      WHEN 'eshop' THEN (SELECT name FROM eshop s WHERE s.id = a.entity_id)
                      WHEN 'integration_setting' THEN (SELECT s.name FROM integration_setting g JOIN eshop s ON s.id = g.eshop_id
                                                       WHERE g.id = a.entity_id)
                      WHEN 'organisation' THEN (SELECT name FROM organisation o WHERE o.id = a.entity_id)
                      WHEN 'warehouse' THEN (SELECT name FROM warehouse w WHERE w.id = a.entity_id)
                      WHEN 'wms' THEN (SELECT name FROM wms w WHERE w.id = a.entity_id)
                      WHEN 'supplier' THEN (SELECT name FROM supplier s WHERE s.id = a.entity_id)
                      WHEN 'stock_advice' THEN (SELECT internal_id FROM stock_advice s WHERE s.id = a.entity_id)
                      WHEN 'carrier' THEN (SELECT name FROM carrier c WHERE c.id = a.entity_id)
                      WHEN 'admin' THEN (SELECT first_name || ' ' || last_name FROM admin d WHERE d.id = a.entity_id)
                      WHEN 'business_user' THEN (SELECT first_name || ' ' || last_name FROM business_user u WHERE u.id = a.entity_id)
                      WHEN 'queue' THEN (SELECT name FROM queue q WHERE q.id = a.entity_id)
                      WHEN 'job' THEN (SELECT kind FROM job j WHERE j.id = a.entity_id)
                  END AS name,
                  a.organisation_id AS "organisation_id: OrganisationId",
                  (SELECT name FROM organisation o WHERE o.id = a.organisation_id) AS organisation,
                  a.changes AS "changes!", a.request_id, a.job_id AS "job: JobId",
                  a.place >= $9 AS "is_edge!", ($7::text IS NULL OR a.action LIKE $7) AND ($8::text IS NULL OR a.actor_name ILIKE $8) AND "#
            + $matches
            + r#" AS "matches!" FROM ("#
            + $before
            + r#" SELECT r.*, row_number() OVER (ORDER BY id DESC) AS place FROM audit r
                  WHERE "#
            + $condition
            + r#" AND ($3::timestamptz IS NULL OR id >= uuid_v7_floor($3)) AND ($4::timestamptz IS NULL OR id < uuid_v7_floor($4))
                  AND ($6::uuid IS NULL OR id < greatest($6, uuid_v7_floor($5::timestamptz + interval '1 ms')))
                  AND ($6::uuid IS NULL OR (at, id) < ($5, $6))
                  ORDER BY id DESC LIMIT $9"#
            + $behind
            + r#") AS a
           WHERE a.place >= $9 OR ($7::text IS NULL OR a.action LIKE $7) AND ($8::text IS NULL OR a.actor_name ILIKE $8) AND "#
            + $matches
            + r#" ORDER BY a.at DESC, a.id DESC LIMIT $10"#,
            $inner.organisations as Option<&[OrganisationId]>,
            $inner.organisation as Option<OrganisationId>,
            $inner.since,
            $inner.until,
            $inner.at,
            $inner.id as Option<Id<Any>>,
            $inner.action.as_deref(),
            $inner.actor.as_deref(),
            $inner.window,
            $inner.limit
            $(, $parameter)*
        )
        .fetch_all(&$db.lists)
        .await
    };
}

/// Searches.
pub async fn search(db: &Database, scope: &Scope, wanted: &Filter) -> Result<Page, Problem> {
    // one organisation is compared: its index then has the order, too
    let (organisations, only) = match scope.organisations() {
        Some([one]) if wanted.organisation.is_none_or(|wanted| wanted == *one) => (None, Some(*one)),
        several => (several, wanted.organisation),
    };
    let limit = i64::try_from(PAGE + 1).map_err(Problem::internal)?;
    // an index leads to what matches everything but these
    let is_compared = wanted.actor.is_some() || (wanted.entity.is_some() && wanted.action.is_some());
    let inner = Inner {
        organisations,
        organisation: only,
        since: wanted.since,
        until: wanted.until,
        at: wanted.after.map(|place| place.at),
        id: wanted.after.map(|place| place.id),
        action: wanted.action.as_deref().map(|text| containing(text).split_off(1)),
        actor: wanted.actor.as_deref().map(containing),
        begins: wanted.action.as_deref().unwrap_or_default(),
        window: if is_compared { WINDOW } else { limit },
        limit,
    };
    let has_jobs = wanted.entity.is_none() && wanted.job.is_none();
    let (records, jobs) = tokio::try_join!(records(db, &inner, wanted), async {
        if has_jobs && (wanted.whose == Whose::All || wanted.request.is_some()) {
            batches(db, scope, &inner, wanted.request.as_deref()).await
        } else {
            Ok(Vec::new())
        }
    },)?;
    let records =
        records.into_iter().map(|line| (line.matches, line.is_edge, Entry::Record(Box::new(line)))).collect();
    let jobs = jobs.into_iter().map(|job| (job.matches, job.is_edge, Entry::Job(job))).collect();
    Ok(merged([records, jobs]))
}

/// Entries of a source in their order, each with whether it is wanted, and whether the search ended there.
type Source = Vec<(bool, bool, Entry)>;

/// A page of all sources, down to the last place to which each of them was read.
fn merged(sources: [Source; 2]) -> Page {
    let end = |source: &Source| {
        let cut = source.get(PAGE).map(|(.., entry)| entry.place());
        let edges = source.iter().filter(|(_, is_edge, _)| *is_edge).map(|(.., entry)| entry.place());
        edges.chain(cut).max_by_key(key)
    };
    let end = sources.iter().filter_map(end).max_by_key(key);
    let found = sources.into_iter().flatten().filter(|(matches, ..)| *matches).map(|(.., entry)| entry);
    let mut entries: Vec<Entry> =
        found.filter(|entry| end.is_none_or(|end| key(&entry.place()) >= key(&end))).collect();
    entries.sort_by_key(|entry| std::cmp::Reverse(key(&entry.place())));
    if entries.len() > PAGE {
        entries.truncate(PAGE);
        let next = entries.last().map(Entry::place);
        return Page { entries, next, cut_short: false };
    }
    Page { entries, next: end, cut_short: end.is_some() }
}

fn key(place: &Place) -> (DateTime<Utc>, Uuid) {
    (place.at, place.id.get())
}

/// The records by the index that leads to what is wanted.
async fn records(db: &Database, inner: &Inner<'_>, wanted: &Filter) -> Result<Vec<Line>, Problem> {
    if let Some(job) = wanted.job {
        let found = records!(
            db,
            inner,
            ["", "", "in_scope($1, organisation_id) AND in_eshop($2, organisation_id) AND job_id = $11", ""],
            "true",
            job.get(),
        );
        return Ok(found?);
    }
    if let Some(entity) = wanted.entity {
        let found = records!(
            db,
            inner,
            [
                "",
                "",
                "in_scope($1, organisation_id) AND in_eshop($2, organisation_id) AND entity_id = $11",
                ""
            ],
            "true",
            entity,
        );
        return Ok(found?);
    }
    if let Some(request) = &wanted.request {
        let found = records!(
            db,
            inner,
            [
                "",
                "",
                "in_scope($1, organisation_id) AND in_eshop($2, organisation_id) AND request_id = $11 AND job_id IS NULL",
                ""
            ],
            "true",
            request,
        );
        return Ok(found?);
    }
    match (wanted.whose, &wanted.action, &wanted.actor) {
        (Whose::People, None, _) => of_people(db, inner).await,
        (Whose::People, Some(_), _) => of_people_by_action(db, inner).await,
        (Whose::All, None, Some(_)) => of_actor(db, inner).await,
        (Whose::All, ..) => by_action(db, inner).await,
    }
}

async fn of_people(db: &Database, inner: &Inner<'_>) -> Result<Vec<Line>, Problem> {
    if inner.organisation.is_some() {
        return of_people_in_organisation(db, inner).await;
    }
    let found = records!(
        db,
        inner,
        [
            "",
            "",
            "in_scope($1, organisation_id) AND in_eshop($2, organisation_id)
             AND job_id IS NULL AND actor_type IN ('admin', 'business_user', 'command_line')",
            ""
        ],
        "true",
    );
    Ok(found?)
}

/// Those in one organisation. Rows are compared, since only its own index has that order: otherwise Postgres may read what people
/// did everywhere, until it finds enough of it.
async fn of_people_in_organisation(db: &Database, inner: &Inner<'_>) -> Result<Vec<Line>, Problem> {
    let found = records!(
        db,
        inner,
        [
            "",
            "",
            "in_scope($1, organisation_id) AND id = ANY (ARRAY(
                 SELECT id FROM audit
                 WHERE (organisation_id, id) >= ($2, coalesce(uuid_v7_floor($3), '00000000-0000-0000-0000-000000000000'))
                   AND (organisation_id, id) < ($2, coalesce(uuid_v7_floor($4), 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
                   AND ($6::uuid IS NULL OR (organisation_id, id) < ($2, greatest($6, uuid_v7_floor($5::timestamptz + interval '1 ms'))))
                   AND ($6::uuid IS NULL OR (at, id) < ($5, $6))
                   AND job_id IS NULL AND actor_type IN ('admin', 'business_user', 'command_line')
                 ORDER BY organisation_id DESC, id DESC LIMIT $9))",
            ""
        ],
        "true",
    );
    Ok(found?)
}

/// Each action of people that begins with the text, and the records of each.
async fn of_people_by_action(db: &Database, inner: &Inner<'_>) -> Result<Vec<Line>, Problem> {
    let found = records!(
        db,
        inner,
        [
            r#"WITH RECURSIVE one (action) AS (
                   (SELECT action COLLATE "C" FROM audit
                    WHERE job_id IS NULL AND actor_type IN ('admin', 'business_user', 'command_line') AND action COLLATE "C" >= $11
                    ORDER BY action COLLATE "C" LIMIT 1)
                   UNION ALL
                   SELECT (SELECT action COLLATE "C" FROM audit
                           WHERE job_id IS NULL AND actor_type IN ('admin', 'business_user', 'command_line')
                             AND action COLLATE "C" > one.action
                           ORDER BY action COLLATE "C" LIMIT 1)
                   FROM one WHERE starts_with(one.action, $11)
               )"#,
            "SELECT x.* FROM one CROSS JOIN LATERAL (",
            r#"action COLLATE "C" = one.action AND in_scope($1, organisation_id) AND in_eshop($2, organisation_id)
               AND job_id IS NULL AND actor_type IN ('admin', 'business_user', 'command_line')"#,
            ") AS x WHERE starts_with(one.action, $11)"
        ],
        "true",
        inner.begins,
    );
    Ok(found?)
}

/// The same of everyone. For a caller who does not see everything, and for one organisation, each organisation has its actions.
async fn by_action(db: &Database, inner: &Inner<'_>) -> Result<Vec<Line>, Problem> {
    let only = inner.organisation.map(|one| [one]);
    if let Some(organisations) = only.as_ref().map(<[_; 1]>::as_slice).or(inner.organisations) {
        let found = records!(
            db,
            inner,
            [
                r#"WITH RECURSIVE one (organisation, action) AS (
                       SELECT o.id, (SELECT action COLLATE "C" FROM audit
                                     WHERE job_id IS NULL AND organisation_id = o.id AND action COLLATE "C" >= $11
                                     ORDER BY action COLLATE "C" LIMIT 1)
                       FROM unnest($12::uuid[]) AS o (id)
                       UNION ALL
                       SELECT one.organisation, (SELECT action COLLATE "C" FROM audit
                               WHERE job_id IS NULL AND organisation_id = one.organisation AND action COLLATE "C" > one.action
                               ORDER BY action COLLATE "C" LIMIT 1)
                       FROM one WHERE starts_with(one.action, $11)
                   )"#,
                "SELECT x.* FROM one CROSS JOIN LATERAL (",
                r#"organisation_id = one.organisation AND action COLLATE "C" = one.action AND job_id IS NULL
                   AND in_scope($1, organisation_id) AND in_eshop($2, organisation_id)"#,
                ") AS x WHERE starts_with(one.action, $11)"
            ],
            "true",
            inner.begins,
            organisations as &[OrganisationId],
        );
        return Ok(found?);
    }
    let found = records!(
        db,
        inner,
        [
            r#"WITH RECURSIVE one (action) AS (
                   (SELECT action COLLATE "C" FROM audit WHERE job_id IS NULL AND action COLLATE "C" >= $11
                    ORDER BY action COLLATE "C" LIMIT 1)
                   UNION ALL
                   SELECT (SELECT action COLLATE "C" FROM audit WHERE job_id IS NULL AND action COLLATE "C" > one.action
                           ORDER BY action COLLATE "C" LIMIT 1)
                   FROM one WHERE starts_with(one.action, $11)
               )"#,
            "SELECT x.* FROM one CROSS JOIN LATERAL (",
            r#"action COLLATE "C" = one.action AND job_id IS NULL
               AND in_scope($1, organisation_id) AND in_eshop($2, organisation_id)"#,
            ") AS x WHERE starts_with(one.action, $11)"
        ],
        "true",
        inner.begins,
    );
    Ok(found?)
}

/// The newest of all, of which the name of the actor is compared; those of jobs are folded.
async fn of_actor(db: &Database, inner: &Inner<'_>) -> Result<Vec<Line>, Problem> {
    let found = records!(
        db,
        inner,
        ["", "", "in_scope($1, organisation_id) AND in_eshop($2, organisation_id)", ""],
        "a.job_id IS NULL",
    );
    Ok(found?)
}

/// Jobs that changed something, in the order of their acceptance; those of a request alone by its index.
async fn batches(
    db: &Database,
    scope: &Scope,
    inner: &Inner<'_>,
    request: Option<&str>,
) -> Result<Vec<Batch>, Problem> {
    let found = sqlx::query_as!(
        Batch,
        r#"SELECT j.id AS "id!", j.created_at AS "at!", j.kind AS "kind!", j.actor_type AS "actor_type!",
                  j.actor_name AS "actor!", j.changed AS "changed!", j.organisation_id AS "organisation_id: OrganisationId",
                  (SELECT name FROM organisation o WHERE o.id = j.organisation_id) AS organisation,
                  j.eshop_id AS "eshop_id: EshopId", (SELECT name FROM eshop s WHERE s.id = j.eshop_id) AS eshop,
                  j.matches AS "matches!", j.place >= $9 AS "is_edge!"
           FROM (SELECT r.*, row_number() OVER (ORDER BY created_at DESC, id DESC) AS place,
                        changed > 0 AND ($7::text IS NULL OR kind LIKE $7) AND ($8::text IS NULL OR actor_name ILIKE $8) AS matches
                 FROM job r
                 WHERE in_scope($1, organisation_id, organisations) AND in_eshop($2, organisation_id)
                   AND ($11::uuid IS NULL OR eshop_id = $11) AND ($12::text IS NULL OR request_id = $12)
                   AND ($3::timestamptz IS NULL OR created_at >= $3) AND ($4::timestamptz IS NULL OR created_at < $4)
                   AND ($6::uuid IS NULL OR (created_at, id) < ($5, $6))
                 ORDER BY created_at DESC, id DESC LIMIT $9) AS j
           WHERE j.matches OR j.place >= $9 ORDER BY j.created_at DESC, j.id DESC LIMIT $10"#,
        inner.organisations as Option<&[OrganisationId]>,
        inner.organisation as Option<OrganisationId>,
        inner.since,
        inner.until,
        inner.at,
        inner.id as Option<Id<Any>>,
        inner.action.as_deref(),
        inner.actor.as_deref(),
        WINDOW,
        inner.limit,
        scope.eshop() as Option<EshopId>,
        request,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}
