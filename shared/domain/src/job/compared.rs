//! What the items of a dry run were compared with, and whether that is still so when the job is applied
//! (`docs/reference/jobs.md#dry-run`): a product by its id and version, a stock by its quantity, an order by its id, status and version.
//!
//! The records of a chunk that is applied are locked, in the order of their ids, before they are compared: they stay as they are until
//! the chunk ends. A record that did not exist cannot be locked; one that is created at that very moment is found by the job itself.

use sqlx::PgConnection;
use uuid::Uuid;

use super::chunk::{Claim, Compared, Duplicate};
use super::item_error::ItemError;
use super::kind::{JobKind, SyncStocks};
use super::outcome::Fate;
use super::payload;
use super::row;
use super::row_lines::RowLines;
use longshore_kernel::change::Change;
use longshore_kernel::ids::{EshopId, OrganisationId};

/// Why an item is refused whose record has changed since.
const CHANGED_SINCE: (&str, &str) = (
    "changed_since",
    "what the dry run compared this with has changed since; try it again, or apply it with force",
);

/// A record that an item is about.
struct Found {
    /// The position of the item, from 1.
    position: i64,
    id: Uuid,
    /// What of it is compared.
    mark: String,
}

impl Found {
    /// The place of the item in its chunk.
    fn place(&self) -> Option<usize> {
        usize::try_from(self.position - 1).ok()
    }
}

/// What the items of a chunk are compared with.
///
/// # Errors
/// Those of the database; items that cannot be read.
pub async fn look(connection: &mut PgConnection, claim: &Claim) -> Result<Compared, Fate> {
    let mut compared: Compared = vec![None; count(claim)];
    for found in records(connection, claim).await? {
        if let Some(place) = found.place().and_then(|place| compared.get_mut(place)) {
            *place = Some(found.mark);
        }
    }
    Ok(compared)
}

/// Locks what a chunk of a job that is applied is about; returns the chunk without the items whose record has changed, and these as
/// errors.
///
/// # Errors
/// Those of the database; items that cannot be read.
pub async fn divide(
    change: &mut Change<'_>,
    claim: &Claim,
    before: &[Option<String>],
) -> Result<(Claim, Vec<ItemError>), Fate> {
    change.make_whole();
    let mut ids: Vec<Uuid> =
        records(change.connection(), claim).await?.into_iter().map(|found| found.id).collect();
    ids.sort_unstable();
    lock(change.connection(), claim, &ids).await?;
    let mut now: Vec<Option<Found>> = (0..count(claim)).map(|_| None).collect();
    for found in records(change.connection(), claim).await? {
        if let Some(place) = found.place().and_then(|place| now.get_mut(place)) {
            *place = Some(found);
        }
    }
    let mut since: Vec<(usize, Option<Uuid>)> = now
        .iter()
        .enumerate()
        .filter(|(place, now)| {
            let before = before.get(*place).and_then(Option::as_ref);
            before != now.as_ref().map(|now| &now.mark)
        })
        .map(|(place, now)| (place, now.as_ref().map(|now| now.id)))
        .collect();
    let suspects: Vec<Uuid> = since.iter().filter_map(|(_, id)| *id).collect();
    // an order that an earlier row of this job created, say
    let own = own(change.connection(), claim, &suspects).await?;
    since.retain(|(_, id)| id.is_none_or(|id| !own.contains(&id)));
    if since.is_empty() {
        return Ok((claim.clone(), Vec::new()));
    }
    let since: Vec<usize> = since.into_iter().map(|(position, _)| position).collect();
    let errors = row::all_refused(claim, CHANGED_SINCE)?.into_iter().enumerate();
    let errors = errors.filter(|(position, _)| since.binary_search(position).is_ok()).map(|(_, error)| error);
    Ok((without(claim, &since)?, errors.collect()))
}

/// The records that the items of a chunk are about, each with the position of its item.
pub(super) async fn found(connection: &mut PgConnection, claim: &Claim) -> Result<Vec<(usize, Uuid)>, Fate> {
    let found = records(connection, claim).await?.into_iter();
    Ok(found.filter_map(|found| Some((found.place()?, found.id))).collect())
}

fn count(claim: &Claim) -> usize {
    usize::try_from(claim.item_count).unwrap_or(0)
}

/// The records that the items of a chunk are about; none of a kind whose records are not compared.
async fn records(connection: &mut PgConnection, claim: &Claim) -> Result<Vec<Found>, Fate> {
    let Ok(kind) = claim.kind else { return Ok(Vec::new()) };
    let organisation = claim.organisation.unwrap_or_default();
    Ok(match kind {
        JobKind::ProductActivate | JobKind::ProductDeactivate => {
            products(connection, &payload::unpack_ids(&claim.payload)?).await?
        }
        JobKind::ProductSync => products_of(connection, organisation, &row::keys(claim)?).await?,
        JobKind::StockSync => {
            let (sync, _) = claim.job::<SyncStocks>()?;
            stocks(connection, organisation, &sync, &row::keys(claim)?).await?
        }
        JobKind::ExpeditionSync => {
            orders_of(connection, claim.eshop.unwrap_or_default(), &row::keys(claim)?).await?
        }
        kind if kind.is_of_orders() => orders(connection, &payload::unpack_ids(&claim.payload)?).await?,
        _ => Vec::new(),
    })
}

async fn products(connection: &mut PgConnection, ids: &[Uuid]) -> Result<Vec<Found>, sqlx::Error> {
    sqlx::query_as!(
        Found,
        // each by its key, here and below
        r#"SELECT i.position AS "position!", p.id, p.id || ' ' || p.version AS "mark!"
           FROM unnest($1::uuid[]) WITH ORDINALITY AS i (id, position)
           CROSS JOIN LATERAL (SELECT id, version FROM product WHERE id = i.id OFFSET 0) p"#,
        ids,
    )
    .fetch_all(connection)
    .await
}

async fn products_of(
    connection: &mut PgConnection,
    organisation: OrganisationId,
    skus: &[Option<String>],
) -> Result<Vec<Found>, sqlx::Error> {
    sqlx::query_as!(
        Found,
        r#"SELECT i.position AS "position!", p.id, p.id || ' ' || p.version AS "mark!"
           FROM unnest($2::text[]) WITH ORDINALITY AS i (sku, position)
           CROSS JOIN LATERAL (
               SELECT id, version FROM product
               WHERE organisation_id = $1 AND product_sku >= i.sku AND product_sku <= i.sku
               ORDER BY product_sku LIMIT 1
           ) p"#,
        organisation.get(),
        skus as &[Option<String>],
    )
    .fetch_all(connection)
    .await
}

async fn stocks(
    connection: &mut PgConnection,
    organisation: OrganisationId,
    place: &SyncStocks,
    skus: &[Option<String>],
) -> Result<Vec<Found>, sqlx::Error> {
    sqlx::query_as!(
        Found,
        // a product that is there, and has no stock yet, is another thing than none
        r#"SELECT i.position AS "position!", coalesce(s.id, p.id) AS "id!", concat_ws(' ', p.id, s.id, s.quantity) AS "mark!"
           FROM unnest($2::text[]) WITH ORDINALITY AS i (sku, position)
           CROSS JOIN LATERAL (
               SELECT id FROM product
               WHERE organisation_id = $1 AND product_sku >= i.sku AND product_sku <= i.sku
               ORDER BY product_sku LIMIT 1
           ) p
           LEFT JOIN LATERAL (
               SELECT id, quantity FROM product_stock
               WHERE product_id = p.id AND warehouse_id = $3 AND wms_id = $4 OFFSET 0
           ) s ON true"#,
        organisation.get(),
        skus as &[Option<String>],
        place.warehouse,
        place.wms,
    )
    .fetch_all(connection)
    .await
}

async fn orders(connection: &mut PgConnection, ids: &[Uuid]) -> Result<Vec<Found>, sqlx::Error> {
    sqlx::query_as!(
        Found,
        r#"SELECT i.position AS "position!", e.id, concat_ws(' ', e.id, e.status, e.version) AS "mark!"
           FROM unnest($1::uuid[]) WITH ORDINALITY AS i (id, position)
           CROSS JOIN LATERAL (SELECT id, status, version FROM expedition WHERE id = i.id OFFSET 0) e"#,
        ids,
    )
    .fetch_all(connection)
    .await
}

async fn orders_of(
    connection: &mut PgConnection,
    eshop: EshopId,
    numbers: &[Option<String>],
) -> Result<Vec<Found>, sqlx::Error> {
    sqlx::query_as!(
        Found,
        r#"SELECT i.position AS "position!", e.id, concat_ws(' ', e.id, e.status, e.version) AS "mark!"
           FROM unnest($2::text[]) WITH ORDINALITY AS i (number, position)
           CROSS JOIN LATERAL (
               SELECT id FROM expedition_detail WHERE eshop_id = $1 AND order_number = i.number LIMIT 1
           ) d
           CROSS JOIN LATERAL (SELECT id, status, version FROM expedition WHERE id = d.id OFFSET 0) e"#,
        eshop.get(),
        numbers as &[Option<String>],
    )
    .fetch_all(connection)
    .await
}

/// Locks records, in the order of their ids.
async fn lock(connection: &mut PgConnection, claim: &Claim, ids: &[Uuid]) -> Result<(), sqlx::Error> {
    let locks = match claim.kind {
        Ok(JobKind::ProductActivate | JobKind::ProductDeactivate | JobKind::ProductSync) => {
            sqlx::query!("SELECT FROM product WHERE id = ANY($1) ORDER BY id FOR UPDATE", ids)
        }
        Ok(JobKind::StockSync) => {
            sqlx::query!("SELECT FROM product_stock WHERE id = ANY($1) ORDER BY id FOR UPDATE", ids)
        }
        _ => sqlx::query!("SELECT FROM expedition WHERE id = ANY($1) ORDER BY id FOR UPDATE", ids),
    };
    locks.execute(connection).await.map(|_| ())
}

/// Those of some records that the job itself has changed.
async fn own(connection: &mut PgConnection, claim: &Claim, ids: &[Uuid]) -> Result<Vec<Uuid>, sqlx::Error> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    sqlx::query_scalar!(
        "SELECT DISTINCT entity_id FROM audit WHERE job_id = $1 AND entity_id = ANY ($2)",
        claim.job.get(),
        ids,
    )
    .fetch_all(connection)
    .await
}

/// The chunk without the items at these positions.
pub(super) fn without(claim: &Claim, positions: &[usize]) -> Result<Claim, payload::Unreadable> {
    let kept: Vec<usize> =
        (0..count(claim)).filter(|position| positions.binary_search(position).is_err()).collect();
    let mut lines = RowLines::default();
    for (place, line) in kept.iter().enumerate().filter_map(|(place, at)| Some((place, claim.lines.of(*at)?)))
    {
        lines.push(place, line);
    }
    let duplicates = claim.duplicates.iter().filter_map(|of| {
        let place = kept.binary_search(&usize::try_from(of.position).ok()?).ok()?;
        Some(Duplicate { position: i32::try_from(place).ok()?, ..*of })
    });
    let compared = claim.compared.as_ref();
    Ok(Claim {
        compared: compared.map(|compared| kept.iter().filter_map(|at| compared.get(*at).cloned()).collect()),
        payload: payload::pick(&claim.payload, claim.has_rows(), &kept)?,
        item_count: i32::try_from(kept.len()).unwrap_or(i32::MAX),
        indexes: Some(kept.iter().map(|position| claim.index(*position)).collect()),
        duplicates: duplicates.collect(),
        lines,
        ..claim.clone()
    })
}
