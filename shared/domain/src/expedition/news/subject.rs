//! What is known of an order when its warehouse reports: read once, under the lock of the order.

use std::collections::{BTreeMap, HashMap, HashSet};

use sqlx::PgConnection;
use uuid::Uuid;

use super::row::{About, Row};
use crate::expedition::order::{Item, Order};
use crate::expedition::report::{Parcel, Times, Tracking};
use longshore_kernel::ids::{ExpeditionId, ExpeditionItemId, OrganisationId, StockId, WmsId};

/// What reports change of an order, besides its items and stocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Known {
    pub(super) times: Times,
    pub(super) tracking: Tracking,
    pub(super) parcels: Vec<Parcel>,
    /// What the warehouse calls it.
    pub(super) internal_id: Option<String>,
    /// Why the warehouse did not give it back.
    pub(super) handover_error: Option<&'static str>,
}

/// What left of an item, as its record says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) pieces: i32,
    pub(super) lots: Vec<String>,
    pub(super) serials: Vec<String>,
}

/// Between lots, in the record of an item.
const BETWEEN_LOTS: &str = ", ";

impl Left {
    /// With what a later report says: it repeats some of the lots and serial numbers, or has all of them and more. Nothing if it
    /// contradicts.
    pub(super) fn with(&self, later: &Self) -> Option<Self> {
        let larger = |known: &Vec<String>, said: &Vec<String>| {
            let (all, new): (HashSet<&String>, HashSet<&String>) =
                (known.iter().collect(), said.iter().collect());
            let larger = if new.is_subset(&all) { known } else { said };
            (new.is_subset(&all) || all.is_subset(&new)).then(|| larger.clone())
        };
        Some(Self {
            pieces: self.pieces,
            lots: larger(&self.lots, &later.lots)?,
            serials: larger(&self.serials, &later.serials)?,
        })
    }

    /// Its lots, as the record of the item has them.
    pub(super) fn lot(&self) -> Option<String> {
        (!self.lots.is_empty()).then(|| self.lots.join(BETWEEN_LOTS))
    }
}

/// The rest of what is looked at.
#[derive(Clone, Debug, Default)]
pub(super) struct Fixed {
    /// Orders of its wms are handed over by calls.
    pub(super) is_called: bool,
    /// The number of its latest hand-over, if there was one.
    pub(super) number: Option<i32>,
    /// Postgres was set back, so a warehouse may know more than is known here.
    pub(super) is_set_back: bool,
    /// Of an order in doubt, which the warehouse may have by any number up to `number`: the last number that is known here.
    pub(super) known_number: Option<i32>,
    /// Numbers whose pieces have left although the order did not have that number.
    pub(super) strays: HashSet<i32>,
    /// Numbers that were reported although the order did not have them, and whose pieces have not left.
    pub(super) noted: HashSet<i32>,
    /// What left of its items, where it is packed and a report says it again.
    pub(super) left: HashMap<ExpeditionItemId, Left>,
    /// The items that it had up to those numbers, where others have replaced them since and one of these may be packed.
    pub(super) former: BTreeMap<i32, Vec<Item>>,
}

/// The orders that reports are about, by the places of the reports, with the items of each.
pub(super) async fn find(
    connection: &mut PgConnection,
    organisation: OrganisationId,
    wms: WmsId,
    rows: &[Row],
) -> Result<HashMap<usize, (ExpeditionId, usize)>, sqlx::Error> {
    let (mut ids, mut eshops, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        let (id, eshop, number) = match &row.about {
            About::Id(id) => (Some(id.get()), None, None),
            About::Number { eshop, order_number } => (None, Some(eshop.get()), Some(order_number.as_str())),
        };
        ids.push(id);
        eshops.push(eshop);
        numbers.push(number);
    }
    let found = sqlx::query!(
        // each by its key, independent of the statistics
        r#"SELECT g.place AS "place!", e.id AS "id!: ExpeditionId", e.count_of_items AS "items!"
           FROM unnest($3::uuid[], $4::uuid[], $5::text[]) WITH ORDINALITY AS g (id, eshop, number, place)
           CROSS JOIN LATERAL (
               SELECT g.id WHERE g.id IS NOT NULL
               UNION ALL
               (SELECT id FROM expedition_detail WHERE eshop_id = g.eshop AND order_number = g.number LIMIT 1)
           ) AS named
           CROSS JOIN LATERAL (
               SELECT id, count_of_items FROM expedition
               WHERE id = named.id AND organisation_id = $1 AND wms_id = $2 LIMIT 1
           ) AS e"#,
        organisation.get(),
        wms.get(),
        &ids as &[Option<Uuid>],
        &eshops as &[Option<Uuid>],
        &numbers as &[Option<&str>],
    )
    .fetch_all(connection)
    .await?;
    let place = |place: i64| usize::try_from(place - 1).ok();
    let items = |items: i32| usize::try_from(items).unwrap_or(usize::MAX);
    Ok(found.into_iter().filter_map(|row| Some((place(row.place)?, (row.id, items(row.items))))).collect())
}

/// What is known of locked orders, in their order; `with_parcels` are those whose parcels are reported, `counted` those whose items are, `packed` those
/// that are said to be.
pub(super) async fn read(
    connection: &mut PgConnection,
    orders: &[Order],
    with_parcels: &[Uuid],
    counted: &[Uuid],
    packed: &HashSet<Uuid>,
) -> Result<Vec<(Known, Fixed)>, sqlx::Error> {
    let ids: Vec<Uuid> = orders.iter().map(|order| order.id.get()).collect();
    let rows = sqlx::query!(
        r#"SELECT e.packed_at, e.sent_at, e.delivered_at, d.tracking_number, d.tracking_url,
                  h.handover_number AS "number?", h.wms_internal_id AS "internal_id?",
                  EXISTS (SELECT FROM wms_setting s WHERE s.wms_id = e.wms_id AND s.active AND e.created_at >= s.since)
                      AS "is_called!",
                  (SELECT was_set_back()) AS "is_set_back!", h.handover_known_number AS "known_number?",
                  ARRAY(SELECT c.number FROM wms_contradiction c WHERE c.expedition_id = e.id AND c.has_left) AS "strays!",
                  ARRAY(SELECT c.number FROM wms_contradiction c WHERE c.expedition_id = e.id AND NOT c.has_left) AS "noted!"
           FROM unnest($1::uuid[]) WITH ORDINALITY AS g (id, place)
           JOIN expedition e ON e.id = ANY (ARRAY[g.id])
           JOIN expedition_detail d ON d.id = ANY (ARRAY[g.id])
           LEFT JOIN expedition_handover h ON h.id = ANY (ARRAY[g.id])
           ORDER BY g.place"#,
        &ids,
    )
    .fetch_all(&mut *connection)
    .await?;
    let mut parcels = parcels(connection, with_parcels).await?;
    let mut left = left(connection, counted).await?;
    // an earlier number may be packed
    let has_earlier = |order: &Order, number: Option<i32>| {
        number.is_some_and(|number| number > 1 || !order.is_handed_over())
    };
    let strays = rows.iter().zip(orders).filter(|(row, order)| has_earlier(order, row.number));
    let strays = strays.map(|(_, order)| order.id.get()).filter(|id| packed.contains(id));
    let mut former = former(connection, &strays.collect::<Vec<_>>()).await?;
    let known = rows.into_iter().zip(&ids).map(|(row, id)| {
        let known = Known {
            times: Times { packed: row.packed_at, sent: row.sent_at, delivered: row.delivered_at },
            tracking: Tracking { number: row.tracking_number, url: row.tracking_url },
            parcels: parcels.remove(id).unwrap_or_default(),
            internal_id: row.internal_id,
            handover_error: None,
        };
        let fixed = Fixed {
            is_called: row.is_called,
            number: row.number,
            is_set_back: row.is_set_back,
            known_number: row.known_number,
            strays: row.strays.into_iter().collect(),
            noted: row.noted.into_iter().collect(),
            left: left.remove(id).unwrap_or_default(),
            former: former.remove(id).unwrap_or_default(),
        };
        (known, fixed)
    });
    Ok(known.collect())
}

async fn parcels(
    connection: &mut PgConnection,
    of: &[Uuid],
) -> Result<HashMap<Uuid, Vec<Parcel>>, sqlx::Error> {
    let mut parcels: HashMap<Uuid, Vec<Parcel>> = HashMap::new();
    if of.is_empty() {
        return Ok(parcels);
    }
    let rows = sqlx::query!(
        "SELECT p.expedition_id, p.ext_package_number, p.ext_package_tracking_number, p.ext_carrier_tracking_number,
                p.tracking_url
         FROM unnest($1::uuid[]) AS g (id) JOIN expedition_parcel p ON p.expedition_id = ANY (ARRAY[g.id])",
        of,
    )
    .fetch_all(connection)
    .await?;
    for row in rows {
        parcels.entry(row.expedition_id).or_default().push(Parcel {
            number: row.ext_package_number,
            package_tracking_number: row.ext_package_tracking_number,
            carrier_tracking_number: row.ext_carrier_tracking_number,
            tracking_url: row.tracking_url,
        });
    }
    Ok(parcels)
}

async fn left(
    connection: &mut PgConnection,
    of: &[Uuid],
) -> Result<HashMap<Uuid, HashMap<ExpeditionItemId, Left>>, sqlx::Error> {
    let mut left: HashMap<Uuid, HashMap<ExpeditionItemId, Left>> = HashMap::new();
    if of.is_empty() {
        return Ok(left);
    }
    let rows = sqlx::query!(
        r#"SELECT i.expedition_id, i.id AS "id: ExpeditionItemId", i.expedited AS "expedited!", i.assigned_lot,
                  coalesce(i.serial_numbers, '{}') AS "serials!"
           FROM unnest($1::uuid[]) AS g (id)
           JOIN expedition_item i ON i.expedition_id = ANY (ARRAY[g.id]) AND i.expedited IS NOT NULL"#,
        of,
    )
    .fetch_all(connection)
    .await?;
    for row in rows {
        let lots = row.assigned_lot.iter().flat_map(|lots| lots.split(BETWEEN_LOTS)).map(str::to_owned);
        let gone = Left { pieces: row.expedited, lots: lots.collect(), serials: row.serials };
        left.entry(row.expedition_id).or_default().insert(row.id, gone);
    }
    Ok(left)
}

/// The items that orders had before, by the last number that had them.
async fn former(
    connection: &mut PgConnection,
    of: &[Uuid],
) -> Result<HashMap<Uuid, BTreeMap<i32, Vec<Item>>>, sqlx::Error> {
    let mut former: HashMap<Uuid, BTreeMap<i32, Vec<Item>>> = HashMap::new();
    if of.is_empty() {
        return Ok(former);
    }
    let rows = sqlx::query!(
        // each by its key, independent of the statistics
        r#"SELECT e.id AS "expedition!", f.number AS "number!", f.position AS "position!", f.id AS "id!: ExpeditionItemId",
                  f.product_id AS "product!", f.quantity AS "quantity!",
                  coalesce((SELECT p.product_sku FROM product p WHERE p.id = f.product_id), '') AS "sku!",
                  (SELECT k.id FROM product_stock k
                   WHERE k.product_id = f.product_id AND k.warehouse_id = e.warehouse_id AND k.wms_id = e.wms_id)
                      AS "stock: StockId"
           FROM unnest($1::uuid[]) AS g (id)
           JOIN expedition e ON e.id = ANY (ARRAY[g.id])
           CROSS JOIN LATERAL (
               SELECT * FROM expedition_former_item i WHERE i.expedition_id = e.id ORDER BY i.number, i.position OFFSET 0
           ) AS f"#,
        of,
    )
    .fetch_all(connection)
    .await?;
    for row in rows {
        let item = Item {
            id: row.id,
            position: row.position,
            product: row.product.into(),
            product_sku: row.sku,
            quantity: row.quantity,
            stock: row.stock,
            is_physical: row.stock.is_some(),
            unsold: None,
        };
        former.entry(row.expedition).or_default().entry(row.number).or_default().push(item);
    }
    Ok(former)
}
