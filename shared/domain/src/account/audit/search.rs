//! Searching the audit, newest first, in bounded time however long it is: what an index knows (the entity, one organisation,
//! the order of time) narrows the search down; other criteria are checked record by record, for at most [`WINDOW`] of them.

use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use crate::list::criteria::containing;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{JobId, OrganisationId};
use longshore_kernel::problem::Problem;

/// Records a page.
pub const PAGE: usize = 50;
/// Records that one page looks at.
pub const WINDOW: i64 = 10_000;

/// What is wanted; all of it is required.
#[derive(Clone, Debug, Default)]
pub struct Filter {
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
    /// At this moment or later.
    pub since: Option<DateTime<Utc>>,
    /// Before this moment.
    pub until: Option<DateTime<Utc>>,
    /// Older than this record.
    pub after: Option<Uuid>,
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
    /// Name of the organisation, where it belongs to one.
    pub organisation: Option<String>,
    /// What changed: `{field: [old, new]}`.
    pub changes: Value,
    /// The request.
    pub request_id: Option<String>,
    /// The job.
    pub job: Option<JobId>,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Page {
    /// The records, newest first, at most [`PAGE`].
    pub records: Vec<Line>,
    /// Where the next page begins, if there may be more.
    pub next: Option<Uuid>,
    /// As many were looked at as one search may, and fewer than a page of them matched.
    pub cut_short: bool,
}

/// Searches.
pub async fn search(db: &Database, scope: &Scope, wanted: &Filter) -> Result<Page, Problem> {
    let (organisations, only) = match scope.organisations() {
        Some([one]) if wanted.organisation.is_none_or(|wanted| wanted == *one) => (None, Some(*one)),
        several => (several, wanted.organisation),
    };
    let action = wanted.action.as_deref().map(|text| containing(text).split_off(1));
    let actor = wanted.actor.as_deref().map(containing);
    let mut records = sqlx::query_as!(
        Line,
        r#"SELECT a.id AS "id!", a.at AS "at!", a.actor_type AS "actor_type!", a.actor_name AS "actor!",
                  a.action AS "action!", a.entity_type AS "entity_type!", a.entity_id AS "entity!",
                  (SELECT name FROM organisation o WHERE o.id = a.organisation_id) AS organisation,
                  a.changes AS "changes!", a.request_id, a.job_id AS "job: JobId"
           FROM (SELECT * FROM audit
                 WHERE in_scope($1, organisation_id) AND in_eshop($2, organisation_id)
                   AND ($3::uuid IS NULL OR entity_id = $3) AND ($4::uuid IS NULL OR id < $4)
                   AND ($5::timestamptz IS NULL OR id < uuid_v7_floor($5))
                 ORDER BY id DESC LIMIT $6) AS a
           WHERE ($7::text IS NULL OR a.action LIKE $7) AND ($8::text IS NULL OR a.actor_name ILIKE $8)
             AND ($9::text IS NULL OR a.request_id = $9) AND ($10::timestamptz IS NULL OR a.at >= $10)
           ORDER BY a.id DESC LIMIT $11"#,
        organisations as Option<&[OrganisationId]>,
        only as Option<OrganisationId>,
        wanted.entity,
        wanted.after,
        wanted.until,
        WINDOW,
        action.as_deref(),
        actor.as_deref(),
        wanted.request.as_deref(),
        wanted.since,
        i64::try_from(PAGE + 1).map_err(Problem::internal)?,
    )
    .fetch_all(&db.lists)
    .await?;
    if records.len() > PAGE {
        records.truncate(PAGE);
        let next = records.last().map(|record| record.id);
        return Ok(Page { records, next, cut_short: false });
    }
    let next = sqlx::query_scalar!(
        "SELECT id FROM audit
         WHERE in_scope($1, organisation_id) AND in_eshop($2, organisation_id)
           AND ($3::uuid IS NULL OR entity_id = $3) AND ($4::uuid IS NULL OR id < $4)
           AND ($5::timestamptz IS NULL OR id < uuid_v7_floor($5))
         ORDER BY id DESC LIMIT 1 OFFSET $6",
        organisations as Option<&[OrganisationId]>,
        only as Option<OrganisationId>,
        wanted.entity,
        wanted.after,
        wanted.until,
        WINDOW - 1,
    )
    .fetch_optional(&db.lists)
    .await?;
    Ok(Page { records, cut_short: next.is_some(), next })
}
