//! Invariants of warehouses: the book of each WMS and our orders agree, order by order, and each report took effect once.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use longshore_testkit::wms::{Entry, Mischief, Stage};
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::none;
use crate::chaos::report::Check;
use crate::chaos::warehouses::Warehouse;

/// All invariants of warehouses.
pub(super) async fn all(psql: &mut PgConnection, warehouses: &[Warehouse]) -> anyhow::Result<Vec<Check>> {
    let mut checks = Books::read(psql, warehouses).await?.compare(warehouses);
    checks.extend(reports(psql, warehouses).await?);
    checks.push(called(warehouses));
    checks.push(strays(psql, warehouses).await?);
    Ok(checks)
}

/// An order as we have it.
#[derive(Debug, Clone, sqlx::FromRow)]
struct Ours {
    id: Uuid,
    status: String,
    /// The hand-over.
    state: Option<String>,
    number: Option<i32>,
    /// What left, by product: ordered and expedited.
    items: Value,
    /// Number and tracking number.
    parcels: Value,
    tracking: Option<String>,
}

/// The orders of each warehouse.
struct Books(Vec<Vec<Ours>>);

impl Books {
    async fn read(psql: &mut PgConnection, warehouses: &[Warehouse]) -> anyhow::Result<Self> {
        let mut books = Vec::new();
        for warehouse in warehouses {
            let ours = sqlx::query_as(
                "SELECT e.id, e.status, h.handover_state AS state, h.handover_number AS number,
                        d.tracking_number AS tracking,
                        (SELECT jsonb_object_agg(i.product_id, jsonb_build_array(i.quantity, i.expedited))
                         FROM expedition_item i WHERE i.expedition_id = e.id) AS items,
                        (SELECT coalesce(jsonb_agg(jsonb_build_array(p.ext_package_number, p.ext_package_tracking_number)), '[]')
                         FROM expedition_parcel p WHERE p.expedition_id = e.id) AS parcels
                 FROM expedition e JOIN expedition_detail d USING (id) LEFT JOIN expedition_handover h USING (id)
                 WHERE e.organisation_id = $1",
            )
            .bind(warehouse.tenant.organisation)
            .fetch_all(&mut *psql)
            .await?;
            books.push(ours);
        }
        Ok(Self(books))
    }

    fn compare(&self, warehouses: &[Warehouse]) -> Vec<Check> {
        let (mut of, mut lost, mut untrue, mut shipped, mut differing) =
            ([0; 3], vec![], vec![], vec![], vec![]);
        for (warehouse, ours) in warehouses.iter().zip(&self.0) {
            let (theirs, book, name) = (warehouse.system.book(), warehouse.book(), warehouse.name);
            of[0] += book.orders.len() as u64;
            let there: HashSet<Uuid> = ours.iter().map(|order| order.id).collect();
            let missing = book.orders.iter().filter(|order| !there.contains(*order));
            lost.extend(missing.map(|order| format!("{order} of the WMS that {name} is missing")));
            let more = theirs.keys().filter(|order| !there.contains(*order));
            lost.extend(more.map(|order| format!("{order} is at the WMS that {name}, and is no order")));
            for order in ours {
                let is_promised = book.canceled.contains(&order.id);
                of[1] += u64::from(is_promised);
                if is_promised && order.status != "canceled" {
                    untrue.push(format!("{order:?} of the WMS that {name} was answered as canceled"));
                }
                if !warehouse.keeps_rules() {
                    continue;
                }
                of[2] += 1;
                let entry = theirs.get(&order.id).cloned().unwrap_or_default();
                if order.status == "canceled" && entry.stage.is_here() {
                    shipped.push(format!("{order:?} of the WMS that {name}: {entry:?}"));
                }
                let parcels = parcels(&book.reports, order.id);
                differing.extend(
                    difference(order, &entry, &parcels)
                        .map(|why| format!("the WMS that {name}: {why}: {order:?}, {entry:?}")),
                );
            }
        }
        vec![
            Check::new("each order of a warehouse is there, and each that its system has", of[0], lost),
            Check::new("what was answered as canceled stays so", of[1], untrue),
            Check::new("a system that keeps the rules has nothing that is canceled", of[2], shipped),
            Check::new("each order is as the system of its warehouse has it", of[2], differing),
        ]
    }
}

/// After a set-back: what systems that keep the rules have is what is not canceled here, and as far.
pub(super) async fn after_a_set_back(
    psql: &mut PgConnection,
    warehouses: &[Warehouse],
) -> anyhow::Result<Check> {
    let books = Books::read(psql, warehouses).await?;
    let (mut of, mut found) = (0, Vec::new());
    for (warehouse, ours) in warehouses.iter().zip(&books.0).filter(|(one, _)| one.keeps_rules()) {
        let mut theirs = warehouse.system.book();
        for order in ours {
            of += 1;
            let entry = theirs.remove(&order.id).unwrap_or_default();
            let status = status_of(entry.stage);
            let agrees = match status {
                Some(status) => (order.status.as_str(), order.state.as_deref()) == (status, Some("accepted")),
                None => is_away(order),
            };
            if !agrees {
                found.push(format!("the WMS that {}: {order:?}, {entry:?}", warehouse.name));
            }
        }
        // what is left was lost here
        let lost: HashSet<Uuid> =
            sqlx::query_scalar("SELECT expedition_id FROM wms_lost_order WHERE wms_id = $1")
                .bind(warehouse.tenant.wms)
                .fetch_all(&mut *psql)
                .await?
                .into_iter()
                .collect();
        let reported =
            warehouse.book().reports.values().map(|report| report["expedition"].clone()).collect::<Vec<_>>();
        for (id, entry) in theirs {
            of += 1;
            if reported.contains(&json!(id)) && !lost.contains(&id) {
                found.push(format!(
                    "the WMS that {} has reported on {id}, which is lost: {entry:?}",
                    warehouse.name
                ));
            }
        }
    }
    Ok(Check::new("what a warehouse has is what is not canceled", of, found))
}

/// The parcels of an order that were reported: number and tracking number.
fn parcels(reports: &BTreeMap<String, Value>, order: Uuid) -> BTreeSet<String> {
    let reported = reports.values().filter(|report| report["expedition"] == json!(order));
    reported
        .flat_map(|report| report["parcels"].as_array().into_iter().flatten())
        .map(|parcel| json!([parcel["extPackageNumber"], parcel["extPackageTrackingNumber"]]).to_string())
        .collect()
}

/// The status of what a WMS has.
fn status_of(stage: Stage) -> Option<&'static str> {
    match stage {
        Stage::Unknown | Stage::Refused | Stage::Withdrawn | Stage::GivenUp => None,
        Stage::Taken => Some("awaiting_processing"),
        Stage::Picked => Some("take_out"),
        Stage::Packed => Some("waiting_for_the_carrier"),
        Stage::Shipped => Some("carrier_picked_up"),
        Stage::Delivered => Some("delivered"),
    }
}

/// Whether its warehouse does not have an order, once all is quiet.
fn is_away(ours: &Ours) -> bool {
    matches!(ours.status.as_str(), "on_hold" | "incorrect" | "canceled")
        && matches!(ours.state.as_deref(), None | Some("refused" | "withdrawn"))
}

/// What differs between an order and what a WMS that keeps the rules has of it, once all is quiet and reported.
fn difference(ours: &Ours, theirs: &Entry, parcels: &BTreeSet<String>) -> Option<&'static str> {
    let number = u64::try_from(ours.number.unwrap_or(0)).unwrap_or(0);
    let mut taken = theirs.taken.clone();
    taken.sort_unstable();
    taken.dedup();
    if taken != theirs.taken {
        return Some("a number was taken twice, or after a later one");
    }
    if theirs.number > number || theirs.withdrawn > number {
        return Some("it knows a number that was never called");
    }
    let Some(status) = status_of(theirs.stage) else {
        return (!is_away(ours)).then_some("it does not have the order");
    };
    if (ours.status.as_str(), ours.state.as_deref(), number) != (status, Some("accepted"), theirs.number) {
        return Some("it has the order, and is further or less far");
    }
    if !theirs.stage.is_packed() {
        return None;
    }
    let pieces = |product: &Value, ordered: &Value| match theirs.packed.as_array() {
        Some(packed) => packed
            .iter()
            .find(|item| item["product"] == *product)
            .map_or(json!(0), |item| item["expedited"].clone()),
        None => ordered.clone(),
    };
    let items = theirs.order["items"].as_array().into_iter().flatten();
    let left = items.map(|item| {
        let product = item["product"].as_str().unwrap_or_default().to_owned();
        (product, json!([item["quantity"], pieces(&item["product"], &item["quantity"])]))
    });
    if ours.items != Value::Object(left.collect()) {
        return Some("it has packed other pieces");
    }
    let known: BTreeSet<String> =
        ours.parcels.as_array().into_iter().flatten().map(Value::to_string).collect();
    let is_tracked = ours.tracking.is_some();
    (known != *parcels || !is_tracked).then_some("it has sent other parcels")
}

/// Reports: each was taken once, or refused with a reason, and no other was taken.
async fn reports(psql: &mut PgConnection, warehouses: &[Warehouse]) -> anyhow::Result<Vec<Check>> {
    let (mut of, mut found, mut refused, mut jobs) = (0, Vec::new(), Vec::new(), Vec::new());
    for warehouse in warehouses {
        let reported = warehouse.book().reports.clone();
        of += reported.len() as u64;
        jobs.extend(warehouse.book().jobs.iter().copied());
        let taken: HashSet<String> = sqlx::query_scalar("SELECT id FROM wms_news WHERE wms_id = $1")
            .bind(warehouse.tenant.wms)
            .fetch_all(&mut *psql)
            .await?
            .into_iter()
            .collect();
        let audited: Vec<(String, i64)> = sqlx::query_as(
            "SELECT news ->> 'id', count(*) FROM audit CROSS JOIN jsonb_array_elements(changes -> 'news' -> 1) AS news
             WHERE organisation_id = $1 AND action = 'expedition.news' GROUP BY 1",
        )
        .bind(warehouse.tenant.organisation)
        .fetch_all(&mut *psql)
        .await?;
        let audited: HashMap<String, i64> = audited.into_iter().collect();
        let errors: Vec<(String, String)> = sqlx::query_as(
            "SELECT DISTINCT coalesce(e.key, ''), e.code FROM job_item_error e JOIN job j ON j.id = e.job_id
             WHERE j.organisation_id = $1 AND j.kind = 'expedition.news'",
        )
        .bind(warehouse.tenant.organisation)
        .fetch_all(&mut *psql)
        .await?;
        let name = warehouse.name;
        for (id, report) in &reported {
            let (is_taken, effects) = (taken.contains(id), audited.get(id).copied().unwrap_or(0));
            let is_refused = errors.iter().any(|(key, _)| key == id);
            if effects != i64::from(is_taken) || !(is_taken || is_refused) {
                found.push(format!(
                    "the WMS that {name}: {report}: taken: {is_taken}, {effects} times in the audit, refused: {is_refused}"
                ));
            }
        }
        let unheard = taken.iter().filter(|id| !reported.contains_key(*id));
        found.extend(unheard.map(|id| format!("the WMS that {name} never reported {id}")));
        if warehouse.keeps_rules() {
            // what was given back or given up in the meantime
            let wrong = errors.iter().filter(|(_, code)| code != "old_number");
            refused.extend(
                wrong.map(|(id, code)| format!("the WMS that {name}: {code}: {:?}", reported.get(id))),
            );
        }
    }
    let wrong: Vec<String> = sqlx::query_scalar(
        "SELECT coalesce(to_jsonb(job) - 'parameters', 'null')::text FROM unnest($1::uuid[]) AS given (id)
         LEFT JOIN job USING (id)
         WHERE job.state IS DISTINCT FROM 'succeeded' OR job.done <> job.total
            OR job.changed + job.unchanged + job.failed <> job.total",
    )
    .bind(&jobs)
    .fetch_all(psql)
    .await?;
    Ok(vec![
        Check::new("each report of a warehouse took effect once, or was refused with a reason", of, found),
        Check::new(
            "no report of a system that keeps the rules is refused but for an old number",
            of,
            refused,
        ),
        Check::new("each job of reports has looked at each of them", jobs.len() as u64, wrong),
    ])
}

/// Calls: signed, readable, and to no other address.
fn called(warehouses: &[Warehouse]) -> Check {
    let (mut of, mut found) = (0, Vec::new());
    for warehouse in warehouses {
        let asked = warehouse.system.asked();
        of += asked.len() as u64;
        let wrong = asked.iter().filter(|asked| {
            asked.mischief == Mischief::None && (asked.expedition.is_none() || asked.status == 401)
        });
        found.extend(wrong.map(|asked| format!("the WMS that {}: {asked:?}", warehouse.name)));
    }
    Check::new("each call of a warehouse was signed, and about an order", of, found)
}

/// What was packed against its status: by no system that keeps the rules, and its pieces left once for each number.
async fn strays(psql: &mut PgConnection, warehouses: &[Warehouse]) -> anyhow::Result<Check> {
    let keep = warehouses.iter().filter(|one| one.keeps_rules()).map(|one| one.tenant.wms);
    let keep: Vec<Uuid> = keep.collect();
    let mut found: Vec<String> = sqlx::query_scalar(
        "SELECT format('%s was packed under number %s, by a WMS that keeps the rules', expedition_id, number)
         FROM wms_contradiction WHERE wms_id = ANY ($1)",
    )
    .bind(&keep)
    .fetch_all(&mut *psql)
    .await?;
    let packed: i64 =
        sqlx::query_scalar("SELECT count(*) FROM wms_contradiction").fetch_one(&mut *psql).await?;
    let name = "what was packed against its status left the stock once for each number";
    // such a WMS packs all that was ordered
    let pieces = none(
        psql,
        name,
        packed,
        "SELECT format('item %s of order %s: %s pieces left', i.id, i.expedition_id, m.pieces)
         FROM expedition_item i
         CROSS JOIN LATERAL (SELECT count(*) AS numbers FROM wms_contradiction c WHERE c.expedition_id = i.expedition_id) c
         CROSS JOIN LATERAL (SELECT coalesce(-sum(m.quantity), 0) AS pieces FROM stock_movement m
                             WHERE m.expedition_item_id = i.id) m
         WHERE c.numbers > 0 AND m.pieces <> coalesce(i.expedited, 0) + c.numbers * i.quantity",
    )
    .await?;
    found.extend(pieces.evidence);
    Ok(Check::new(name, packed.unsigned_abs(), found))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRODUCT: Uuid = Uuid::from_u128(7);

    fn ours(status: &str, state: Option<&str>, number: i32) -> Ours {
        Ours {
            id: Uuid::from_u128(1),
            status: status.to_owned(),
            state: state.map(str::to_owned),
            number: Some(number),
            items: json!({ PRODUCT.to_string(): [3, null] }),
            parcels: json!([]),
            tracking: None,
        }
    }

    fn theirs(stage: Stage, number: u64) -> Entry {
        let order = json!({ "items": [{ "product": PRODUCT, "quantity": 3 }] });
        Entry { stage, number, taken: vec![number], order, ..Entry::default() }
    }

    fn packed() -> (Ours, Entry, BTreeSet<String>) {
        let parcels = json!([["P", "T"]]);
        let reported = BTreeSet::from([parcels[0].to_string()]);
        let items = json!({ PRODUCT.to_string(): [3, 3] });
        let ours = Ours {
            items,
            parcels,
            tracking: Some("T".to_owned()),
            ..ours("waiting_for_the_carrier", Some("accepted"), 1)
        };
        (ours, theirs(Stage::Packed, 1), reported)
    }

    fn differ(ours: &Ours, theirs: &Entry) -> bool {
        difference(ours, theirs, &BTreeSet::new()).is_some()
    }

    #[test]
    fn an_order_agrees_with_the_book_of_its_warehouse_or_does_not() {
        let accepted = ours("awaiting_processing", Some("accepted"), 2);
        assert!(!differ(&accepted, &theirs(Stage::Taken, 2)));
        for (stage, number) in
            [(Stage::Taken, 1), (Stage::Taken, 3), (Stage::Picked, 2), (Stage::Withdrawn, 2)]
        {
            assert!(differ(&accepted, &theirs(stage, number)), "{stage:?} {number}");
        }
        let canceled = ours("canceled", Some("withdrawn"), 2);
        assert!(!differ(&canceled, &theirs(Stage::Withdrawn, 2)));
        assert!(!differ(&ours("on_hold", None, 0), &Entry::default()));
        assert!(differ(&canceled, &theirs(Stage::Shipped, 2)));
        assert!(differ(&accepted, &Entry::default()), "it never heard of it");
        let twice = Entry { taken: vec![2, 2], ..theirs(Stage::Taken, 2) };
        assert!(differ(&accepted, &twice));
    }

    #[test]
    fn a_packed_order_agrees_in_its_pieces_and_parcels() {
        let (ours, theirs, reported) = packed();
        assert_eq!(difference(&ours, &theirs, &reported), None);
        let some = Entry { packed: json!([{ "product": PRODUCT, "expedited": 2 }]), ..theirs.clone() };
        assert_eq!(difference(&ours, &some, &reported), Some("it has packed other pieces"));
        let other = BTreeSet::from([json!(["P", "U"]).to_string()]);
        assert_eq!(difference(&ours, &theirs, &other), Some("it has sent other parcels"));
    }
}
