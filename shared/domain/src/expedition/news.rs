//! What a warehouse reports of orders (`docs/reference/orders.md#news`): the reports of a chunk are taken in one transaction, in
//! their order.
//!
//! Orders that are too large to be taken together are taken by several statements: what all of these lock is locked before the first.
//!
//! Each report has an id that is unique in its wms, and takes effect once. `row` reads it, `subject` reads what is known of the
//! orders, under their locks; `fold` is pure, and makes of both what the orders are then; `write` writes that by a few statements
//! for all of them.

mod fold;
mod goods;
pub mod lost;
mod parcels;
pub mod retention;
mod row;
mod subject;
mod write;

use std::collections::{BTreeSet, HashMap, HashSet};

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use self::fold::Fold;
use self::lost::Shelf;
pub use self::row::{Row, read_row, schema};
use super::order::{self, Order};
use super::stocks::{self, By};
use crate::job::halving::{Refused, Statement, halve};
use longshore_kernel::access::Scope;
use longshore_kernel::change::Change;
use longshore_kernel::context::Origin;
use longshore_kernel::ids::{ExpeditionId, OrganisationId, StockId, WmsId};
use longshore_kernel::problem::Violation;
use longshore_kernel::queue::Hint;
use longshore_kernel::services::Services;

/// Items of the orders that are looked at together: an order may have a thousand.
const ITEMS: usize = 5_000;

/// Who reports.
#[derive(Clone, Copy, Debug)]
pub struct Reporter<'r> {
    /// Who sent the reports.
    pub origin: &'r Origin,
    /// The organisation of the wms.
    pub organisation: OrganisationId,
    /// The wms.
    pub wms: WmsId,
    /// When the reports came: the moment of those that do not say it.
    pub at: DateTime<Utc>,
}

/// What came of reports.
#[derive(Debug, Default)]
pub struct Applied {
    /// Reports that were taken.
    pub changed: usize,
    /// Reports that were refused, by their position.
    pub refused: Vec<(usize, Vec<Violation>)>,
    /// Webhooks that have something due.
    lanes: Vec<Hint>,
}

/// A report, and the order that it is about, if there is one.
#[derive(Clone, Copy, Debug)]
struct Placed<'r> {
    row: &'r Row,
    order: Option<ExpeditionId>,
}

/// Takes reports, in their order.
///
/// # Errors
/// Those of the database.
pub async fn apply(
    change: &mut Change<'_>,
    reporter: Reporter<'_>,
    rows: &[Row],
) -> Result<Applied, sqlx::Error> {
    let found = subject::find(change.connection(), reporter.organisation, reporter.wms, rows).await?;
    let placed: Vec<Placed<'_>> = rows
        .iter()
        .enumerate()
        .map(|(place, row)| Placed { row, order: found.get(&place).map(|(id, _)| *id) })
        .collect();
    let taking = Taking { reporter, services: change.services() };
    let mut applied = Applied::default();
    let mut start = 0;
    while start < rows.len() {
        let count = group(start, rows.len(), &found);
        if start == 0 && count < rows.len() {
            taking.lock(change.connection(), &placed).await?;
        }
        let halved = halve(change.connection(), &placed[start..start + count], &taking).await?;
        for (part, done) in halved.applied {
            let start = start + part.start;
            applied.refused.extend(done.refused.into_iter().map(|(at, violations)| (start + at, violations)));
            applied.changed += done.changed;
            change.note_lanes(done.lanes);
        }
        for Refused { position, code, message } in halved.refused {
            applied.refused.push((start + position, vec![Violation::new("", code, message)]));
        }
        start += count;
    }
    Ok(applied)
}

/// How many of the reports from a place on are taken together.
fn group(start: usize, end: usize, found: &HashMap<usize, (ExpeditionId, usize)>) -> usize {
    let (mut orders, mut items) = (HashSet::new(), 0_usize);
    for place in start..end {
        if let Some((id, count)) = found.get(&place)
            && orders.insert(*id)
        {
            items = items.saturating_add(*count);
        }
        if items > ITEMS && place > start {
            return place - start;
        }
    }
    end - start
}

/// Takes reports, all or none.
struct Taking<'t> {
    reporter: Reporter<'t>,
    services: &'t Services,
}

impl<'r> Statement<Placed<'r>> for Taking<'_> {
    type Out = Applied;

    async fn apply(&self, tx: &mut PgConnection, rows: &[Placed<'r>]) -> Result<Applied, sqlx::Error> {
        let Reporter { origin, organisation, wms, at } = self.reporter;
        let mut known = taken(tx, wms, rows).await?;
        let orders = self.orders(tx, rows, &known).await?;
        let mut folds = folds(tx, &orders, rows).await?;
        let mut applied = Applied::default();
        let mut shelf = Shelf::open(tx, organisation, wms, rows).await?;
        let mut remembered: Vec<(&Row, ExpeditionId)> = Vec::new();
        for (place, placed) in rows.iter().enumerate() {
            let row = placed.row;
            match known.get(row.id.as_str()) {
                // its effect is there
                Some(digest) if *digest == row.digest => continue,
                Some(_) => {
                    let violation = Violation::new("id", "id_reused", "belongs to an earlier report");
                    applied.refused.push((place, vec![violation]));
                    continue;
                }
                None => {}
            }
            // they are in the order of their ids
            let of = |id| folds.binary_search_by_key(&id, |fold| fold.order.id).ok();
            let Some(fold) = placed.order.and_then(of).and_then(|at| folds.get_mut(at)) else {
                match shelf.take(placed) {
                    Ok(id) => {
                        applied.changed += 1;
                        known.insert(&row.id, row.digest.to_vec());
                        remembered.push((row, id));
                    }
                    Err(violation) => applied.refused.push((place, vec![violation])),
                }
                continue;
            };
            let is_taken = match fold.take(row, at) {
                Ok(()) => {
                    applied.changed += 1;
                    true
                }
                Err(refused) => {
                    applied.refused.push((place, vec![refused.violation]));
                    refused.is_taken
                }
            };
            if is_taken {
                known.insert(&row.id, row.digest.to_vec());
                remembered.push((row, fold.order.id));
            }
        }
        folds.retain(|fold| !fold.kept.is_empty());
        if !folds.is_empty() {
            let mut locked = stocks::lock_ids(tx, &moved(&folds)).await?;
            applied.lanes = write::write(tx, origin, &folds, &mut locked.ledger).await?;
        }
        shelf.write(tx, organisation, wms).await?;
        write::remember(tx, wms, &remembered).await?;
        Ok(applied)
    }

    async fn lock(&self, tx: &mut PgConnection, rows: &[Placed<'r>]) -> Result<(), sqlx::Error> {
        let known = taken(tx, self.reporter.wms, rows).await?;
        let orders = self.orders(tx, rows, &known).await?;
        let moving: HashSet<ExpeditionId> =
            rows.iter().filter(|placed| placed.row.may_move()).filter_map(|placed| placed.order).collect();
        let mut stocks = BTreeSet::new();
        for fold in folds(tx, &orders, rows).await? {
            if moving.contains(&fold.order.id) {
                stocks.extend(fold.items().filter_map(|item| item.stock));
            }
        }
        stocks::lock_ids(tx, &stocks.into_iter().collect::<Vec<_>>()).await.map(|_| ())
    }
}

impl Taking<'_> {
    /// Locks and reads the orders of reports that were not taken before.
    async fn orders<'r>(
        &self,
        tx: &mut PgConnection,
        rows: &[Placed<'r>],
        known: &HashMap<&'r str, Vec<u8>>,
    ) -> Result<Vec<Order>, sqlx::Error> {
        let Reporter { organisation, wms, .. } = self.reporter;
        let is_new = |placed: &&Placed<'_>| !known.contains_key(placed.row.id.as_str());
        let ids: BTreeSet<Uuid> =
            rows.iter().filter(is_new).filter_map(|placed| placed.order).map(ExpeditionId::get).collect();
        let ids: Vec<ExpeditionId> = ids.into_iter().map(ExpeditionId::from).collect();
        let mut orders = order::lock(tx, &Scope::Wms { organisation, wms }, &ids).await?;
        // it may have been moved to another place a moment ago
        orders.retain(|order| order.place.wms == wms);
        let packed: HashSet<ExpeditionId> =
            rows.iter().filter(|placed| placed.row.is_packed()).filter_map(|placed| placed.order).collect();
        // what a packed order takes out of a stock needs one, even if the order is not the one that was handed over
        let strays = orders.iter_mut().filter(|order| packed.contains(&order.id));
        let by = By::AnotherUnderLocks(&self.services.db.main);
        stocks::make_missing(by, &mut strays.collect::<Vec<_>>()).await?;
        Ok(orders)
    }
}

/// The reports that were taken before, with what they said.
async fn taken<'r>(
    connection: &mut PgConnection,
    wms: WmsId,
    rows: &[Placed<'r>],
) -> Result<HashMap<&'r str, Vec<u8>>, sqlx::Error> {
    let ids: Vec<&'r str> = rows.iter().map(|placed| placed.row.id.as_str()).collect();
    let found = sqlx::query!(
        // each by its key, independent of the statistics
        r#"SELECT g.place AS "place!", n.digest
           FROM unnest($2::text[]) WITH ORDINALITY AS g (id, place)
           CROSS JOIN LATERAL (SELECT digest FROM wms_news WHERE wms_id = $1 AND id = g.id LIMIT 1) AS n"#,
        wms.get(),
        &ids as &[&str],
    )
    .fetch_all(connection)
    .await?;
    let of = |place: i64| usize::try_from(place - 1).ok().and_then(|place| ids.get(place).copied());
    Ok(found.into_iter().filter_map(|row| Some((of(row.place)?, row.digest))).collect())
}

/// What is known of locked orders.
async fn folds<'o>(
    connection: &mut PgConnection,
    orders: &'o [Order],
    rows: &[Placed<'_>],
) -> Result<Vec<Fold<'o>>, sqlx::Error> {
    let of = |is_meant: fn(&Row) -> bool| -> HashSet<Uuid> {
        let meant = rows.iter().filter(|placed| is_meant(placed.row));
        meant.filter_map(|placed| placed.order).map(ExpeditionId::get).collect()
    };
    let with_parcels: Vec<Uuid> = of(|row| !row.parcels.is_empty()).into_iter().collect();
    let counted = of(|row| row.items.is_some());
    let packed = orders.iter().filter(|order| order.state.status.is_packed());
    let counted: Vec<Uuid> = packed.map(|order| order.id.get()).filter(|id| counted.contains(id)).collect();
    let packed = of(Row::is_packed);
    let known = subject::read(connection, orders, &with_parcels, &counted, &packed).await?;
    Ok(orders.iter().zip(known).map(|(order, known)| Fold::new(order, known)).collect())
}

/// The stocks that change: of orders that are packed or give their pieces back.
fn moved(folds: &[Fold<'_>]) -> Vec<StockId> {
    let mut stocks = BTreeSet::new();
    for fold in folds {
        if fold.gives_back() || fold.left.is_some() {
            stocks.extend(fold.order.items.iter().filter_map(|item| item.stock));
        }
        let strays = fold.strays.iter().filter_map(|stray| stray.gone.as_ref()).flatten();
        stocks.extend(strays.map(|gone| gone.stock));
    }
    stocks.into_iter().collect()
}
