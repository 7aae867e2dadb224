//! Choosing a carrier for orders that are sent without one (`docs/reference/orders.md#choice-of-a-carrier`): one statement for all
//! orders that are sent together, and none where each has a carrier of its own.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use super::order::Order;
use super::shipper::{Choice, Consignment, Shipper};
use crate::record::FieldChange;

impl Order {
    /// What becomes of its carrier, for the audit; nothing where that stays.
    pub(super) fn chosen(&self) -> Vec<FieldChange> {
        self.former_shipper.as_ref().map(|former| former.becomes(&self.shipper)).unwrap_or_default()
    }

    /// Takes a carrier that was chosen for it, or none.
    fn ship_by(&mut self, chosen: Shipper) {
        self.faults.retain(|fault| !matches!(fault.property_path.as_str(), "carrier" | "carrierService"));
        if chosen.carrier.is_none() {
            self.faults.push(super::order::no_carrier());
        }
        if !chosen.is_as(&self.shipper) {
            self.former_shipper = Some(std::mem::replace(&mut self.shipper, chosen));
        }
    }
}

/// Chooses a carrier for each of those orders, which are being sent, that has none of its own: the first preference, in their
/// order, whose conditions hold, and whose carrier and service can be used and serve the country.
pub(super) async fn choose<'o>(
    connection: &mut PgConnection,
    orders: impl Iterator<Item = &'o mut Order>,
) -> Result<(), sqlx::Error> {
    let mut open: Vec<(Consignment, &mut Order)> =
        orders.filter_map(|order| Some((order.consignment.clone()?, order))).collect();
    if open.is_empty() {
        return Ok(());
    }
    let organisations: Vec<Uuid> = open.iter().map(|(_, order)| order.organisation.get()).collect();
    let eshops: Vec<Uuid> = open.iter().map(|(_, order)| order.eshop.get()).collect();
    let countries: Vec<Option<&str>> = open.iter().map(|(sent, _)| sent.country.as_deref()).collect();
    let methods: Vec<Option<&str>> = open.iter().map(|(sent, _)| sent.method.as_deref()).collect();
    let values: Vec<&str> = open.iter().map(|(sent, _)| sent.value.as_str()).collect();
    let currencies: Vec<&str> = open.iter().map(|(sent, _)| sent.currency.as_str()).collect();
    let cod: Vec<bool> = open.iter().map(|(sent, _)| sent.is_cod).collect();
    let b2b: Vec<bool> = open.iter().map(|(sent, _)| sent.is_b2b).collect();
    let pickup: Vec<bool> = open.iter().map(|(sent, _)| sent.has_pickup_place).collect();
    let (mut of, mut products, mut quantities) = (Vec::new(), Vec::new(), Vec::new());
    for ((_, order), n) in open.iter().zip(1_i64..) {
        for item in &order.items {
            of.push(n);
            products.push(item.product.get());
            quantities.push(item.quantity);
        }
    }
    let chosen = sqlx::query!(
        r#"WITH weighed AS MATERIALIZED (
               SELECT i.n, CASE WHEN count(*) = count(q.weight) THEN sum(q.weight::bigint * i.quantity) END AS weight
               FROM unnest($10::bigint[], $11::uuid[], $12::int[]) AS i (n, product, quantity)
               -- each by its key, independent of the statistics
               LEFT JOIN product q ON q.id = ANY (ARRAY[i.product])
               GROUP BY i.n
           )
           SELECT f.id AS "preference?", f.carrier_id AS "carrier?", f.carrier_service_id AS service, now() AS "at!"
           FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::boolean[], $8::boolean[],
                       $9::boolean[]) WITH ORDINALITY
               AS g (organisation, eshop, country, method, value, currency, cod, b2b, pickup, n)
           LEFT JOIN weighed w ON w.n = g.n
           LEFT JOIN LATERAL (
               SELECT p.id, p.carrier_id, p.carrier_service_id
               FROM carrier_preference p
               JOIN carrier c ON c.id = p.carrier_id AND c.active
               JOIN carrier_organisation o ON o.carrier_id = c.id AND o.organisation_id = p.organisation_id
               WHERE p.organisation_id = g.organisation AND (p.eshop_id = g.eshop OR p.eshop_id IS NULL) AND p.active
                 AND (c.countries_of_operation = '{}' OR g.country = ANY (c.countries_of_operation))
                 AND (p.carrier_service_id IS NULL OR EXISTS (
                         SELECT FROM carrier_service v WHERE v.id = p.carrier_service_id AND v.carrier_id = c.id))
                 AND (NOT p.conditions ? 'countries' OR p.conditions -> 'countries' ? g.country)
                 AND (NOT p.conditions ? 'deliveryMethods' OR p.conditions -> 'deliveryMethods' ? g.method)
                 AND (NOT p.conditions ? 'minWeight' OR w.weight >= (p.conditions ->> 'minWeight')::numeric)
                 AND (NOT p.conditions ? 'maxWeight' OR w.weight <= (p.conditions ->> 'maxWeight')::numeric)
                 AND (NOT p.conditions ? 'minValue' OR g.value::numeric >= (p.conditions ->> 'minValue')::numeric)
                 AND (NOT p.conditions ? 'maxValue' OR g.value::numeric <= (p.conditions ->> 'maxValue')::numeric)
                 AND (NOT p.conditions ? 'currency' OR g.currency = p.conditions ->> 'currency')
                 AND (NOT p.conditions ? 'cod' OR g.cod = (p.conditions ->> 'cod')::boolean)
                 AND (NOT p.conditions ? 'b2b' OR g.b2b = (p.conditions ->> 'b2b')::boolean)
                 AND (NOT p.conditions ? 'pickupPlace' OR g.pickup = (p.conditions ->> 'pickupPlace')::boolean)
               ORDER BY p.eshop_id IS NULL, p.position LIMIT 1
           ) f ON true
           ORDER BY g.n"#,
        &organisations,
        &eshops,
        &countries as &[Option<&str>],
        &methods as &[Option<&str>],
        &values as &[&str],
        &currencies as &[&str],
        &cod,
        &b2b,
        &pickup,
        &of,
        &products,
        &quantities,
    )
    .fetch_all(connection)
    .await?;
    for ((_, order), row) in open.iter_mut().zip(chosen) {
        let choice = row.preference.map(|preference| Choice { preference, at: row.at });
        order.ship_by(Shipper { carrier: row.carrier, service: row.service, choice });
    }
    Ok(())
}

/// Writes who ships orders from now on, which are locked.
pub(super) async fn assign(
    connection: &mut PgConnection,
    assigned: &[(Uuid, Shipper)],
) -> Result<(), sqlx::Error> {
    if assigned.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = assigned.iter().map(|(id, _)| *id).collect();
    let carriers: Vec<Option<Uuid>> = assigned.iter().map(|(_, shipper)| shipper.carrier).collect();
    let services: Vec<Option<Uuid>> = assigned.iter().map(|(_, shipper)| shipper.service).collect();
    let preferences: Vec<Option<Uuid>> =
        assigned.iter().map(|(_, shipper)| shipper.choice.map(|choice| choice.preference)).collect();
    let moments: Vec<Option<DateTime<Utc>>> =
        assigned.iter().map(|(_, shipper)| shipper.choice.map(|choice| choice.at)).collect();
    sqlx::query!(
        "UPDATE expedition_detail d
         SET carrier_id = g.carrier, carrier_service_id = g.service, carrier_preference_id = g.preference,
             carrier_chosen_at = g.at
         FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::timestamptz[])
             AS g (id, carrier, service, preference, at)
         WHERE d.id = ANY (ARRAY[g.id])",
        &ids,
        &carriers as &[Option<Uuid>],
        &services as &[Option<Uuid>],
        &preferences as &[Option<Uuid>],
        &moments as &[Option<DateTime<Utc>>],
    )
    .execute(connection)
    .await
    .map(|_| ())
}
