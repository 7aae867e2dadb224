//! Sessions (`docs/reference/accounts.md#sessions`): a login opens one, and refreshes continue it. A session has one current
//! token. The session's id is enough to end it, with all of its tokens.
//!
//! - The token of a login is valid for [`TOKEN_LIFE`]. A refresh creates another one; the replaced one ends
//!   [`GRACE_SECONDS`] later, so that running requests do not fail. No token outlives the session, which ends [`LIFE`]
//!   after the login.
//! - An account has at most [`TOKENS`] such tokens: another one ends the least recently used one.
//! - The tokens of an ended session are invalid: [`Tokens`](super::token::Tokens) checks the session together with the token.

use chrono::{DateTime, TimeDelta, Timelike as _, Utc};
use secrecy::ExposeSecret as _;
use serde_json::json;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use super::token::new_secret;
use super::visitor::{Door, Holder, Visitor};
use longshore_kernel::access::{Caller, Role, Scope};
use longshore_kernel::answer::Answer;
use longshore_kernel::change::{Change, Recorded};
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::ids::{AdminId, BusinessUserId, OrganisationId, SessionId, TokenId};
use longshore_kernel::problem::{GONE, Problem};
use longshore_kernel::record_change;
use longshore_kernel::services::Services;

/// How long the token of a login is good.
pub const TOKEN_LIFE: TimeDelta = TimeDelta::hours(12);
/// How long a login lasts, however often it is refreshed.
pub const LIFE: TimeDelta = TimeDelta::days(7);
/// How long a token is good after another one has replaced it.
pub const GRACE_SECONDS: f64 = 60.0;
/// For so long after a login, its session need not repeat the password where a change asks for it.
pub const FRESH: TimeDelta = TimeDelta::minutes(15);
/// Tokens of logins that an account has at most.
pub const TOKENS: i64 = 20;

/// Its entity type in the audit.
const ENTITY: &str = "session";
/// That of its tokens.
const TOKEN: &str = "access_token";

/// Characters that are kept of what a client says it is.
const USER_AGENT: usize = 255;

/// A session, and until when its next token is good.
#[derive(Clone, Copy, Debug)]
struct Span {
    session: SessionId,
    expires_at: DateTime<Utc>,
    ends_at: DateTime<Utc>,
    /// The token that is replaced.
    shown: Option<TokenId>,
}

/// Opens a session; returns its token, `{"token","exp"}`.
pub(super) async fn open(
    change: Change<'_>,
    services: &Services,
    origin: &Origin,
    holder: Holder,
    visitor: &Visitor,
) -> Result<Answer, Problem> {
    let span = begin(services.clock.now(), None);
    issue(change, origin, "access_token.login", holder, span, Some(visitor)).await
}

/// Continues the session of a valid token; `None` if the session or the token has ended.
pub(super) async fn carry_on(
    services: &Services,
    context: &Context,
    door: Door,
    account: Uuid,
) -> Result<Option<Answer>, Problem> {
    let (caller, origin) = (&context.caller, &context.origin);
    let mut change = Change::begin(services).await?;
    let Some(holder) = Holder::take(change.connection(), door, account, None).await? else { return Ok(None) };
    let good = sqlx::query!(
        r#"SELECT s.id AS "session?: SessionId", s.ends_at AS "ends_at?"
           FROM access_token k LEFT JOIN session s ON s.id = k.session_id
           WHERE k.id = $1 AND k.revoked_at IS NULL AND k.expires_at > now()
             AND (s.id IS NULL OR (s.ended_at IS NULL AND s.ends_at > now()))"#,
        caller.token.get(),
    )
    .fetch_optional(change.connection())
    .await?;
    let Some(good) = good else { return Ok(None) };
    let now = services.clock.now();
    let span = match (good.session, good.ends_at) {
        (Some(session), Some(ends_at)) => {
            let expires_at = (whole_seconds(now) + TOKEN_LIFE).min(ends_at);
            Span { session, expires_at, ends_at, shown: Some(caller.token) }
        }
        // the login was made by a version without sessions
        _ => begin(now, Some(caller.token)),
    };
    issue(change, origin, "access_token.refresh", holder, span, None).await.map(Some)
}

fn begin(now: DateTime<Utc>, shown: Option<TokenId>) -> Span {
    let now = whole_seconds(now);
    Span { session: SessionId::new(), expires_at: now + TOKEN_LIFE, ends_at: now + LIFE, shown }
}

fn whole_seconds(at: DateTime<Utc>) -> DateTime<Utc> {
    at.with_nanosecond(0).unwrap_or(at)
}

/// Makes the token, and ends what it replaces, or what is too many.
async fn issue(
    mut change: Change<'_>,
    origin: &Origin,
    action: &str,
    holder: Holder,
    span: Span,
    visitor: Option<&Visitor>,
) -> Result<Answer, Problem> {
    let (id, secret) = (TokenId::new(), new_secret());
    let address =
        visitor.and_then(|visitor| visitor.address).map(|address| address.to_canonical().to_string());
    let user_agent = visitor.and_then(|visitor| visitor.user_agent.as_deref()).map(shortened);
    let recorded = record_change!(
        change.connection(),
        origin,
        action,
        TOKEN,
        None,
        "WITH opened AS (
             INSERT INTO session AS s (id, admin_id, business_user_id, address, user_agent, expires_at, ends_at)
             VALUES ($9, $10, $11, $12, $13, $14, $15)
             ON CONFLICT (id) DO UPDATE
             SET expires_at = excluded.expires_at, last_used_at = now(),
                 version = s.version + 1
             RETURNING s.id
         ), replaced AS (
             UPDATE access_token SET expires_at = least(expires_at, now() + make_interval(secs => $19)), version = version + 1
             WHERE revoked_at IS NULL
               AND id = ANY (ARRAY(SELECT id FROM access_token WHERE session_id = $9 UNION ALL SELECT $18::uuid))
         ), made AS (
             INSERT INTO access_token (id, hash, name, role, organisation_id, created_by, expires_at, admin_id,
                 business_user_id, session_id)
             SELECT $16, $17, 'login', coalesce(a.role, 'user'), u.organisation_id, $3, $14, $10, $11, opened.id
             FROM opened
             LEFT JOIN admin a ON a.id = $10
             LEFT JOIN business_user u ON u.id = $11
             RETURNING id, organisation_id
         ), changed AS (
             SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('token', jsonb_build_array(NULL, '***'),
                        'session', jsonb_build_array(NULL, $9::uuid)) AS changes,
                    '{}'::jsonb AS data
             FROM made
         )",
        span.session.get(),
        holder.admin() as Option<AdminId>,
        holder.business_user() as Option<BusinessUserId>,
        address as Option<String>,
        user_agent as Option<String>,
        span.expires_at,
        span.ends_at,
        id.get(),
        secret.hash.as_slice(),
        span.shown as Option<TokenId>,
        GRACE_SECONDS,
    )
    .await?;
    change.note(recorded);
    let newest: Vec<TokenId> = std::iter::once(id).chain(span.shown).collect();
    let recorded = end_too_many(change.connection(), origin, holder, &newest).await?;
    change.note(recorded);
    change.commit().await?;
    let shown = json!({"token": secret.token.expose_secret(), "exp": span.expires_at.timestamp()});
    Ok(Answer::shown(shown.to_string()))
}

/// What a client says it is, as far as it is kept.
fn shortened(user_agent: &str) -> String {
    user_agent.chars().filter(|c| !c.is_control()).take(USER_AGENT).collect()
}

/// Ends the tokens of an account that are too many, the one that was unused longest first, and the sessions that have no other.
/// `newest` are in use at this moment.
async fn end_too_many(
    connection: &mut PgConnection,
    origin: &Origin,
    holder: Holder,
    newest: &[TokenId],
) -> Result<Recorded, sqlx::Error> {
    record_change!(
        connection,
        origin,
        "session.end",
        ENTITY,
        None,
        "WITH live AS MATERIALIZED (
             SELECT k.id, k.session_id,
                    row_number() OVER (
                        ORDER BY k.id = ANY ($10) DESC, greatest(k.created_at, k.last_used_at) DESC, k.id DESC) AS place
             FROM session s JOIN access_token k ON k.session_id = ANY (ARRAY[s.id])
             WHERE s.account_id = $9 AND s.ended_at IS NULL AND k.revoked_at IS NULL AND k.expires_at > now()
         ), revoked AS (
             UPDATE access_token SET revoked_at = now(), version = version + 1
             WHERE id = ANY (ARRAY(SELECT id FROM live WHERE place > $11))
         ), made AS (
             UPDATE session SET ended_at = now(), version = version + 1
             WHERE id = ANY (ARRAY(SELECT session_id FROM live GROUP BY session_id HAVING min(place) > $11))
             RETURNING id, account_id, business_user_id
         ), changed AS (
             SELECT made.id AS entity, u.organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('account', jsonb_build_array(account_id, NULL)) AS changes, '{}'::jsonb AS data
             FROM made LEFT JOIN business_user u ON u.id = made.business_user_id
         )",
        holder.account,
        newest as &[TokenId],
        TOKENS,
    )
    .await
}

/// Whether the login of a session, which has not ended, was within [`FRESH`]. A refresh does not make it newer.
pub(super) async fn is_fresh(
    db: impl PgExecutor<'_>,
    session: Option<SessionId>,
    now: DateTime<Utc>,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (
               SELECT FROM session WHERE id = $1 AND created_at > $2 AND ended_at IS NULL) AS "is_fresh!""#,
        session as Option<SessionId>,
        now - FRESH,
    )
    .fetch_one(db)
    .await
}

/// The sessions that a caller may see and end: all for a superadmin, their own for others.
#[must_use]
pub fn scope(caller: &Caller) -> Scope {
    if caller.role == Role::Superadmin {
        return Scope::Everything;
    }
    // sessions belong to accounts as other records do to organisations; callers without an account have none
    Scope::Organisations(caller.actor.id.into_iter().map(OrganisationId::from).collect())
}

/// Ends live sessions with their tokens: `end_sessions!(connection, origin, "condition", its parameters from $9 …)`.
macro_rules! end_sessions {
    ($connection:expr, $origin:expr, $which:literal $(, $parameter:expr)* $(,)?) => {
        record_change!(
            $connection,
            $origin,
            "session.end",
            ENTITY,
            None,
            "WITH made AS (
                 UPDATE session SET ended_at = now(), version = version + 1
                 WHERE " + $which + " AND ended_at IS NULL AND expires_at > now()
                 RETURNING id, account_id, business_user_id
             ), revoked AS (
                 UPDATE access_token SET revoked_at = now(), version = version + 1
                 WHERE session_id = ANY (ARRAY(SELECT id FROM made)) AND revoked_at IS NULL
             ), changed AS (
                 SELECT made.id AS entity, u.organisation_id AS organisation, '{}'::uuid[] AS eshops,
                        jsonb_build_object('account', jsonb_build_array(account_id, NULL)) AS changes, '{}'::jsonb AS data
                 FROM made LEFT JOIN business_user u ON u.id = made.business_user_id
             )"
            $(, $parameter)*
        )
    };
}

/// Ends a session (`DELETE /api/session/{id}`): its tokens stop working everywhere within seconds.
pub async fn end(services: &Services, context: &Context, id: SessionId) -> Result<Answer, Problem> {
    let scope = scope(&context.caller);
    let mut change = Change::begin(services).await?;
    let recorded = end_sessions!(
        change.connection(),
        context.origin,
        "id = $10 AND in_scope($9, account_id)",
        scope.organisations() as Option<&[OrganisationId]>,
        id.get(),
    )
    .await?;
    if change.note(recorded) == 0 {
        let was_there = sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM session
                   WHERE id = $2 AND in_scope($1, account_id)) AS "was_there!""#,
            scope.organisations() as Option<&[OrganisationId]>,
            id.get(),
        )
        .fetch_one(change.connection())
        .await?;
        return Err(if was_there {
            Problem::new(&GONE, "the session has ended")
        } else {
            Problem::not_found(ENTITY)
        });
    }
    change.answer(context.claim, Answer::done()).await
}

/// Ends the session of the token that is shown, with all its tokens (`POST /api/logout`).
pub(super) async fn leave(services: &Services, context: &Context) -> Result<Answer, Problem> {
    record_change!(
        &services.db.main,
        context.origin,
        "access_token.logout",
        TOKEN,
        None,
        "WITH shown AS (
             SELECT id, session_id, organisation_id FROM access_token WHERE id = $9 AND revoked_at IS NULL
         ), ended AS (
             UPDATE session SET ended_at = now(), version = version + 1
             WHERE id = ANY (ARRAY(SELECT session_id FROM shown)) AND ended_at IS NULL
         ), revoked AS (
             UPDATE access_token SET revoked_at = now(), version = version + 1
             WHERE revoked_at IS NULL
               AND id = ANY (ARRAY(SELECT id FROM access_token
                                   WHERE session_id = ANY (ARRAY(SELECT session_id FROM shown))
                                   UNION ALL SELECT id FROM shown))
         ), changed AS (
             SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('token', jsonb_build_array('***', NULL),
                        'session', jsonb_build_array(session_id, NULL)) AS changes,
                    '{}'::jsonb AS data
             FROM shown
         )",
        context.caller.token.get(),
    )
    .await?;
    Ok(Answer::done())
}

/// Ends every session of an account except one, after a change of its password. Call it while the account is locked.
pub(super) async fn end_others(
    connection: &mut PgConnection,
    origin: &Origin,
    account: Uuid,
    kept: Option<SessionId>,
) -> Result<Recorded, sqlx::Error> {
    end_sessions!(
        connection,
        origin,
        "account_id = $9 AND id IS DISTINCT FROM $10",
        account,
        kept as Option<SessionId>,
    )
    .await
}

/// Ends every session that was opened until a moment; returns how many. A restore brings back those that had ended.
///
/// # Errors
/// Those of the database.
pub async fn end_until(
    connection: &mut PgConnection,
    origin: &Origin,
    moment: DateTime<Utc>,
) -> Result<i64, sqlx::Error> {
    end_sessions!(connection, origin, "created_at <= $9", moment).await.map(|recorded| recorded.changed)
}

/// Removes up to `limit` sessions that were over a day ago, with their tokens; returns how many.
pub async fn expire(db: &sqlx::PgPool, limit: i64) -> Result<u64, Problem> {
    let gone = sqlx::query!(
        "DELETE FROM session WHERE id = ANY (ARRAY(
             SELECT id FROM session WHERE expires_at < now() - interval '1 day'
             ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED))",
        limit,
    )
    .execute(db)
    .await?;
    Ok(gone.rows_affected())
}
