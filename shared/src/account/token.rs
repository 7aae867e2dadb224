//! Access tokens (decisions, section 3): opaque, 256 random bits behind a readable prefix, kept as their SHA-256.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use secrecy::SecretString;
use uuid::Uuid;

use super::access::{Caller, Role, Scope};
use crate::platform::context::{Actor, Origin};
use crate::platform::crypto::{random_bytes, sha256};
use crate::platform::database::Database;
use crate::platform::ids;
use crate::platform::problem::{Problem, UNAUTHENTICATED};
use crate::record_change;

/// What every token starts with.
pub const PREFIX: &str = "lsh_";

/// How long a token that was looked up is believed. Revoking takes effect within 5 seconds (decisions, section 3).
const BELIEVED: Duration = Duration::from_secs(3);

/// Tokens that a process remembers; past it, all are forgotten and looked up anew.
const REMEMBERED: usize = 10_000;

/// What a new token is to be.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// What it is for, for people.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Whose records; absent for the roles that see everything.
    pub organisation: Option<Uuid>,
    /// One e-shop of it, for a connector.
    pub eshop: Option<Uuid>,
    /// When it ends.
    pub expires_at: Option<DateTime<Utc>>,
}

/// A token as it is shown, once.
#[derive(Debug)]
pub struct ShownToken {
    /// Its record.
    pub id: Uuid,
    /// What the caller sends.
    pub token: SecretString,
}

/// Creates a token.
pub async fn create(db: &Database, origin: &Origin, new: &NewToken) -> Result<ShownToken, Problem> {
    if new.role.sees_everything() != new.organisation.is_none() {
        let message = if new.organisation.is_none() {
            "is required for this role"
        } else {
            "must be absent for this role"
        };
        return Err(Problem::violation("organisation", "invalid", message));
    }
    if new.eshop.is_some() && new.role != Role::Connector {
        return Err(Problem::violation("eshop", "invalid", "is for connectors only"));
    }
    if let Some(organisation) = new.organisation {
        let known = sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM organisation WHERE id = $1) AS "known!""#,
            organisation
        )
        .fetch_one(&db.main)
        .await?;
        if !known {
            return Err(Problem::violation(
                "organisation",
                "unknown_reference",
                "there is no such organisation",
            ));
        }
    }
    if let Some(eshop) = new.eshop {
        let known = sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM eshop WHERE id = $1 AND organisation_id = $2) AS "known!""#,
            eshop,
            new.organisation
        )
        .fetch_one(&db.main)
        .await?;
        if !known {
            return Err(Problem::violation(
                "eshop",
                "unknown_reference",
                "there is no such e-shop in the organisation",
            ));
        }
    }
    let id = ids::new_id();
    let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random_bytes::<32>()));
    let hash = sha256(token.as_bytes());
    record_change!(
        &db.main,
        origin,
        "access_token.create",
        "access_token",
        "",
        "WITH made AS (
             INSERT INTO access_token (id, hash, name, role, organisation_id, eshop_id, created_by, expires_at)
             VALUES ($9, $10, $11, $12, $13, $14, $15, $16)
             RETURNING id, name, role, organisation_id, eshop_id
         ), changed AS (
             SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('name', jsonb_build_array(NULL, name), 'role', jsonb_build_array(NULL, role),
                        'eshop', jsonb_build_array(NULL, eshop_id), 'token', jsonb_build_array(NULL, '***')) AS changes,
                    '{}'::jsonb AS data
             FROM made
         )",
        id,
        hash.as_slice(),
        new.name,
        new.role.as_str(),
        new.organisation,
        new.eshop,
        origin.actor.name,
        new.expires_at,
    )
    .await?;
    Ok(ShownToken { id, token: token.into() })
}

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
            "SELECT id, name, role, organisation_id, eshop_id FROM access_token
             WHERE hash = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())",
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
            (None, _) => Scope::Everything,
            (Some(organisation), Some(eshop)) => Scope::Eshop { organisation, eshop },
            (Some(organisation), None) => Scope::Organisations(Arc::from([organisation])),
        };
        let actor = Actor { kind: "token".to_owned(), id: Some(found.id), name: found.name };
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
