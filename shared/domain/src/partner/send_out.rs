//! Sending stocks to a partner (`docs/reference/syncs.md#send-out`): the available quantities in the warehouses that the
//! setting maps, minus its reserve, and only those that differ from what the partner last accepted.
//!
//! # Words
//!
//! - An **item** is one of our products in the partner's catalogue ([`items`]). The quantity that the partner last **took**
//!   of each item, in each of its warehouses, is stored, so a send-out is a comparison and is safe to repeat. It is **unknown**
//!   from before a call until its answer is recorded ([`announce`], [`record`]): what a lost answer was about differs from
//!   any quantity, and is sent again.
//! - A **listing** reads the items of the partner ([`listing`]): page by page, to its end, before any stock is sent.
//! - A **change** is recorded by Postgres itself, in the transaction that alters a stock (`stock_change`) or the products of
//!   an e-shop (`eshop_stock_change`): nothing can forget it. [`changes`] turns changes into products that are **due** for an
//!   e-shop, and into its next job.
//! - An SKU is **withdrawn** when its product leaves the e-shop ([`withdrawn`]): the partner is sent zero.
//! - A job's [`Extent`] says what it compares: what is due; everything, or one warehouse, of what is known (by trigger and
//!   by the clock); or everything with the real stocks of the partner (nightly), which repairs and reports changes that
//!   were made there.
//!
//! Send-outs of an e-shop run one after the other, in parallel to its syncs: a catalogue that takes an hour to read does
//! not delay stocks, and a partner that accepts no stocks does not delay catalogues.

pub mod changes;
pub mod items;
pub mod listing;
pub mod withdrawn;

use serde_json::Value;
use sqlx::PgConnection;

use super::push::organisation_of;
use super::setting;
use crate::job::chunk::{self, Claim};
use crate::job::fetching;
use crate::job::item_error::{self, ItemError};
use crate::job::kind::{SendStocks, Shop};
use crate::job::receiving::Target;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::hold::Hold;
use longshore_kernel::ids::{EshopId, JobId, OrganisationId};
use longshore_kernel::input::{Reader, id, object, one_of, text};
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// What a send-out compares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Products whose stock has changed.
    Changes,
    /// All that is known.
    Everything,
    /// The same, of one warehouse of the partner.
    Warehouse(String),
    /// All, with what the partner has.
    Comparison,
}

const CHANGES: &str = "changes";
const EVERYTHING: &str = "everything";
const COMPARISON: &str = "comparison";
const WAREHOUSE: &str = "warehouse ";

impl Extent {
    /// As the source of a job.
    #[must_use]
    pub fn source(&self) -> String {
        match self {
            Self::Changes => CHANGES.to_owned(),
            Self::Everything => EVERYTHING.to_owned(),
            Self::Comparison => COMPARISON.to_owned(),
            Self::Warehouse(warehouse) => format!("{WAREHOUSE}{warehouse}"),
        }
    }

    /// Of the source of a job.
    #[must_use]
    pub fn parse(source: &str) -> Option<Self> {
        Some(match source {
            CHANGES => Self::Changes,
            EVERYTHING => Self::Everything,
            COMPARISON => Self::Comparison,
            other => Self::Warehouse(other.strip_prefix(WAREHOUSE)?.to_owned()),
        })
    }
}

/// Accepts a send-out by request: `{eshop, warehouseId}`, the partner's warehouse or ours. One that waits already is the
/// answer.
pub async fn request(services: &Services, context: &Context, body: Value) -> Result<Answer, Problem> {
    let (eshop, name) = Reader::read(
        body,
        object(|object| {
            let eshop = object.required("eshop", id());
            let warehouse = object.required("warehouseId", text(1..=255));
            object.optional("direction", one_of(&["out"]));
            Some((EshopId::from(eshop?), warehouse?))
        }),
    )?;
    let organisation = organisation_of(services, context.scope(), eshop).await?;
    let refuse = |message| Problem::violation("eshop", "no_integration", message);
    let setting = setting::of_eshop(services, eshop)
        .await?
        .ok_or_else(|| refuse("has no integration setting, so there is no partner to send stocks to"))?;
    if !setting.wanted.active {
        return Err(refuse("has an inactive integration setting"));
    }
    let warehouse = setting.wanted.mapping(&name).ok_or_else(|| {
        let message = "must be a warehouse that the e-shop's integration setting maps";
        Problem::violation("warehouseId", "unknown_reference", message)
    })?;
    let mut change = Change::begin(services).await?;
    let extent = Extent::Warehouse(warehouse.warehouse_id.clone());
    let job = SendStocks { warehouse: Some(warehouse.warehouse) };
    let target = Target::new(&job, Shop { organisation, eshop })?;
    let job = fetching::accept(&mut change, &context.origin, &target, &extent.source()).await?;
    change.answer(context.claim, Answer::accepted_job(job)).await
}

/// Accepts a send-out without a request.
pub async fn accept(
    change: &mut Change<'_>,
    origin: &Origin,
    organisation: OrganisationId,
    eshop: EshopId,
    extent: &Extent,
) -> Result<JobId, Problem> {
    let target = Target::new(&SendStocks::default(), Shop { organisation, eshop })?;
    fetching::accept(change, origin, &target, &extent.source()).await
}

/// A count that the partner is to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StockToSend {
    /// The partner's warehouse.
    pub warehouse: String,
    /// The partner's inventory; empty where it has none.
    pub inventory: String,
    /// The partner's id of the item.
    pub item: String,
    /// SKU of the product.
    pub product_sku: String,
    /// Pieces.
    pub pieces: i32,
}

/// Where a comparison is: the last item that was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct After {
    warehouse: String,
    inventory: String,
    item: String,
}

impl After {
    /// After an item.
    #[must_use]
    pub fn item(wanted: &StockToSend) -> Self {
        Self {
            warehouse: wanted.warehouse.clone(),
            inventory: wanted.inventory.clone(),
            item: wanted.item.clone(),
        }
    }
}

/// The next items, at most so many, whose last accepted quantity differs from the current one, which is zero for a withdrawn
/// SKU. What it refused already is among them only where everything is compared.
pub async fn next(
    services: &Services,
    eshop: EshopId,
    extent: &Extent,
    due: i64,
    after: &After,
    most: usize,
) -> Result<Vec<StockToSend>, Problem> {
    let most = i64::try_from(most).map_err(Problem::internal)?;
    let db = &services.db.main;
    Ok(match extent {
        Extent::Changes => {
            sqlx::query_as!(
                StockToSend,
                r#"SELECT w.warehouse AS "warehouse!", w.inventory AS "inventory!", w.item AS "item!",
                          w.product_sku AS "product_sku!", w.pieces AS "pieces!"
                   FROM (SELECT w.partner_warehouse AS warehouse, w.inventory, w.item, w.product_sku, w.wanted AS pieces
                         FROM stock_due d
                         -- looked up by what is due: a join may go through all products of the e-shop
                         CROSS JOIN LATERAL (SELECT * FROM partner_stock_wanted w
                                             WHERE w.eshop_id = $1 AND w.product_id = d.product_id OFFSET 0) AS w
                         WHERE d.eshop_id = $1 AND d.number <= $2
                           AND w.wanted IS DISTINCT FROM w.taken AND w.wanted IS DISTINCT FROM w.refused
                         UNION ALL
                         SELECT g.partner_warehouse, g.inventory, g.item, g.product_sku, 0
                         FROM partner_stock_withdrawn g
                         WHERE g.eshop_id = $1 AND g.taken IS DISTINCT FROM 0 AND g.refused IS DISTINCT FROM 0) AS w
                   WHERE (w.warehouse, w.inventory, w.item) > ($3, $4, $5)
                   ORDER BY w.warehouse, w.inventory, w.item LIMIT $6"#,
                eshop.get(),
                due,
                after.warehouse,
                after.inventory,
                after.item,
                most,
            )
            .fetch_all(db)
            .await?
        }
        Extent::Everything | Extent::Warehouse(_) | Extent::Comparison => {
            let warehouse = if let Extent::Warehouse(warehouse) = extent { Some(warehouse) } else { None };
            sqlx::query_as!(
                StockToSend,
                r#"SELECT w.warehouse AS "warehouse!", w.inventory AS "inventory!", w.item AS "item!",
                          w.product_sku AS "product_sku!", w.pieces AS "pieces!"
                   FROM (SELECT w.partner_warehouse AS warehouse, w.inventory, w.item, w.product_sku, w.wanted AS pieces
                         FROM partner_stock_wanted w
                         WHERE w.eshop_id = $1 AND w.wanted IS DISTINCT FROM w.taken
                         UNION ALL
                         SELECT g.partner_warehouse, g.inventory, g.item, g.product_sku, 0
                         FROM partner_stock_withdrawn g
                         WHERE g.eshop_id = $1 AND g.taken IS DISTINCT FROM 0) AS w
                   WHERE ($2::text IS NULL OR w.warehouse = $2)
                     AND (w.warehouse, w.inventory, w.item) > ($3, $4, $5)
                   ORDER BY w.warehouse, w.inventory, w.item LIMIT $6"#,
                eshop.get(),
                warehouse as Option<&String>,
                after.warehouse,
                after.inventory,
                after.item,
                most,
            )
            .fetch_all(db)
            .await?
        }
    })
}

/// Records that a call is about to be made with items of one place of the partner: until its answer is recorded, nobody knows
/// what the partner has of them. Without it, an answer that is lost would leave the quantity from before the call, and a stock
/// that returns to it would not be sent. Nothing may be called if the claim was lost: a successor may have sent what is newer.
pub async fn announce(
    services: &Services,
    claim: &Claim,
    eshop: EshopId,
    stocks: &[StockToSend],
) -> Result<Hold, Problem> {
    let Some(StockToSend { inventory, warehouse, .. }) = stocks.first() else { return Ok(Hold::Kept) };
    let items: Vec<&str> = stocks.iter().map(|wanted| wanted.item.as_str()).collect();
    let held = sqlx::query_scalar!(
        r#"WITH held AS (
               SELECT true AS yes FROM job_chunk
               WHERE job_id = $1 AND number = $2 AND token = $3 AND leased_until IS NOT NULL
               FOR NO KEY UPDATE
           ), announced AS (
               INSERT INTO partner_stock AS s (eshop_id, inventory, item, partner_warehouse)
               SELECT $4, $5, i.item, $6
               FROM held CROSS JOIN partner_item i
               WHERE i.eshop_id = $4 AND i.inventory = $5 AND i.item = ANY ($7::text[])
               ORDER BY i.item
               ON CONFLICT (eshop_id, inventory, item, partner_warehouse) DO UPDATE SET taken = NULL, refused = NULL
               WHERE s.taken IS NOT NULL OR s.refused IS NOT NULL
           )
           SELECT EXISTS (SELECT FROM held) AS "held!""#,
        claim.job.get(),
        claim.number,
        claim.token,
        eshop.get(),
        inventory.as_str(),
        warehouse.as_str(),
        &items as &[&str],
    )
    .fetch_one(&services.db.main)
    .await?;
    Ok(if held { Hold::Kept } else { Hold::Lost })
}

/// Records what a call came to: what was taken, what was refused and why, and the job's progress.
pub async fn record(
    services: &Services,
    claim: &Claim,
    eshop: EshopId,
    stocks: &[StockToSend],
    refused: &[(usize, String)],
) -> Result<Hold, Problem> {
    let mut change = Change::begin(services).await?;
    let tx = change.connection();
    if chunk::progressed(tx, claim).await?.is_lost() {
        return Ok(Hold::Lost);
    }
    let mut taken = vec![true; stocks.len()];
    for (position, _) in refused {
        if let Some(taken) = taken.get_mut(*position) {
            *taken = false;
        }
    }
    let column = |of: fn(&StockToSend) -> &str| stocks.iter().map(of).collect::<Vec<_>>();
    let pieces: Vec<i32> = stocks.iter().map(|wanted| wanted.pieces).collect();
    sqlx::query!(
        "INSERT INTO partner_stock (eshop_id, inventory, item, partner_warehouse, taken, refused)
         SELECT $1, t.inventory, t.item, t.warehouse, CASE WHEN t.taken THEN t.pieces END,
                CASE WHEN NOT t.taken THEN t.pieces END
         FROM unnest($2::text[], $3::text[], $4::text[], $5::int[], $6::bool[])
              AS t (inventory, item, warehouse, pieces, taken)
         -- what the partner has taken out of its catalogue meanwhile has no stock there
         JOIN partner_item i ON i.eshop_id = $1 AND i.inventory = t.inventory AND i.item = t.item
         ON CONFLICT (eshop_id, inventory, item, partner_warehouse) DO UPDATE
         SET taken = excluded.taken, refused = excluded.refused, changed_at = now()",
        eshop.get(),
        &column(|wanted| &wanted.inventory) as &[&str],
        &column(|wanted| &wanted.item) as &[&str],
        &column(|wanted| &wanted.warehouse) as &[&str],
        &pieces,
        &taken,
    )
    .execute(&mut *tx)
    .await?;
    let failed = taken.iter().filter(|taken| !**taken).count();
    let first =
        grow(tx, claim.job, Progress { changed: stocks.len() - failed, unchanged: 0, failed }).await?;
    let errors = refused.iter().filter_map(|(position, why)| {
        let wanted = stocks.get(*position)?;
        Some(ItemError {
            index: first.saturating_add(i32::try_from(*position).ok()?),
            line: None,
            key: Some(wanted.product_sku.clone()),
            code: "refused_by_partner",
            message: format!("the partner refused {} pieces in {}: {why}", wanted.pieces, wanted.warehouse),
            field: None,
            payload: wanted.item.clone().into_bytes(),
            notice: false,
        })
    });
    item_error::record(tx, claim.job, &errors.collect::<Vec<_>>()).await?;
    change.commit().await?;
    Ok(Hold::Kept)
}

/// Items of a send-out that are done.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// The partner took them.
    changed: usize,
    /// They were reported only.
    unchanged: usize,
    /// The partner refused them.
    failed: usize,
}

/// Counts items; returns the position of the first of them in the job.
async fn grow(tx: &mut PgConnection, job: JobId, progress: Progress) -> Result<i32, Problem> {
    let count = |items| i32::try_from(items).map_err(Problem::internal);
    Ok(sqlx::query_scalar!(
        r#"UPDATE job
           SET total = total + $2 + $3 + $4, done = done + $2 + $3 + $4, changed = changed + $2,
               unchanged = unchanged + $3, failed = failed + $4, changed_at = clock_timestamp()
           WHERE id = $1 RETURNING total - $2 - $3 - $4 AS "first!""#,
        job.get(),
        count(progress.changed)?,
        count(progress.unchanged)?,
        count(progress.failed)?,
    )
    .fetch_one(tx)
    .await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_reads_back_from_the_source_of_its_job() {
        for extent in [
            Extent::Changes,
            Extent::Everything,
            Extent::Comparison,
            Extent::Warehouse("bl_206".into()),
            Extent::Warehouse("changes".into()),
        ] {
            assert_eq!(Extent::parse(&extent.source()), Some(extent));
        }
        assert_eq!(Extent::parse("307"), None);
    }
}
