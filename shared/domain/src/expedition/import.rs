//! Taking over the orders of an e-shop (`docs/reference/orders.md#import`): the rows of a chunk are created, changed or cancelled
//! in one transaction, in their order, and sent exactly as sending does.
//!
//! A row is matched by its `orderNumber` in the e-shop. The digest of the row that was last taken is kept, so that the same row
//! changes nothing when it comes again, even where a person has corrected the order since.

mod group;
mod row;

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use self::group::Group;
pub(super) use self::row::digest;
pub use self::row::{Row, read_row, schema};
use crate::job::halving::{Refused, Statement, halve};
use longshore_kernel::change::Change;
use longshore_kernel::context::Origin;
use longshore_kernel::ids::{EshopId, OrganisationId};
use longshore_kernel::metrics::OrderCounts;
use longshore_kernel::problem::Violation;
use longshore_kernel::queue::Hint;
use longshore_kernel::services::Services;

/// Items that are taken over together, bundles taken apart: a row of a kilobyte may name a bundle of a thousand parts.
const ITEMS: usize = 5_000;

/// What an import is.
#[derive(Clone, Copy, Debug)]
pub struct Import<'i> {
    /// Who imports.
    pub origin: &'i Origin,
    /// Organisation of the e-shop.
    pub organisation: OrganisationId,
    /// The e-shop.
    pub eshop: EshopId,
    /// Whether new orders are sent, where their rows do not say it.
    pub send: Option<bool>,
    /// When it was accepted: the first row is created then, each later one a microsecond later.
    pub accepted_at: DateTime<Utc>,
}

/// What came of rows.
#[derive(Debug, Default)]
pub struct Applied {
    /// Rows that created or changed an order.
    pub changed: usize,
    /// Rows that were refused, by their position.
    pub refused: Vec<(usize, Vec<Violation>)>,
    /// Webhooks that have something due.
    lanes: Vec<Hint>,
    counts: OrderCounts,
}

/// A row, and its position in the job.
#[derive(Clone, Copy, Debug)]
struct Placed<'r> {
    row: &'r Row,
    index: i32,
}

/// Takes over rows; `indexes` are their positions in the job.
pub async fn apply(
    change: &mut Change<'_>,
    import: Import<'_>,
    rows: &[Row],
    indexes: &[i32],
) -> Result<Applied, sqlx::Error> {
    let placed: Vec<Placed<'_>> =
        rows.iter().zip(indexes).map(|(row, index)| Placed { row, index: *index }).collect();
    let parts = count_parts(change.connection(), import.organisation, rows).await?;
    let taking = Taking { import, services: change.services() };
    let mut applied = Applied::default();
    let mut start = 0;
    while start < rows.len() {
        let count = group(&rows[start..], &parts[start..]);
        let halved = halve(change.connection(), &placed[start..start + count], &taking).await?;
        for (part, done) in halved.applied {
            let start = start + part.start;
            let refused = done.refused.into_iter().map(|(at, violations)| (start + at, violations));
            applied.refused.extend(refused);
            applied.changed += done.changed;
            change.note_lanes(done.lanes);
            change.note_orders(done.counts);
        }
        for Refused { position, message } in halved.refused {
            applied.refused.push((start + position, vec![Violation::new("", "refused", message)]));
        }
        start += count;
    }
    Ok(applied)
}

/// How many of the first rows are taken over together. Each number is among them once, since an order may be created and
/// cancelled in one chunk; each external id too, so that the later of two orders is refused for it.
fn group(rows: &[Row], parts: &[usize]) -> usize {
    let (mut numbers, mut external_ids, mut items) = (HashSet::new(), HashSet::new(), 0);
    for (count, (row, parts)) in rows.iter().zip(parts).enumerate() {
        items += row.items().len() + parts;
        let is_new = row.external_id().is_none_or(|id| external_ids.insert(id));
        if !(numbers.insert(&row.order_number) && is_new) || (items > ITEMS && count > 0) {
            return count;
        }
    }
    rows.len()
}

/// How many items each row has in the place of its bundles.
async fn count_parts(
    connection: &mut PgConnection,
    organisation: OrganisationId,
    rows: &[Row],
) -> Result<Vec<usize>, sqlx::Error> {
    let (mut of, mut products, mut skus) = (Vec::new(), Vec::new(), Vec::new());
    for (row, at) in rows.iter().zip(0_i64..) {
        for item in row.items() {
            of.push(at);
            products.push(item.product);
            skus.push(item.product_sku.as_deref());
        }
    }
    let found = sqlx::query!(
        // each by its key, independent of the statistics
        r#"SELECT g.row AS "row!", count(*) AS "parts!"
           FROM unnest($2::bigint[], $3::uuid[], $4::text[]) AS g (row, product, sku)
           CROSS JOIN LATERAL (
               (SELECT id, type FROM product WHERE id = g.product AND organisation_id = $1)
               UNION ALL
               (SELECT id, type FROM product
                WHERE organisation_id = $1 AND product_sku >= g.sku AND product_sku <= g.sku ORDER BY product_sku LIMIT 1)
           ) p
           CROSS JOIN LATERAL (SELECT FROM product_child WHERE bundle_id = p.id OFFSET 0) c
           WHERE p.type = 'bundle' GROUP BY g.row"#,
        organisation.get(),
        &of,
        &products as &[Option<Uuid>],
        &skus as &[Option<&str>],
    )
    .fetch_all(connection)
    .await?;
    let mut parts = vec![0; rows.len()];
    for found in found {
        if let Some(parts) = usize::try_from(found.row).ok().and_then(|row| parts.get_mut(row)) {
            *parts = usize::try_from(found.parts).unwrap_or(usize::MAX);
        }
    }
    Ok(parts)
}

/// Takes over rows of different orders, all or none.
struct Taking<'i> {
    import: Import<'i>,
    services: &'i Services,
}

impl<'r> Statement<Placed<'r>> for Taking<'_> {
    type Out = Applied;

    async fn apply(&self, tx: &mut PgConnection, rows: &[Placed<'r>]) -> Result<Applied, sqlx::Error> {
        Group { import: self.import, services: self.services, rows }.apply(tx).await
    }
}
