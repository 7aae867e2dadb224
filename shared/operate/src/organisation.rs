//! One organisation: its e-shops with what is wrong in each, and what it has under way.

use chrono::{DateTime, Utc};

use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, OrganisationId};
use longshore_kernel::problem::Problem;

/// E-shops that are shown.
pub const ESHOPS: usize = 100;
/// Jobs that are counted: beyond that, it is many.
pub const COUNTED: i64 = 1_000;

/// An organisation.
#[derive(Clone, Debug)]
pub struct Organisation {
    /// Its id.
    pub id: OrganisationId,
    /// Its name.
    pub name: String,
    /// Its code.
    pub code: Option<String>,
    /// Whether it is active.
    pub active: bool,
    /// Where it is.
    pub country: String,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// Its jobs that have not ended, up to [`COUNTED`].
    pub open_jobs: i64,
    /// Its warehouses.
    pub warehouses: Vec<String>,
}

/// An e-shop of it.
#[derive(Clone, Debug)]
pub struct Eshop {
    /// Its id.
    pub id: EshopId,
    /// Its name.
    pub name: String,
    /// Whether it is active.
    pub active: bool,
    /// The partner that it is connected with.
    pub integration: Option<String>,
    /// What went wrong with that partner last, until something goes right.
    pub error: Option<String>,
    /// When.
    pub error_at: Option<DateTime<Utc>>,
    /// Its webhooks.
    pub webhooks: i64,
    /// Those that fail.
    pub failing: i64,
    /// Those that were disabled.
    pub disabled: i64,
}

/// The organisation of that id, if it is in the scope.
pub async fn find(db: &Database, scope: &Scope, id: OrganisationId) -> Result<Option<Organisation>, Problem> {
    let found = sqlx::query_as!(
        Organisation,
        r#"SELECT o.id, o.name, o.code, o.active, o.primary_country AS country, o.created_at,
                  (SELECT count(*) FROM (
                       (SELECT FROM job WHERE organisation_id = $1 AND sequence IS NOT NULL
                        AND state IN ('queued', 'running', 'retrying') AND in_eshop($3, eshop_id) LIMIT $4)
                       UNION ALL
                       (SELECT FROM job WHERE share = $1 AND sequence IS NULL
                        AND state IN ('queued', 'running', 'retrying') AND in_eshop($3, eshop_id) LIMIT $4)) AS open) AS "open_jobs!",
                  ARRAY(SELECT name FROM warehouse w WHERE w.organisation_id = $1 ORDER BY name, id LIMIT 20) AS "warehouses!"
           FROM organisation o WHERE o.id = $1 AND in_scope($2, o.id)"#,
        id.get(),
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        COUNTED,
    )
    .fetch_optional(&db.lists)
    .await?;
    Ok(found)
}

/// Its e-shops, those with something wrong first; one more than [`ESHOPS`] says that there are more.
pub async fn eshops(db: &Database, scope: &Scope, id: OrganisationId) -> Result<Vec<Eshop>, Problem> {
    let found = sqlx::query_as!(
        Eshop,
        r#"SELECT s.id, s.name, s.active, coalesce(g.integration_type, s.integration_type) AS integration, g.error AS "error?",
                  g.error_at AS "error_at?", w.webhooks AS "webhooks!", w.failing AS "failing!", w.disabled AS "disabled!"
           FROM eshop s
           LEFT JOIN integration_setting g ON g.eshop_id = s.id
           CROSS JOIN LATERAL (
               SELECT count(*) AS webhooks, count(*) FILTER (WHERE w.active AND l.failures > 0) AS failing,
                      count(*) FILTER (WHERE w.disabled_at IS NOT NULL) AS disabled
               FROM webhook w JOIN webhook_lane l ON l.webhook_id = w.id WHERE w.eshop_id = s.id
           ) AS w
           WHERE s.organisation_id = $1 AND in_scope($2, s.organisation_id) AND in_eshop($3, s.id)
           ORDER BY g.error IS NULL AND w.failing = 0 AND w.disabled = 0, s.name, s.id LIMIT $4"#,
        id.get(),
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        i64::try_from(ESHOPS + 1).map_err(Problem::internal)?,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}
