//! The caller's own account: its password, to change it, and where another change asks for it.

use secrecy::SecretString;
use serde_json::Value;
use uuid::Uuid;

use super::login::limit::Attempt;
use super::password;
use super::person;
use super::session;
use super::visitor::{Door, Holder, Visitor, no_login, over};
use longshore_kernel::answer::Answer;
use longshore_kernel::change::{Change, Recorded};
use longshore_kernel::context::Context;
use longshore_kernel::input::{Reader, Rule, object};
use longshore_kernel::problem::{Problem, Violation};
use longshore_kernel::record_change;
use longshore_kernel::services::Services;

/// The body of a change of the password: the present one, and the new one.
pub fn password_change() -> impl Rule<Out = (SecretString, SecretString)> {
    object(|object| {
        object.holds_secrets();
        let old = object.required("password", person::credential(1..=255));
        let new = object.required("newPassword", person::password());
        Some((old?, new?))
    })
}

/// Changes the password of the account that has logged in (`PUT /api/account/password`); its other sessions end.
pub async fn change_password(
    services: &Services,
    context: &Context,
    visitor: &Visitor,
    body: Value,
) -> Result<Answer, Problem> {
    let (old, new) = Reader::read(body, password_change())?;
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
    change.answer(context.claim, Answer::done()).await
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
