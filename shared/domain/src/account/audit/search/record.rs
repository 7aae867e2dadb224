//! The records of a search, each by the index that leads to what is wanted.

use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use super::{Any, Filter, Inner, Whose};
use longshore_kernel::database::Database;
use longshore_kernel::ids::{Id, JobId, OrganisationId};
use longshore_kernel::problem::Problem;

/// A record.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its id.
    pub id: Uuid,
    /// When.
    pub at: DateTime<Utc>,
    /// Who: kind.
    pub actor_type: String,
    /// Who: the account, or the token of a program.
    pub actor_id: Option<Uuid>,
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

/// Records in the order of time; `$1` to `$11` are those of [`Inner`]. The parts of the statement: common table expressions, what
/// stands before the look at the audit, its condition, and what stands behind it; or the condition alone.
macro_rules! records {
    ($db:expr, $inner:expr, $condition:literal $(, $parameter:expr)* $(,)?) => {
        records!($db, $inner, ["", "", $condition, ""], "true" $(, $parameter)*)
    };
    ($db:expr, $inner:expr, [$ctes:literal, $before:literal, $condition:literal, $behind:literal], $matches:literal $(, $parameter:expr)* $(,)?) => {
        sqlx::query_as!(
            Line,
            $ctes
            + r#" SELECT a.id AS "id!", a.at AS "at!", a.actor_type AS "actor_type!", a.actor_id, a.actor_name AS "actor!",
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
                  a.place >= $9 AS "is_edge!", ($7::text IS NULL OR a.action LIKE $7) AND ($8::text IS NULL OR a.actor_name ILIKE $8)
                  AND ($11::uuid IS NULL OR a.actor_id = $11) AND "#
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
           WHERE a.place >= $9 OR ($7::text IS NULL OR a.action LIKE $7) AND ($8::text IS NULL OR a.actor_name ILIKE $8)
                  AND ($11::uuid IS NULL OR a.actor_id = $11) AND "#
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
            $inner.limit,
            $inner.by
            $(, $parameter)*
        )
        .fetch_all(&$db.lists)
        .await
        .map_err(Problem::from)
    };
}

/// The records by the index that leads to what is wanted.
pub(super) async fn records(db: &Database, inner: &Inner<'_>, wanted: &Filter) -> Result<Vec<Line>, Problem> {
    if let Some(job) = wanted.job {
        return records!(
            db,
            inner,
            "in_scope($1, organisation_id) AND in_eshop($2, organisation_id) AND job_id = $12",
            job.get(),
        );
    }
    if let Some(entity) = wanted.entity {
        return records!(
            db,
            inner,
            "in_scope($1, organisation_id) AND in_eshop($2, organisation_id) AND entity_id = $12",
            entity,
        );
    }
    if let Some(request) = &wanted.request {
        return records!(
            db,
            inner,
            "in_scope($1, organisation_id) AND in_eshop($2, organisation_id) AND request_id = $12 AND job_id IS NULL",
            request,
        );
    }
    // what a person did is found however much programs do
    let whose = match wanted.by {
        Some(by) if wanted.whose == Whose::All && is_person(db, by).await? => Whose::People,
        _ => wanted.whose,
    };
    match (whose, &wanted.action, wanted.actor.is_some() || wanted.by.is_some()) {
        (Whose::People, None, _) => of_people(db, inner).await,
        (Whose::People, Some(_), _) => of_people_by_action(db, inner).await,
        (Whose::All, None, true) => of_actor(db, inner).await,
        (Whose::All, ..) => by_action(db, inner).await,
    }
}

/// Whether an actor is a person who has an account; else it is a program, or the account was deleted.
async fn is_person(db: &Database, actor: Uuid) -> Result<bool, Problem> {
    let found = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM admin WHERE id = $1) OR EXISTS (SELECT FROM business_user WHERE id = $1) AS "is_person!""#,
        actor,
    )
    .fetch_one(&db.main)
    .await?;
    Ok(found)
}

async fn of_people(db: &Database, inner: &Inner<'_>) -> Result<Vec<Line>, Problem> {
    if inner.organisation.is_some() {
        return of_people_in_organisation(db, inner).await;
    }
    records!(
        db,
        inner,
        "in_scope($1, organisation_id) AND in_eshop($2, organisation_id)
             AND job_id IS NULL AND actor_type IN ('admin', 'business_user', 'command_line')",
    )
}

/// Those in one organisation. Rows are compared, since only its own index has that order: otherwise Postgres may read what people
/// did everywhere, until it finds enough of it.
async fn of_people_in_organisation(db: &Database, inner: &Inner<'_>) -> Result<Vec<Line>, Problem> {
    records!(
        db,
        inner,
        "in_scope($1, organisation_id) AND id = ANY (ARRAY(
                 SELECT id FROM audit
                 WHERE (organisation_id, id) >= ($2, coalesce(uuid_v7_floor($3), '00000000-0000-0000-0000-000000000000'))
                   AND (organisation_id, id) < ($2, coalesce(uuid_v7_floor($4), 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
                   AND ($6::uuid IS NULL OR (organisation_id, id) < ($2, greatest($6, uuid_v7_floor($5::timestamptz + interval '1 ms'))))
                   AND ($6::uuid IS NULL OR (at, id) < ($5, $6))
                   AND job_id IS NULL AND actor_type IN ('admin', 'business_user', 'command_line')
                 ORDER BY organisation_id DESC, id DESC LIMIT $9))",
    )
}

/// Each action of people that begins with the text, and the records of each.
async fn of_people_by_action(db: &Database, inner: &Inner<'_>) -> Result<Vec<Line>, Problem> {
    records!(
        db,
        inner,
        [
            r#"WITH RECURSIVE one (action) AS (
                   (SELECT action COLLATE "C" FROM audit
                    WHERE job_id IS NULL AND actor_type IN ('admin', 'business_user', 'command_line') AND action COLLATE "C" >= $12
                    ORDER BY action COLLATE "C" LIMIT 1)
                   UNION ALL
                   SELECT (SELECT action COLLATE "C" FROM audit
                           WHERE job_id IS NULL AND actor_type IN ('admin', 'business_user', 'command_line')
                             AND action COLLATE "C" > one.action
                           ORDER BY action COLLATE "C" LIMIT 1)
                   FROM one WHERE starts_with(one.action, $12)
               )"#,
            "SELECT x.* FROM one CROSS JOIN LATERAL (",
            r#"action COLLATE "C" = one.action AND in_scope($1, organisation_id) AND in_eshop($2, organisation_id)
               AND job_id IS NULL AND actor_type IN ('admin', 'business_user', 'command_line')"#,
            ") AS x WHERE starts_with(one.action, $12)"
        ],
        "true",
        inner.begins,
    )
}

/// The same of everyone. For a caller who does not see everything, and for one organisation, each organisation has its actions.
async fn by_action(db: &Database, inner: &Inner<'_>) -> Result<Vec<Line>, Problem> {
    let only = inner.organisation.map(|one| [one]);
    if let Some(organisations) = only.as_ref().map(<[_; 1]>::as_slice).or(inner.organisations) {
        return records!(
            db,
            inner,
            [
                r#"WITH RECURSIVE one (organisation, action) AS (
                       SELECT o.id, (SELECT action COLLATE "C" FROM audit
                                     WHERE job_id IS NULL AND organisation_id = o.id AND action COLLATE "C" >= $12
                                     ORDER BY action COLLATE "C" LIMIT 1)
                       FROM unnest($13::uuid[]) AS o (id)
                       UNION ALL
                       SELECT one.organisation, (SELECT action COLLATE "C" FROM audit
                               WHERE job_id IS NULL AND organisation_id = one.organisation AND action COLLATE "C" > one.action
                               ORDER BY action COLLATE "C" LIMIT 1)
                       FROM one WHERE starts_with(one.action, $12)
                   )"#,
                "SELECT x.* FROM one CROSS JOIN LATERAL (",
                r#"organisation_id = one.organisation AND action COLLATE "C" = one.action AND job_id IS NULL
                   AND in_scope($1, organisation_id) AND in_eshop($2, organisation_id)"#,
                ") AS x WHERE starts_with(one.action, $12)"
            ],
            "true",
            inner.begins,
            organisations as &[OrganisationId],
        );
    }
    records!(
        db,
        inner,
        [
            r#"WITH RECURSIVE one (action) AS (
                   (SELECT action COLLATE "C" FROM audit WHERE job_id IS NULL AND action COLLATE "C" >= $12
                    ORDER BY action COLLATE "C" LIMIT 1)
                   UNION ALL
                   SELECT (SELECT action COLLATE "C" FROM audit WHERE job_id IS NULL AND action COLLATE "C" > one.action
                           ORDER BY action COLLATE "C" LIMIT 1)
                   FROM one WHERE starts_with(one.action, $12)
               )"#,
            "SELECT x.* FROM one CROSS JOIN LATERAL (",
            r#"action COLLATE "C" = one.action AND job_id IS NULL
               AND in_scope($1, organisation_id) AND in_eshop($2, organisation_id)"#,
            ") AS x WHERE starts_with(one.action, $12)"
        ],
        "true",
        inner.begins,
    )
}

/// The newest of all, of which the actor is compared; those of jobs are folded.
async fn of_actor(db: &Database, inner: &Inner<'_>) -> Result<Vec<Line>, Problem> {
    records!(
        db,
        inner,
        ["", "", "in_scope($1, organisation_id) AND in_eshop($2, organisation_id)", ""],
        "a.job_id IS NULL",
    )
}
