//! Receiving: what has come goes from `incoming` to `quantity`.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::ATTEMPTS;
use super::record::{self, Item};
use super::rules::{self, Receipt};
use crate::list::fields::stock_advice::AdviceStatus;
use crate::warehouse::stock::movement::{self, Kind, Move, Place};
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::ids::{AdviceItemId, StockAdviceId};
use longshore_kernel::input::Reader;
use longshore_kernel::problem::{Problem, Violation, with_found};
use longshore_kernel::services::Services;

/// Receives goods (`PUT /api/stock-advice/{id}/receive`). An advice that has ended is refused. `check` refuses a
/// version.
pub async fn receive(
    services: &Services,
    context: &Context,
    id: StockAdviceId,
    body: Value,
    check: impl Fn(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    // a body is judged only once it is clear that the caller may see the advice
    let (receipt, refused) = Reader::draft(body, rules::receipt());
    for _ in 1..ATTEMPTS {
        match attempt(services, context, id, &receipt, &refused, &check).await {
            Err(problem) if problem.is_contention() && !problem.is_locked() => {}
            outcome => return outcome,
        }
    }
    attempt(services, context, id, &receipt, &refused, &check).await
}

async fn attempt(
    services: &Services,
    context: &Context,
    id: StockAdviceId,
    receipt: &Receipt,
    refused: &[Violation],
    check: impl Fn(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    let advice = record::lock(change.connection(), context.scope(), id).await?;
    check(advice.version)?;
    if refused.is_empty() {
        advice.must_be_open()?;
    }
    let items = advice.items(change.connection()).await?;
    let settled = match settle(&items, receipt) {
        Ok(settled) if refused.is_empty() => settled,
        judged => {
            let found = judged.err().unwrap_or_default();
            return Err(Problem::invalid(with_found(refused.to_vec(), found)));
        }
    };
    let (action, status) = if receipt.close {
        ("stock_advice.close", AdviceStatus::Closed)
    } else {
        ("stock_advice.receive", AdviceStatus::Receiving)
    };
    let origin = &context.origin;
    let recorded = advice.write(change.connection(), origin, action, status, &settled.received).await?;
    change.note(recorded);
    let came = issue(change.connection(), id, advice.place, &settled.moves).await?;
    movement::apply(&mut change, origin, action, id, advice.place, &settled.moves, came).await?;
    let answer = record::updated(change.connection(), context.scope(), id).await?;
    change.answer(context.claim, answer).await
}

/// Writes what came at once; returns its id. Where nothing came, there is none.
async fn issue(
    connection: &mut PgConnection,
    advice: StockAdviceId,
    place: Place,
    moves: &[Move],
) -> Result<Option<Uuid>, sqlx::Error> {
    let came: Vec<&Move> = moves.iter().filter(|came| came.kind == Kind::Received).collect();
    if came.is_empty() {
        return Ok(None);
    }
    let products: HashSet<Uuid> = came.iter().map(|came| came.product).collect();
    let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    sqlx::query_scalar!(
        "INSERT INTO inbound_receipt (id, organisation_id, stock_advice_id, warehouse_id, wms_id, count_of_items, count_of_sku,
                                      sum_of_quantity, created_at)
         VALUES (uuid_v7(), $1, $2, $3, $4, $5, $6, $7, clock_timestamp()) RETURNING id",
        place.organisation.get(),
        advice.get(),
        place.warehouse,
        place.wms,
        count(came.len()),
        count(products.len()),
        came.iter().map(|came| i64::from(came.quantity)).sum::<i64>(),
    )
    .fetch_one(connection)
    .await
    .map(Some)
}

/// What a receipt amounts to.
#[derive(Debug)]
struct Settled {
    /// The items with received pieces, and all their received pieces.
    received: Vec<Item>,
    moves: Vec<Move>,
}

/// Sets a receipt against the items: all that came goes into stock, and what it fulfils of the announcement is expected
/// no more. Closing, nothing is.
fn settle(items: &[Item], receipt: &Receipt) -> Result<Settled, Vec<Violation>> {
    let known: HashMap<AdviceItemId, &Item> = items.iter().map(|item| (item.id, item)).collect();
    let mut violations = Vec::new();
    let mut received = Vec::with_capacity(receipt.items.len());
    let mut moves = Vec::with_capacity(receipt.items.len());
    for (index, arrived) in receipt.items.iter().enumerate() {
        let mut refuse = |path: &str, code, message: &str| {
            violations.push(Violation::new(format!("items[{index}].{path}"), code, message));
        };
        let Some(item) = known.get(&arrived.id).copied() else {
            refuse("id", "unknown_reference", "must be an item of the stock advice");
            continue;
        };
        let Some(total) = item.received.checked_add(arrived.quantity) else {
            refuse("quantity", "out_of_range", "is more than one item can receive");
            continue;
        };
        let item_now = Item { received: total, ..item.clone() };
        moves.push(Move {
            product: item.product,
            kind: Kind::Received,
            quantity: arrived.quantity,
            incoming: item_now.left() - item.left(),
        });
        received.push(item_now);
    }
    if !violations.is_empty() {
        return Err(violations);
    }
    if receipt.close {
        let now: HashMap<AdviceItemId, &Item> = received.iter().map(|item| (item.id, item)).collect();
        moves.extend(items.iter().map(|item| now.get(&item.id).copied().unwrap_or(item).withdrawn()));
    }
    Ok(Settled { received, moves })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warehouse::stock_advice::rules::Arrived;

    fn item(id: u128, quantity: i32, received: i32) -> Item {
        Item { id: AdviceItemId::from_u128(id), product: Uuid::from_u128(id + 100), quantity, received }
    }

    fn receipt(items: &[(u128, i32)], close: bool) -> Receipt {
        let items = items
            .iter()
            .map(|(id, quantity)| Arrived { id: AdviceItemId::from_u128(*id), quantity: *quantity });
        Receipt { items: items.collect(), close }
    }

    fn moved(settled: &Settled) -> Vec<(u128, &'static str, i32, i32)> {
        let all =
            settled.moves.iter().map(|m| (m.product.as_u128(), m.kind.as_str(), m.quantity, m.incoming));
        all.filter(|(.., quantity, incoming)| *quantity != 0 || *incoming != 0).collect()
    }

    #[test]
    fn a_surplus_is_in_stock_and_fulfils_no_more_than_was_announced() {
        let items = [item(1, 10, 4), item(2, 5, 0)];
        let settled = settle(&items, &receipt(&[(1, 9)], false)).unwrap();
        assert_eq!(moved(&settled), [(101, "received", 9, -6)]);
        assert_eq!(settled.received[0].received, 13);
        let more = [item(1, 10, 13)];
        assert_eq!(moved(&settle(&more, &receipt(&[(1, 2)], false)).unwrap()), [(101, "received", 2, 0)]);
    }

    #[test]
    fn closing_removes_the_missing_pieces_from_incoming() {
        let items = [item(1, 10, 0), item(2, 5, 5), item(3, 2, 1)];
        let settled = settle(&items, &receipt(&[(1, 4)], true)).unwrap();
        assert_eq!(
            moved(&settled),
            [(101, "received", 4, -4), (101, "withdrawn", 0, -6), (103, "withdrawn", 0, -1)]
        );
    }

    #[test]
    fn unknown_items_and_excessive_quantities_are_named() {
        let refused = settle(&[item(1, 1, i32::MAX)], &receipt(&[(1, 1), (2, 1)], false)).unwrap_err();
        let paths: Vec<_> = refused.iter().map(|v| v.property_path.as_str()).collect();
        assert_eq!(paths, ["items[0].quantity", "items[1].id"]);
    }
}
