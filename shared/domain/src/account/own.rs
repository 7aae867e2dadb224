//! The caller's own account: its password, to change it, and where another change asks for it.

use chrono::SecondsFormat;
use secrecy::SecretString;
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::login::limit::Attempt;
use super::password;
use super::person;
use super::session;
use super::token::{Which, end_made_by};
use super::visitor::{Door, Holder, Visitor, no_login, over};
use longshore_kernel::answer::Answer;
use longshore_kernel::change::{Change, Recorded};
use longshore_kernel::context::Context;
use longshore_kernel::ids::AdminId;
use longshore_kernel::input::{Reader, Rule, boolean, object};
use longshore_kernel::problem::{Problem, Violation};
use longshore_kernel::record_change;
use longshore_kernel::services::Services;

/// Tokens that the answer to a change of the password names.
const NAMED: i64 = 100;

/// The body of a change of the password: the present one, the new one, and whether the tokens that the account has made end, too.
pub fn password_change() -> impl Rule<Out = (SecretString, SecretString, bool)> {
    object(|object| {
        object.holds_secrets();
        let old = object.required("password", person::credential(1..=255));
        let new = object.required("newPassword", person::password());
        let ends_tokens = object.nullable("tokens", boolean()).value().unwrap_or(false);
        Some((old?, new?, ends_tokens))
    })
}

/// Changes the password of the account that has logged in (`PUT /api/account/password`); its other sessions end, and, if that is asked
/// for, the tokens that it has made. The answer names those that live on.
pub async fn change_password(
    services: &Services,
    context: &Context,
    visitor: &Visitor,
    body: Value,
) -> Result<Answer, Problem> {
    let (old, new, ends_tokens) = Reader::read(body, password_change())?;
    let (door, account) = Door::of(&context.caller.actor).ok_or_else(no_login)?;
    let hash = verified(services, door, account, visitor, &old).await?;
    let new = password::hash(&new).await?;
    let mut change = Change::begin(services).await?;
    // shut out, or its password changed, while this one was verified
    let holder = Holder::take(change.connection(), door, account, hash.as_deref()).await?.ok_or_else(over)?;
    let recorded = write(&mut change, context, holder, &new).await?;
    change.note(recorded);
    let kept = context.caller.session;
    let ended = session::end_others(change.connection(), &context.origin, account, kept).await?;
    change.note(ended);
    let mut left = json!({"tokens": [], "countOfTokens": 0});
    if let Some(admin) = holder.admin() {
        if ends_tokens {
            end_made_by(&mut change, &context.origin, &[admin], Which::All).await?;
        }
        left = tokens(change.connection(), admin).await?;
    }
    change.answer(context.claim, Answer::shown(left.to_string())).await
}

/// The valid tokens that an admin has made, and those that these have made.
pub(super) async fn tokens(connection: &mut PgConnection, admin: AdminId) -> Result<Value, sqlx::Error> {
    let found = sqlx::query!(
        r#"WITH RECURSIVE made AS (
               SELECT id FROM access_token WHERE made_by_admin_id = $1
               UNION
               SELECT k.id FROM made JOIN access_token k ON k.made_by_token_id = ANY (ARRAY[made.id])
           )
           SELECT k.id, k.name, k.role, k.organisation_id, k.expires_at, count(*) OVER () AS "count!"
           FROM made JOIN access_token k ON k.id = ANY (ARRAY[made.id])
           WHERE k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
           ORDER BY k.created_at DESC, k.id DESC LIMIT $2"#,
        admin.get(),
        NAMED,
    )
    .fetch_all(connection)
    .await?;
    let count = found.first().map_or(0, |first| first.count);
    let named: Vec<Value> = found
        .into_iter()
        .map(|token| {
            json!({"id": token.id, "name": token.name, "role": token.role, "organisation": token.organisation_id,
                   "expiresAt": token.expires_at.map(|at| at.to_rfc3339_opts(SecondsFormat::Micros, false))})
        })
        .collect();
    Ok(json!({"tokens": named, "countOfTokens": count}))
}

/// Verifies the present password of an account, in the field `password`; returns the hash that it was compared with. To guess it is
/// limited as logins are.
pub(super) async fn verified(
    services: &Services,
    door: Door,
    account: Uuid,
    visitor: &Visitor,
    given: &SecretString,
) -> Result<Option<String>, Problem> {
    let hash = stored(services, door, account).await?;
    let attempt = Attempt::on(&services.queues, door.actor(), account, visitor.address).await?;
    if !password::verify(given, hash.clone()).await? {
        let wrong = Violation::new("password", "wrong_password", "is not the current password");
        return Err(Problem::invalid(vec![Violation { is_secret: true, ..wrong }]));
    }
    attempt.forgive().await;
    Ok(hash)
}

/// The hash of an account's password, if it has one.
async fn stored(services: &Services, door: Door, account: Uuid) -> Result<Option<String>, Problem> {
    let found = match door {
        Door::Admin => {
            sqlx::query_scalar!("SELECT password_hash FROM admin WHERE id = $1", account)
                .fetch_optional(&services.db.main)
                .await?
        }
        Door::BusinessUser => {
            sqlx::query_scalar!("SELECT password_hash FROM business_user WHERE id = $1", account)
                .fetch_optional(&services.db.main)
                .await?
        }
    };
    found.ok_or_else(over)
}

async fn write(
    change: &mut Change<'_>,
    context: &Context,
    holder: Holder,
    hash: &str,
) -> Result<Recorded, sqlx::Error> {
    match holder.door {
        Door::Admin => {
            record_change!(
                change.connection(),
                context.origin,
                "admin.password",
                "admin",
                None,
                "WITH made AS (
                     UPDATE admin
                     SET password_hash = $10, version = version + 1
                     WHERE id = $9 RETURNING id, version, changed_at
                 ), changed AS (
                     SELECT id AS entity, version, changed_at AS at, NULL::uuid AS organisation, '{}'::uuid[] AS eshops,
                            jsonb_build_object('password', jsonb_build_array('***', '***')) AS changes, '{}'::jsonb AS data
                     FROM made
                 )",
                holder.account,
                hash,
            )
            .await
        }
        Door::BusinessUser => {
            record_change!(
                change.connection(),
                context.origin,
                "business_user.password",
                "business_user",
                None,
                "WITH made AS (
                     UPDATE business_user
                     SET password_hash = $10, version = version + 1
                     WHERE id = $9 RETURNING id, version, changed_at, organisation_id
                 ), changed AS (
                     SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                            jsonb_build_object('password', jsonb_build_array('***', '***')) AS changes, '{}'::jsonb AS data
                     FROM made
                 )",
                holder.account,
                hash,
            )
            .await
        }
    }
}
