//! The creator of a token, and the end of the token with its creator, so that no valid token outlives its owner.
//!
//! A token that an admin created ends when the admin could no longer create it: after it was deactivated, deleted, removed
//! from the token's organisation, or given a lesser role. A token that was created by a token ends with that one, and is
//! never valid for longer. Tokens that were created on the command line have no creator.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use super::{ADMIN, made};
use longshore_kernel::access::{Actor, Role, Scope};
use longshore_kernel::change::Change;
use longshore_kernel::context::Origin;
use longshore_kernel::ids::{AdminId, OrganisationId, TokenId};
use longshore_kernel::problem::{Problem, UNAUTHENTICATED};

/// The creator of a token.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Maker {
    pub(super) admin: Option<AdminId>,
    pub(super) token: Option<TokenId>,
}

/// What a maker may give at this moment.
pub(super) struct Means {
    pub(super) role: Role,
    pub(super) scope: Scope,
    /// No token of its is good for longer.
    pub(super) until: Option<DateTime<Utc>>,
}

impl Maker {
    pub(super) fn of(actor: &Actor) -> Self {
        match actor.kind.as_str() {
            ADMIN => Self { admin: actor.id.map(AdminId::from), token: None },
            "token" => Self { admin: None, token: actor.id.map(TokenId::from) },
            _ => Self::default(),
        }
    }

    /// Holds the maker to the end of the transaction, and reads what it may give. A concurrent change of the account either
    /// sees the new token or comes first.
    pub(super) async fn hold(self, connection: &mut PgConnection) -> Result<Means, Problem> {
        if let Some(admin) = self.admin {
            return hold_admin(connection, admin).await;
        }
        let token = sqlx::query!(
            "SELECT role, organisation_id, expires_at FROM access_token
             WHERE id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now()) FOR SHARE",
            self.token as Option<TokenId>,
        )
        .fetch_optional(connection)
        .await?
        .ok_or_else(gone)?;
        let scope = match token.organisation_id {
            Some(organisation) => Scope::Organisations([organisation.into()].into()),
            None => Scope::Everything,
        };
        Ok(Means { role: role(&token.role)?, scope, until: token.expires_at })
    }
}

async fn hold_admin(connection: &mut PgConnection, id: AdminId) -> Result<Means, Problem> {
    let admin = sqlx::query!("SELECT role FROM admin WHERE id = $1 AND active FOR SHARE", id.get())
        .fetch_optional(&mut *connection)
        .await?
        .ok_or_else(gone)?;
    // a separate statement: they change only while the admin is locked
    let organisations = sqlx::query_scalar!(
        r#"SELECT organisation_id AS "id: OrganisationId" FROM admin_organisation WHERE admin_id = $1"#,
        id.get()
    )
    .fetch_all(connection)
    .await?;
    let role = role(&admin.role)?;
    let scope =
        if role.sees_everything() { Scope::Everything } else { Scope::Organisations(organisations.into()) };
    Ok(Means { role, scope, until: None })
}

fn role(stored: &str) -> Result<Role, Problem> {
    Role::parse(stored).ok_or_else(|| Problem::internal("a stored role is unknown"))
}

fn gone() -> Problem {
    Problem::new(&UNAUTHENTICATED, "the caller's account or token is no longer active")
}

/// Revokes tokens and those that they have made: `revoke_tokens!(connection, origin, "query of the ids of the first ones", its
/// parameters from $9 …)`.
macro_rules! revoke_tokens {
    ($connection:expr, $origin:expr, $first:literal $(, $parameter:expr)* $(,)?) => {
        longshore_kernel::record_change!(
            $connection,
            $origin,
            "access_token.delete",
            $crate::account::token::ENTITY,
            None,
            "WITH RECURSIVE gone AS (" + $first + "
                 UNION
                 SELECT k.id FROM gone JOIN access_token k ON k.made_by_token_id = ANY (ARRAY[gone.id])
             ), made AS (
                 UPDATE access_token
                 SET revoked_at = now(), revoked_by_type = $1, revoked_by_id = $2, revoked_by = $3, version = version + 1
                 WHERE id = ANY (ARRAY(SELECT id FROM gone)) AND revoked_at IS NULL RETURNING *
             ), changed AS (
                 SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                        jsonb_build_object('name', jsonb_build_array(name, NULL), 'role', jsonb_build_array(role, NULL),
                            'eshop', jsonb_build_array(eshop_id, NULL), 'wms', jsonb_build_array(wms_id, NULL)) AS changes,
                        '{}'::jsonb AS data
                 FROM made
             )"
            $(, $parameter)*
        )
    };
}

pub(super) use revoke_tokens;

/// Which tokens of admins end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::account) enum Which {
    /// Those that the admin could no longer create.
    NotAllowed,
    /// All of them.
    All,
}

/// Ends tokens that admins have made, and what was made by these. It runs while the admins are locked, in a statement after
/// the one that locked them: so it sees all that they have made.
pub(in crate::account) async fn end_made_by(
    change: &mut Change<'_>,
    origin: &Origin,
    admins: &[AdminId],
    which: Which,
) -> Result<(), sqlx::Error> {
    let recorded = revoke_tokens!(
        change.connection(),
        origin,
        "SELECT k.id
         FROM access_token k JOIN admin a ON a.id = ANY (ARRAY[k.made_by_admin_id])
         WHERE k.made_by_admin_id = ANY ($9)
           AND ($10 OR (a.active AND CASE a.role
                    WHEN 'superadmin' THEN true
                    WHEN 'admin' THEN k.role IN ('admin', 'user', 'connector', 'warehouse') AND EXISTS (
                        SELECT FROM admin_organisation m
                        WHERE m.admin_id = a.id AND m.organisation_id = k.organisation_id)
                    ELSE false END) IS NOT TRUE)",
        admins as &[AdminId],
        which == Which::All,
    )
    .await?;
    change.note(recorded);
    made::deactivate(change, origin).await?;
    Ok(())
}
