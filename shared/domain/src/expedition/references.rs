//! What orders refer to: an e-shop, a warehouse and wms, a carrier, products. Two statements look up those of many orders; what
//! is wrong with each is said with its path. Bundles are taken apart, and virtual products put aside
//! (`docs/reference/orders.md#bundles`).

mod lookup;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};
use sqlx::PgConnection;
use sqlx::types::Json;

use self::lookup::{Found, Head, Shelf, heads, products};
use super::allocator::Stock;
use super::body::{Body, Detail, MAX_ITEMS, MAX_PIECES, MAX_QUANTITY, NewItem};
use super::order::{Item, Order, Place, Sendable, State};
use super::shipper::{Choice, Shipper};
use longshore_kernel::access::Scope;
use longshore_kernel::ids::{EshopId, ExpeditionId, ExpeditionItemId, OrganisationId, ProductId, StockId};
use longshore_kernel::problem::{Violation, refuses, with_found};

/// An order that a body describes, beside the one that is stored, if it is.
#[derive(Debug)]
pub(super) struct Draft<'d> {
    pub(super) id: ExpeditionId,
    pub(super) eshop: EshopId,
    /// Whose orders the caller may write.
    pub(super) scope: &'d Scope,
    /// What the body makes of it.
    pub(super) detail: Detail,
    /// What was given; of a stored order, only what was given is looked up.
    pub(super) given: Cow<'d, Body>,
    /// The choice of the stored carrier, unless the body makes it the caller's own.
    pub(super) choice: Option<Choice>,
    pub(super) is_new: bool,
}

/// What was found of a draft.
#[derive(Debug)]
pub(super) struct Resolved {
    pub(super) order: Order,
    pub(super) detail: Detail,
    /// Whether an import leaves it on hold.
    pub(super) edits_before: bool,
    /// Rows of `expedition_item`; none where the body gave no items.
    pub(super) items: Vec<Value>,
    /// Rows of `expedition_bundle`.
    pub(super) bundles: Vec<Value>,
    pub(super) removed_virtual_products: Vec<Value>,
    /// The stocks of its items, as they are unless they have changed since.
    pub(super) stocks: HashMap<StockId, Stock>,
}

/// Looks up the references of drafts, and says what is wrong with each that cannot be taken.
pub(super) async fn resolve(
    connection: &mut PgConnection,
    drafts: Vec<Draft<'_>>,
) -> Result<Vec<Result<Resolved, Vec<Violation>>>, sqlx::Error> {
    let heads = heads(connection, &drafts).await?;
    let placed: Vec<_> = drafts.into_iter().zip(heads).map(|(draft, head)| place(draft, head)).collect();
    let products = products(connection, &placed).await?;
    let mut products = products.into_iter();
    Ok(placed
        .into_iter()
        .map(|placed| {
            let count = placed.draft.given.items.as_ref().map_or(0, Vec::len);
            let found: Vec<_> = products.by_ref().take(count).collect();
            settle(placed, found)
        })
        .collect())
}

/// A draft with its place, and what is wrong with it so far.
struct Placed<'d> {
    draft: Draft<'d>,
    head: Head,
    violations: Vec<Violation>,
}

fn place(mut draft: Draft<'_>, head: Head) -> Placed<'_> {
    let mut found = Vec::new();
    let mut refuse = |path: &str, code, message: &str| found.push(Violation::new(path, code, message));
    let is_refused = |field: &str| refuses(&draft.given.violations, field);
    let organisation = head.organisation.filter(|id| draft.scope.has_eshop((*id).into(), draft.eshop));
    let (detail, codes) = (&mut draft.detail, draft.given.codes);
    match organisation {
        // refused where it was read
        None if draft.is_new && draft.given.eshop.is_none() => {}
        None => refuse("eshop", "unknown_reference", "does not exist"),
        Some(_) if draft.is_new && !head.is_eshop_active => refuse("eshop", "inactive", "is not active"),
        Some(_) => {}
    }
    if organisation.is_some() {
        let fields = &draft.given.fields;
        let gives_warehouse = draft.is_new || fields.warehouse_id.is_some();
        let gives_place = gives_warehouse || fields.wms_id.is_some();
        let has_warehouse = fields.warehouse_id.is_some() || !detail.warehouse_id.is_nil();
        let has_wms = fields.wms_id.is_some() || !detail.wms_id.is_nil();
        if is_refused("warehouse") {
            // its wms cannot be judged
        } else if head.warehouse.is_none() && !has_warehouse {
            refuse("warehouse", "required", "is required: the e-shop has no defaultWarehouse");
        } else if gives_warehouse && !head.is_warehouse_served {
            refuse("warehouse", "unknown_reference", "must be a warehouse of the e-shop");
        } else if !gives_place {
            // a stored order stays where it is
        } else if head.wms.is_none() && !has_wms {
            refuse("wms", "required", "is required: the warehouse has no defaultWms");
        } else if head.wms.is_none() {
            refuse("wms", "unknown_reference", "must be a wms of the organisation");
        } else if !head.is_wms_linked {
            refuse("wms", "not_linked", "must be linked to the warehouse");
        }
        let (names_carrier, names_service) = (
            detail.carrier_id.is_some() || codes.carrier.is_some(),
            detail.carrier_service_id.is_some() || codes.service.is_some(),
        );
        let carrier = if codes.carrier.is_some() { "carrierCode" } else { "carrier" };
        let service = if codes.service.is_some() { "carrierServiceCode" } else { "carrierService" };
        // a stored order keeps a carrier that is no longer active: sending says so
        let is_given = draft.is_new || codes.carrier.is_some() || draft.given.fields.carrier_id.is_given();
        let has_carrier = head.carrier.is_some() && head.is_carrier_active;
        let is_carrier_refused = names_carrier && is_given && !has_carrier;
        if is_carrier_refused {
            refuse(
                carrier,
                "unknown_reference",
                "must be an active carrier that is attached to the organisation",
            );
        }
        let is_given =
            is_given || codes.service.is_some() || draft.given.fields.carrier_service_id.is_given();
        if names_service && (is_carrier_refused || is_refused("carrier") || is_refused("carrierCode")) {
            // the services of the carrier are not known, or not the caller's to know
        } else if names_service && !names_carrier {
            refuse(service, "not_allowed", "must come with its carrier");
        } else if names_service && is_given && head.carrier.is_some() && !head.is_service_active {
            refuse(service, "unknown_reference", "must be a service of the carrier");
        }
    }
    if let Some(other) = head.number_taken_by.filter(|_| organisation.is_some()) {
        let message = "belongs to another order of the e-shop";
        found.push(Violation::taken("orderNumber", message, Some(other)));
    }
    if let Some(other) = head.external_taken_by.filter(|_| organisation.is_some()) {
        let message = "belongs to another order of the e-shop";
        found.push(Violation::taken("externalId", message, Some(other)));
    }
    detail.warehouse_id = head.warehouse.unwrap_or(detail.warehouse_id);
    detail.wms_id = head.wms.unwrap_or(detail.wms_id);
    detail.carrier_id = head.carrier.or(detail.carrier_id);
    detail.carrier_service_id = head.service.or(detail.carrier_service_id);
    let violations = with_found(draft.given.violations.clone(), found);
    Placed { draft, head, violations }
}

/// The items of an order, while they are put together.
#[derive(Default)]
struct Items {
    rows: Vec<Value>,
    list: Vec<Item>,
    bundles: Vec<Value>,
    removed: Vec<Value>,
    stocks: HashMap<StockId, Stock>,
}

impl Items {
    fn push(&mut self, order: ExpeditionId, columns: &Map<String, Value>, bundle: Option<usize>, item: Item) {
        let mut row = columns.clone();
        for (name, value) in [
            ("id", json!(item.id)),
            ("expedition_id", json!(order)),
            ("position", json!(item.position)),
            ("product_id", json!(item.product)),
            ("quantity", json!(item.quantity)),
            ("bundle_position", json!(bundle)),
        ] {
            row.insert(name.to_owned(), value);
        }
        self.rows.push(Value::Object(row));
        self.list.push(item);
    }

    fn next(&mut self, product: ProductId, product_sku: String, quantity: i32, shelf: Option<Shelf>) -> Item {
        let stock = shelf.map(|Shelf { id, quantity, held, missing, is_marked }| {
            self.stocks.insert(id, Stock { quantity, held, missing, is_marked });
            id
        });
        let position = i32::try_from(self.list.len()).unwrap_or(i32::MAX);
        let id = ExpeditionItemId::new();
        Item { id, position, product, product_sku, quantity, stock, is_physical: true, unsold: None }
    }
}

/// What of an item its parts keep.
const KEPT_BY_PARTS: &[&str] = &["ref1", "ref2", "ref3", "lifo"];

fn settle(placed: Placed<'_>, found: Vec<Found>) -> Result<Resolved, Vec<Violation>> {
    let Placed { draft, head, mut violations } = placed;
    let mut items = Items::default();
    let is_known = head.organisation.is_some_and(|id| draft.scope.has_eshop(id.into(), draft.eshop));
    for (index, (given, found)) in draft.given.items.iter().flatten().zip(found).enumerate() {
        if !is_known {
            break;
        }
        if given.product.is_none() && given.product_sku.is_none() {
            // refused where it was read
            continue;
        }
        if given.is_left_out {
            continue;
        }
        if let Err((name, code, message)) = take_item(&mut items, &draft, given, found) {
            violations.push(Violation::new(format!("items[{index}].{name}"), code, message));
        }
    }
    let pieces: i64 = items.list.iter().map(|item| i64::from(item.quantity)).sum();
    let gives_items = draft.given.items.is_some();
    if gives_items && is_known && violations.is_empty() {
        let (code, message) = if items.list.is_empty() {
            ("required", "must have a physical product, and at least one piece of it".to_owned())
        } else if items.list.len() > MAX_ITEMS {
            ("invalid_count", format!("must come to at most {MAX_ITEMS} items, bundles taken apart"))
        } else if pieces > MAX_PIECES {
            ("out_of_range", format!("must come to at most {MAX_PIECES} pieces"))
        } else {
            ("", String::new())
        };
        if !code.is_empty() {
            violations.push(Violation::new("items", code, message));
        }
    }
    if !violations.is_empty() {
        return Err(violations);
    }
    let detail = draft.detail;
    let gives_carrier = draft.given.names_carrier();
    let shipper = Shipper {
        carrier: detail.carrier_id,
        service: detail.carrier_service_id,
        choice: draft.choice.filter(|_| !gives_carrier),
    };
    let serves = |country: &String| head.countries.is_empty() || head.countries.contains(country);
    let faults = Sendable {
        ignores_address: detail.ignore_address_validation || head.ignores_address,
        street: detail.delivery_street.as_deref(),
        city: detail.delivery_city.as_deref(),
        zip: detail.delivery_zip.as_deref(),
        country: detail.delivery_country.as_deref(),
        last_name: detail.delivery_last_name.as_deref(),
        company: detail.delivery_company.as_deref(),
        is_cod: detail.cod,
        has_cod_value: detail.cod_value.is_some(),
        has_carrier: detail.carrier_id.is_some(),
        is_carrier_active: head.is_carrier_active,
        is_service_active: detail.carrier_service_id.is_none() || head.is_service_active,
        is_served: detail.delivery_country.as_ref().is_none_or(serves),
    }
    .faults();
    let order = Order {
        id: draft.id,
        organisation: OrganisationId::from(head.organisation.unwrap_or_default()),
        eshop: draft.eshop,
        place: Place { warehouse: detail.warehouse_id.into(), wms: detail.wms_id.into() },
        order_number: detail.order_number.clone(),
        external_id: detail.external_id.clone(),
        state: State::default(),
        waits_before: detail.wait_before_processing.unwrap_or(head.waits_before),
        checks_address: !(detail.ignore_address_validation || head.ignores_address),
        faults,
        consignment: (shipper.carrier.is_none() || shipper.choice.is_some()).then(|| detail.consignment()),
        shipper,
        former_shipper: None,
        edits: Vec::new(),
        items: items.list,
        version: 1,
    };
    Ok(Resolved {
        order,
        edits_before: detail.edit_before_processing.unwrap_or(head.edits_before),
        detail,
        items: items.rows,
        bundles: items.bundles,
        removed_virtual_products: items.removed,
        stocks: items.stocks,
    })
}

/// What is wrong with an item: the member, a code and a sentence.
type Fault = (&'static str, &'static str, String);

/// There is no such product, as far as the caller sees.
fn unknown(named_by: &'static str, sku: Option<&str>, is_bound: bool) -> Fault {
    let owner = if is_bound { "e-shop" } else { "organisation" };
    let none = sku.map(|sku| format!(": none has the SKU \"{sku}\"")).unwrap_or_default();
    (named_by, "unknown_reference", format!("must be a product of the {owner}{none}"))
}

fn take_item(items: &mut Items, draft: &Draft<'_>, given: &NewItem, found: Found) -> Result<(), Fault> {
    let named_by = if given.product.is_some() { "product" } else { "productSku" };
    let sku = given.product_sku.as_deref().filter(|_| given.product.is_none());
    let order = draft.id;
    // who is bound to an e-shop is not told what its organisation has elsewhere
    let is_bound = draft.scope.eshop().is_some();
    let Found { product: Some(product), product_sku, kind, is_active, is_attached, stock, parts } = found
    else {
        return Err(unknown(named_by, sku, is_bound));
    };
    if !is_attached && is_bound {
        return Err(unknown(named_by, sku, is_bound));
    }
    if given.product_sku.is_some() && given.product_sku != product_sku {
        return Err((
            "productSku",
            "unknown_reference",
            "must be the SKU of the product, or absent".to_owned(),
        ));
    }
    if !(is_active && is_attached) {
        return Err((named_by, "inactive", "must be active, and sold in the e-shop".to_owned()));
    }
    match kind.as_deref() {
        Some("virtual") => {
            items.removed.push(json!({"productId": product, "quantity": given.quantity}));
        }
        Some("bundle") => {
            let bundle = items.bundles.len();
            items.bundles.push(json!({"expedition_id": order, "position": bundle, "product_id": product,
                                      "quantity": given.quantity}));
            let kept = |(name, value): (&String, &Value)| {
                KEPT_BY_PARTS.contains(&name.as_str()).then(|| (name.clone(), value.clone()))
            };
            let columns: Map<_, _> = given.columns.iter().filter_map(kept).collect();
            for part in parts.map(|Json(parts)| parts).unwrap_or_default() {
                let quantity = part.quantity * i64::from(given.quantity);
                let quantity = i32::try_from(quantity).ok().filter(|quantity| *quantity <= MAX_QUANTITY);
                let Some(quantity) = quantity else {
                    let message = format!("makes more than {MAX_QUANTITY} pieces of a part of the bundle");
                    return Err(("quantity", "out_of_range", message));
                };
                let item = items.next(part.product, part.sku, quantity, part.stock);
                items.push(order, &columns, Some(bundle), item);
            }
        }
        _ => {
            let shelf = stock.map(|Json(shelf)| shelf);
            let item = items.next(product.into(), product_sku.unwrap_or_default(), given.quantity, shelf);
            items.push(order, &given.columns, None, item);
        }
    }
    Ok(())
}

impl Resolved {
    /// Different products among the items.
    pub(super) fn count_of_sku(&self) -> usize {
        self.order.items.iter().map(|item| item.product).collect::<HashSet<_>>().len()
    }

    /// Pieces of all items.
    pub(super) fn sum_of_quantity(&self) -> i64 {
        self.order.items.iter().map(|item| i64::from(item.quantity)).sum()
    }
}
