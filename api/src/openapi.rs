//! The API described as OpenAPI 3.1: served at `/openapi.json`, shown at `/docs`, and committed as
//! `openapi.json` beside this crate's `Cargo.toml`, which makes changes visible.
//!
//! # Sources
//!
//! - The table of URLs (`urls`) gives the method and the path of a handler.
//! - The signature of a handler gives who may call, its parameters, headers and body, and the resulting
//!   refusals ([`signature`](crate::signature)). The handler's name is the operation's id, its module the tag
//!   ([`Route::operation`]).
//! - The tables of fields of `longshore_domain::list` give the records and the language of each list
//!   (`record`).
//! - The closed lists of problems and events give the refusals (`shared`) and the webhook events (`webhook`).
//! - The rule that reads a body gives its schema (`schema::body_of`).
//! - A file for each module adds the purpose of each operation, descriptions, and an example.
//!
//! The document suits client generators, and is small: every object type has a name (`part`), what several operations answer is
//! declared once (`part`, `shared`), and no schema has a default.
//!
//! # Guarantees
//!
//! Tests compare it with the router (every route is described) and with the service: each bound of each body is enforced, examples work as described, and answers match their schemas.
//!
//! # Adding a resource
//!
//! A `Described` in the file of its module and its line in `resources::ALL`; for each operation a few lines in
//! the module's `operations`. `longshore-api openapi > api/openapi.json` regenerates the document.

mod account;
mod activity;
mod attention;
mod catalog;
pub mod docs;
mod editable;
mod example;
mod expedition;
mod find;
mod job;
mod operation;
mod part;
mod partner;
mod reader;
mod receipt;
mod record;
mod resources;
mod schema;
pub mod serve;
mod service;
mod shared;
mod shipping;
mod warehouse;
mod webhook;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use longshore_domain::list::resource::Resource;
use longshore_domain::webhook::event::{NAMES, SUBSCRIBABLE};
use serde_json::{Value, json};
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::path::PathsBuilder;
use utoipa::openapi::schema::ComponentsBuilder;
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, PathItem, ServerBuilder};

use self::operation::Operation;
use crate::urls::{self, Route};

/// Describes the operations of a module.
type Describe = fn() -> Vec<Operation>;

/// The modules, which are the tags.
const ROOMS: &[(&str, &str, Describe)] = &[
    ("account", "Organisations and e-shops, accounts and tokens, audit.", account::operations),
    ("warehouse", "Warehouses, wms, stock, suppliers, stock advices.", warehouse::operations),
    ("expedition", "Orders, their items and reservations, movements of stocks.", expedition::operations),
    ("catalog", "Products, their images and services, packaging options.", catalog::operations),
    ("shipping", "Carriers and their services.", shipping::operations),
    ("partner", "Partner integration: settings and syncs.", partner::operations),
    ("webhook", "Webhooks and their deliveries.", webhook::operations),
    ("reader", "Readers: events for who cannot be called.", reader::operations),
    (webhook::EVENTS, "The calls to destinations.", Vec::new),
    ("job", "Jobs (bulk operations, syncs and redeliveries) and queues.", job::operations),
    ("attention", "What needs attention, acknowledgements and mutes.", attention::operations),
    ("activity", "How much is in each state, and what was done.", activity::operations),
    ("find", "The search for anything.", find::operations),
    ("service", "Health of the service, explanations of errors, and this document.", service::operations),
];

const ABOUT: &str = "A fulfillment service. Partners send catalogues, stock levels and orders; warehouses ship the orders and report it; merchants activate and deactivate thousands of products at once; and e-shops get every change by webhook. The chapters at `/docs` explain how.

Every error is an `application/problem+json` (RFC 9457). All violations of a body are reported together. Unknown members are refused. A whole number is an integer, however it is written (`225.0`). An amount of money has at most 4 decimals; a number is rounded to them where it differs only by the error of floating point (`22.200000000000003`), and a string is exact. Texts must not contain U+0000. A target of more than 65,534 bytes is refused with 414 without a body, headers of more than 64 KiB with 431. `X-Request-Id` is the id of the request in the service's log: every response has it, and a request may set its own (1 to 64 characters). A body has at most 1 MiB unless its operation says otherwise. A sync takes one JSON document of at most 32 MiB and 100,000 rows; NDJSON of any length, whose first line is the object without the rows, and each further line a row of at most 1 MiB; or, but for news, `text/csv` of any length, whose first line names the fields, with the members of the object in the query. Errors name the line, from 1; with `\"line\": 0` in the object, the line after it is 1. An interrupted stream changes nothing. Always send a `limit` with a list: without one, the whole list is returned. Without `select`, its records have all fields. With `Accept: text/csv`, it is CSV of the selected fields, else of those with one value. When you poll with `changedAt.gte`, re-read the last minute: transactions may commit out of order.";

const SERVER: &str = "The service that serves this document. Set the base URL in generated clients.";

/// The document as it is committed: indented, so that its changes can be reviewed.
#[must_use]
pub fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| format!("{:#}\n", *told()));
    &TEXT
}

/// The document as it is served.
#[must_use]
pub fn served() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| told().to_string());
    &TEXT
}

/// The document for programs: the examples of answers, which `/docs` shows, are left out, and equal answers and demands are declared once.
fn told() -> &'static Value {
    static TOLD: LazyLock<Value> = LazyLock::new(|| {
        let mut told = document().clone();
        part::leave_out_optional(&mut told);
        part::gather_answers(&mut told);
        part::gather_security(&mut told);
        part::gather_requests(&mut told);
        part::gather_choices(&mut told);
        let integer = json!({"type": "integer", "format": "int64", "minimum": 0, "maximum": i64::MAX});
        let text_or_integer = json!([{"type": "string", "maxLength": 255}, integer, {"type": "null"}]);
        part::gather_schemas(
            &mut told,
            &[
                ("EventType", json!({"type": "string", "enum": NAMES})),
                ("WebhookEvent", json!({"type": "string", "enum": SUBSCRIBABLE})),
                ("TextOrInteger", json!({"oneOf": text_or_integer})),
                (
                    "Integer",
                    json!({"type": "integer", "format": "int64", "minimum": i64::MIN, "maximum": i64::MAX}),
                ),
                ("Natural", json!({"type": "integer", "format": "int32", "minimum": 0, "maximum": i32::MAX})),
                (
                    "Dimension",
                    json!({"type": ["integer", "null"], "format": "int32", "minimum": 0, "maximum": 20_000}),
                ),
                (
                    "Credential",
                    json!({"type": "string", "pattern": "^[!-~]([ -~]*[!-~])?$", "minLength": 1, "maxLength": 2_000}),
                ),
                ("AnyIds", json!({"type": "array", "items": {"$ref": "#/components/schemas/Id"}})),
                ("Ids1000", ids(1_000)),
                ("Ids10000", ids(10_000)),
                ("CountryOrNull", code_or_null(2)),
                ("CurrencyOrNull", code_or_null(3)),
            ],
        );
        part::gather_members(
            &mut told,
            &[
                ("Barcodes", "ProductToCreate", "referenceNumbers"),
                ("BundleParts", "ProductToCreate", "childrenProducts"),
                ("CarrierOrNull", "ExpeditionToCreate", "carrier"),
                ("CarrierServiceOrNull", "ExpeditionToCreate", "carrierService"),
                ("ChosenId", "OrganisationToCreate", "owner"),
                ("DifferentDeliveryAddress", "ExpeditionToCreate", "differentDeliveryAddress"),
                ("EditBeforeProcessing", "ExpeditionToCreate", "editBeforeProcessing"),
                ("EventCriteria", "WebhookToCreate", "criteria"),
                ("EventSelect", "WebhookToCreate", "select"),
                ("EventTypes", "WebhookToCreate", "events"),
                ("InternalSku", "ProductToCreate", "internalSku"),
                ("Millimeters", "ProductToCreate", "height"),
                ("NewPasswordOrNull", "AdminToCreate", "password"),
                ("Owner", "ProductToCreate", "organisation"),
                ("OwnReference", "SupplierToCreate", "ref1"),
                ("PreferenceEshop", "CarrierPreferenceToCreate", "eshop"),
                ("ProductSku", "ProductToCreate", "productSku"),
                ("ShippingWarehouse", "ExpeditionToCreate", "warehouse"),
                ("ShippingWms", "ExpeditionToCreate", "wms"),
                ("Username", "WmsCredentials", "username"),
                ("WaitBeforeProcessing", "ExpeditionToCreate", "waitBeforeProcessing"),
                ("WebhookEshop", "WebhookToCreate", "eshop"),
            ],
        );
        part::gather_parameters(&mut told);
        told
    });
    &TOLD
}

/// Up to so many ids.
fn ids(most: usize) -> Value {
    json!({"type": "array", "items": {"$ref": "#/components/schemas/Id"}, "maxItems": most})
}

/// A code of so many capital letters.
fn code_or_null(letters: usize) -> Value {
    let pattern = format!("^[A-Z]{{{letters}}}$");
    json!({"type": ["string", "null"], "pattern": pattern, "minLength": letters, "maxLength": letters})
}

/// The document with everything. Its members are sorted, so the same code always produces the same text.
pub(crate) fn document() -> &'static Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
        let mut document = serde_json::to_value(described()).unwrap_or_default();
        part::gather(&mut document);
        part::open_answers(&mut document);
        part::tell_defaults(&mut document["components"]["schemas"]);
        document
    });
    &DOCUMENT
}

/// The route of every operation.
#[must_use]
pub fn routes() -> &'static [Route] {
    static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| {
        let tables = [urls::api(), urls::files(), urls::service(), serve::urls()];
        tables.into_iter().flat_map(|table| table.routes).collect()
    });
    &ROUTES
}

fn described() -> OpenApi {
    let mut components = shared::declare(ComponentsBuilder::new()).schema("Event", webhook::body());
    let mut resources = Resources::default();
    let mut items: BTreeMap<&str, PathItem> = BTreeMap::new();
    for mut operation in ROOMS.iter().flat_map(|(_, _, operations)| operations()) {
        for (name, schema) in std::mem::take(&mut operation.schemas) {
            components = components.schema(name, schema);
        }
        for described in std::mem::take(&mut operation.examples) {
            let example = ExampleBuilder::new().value(Some((described.example)())).build();
            components = components.example(record::name(described.resource), example);
        }
        for resource in std::mem::take(&mut operation.resources) {
            resources.add(resource);
        }
        items.entry(operation.route.path).or_default().merge_operations(operation.item());
    }
    let described = resources.found.iter().filter_map(|resource| resources::described(resource));
    for (name, schema) in described.flat_map(record::schemas) {
        components = components.schema(name, schema);
    }
    for (name, schema) in record::criterion_schemas() {
        components = components.schema(name, schema);
    }
    let paths = items.into_iter().fold(PathsBuilder::new(), |paths, (path, item)| paths.path(path, item));
    let calls = webhook::calls().fold(PathsBuilder::new(), |paths, (name, item)| paths.path(name, item));
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("Longshore")
                .version(env!("CARGO_PKG_VERSION"))
                .description(Some(ABOUT))
                .license(Some(
                    LicenseBuilder::new()
                        .name("MIT OR Apache-2.0")
                        .identifier(Some("MIT OR Apache-2.0"))
                        .build(),
                ))
                .build(),
        )
        .servers(Some([ServerBuilder::new().url("/").description(Some(SERVER)).build()]))
        .tags(Some(
            ROOMS
                .iter()
                .map(|(name, about, _)| TagBuilder::new().name(*name).description(Some(*about)).build()),
        ))
        .paths(paths)
        .webhooks(Some(calls))
        .components(Some(components.build()))
        .build()
}

/// Resources whose records are returned, and those that they reference.
#[derive(Default)]
struct Resources {
    found: Vec<&'static Resource>,
    names: BTreeSet<&'static str>,
}

impl Resources {
    fn add(&mut self, resource: &'static Resource) {
        if self.names.insert(resource.name) {
            self.found.push(resource);
            for related in record::related(resource) {
                self.add(related);
            }
        }
    }
}
