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

static OF_ORDER: [Field; 3] = [
    Field::text("previousStatus", "").among(&ExpeditionStatus::WORDS).or_null(),
    Field::text("cancel", "").among(&["refused", "too_late"]),
    Field::rows("items", &Link { table: "", of: "", id: "" }, ITEM, ""),
];
static OF_ADVICE: [Field; 1] = [Field::text("orderNumber", "")];
static OF_JOB: [Field; 1] = [Field::json("errors", "")];

fn told(kind: &str) -> Option<Told> {
    let (resource, others, may_change): (&'static Resource, &'static [Field], fn(&str) -> bool) = match kind {
        "organization_change" => (&ORGANISATION, &[], |_| true),
        "product_change" => (&PRODUCT, &[], |_| true),
        "product_stock_change" => {
            (&PRODUCT_STOCK, &[], |name| matches!(name, "quantity" | "available" | "incoming"))
        }
        "stock_advice_status_change" => (&STOCK_ADVICE, &OF_ADVICE, |name| name == "status"),
        "expedition_status_change" | "expedition_booked_change" | "expedition_change" => {
            (&EXPEDITION, &OF_ORDER, |name| {
                !is_personal(name) && !matches!(name, "waitsFor" | "handover" | "audits" | "bundles")
            })
        }
        "expedition_deleted" => (&EXPEDITION, &[], |_| false),
        "sync_finished" => (&JOB, &[], |name| matches!(name, "state" | "progress" | "outcome")),
        "job_finished" => (&JOB, &OF_JOB, |_| false),
        _ => return None,
    };
    Some(Told { resource, may_change, others })
}

impl Told {
    fn field(&self, name: &str) -> Option<&'static Field> {
        self.others.iter().chain(self.resource.shown()).find(|field| field.name == name)
    }
}

/// The members of `data` of events of a type, but for the fields that changed, and for the version, which a change gives them.
fn identity(kind: &str) -> Vec<String> {
    let data = example::data(kind, Uuid::nil().into(), Uuid::nil().into(), Uuid::nil().into());
    let names = data.as_object().into_iter().flat_map(|data| data.keys());
    names.filter(|name| ![FIELDS, VERSION].contains(&name.as_str())).cloned().collect()
}

/// The fields of a type that may have changed.
fn changing(told: &Told) -> impl Iterator<Item = &'static Field> {
    let others = told.others.iter();
    let fields = told.resource.shown().filter(|field| !others.clone().any(|other| other.name == field.name));
    others.clone().chain(fields).filter(|field| (told.may_change)(field.name)).collect::<Vec<_>>().into_iter()
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
            Some(path) => Member::below(&[FIELDS], changing(&told).find(|field| field.name == name)?, path),
            None if !identity(kind).iter().any(|known| known == name) => None,
            None if name == CHANGED => Member::below(&[], &CHANGED_FIELDS, path),
            None => Member::below(&[], told.field(name)?, path),
        }
    };
    kinds.iter().filter_map(of_kind).collect()
}

/// Where criteria of these types may lead, as far as they lead to a field of the record itself.
pub(in crate::webhook) fn paths(kinds: &[String]) -> Vec<String> {
    let of_kind = |kind: &String| {
        let told = told(kind)?;
        let named = identity(kind).into_iter().map(|name| format!("data.{name}"));
        Some(named.chain(changing(&told).map(|field| format!("data.{FIELDS}.{}", field.name))).collect())
    };
    kinds.iter().filter_map(of_kind).flat_map(|paths: Vec<_>| paths).collect()
}

/// The names of what events of these types say in `data`, and in its `fields`.
pub(in crate::webhook) fn names(kinds: &[String]) -> Vec<String> {
    let last = |path: String| path.rsplit('.').next().unwrap_or_default().to_owned();
    paths(kinds).into_iter().map(last).chain([VERSION.to_owned()]).collect()
}

/// An event may be too large for the value of a field that changed. Then it is not known whether it matches, and it is told.
pub(in crate::webhook) fn unless_left_out(names: &[String]) -> Option<String> {
    let [fields, field, ..] = names else { return None };
    let value = document::path("$", &names[..2]);
    (fields == FIELDS).then(|| format!("($.{CHANGED} == \"{field}\" && !exists({value}))"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhook::event::TYPES;

    #[test]
    fn what_an_event_says_can_be_asked_for() {
        for kind in TYPES.iter().filter(|kind| !["restored", "test"].contains(&kind.name)) {
            let data = example::data(kind.name, Uuid::nil().into(), Uuid::nil().into(), Uuid::nil().into());
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
            ["data.fields.items.productSku", "data.fields.deliveryCountry", "data.fields.previousStatus"]
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
