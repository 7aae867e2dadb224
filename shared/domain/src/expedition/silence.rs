//! Orders on their way that have no more news (`docs/reference/orders.md#statuses`): after some days without news, they
//! were probably delivered.

use sqlx::PgConnection;

use super::allocator::Ledger;
use super::order::{self, State};
use super::tally;
use super::write::{Transition, write};
use crate::list::fields::expedition::ExpeditionStatus as Status;
use longshore_kernel::access::Scope;
use longshore_kernel::change::Change;
use longshore_kernel::context::Origin;
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// Days without news, where a setting does not say otherwise.
pub const DAYS: u16 = 14;

/// Orders that one call moves.
pub const MOVED_AT_ONCE: i64 = 500;

/// Moves orders on their way that have had no news for so many days, the longest silent first; returns how many. Those that another transaction
/// has locked are about to change, and are left to the next call.
pub async fn presume(services: &Services, days: u16) -> Result<u64, Problem> {
    let mut change = Change::begin(services).await?;
    let ids = silent(change.connection(), days).await?;
    let orders = order::lock(change.connection(), &Scope::Everything, &ids).await?;
    let transitions: Vec<Transition<'_>> = orders
        .iter()
        .map(|order| Transition {
            order,
            state: State { status: Status::ProbablyDelivered, ..order.state.clone() },
            action: "expedition.status",
            remark: None,
            origin: 0,
            is_raised: false,
            handover_error: None,
        })
        .collect();
    let (_, lanes) = write(change.connection(), &[&origin()], &transitions, &mut Ledger::default()).await?;
    change.note_lanes(lanes);
    change.note_orders(tally::of(&transitions));
    change.commit().await?;
    Ok(u64::try_from(transitions.len()).unwrap_or(u64::MAX))
}

/// Locks orders that have been on their way without news for so many days. What the warehouse said that changed no status is in the
/// audit.
async fn silent(connection: &mut PgConnection, days: u16) -> Result<Vec<ExpeditionId>, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT e.id AS "id: ExpeditionId" FROM expedition e
           WHERE e.status IN ('carrier_picked_up', 'ready_to_takeover')
             AND e.status_since <= now() - make_interval(days => $1)
             AND NOT EXISTS (
                 SELECT FROM audit a
                 WHERE a.entity_id = e.id AND a.entity_type = $3 AND a.action IN ('expedition.status', 'expedition.news')
                   AND a.at > now() - make_interval(days => $1))
           ORDER BY e.status_since, e.id LIMIT $2
           FOR UPDATE OF e SKIP LOCKED"#,
        i32::from(days),
        MOVED_AT_ONCE,
        super::write::ENTITY,
    )
    .fetch_all(connection)
    .await
}

fn origin() -> Origin {
    Origin::schedule("upkeep")
}
