//! What others have locked of what outcomes are about.

use std::collections::HashSet;

use sqlx::PgConnection;

use super::Outcome;
use crate::expedition::order::Order;
use crate::expedition::stocks;
use longshore_kernel::ids::{ExpeditionId, StockId};
use longshore_kernel::problem::Problem;

/// What is done about a lock that another transaction has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Locks {
    /// It is waited for, for a tenth of a second: what is locked again and again gets its turn.
    Await,
    /// The outcome is left out.
    Skip,
}

impl Locks {
    /// Locks the orders of outcomes, unless those who read them wait for them; returns those that another has locked.
    pub(super) async fn orders(
        self,
        connection: &mut PgConnection,
        outcomes: &[&Outcome],
    ) -> Result<HashSet<ExpeditionId>, sqlx::Error> {
        if self == Self::Await {
            return Ok(HashSet::new());
        }
        let mut left: HashSet<ExpeditionId> = orders_of(outcomes).collect();
        let ids: Vec<ExpeditionId> = left.iter().copied().collect();
        let free = sqlx::query_scalar!(
            r#"SELECT id AS "id: ExpeditionId" FROM expedition WHERE id = ANY($1) ORDER BY id FOR UPDATE SKIP LOCKED"#,
            &ids as &[ExpeditionId],
        )
        .fetch_all(&mut *connection)
        .await?;
        for id in free {
            left.remove(&id);
        }
        if left.is_empty() {
            return Ok(left);
        }
        // one that is gone is not waited for
        let ids: Vec<ExpeditionId> = left.into_iter().collect();
        let locked = sqlx::query_scalar!(
            r#"SELECT id AS "id: ExpeditionId" FROM expedition WHERE id = ANY($1)"#,
            &ids as &[ExpeditionId],
        )
        .fetch_all(connection)
        .await?;
        Ok(locked.into_iter().collect())
    }

    /// The same for the stocks of locked orders; returns the orders that have to wait for one.
    pub(super) async fn stocks(
        self,
        connection: &mut PgConnection,
        orders: &[Order],
    ) -> Result<HashSet<ExpeditionId>, sqlx::Error> {
        if self == Self::Await {
            return Ok(HashSet::new());
        }
        let free: HashSet<StockId> =
            stocks::lock_free(connection, &stocks::of(orders)).await?.into_iter().collect();
        let waits = |order: &&Order| {
            order.items.iter().filter_map(|item| item.stock).any(|stock| !free.contains(&stock))
        };
        Ok(orders.iter().filter(waits).map(|order| order.id).collect())
    }
}

/// The orders whose outcomes were left out: all of a transaction that came to a lock in what it changes besides.
pub(super) fn left_out(
    locked: Result<HashSet<ExpeditionId>, Problem>,
    outcomes: &[&Outcome],
    locks: Locks,
) -> Result<HashSet<ExpeditionId>, Problem> {
    match locked {
        Err(problem) if problem.is_locked() && locks == Locks::Skip => Ok(orders_of(outcomes).collect()),
        locked => locked,
    }
}

/// The orders that outcomes are of.
pub(super) fn orders_of(outcomes: &[&Outcome]) -> impl Iterator<Item = ExpeditionId> {
    outcomes.iter().map(|outcome| outcome.expedition)
}
