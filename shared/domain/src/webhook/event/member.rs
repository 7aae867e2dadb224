//! What the body of an event of each type says, for the criteria and `select` of a webhook
//! (`docs/reference/webhooks.md#criteria`): the fields of its record, as lists know them, and few others.

use uuid::Uuid;

use super::{NAMES, example};
use crate::list::document::{self, Member};
use crate::list::fields::expedition::{EXPEDITION, ExpeditionStatus, is_personal};
use crate::list::fields::job::JOB;
use crate::list::fields::organisation::ORGANISATION;
use crate::list::fields::product::PRODUCT;
use crate::list::fields::stock::PRODUCT_STOCK;
use crate::list::fields::stock_advice::STOCK_ADVICE;
use crate::list::resource::{Field, Link, Resource};

/// The member of `data` with the values of changed fields.
const FIELDS: &str = "fields";

/// The member of `data` with their names.
const CHANGED: &str = "changedFields";

/// The member of `data` that is none of what a change says of its record.
const VERSION: &str = "version";

static TYPE: Field = Field::text("type", "").among(NAMES);
/// The e-shops that an event concerns, beside what it says.
pub(in crate::webhook) const ESHOP: &str = "eshop";

static ESHOPS: Field = Field::id(ESHOP, "").or_null();
static CHANGED_FIELDS: Field = Field::texts(CHANGED, "");

/// What events of a type say.
struct Told {
    /// The record that they are about.
    resource: &'static Resource,
    /// Whether a field of it may be among those that changed.
    may_change: fn(&str) -> bool,
    /// What it does not have, or not so.
    others: &'static [Field],
}

/// Items of orders, as events show them.
const ITEM: &[Field] = &[
    Field::id("id", ""),
    Field::id("product", ""),
    Field::text("productSku", ""),
    Field::integer("quantity", ""),
    Field::integer("booked", ""),
    Field::integer("missing", "").or_null(),
    Field::integer("expedited", "").or_null(),
];

/// The same of parcels, and of an invoice.
const PARCEL: &[Field] = &[
    Field::text("extPackageNumber", ""),
    Field::text("extPackageTrackingNumber", "").or_null(),
    Field::text("extCarrierTrackingNumber", "").or_null(),
    Field::text("trackingUrl", "").or_null(),
];
const INVOICE: &[Field] = &[Field::text("name", ""), Field::text("mimeType", ""), Field::integer("size", "")];

const LINK: &Link = &Link { table: "", of: "", id: "" };

static OF_ORDER: [Field; 5] = [
    Field::rows("items", LINK, ITEM, ""),
    Field::rows("parcels", LINK, PARCEL, ""),
    Field::object("invoice", INVOICE).or_null(),
    Field::text("previousStatus", "").among(&ExpeditionStatus::WORDS).or_null(),
    Field::text("cancel", "").among(&["refused", "too_late"]),
];
static OF_STOCK: [Field; 1] = [Field::text("productSku", "")];
static OF_ADVICE: [Field; 1] = [Field::text("orderNumber", "")];
static OF_JOB: [Field; 1] = [Field::json("errors", "")];

fn told(kind: &str) -> Option<Told> {
    let (resource, others, may_change): (&'static Resource, &'static [Field], fn(&str) -> bool) = match kind {
        "organization_change" => {
            (&ORGANISATION, &[], |name| is_written(name) && !matches!(name, "wmses" | "suppliers"))
        }
        "product_change" => (&PRODUCT, &[], |name| is_written(name) && name != "organisation"),
        "product_stock_change" => {
            (&PRODUCT_STOCK, &OF_STOCK, |name| matches!(name, "quantity" | "available" | "incoming"))
        }
        "stock_advice_status_change" => (&STOCK_ADVICE, &OF_ADVICE, |name| name == "status"),
        "expedition_status_change" => (&EXPEDITION, &OF_ORDER, is_told_of_order),
        "expedition_booked_change" => (&EXPEDITION, &OF_ORDER, |name| name == "items"),
        "expedition_change" => (&EXPEDITION, &OF_ORDER, |name| {
            is_told_of_order(name) && !matches!(name, "status" | "previousStatus" | "cancel")
        }),
        "expedition_deleted" => (&EXPEDITION, &[], |_| false),
        "sync_finished" => (&JOB, &[], |name| matches!(name, "state" | "progress" | "outcome")),
        "job_finished" => (&JOB, &OF_JOB, |_| false),
        _ => return None,
    };
    Some(Told { resource, may_change, others })
}

/// Fields that say something of a record besides which it is, and when it changed.
fn is_written(name: &str) -> bool {
    !matches!(name, "id" | "version" | "createdAt" | "changedAt")
}

fn is_told_of_order(name: &str) -> bool {
    const NEVER: &[&str] = &[
        "organisation",
        "eshop",
        "statusSince",
        "modifiedAt",
        "waitsFor",
        "handover",
        "audits",
        "bundles",
        "withComplaint",
        "splitFrom",
        "backorderOf",
    ];
    is_written(name) && !is_personal(name) && !NEVER.contains(&name)
}

impl Told {
    /// The fields that may have changed.
    fn changing(&self) -> impl Iterator<Item = &'static Field> {
        let is_own = |field: &&Field| self.others.iter().any(|other| other.name == field.name);
        let fields = self.resource.shown().filter(move |field| !is_own(field));
        self.others.iter().chain(fields).filter(|field| (self.may_change)(field.name))
    }

    fn field(&self, name: &str) -> Option<&'static Field> {
        self.others.iter().chain(self.resource.shown()).find(|field| field.name == name)
    }
}

/// The members of `data` of events of a type, but for the fields that changed, and for the version, which a change gives them.
fn identity(kind: &str) -> Vec<String> {
    let data = example::data(kind, Uuid::nil().into(), None, Uuid::nil().into());
    let names = data.as_object().into_iter().flat_map(|data| data.keys());
    names.filter(|name| ![FIELDS, VERSION].contains(&name.as_str())).cloned().collect()
}

/// What a path of criteria leads to in the events of these types, in each that has it.
pub(in crate::webhook) fn find(kinds: &[String], path: &str) -> Vec<Member> {
    if path == TYPE.name {
        return vec![Member::variable("$type", &TYPE)];
    }
    let Some(path) = path.strip_prefix("data.") else { return Vec::new() };
    let changed = path.strip_prefix(FIELDS).and_then(|rest| rest.strip_prefix('.'));
    let name = changed.unwrap_or(path).split('.').next().unwrap_or_default();
    let of_kind = |kind: &String| {
        let told = told(kind)?;
        match changed {
            Some(path) => Member::below(&[FIELDS], told.changing().find(|field| field.name == name)?, path),
            None if !identity(kind).iter().any(|known| known == name) => None,
            None if name == CHANGED => Member::below(&[], &CHANGED_FIELDS, path),
            None => Member::below(&[], told.field(name)?, path),
        }
    };
    kinds.iter().filter_map(of_kind).collect()
}

/// What [`ESHOP`] leads to: in the events of any type some e-shop that it concerns, whether the body has `eshop` or `eshops`.
pub(in crate::webhook) fn eshop() -> Vec<Member> {
    vec![Member::variable("$eshop", &ESHOPS)]
}

/// Where criteria of these types may lead, as far as they lead to a field of the record itself.
pub(in crate::webhook) fn paths(kinds: &[String]) -> Vec<String> {
    let of_kind = |kind: &String| {
        let told = told(kind)?;
        let named = identity(kind).into_iter().map(|name| format!("data.{name}"));
        Some(named.chain(told.changing().map(|field| format!("data.{FIELDS}.{}", field.name))).collect())
    };
    kinds.iter().filter_map(of_kind).flat_map(|paths: Vec<_>| paths).collect()
}

/// The names of what events of these types say in `data`, and in its `fields`.
pub(in crate::webhook) fn names(kinds: &[String]) -> Vec<String> {
    let last = |path: String| path.rsplit('.').next().unwrap_or_default().to_owned();
    paths(kinds).into_iter().map(last).chain([VERSION.to_owned()]).collect()
}

/// An event of a change may be too large for the value of a field, or for all of them. Then it is not known whether it matches, and
/// it is told.
pub(in crate::webhook) fn unless_left_out(names: &[String]) -> Option<String> {
    let [fields, field, ..] = names else { return None };
    let value = document::path("$", &names[..2]);
    (fields == FIELDS).then(|| {
        format!(
            "(!exists({value}) && ($.{CHANGED} == \"{field}\" || exists($.{CHANGED}) && !exists($.{FIELDS})))"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhook::event::TYPES;

    #[test]
    fn what_an_event_says_can_be_asked_for() {
        for kind in TYPES.iter().filter(|kind| !["restored", "test"].contains(&kind.name)) {
            let data = example::data(kind.name, Uuid::nil().into(), None, Uuid::nil().into());
            let of = |object: &serde_json::Value, before: &str| -> Vec<String> {
                object.as_object().into_iter().flatten().map(|(name, _)| format!("{before}.{name}")).collect()
            };
            let said =
                [of(&data, "data"), of(&data[FIELDS], "data.fields"), vec!["type".to_owned()]].concat();
            let kinds = [kind.name.to_owned()];
            for path in said.iter().filter(|path| !["data.fields", "data.version"].contains(&path.as_str())) {
                assert_eq!(find(&kinds, path).len(), 1, "{}: {path}", kind.name);
            }
            assert!(paths(&kinds).iter().all(|path| find(&kinds, path).len() == 1), "{}", kind.name);
        }
        let order = ["expedition_change".to_owned()];
        for path in
            ["data.fields.items.productSku", "data.fields.deliveryCountry", "data.fields.parcels.trackingUrl"]
        {
            assert_eq!(find(&order, path).len(), 1, "{path}");
        }
        for path in [
            "data.fields.items.lot",
            "data.fields.deliveryStreet",
            "data.fields.bundles",
            "data.fields",
            "data",
            "id",
        ] {
            assert!(find(&order, path).is_empty(), "{path}");
        }
    }
}
