//! Finding what operators set up: wms, carrier preferences, access tokens and accounts. They are few, and read through.

use longshore_domain::account::token::is_token;
use longshore_domain::list::criteria::containing;
use longshore_kernel::access::{Permission, Role};
use longshore_kernel::crypto::sha256;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, OrganisationId};
use longshore_kernel::problem::Problem;

use super::{Found, Group, Hit, Kind, Wanted, as_hits};

/// All of it that a caller with this role may read.
pub(super) async fn all(db: &Database, role: Role, wanted: &Wanted<'_>) -> Result<Vec<Group>, Problem> {
    let may = [
        Permission::ReadWmsSettings,
        Permission::ManageTokens,
        Permission::ReadAdmins,
        Permission::ReadBusinessUsers,
    ];
    let [systems, tokens, admins, users] = may.map(|permission| permission.roles().contains(&role));
    let (systems, preferences, tokens, accounts) = tokio::try_join!(
        async { if systems { self::systems(db, wanted).await } else { Ok(Vec::new()) } },
        preferences(db, wanted),
        async { if tokens { self::tokens(db, wanted).await } else { Ok(Vec::new()) } },
        accounts(db, wanted, admins, users),
    )?;
    let kinds = [Kind::Wms, Kind::Preference, Kind::Token, Kind::Account];
    Ok(kinds.into_iter().zip([systems, preferences, tokens, accounts]).collect())
}

/// A wms by id, and by what its name or the address of its system contains: the host, say. It belongs to no e-shop.
async fn systems(db: &Database, wanted: &Wanted<'_>) -> Result<Vec<Hit>, Problem> {
    hits!(
        db,
        wanted,
        r#"SELECT m.id, m.name, concat_ws(' · ', o.name, s.base_url) AS "of?"
           FROM wms m JOIN organisation o ON o.id = m.organisation_id LEFT JOIN wms_setting s ON s.wms_id = m.id
           WHERE in_scope($1, m.organisation_id) AND $2::uuid IS NULL
             AND CASE WHEN $3::uuid IS NOT NULL THEN m.id = $3 ELSE m.name ILIKE $4 OR s.base_url ILIKE $4 END
           ORDER BY lower(m.name) <> lower($5), m.name, m.id LIMIT $6"#,
        wanted.id,
        containing(wanted.text),
        wanted.text,
        wanted.limit,
    )
}

/// A carrier preference by id, and by what the name of its carrier or service contains.
async fn preferences(db: &Database, wanted: &Wanted<'_>) -> Result<Vec<Hit>, Problem> {
    let found = sqlx::query_as!(
        Hit,
        r#"SELECT p.id, concat_ws(' · ', c.name, v.name) || ', position ' || p.position AS "name!",
                  concat_ws(' · ', o.name, e.name) AS "of?", o.id AS "listed_with?"
           FROM carrier_preference p
           JOIN organisation o ON o.id = p.organisation_id
           JOIN carrier c ON c.id = p.carrier_id
           LEFT JOIN carrier_service v ON v.id = p.carrier_service_id
           LEFT JOIN eshop e ON e.id = p.eshop_id
           WHERE in_scope($1, p.organisation_id) AND ($2::uuid IS NULL OR p.eshop_id IS NULL OR p.eshop_id = $2)
             AND CASE WHEN $3::uuid IS NOT NULL THEN p.id = $3 ELSE c.name ILIKE $4 OR v.name ILIKE $4 END
           ORDER BY o.name, o.id, e.name NULLS LAST, p.position, p.id LIMIT $5"#,
        wanted.organisations as Option<&[OrganisationId]>,
        wanted.eshop as Option<EshopId>,
        wanted.id,
        containing(wanted.text),
        wanted.limit,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// An access token by id, by what its name contains, and by itself, also when it was revoked. Those of logins are no program's, and are
/// left out.
pub(super) async fn tokens(db: &Database, wanted: &Wanted<'_>) -> Result<Vec<Hit>, Problem> {
    let found = sqlx::query_as!(
        Hit,
        r#"SELECT t.id, t.name || ', ' || t.role || CASE WHEN t.revoked_at IS NULL THEN '' ELSE ', revoked' END AS "name!",
                  (SELECT name FROM organisation o WHERE o.id = t.organisation_id) AS of, t.organisation_id AS listed_with
           FROM access_token t
           WHERE t.admin_id IS NULL AND t.business_user_id IS NULL AND in_scope($1, t.organisation_id) AND in_eshop($2, t.eshop_id)
             AND CASE WHEN $6::bytea IS NOT NULL THEN t.hash = $6 WHEN $3::uuid IS NOT NULL THEN t.id = $3 ELSE t.name ILIKE $4 END
           ORDER BY t.revoked_at IS NOT NULL, t.created_at DESC, t.id DESC LIMIT $5"#,
        wanted.organisations as Option<&[OrganisationId]>,
        wanted.eshop as Option<EshopId>,
        wanted.id,
        containing(wanted.text),
        wanted.limit,
        is_token(wanted.text).then(|| sha256(wanted.text.as_bytes()).to_vec()),
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// An admin or a business user by id, by what the name contains, and by the address. An admin of some organisations sees
/// those of the same organisations; accounts belong to no e-shop.
async fn accounts(
    db: &Database,
    wanted: &Wanted<'_>,
    admins: bool,
    users: bool,
) -> Result<Vec<Hit>, Problem> {
    hits!(
        db,
        wanted,
        r#"SELECT a.id AS "id!", a.name AS "name!", a.of FROM (
               SELECT d.id, d.first_name || ' ' || d.last_name AS name, d.role AS of, d.email FROM admin d
               WHERE $6 AND ($1::uuid[] IS NULL OR EXISTS (
                   SELECT FROM admin_organisation m WHERE m.admin_id = d.id AND m.organisation_id = ANY ($1)))
               UNION ALL
               SELECT u.id, u.first_name || ' ' || u.last_name, 'business user of ' || o.name, u.email
               FROM business_user u JOIN organisation o ON o.id = u.organisation_id
               WHERE $7 AND in_scope($1, u.organisation_id)
           ) AS a
           WHERE $2::uuid IS NULL
             AND CASE WHEN $3::uuid IS NOT NULL THEN a.id = $3 ELSE a.name ILIKE $4 OR lower(a.email) = lower($5) END
           ORDER BY a.name, a.id LIMIT $8"#,
        wanted.id,
        containing(wanted.text),
        wanted.text,
        admins,
        users,
        wanted.limit,
    )
}
