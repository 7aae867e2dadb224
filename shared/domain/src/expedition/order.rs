//! An order as the service works with it: read under its lock, with what sending it depends on.

use serde::Deserialize;
use serde_json::{Value, json};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::allocator::{Demand, Lack};
use super::shipper::{Choice, Consignment, Shipper};
use crate::list::fields::expedition::{ExpeditionStatus, HandoverState};
use crate::record::FieldChange;
use longshore_kernel::access::Scope;
use longshore_kernel::ids::{
    EshopId, ExpeditionId, ExpeditionItemId, OrganisationId, ProductId, StockId, WarehouseId, WmsId,
};
use longshore_kernel::problem::Violation;
use longshore_kernel::refused::Parameters;
use longshore_kernel::sqlstate::Overtaken;

/// Where pieces of a product are: a warehouse, and the wms in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The warehouse.
    pub warehouse: WarehouseId,
    /// The wms.
    pub wms: WmsId,
}

/// An order.
#[expect(clippy::struct_field_names, reason = "an order number is what the API calls it")]
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) id: ExpeditionId,
    pub(super) organisation: OrganisationId,
    pub(super) eshop: EshopId,
    pub(super) place: Place,
    pub(super) order_number: String,
    pub(super) external_id: Option<String>,
    pub(super) state: State,
    /// Whether it waits for a confirmation once it is booked.
    pub(super) waits_before: bool,
    pub(super) items: Vec<Item>,
    /// Whether its address is looked at when it is sent.
    pub(super) checks_address: bool,
    /// What keeps it from being sent, but for its items.
    pub(super) faults: Vec<Violation>,
    pub(super) shipper: Shipper,
    /// What a body has changed of it in the same transaction, and no event has said.
    pub(super) edits: Vec<FieldChange>,
    /// Who shipped it before this change; absent where that stays.
    pub(super) former_shipper: Option<Shipper>,
    /// What a carrier is chosen by; absent where it has one of its own.
    pub(super) consignment: Option<Consignment>,
    /// As it was read: what a change makes of it, only Postgres knows.
    pub(super) version: i64,
}

/// What a transition changes of an order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct State {
    pub(super) status: ExpeditionStatus,
    pub(super) is_paused: bool,
    pub(super) waits_for: Option<Lack>,
    pub(super) errors: Option<Value>,
    /// Its addresses were looked at when it was last sent.
    pub(super) is_address_checked: bool,
    /// The status that it goes back to if the warehouse refuses the cancel that it waits for.
    pub(super) canceling_from: Option<ExpeditionStatus>,
    /// Where its hand-over is. What follows from a change of the status is left to the database (`expedition_handover_follows`).
    pub(super) handover: Option<HandoverState>,
    /// What a set-back has left unknown of its hand-over.
    pub(super) doubt: Doubt,
    /// While it is `withdrawing`: what becomes of it when the warehouse has given it back, where its status does not say so.
    pub(super) then: Option<ExpeditionStatus>,
}

/// What a set-back has left unknown of the hand-over of an order ([`super::handover::doubt`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Doubt {
    /// Nothing.
    #[default]
    None,
    /// Whether the warehouse has it, and under which number.
    Whether,
    /// What is in it: the warehouse has it, and may have been given other items or another address.
    Contents,
}

impl Doubt {
    fn stored(in_doubt: bool, contents_unknown: bool) -> Self {
        match (in_doubt, contents_unknown) {
            (false, _) => Self::None,
            (true, false) => Self::Whether,
            (true, true) => Self::Contents,
        }
    }
}

impl Default for State {
    fn default() -> Self {
        Self {
            status: ExpeditionStatus::OnHold,
            is_paused: false,
            waits_for: None,
            errors: None,
            is_address_checked: false,
            canceling_from: None,
            handover: None,
            doubt: Doubt::None,
            then: None,
        }
    }
}

/// An item of an order.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Item {
    pub(super) id: ExpeditionItemId,
    pub(super) position: i32,
    pub(super) product: ProductId,
    #[serde(rename = "productSku")]
    pub(super) product_sku: String,
    pub(super) quantity: i32,
    /// The stock that it is booked in; absent where there is none yet.
    pub(super) stock: Option<StockId>,
    /// Whether the product is physical.
    pub(super) is_physical: bool,
    /// What was ordered (it, or the bundle that it is a part of), where that is not active, or not sold in the e-shop.
    pub(super) unsold: Option<ProductId>,
}

impl Order {
    /// Whether the warehouse has it, or may have it.
    pub(super) fn is_handed_over(&self) -> bool {
        self.state.status.is_handed_over(self.state.handover)
    }

    /// What it needs of its stocks, to be booked. Stocks are made before the order is locked: where an item has none, another
    /// change came in between, and the order would be booked without these pieces.
    pub(super) fn demand(&self) -> Result<Demand, Overtaken> {
        let needed = |item: &Item| Some((item.stock?, i64::from(item.quantity)));
        let needed: Option<Vec<_>> = self.items.iter().map(needed).collect();
        let overtaken = Overtaken("an order was edited while it was being booked");
        needed.map(Demand::new).ok_or(overtaken)
    }

    /// What was entered for it in its stocks when it was sent: the pieces that it holds, or that it waits for.
    pub(super) fn entered(&self) -> Demand {
        Demand::new(self.items.iter().filter_map(|item| Some((item.stock?, i64::from(item.quantity)))))
    }

    /// Everything that keeps it from being sent, as the record shows it; none where it can be sent.
    pub(super) fn errors(&self) -> Option<Value> {
        let violations = self.violations();
        let show = |violation: &Violation| {
            let value = self.refused(&violation.property_path).map(|id| id.to_string()).unwrap_or_default();
            json!({"propertyPath": violation.property_path, "message": violation.message, "code": violation.code,
                   "parameters": Parameters { value, ..Parameters::default() }})
        };
        (!violations.is_empty()).then(|| violations.iter().map(show).collect())
    }

    /// What keeps it from being sent, and did not before.
    pub(super) fn faults_since(&self, before: &Self) -> Vec<Violation> {
        let is_old = |fault: &&Violation| {
            before
                .faults
                .iter()
                .any(|old| (&old.property_path, old.code) == (&fault.property_path, fault.code))
        };
        self.faults.iter().filter(|fault| !is_old(fault)).cloned().collect()
    }

    /// The reference that a violation refuses.
    fn refused(&self, path: &str) -> Option<Uuid> {
        match path {
            "carrier" => self.shipper.carrier,
            "carrierService" => self.shipper.service,
            path => {
                let position = path.strip_prefix("items[")?.split_once(']')?.0.parse::<i32>().ok()?;
                let item = self.items.iter().find(|item| item.position == position)?;
                Some(item.unsold.filter(|_| item.is_physical).unwrap_or(item.product).get())
            }
        }
    }

    fn violations(&self) -> Vec<Violation> {
        let mut violations = self.faults.clone();
        for item in &self.items {
            let path = format!("items[{}].product", item.position);
            if !item.is_physical {
                violations.push(Violation::new(path, "not_stocked", "is not physical, so it has no stock"));
            } else if item.unsold.is_some() {
                violations.push(Violation::new(path, "inactive", "is not active, or not sold in the e-shop"));
            }
        }
        violations
    }

    /// Whether everything that was ordered has left.
    pub(super) fn is_complete(&self, left: impl Fn(ExpeditionItemId) -> i32) -> bool {
        self.items.iter().all(|item| left(item.id) == item.quantity)
    }

    /// What an event says of an order that is packed: its items with what left of each, and whether that is all.
    pub(super) fn packed(&self, left: impl Fn(ExpeditionItemId) -> i32) -> [(&'static str, Value); 2] {
        let mut items = self.booked_items(ExpeditionStatus::WaitingForTheCarrier);
        for (shown, item) in items.as_array_mut().into_iter().flatten().zip(&self.items) {
            shown["expedited"] = json!(left(item.id));
        }
        [("items", items), ("expeditedCompletely", json!(self.is_complete(left)))]
    }

    /// Its items, as an event of its bookings shows them.
    pub(super) fn booked_items(&self, status: ExpeditionStatus) -> Value {
        let show = |item: &Item| {
            let booked = if status.is_booked() { item.quantity } else { 0 };
            let missing = (status.is_waiting() || status.is_booked()).then_some(item.quantity - booked);
            json!({"id": item.id, "product": item.product, "productSku": item.product_sku,
                   "quantity": item.quantity, "booked": booked, "missing": missing})
        };
        self.items.iter().map(show).collect()
    }
}

/// The fields that decide whether an order can be sent.
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
#[derive(Clone, Debug, Default)]
pub(super) struct Sendable<'s> {
    pub(super) ignores_address: bool,
    pub(super) street: Option<&'s str>,
    pub(super) city: Option<&'s str>,
    pub(super) zip: Option<&'s str>,
    pub(super) country: Option<&'s str>,
    pub(super) last_name: Option<&'s str>,
    pub(super) company: Option<&'s str>,
    pub(super) is_cod: bool,
    pub(super) has_cod_value: bool,
    pub(super) has_carrier: bool,
    /// The carrier is active and attached.
    pub(super) is_carrier_active: bool,
    /// There is no service, or it is one of the carrier's.
    pub(super) is_service_active: bool,
    /// The carrier serves the country, as far as that is known.
    pub(super) is_served: bool,
}

impl Sendable<'_> {
    /// What is missing.
    pub(super) fn faults(&self) -> Vec<Violation> {
        let mut faults = Vec::new();
        let mut refuse = |path: &str, code, message: &str| faults.push(Violation::new(path, code, message));
        if !self.ignores_address {
            let is_empty = |text: Option<&str>| text.is_none_or(|text| text.trim().is_empty());
            if is_empty(self.last_name) && is_empty(self.company) {
                refuse("deliveryLastName", "required", "is required, or deliveryCompany");
            }
            for (path, text) in [
                ("deliveryStreet", self.street),
                ("deliveryCity", self.city),
                ("deliveryZip", self.zip),
                ("deliveryCountry", self.country),
            ] {
                if is_empty(text) {
                    refuse(path, "required", "is required to send the order");
                }
            }
        }
        if self.is_cod && !self.has_cod_value {
            refuse("codValue", "required", "is required where cod is true");
        }
        if !self.has_carrier {
            faults.push(no_carrier());
        } else if !self.is_carrier_active {
            refuse("carrier", "inactive", "is not active, or not attached to the organisation");
        } else if !self.is_served {
            refuse("carrier", "not_served", "does not serve the delivery country");
        } else if !self.is_service_active {
            refuse("carrierService", "inactive", "is no longer a service of the carrier");
        }
        faults
    }
}

/// An order cannot be sent without a carrier.
pub(super) fn no_carrier() -> Violation {
    Violation::new(
        "carrier",
        "no_carrier",
        "is required to send the order: none is given, and no preference holds",
    )
}

/// Locks orders of a scope, by id, and reads them; in the order of their ids. What is not there, or not in the scope, is left
/// out.
pub(super) async fn lock(
    connection: &mut PgConnection,
    scope: &Scope,
    ids: &[ExpeditionId],
) -> Result<Vec<Order>, sqlx::Error> {
    // two steps: items and details are read after the order is locked
    let locked = sqlx::query_scalar!(
        "SELECT id FROM expedition
         WHERE id = ANY($1) AND in_scope($2, organisation_id) AND in_eshop($3, eshop_id)
         ORDER BY id FOR UPDATE",
        ids as &[ExpeditionId],
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
    )
    .fetch_all(&mut *connection)
    .await?;
    read(connection, &locked).await
}

/// Reads orders that are locked.
async fn read(connection: &mut PgConnection, ids: &[Uuid]) -> Result<Vec<Order>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"SELECT e.id, e.organisation_id, e.eshop_id, e.warehouse_id, e.wms_id, e.status AS "status: ExpeditionStatus",
                  e.reservation_paused, e.waits_for_id, e.waits_quantity, e.errors, e.address_validation_executed,
                  e.canceling_from AS "canceling_from: ExpeditionStatus",
                  n.handover_state AS "handover_state: HandoverState", n.handover_in_doubt AS "in_doubt?",
                  n.handover_contents_unknown AS "contents_unknown?",
                  CASE WHEN n.handover_state = 'withdrawing' THEN n.handover_then END AS "then: ExpeditionStatus",
                  coalesce(e.wait_before_processing, s.wait_before_processing) AS "waits_before!", e.version,
                  d.order_number, d.external_id,
                  d.ignore_address_validation OR o.ignore_address_validation AS "ignores_address!",
                  d.delivery_street, d.delivery_city, d.delivery_zip, d.delivery_country, d.delivery_last_name,
                  d.delivery_company, d.cod, d.cod_value IS NOT NULL AS "has_cod_value!",
                  d.carrier_id, d.carrier_service_id,
                  EXISTS (SELECT FROM carrier c
                          JOIN carrier_organisation co ON co.carrier_id = c.id AND co.organisation_id = e.organisation_id
                          WHERE c.id = d.carrier_id AND c.active) AS "is_carrier_active!",
                  d.carrier_service_id IS NULL
                      OR EXISTS (SELECT FROM carrier_service v
                                 WHERE v.id = d.carrier_service_id AND v.carrier_id = d.carrier_id)
                      AS "is_service_active!",
                  d.delivery_country IS NULL
                      OR EXISTS (SELECT FROM carrier c
                                 WHERE c.id = d.carrier_id AND (c.countries_of_operation = '{}'
                                                                OR d.delivery_country = ANY (c.countries_of_operation)))
                      AS "is_served!",
                  d.carrier_preference_id, d.carrier_chosen_at, d.delivery_method, d.value::text AS "value!", d.currency,
                  coalesce(d.b2b, false) AS "is_b2b!",
                  num_nonnulls(d.carrier_pickup_place, d.carrier_pickup_place_code, d.external_carrier_pickup_place,
                               d.external_carrier_pickup_place_code) > 0 AS "has_pickup_place!",
                  (SELECT jsonb_agg(jsonb_build_object(
                              'id', i.id, 'position', i.position, 'product', i.product_id,
                              'productSku', coalesce(p.product_sku, ''), 'quantity', i.quantity, 'stock', k.id,
                              'is_physical', coalesce(p.type = 'physical', false),
                              'unsold', CASE WHEN (b.active AND EXISTS (
                                  SELECT FROM product_eshop x WHERE x.product_id = b.id AND x.eshop_id = e.eshop_id)) IS NOT TRUE
                                  THEN coalesce(u.product_id, i.product_id) END)
                          ORDER BY i.position)
                   FROM expedition_item i
                   LEFT JOIN product p ON p.id = i.product_id
                   LEFT JOIN expedition_bundle u ON u.expedition_id = i.expedition_id AND u.position = i.bundle_position
                   LEFT JOIN product b ON b.id = coalesce(u.product_id, i.product_id)
                   LEFT JOIN product_stock k
                       ON k.product_id = i.product_id AND k.warehouse_id = e.warehouse_id AND k.wms_id = e.wms_id
                   WHERE i.expedition_id = e.id) AS "items!: Json<Vec<Item>>"
           FROM expedition e
           JOIN expedition_detail d ON d.id = e.id
           JOIN eshop s ON s.id = e.eshop_id
           JOIN organisation o ON o.id = e.organisation_id
           LEFT JOIN expedition_handover n ON n.id = e.id
           WHERE e.id = ANY($1) ORDER BY e.id"#,
        ids,
    )
    .fetch_all(connection)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Order {
            id: row.id.into(),
            organisation: row.organisation_id.into(),
            eshop: row.eshop_id.into(),
            place: Place { warehouse: row.warehouse_id.into(), wms: row.wms_id.into() },
            faults: Sendable {
                ignores_address: row.ignores_address,
                street: row.delivery_street.as_deref(),
                city: row.delivery_city.as_deref(),
                zip: row.delivery_zip.as_deref(),
                country: row.delivery_country.as_deref(),
                last_name: row.delivery_last_name.as_deref(),
                company: row.delivery_company.as_deref(),
                is_cod: row.cod,
                has_cod_value: row.has_cod_value,
                has_carrier: row.carrier_id.is_some(),
                is_carrier_active: row.is_carrier_active,
                is_service_active: row.is_service_active,
                is_served: row.is_served,
            }
            .faults(),
            consignment: (row.carrier_id.is_none() || row.carrier_preference_id.is_some()).then(|| {
                Consignment {
                    country: row.delivery_country.clone(),
                    method: row.delivery_method,
                    value: row.value,
                    currency: row.currency,
                    is_cod: row.cod,
                    is_b2b: row.is_b2b,
                    has_pickup_place: row.has_pickup_place,
                }
            }),
            shipper: Shipper {
                carrier: row.carrier_id,
                service: row.carrier_service_id,
                choice: row
                    .carrier_preference_id
                    .zip(row.carrier_chosen_at)
                    .map(|(preference, at)| Choice { preference, at }),
            },
            former_shipper: None,
            edits: Vec::new(),
            checks_address: !row.ignores_address,
            order_number: row.order_number,
            external_id: row.external_id,
            state: State {
                status: row.status,
                is_paused: row.reservation_paused,
                waits_for: row
                    .waits_for_id
                    .zip(row.waits_quantity)
                    .map(|(stock, quantity)| Lack { stock: stock.into(), quantity }),
                errors: row.errors,
                is_address_checked: row.address_validation_executed,
                canceling_from: row.canceling_from,
                handover: row.handover_state,
                doubt: Doubt::stored(
                    row.in_doubt.unwrap_or_default(),
                    row.contents_unknown.unwrap_or_default(),
                ),
                then: row.then,
            },
            waits_before: row.waits_before,
            items: row.items.0,
            version: row.version,
        })
        .collect())
}
