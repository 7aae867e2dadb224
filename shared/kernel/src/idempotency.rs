//! Idempotency keys (`docs/reference/jobs.md#idempotency-keys`; IETF draft `idempotency-key-header`).
//!
//! A key is bound to the scope of its caller, too: what was answered to an account that has lost an organisation since is not shown
//! to it again.
//!
//! A request *claims* its key in a separate statement, so that a second one is refused at once while the first is running.
//! The *answer* is recorded in the transaction of the change: either both are there, or neither, and the next request
//! with that key starts afresh. A claim is a lease: that of a dead process can be taken over.

use std::time::Duration;

use crate::access::{Caller, Scope};
use crate::ids::JobId;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::{PgConnection, PgPool};
use tokio::task::JoinHandle;
use tracing::Instrument as _;
use uuid::Uuid;

use super::answer::{Answer, Outcome};
use super::crypto::sha256;
use super::ids;
use super::pool::Pool;
use super::problem::{IDEMPOTENCY_KEY_REUSED, Problem, REQUEST_IN_PROGRESS};
use super::retry::Backoff;

/// A key that this request has claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyClaim(Uuid);

/// What a key is bound to.
#[derive(Clone, Debug)]
pub struct Key<'a> {
    /// The account whose token was shown, or the token that belongs to none.
    pub caller: Uuid,
    /// SHA-256 of whose records the caller may see.
    pub scope: [u8; 32],
    /// HTTP method.
    pub method: &'a str,
    /// Path of the request.
    pub path: &'a str,
    /// Value of the header.
    pub key: &'a str,
}

impl<'a> Key<'a> {
    /// A key of a caller.
    #[must_use]
    pub fn new(caller: &Caller, method: &'a str, path: &'a str, key: &'a str) -> Self {
        // by account rather than by token: the caller may log in again or refresh its token before it repeats a request
        Self { caller: caller.account(), scope: digest(&caller.scope), method, path, key }
    }
}

/// The same for the same records.
fn digest(scope: &Scope) -> [u8; 32] {
    let organisations = scope.organisations().map(|ids| {
        let mut ids: Vec<Uuid> = ids.iter().map(|id| id.get()).collect();
        ids.sort_unstable();
        ids
    });
    sha256(json!([organisations, scope.eshop(), scope.wms()]).to_string().as_bytes())
}

/// What became of a claim.
#[derive(Debug)]
pub enum Claimed {
    /// The first request with this key: do the work, and keep the claim during it.
    First(Held),
    /// The work was done: replay its answer.
    Repeated {
        /// What was answered.
        answer: Answer,
        /// SHA-256 of the body that was answered.
        body_hash: Vec<u8>,
    },
}

/// How long a claim is valid without renewal, in seconds. A client that repeats its request must wait this long if the
/// process with the claim was killed.
const LEASE_SECONDS: f64 = 15.0;

/// How often a claim is renewed while its request is being executed.
const RENEWAL: Duration = Duration::from_secs(5);

/// How long a refusal waits for its claim to be given back.
const GIVE_BACK_WITHIN: Duration = Duration::from_secs(1);

/// The first and the longest wait before a claim is given back that could not be.
const GIVE_BACK_AGAIN: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Claims a key. `body_hash` is absent for a stream, whose body is not known yet: then the caller compares.
///
/// A client that disconnects during the claim leaves none behind: the statement runs to its end in a separate task, and an
/// unused claim is released.
pub async fn claim(db: &Pool, key: &Key<'_>, body_hash: Option<&[u8]>) -> Result<Claimed, Problem> {
    let claiming = {
        let (mut connection, db) = (db.acquire().await?, db.clone());
        let (key, body_hash) = (OwnedKey::from(key), body_hash.map(<[u8]>::to_vec));
        let claiming = async move {
            // nobody ends it otherwise
            let first = first(&mut connection, &db, &key, body_hash.as_deref());
            db.standby().patiently(first).await
        };
        tokio::spawn(claiming.in_current_span())
    };
    if let Some(held) = claiming.await.map_err(Problem::internal)?? {
        return Ok(Claimed::First(held));
    }

    let known = sqlx::query!(
        r#"SELECT scope, body_hash, outcome AS "outcome: Outcome", headers, body, job_id FROM idempotency
           WHERE caller_id = $1 AND method = $2 AND path = $3 AND key = $4"#,
        key.caller,
        key.method,
        key.path,
        key.key,
    )
    .fetch_optional(db)
    .await?;
    let in_progress = || {
        Problem::new(&REQUEST_IN_PROGRESS, "a request with this Idempotency-Key is still in progress")
            .retry_after(Duration::from_secs(1))
    };
    let Some(known) = known else { return Err(in_progress()) };
    let (Some(outcome), Some(known_hash)) = (known.outcome, known.body_hash) else {
        return Err(in_progress());
    };
    if known.scope.is_some_and(|scope| scope != key.scope) {
        let detail =
            "this Idempotency-Key was used when the account had another scope, so its answer is not repeated";
        return Err(Problem::new(&IDEMPOTENCY_KEY_REUSED, detail));
    }
    if body_hash.is_some_and(|hash| hash != known_hash) {
        return Err(reused());
    }
    let header = |name: &str| {
        known.headers.as_ref().and_then(|h| h.get(name)).and_then(|v| v.as_str()).map(str::to_owned)
    };
    let answer = Answer {
        outcome,
        location: header("location"),
        etag: header("etag"),
        body: known.body,
        job: known.job_id.map(JobId::from),
    };
    Ok(Claimed::Repeated { answer, body_hash: known_hash })
}

/// Claims a free key.
async fn first(
    connection: &mut PgConnection,
    db: &Pool,
    key: &OwnedKey,
    body_hash: Option<&[u8]>,
) -> Result<Option<Held>, sqlx::Error> {
    let claim = ids::random_id();
    let claimed = sqlx::query!(
        "INSERT INTO idempotency AS i (caller_id, method, path, key, body_hash, claimed_until, claim, scope)
         VALUES ($1, $2, $3, $4, $5, now() + make_interval(secs => $7), $6, $8)
         ON CONFLICT (caller_id, method, path, key) DO UPDATE
         SET scope = excluded.scope, body_hash = excluded.body_hash, claimed_until = excluded.claimed_until, claim = excluded.claim,
             outcome = NULL, headers = NULL, body = NULL, job_id = NULL, created_at = now()
         WHERE (i.outcome IS NULL AND i.claimed_until < now()) OR i.created_at < now() - interval '24 hours'",
        key.caller,
        key.method,
        key.path,
        key.key,
        body_hash,
        claim,
        LEASE_SECONDS,
        key.scope.as_slice(),
    )
    .execute(connection)
    .await?;
    Ok((claimed.rows_affected() == 1).then(|| Held::new(db, KeyClaim(claim))))
}

/// A [`Key`] for a task that may outlive its request.
struct OwnedKey {
    caller: Uuid,
    scope: [u8; 32],
    method: String,
    path: String,
    key: String,
}

impl From<&Key<'_>> for OwnedKey {
    fn from(key: &Key<'_>) -> Self {
        Self {
            caller: key.caller,
            scope: key.scope,
            method: key.method.to_owned(),
            path: key.path.to_owned(),
            key: key.key.to_owned(),
        }
    }
}

/// The key was used for another body.
#[must_use]
pub fn reused() -> Problem {
    Problem::new(&IDEMPOTENCY_KEY_REUSED, "this Idempotency-Key was used for a request with a different body")
}

/// Renews a claim for as long as its request is being executed. It may expire during an outage of Postgres; taking it over
/// then undoes later changes of this request.
async fn renew(db: Pool, claim: KeyClaim) {
    loop {
        tokio::time::sleep(RENEWAL).await;
        let renewed = sqlx::query!(
            "UPDATE idempotency SET claimed_until = now() + make_interval(secs => $2)
             WHERE claim = $1 AND outcome IS NULL",
            claim.0,
            LEASE_SECONDS,
        )
        .execute(&db)
        .await;
        if let Err(error) = renewed {
            tracing::debug!(%error, "an idempotency key was not renewed");
        }
    }
}

/// Records answers, each under its claim, in the transaction of the change. If one of the claims was taken over in the meantime,
/// the change is undone. The body of a stream is hashed after it was claimed.
pub async fn answer(
    tx: &mut PgConnection,
    answers: &[(KeyClaim, &Answer)],
    streamed_body_hash: Option<&[u8]>,
) -> Result<(), Problem> {
    let claims: Vec<Uuid> = answers.iter().map(|(claim, _)| claim.0).collect();
    let answers: Vec<&Answer> = answers.iter().map(|(_, answer)| *answer).collect();
    let outcomes: Vec<&str> = answers.iter().map(|answer| answer.outcome.as_str()).collect();
    let header = |answer: &&Answer| json!({"location": answer.location, "etag": answer.etag});
    let headers: Vec<Value> = answers.iter().map(header).collect();
    let bodies: Vec<Option<&str>> = answers.iter().map(|answer| answer.body.as_deref()).collect();
    let jobs: Vec<Option<JobId>> = answers.iter().map(|answer| answer.job).collect();
    let recorded = sqlx::query!(
        "UPDATE idempotency AS i
         SET outcome = g.outcome, headers = g.headers, body = g.body, job_id = g.job, body_hash = coalesce($6, i.body_hash)
         FROM unnest($1::uuid[], $2::text[], $3::jsonb[], $4::text[], $5::uuid[]) AS g (claim, outcome, headers, body, job)
         WHERE i.claim = ANY (ARRAY[g.claim]) AND i.outcome IS NULL",
        &claims,
        &outcomes as &[&str],
        &headers,
        &bodies as &[Option<&str>],
        &jobs as &[Option<JobId>],
        streamed_body_hash,
    )
    .execute(tx)
    .await?
    .rows_affected();
    if recorded == claims.len() as u64 {
        Ok(())
    } else {
        Err(Problem::new(&REQUEST_IN_PROGRESS, "another request has taken over this Idempotency-Key"))
    }
}

/// Gives a claim back after a refusal: the corrected request may use the key.
async fn release(db: &Pool, claim: KeyClaim) -> Result<(), Problem> {
    sqlx::query!("DELETE FROM idempotency WHERE claim = $1 AND outcome IS NULL", claim.0).execute(db).await?;
    Ok(())
}

/// A claim while its request is being executed: given back when the request is dropped half-way, as when its client hangs
/// up. Its lease would expire, but a client that repeats its request at once must not have to wait for that. It is renewed
/// in the meantime.
#[derive(Debug)]
pub struct Held {
    db: Pool,
    claim: Option<KeyClaim>,
    renewal: JoinHandle<()>,
}

impl Held {
    /// Holds a claim; must be called within a tokio runtime.
    fn new(db: &Pool, claim: KeyClaim) -> Self {
        Self { db: db.clone(), claim: Some(claim), renewal: tokio::spawn(renew(db.clone(), claim)) }
    }

    /// What the answer is recorded under.
    #[must_use]
    pub fn claim(&self) -> Option<KeyClaim> {
        self.claim
    }

    /// The request was executed: its answer is recorded.
    pub fn keep(mut self) {
        self.claim = None;
    }

    /// The request was refused: the claim is released before the refusal is sent, if the database is available.
    pub async fn give_back(mut self) {
        let Some(claim) = self.claim else { return };
        // else behind the refusal, when this is dropped
        if let Ok(Ok(())) = tokio::time::timeout(GIVE_BACK_WITHIN, release(&self.db, claim)).await {
            self.claim = None;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.renewal.abort();
        // A commit may be on its way. Then this waits for it, finds an answer, and changes nothing.
        if let (Some(claim), Ok(runtime)) = (self.claim.take(), tokio::runtime::Handle::try_current()) {
            let db = self.db.clone();
            runtime.spawn(async move { give_back(&db, claim).await });
        }
    }
}

/// Gives a claim back, as soon as the database is there again.
async fn give_back(db: &Pool, claim: KeyClaim) {
    let until = tokio::time::Instant::now() + Duration::from_secs_f64(LEASE_SECONDS);
    let mut waits = Backoff::new(GIVE_BACK_AGAIN, LONGEST_WAIT);
    while let Err(error) = release(db, claim).await {
        if tokio::time::Instant::now() >= until {
            tracing::warn!(%error, "an idempotency key was not released; its lease has expired");
            return;
        }
        tokio::time::sleep(waits.next_delay()).await;
    }
}

/// Forgets the answers to requests that began until a moment; returns how many. Those that are being executed keep their claim.
///
/// # Errors
/// Those of the database.
pub async fn forget_until(connection: &mut PgConnection, moment: DateTime<Utc>) -> Result<u64, sqlx::Error> {
    let gone = sqlx::query!(
        "DELETE FROM idempotency WHERE created_at <= $1 AND (outcome IS NOT NULL OR claimed_until < now())",
        moment,
    )
    .execute(connection)
    .await?;
    Ok(gone.rows_affected())
}

/// Removes up to `limit` keys past their 24 hours; returns how many.
pub async fn expire(db: &PgPool, limit: i64) -> Result<u64, Problem> {
    let gone = sqlx::query!(
        "DELETE FROM idempotency WHERE ctid IN (
             SELECT ctid FROM idempotency WHERE created_at < now() - interval '24 hours'
             ORDER BY created_at LIMIT $1 FOR UPDATE SKIP LOCKED)",
        limit,
    )
    .execute(db)
    .await?;
    Ok(gone.rows_affected())
}
