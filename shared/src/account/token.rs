//! Access tokens (decisions, section 3): opaque, 256 random bits behind a readable prefix, kept as their SHA-256.
//!
//! A token has a role and a scope of its own, or stands for an account, by whose login it came to be: then both are read
//! from the account. What a look-up found is believed for seconds, so that whatever takes a right away (revoking a token,
//! shutting an account out, removing an admin from an organisation) holds everywhere within five.

mod create;
pub mod fields;
pub mod issue;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::PgPool;

pub(super) use self::create::new_secret;
pub use self::create::{NewToken, ShownToken, create};
use super::access::{Caller, Role, Scope};
use crate::platform::context::Actor;
use crate::platform::crypto::sha256;
use crate::platform::database::Database;
use crate::platform::problem::{Problem, UNAUTHENTICATED};

/// Its entity type, in the audit and on tombstones.
const ENTITY: &str = "access_token";

/// What every token starts with.
pub const PREFIX: &str = "lsh_";

/// Kind of an actor that is an admin.
pub(super) const ADMIN: &str = "admin";

/// Kind of an actor that is a business user.
pub(super) const BUSINESS_USER: &str = "business_user";

/// How long a token that was looked up is believed. Revoking takes effect within 5 seconds (decisions, section 3).
const BELIEVED: Duration = Duration::from_secs(3);

/// Tokens that a process remembers; past it, all are forgotten and looked up anew.
const REMEMBERED: usize = 10_000;

/// By the hash of the token: when it was looked up, and whose it is.
type Remembered = HashMap<[u8; 32], (Instant, Arc<Caller>)>;

/// Looks tokens up, and remembers them for seconds.
#[derive(Clone, Debug)]
pub struct Tokens {
    db: Database,
    remembered: Arc<Mutex<Remembered>>,
}

impl Tokens {
    /// An empty memory.
    #[must_use]
    pub fn new(db: Database) -> Self {
        Self { db, remembered: Arc::default() }
    }

    /// Who calls with this token; a problem when it is unknown, expired or revoked.
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
            r#"SELECT t.id, coalesce(a.role, t.role) AS "role!", t.organisation_id, t.eshop_id, t.admin_id,
                      t.business_user_id,
                      coalesce(a.first_name || ' ' || a.last_name, u.first_name || ' ' || u.last_name, t.name) AS "name!",
                      ARRAY(SELECT m.organisation_id FROM admin_organisation m
                            WHERE m.admin_id = t.admin_id ORDER BY 1) AS "organisations!: Vec<uuid::Uuid>"
               FROM access_token t
               LEFT JOIN admin a ON a.id = t.admin_id
               LEFT JOIN business_user u ON u.id = t.business_user_id
               WHERE t.hash = $1 AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > now())
                 AND coalesce(a.active, u.active, true)"#,
            hash.as_slice()
        )
        .fetch_optional(&self.db.main)
        .await?;
        let Some(found) = found else {
            self.remembered.lock().unwrap_or_else(PoisonError::into_inner).remove(&hash);
            return Err(unknown());
        };
        let role = Role::parse(&found.role).ok_or_else(|| Problem::internal("a stored role is unknown"))?;
        let scope = match (found.organisation_id, found.eshop_id) {
            _ if role.sees_everything() => Scope::Everything,
            (None, _) => Scope::Organisations(found.organisations.into()),
            (Some(organisation), Some(eshop)) => Scope::Eshop { organisation, eshop },
            (Some(organisation), None) => Scope::Organisations(Arc::from([organisation])),
        };
        let (kind, id) = match (found.admin_id, found.business_user_id) {
            (Some(admin), _) => (ADMIN, admin),
            (None, Some(user)) => (BUSINESS_USER, user),
            (None, None) => ("token", found.id),
        };
        let actor = Actor { kind: kind.to_owned(), id: Some(id), name: found.name };
        let caller = Arc::new(Caller { token: found.id, actor, role, scope });
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

/// Removes up to `limit` tokens of logins that ended a day ago; answers how many.
pub async fn expire(db: &PgPool, limit: i64) -> Result<u64, Problem> {
    let gone = sqlx::query!(
        "DELETE FROM access_token WHERE id IN (
             SELECT id FROM access_token
             WHERE num_nonnulls(admin_id, business_user_id) = 1 AND expires_at < now() - interval '1 day'
             ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)",
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
    fn what_is_believed_is_forgotten_well_within_the_five_seconds_that_a_revocation_may_take() {
        assert!(BELIEVED <= Duration::from_secs(3));
    }
}
