//! The records of jobs, folded into their job.

use chrono::{DateTime, Utc};

use super::{Any, Inner, WINDOW};
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, Id, JobId, OrganisationId};
use longshore_kernel::problem::Problem;

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

/// Jobs that changed something, in the order of their acceptance; those of a request alone by its index.
pub(super) async fn batches(
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
                        changed > 0 AND ($7::text IS NULL OR kind LIKE $7) AND ($8::text IS NULL OR actor_name ILIKE $8)
                            AND ($13::uuid IS NULL OR actor_id = $13) AS matches
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
        inner.by,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}
