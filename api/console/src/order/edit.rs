//! Correcting an order, through the use-case of the API.

use std::collections::HashMap;

use axum::response::Response;
use longshore_domain::expedition::edit;
use longshore_domain::list;
use longshore_domain::list::fields::expedition::EXPEDITION;
use longshore_domain::list::fields::product::PRODUCT;
use longshore_http::extract::{Failure, Id};
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::problem::Problem;
use longshore_operate::order::inspection::Order;
use longshore_operate::order::place::{self, Place};
use longshore_operate::preference;
use maud::{Markup, html};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::control::{Acting, Asking, find, page};
use super::where_it_is;
use crate::form::{Asked, Refused, VERSION, integer, unchanged};
use crate::layout::Section;
use crate::piece::{alert, checked, options, switch};
use crate::preference::edit::{carriers, choice};
use crate::visit::{Done, done};

/// The parts of an address, and their labels.
const ADDRESS: [(&str, &str); 11] = [
    ("FirstName", "First name"),
    ("LastName", "Last name"),
    ("Company", "Company"),
    ("Street", "Street"),
    ("HouseNr", "House number"),
    ("Zip", "Zip"),
    ("City", "City"),
    ("Country", "Country, such as GB"),
    ("State", "State"),
    ("Email", "E-mail"),
    ("Phone", "Phone"),
];

/// An order with more lines is changed with the API.
const LINES: usize = 100;
/// Lines of a form that are empty.
const EMPTY: usize = 3;

/// What the form says of an order that was changed since.
pub(super) const CHANGED: &str =
    "the order was changed since this form was opened: check it, and send it again";

/// An order as the form begins with it.
struct Stored {
    order: Order,
    record: Value,
    lines: Vec<Line>,
}

/// A line of an order: an item, or a bundle or virtual product, as it was ordered.
struct Line {
    sku: String,
    /// As a body of the API gives it.
    item: Map<String, Value>,
}

impl Line {
    /// What a part of an order says of it.
    fn of(sku: String, part: &Value, quantity: &Value, kept: impl Fn(&str) -> bool) -> Self {
        let members = part.as_object().into_iter().flatten();
        let mut item: Map<_, _> = members
            .filter(|(name, _)| kept(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        item.insert("quantity".to_owned(), quantity.clone());
        Self { sku, item }
    }
}

impl Stored {
    async fn read(visit: &Asking, id: ExpeditionId) -> Result<Self, Problem> {
        let order = find(visit, id).await?;
        let found = list::find(&visit.db().main, &EXPEDITION, visit.scope(), id).await?;
        let found = found.ok_or_else(|| Problem::not_found("expedition"))?;
        let record: Value = serde_json::from_str(&found.json).map_err(Problem::internal)?;
        let lines = lines(visit, &record).await?;
        Ok(Self { order, record, lines })
    }

    /// Whether all of it can be changed; otherwise only who gets it and who ships it.
    fn is_editable(&self) -> bool {
        self.order.status.is_editable()
    }

    fn has_lines(&self) -> bool {
        self.is_editable() && self.lines.len() <= LINES
    }

    fn text(&self, name: &str) -> String {
        match &self.record[name] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    fn carrier(&self) -> String {
        let id = |name: &str| self.record[name].as_str()?.parse::<Uuid>().ok();
        id("carrier").map(|carrier| choice(carrier, id("carrierService"))).unwrap_or_default()
    }

    fn place(&self) -> String {
        format!("{} {}", self.text("warehouse"), self.text("wms"))
    }

    /// The fields of the form.
    fn shown(&self) -> Asked {
        let mut fields = vec![(VERSION.to_owned(), self.order.version.to_string())];
        fields.extend(addresses().map(|name| (name.clone(), self.text(&name))));
        fields.push(("carrier".to_owned(), self.carrier()));
        if self.is_editable() {
            fields.push(("place".to_owned(), self.place()));
            fields.extend(["cod", "codValue"].map(|name| (name.to_owned(), self.text(name))));
        }
        if self.has_lines() {
            for (n, line) in self.lines.iter().enumerate() {
                fields.push((at(n, "of"), n.to_string()));
                fields.push((at(n, "productSku"), line.sku.clone()));
                fields.push((at(n, "quantity"), line.item["quantity"].to_string()));
            }
        }
        Asked(fields)
    }

    /// The body of the API that a form says: what it changes.
    fn body(&self, form: &Asked) -> Map<String, Value> {
        let mut body = Map::new();
        let is_given = |name: &str| form.0.iter().any(|(given, _)| given == name);
        let text = |name: &str| form.get(name).unwrap_or_default();
        for name in addresses().chain(["codValue".to_owned()]) {
            if is_given(&name) && text(&name) != self.text(&name).trim() {
                body.insert(name.clone(), json!(form.get(&name)));
            }
        }
        if is_given("carrier") && text("carrier") != self.carrier() {
            let (carrier, service) = pair(text("carrier"));
            body.insert("carrier".to_owned(), json!(carrier));
            body.insert("carrierService".to_owned(), json!(service));
        }
        if is_given("place") && text("place") != self.place() {
            let (warehouse, wms) = pair(text("place"));
            body.insert("warehouse".to_owned(), json!(warehouse));
            body.insert("wms".to_owned(), json!(wms));
        }
        // a switch that is off is not sent
        if is_given("codValue") && (text("cod") == "true") != (self.text("cod") == "true") {
            body.insert("cod".to_owned(), json!(text("cod") == "true"));
        }
        let rows = rows(form);
        if is_given(&at(0, "productSku")) && rows != self::rows(&self.shown()) {
            let items: Vec<Value> = rows.iter().map(|row| self.item(row)).collect();
            body.insert("items".to_owned(), items.into());
        }
        body
    }

    /// An item of that body: a line that is stored keeps what the form does not show.
    fn item(&self, row: &Row) -> Value {
        let stored = row.of.as_ref().and_then(|n| self.lines.get(n.parse::<usize>().ok()?));
        let stored = stored.filter(|line| line.sku == row.sku).map(|line| line.item.clone());
        let mut item = stored.unwrap_or_default();
        item.insert("productSku".to_owned(), json!(Some(&row.sku).filter(|sku| !sku.is_empty())));
        // what is no number is refused by the rule of the API, at its path
        let quantity = integer(&row.quantity);
        item.insert("quantity".to_owned(), quantity);
        item.into()
    }
}

/// The lines of an order, as they were ordered: the parts of a bundle are one.
async fn lines(visit: &Asking, record: &Value) -> Result<Vec<Line>, Problem> {
    let all = |name: &str| record[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let (bundles, removed) = (all("bundles"), all("removedVirtualProducts"));
    let id = |value: &Value| value.as_str().and_then(|text| text.parse::<Uuid>().ok());
    let ids: Vec<Uuid> = bundles
        .iter()
        .filter_map(|bundle| id(&bundle["product"]))
        .chain(removed.iter().filter_map(|product| id(&product["productId"])))
        .collect();
    let mut skus: HashMap<Uuid, String> = HashMap::new();
    if !ids.is_empty() {
        for found in list::find_each(&visit.db().main, &PRODUCT, visit.scope(), &ids).await? {
            let product: Value = serde_json::from_str(&found.json).map_err(Problem::internal)?;
            skus.insert(found.id, product["productSku"].as_str().unwrap_or_default().to_owned());
        }
    }
    let sku = |product: &Value| id(product).and_then(|id| skus.get(&id).cloned()).unwrap_or_default();
    let mut lines = Vec::new();
    for item in all("items") {
        if item["bundle"].is_null() {
            let name = item["productSku"].as_str().unwrap_or_default().to_owned();
            lines.push(Line::of(name, item, &item["quantity"], |name| name != "product"));
            continue;
        }
        // with its first part; the others are passed over
        let begins = |bundle: &&Value| bundle["items"][0] == item["id"];
        if let Some(bundle) = bundles.iter().find(begins) {
            let kept = |name: &str| matches!(name, "ref1" | "ref2" | "ref3" | "lifo");
            lines.push(Line::of(sku(&bundle["product"]), item, &bundle["quantity"], kept));
        }
    }
    lines.extend(removed.iter().map(|p| Line::of(sku(&p["productId"]), p, &p["quantity"], |_| false)));
    Ok(lines)
}

/// A line of the form.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    /// The line of the stored order that it was.
    of: Option<String>,
    sku: String,
    quantity: String,
}

/// The lines of a form that say something. One that was stored is left out once its SKU is empty.
fn rows(form: &Asked) -> Vec<Row> {
    let text = |n: usize, name: &str| form.get(&at(n, name)).unwrap_or_default().to_owned();
    let row = |n: usize| Row {
        of: form.get(&at(n, "of")).map(str::to_owned),
        sku: text(n, "productSku"),
        quantity: text(n, "quantity"),
    };
    let says = |row: &Row| !row.sku.is_empty() || (row.of.is_none() && !row.quantity.is_empty());
    (0..LINES + EMPTY).map(row).filter(says).collect()
}

/// The name of a field of a line, as violations of the API have it.
fn at(n: usize, name: &str) -> String {
    format!("items[{n}].{name}")
}

/// The names of the fields of both addresses.
fn addresses() -> impl Iterator<Item = String> {
    ["delivery", "billing"]
        .into_iter()
        .flat_map(|address| ADDRESS.iter().map(move |(part, _)| format!("{address}{part}")))
}

/// Two ids of one option: without script, no list follows another.
fn pair(text: &str) -> (Option<&str>, Option<&str>) {
    let (one, other) = text.split_once(' ').unwrap_or((text, ""));
    (Some(one).filter(|id| !id.is_empty()), Some(other).filter(|id| !id.is_empty()))
}

/// `GET /console/order/{id}/edit`.
pub(crate) async fn ask(Id(id): Id<ExpeditionId>, mut visit: Asking) -> Result<Response, Failure> {
    let stored = Stored::read(&visit, id).await?;
    let form = visit.filled(stored.shown());
    let order = &stored.order;
    let choices = preference::choices(visit.db(), visit.scope(), order.organisation_id).await?;
    let choices = choices.ok_or_else(|| Problem::not_found("organisation"))?;
    let carriers = carriers(&choices, &form, "none: one is chosen when it is sent", true);
    let places = if stored.is_editable() {
        place::of_eshop(visit.db(), visit.scope(), order.eshop_id).await?
    } else {
        Vec::new()
    };
    let (back, title) = (page(id), format!("Edit order {}", order.number));
    let fields = fields(&stored, &form, &visit.refused, &carriers, &places);
    let content = html! {
        p.trail { a href="/console/order" { "Orders" } " / " a href=(back) { (order.number) } " / edit" }
        h1 { (title) }
        (super::errors(order))
        (visit.form(&format!("{back}/edit"), "Store", &back, &fields))
    };
    Ok(visit.page(Section::Orders, &title, &content))
}

/// `POST /console/order/{id}/edit`.
pub(crate) async fn store(Id(id): Id<ExpeditionId>, act: Acting) -> Result<Response, Failure> {
    let stored = Stored::read(&act.visit, id).await?;
    let check = unchanged(act.form.version(), CHANGED);
    // before what the form changes is compared with what another one has stored
    check(stored.order.version)?;
    let body = stored.body(&act.form);
    edit::update(act.visit.services(), &act.visit.may, id, body.into(), check).await?;
    let deed = if stored.is_editable() { Done::OrderStored } else { Done::OrderAmended };
    Ok(done(&page(id), deed, None))
}

fn fields(
    stored: &Stored,
    form: &Asked,
    refused: &Refused,
    carriers: &[(String, String)],
    places: &[Place],
) -> Markup {
    let rows = rows(form);
    let shown = if stored.has_lines() { rows.len() + EMPTY } else { 0 };
    let mut names: Vec<String> = addresses().chain(["carrier", "codValue"].map(str::to_owned)).collect();
    for n in 0..shown {
        names.extend([at(n, "productSku"), at(n, "quantity")]);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let carriers = carriers.iter().map(|(value, text)| (value.as_str(), text.as_str()));
    let mut places: Vec<(String, String)> = places
        .iter()
        .map(|place| {
            (
                format!("{} {}", place.warehouse_id, place.wms_id),
                format!("{}, {}", place.warehouse, place.wms),
            )
        })
        .collect();
    if places.iter().all(|(value, _)| Some(value.as_str()) != form.get("place")) {
        let now = format!("{}, {}", stored.order.warehouse, stored.order.wms);
        places.insert(0, (form.get("place").unwrap_or_default().to_owned(), now));
    }
    let places = places.iter().map(|(value, text)| (value.as_str(), text.as_str()));
    let address = |of: &str| {
        html! { @for (part, label) in ADDRESS { (checked(form, refused, &format!("{of}{part}"), label, "text")) } }
    };
    html! {
        input type="hidden" name=(VERSION) value=[form.get(VERSION)];
        (alert(refused, &names))
        @if stored.order.status.is_amendable(stored.order.handover) {
            p { (where_it_is(&stored.order)) " It keeps its pieces and its turn. To change its items or where it is shipped from, hold it first." }
        } @else if !stored.is_editable() {
            p { (where_it_is(&stored.order)) " It can no longer be changed." }
        }
        fieldset { legend { "Delivery address" } (address("delivery")) }
        fieldset {
            legend { "Billing address" }
            p.muted { "A delivery address that is the same follows it." }
            (address("billing"))
        }
        fieldset {
            legend { "Shipping" }
            (options(form, refused, "carrier", "Carrier, and its service", carriers))
            @if stored.is_editable() { (options(form, refused, "place", "Shipped from", places)) }
        }
        @if stored.is_editable() {
            fieldset {
                legend { "Payment on delivery" }
                (switch(form, "cod", "Paid on delivery"))
                (checked(form, refused, "codValue", "Value", "text"))
            }
        }
        @if stored.has_lines() {
            fieldset {
                legend { "Items" }
                p.muted { "To remove a line, empty its SKU." }
                @for n in 0..shown { (line(rows.get(n), n, refused)) }
            }
        } @else if stored.is_editable() {
            p.muted { "It has more than " (LINES) " lines: its items are changed with the API." }
        }
    }
}

/// A line of the form, at its place among those that say something.
fn line(row: Option<&Row>, n: usize, refused: &Refused) -> Markup {
    let mut shown = Vec::new();
    if let Some(row) = row {
        shown.push((at(n, "productSku"), row.sku.clone()));
        shown.push((at(n, "quantity"), row.quantity.clone()));
    }
    let shown = Asked(shown);
    html! {
        @if let Some(of) = row.and_then(|row| row.of.as_ref()) { input type="hidden" name=(at(n, "of")) value=(of); }
        div.line {
            (checked(&shown, refused, &at(n, "productSku"), "SKU", "text"))
            (checked(&shown, refused, &at(n, "quantity"), "Quantity", "number"))
        }
    }
}
