//! What the worker does in places that have marked stocks: takes back bookings that are no longer covered, then serves the orders
//! that wait, in turn (`docs/reference/orders.md#booking`).
//!
//! One transaction at a time works in a place; an advisory lock of the transaction sees to that, so the lock of a process that
//! dies ends with its connection. A transaction looks at a limited number of orders, and the mark of a stock is removed by one
//! that has locked the stock and then sees that no order is left to look at. So an interrupted allocation is found again.

use std::time::Duration;

use sqlx::PgConnection;
use uuid::Uuid;

use super::decision::placed;
pub use super::order::Place;
use super::order::{self, Order, State};
use super::stocks;
use super::tally::{self, ALLOCATION};
use super::write::{Transition, write};
use crate::list::fields::expedition::ExpeditionStatus as Status;
use longshore_kernel::access::Scope;
use longshore_kernel::change::Change;
use longshore_kernel::context::Origin;
use longshore_kernel::ids::{ExpeditionId, OrganisationId, StockId};
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// Orders that a transaction looks at: few enough that another place is served within a second, also where several organisations
/// have many.
pub const ORDERS: i64 = 500;
/// Items that they have together; more only if the first of them has more.
pub const ITEMS: i64 = 2_500;
/// Marked stocks that a transaction looks at.
const STOCKS: i64 = 1_000;

/// A place that has marked stocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Whose they are.
    pub organisation: OrganisationId,
    /// The place.
    pub place: Place,
}

/// Places that are found at once.
const PLACES: i64 = 1_000;

/// The places that have marked stocks: the one of each organisation that has waited longest first, then the second of each, and so
/// on, so that an organisation with many hides no other.
pub async fn places(services: &Services) -> Result<Vec<Due>, Problem> {
    // one step through the index for each place, however many of its stocks are marked
    let places = sqlx::query!(
        r#"WITH RECURSIVE place AS (
               (SELECT s.organisation_id, s.warehouse_id, s.wms_id, s.marked_at FROM product_stock s
                WHERE s.marked_at IS NOT NULL ORDER BY s.warehouse_id, s.wms_id, s.marked_at LIMIT 1)
               UNION ALL
               SELECT next.* FROM place p CROSS JOIN LATERAL (
                   SELECT s.organisation_id, s.warehouse_id, s.wms_id, s.marked_at FROM product_stock s
                   WHERE s.marked_at IS NOT NULL AND (s.warehouse_id, s.wms_id) > (p.warehouse_id, p.wms_id)
                   ORDER BY s.warehouse_id, s.wms_id, s.marked_at LIMIT 1
               ) next
           )
           SELECT organisation_id AS "organisation_id!", warehouse_id AS "warehouse_id!", wms_id AS "wms_id!"
           FROM (SELECT *, row_number() OVER (PARTITION BY organisation_id ORDER BY marked_at) AS turn FROM place) AS place
           ORDER BY turn, marked_at LIMIT $1"#,
        PLACES,
    )
    .fetch_all(&services.db.main)
    .await?;
    let due = |organisation: Uuid, warehouse: Uuid, wms: Uuid| Due {
        organisation: organisation.into(),
        place: Place { warehouse: warehouse.into(), wms: wms.into() },
    };
    Ok(places.into_iter().map(|row| due(row.organisation_id, row.warehouse_id, row.wms_id)).collect())
}

/// What one transaction did in a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocated {
    /// Orders that were booked.
    pub booked: usize,
    /// Orders whose bookings were taken back.
    pub taken_back: usize,
    /// Orders that wait for another stock since, or for the same one in the line.
    pub left_waiting: usize,
    /// Whether a mark is left.
    pub is_more: bool,
}

impl Allocated {
    /// Whether an order changed.
    #[must_use]
    pub fn has_done_something(&self) -> bool {
        self.booked + self.taken_back + self.left_waiting > 0
    }
}

/// Looks at the orders of a place: one transaction, which waits no longer than this for a lock. Nothing where another one works there.
pub async fn allocate(services: &Services, place: Place, patience: Duration) -> Result<Allocated, Problem> {
    let mut change = Change::begin(services).await?;
    let patience = format!("{}ms", patience.as_millis());
    sqlx::query!("SELECT set_config('lock_timeout', $1, true) AS set", patience)
        .fetch_one(change.connection())
        .await?;
    let is_alone = sqlx::query_scalar!(
        r#"SELECT pg_try_advisory_xact_lock(hashtextextended('allocation ' || $1::uuid || $2::uuid, 0)) AS "alone!""#,
        place.warehouse.get(),
        place.wms.get(),
    )
    .fetch_one(change.connection())
    .await?;
    if !is_alone {
        return Ok(Allocated::default());
    }
    let marked = marked(change.connection(), place).await?;
    let excess: Vec<&Marked> = marked.iter().filter(|stock| stock.excess > 0).collect();
    let last = last_in_turn(change.connection(), place, &excess).await?;
    // what is taken back may cover what others wait for: these are looked at afterwards
    let serves = last.is_empty();
    let ids = if serves { first_in_turn(change.connection(), place).await? } else { last };
    let orders = order::lock(change.connection(), &Scope::Everything, &ids).await?;
    let mut wanted: Vec<StockId> = marked.iter().map(|stock| stock.id).collect();
    wanted.extend(orders.iter().flat_map(|order| &order.items).filter_map(|item| item.stock));
    wanted.sort_unstable();
    wanted.dedup();
    let mut ledger = stocks::lock_ids(change.connection(), &wanted).await?.ledger;
    // now that the stocks are locked, no order comes to wait for them any more; one that came before that and is earlier in turn is
    // not overtaken: it, and those after it, are looked at by the next transaction
    let ids = if serves { first_in_turn(change.connection(), place).await? } else { ids };
    let in_turn: Vec<&Order> = ids.iter().map_while(|id| find(&orders, *id)).collect();
    let mut allocated = Allocated::default();
    let mut transitions = Vec::new();
    for order in in_turn {
        let state = if serves {
            // held, cancelled or served meanwhile
            if !order.state.status.is_waiting() || order.state.is_paused {
                continue;
            }
            // one that an earlier version sent without a stock holds up no other: `doctor` names it
            let Ok(demand) = order.demand() else { continue };
            let state = placed(order, ledger.serve(&demand));
            allocated.booked += usize::from(state.status.is_booked());
            allocated.left_waiting += usize::from(state.status.is_waiting() && state != order.state);
            state
        } else {
            // a call may have begun since it was found
            if !matches!(order.state.status, Status::StockOk | Status::AwaitingProcessing)
                || order.is_handed_over()
            {
                continue;
            }
            let Some(lack) = ledger.take_back(&order.entered()) else { continue };
            allocated.taken_back += 1;
            State { status: Status::WaitingForGoods, waits_for: Some(lack), ..order.state.clone() }
        };
        transitions.push(Transition {
            order,
            state,
            action: ALLOCATION,
            remark: None,
            origin: 0,
            is_raised: false,
            handover_error: None,
        });
    }
    let (_, lanes) = write(change.connection(), &[&origin()], &transitions, &mut ledger).await?;
    change.note_lanes(lanes);
    change.note_orders(tally::of(&transitions));
    let marked: Vec<StockId> = marked.into_iter().map(|stock| stock.id).collect();
    unmark(change.connection(), &marked).await?;
    allocated.is_more = is_marked(change.connection(), place).await?;
    change.commit().await?;
    Ok(allocated)
}

fn find(orders: &[Order], id: ExpeditionId) -> Option<&Order> {
    orders.binary_search_by_key(&id, |order| order.id).ok().and_then(|place| orders.get(place))
}

/// The allocator, in the audit.
fn origin() -> Origin {
    Origin::schedule("allocator")
}

/// A marked stock.
struct Marked {
    id: StockId,
    product: Uuid,
    /// Pieces that are held though they are not there.
    excess: i64,
}

async fn marked(connection: &mut PgConnection, place: Place) -> Result<Vec<Marked>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"SELECT id, product_id, held - quantity AS "excess!" FROM product_stock
           WHERE warehouse_id = $1 AND wms_id = $2 AND marked_at IS NOT NULL
           ORDER BY marked_at LIMIT $3"#,
        place.warehouse.get(),
        place.wms.get(),
        STOCKS,
    )
    .fetch_all(connection)
    .await?;
    let marked = |row: Uuid, product, excess| Marked { id: row.into(), product, excess };
    Ok(rows.into_iter().map(|row| marked(row.id, row.product_id, row.excess)).collect())
}

/// Orders whose bookings a stock no longer covers, from the last in turn to the first, until those that are left are covered.
async fn last_in_turn(
    connection: &mut PgConnection,
    place: Place,
    stocks: &[&Marked],
) -> Result<Vec<ExpeditionId>, sqlx::Error> {
    if stocks.is_empty() {
        return Ok(Vec::new());
    }
    let products: Vec<Uuid> = stocks.iter().map(|stock| stock.product).collect();
    let excess: Vec<i64> = stocks.iter().map(|stock| stock.excess).collect();
    let rows = sqlx::query!(
        r#"WITH holder AS (
               SELECT e.id, e.priority, e.created_at, e.count_of_items, x.excess,
                      sum(h.quantity) OVER (PARTITION BY x.product ORDER BY e.priority, e.created_at DESC, e.id DESC)
                          - h.quantity AS before
               FROM unnest($3::uuid[], $4::bigint[]) AS x (product, excess)
               JOIN product_stock s ON s.product_id = x.product AND s.warehouse_id = $1 AND s.wms_id = $2
               CROSS JOIN LATERAL (
                   SELECT i.expedition_id, sum(i.quantity) AS quantity
                   FROM holders(x.product, $1, $2, s.held) AS i GROUP BY i.expedition_id
               ) h
               JOIN expedition e ON e.id = ANY (ARRAY[h.expedition_id])
               LEFT JOIN expedition_handover n ON n.id = ANY (ARRAY[h.expedition_id])
               WHERE e.status IN ('stock_ok', 'awaiting_processing')
                 AND NOT is_handed_over(e.status, n.handover_state)
           ), last AS (
               SELECT DISTINCT id, priority, created_at, count_of_items FROM holder WHERE before < excess
           ), counted AS (
               SELECT *, sum(count_of_items) OVER (ORDER BY priority, created_at DESC, id DESC) - count_of_items AS items
               FROM last
           )
           SELECT id FROM counted WHERE items < $6 ORDER BY priority, created_at DESC, id DESC LIMIT $5"#,
        place.warehouse.get(),
        place.wms.get(),
        &products,
        &excess,
        ORDERS,
        ITEMS,
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| row.id.into()).collect())
}

/// Orders that wait for marked stocks of a place and can be looked at, in turn.
async fn first_in_turn(
    connection: &mut PgConnection,
    place: Place,
) -> Result<Vec<ExpeditionId>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"WITH marked AS MATERIALIZED (
               SELECT id, quantity - held AS free FROM product_stock
               WHERE warehouse_id = $1 AND wms_id = $2 AND marked_at IS NOT NULL
               ORDER BY marked_at LIMIT $5
           ), waiting AS (
               SELECT w.* FROM marked CROSS JOIN LATERAL (
                   SELECT e.id, e.priority, e.created_at, e.count_of_items FROM expedition e
                   WHERE e.waits_for_id = marked.id
                     AND (e.status = 'awaiting_reservation' OR e.waits_quantity <= marked.free)
                   ORDER BY e.priority DESC, e.created_at, e.id LIMIT $3
               ) w
           ), counted AS (
               SELECT *, sum(count_of_items) OVER (ORDER BY priority DESC, created_at, id) - count_of_items AS items
               FROM waiting
           )
           SELECT id FROM counted WHERE items < $4 ORDER BY priority DESC, created_at, id LIMIT $3"#,
        place.warehouse.get(),
        place.wms.get(),
        ORDERS,
        ITEMS,
        STOCKS,
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| row.id.into()).collect())
}

/// Removes the marks of locked stocks that no order waits for.
async fn unmark(connection: &mut PgConnection, stocks: &[StockId]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE product_stock s SET marked_at = NULL
         WHERE s.id = ANY($1) AND s.marked_at IS NOT NULL
           AND NOT EXISTS (
               SELECT FROM expedition e
               WHERE e.waits_for_id = s.id
                 AND (e.status = 'awaiting_reservation' OR e.waits_quantity <= s.quantity - s.held))
           AND NOT (s.held > s.quantity AND EXISTS (
               SELECT FROM holders(s.product_id, s.warehouse_id, s.wms_id, s.held) AS i
               JOIN expedition e ON e.id = ANY (ARRAY[i.expedition_id])
               LEFT JOIN expedition_handover n ON n.id = ANY (ARRAY[i.expedition_id])
               WHERE e.status IN ('stock_ok', 'awaiting_processing')
                 AND (NOT is_handed_over(e.status, n.handover_state)
                      -- its first call is recorded, and may yet be put down before it is made
                      OR n.handover_state = 'sending' AND n.handover_attempts <= 1 AND n.handover_in_call_until > now())))",
        stocks as &[StockId],
    )
    .execute(connection)
    .await
    .map(|_| ())
}

async fn is_marked(connection: &mut PgConnection, place: Place) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM product_stock WHERE warehouse_id = $1 AND wms_id = $2 AND marked_at IS NOT NULL)
           AS "marked!""#,
        place.warehouse.get(),
        place.wms.get(),
    )
    .fetch_one(connection)
    .await
}
