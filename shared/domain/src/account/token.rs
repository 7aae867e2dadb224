//! Access tokens (`docs/reference/accounts.md#tokens`): opaque, 256 random bits behind a readable prefix, kept as their
//! SHA-256.
//!
//! A token has its own role and scope, or it comes from a login: then both are read from the account, and it is valid as long as
//! its [session](super::session). A token that was created by an account or token ends with its creator ([`making`]). Look-ups
//! are cached for seconds, so a revocation (of a token, by deactivating an account, by removing an admin from an organisation)
//! takes effect everywhere within five. Requests that need the same look-up at the same time wait for one, so a program that
//! begins with many requests uses one connection for them.

mod create;
pub mod issue;
pub mod made;
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
use longshore_kernel::gather::{Gather, GatherBy};
use longshore_kernel::ids::{EshopId, OrganisationId, SessionId, TokenId, WmsId};
use longshore_kernel::problem::{Problem, UNAUTHENTICATED};
use longshore_kernel::share::{self, Asker};

/// Its entity type, in the audit and on tombstones.
const ENTITY: &str = "access_token";

/// What every token starts with.
pub const PREFIX: &str = "lsh_";

/// Whether a text is a token, or the beginning of one: it belongs in no URL and in no log.
#[must_use]
pub fn is_token(text: &str) -> bool {
    text.starts_with(PREFIX)
}

/// Kind of an actor that is an admin.
pub(super) const ADMIN: &str = "admin";

/// Kind of an actor that is a business user.
pub(super) const BUSINESS_USER: &str = "business_user";

/// How long a token that was looked up is believed. Revoking takes effect within 5 seconds
/// (`docs/reference/accounts.md#tokens`).
const BELIEVED: Duration = Duration::from_secs(3);

/// Tokens that a process caches. Beyond that, the cache is cleared.
const REMEMBERED: usize = 10_000;

/// Requests that wait for one look-up; those past it wait for the next.
const TOGETHER: usize = 1_000;

/// SHA-256 of a token.
type Hash = [u8; 32];

/// By the hash of the token: when it was looked up, and whose it is.
type Remembered = HashMap<Hash, (Instant, Arc<Caller>)>;

/// Looks tokens up, and remembers them for seconds.
#[derive(Clone, Debug)]
pub struct Tokens {
    lookup: Lookup,
    /// each request with its share, of which the look-up takes that of the first
    together: GatherBy<Hash, Option<Asker>, Arc<Caller>>,
}

#[derive(Clone, Debug)]
struct Lookup {
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
        let uses = Uses::new(db.clone());
        Self::of(Lookup { db, remembered: Arc::default(), uses, requires_second_factor: false })
    }

    /// The same; with `is_required`, admins and superadmins who have logged in without a second factor may only set one up.
    #[must_use]
    pub fn requiring_second_factor(self, is_required: bool) -> Self {
        Self::of(Lookup { requires_second_factor: is_required, ..self.lookup })
    }

    fn of(lookup: Lookup) -> Self {
        let each = lookup.clone();
        let together = GatherBy::new(move |hash: &Hash| {
            let (lookup, hash) = (each.clone(), *hash);
            Gather::start(TOGETHER, 1, move |askers: Vec<Option<Asker>>| {
                let lookup = lookup.clone();
                async move {
                    let found = match askers.first() {
                        Some(Some(asker)) => share::as_asker(asker.clone(), lookup.find(hash)).await?,
                        _ => lookup.find(hash).await?,
                    };
                    Ok::<_, Problem>(vec![found; askers.len()])
                }
            })
        });
        Self { lookup, together }
    }

    /// Forgets what was found of an account, in this process: it may have more from now on.
    pub fn forget(&self, account: uuid::Uuid) {
        let mut remembered = self.lookup.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.retain(|_, (_, caller)| caller.actor.id != Some(account));
    }

    /// The caller with this token; a problem if it is unknown, expired or revoked.
    pub async fn authenticate(&self, token: &str) -> Result<Arc<Caller>, Problem> {
        if !is_token(token) {
            return Err(unknown());
        }
        let hash = sha256(token.as_bytes());
        match self.lookup.remembered(&hash) {
            Some(caller) => Ok(caller),
            None => self.together.ask(&hash, Asker::current()).await,
        }
    }
}

impl Lookup {
    fn remembered(&self, hash: &Hash) -> Option<Arc<Caller>> {
        let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, caller) = remembered.get(hash)?;
        (at.elapsed() < BELIEVED).then(|| Arc::clone(caller))
    }

    async fn find(&self, hash: Hash) -> Result<Arc<Caller>, Problem> {
        // a look-up that was awaited may have found it
        if let Some(caller) = self.remembered(&hash) {
            return Ok(caller);
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
            (Some(organisation), eshop, None) if role == Role::Connector => {
                Scope::Connector { organisation, eshop, token: found.id }
            }
            // only that of a connector is bound to an e-shop
            (Some(organisation), _, None) => Scope::Organisations(Arc::from([organisation])),
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

/// Removes up to `limit` tokens of programs that were revoked before the oldest audit record that is kept; returns how many.
pub async fn forget_revoked(db: &PgPool, limit: i64) -> Result<u64, Problem> {
    let gone = sqlx::query!(
        "DELETE FROM access_token WHERE id = ANY (ARRAY(
             SELECT id FROM access_token
             WHERE num_nonnulls(admin_id, business_user_id) = 0
               AND revoked_at < now() - make_interval(days => (SELECT keep_days FROM history WHERE table_name = 'audit'))
             ORDER BY revoked_at LIMIT $1 FOR UPDATE SKIP LOCKED))",
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
