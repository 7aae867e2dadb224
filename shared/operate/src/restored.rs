//! After Postgres was set back (`docs/backup.md#after-a-restore`): outsiders know more than the database does, and this lets them
//! agree again.
//!
//! A set-back begins an *epoch* (`set_back`). Orders that warehouses may have are put in doubt, in batches that may be repeated. Then
//! each row of [`STEPS`] is a transaction, which records that it was done in this epoch. So it is safe to interrupt and to repeat. Until the
//! last one was done, nothing is handed over to a warehouse.

mod report;
mod versions;

use chrono::{DateTime, SecondsFormat, Utc};
use futures::future::BoxFuture;
use sqlx::{Connection as _, PgConnection};
use thiserror::Error;

use longshore_domain::account::session;
use longshore_domain::expedition::handover::doubt::{self, Begun};
use longshore_domain::expedition::handover::fill;
use longshore_domain::job::fetching;
use longshore_domain::partner::send_out::items;
use longshore_domain::webhook::delivery::tell_of_restore;
use longshore_kernel::context::Origin;
use longshore_kernel::idempotency;
use longshore_kernel::problem::Problem;
use longshore_kernel::set_back;

/// Numbers of sequences that were given since the backup are not given again.
const NUMBERS_APART: i64 = 1_000_000;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// What was committed later may be lost. With it, a set-back that nobody has seen can be mended.
    pub since: Option<DateTime<Utc>>,
    /// Warehouses are asked at once for every order that they may have, and not when its next change asks for it.
    pub asks_warehouses: bool,
}

/// A set-back that is being mended.
#[derive(Clone, Copy, Debug)]
pub struct SetBack {
    /// The epoch that it began.
    pub epoch: i32,
    /// What was committed later may be lost…
    pub since: DateTime<Utc>,
    /// …until it was seen.
    pub at: DateTime<Utc>,
    /// As [wanted](Wanted::asks_warehouses).
    pub asks_warehouses: bool,
}

/// Why nothing, or not all, was mended.
#[derive(Debug, Error)]
pub enum Failure {
    /// The login may not.
    #[error(
        "the login of DATABASE_URL does not own the tables of the service: use the one that runs `longshore-api migrate`, on a database \
         that is migrated"
    )]
    NotTheOwner,
    /// Nobody saw a set-back.
    #[error(
        "no set-back of Postgres is known that is not mended{0}: if you know of one, repeat this with --since and a time after which \
         what was committed may be lost, such as that of the backup (2027-01-31T09:00:00Z)"
    )]
    NoneKnown(String),
    /// It is to come.
    #[error("--since must be in the past")]
    InTheFuture,
    /// A step failed; those before it are done.
    #[error("{0} failed; what was done stays done: repeat the command")]
    Step(&'static str, #[source] Problem),
    /// Postgres refused, or is away.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// A part of mending; it says what it did.
struct Step {
    name: &'static str,
    take: for<'c> fn(&'c mut PgConnection, &'c SetBack) -> BoxFuture<'c, Result<String, Problem>>,
}

/// All of it, in this order: whoever hears of it reads records whose next versions are high enough.
const STEPS: [Step; 7] = [
    Step { name: "versions", take: |connection, set_back| Box::pin(versions::raise(connection, set_back)) },
    Step { name: "sequences", take: |connection, _| Box::pin(skip_numbers(connection)) },
    Step { name: "sessions", take: |connection, set_back| Box::pin(end_sessions(connection, set_back)) },
    Step { name: "answers", take: |connection, set_back| Box::pin(forget_answers(connection, set_back)) },
    Step { name: "partners", take: |connection, _| Box::pin(forget_partners(connection)) },
    Step { name: "fillings", take: |connection, _| Box::pin(look_anew(connection)) },
    Step { name: "webhooks", take: |connection, set_back| Box::pin(tell_webhooks(connection, set_back)) },
];

/// Mends what is not mended, as the owner of the tables, and tells each step as a line.
///
/// # Errors
/// See [`Failure`].
pub async fn mend(
    connection: &mut PgConnection,
    wanted: Wanted,
    tell: &mut (dyn FnMut(&str) + Send),
) -> Result<(), Failure> {
    must_be_owner(connection).await?;
    set_back::look(connection).await?;
    let Some(set_back) = begin(connection, wanted).await? else {
        tell("the set-back since that time is mended: nothing is left to do");
        return Ok(());
    };
    tell(&format!("epoch {}: what was committed after {} may be lost", set_back.epoch, time(set_back.since)));
    // in transactions of its own, so that no order is locked for long; repeating it is harmless
    let Begun { floor, in_doubt, asked } = doubt::begin(connection, set_back.since, set_back.asks_warehouses)
        .await
        .map_err(|problem| Failure::Step("numbers", problem))?;
    tell(&format!(
        "numbers: hand-overs go on above {floor}; {in_doubt} more orders are asked back before they are cancelled, held or handed over, \
         {asked} of them at once"
    ));
    for step in STEPS {
        let said = take(connection, &step, &set_back).await?;
        tell(&format!("{}: {said}", step.name));
    }
    for line in report::to_look_at(connection, set_back.since).await? {
        tell(&line);
    }
    sqlx::query!(
        "UPDATE set_back SET mended_at = now() WHERE epoch <= $1 AND mended_at IS NULL",
        set_back.epoch
    )
    .execute(connection)
    .await?;
    tell("mended: orders are handed over to warehouses again");
    Ok(())
}

async fn must_be_owner(connection: &mut PgConnection) -> Result<(), Failure> {
    let is_owner = sqlx::query_scalar!(
        "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass('set_back_step')"
    )
    .fetch_optional(connection)
    .await?;
    if is_owner.flatten() == Some(true) { Ok(()) } else { Err(Failure::NotTheOwner) }
}

/// The set-back to mend: all that are not mended are one. Where there is none, `since` begins an epoch, unless it is that of one
/// that is mended.
async fn begin(connection: &mut PgConnection, wanted: Wanted) -> Result<Option<SetBack>, Failure> {
    let mut tx = connection.begin().await?;
    // the next epoch is begun under this lock
    let pulse =
        sqlx::query!(r#"SELECT epoch, now() AS "now!" FROM pulse FOR UPDATE"#).fetch_one(&mut *tx).await?;
    if wanted.since.is_some_and(|since| since > pulse.now) {
        return Err(Failure::InTheFuture);
    }
    let is_pending = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM set_back WHERE mended_at IS NULL) AS "is_pending!""#
    )
    .fetch_one(&mut *tx)
    .await?;
    if !is_pending {
        let last = sqlx::query!(
            r#"SELECT since, mended_at AS "mended_at!" FROM set_back ORDER BY since = $1 DESC NULLS LAST, epoch DESC LIMIT 1"#,
            wanted.since,
        )
        .fetch_optional(&mut *tx)
        .await?;
        match (wanted.since, last) {
            (None, last) => {
                let last = last.map(|last| {
                    format!(
                        " (the last one, since {}, was mended at {})",
                        time(last.since),
                        time(last.mended_at)
                    )
                });
                return Err(Failure::NoneKnown(last.unwrap_or_default()));
            }
            (Some(since), Some(last)) if last.since == since => return Ok(None),
            (Some(since), _) => {
                sqlx::query!(
                    "WITH begun AS (
                         INSERT INTO set_back (epoch, reason, since, \"until\")
                         SELECT greatest($1, (SELECT max(epoch) FROM set_back)) + 1, 'the operator said so', $2, now()
                         RETURNING epoch
                     )
                     UPDATE pulse SET epoch = begun.epoch FROM begun",
                    pulse.epoch,
                    since,
                )
                .execute(&mut *tx)
                .await?;
            }
        }
    }
    let set_back = sqlx::query_as!(
        SetBack,
        r#"WITH pending AS (
               UPDATE set_back SET since = least(since, $1) WHERE mended_at IS NULL RETURNING epoch, since, seen_at
           )
           SELECT max(epoch) AS "epoch!", min(since) AS "since!", max(seen_at) AS "at!", $2::boolean AS "asks_warehouses!" FROM pending"#,
        wanted.since,
        wanted.asks_warehouses,
    )
    .fetch_one(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(Some(set_back))
}

/// Takes a step, unless it was taken in this epoch.
async fn take(connection: &mut PgConnection, step: &Step, set_back: &SetBack) -> Result<String, Failure> {
    let mut tx = connection.begin().await?;
    // one command at a time
    sqlx::query!("SELECT FROM set_back WHERE epoch = $1 FOR NO KEY UPDATE", set_back.epoch)
        .execute(&mut *tx)
        .await?;
    let done = sqlx::query!(
        "SELECT said, done_at FROM set_back_step WHERE epoch = $1 AND step = $2",
        set_back.epoch,
        step.name,
    )
    .fetch_optional(&mut *tx)
    .await?;
    if let Some(done) = done {
        return Ok(format!("{} (done at {})", done.said, time(done.done_at)));
    }
    let said = (step.take)(&mut tx, set_back).await.map_err(|problem| Failure::Step(step.name, problem))?;
    sqlx::query!(
        "INSERT INTO set_back_step (epoch, step, said) VALUES ($1, $2, $3)",
        set_back.epoch,
        step.name,
        said,
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(said)
}

fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// A dump has each sequence as it was while it was dumped; what runs on may remember a later number.
async fn skip_numbers(connection: &mut PgConnection) -> Result<String, Problem> {
    let skipped = sqlx::query_scalar!(
        r#"SELECT count(setval(format('%I.%I', schemaname, sequencename)::regclass, coalesce(last_value, 0) + $1)) AS "skipped!"
           FROM pg_sequences WHERE schemaname = current_schema()"#,
        NUMBERS_APART,
    )
    .fetch_one(connection)
    .await?;
    Ok(format!("{skipped} go on {NUMBERS_APART} higher, that of acceptance among them"))
}

async fn end_sessions(connection: &mut PgConnection, set_back: &SetBack) -> Result<String, Problem> {
    let ended = session::end_until(connection, &Origin::command_line(), set_back.at).await?;
    Ok(format!("{ended} ended; their people log in again"))
}

async fn forget_answers(connection: &mut PgConnection, set_back: &SetBack) -> Result<String, Problem> {
    let forgotten = idempotency::forget_until(connection, set_back.since).await?;
    Ok(format!("{forgotten} that were kept for idempotency keys are forgotten"))
}

async fn forget_partners(connection: &mut PgConnection) -> Result<String, Problem> {
    let memos = fetching::void_memos(connection).await?;
    let counts = items::forget_all_taken(connection).await?;
    Ok(format!("{memos} sources are read whole, and {counts} counts are sent again"))
}

async fn look_anew(connection: &mut PgConnection) -> Result<String, Problem> {
    let filling = fill::look_anew(connection).await?;
    Ok(format!("{filling} wms that were being filled begin anew"))
}

async fn tell_webhooks(connection: &mut PgConnection, set_back: &SetBack) -> Result<String, Problem> {
    let SetBack { epoch, since, at, .. } = *set_back;
    let told = tell_of_restore(connection, epoch, since, at).await?;
    Ok(format!("{told} are sent the event `restored`"))
}
