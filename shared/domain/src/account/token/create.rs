//! Creating an access token.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Months, Utc};
use secrecy::SecretString;
use sqlx::{PgConnection, PgExecutor};

use super::making::Maker;
use super::{ENTITY, PREFIX};
use crate::account::belonging::no_such_organisation;
use longshore_kernel::access::{Role, Scope};
use longshore_kernel::change::Recorded;
use longshore_kernel::context::Origin;
use longshore_kernel::crypto::{random_bytes, sha256};
use longshore_kernel::database::Database;
use longshore_kernel::ids::{AdminId, EshopId, OrganisationId, TokenId, WmsId};
use longshore_kernel::problem::{Problem, Violation};
use longshore_kernel::record_change;

/// What a new token is to be.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// What it is for, for people.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Whose records; absent for the roles that see everything.
    pub organisation: Option<OrganisationId>,
    /// One e-shop of it, for a connector.
    pub eshop: Option<EshopId>,
    /// The wms of a warehouse.
    pub wms: Option<WmsId>,
    /// When it ends; absent: never.
    pub expires_at: Option<DateTime<Utc>>,
}

impl NewToken {
    /// Becomes the successor of the token of a connector, if its maker sees that: of the same organisation and e-shop.
    pub(super) async fn succeed(
        &mut self,
        connection: &mut PgConnection,
        scope: &Scope,
        former: TokenId,
    ) -> Result<(), Problem> {
        let found = sqlx::query!(
            r#"SELECT role, organisation_id AS "organisation: OrganisationId", eshop_id AS "eshop: EshopId" FROM access_token
               WHERE id = $2 AND admin_id IS NULL AND business_user_id IS NULL AND in_scope($1, organisation_id) FOR UPDATE"#,
            scope.organisations() as Option<&[OrganisationId]>,
            former.get(),
        )
        .fetch_optional(connection)
        .await?;
        let Some(found) = found else {
            return Err(Problem::violation("replaces", "unknown_reference", "does not exist"));
        };
        if found.role != Role::Connector.as_str() {
            return Err(Problem::violation("replaces", "invalid", "must be the token of a connector"));
        }
        (self.organisation, self.eshop) = (found.organisation, found.eshop);
        Ok(())
    }

    /// The token of a warehouse is of the organisation of its wms, if its maker sees that.
    pub(super) async fn take_organisation(
        &mut self,
        connection: &mut PgConnection,
        scope: &Scope,
    ) -> Result<(), Problem> {
        if self.role != Role::Warehouse || self.organisation.is_some() {
            return Ok(());
        }
        self.organisation = sqlx::query_scalar!(
            r#"SELECT organisation_id AS "id: OrganisationId" FROM wms WHERE id = $2 AND in_scope($1, organisation_id)"#,
            scope.organisations() as Option<&[OrganisationId]>,
            self.wms as Option<WmsId>,
        )
        .fetch_optional(connection)
        .await?;
        match self.organisation {
            None if self.wms.is_some() => Err(no_such_wms()),
            _ => Ok(()),
        }
    }
}

fn no_such_wms() -> Problem {
    Problem::violation("wms", "unknown_reference", "does not exist")
}

/// A token as it is shown, once.
#[derive(Debug)]
pub struct ShownToken {
    /// Its record.
    pub id: TokenId,
    /// What the caller sends.
    pub token: SecretString,
}

/// The secret of a token, and what of it is kept.
#[derive(Debug)]
pub(in crate::account) struct Secret {
    /// What the caller sends.
    pub(in crate::account) token: SecretString,
    /// Its SHA-256.
    pub(in crate::account) hash: [u8; 32],
}

/// Draws one.
pub(in crate::account) fn new_secret() -> Secret {
    let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random_bytes::<32>()));
    let hash = sha256(token.as_bytes());
    Secret { token: token.into(), hash }
}

/// The default expiry of a token.
#[must_use]
pub fn in_a_year(now: DateTime<Utc>) -> DateTime<Utc> {
    now.checked_add_months(Months::new(12)).unwrap_or(now)
}

/// Creates a token.
pub async fn create(db: &Database, origin: &Origin, new: &NewToken) -> Result<ShownToken, Problem> {
    let (mut new, mut connection) = (new.clone(), db.main.acquire().await?);
    new.take_organisation(&mut connection, &Scope::Everything).await?;
    check(&mut connection, &new).await?;
    let (id, secret) = (TokenId::new(), new_secret());
    insert(&mut *connection, origin, id, &secret, &new, None).await?;
    Ok(ShownToken { id, token: secret.token })
}

/// Refuses a token whose role, organisation, e-shop and wms do not go together.
pub(super) async fn check(connection: &mut PgConnection, new: &NewToken) -> Result<(), Problem> {
    let mut violations = Vec::new();
    let mut refuse = |path: &str, code: &'static str, message: &str| {
        violations.push(Violation::new(path, code, message));
    };
    match (new.role.sees_everything(), new.organisation) {
        // it says its wms instead
        (false, None) if new.role == Role::Warehouse => {}
        (true, Some(_)) => refuse("organisation", "invalid", "must be absent for this role"),
        (false, None) => refuse("organisation", "invalid", "is required for this role"),
        _ => {}
    }
    if new.eshop.is_some() && new.role != Role::Connector {
        refuse("eshop", "invalid", "is allowed for connectors only");
    }
    match (new.role, new.wms) {
        (Role::Warehouse, None) => refuse("wms", "invalid", "is required for this role"),
        (Role::Warehouse, Some(_)) | (_, None) => {}
        (_, Some(_)) => refuse("wms", "invalid", "is allowed for warehouses only"),
    }
    let wms = new.wms.filter(|_| new.role == Role::Warehouse);
    violations.extend(unknown(connection, new.organisation, new.eshop, wms).await?);
    Problem::refuse(violations)
}

/// What is wrong with the organisation of a token, or with the e-shop and the wms, which must be the organisation's.
pub(super) async fn unknown(
    connection: &mut PgConnection,
    organisation: Option<OrganisationId>,
    eshop: Option<EshopId>,
    wms: Option<WmsId>,
) -> Result<Vec<Violation>, sqlx::Error> {
    let known = sqlx::query!(
        r#"SELECT ($1::uuid IS NULL OR EXISTS (SELECT FROM organisation WHERE id = $1)) AS "organisation!",
                  ($2::uuid IS NULL OR EXISTS (
                      SELECT FROM eshop WHERE id = $2 AND organisation_id = $1)) AS "eshop!",
                  ($3::uuid IS NULL OR EXISTS (
                      SELECT FROM wms WHERE id = $3 AND organisation_id = $1)) AS "wms!""#,
        organisation as Option<OrganisationId>,
        eshop as Option<EshopId>,
        wms as Option<WmsId>,
    )
    .fetch_one(connection)
    .await?;
    if !known.organisation {
        return Ok(vec![no_such_organisation()]);
    }
    let strangers = [
        (known.eshop, "eshop", "must be an e-shop of the organisation"),
        (known.wms, "wms", "must be a wms of the organisation"),
    ];
    let strangers = strangers.into_iter().filter(|(is_known, ..)| !is_known);
    Ok(strangers.map(|(_, path, message)| Violation::new(path, "unknown_reference", message)).collect())
}

pub(super) async fn insert<'c>(
    connection: impl PgExecutor<'c>,
    origin: &Origin,
    id: TokenId,
    secret: &Secret,
    new: &NewToken,
    replaces: Option<TokenId>,
) -> Result<Recorded, sqlx::Error> {
    let maker = Maker::of(&origin.actor);
    record_change!(
        connection,
        origin,
        "access_token.create",
        ENTITY,
        None,
        "WITH made AS (
             INSERT INTO access_token (id, hash, name, role, organisation_id, eshop_id, wms_id, created_by_type,
                 created_by, made_by_admin_id, made_by_token_id, expires_at)
             VALUES ($9, $10, $11, $12, $13, $14, $18, $1, $3, $15, $16, $17)
             RETURNING id, version, changed_at, name, role, organisation_id, eshop_id, wms_id, expires_at
         ), changed AS (
             SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('name', jsonb_build_array(NULL, name), 'role', jsonb_build_array(NULL, role),
                        'eshop', jsonb_build_array(NULL, eshop_id), 'wms', jsonb_build_array(NULL, wms_id),
                        'expiresAt', jsonb_build_array(NULL, expires_at), 'token', jsonb_build_array(NULL, '***'))
                        || CASE WHEN $19::uuid IS NULL THEN '{}' ELSE jsonb_build_object('replaces', jsonb_build_array(NULL, $19)) END AS changes,
                    '{}'::jsonb AS data
             FROM made
         )",
        id.get(),
        secret.hash.as_slice(),
        new.name,
        new.role.as_str(),
        new.organisation as Option<OrganisationId>,
        new.eshop as Option<EshopId>,
        maker.admin as Option<AdminId>,
        maker.token as Option<TokenId>,
        new.expires_at,
        new.wms as Option<WmsId>,
        replaces as Option<TokenId>,
    )
    .await
}
