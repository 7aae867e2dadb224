//! Second factors of admins (`docs/reference/accounts.md#second-factor`): time-based one-time passwords (RFC 6238: SHA-1, 30
//! s, six digits, as every authenticator supports them), and recovery codes in case the authenticator is lost.
//!
//! - It is set up in two steps: a secret is shown ([`set_up`]), and it is active once one of its codes was entered
//!   ([`switch_on`]). From then on a login needs a code in addition to the password ([`judge`]).
//! - A session alone does not set it up, or whoever has taken it could shut out the owner: the login was [moments
//!   ago](session::FRESH), or the password is given again.
//! - A code is accepted once: for a time step, the step is stored; a recovery code is removed. Both happen in the
//!   transaction of the login, while the account is locked.
//! - The secret is sealed by the vault in its place; recovery codes have 80 random bits, and only their SHA-256 is kept.
//! - If the operator requires it, an admin or superadmin without one can only set one up
//!   ([`Caller::must`](longshore_kernel::access::Caller::must)).

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use sqlx::PgConnection;
use totp_rs::{Builder, Totp};
use uuid::Uuid;

use super::login::limit::Attempt;
use super::own;
use super::person;
use super::session;
use super::visitor::{Door, Holder, Visitor, no_login, over};
use longshore_kernel::answer::Answer;
use longshore_kernel::change::{Change, Recorded};
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::crypto::{random_bytes, sha256};
use longshore_kernel::ids::{AdminId, OrganisationId};
use longshore_kernel::input::{Reader, Rule, object};
use longshore_kernel::problem::{CODE_REQUIRED, CONFLICT, Problem, Violation};
use longshore_kernel::record_change;
use longshore_kernel::resealing::SealedTable;
use longshore_kernel::sealed_table;
use longshore_kernel::services::Services;
use longshore_kernel::tombstone;

/// Recovery codes that are shown when a second factor is switched on.
pub const RECOVERY_CODES: usize = 10;
/// Characters that a code may have as it is typed.
pub const CODE_LENGTH: std::ops::RangeInclusive<usize> = 1..=64;

/// Its name in messages.
const NAME: &str = "second factor";
/// The entity type of its audit records.
const ENTITY: &str = "admin";
/// The account of a code, as authenticators show it.
const ISSUER: &str = "Longshore";

fn place(admin: AdminId) -> String {
    format!("second_factor.secret:{admin}")
}

/// The secrets of second factors.
pub const SEALED: SealedTable = sealed_table!(
    "second_factor",
    "admin_id",
    ["secret" => place],
    |id, error| tracing::warn!(admin.id = %id, %error, "the secret of a second factor cannot be read")
);

/// What is stored of one.
struct Stored {
    secret: Vec<u8>,
    active: bool,
    last_step: i64,
    recovery_codes: Vec<Vec<u8>>,
}

/// What a code turns out to be.
enum Code {
    /// That of a step of time.
    OfStep(i64),
    /// A recovery code, by its hash.
    Recovery([u8; 32]),
}

/// What is to be said of a login beyond its password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// Its code is good, or none is needed.
    Passed,
    /// A code is needed, and none was given.
    Missing,
    /// The code is wrong, or was taken before.
    Wrong,
}

/// The rule of a code in a body.
pub(super) fn code() -> impl Rule<Out = SecretString> + Clone {
    person::credential(CODE_LENGTH)
}

/// Checks the login of a locked account, and uses up the code.
pub(super) async fn judge(
    connection: &mut PgConnection,
    services: &Services,
    origin: &Origin,
    holder: Holder,
    code: Option<&SecretString>,
) -> Result<Judgement, Problem> {
    let Some(admin) = holder.admin() else { return Ok(Judgement::Passed) };
    let Some(stored) = find(&mut *connection, admin).await?.filter(|stored| stored.active) else {
        return Ok(Judgement::Passed);
    };
    let Some(code) = code else { return Ok(Judgement::Missing) };
    let Some(code) = stored.recognise(services, admin, code) else { return Ok(Judgement::Wrong) };
    take(connection, origin, admin, &code).await?;
    Ok(Judgement::Passed)
}

/// The refusal of a login without a code.
pub(super) fn code_required(judgement: Judgement) -> Problem {
    let detail = match judgement {
        Judgement::Wrong => "the code is wrong or was already used",
        _ => "this account has a second factor: send its code with the password",
    };
    Problem::new(&CODE_REQUIRED, detail)
}

impl Stored {
    fn totp(&self, services: &Services, admin: AdminId) -> Option<Totp> {
        match services.vault.open(&place(admin), &self.secret) {
            Ok(secret) => totp(secret, "admin"),
            Err(error) => {
                // the recovery codes still let its owner in
                tracing::warn!(admin.id = %admin, %error, "the secret of a second factor cannot be read");
                None
            }
        }
    }

    /// What a code is, if it is good and was not taken before.
    fn recognise(&self, services: &Services, admin: AdminId, code: &SecretString) -> Option<Code> {
        let typed: String =
            code.expose_secret().chars().filter(|c| !c.is_whitespace() && *c != '-').collect();
        let now = u64::try_from(services.clock.now().timestamp()).ok()?;
        let step = self.totp(services, admin).and_then(|totp| totp.check(&typed, now));
        if let Some(step) = step {
            let step = i64::try_from(step).ok()?;
            return (step > self.last_step).then_some(Code::OfStep(step));
        }
        let hash = sha256(typed.to_lowercase().as_bytes());
        self.recovery_codes.iter().any(|known| known.as_slice() == hash).then_some(Code::Recovery(hash))
    }
}

fn totp(secret: Vec<u8>, account: &str) -> Option<Totp> {
    // a colon separates the issuer from the account
    let account = account.replace(':', "_");
    Builder::new().with_secret(secret).with_account_name(account).with_issuer(Some(ISSUER)).build().ok()
}

async fn find(connection: &mut PgConnection, admin: AdminId) -> Result<Option<Stored>, sqlx::Error> {
    sqlx::query_as!(
        Stored,
        "SELECT secret, active, last_step, recovery_codes FROM second_factor WHERE admin_id = $1",
        admin.get(),
    )
    .fetch_optional(connection)
    .await
}

/// Uses up the code that the holder of an account gives; a wrong one is refused.
pub(super) async fn use_up(
    connection: &mut PgConnection,
    services: &Services,
    origin: &Origin,
    holder: Holder,
    code: &SecretString,
) -> Result<(), Problem> {
    let admin = holder.admin().ok_or_else(wrong)?;
    let stored = find(connection, admin).await?.filter(|stored| stored.active).ok_or_else(wrong)?;
    let code = stored.recognise(services, admin, code).ok_or_else(wrong)?;
    Ok(take(connection, origin, admin, &code).await?)
}

/// Uses up a code of a locked account.
async fn take(
    connection: &mut PgConnection,
    origin: &Origin,
    admin: AdminId,
    code: &Code,
) -> Result<(), sqlx::Error> {
    match code {
        Code::OfStep(step) => {
            sqlx::query!("UPDATE second_factor SET last_step = $2 WHERE admin_id = $1", admin.get(), step)
                .execute(connection)
                .await?;
        }
        Code::Recovery(hash) => {
            record_change!(
                connection,
                origin,
                "admin.totp_recovery",
                ENTITY,
                None,
                "WITH old AS MATERIALIZED (
                     SELECT admin_id, cardinality(recovery_codes) AS count FROM second_factor WHERE admin_id = $9
                 ), made AS (
                     UPDATE second_factor SET recovery_codes = array_remove(recovery_codes, $10::bytea)
                     WHERE admin_id = $9 RETURNING admin_id, cardinality(recovery_codes) AS count
                 ), changed AS (
                     SELECT made.admin_id AS entity, NULL::uuid AS organisation, '{}'::uuid[] AS eshops,
                            jsonb_build_object('recoveryCodes', jsonb_build_array(old.count, made.count)) AS changes,
                            '{}'::jsonb AS data
                     FROM made JOIN old USING (admin_id)
                 )",
                admin.get(),
                hash.as_slice(),
            )
            .await?;
        }
    }
    Ok(())
}

/// The admin who has logged in.
fn owner(context: &Context) -> Result<AdminId, Problem> {
    match Door::of(&context.caller.actor) {
        Some((Door::Admin, admin)) => Ok(admin.into()),
        _ => Err(no_login()),
    }
}

/// Holds an admin, with the password that was verified, to the end of the transaction.
async fn hold(change: &mut Change<'_>, admin: AdminId, password_hash: Option<&str>) -> Result<(), Problem> {
    let held = Holder::take(change.connection(), Door::Admin, admin.get(), password_hash).await?;
    held.map(|_| ()).ok_or_else(over)
}

/// The body of [`set_up`], which may be absent: the password, where the login was not moments ago.
pub fn body_to_set_up() -> impl Rule<Out = Option<SecretString>> {
    object(|object| {
        object.holds_secrets();
        Some(object.nullable("password", person::credential(1..=255)).value())
    })
}

/// Whether [`set_up`] needs the password.
pub async fn needs_password(services: &Services, context: &Context) -> Result<bool, Problem> {
    let now = services.clock.now();
    Ok(!session::is_fresh(&services.db.main, context.caller.session, now).await?)
}

/// Shows a secret for an authenticator (`POST /api/account/totp`): `{"secret", "uri"}`. It takes the place of one that was never
/// switched on.
pub async fn set_up(
    services: &Services,
    context: &Context,
    visitor: &Visitor,
    body: Option<Value>,
) -> Result<Answer, Problem> {
    let password = Reader::read(body.unwrap_or_else(|| json!({})), body_to_set_up())?;
    let admin = owner(context)?;
    let hash = if let Some(given) = &password {
        own::verified(services, Door::Admin, admin.get(), visitor, given).await?
    } else {
        if needs_password(services, context).await? {
            let minutes = session::FRESH.num_minutes();
            let message = format!("is required: the login was more than {minutes} minutes ago");
            return Err(Problem::violation("password", "required", message));
        }
        None
    };
    let mut change = Change::begin(services).await?;
    hold(&mut change, admin, hash.as_deref()).await?;
    if find(change.connection(), admin).await?.is_some_and(|stored| stored.active) {
        return Err(Problem::new(&CONFLICT, "the account already has a second factor; remove it first"));
    }
    let login = sqlx::query_scalar!("SELECT email FROM admin WHERE id = $1", admin.get())
        .fetch_one(change.connection())
        .await?;
    let secret: [u8; 20] = random_bytes();
    let unusable = || Problem::internal("a secret of 160 bits is refused");
    let totp = totp(secret.to_vec(), &login).ok_or_else(unusable)?;
    let uri = totp.to_url().map_err(|_| unusable())?;
    let sealed = services.vault.seal(&place(admin), &secret).map_err(Problem::internal)?;
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "admin.totp_set_up",
        ENTITY,
        None,
        "WITH made AS (
             INSERT INTO second_factor (admin_id, secret) VALUES ($9, $10)
             ON CONFLICT (admin_id) DO UPDATE SET secret = excluded.secret, last_step = 0, created_at = now()
             RETURNING admin_id
         ), changed AS (
             SELECT admin_id AS entity, NULL::uuid AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('totp', jsonb_build_array(NULL, '***')) AS changes, '{}'::jsonb AS data
             FROM made
         )",
        admin.get(),
        sealed,
    )
    .await?;
    change.note(recorded);
    let shown = json!({"secret": totp.secret().to_base32(), "uri": uri});
    change.answer(context.claim, Answer::shown(shown.to_string())).await
}

/// A code that is given by who has logged in, counted as an attempt.
pub(super) async fn guess<'s>(
    services: &'s Services,
    door: Door,
    account: Uuid,
    visitor: &Visitor,
) -> Result<Attempt<'s>, Problem> {
    let mut attempt = Attempt::on(&services.queues, door.actor(), account, visitor.address).await?;
    attempt.admit_code().await?;
    Ok(attempt)
}

/// A new recovery code: 80 random bits.
fn recovery_code() -> String {
    let text = hex::encode(random_bytes::<10>());
    let groups: Vec<&str> = [0, 5, 10, 15].iter().filter_map(|start| text.get(*start..start + 5)).collect();
    groups.join("-")
}

/// Activates a second factor (`PUT /api/account/totp`), given one of its codes; returns its recovery codes, which are shown
/// only once.
pub async fn switch_on(
    services: &Services,
    context: &Context,
    visitor: &Visitor,
    body: Value,
) -> Result<Answer, Problem> {
    let code = Reader::read(body, self::body())?;
    let admin = owner(context)?;
    let attempt = guess(services, Door::Admin, admin.get(), visitor).await?;
    let mut change = Change::begin(services).await?;
    hold(&mut change, admin, None).await?;
    let stored = find(change.connection(), admin).await?.filter(|stored| !stored.active);
    let stored = stored
        .ok_or_else(|| Problem::new(&CONFLICT, "there is no second factor to confirm; set one up first"))?;
    let Some(Code::OfStep(step)) = stored.recognise(services, admin, &code) else { return Err(wrong()) };
    let codes: Vec<String> = (0..RECOVERY_CODES).map(|_| recovery_code()).collect();
    let hashes: Vec<Vec<u8>> =
        codes.iter().map(|code| sha256(code.replace('-', "").as_bytes()).to_vec()).collect();
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "admin.totp_on",
        ENTITY,
        None,
        "WITH made AS (
             UPDATE second_factor SET active = true, last_step = $10, recovery_codes = $11 WHERE admin_id = $9
             RETURNING admin_id
         ), changed AS (
             SELECT admin_id AS entity, NULL::uuid AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('totp', jsonb_build_array(false, true)) AS changes, '{}'::jsonb AS data
             FROM made
         )",
        admin.get(),
        step,
        &hashes,
    )
    .await?;
    change.note(recorded);
    let answer = Answer::shown(json!({"recoveryCodes": codes}).to_string());
    let answer = change.answer(context.claim, answer).await?;
    attempt.forgive().await;
    Ok(answer)
}

/// Removes the caller's second factor (`DELETE /api/account/totp`), given one of its codes.
pub async fn remove(
    services: &Services,
    context: &Context,
    visitor: &Visitor,
    body: Value,
) -> Result<Answer, Problem> {
    let code = Reader::read(body, self::body())?;
    let admin = owner(context)?;
    let attempt = guess(services, Door::Admin, admin.get(), visitor).await?;
    let mut change = Change::begin(services).await?;
    hold(&mut change, admin, None).await?;
    let stored = find(change.connection(), admin).await?.ok_or_else(|| Problem::not_found(NAME))?;
    stored.recognise(services, admin, &code).ok_or_else(wrong)?;
    let recorded = delete(change.connection(), &context.origin, admin).await?;
    change.note(recorded);
    let answer = change.answer(context.claim, Answer::done()).await?;
    attempt.forgive().await;
    Ok(answer)
}

/// Removes another's second factor (`DELETE /api/admin/{id}/totp`), for one who has lost it.
pub async fn remove_of(services: &Services, context: &Context, id: AdminId) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    let known = sqlx::query_scalar!(
        "SELECT id FROM admin
         WHERE id = $2 AND ($1::uuid[] IS NULL OR EXISTS (
             SELECT FROM admin_organisation m WHERE m.admin_id = admin.id AND m.organisation_id = ANY ($1)))
         FOR NO KEY UPDATE",
        context.scope().organisations() as Option<&[OrganisationId]>,
        id.get(),
    )
    .fetch_optional(change.connection())
    .await?;
    if known.is_none() {
        return Err(tombstone::missing(change.connection(), context.scope(), ENTITY, id).await);
    }
    let recorded = delete(change.connection(), &context.origin, id).await?;
    if change.note(recorded) == 0 {
        return Err(Problem::not_found(NAME));
    }
    change.answer(context.claim, Answer::done()).await
}

async fn delete(
    connection: &mut PgConnection,
    origin: &Origin,
    admin: AdminId,
) -> Result<Recorded, sqlx::Error> {
    record_change!(
        connection,
        origin,
        "admin.totp_off",
        ENTITY,
        None,
        "WITH made AS (
             DELETE FROM second_factor WHERE admin_id = $9 RETURNING admin_id, active
         ), changed AS (
             SELECT admin_id AS entity, NULL::uuid AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('totp', jsonb_build_array(active, NULL)) AS changes, '{}'::jsonb AS data
             FROM made
         )",
        admin.get(),
    )
    .await
}

/// A body with a code.
pub fn body() -> impl Rule<Out = SecretString> {
    object(|object| {
        object.holds_secrets();
        object.required("code", code())
    })
}

fn wrong() -> Problem {
    let wrong = Violation::new("code", "wrong_code", "is wrong or was already used");
    Problem::invalid(vec![Violation { is_secret: true, ..wrong }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_rfc_6238() {
        // appendix B, of eight digits the last six
        let totp = totp(b"12345678901234567890".to_vec(), "a:b@example.com").unwrap();
        for (time, code) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
            (20_000_000_000, "353130"),
        ] {
            assert_eq!(totp.check(code, time), Some(time / 30));
            assert_eq!(totp.check(code, time + 90), None);
        }
        assert!(
            totp.to_url().unwrap().starts_with("otpauth://totp/Longshore:a_b%40example.com?secret=GEZDGNBV")
        );
    }

    #[test]
    fn recovery_codes_differ_and_are_easy_to_type() {
        let codes: std::collections::HashSet<_> = (0..100).map(|_| recovery_code()).collect();
        assert_eq!(codes.len(), 100);
        assert!(codes.iter().all(|code| code.len() == 23 && code.split('-').all(|group| group.len() == 5)));
    }
}
