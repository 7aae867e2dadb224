//! Logins: an account's address and password for a token that stands for it (decisions, section 3).
//!
//! A wrong login is always the same answer after the same work, whether the account exists, has a password, is shut out,
//! or not; and it is limited by account and by client address, see [`limit`].

pub mod limit;

use std::net::IpAddr;

use chrono::{TimeDelta, Timelike as _};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use uuid::Uuid;

use super::password;
use super::token::{ADMIN, BUSINESS_USER, new_secret};
use crate::platform::answer::Answer;
use crate::platform::context::{Actor, Context, Origin};
use crate::platform::database::Database;
use crate::platform::ids;
use crate::platform::input::{self, Reader};
use crate::platform::problem::{FORBIDDEN, Problem, UNAUTHENTICATED};
use crate::platform::services::Services;
use crate::record_change;

/// How long the token of a login is good.
const LIFE: TimeDelta = TimeDelta::hours(12);

const ENTITY: &str = "access_token";

/// Whose accounts are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// `POST /api/login/admin`.
    Admin,
    /// `POST /api/login/user`.
    BusinessUser,
}

impl Door {
    /// The kind of actor who comes in.
    fn actor(self) -> &'static str {
        match self {
            Self::Admin => ADMIN,
            Self::BusinessUser => BUSINESS_USER,
        }
    }

    fn of(actor: &Actor) -> Option<(Self, Uuid)> {
        let door = [Self::Admin, Self::BusinessUser].into_iter().find(|door| door.actor() == actor.kind)?;
        Some((door, actor.id?))
    }
}

/// Where a login comes from.
#[derive(Clone, Debug)]
pub struct Visitor {
    /// Address of the client, where it is known.
    pub address: Option<IpAddr>,
    /// The request.
    pub request_id: Option<String>,
}

struct Credentials {
    login: String,
    password: SecretString,
}

struct Account {
    id: Uuid,
    name: String,
    password_hash: Option<String>,
    active: bool,
}

/// Logs in: `200 {"token","exp"}`, or 401.
pub async fn login(
    services: &Services,
    door: Door,
    visitor: &Visitor,
    body: Value,
) -> Result<Answer, Problem> {
    let Credentials { login, password } = read(body)?;
    let attempt = limit::Attempt::new(&services.queues, door.actor(), &login, visitor.address);
    attempt.admit().await?;
    let account = find(&services.db, door, &login).await?;
    let hash = account.as_ref().and_then(|account| account.password_hash.clone());
    let is_right = password::verify(&password, hash.clone()).await?;
    let Some(account) = account.filter(|account| is_right && account.active) else { return Err(wrong()) };
    let origin = Origin {
        actor: Actor { kind: door.actor().to_owned(), id: Some(account.id), name: account.name },
        request_id: visitor.request_id.clone(),
        job: None,
        traceparent: None,
    };
    let opened = open(services, &origin, "access_token.login", door, account.id, hash.as_deref()).await?;
    // shut out, or its password changed, while this one was verified
    let answer = opened.ok_or_else(wrong)?;
    attempt.forgive().await;
    Ok(answer)
}

/// A new token for whoever shows a good one (`POST /api/refresh-token`); the old one is good to its own end.
pub async fn refresh(services: &Services, context: &Context) -> Result<Answer, Problem> {
    let (door, account) = Door::of(&context.caller.actor).ok_or_else(no_login)?;
    open(services, &context.origin, "access_token.refresh", door, account, None).await?.ok_or_else(wrong)
}

/// Revokes the token that was shown (`POST /api/logout`).
pub async fn logout(services: &Services, context: &Context) -> Result<Answer, Problem> {
    Door::of(&context.caller.actor).ok_or_else(no_login)?;
    record_change!(
        &services.db.main,
        context.origin,
        "access_token.logout",
        ENTITY,
        "",
        "WITH made AS (
             UPDATE access_token SET revoked_at = now(), changed_at = now()
             WHERE id = $9 AND revoked_at IS NULL
             RETURNING id, organisation_id
         ), changed AS (
             SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('token', jsonb_build_array('***', NULL)) AS changes, '{}'::jsonb AS data
             FROM made
         )",
        context.caller.token,
    )
    .await?;
    Ok(Answer::no_content())
}

fn read(body: Value) -> Result<Credentials, Problem> {
    Reader::read(body, |reader, body| {
        let mut object = reader.object(body)?;
        // two names of the same field
        let name = if object.has("email") { "email" } else { "login" };
        let login = object.required(name, input::text(1..=255));
        let password = object.required("password", input::text(1..=255));
        object.finish();
        Some(Credentials { login: login?, password: password?.into() })
    })
}

async fn find(db: &Database, door: Door, login: &str) -> Result<Option<Account>, sqlx::Error> {
    match door {
        Door::Admin => {
            sqlx::query_as!(
                Account,
                r#"SELECT id, first_name || ' ' || last_name AS "name!", password_hash, active
                   FROM admin WHERE lower(email) = lower($1)"#,
                login,
            )
            .fetch_optional(&db.main)
            .await
        }
        Door::BusinessUser => {
            sqlx::query_as!(
                Account,
                r#"SELECT id, first_name || ' ' || last_name AS "name!", password_hash, active
                   FROM business_user WHERE lower(email) = lower($1)"#,
                login,
            )
            .fetch_optional(&db.main)
            .await
        }
    }
}

/// Makes a token for an account, if it is (still) active, and has the password that was verified. The account is held for
/// that moment: whoever shuts it out finds the token, or comes first.
async fn open(
    services: &Services,
    origin: &Origin,
    action: &str,
    door: Door,
    account: Uuid,
    password_hash: Option<&str>,
) -> Result<Option<Answer>, Problem> {
    let secret = new_secret();
    let (id, now) = (ids::new_id(), services.clock.now());
    let expires_at = now.with_nanosecond(0).unwrap_or(now) + LIFE;
    let recorded = match door {
        Door::Admin => {
            record_change!(
                &services.db.main,
                origin,
                action,
                ENTITY,
                "",
                "WITH account AS MATERIALIZED (
                     SELECT id, role FROM admin
                     WHERE id = $9 AND active AND ($10::text IS NULL OR password_hash = $10) FOR SHARE
                 ), made AS (
                     INSERT INTO access_token (id, hash, name, role, created_by, expires_at, admin_id)
                     SELECT $11, $12, 'login', role, $3, $13, id FROM account
                     RETURNING id, organisation_id
                 ), changed AS (
                     SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                            jsonb_build_object('token', jsonb_build_array(NULL, '***')) AS changes,
                            '{}'::jsonb AS data
                     FROM made
                 )",
                account,
                password_hash as Option<&str>,
                id,
                secret.hash.as_slice(),
                expires_at,
            )
            .await?
        }
        Door::BusinessUser => {
            record_change!(
                &services.db.main,
                origin,
                action,
                ENTITY,
                "",
                "WITH account AS MATERIALIZED (
                     SELECT id, organisation_id FROM business_user
                     WHERE id = $9 AND active AND ($10::text IS NULL OR password_hash = $10) FOR SHARE
                 ), made AS (
                     INSERT INTO access_token (id, hash, name, role, organisation_id, created_by, expires_at,
                         business_user_id)
                     SELECT $11, $12, 'login', 'user', organisation_id, $3, $13, id FROM account
                     RETURNING id, organisation_id
                 ), changed AS (
                     SELECT id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                            jsonb_build_object('token', jsonb_build_array(NULL, '***')) AS changes,
                            '{}'::jsonb AS data
                     FROM made
                 )",
                account,
                password_hash as Option<&str>,
                id,
                secret.hash.as_slice(),
                expires_at,
            )
            .await?
        }
    };
    if recorded.changed == 0 {
        return Ok(None);
    }
    let shown = json!({"token": secret.token.expose_secret(), "exp": expires_at.timestamp()});
    Ok(Some(Answer::ok(shown.to_string())))
}

fn wrong() -> Problem {
    Problem::new(&UNAUTHENTICATED, "the login or the password is wrong")
}

fn no_login() -> Problem {
    Problem::new(&FORBIDDEN, "this token does not come from a login")
}
