//! The end: cancelling, and closing those that were left open. Announced pieces that have not arrived are no longer expected.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use super::ATTEMPTS;
use super::record::{self, Item};
use crate::list::fields::stock_advice::AdviceStatus;
use crate::warehouse::stock::movement;
use longshore_kernel::access::Scope;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::ids::StockAdviceId;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// Cancels an advice (`PUT /api/stock-advice/{id}/cancel`). One that has ended is refused. What has been
/// received stays in stock. `check` refuses a version.
pub async fn cancel(
    services: &Services,
    context: &Context,
    id: StockAdviceId,
    check: impl Fn(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    for _ in 1..ATTEMPTS {
        match attempt(services, context, id, &check).await {
            Err(problem) if problem.is_contention() && !problem.is_locked() => {}
            outcome => return outcome,
        }
    }
    attempt(services, context, id, &check).await
}

async fn attempt(
    services: &Services,
    context: &Context,
    id: StockAdviceId,
    check: impl Fn(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    let advice = record::lock(change.connection(), context.scope(), id).await?;
    check(advice.version)?;
    advice.must_be_open()?;
    let items = advice.items(change.connection()).await?;
    let origin = &context.origin;
    let recorded = advice
        .write(change.connection(), origin, "stock_advice.cancel", AdviceStatus::Cancelled, &[])
        .await?;
    change.note(recorded);
    let moves: Vec<_> = items.iter().map(Item::withdrawn).collect();
    movement::apply(&mut change, origin, "stock_advice.cancel", id, advice.place, &moves, None).await?;
    let answer = record::updated(change.connection(), context.scope(), id).await?;
    change.answer(context.claim, answer).await
}

/// Advices that one call closes, and that are looked for at once.
pub const CLOSED_AT_ONCE: i64 = 100;

/// Closes open advices of organisations with a `stockAdviceCloseInterval`, so many days after `expectedAt` or the last receipt,
/// whichever is later; returns how many. Each is closed like by hand, in a transaction of its own: an advice is locked before
/// its stocks. One that is locked, or cannot be closed, is passed over and due again: it holds up no other, however many there are.
pub async fn close_due(services: &Services) -> Result<u64, Problem> {
    let (mut closed, mut failed, mut last) = (0, None, None);
    loop {
        let due = due_after(services, last).await?;
        for (_, id) in &due {
            match close(services, *id).await {
                Ok(is_closed) => closed += i64::from(is_closed),
                Err(problem) => failed = Some(problem),
            }
        }
        let is_last = i64::try_from(due.len()).is_ok_and(|count| count < CLOSED_AT_ONCE);
        last = due.last().copied();
        if is_last || closed >= CLOSED_AT_ONCE {
            break;
        }
    }
    failed.filter(|_| closed == 0).map_or(Ok(closed.unsigned_abs()), Err)
}

/// Where an advice is among those that are due.
type Position = (DateTime<Utc>, StockAdviceId);

/// Advices that are to be closed, after one of them.
async fn due_after(services: &Services, last: Option<Position>) -> Result<Vec<Position>, sqlx::Error> {
    let due = sqlx::query!(
        r#"SELECT a.id AS "id: StockAdviceId", a.expected_at FROM stock_advice a
           JOIN organisation o ON o.id = a.organisation_id
           WHERE a.status IN ('new', 'receiving') AND a.expected_at <= now()
             AND (a.expected_at, a.id) > (coalesce($2::timestamptz, '-infinity'), coalesce($3::uuid, '00000000-0000-0000-0000-000000000000'))
             AND stock_advice_is_due(a.id, a.expected_at, o.stock_advice_close_interval)
           ORDER BY a.expected_at, a.id LIMIT $1"#,
        CLOSED_AT_ONCE,
        last.map(|(expected_at, _)| expected_at) as Option<DateTime<Utc>>,
        last.map(|(_, id)| id.get()) as Option<Uuid>,
    )
    .fetch_all(&services.db.main)
    .await?;
    Ok(due.into_iter().map(|row| (row.expected_at, row.id)).collect())
}

/// Closes an advice, if it is still open and due, and not locked.
async fn close(services: &Services, id: StockAdviceId) -> Result<bool, Problem> {
    const ACTION: &str = "stock_advice.close";
    let origin = Origin::schedule("upkeep");
    let mut change = Change::begin_together(services).await?;
    let free = sqlx::query_scalar!(
        "SELECT id FROM stock_advice WHERE id = $1 FOR NO KEY UPDATE SKIP LOCKED",
        id.get(),
    )
    .fetch_optional(change.connection())
    .await?;
    if free.is_none() {
        return Ok(false);
    }
    let advice = record::lock(change.connection(), &Scope::Everything, id).await?;
    if !advice.status.is_open() || !is_due(change.connection(), id).await? {
        return Ok(false);
    }
    let items = advice.items(change.connection()).await?;
    let recorded = advice.write(change.connection(), &origin, ACTION, AdviceStatus::Closed, &[]).await?;
    change.note(recorded);
    let moves: Vec<_> = items.iter().map(Item::withdrawn).collect();
    movement::apply(&mut change, &origin, ACTION, id, advice.place, &moves, None).await?;
    change.commit().await?;
    Ok(true)
}

async fn is_due(connection: &mut PgConnection, id: StockAdviceId) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT stock_advice_is_due(a.id, a.expected_at, o.stock_advice_close_interval) AS "is_due!"
           FROM stock_advice a JOIN organisation o ON o.id = a.organisation_id WHERE a.id = $1"#,
        id.get(),
    )
    .fetch_one(connection)
    .await
}
