//! Access tokens (`docs/reference/accounts.md#tokens`): opaque, 256 random bits behind a readable prefix, kept as their
//! SHA-256.
//!
//! A token has its own role and scope, or it comes from a login: then both are read from the account, and it is valid as long as
//! its [session](super::session). A token that was created by an account or token ends with its creator ([`making`]). Look-ups
//! are cached for seconds, so a revocation (of a token, by deactivating an account, by removing an admin from an organisation)
//! takes effect everywhere within five.

mod create;
pub mod issue;
mod making;
mod usage;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::PgPool;

pub(super) use self::create::new_secret;
pub use self::create::{NewToken, ShownToken, create, in_a_year};
pub(super) use self::making::{Which, end_made_by};
use self::usage::Uses;
use longshore_kernel::access::{Actor, Caller, Role, Scope};
use longshore_kernel::crypto::sha256;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{EshopId, OrganisationId, SessionId, TokenId, WmsId};
use longshore_kernel::problem::{Problem, UNAUTHENTICATED};

/// Its entity type, in the audit and on tombstones.
const ENTITY: &str = "access_token";

/// What every token starts with.
pub const PREFIX: &str = "lsh_";

/// Kind of an actor that is an admin.
pub(super) const ADMIN: &str = "admin";

/// Kind of an actor that is a business user.
pub(super) const BUSINESS_USER: &str = "business_user";

/// How long a token that was looked up is believed. Revoking takes effect within 5 seconds
/// (`docs/reference/accounts.md#tokens`).
const BELIEVED: Duration = Duration::from_secs(3);

/// Tokens that a process caches. Beyond that, the cache is cleared.
const REMEMBERED: usize = 10_000;

/// By the hash of the token: when it was looked up, and whose it is.
type Remembered = HashMap<[u8; 32], (Instant, Arc<Caller>)>;

/// Looks tokens up, and remembers them for seconds.
#[derive(Clone, Debug)]
pub struct Tokens {
    db: Database,
    remembered: Arc<Mutex<Remembered>>,
    uses: Uses,
    /// Admins and superadmins need a second factor.
    requires_second_factor: bool,
}

impl Tokens {
    /// An empty memory.
    #[must_use]
    pub fn new(db: Database) -> Self {
        Self { uses: Uses::new(db.clone()), db, remembered: Arc::default(), requires_second_factor: false }
    }

    /// The same; with `is_required`, admins and superadmins who have logged in without a second factor may only set one up.
    #[must_use]
    pub fn requiring_second_factor(self, is_required: bool) -> Self {
        Self { requires_second_factor: is_required, ..self }
    }

    /// Forgets what was found of an account, in this process: it may have more from now on.
    pub fn forget(&self, account: uuid::Uuid) {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.retain(|_, (_, caller)| caller.actor.id != Some(account));
    }

    /// The caller with this token; a problem if it is unknown, expired or revoked.
    pub async fn authenticate(&self, token: &str) -> Result<Arc<Caller>, Problem> {
        if !token.starts_with(PREFIX) {
            return Err(unknown());
        }
        let hash = sha256(token.as_bytes());
        {
            let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((at, caller)) = remembered.get(&hash)
                && at.elapsed() < BELIEVED
            {
                return Ok(Arc::clone(caller));
            }
        }
        let found = sqlx::query!(
            r#"SELECT t.id AS "id: TokenId", t.session_id AS "session_id: SessionId", coalesce(a.role, t.role) AS "role!", t.organisation_id AS "organisation: OrganisationId",
                      t.eshop_id AS "eshop: EshopId", t.wms_id AS "wms: WmsId", t.admin_id,
                      t.business_user_id,
                      coalesce(a.first_name || ' ' || a.last_name, u.first_name || ' ' || u.last_name, t.name) AS "name!",
                      ARRAY(SELECT m.organisation_id FROM admin_organisation m
                            WHERE m.admin_id = t.admin_id ORDER BY 1) AS "organisations!: Vec<OrganisationId>",
                      t.last_used_at >= date_trunc('minute', now()) AS is_noted,
                      coalesce(a.role IN ('superadmin', 'admin') AND NOT EXISTS (
                          SELECT FROM second_factor f WHERE f.admin_id = a.id AND f.active), false) AS "has_no_factor!"
               FROM access_token t
               LEFT JOIN session s ON s.id = t.session_id
               LEFT JOIN admin a ON a.id = t.admin_id
               LEFT JOIN business_user u ON u.id = t.business_user_id
               WHERE t.hash = $1 AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > now())
                 AND s.ended_at IS NULL AND coalesce(a.active, u.active, true)"#,
            hash.as_slice()
        )
        .fetch_optional(&self.db.main)
        .await?;
        let Some(found) = found else {
            self.remembered.lock().unwrap_or_else(PoisonError::into_inner).remove(&hash);
            return Err(unknown());
        };
        let role = Role::parse(&found.role).ok_or_else(|| Problem::internal("a stored role is unknown"))?;
        let scope = match (found.organisation, found.eshop, found.wms) {
            _ if role.sees_everything() => Scope::Everything,
            (None, ..) => Scope::Organisations(found.organisations.into()),
            (Some(organisation), _, Some(wms)) => Scope::Wms { organisation, wms },
            (Some(organisation), Some(eshop), None) => Scope::Eshop { organisation, eshop },
            (Some(organisation), None, None) => Scope::Organisations(Arc::from([organisation])),
        };
        let (kind, id) = match (found.admin_id, found.business_user_id) {
            (Some(admin), _) => (ADMIN, admin),
            (None, Some(user)) => (BUSINESS_USER, user),
            (None, None) => ("token", found.id.get()),
        };
        let actor = Actor { kind: kind.to_owned(), id: Some(id), name: found.name };
        let must_set_up = self.requires_second_factor && found.has_no_factor;
        let caller =
            Arc::new(Caller { token: found.id, session: found.session_id, actor, role, scope, must_set_up });
        if found.is_noted != Some(true) {
            self.uses.note(found.id);
        }
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= REMEMBERED {
            remembered.clear();
        }
        remembered.insert(hash, (Instant::now(), Arc::clone(&caller)));
        Ok(caller)
    }
}

fn unknown() -> Problem {
    Problem::new(&UNAUTHENTICATED, "the access token is missing, unknown, expired or revoked")
}

/// Removes up to `limit` tokens of logins that ended a day ago; returns how many.
pub async fn expire(db: &PgPool, limit: i64) -> Result<u64, Problem> {
    let gone = sqlx::query!(
        "DELETE FROM access_token WHERE id = ANY (ARRAY(
             SELECT id FROM access_token
             WHERE num_nonnulls(admin_id, business_user_id) = 1 AND expires_at < now() - interval '1 day'
             ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED))",
        limit,
    )
    .execute(db)
    .await?;
    Ok(gone.rows_affected())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_expire_well_within_the_five_seconds_of_a_revocation() {
        assert!(BELIEVED <= Duration::from_secs(3));
    }
}
