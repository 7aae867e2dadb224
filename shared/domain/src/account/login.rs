//! Logins: an account's address and password for a token with its rights (`docs/reference/accounts.md#login`).
//!
//! A wrong login always gets the same answer after the same work, whether or not the account exists, has a password, or is
//! active; and it is limited by account and by client address, see [`limit`]. An account with a [second
//! factor](super::second_factor) also needs one of its codes.

pub mod limit;

use secrecy::SecretString;
use serde_json::Value;
use uuid::Uuid;

use self::limit::Whose;
use super::password;
use super::person::credential;
use super::second_factor::{self, Judgement};
use super::session;
use super::visitor::{Door, Holder, Visitor, no_login, over};
use longshore_kernel::access::Actor;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::database::Database;
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::input::{Reader, Rule, object, text};
use longshore_kernel::problem::{Problem, UNAUTHENTICATED};
use longshore_kernel::refusals::{self, Refused};
use longshore_kernel::services::Services;

/// What a login says.
pub struct Credentials {
    login: String,
    password: SecretString,
    /// Of the second factor.
    code: Option<SecretString>,
}

/// Whose login it is.
struct Login {
    /// As Postgres compares it.
    canonical: String,
    account: Option<Account>,
}

struct Account {
    id: Uuid,
    name: String,
    organisation: Option<OrganisationId>,
    password_hash: Option<String>,
    active: bool,
}

impl Account {
    fn refused(&self, door: Door) -> refusals::Account {
        refusals::Account { kind: door.actor(), id: self.id, organisation: self.organisation }
    }
}

/// Logs in: answers with `{"token","exp"}`.
pub async fn login(
    services: &Services,
    door: Door,
    visitor: &Visitor,
    body: Value,
) -> Result<Answer, Problem> {
    // two names of the same field
    let name = if body.get("email").is_some() { "email" } else { "login" };
    let Credentials { login, password, code } = Reader::read(body, credentials(name))?;
    let request = visitor.request_id.as_deref();
    let refused = |refused, account: Option<&refusals::Account>| {
        services.metrics.refused(refused);
        services.refusals.login(refused, account, visitor.address, request);
    };
    let mut attempt = limit::Attempt::new(&services.queues, visitor.address);
    attempt.admit_address().await.inspect_err(|_| refused(Refused::LoginTooOften, None))?;
    let Login { canonical, account } = find(&services.db, door, &login).await?;
    let known = account.as_ref().map(|account| account.refused(door));
    let whose = account.as_ref().map_or(Whose::Unknown(&canonical), |account| Whose::Account(account.id));
    let too_often = |_: &_| refused(Refused::LoginTooOften, known.as_ref());
    attempt.admit_account(door.actor(), &whose).await.inspect_err(too_often)?;
    let wrong = || {
        refused(Refused::Login, known.as_ref());
        wrong()
    };
    let hash = account.as_ref().and_then(|account| account.password_hash.clone());
    let is_right = password::verify(&password, hash.clone()).await?;
    let Some(account) = account.filter(|account| is_right && account.active) else { return Err(wrong()) };
    if code.is_some() {
        attempt.admit_code().await.inspect_err(too_often)?;
    }
    let origin = Origin {
        actor: Actor { kind: door.actor().to_owned(), id: Some(account.id), name: account.name },
        request_id: visitor.request_id.clone(),
        job: None,
        traceparent: None,
    };
    let rehashed = match &hash {
        Some(hash) if password::is_outdated(hash) => Some(password::hash(&password).await?),
        _ => None,
    };
    let mut change = Change::begin(services).await?;
    // shut out, or its password changed, while this one was verified
    let holder =
        Holder::take(change.connection(), door, account.id, hash.as_deref()).await?.ok_or_else(wrong)?;
    let judgement =
        second_factor::judge(change.connection(), services, &origin, holder, code.as_ref()).await?;
    if judgement != Judgement::Passed {
        if judgement == Judgement::Missing {
            // no guess, and no complete login
            attempt.forgive().await;
        } else {
            refused(Refused::Login, known.as_ref());
        }
        return Err(second_factor::code_required(judgement));
    }
    if let Some(rehashed) = rehashed {
        holder.rehash(change.connection(), &rehashed).await?;
    }
    let answer = session::open(change, services, &origin, holder, visitor).await?;
    attempt.forgive().await;
    attempt.meet().await;
    Ok(answer)
}

/// The token in the body of a refresh, `{"refresh_token"}`, if it is there.
pub fn token_to_refresh(body: Value) -> Result<Option<SecretString>, Problem> {
    Reader::read(body, body_to_refresh())
}

/// The body of a refresh.
pub fn body_to_refresh() -> impl Rule<Out = Option<SecretString>> {
    object(|object| {
        object.holds_secrets();
        Some(object.nullable("refresh_token", credential(1..=255)).value())
    })
}

/// A new token in exchange for a valid one (`POST /api/refresh-token`); the old one expires a minute later.
pub async fn refresh(services: &Services, context: &Context) -> Result<Answer, Problem> {
    let (door, account) = Door::of(&context.caller.actor).ok_or_else(no_login)?;
    session::carry_on(services, context, door, account).await?.ok_or_else(over)
}

/// Ends the session of the token that was shown (`POST /api/logout`).
pub async fn logout(services: &Services, context: &Context) -> Result<Answer, Problem> {
    Door::of(&context.caller.actor).ok_or_else(no_login)?;
    session::leave(services, context).await
}

/// The body of a login, with the account in the member of this name.
pub fn credentials(name: &'static str) -> impl Rule<Out = Credentials> {
    object(move |object| {
        let login = object.required(name, text(1..=255));
        object.holds_secrets();
        let password = object.required("password", credential(1..=255));
        let code = object.nullable("code", second_factor::code()).value();
        Some(Credentials { login: login?, password: password?, code })
    })
}

async fn find(db: &Database, door: Door, login: &str) -> Result<Login, sqlx::Error> {
    macro_rules! found {
        ($query:literal) => {{
            let row = sqlx::query!($query, login).fetch_one(&db.main).await?;
            let account = match (row.id, row.name, row.active) {
                (Some(id), Some(name), Some(active)) => {
                    let (organisation, password_hash) =
                        (row.organisation.map(OrganisationId::from), row.password_hash);
                    Some(Account { id, name, organisation, password_hash, active })
                }
                _ => None,
            };
            Login { canonical: row.canonical, account }
        }};
    }
    Ok(match door {
        Door::Admin => found!(
            r#"SELECT given.canonical AS "canonical!", a.id AS "id?", a.first_name || ' ' || a.last_name AS name,
                      NULL::uuid AS organisation, a.password_hash, a.active AS "active?"
               FROM (SELECT lower($1::text) AS canonical) given LEFT JOIN admin a ON lower(a.email) = given.canonical"#
        ),
        Door::BusinessUser => found!(
            r#"SELECT given.canonical AS "canonical!", a.id AS "id?", a.first_name || ' ' || a.last_name AS name,
                      a.organisation_id AS "organisation?", a.password_hash, a.active AS "active?"
               FROM (SELECT lower($1::text) AS canonical) given
               LEFT JOIN business_user a ON lower(a.email) = given.canonical"#
        ),
    })
}

fn wrong() -> Problem {
    Problem::new(&UNAUTHENTICATED, "the login or the password is wrong")
}
