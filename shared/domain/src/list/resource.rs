//! What can be listed: the description of a resource, from which criteria, orders and records are built.
//!
//! A [`Resource`] is a static table. Its texts are the only ones that ever reach SQL, which is why they are all `&'static
//! str`: nothing that a caller sends can become one. In them, `{t}` is the alias of the row, `{l}` that of a linked row,
//! `{e}` the e-shop that a scope is bound to (null without one), and `{o}` the organisations of a scope, as a `uuid[]` that
//! is null if the scope is everything.

use std::fmt;
use std::sync::OnceLock;

/// A kind of record that can be listed and found.
pub struct Resource {
    /// Its name in messages, as in "there is no such product".
    pub name: &'static str,
    /// The text after `FROM`: a table, or a query in brackets. It has an `id`. Several have the same columns, and their rows
    /// together are the records: a page is picked from each in its order, and then from what was picked.
    pub tables: &'static [&'static str],
    /// Field that it is sorted by unless the caller says otherwise.
    pub order: &'static str,
    /// The number that is its entity tag: a `bigint` that changes with what the record shows.
    pub version: &'static str,
    /// How a caller's scope limits it.
    pub tenancy: Tenancy,
    /// Its fields, in the order in which a record shows them.
    pub fields: &'static [Field],
    /// SQL of looking one up, built when first asked for.
    pub look_up: LookUp,
}

/// By name only: its fields lead to other resources, and some of these back to it.
impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The SQL of a look-up by id; built once.
#[derive(Debug, Default)]
pub struct LookUp(pub(super) OnceLock<String>);

impl LookUp {
    /// Not built yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }
}

/// How a scope limits a resource.
#[derive(Clone, Copy, Debug)]
pub struct Tenancy {
    /// The organisation of a row; or, if several may see a row, the condition for a row that the organisations `{o}` may
    /// see; or [`Tenancy::COMMON`].
    pub organisation: &'static str,
    /// The condition for a row of several organisations that a caller with `{o}` may see, if there are such rows. Such a
    /// row has no single organisation: callers with one organisation see none of them.
    pub several: Option<&'static str>,
    /// What is true of a row that the e-shop `{e}` may see; without it, the e-shop sees all of its organisation.
    pub eshop: Option<&'static str>,
    /// What is true of a row that the wms `{w}` may see; without it, the wms sees none.
    pub wms: Option<&'static str>,
    /// What is true of a row that the connector with the token `{m}` may see; without it, the token does not matter.
    pub maker: Option<&'static str>,
}

impl Tenancy {
    /// Of what belongs to the service itself, and is seen by all.
    pub const COMMON: &'static str = "true";

    /// A row has one organisation, and all of its callers but a wms see it.
    pub const BY_ORGANISATION: Self = Self::of("{t}.organisation_id");

    /// Only `organisation` limits who sees a row; no wms does.
    #[must_use]
    pub const fn of(organisation: &'static str) -> Self {
        Self { organisation, several: None, eshop: None, wms: None, maker: None }
    }
}

/// One field of a record.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name in the interface.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its value: what is filtered and sorted by, and what is shown unless `json` says otherwise.
    pub sql: &'static str,
    /// What is shown.
    pub json: Option<&'static str>,
    /// Where it is shown.
    pub shown: Shown,
    /// Whether it may be null.
    pub nullable: bool,
    /// All that a string may say, where that is a closed list.
    pub among: Option<&'static [&'static str]>,
    /// Of an array of objects, the member that `nested` replaces by the related record.
    pub nests: Option<(&'static str, &'static Resource)>,
}

/// Where a field is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// In records and lists.
    Everywhere,
    /// In records, and in lists where `select` names it.
    OnRequest,
    /// In a single record only: no list returns it or asks about it.
    Alone,
    /// Nowhere: lists are only asked about it.
    Nowhere,
    /// Nowhere: a list is asked about it by a member of `extra`, which is a boolean.
    Extra,
}

/// What a field is, from which follows what can be asked about it.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A uuid.
    Id,
    /// A string.
    Text,
    /// An integer.
    Integer,
    /// A decimal.
    Number,
    /// A point in time.
    Timestamp,
    /// A day.
    Date,
    /// True or false.
    Boolean,
    /// An array of uuids that have no resource behind them.
    Ids,
    /// An array of strings.
    Texts,
    /// Any JSON.
    Json,
    /// An object, with its fields.
    Object(&'static [Field]),
    /// An array of objects that are rows of another table, with their fields.
    Rows(&'static Link, &'static [Field]),
    /// The uuid of a related record.
    One(&'static Resource),
    /// The uuids of related records.
    Many(&'static Link, &'static Resource),
}

impl Kind {
    /// Whether it is one value.
    #[must_use]
    pub fn is_scalar(&self) -> bool {
        !matches!(
            self,
            Self::Ids | Self::Texts | Self::Json | Self::Object(_) | Self::Rows(..) | Self::Many(..)
        )
    }
}

/// How related rows are found.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Their table.
    pub table: &'static str,
    /// What is true of the rows `{l}` that belong to `{t}`.
    pub of: &'static str,
    /// Id of the related record, in `{l}`.
    pub id: &'static str,
}

impl Field {
    const fn new(name: &'static str, kind: Kind, sql: &'static str) -> Self {
        Self {
            name,
            kind,
            sql,
            json: None,
            shown: Shown::Everywhere,
            nullable: false,
            among: None,
            nests: None,
        }
    }

    /// A uuid.
    #[must_use]
    pub const fn id(name: &'static str, sql: &'static str) -> Self {
        Self::new(name, Kind::Id, sql)
    }

    /// A string.
    #[must_use]
    pub const fn text(name: &'static str, sql: &'static str) -> Self {
        Self::new(name, Kind::Text, sql)
    }

    /// An integer of any width.
    #[must_use]
    pub const fn integer(name: &'static str, sql: &'static str) -> Self {
        Self::new(name, Kind::Integer, sql)
    }

    /// A `numeric`.
    #[must_use]
    pub const fn number(name: &'static str, sql: &'static str) -> Self {
        Self::new(name, Kind::Number, sql)
    }

    /// A `date`.
    #[must_use]
    pub const fn date(name: &'static str, sql: &'static str) -> Self {
        Self::new(name, Kind::Date, sql)
    }

    /// A `timestamptz`.
    #[must_use]
    pub const fn timestamp(name: &'static str, sql: &'static str) -> Self {
        Self::new(name, Kind::Timestamp, sql)
    }

    /// A boolean.
    #[must_use]
    pub const fn boolean(name: &'static str, sql: &'static str) -> Self {
        Self::new(name, Kind::Boolean, sql)
    }

    /// A `uuid[]`.
    #[must_use]
    pub const fn ids(name: &'static str, sql: &'static str) -> Self {
        Self::new(name, Kind::Ids, sql)
    }

    /// A `text[]`.
    #[must_use]
    pub const fn texts(name: &'static str, sql: &'static str) -> Self {
        Self::new(name, Kind::Texts, sql)
    }

    /// A `json` or `jsonb`.
    #[must_use]
    pub const fn json(name: &'static str, sql: &'static str) -> Self {
        Self::new(name, Kind::Json, sql)
    }

    /// An object; by default, it shows its fields.
    #[must_use]
    pub const fn object(name: &'static str, fields: &'static [Self]) -> Self {
        Self::new(name, Kind::Object(fields), "")
    }

    /// An array of objects; `json` shows it.
    #[must_use]
    pub const fn rows(
        name: &'static str,
        link: &'static Link,
        fields: &'static [Self],
        json: &'static str,
    ) -> Self {
        Self::new(name, Kind::Rows(link, fields), "").shown_as(json)
    }

    /// The uuid of a related record.
    #[must_use]
    pub const fn one(name: &'static str, sql: &'static str, resource: &'static Resource) -> Self {
        Self::new(name, Kind::One(resource), sql)
    }

    /// The uuids of related records.
    #[must_use]
    pub const fn many(name: &'static str, link: &'static Link, resource: &'static Resource) -> Self {
        Self::new(name, Kind::Many(link, resource), "")
    }

    /// Shows another expression than the one that is filtered by.
    #[must_use]
    pub const fn shown_as(mut self, json: &'static str) -> Self {
        self.json = Some(json);
        self
    }

    /// It may be null.
    #[must_use]
    pub const fn or_null(mut self) -> Self {
        self.nullable = true;
        self
    }

    /// All that a string may say.
    #[must_use]
    pub const fn among(mut self, values: &'static [&'static str]) -> Self {
        self.among = Some(values);
        self
    }

    /// Asks about it only: no record shows it.
    #[must_use]
    pub const fn hidden(mut self) -> Self {
        self.shown = Shown::Nowhere;
        self
    }

    /// `nested` replaces this member of its objects by the related record.
    #[must_use]
    pub const fn nesting(mut self, member: &'static str, related: &'static Resource) -> Self {
        self.nests = Some((member, related));
        self
    }

    /// Asks about it as a member of `extra` only.
    #[must_use]
    pub const fn extra(mut self) -> Self {
        self.shown = Shown::Extra;
        self
    }

    /// Whether criteria and `sort` know it.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        !matches!(self.shown, Shown::Alone | Shown::Extra)
    }

    /// A list shows it only where `select` names it.
    #[must_use]
    pub const fn on_request(mut self) -> Self {
        self.shown = Shown::OnRequest;
        self
    }

    /// Shows it only in a single record.
    #[must_use]
    pub const fn alone(mut self) -> Self {
        self.shown = Shown::Alone;
        self
    }
}

impl Resource {
    /// The fields that a single record shows.
    pub fn shown(&self) -> impl Iterator<Item = &'static Field> {
        self.fields.iter().filter(|field| !matches!(field.shown, Shown::Nowhere | Shown::Extra))
    }

    /// The fields that the records of a list show.
    pub fn listed(&self) -> impl Iterator<Item = &'static Field> {
        self.shown().filter(|field| field.shown != Shown::Alone)
    }

    /// What `extra` may ask.
    pub fn extras(&self) -> impl Iterator<Item = &'static Field> {
        self.fields.iter().filter(|field| field.shown == Shown::Extra)
    }

    /// Whether a single record has a member of that name.
    #[must_use]
    pub fn shows(&self, name: &str) -> bool {
        self.shown().any(|field| field.name == name)
    }
}

/// The field of that name among those that lists know.
#[must_use]
pub fn field(fields: &'static [Field], name: &str) -> Option<&'static Field> {
    fields.iter().find(|field| field.name == name && field.is_asked())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::list::fields::admin::ADMIN;
    use crate::list::fields::audit::{AUDIT, CHANGE};
    use crate::list::fields::business_user::BUSINESS_USER;
    use crate::list::fields::carrier::CARRIER;
    use crate::list::fields::delivery::DELIVERY;
    use crate::list::fields::eshop::ESHOP;
    use crate::list::fields::expedition::EXPEDITION;
    use crate::list::fields::expedition_item::{EXPEDITION_ITEM, RESERVATION};
    use crate::list::fields::job::JOB;
    use crate::list::fields::lost_order::LOST_ORDER;
    use crate::list::fields::movement::STOCK_MOVEMENT;
    use crate::list::fields::organisation::ORGANISATION;
    use crate::list::fields::packaging::PACKAGING_OPTION;
    use crate::list::fields::preference::CARRIER_PREFERENCE;
    use crate::list::fields::preview::PREVIEW;
    use crate::list::fields::product::PRODUCT;
    use crate::list::fields::receipt::{INBOUND_RECEIPT, OUTBOUND_RECEIPT};
    use crate::list::fields::service::CARRIER_SERVICE;
    use crate::list::fields::session::SESSION;
    use crate::list::fields::stock::PRODUCT_STOCK;
    use crate::list::fields::stock_advice::STOCK_ADVICE;
    use crate::list::fields::subscription::WEBHOOK;
    use crate::list::fields::supplier::SUPPLIER;
    use crate::list::fields::token::ACCESS_TOKEN;
    use crate::list::fields::warehouse::WAREHOUSE;
    use crate::list::fields::wms::WMS;

    const ALL: &[&Resource] = &[
        &ORGANISATION,
        &ESHOP,
        &WAREHOUSE,
        &WMS,
        &PRODUCT,
        &PRODUCT_STOCK,
        &JOB,
        &WEBHOOK,
        &DELIVERY,
        &ADMIN,
        &BUSINESS_USER,
        &SESSION,
        &ACCESS_TOKEN,
        &STOCK_ADVICE,
        &AUDIT,
        &CHANGE,
        &PREVIEW,
        &PACKAGING_OPTION,
        &SUPPLIER,
        &CARRIER,
        &CARRIER_SERVICE,
        &CARRIER_PREFERENCE,
        &EXPEDITION,
        &EXPEDITION_ITEM,
        &RESERVATION,
        &STOCK_MOVEMENT,
        &OUTBOUND_RECEIPT,
        &INBOUND_RECEIPT,
        &LOST_ORDER,
    ];

    fn marks(template: &str) -> HashSet<&str> {
        template
            .split('{')
            .skip(1)
            .map(|rest| rest.split_once('}').map_or("unclosed", |(mark, _)| mark))
            .collect()
    }

    fn check(resource: &Resource, fields: &[Field]) {
        let mut names = HashSet::new();
        for field in fields {
            let place = format!("{}.{}", resource.name, field.name);
            assert!(names.insert(field.name), "{place} is there twice");
            // a path looks for a dotted name as a whole; no record shows one
            let is_known = |b: u8| b.is_ascii_alphanumeric() || b == b'.' && field.shown == Shown::Nowhere;
            assert!(field.name.bytes().all(is_known), "{place}");
            for template in [field.sql, field.json.unwrap_or_default()] {
                assert!(marks(template).is_subset(&HashSet::from(["t", "e"])), "{place}: {template}");
            }
            if let Kind::Rows(link, _) | Kind::Many(link, _) = field.kind {
                let of = marks(link.of);
                assert!(of.is_superset(&HashSet::from(["t", "l"])), "{place}");
                assert!(of.is_subset(&HashSet::from(["t", "l", "o", "e"])), "{place}");
                assert_eq!(marks(link.id), HashSet::from(["l"]), "{place}");
            }
            match field.kind {
                Kind::Object(inner) | Kind::Rows(_, inner) => check(resource, inner),
                Kind::Many(..) => assert!(field.sql.is_empty(), "{place}"),
                _ => assert!(!field.sql.is_empty(), "{place}"),
            }
        }
    }

    #[test]
    fn every_table_of_fields_is_well_formed() {
        for resource in ALL {
            check(resource, resource.fields);
            assert!(resource.fields.iter().any(|f| f.name == "id" && matches!(f.kind, Kind::Id)));
            assert!(field(resource.fields, resource.order).is_some(), "{}", resource.name);
            assert!(marks(resource.version).is_subset(&HashSet::from(["t"])));
            let organisation = marks(resource.tenancy.organisation);
            let known = [HashSet::from(["t"]), HashSet::from(["t", "o"]), HashSet::new()];
            assert!(known.contains(&organisation), "{}", resource.name);
            let is_common = resource.tenancy.organisation == Tenancy::COMMON;
            assert_eq!(organisation.is_empty(), is_common, "{}", resource.name);
            assert_eq!(marks(resource.tenancy.several.unwrap_or("{t}{o}")), HashSet::from(["t", "o"]));
            assert_eq!(marks(resource.tenancy.eshop.unwrap_or("{t}{e}")), HashSet::from(["t", "e"]));
            assert_eq!(marks(resource.tenancy.wms.unwrap_or("{t}{w}")), HashSet::from(["t", "w"]));
            assert_eq!(marks(resource.tenancy.maker.unwrap_or("{t}{m}")), HashSet::from(["t", "m"]));
            assert!(
                !resource.tables.is_empty() && resource.tables.iter().all(|table| marks(table).is_empty())
            );
        }
    }
}
