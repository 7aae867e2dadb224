//! Carrier preferences with names, and what one may name.

use serde_json::Value;
use uuid::Uuid;

use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, OrganisationId};
use longshore_kernel::problem::Problem;

/// Preferences that a list shows.
pub const SHOWN: usize = 500;
/// Organisations, e-shops, and carriers with their services that a form offers.
pub const OFFERED: i64 = 1_000;

/// A carrier preference.
#[derive(Clone, Debug)]
pub struct Preference {
    /// Its id.
    pub id: Uuid,
    /// Its organisation.
    pub organisation_id: OrganisationId,
    /// Name of that.
    pub organisation: String,
    /// The e-shop whose orders it is for; absent: every e-shop.
    pub eshop_id: Option<EshopId>,
    /// Name of that.
    pub eshop: Option<String>,
    /// The lowest of an e-shop is looked at first.
    pub position: i32,
    /// Whether it is looked at.
    pub active: bool,
    /// The carrier.
    pub carrier_id: Uuid,
    /// Name of that.
    pub carrier: String,
    /// Whether an order can be shipped by it: it is active, and attached to the organisation.
    pub is_carrier_usable: bool,
    /// Its service.
    pub service_id: Option<Uuid>,
    /// Name of that.
    pub service: Option<String>,
    /// What must be true of an order.
    pub conditions: Value,
    /// Its version.
    pub version: i64,
}

/// Preferences in the order in which they are looked at: of each organisation those of its e-shops first. One more than [`SHOWN`]
/// says that there are more.
pub async fn list(
    db: &Database,
    scope: &Scope,
    organisation: Option<OrganisationId>,
) -> Result<Vec<Preference>, Problem> {
    read(db, scope, organisation, None).await
}

/// The preference of that id, if it is in the scope.
pub async fn find(db: &Database, scope: &Scope, id: Uuid) -> Result<Option<Preference>, Problem> {
    Ok(read(db, scope, None, Some(id)).await?.pop())
}

async fn read(
    db: &Database,
    scope: &Scope,
    organisation: Option<OrganisationId>,
    only: Option<Uuid>,
) -> Result<Vec<Preference>, Problem> {
    let found = sqlx::query_as!(
        Preference,
        r#"SELECT p.id, p.organisation_id, o.name AS organisation, p.eshop_id AS "eshop_id: EshopId", s.name AS "eshop?", p.position,
                  p.active, p.carrier_id, c.name AS carrier,
                  c.active AND EXISTS (SELECT FROM carrier_organisation a
                                       WHERE a.carrier_id = c.id AND a.organisation_id = p.organisation_id) AS "is_carrier_usable!",
                  p.carrier_service_id AS service_id, v.name AS "service?", p.conditions, p.version
           FROM carrier_preference p
           JOIN organisation o ON o.id = p.organisation_id
           JOIN carrier c ON c.id = p.carrier_id
           LEFT JOIN eshop s ON s.id = p.eshop_id
           LEFT JOIN carrier_service v ON v.id = p.carrier_service_id
           WHERE in_scope($1, p.organisation_id) AND (p.eshop_id IS NULL OR in_eshop($2, p.eshop_id))
             AND ($3::uuid IS NULL OR p.organisation_id = $3) AND ($4::uuid IS NULL OR p.id = $4)
           ORDER BY o.name, o.id, s.name NULLS LAST, s.id, p.position LIMIT $5"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        organisation as Option<OrganisationId>,
        only,
        i64::try_from(SHOWN + 1).map_err(Problem::internal)?,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// Organisations of a scope by name, up to [`OFFERED`].
pub async fn organisations(db: &Database, scope: &Scope) -> Result<Vec<(OrganisationId, String)>, Problem> {
    let found = sqlx::query!(
        r#"SELECT id AS "id: OrganisationId", name FROM organisation WHERE in_scope($1, id) ORDER BY name, id LIMIT $2"#,
        scope.organisations() as Option<&[OrganisationId]>,
        OFFERED,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found.into_iter().map(|row| (row.id, row.name)).collect())
}

/// A carrier, or a service of it.
#[derive(Clone, Debug)]
pub struct Carrier {
    /// The carrier.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// The service; absent: the carrier alone.
    pub service_id: Option<Uuid>,
    /// Name of that.
    pub service: Option<String>,
}

/// What a preference of an organisation may name.
#[derive(Clone, Debug)]
pub struct Choices {
    /// Name of the organisation.
    pub organisation: String,
    /// Its e-shops, by name.
    pub eshops: Vec<(EshopId, String)>,
    /// The carriers that it may use, by name, each followed by its services.
    pub carriers: Vec<Carrier>,
    /// A position behind all others.
    pub next: i32,
}

/// Reads what a preference of an organisation may name, if that is in the scope.
pub async fn choices(
    db: &Database,
    scope: &Scope,
    organisation: OrganisationId,
) -> Result<Option<Choices>, Problem> {
    let found = sqlx::query!(
        r#"SELECT o.name, (SELECT coalesce(max(p.position)::bigint + 1, 0) FROM carrier_preference p
                           WHERE p.organisation_id = o.id) AS "next!"
           FROM organisation o WHERE o.id = $1 AND in_scope($2, o.id)"#,
        organisation.get(),
        scope.organisations() as Option<&[OrganisationId]>,
    )
    .fetch_optional(&db.lists)
    .await?;
    let Some(found) = found else { return Ok(None) };
    let eshops = sqlx::query!(
        r#"SELECT id AS "id: EshopId", name FROM eshop WHERE organisation_id = $1 AND in_eshop($2, id)
           ORDER BY name, id LIMIT $3"#,
        organisation.get(),
        scope.eshop() as Option<EshopId>,
        OFFERED,
    )
    .fetch_all(&db.lists)
    .await?;
    let carriers = sqlx::query_as!(
        Carrier,
        r#"SELECT c.id, c.name, v.id AS "service_id?", v.name AS "service?"
           FROM carrier_organisation a
           JOIN carrier c ON c.id = a.carrier_id AND c.active
           CROSS JOIN LATERAL (
               SELECT NULL::uuid AS id, NULL::text AS name, 0 AS place
               UNION ALL SELECT v.id, v.name, 1 FROM carrier_service v WHERE v.carrier_id = c.id) AS v
           WHERE a.organisation_id = $1 ORDER BY c.name, c.id, v.place, v.name, v.id LIMIT $2"#,
        organisation.get(),
        OFFERED,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(Some(Choices {
        organisation: found.name,
        eshops: eshops.into_iter().map(|row| (row.id, row.name)).collect(),
        carriers,
        next: i32::try_from(found.next).unwrap_or(i32::MAX),
    }))
}
