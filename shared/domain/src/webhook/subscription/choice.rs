//! What a body says of the events that a webhook or a reader hears of: of which e-shop or organisation, which types, which of these, and what of each.

use serde_json::Value;
use uuid::Uuid;

use super::filter::{self, Filter};
use super::stored::Subscribed;
use crate::list::document::Condition;
use crate::list::fields::event::{ALL, NAMES, SUBSCRIBABLE};
use longshore_kernel::access::Scope;
use longshore_kernel::ids::{EshopId, OrganisationId};
use longshore_kernel::input::{Given, Object, array, id, one_of};
use longshore_kernel::problem::{Problem, Violation, with_found};
use longshore_kernel::services::Services;

/// What a body says that a webhook hears of.
#[derive(Clone, Copy, Debug)]
pub(in crate::webhook) enum Named {
    Eshop(EshopId),
    Organisation(OrganisationId),
}

impl Named {
    pub(in crate::webhook) fn id(self) -> Uuid {
        match self {
            Self::Eshop(id) => id.get(),
            Self::Organisation(id) => id.get(),
        }
    }

    /// Its field.
    pub(in crate::webhook) fn field(self) -> &'static str {
        match self {
            Self::Eshop(_) => "eshop",
            Self::Organisation(_) => "organisation",
        }
    }
}

/// What a webhook hears of.
#[derive(Clone, Copy, Debug)]
pub(in crate::webhook) struct Source {
    pub(in crate::webhook) id: Uuid,
    pub(in crate::webhook) organisation: OrganisationId,
    /// Nothing: all e-shops of the organisation, and itself.
    pub(in crate::webhook) eshop: Option<EshopId>,
}

/// What was read of a body, and the e-shop or organisation that it names, which must be in the scope; what is wrong with all is
/// refused together.
pub(in crate::webhook) async fn of_source<T>(
    services: &Services,
    scope: &Scope,
    (read, named, refused): (Option<T>, Option<Named>, Vec<Violation>),
) -> Result<(T, Source), Problem> {
    let id = named.map(Named::id).unwrap_or_default();
    let is_organisation = matches!(named, Some(Named::Organisation(_)));
    let source = sqlx::query_as!(
        Source,
        r#"SELECT id AS "id!", organisation_id AS "organisation!", id AS "eshop: EshopId" FROM eshop
           WHERE NOT $4 AND in_scope($1, organisation_id) AND in_eshop($2, id) AND id = $3
           UNION ALL
           SELECT id, id, NULL FROM organisation WHERE $4 AND in_scope($1, id) AND $2::uuid IS NULL AND id = $3"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        id,
        is_organisation,
    )
    .fetch_optional(&services.db.main)
    .await?;
    let Some((read, source)) = read.zip(source) else {
        let unknown =
            || named.map(|named| Violation::new(named.field(), "unknown_reference", "does not exist"));
        let found = if source.is_none() { unknown() } else { None };
        return Err(Problem::invalid(with_found(refused, found.into_iter().collect())));
    };
    Ok((read, source))
}

/// What a body says of the e-shop and the organisation.
#[derive(Debug, Default)]
pub(in crate::webhook) struct Whose {
    eshop: Given<EshopId>,
    organisation: Option<OrganisationId>,
}

impl Whose {
    /// Takes both. A new webhook must name one of the two.
    pub(in crate::webhook) fn members(object: &mut Object<'_>, is_new: bool) -> Self {
        let is_sent = object.has("organisation");
        let has_eshop = object.has("eshop");
        let eshop = match object.nullable("eshop", id()) {
            Given::Value(id) => Given::Value(id.into()),
            Given::Null => Given::Null,
            Given::Absent => Given::Absent,
        };
        if is_new && !is_sent && !has_eshop {
            object.refuse("eshop", "required", "is required, unless `organisation` is sent");
        } else if is_new && !is_sent && matches!(eshop, Given::Null) {
            object.refuse("eshop", "contradiction", "cannot be null, unless `organisation` is sent");
        }
        let organisation = object.optional("organisation", id()).map(Into::into);
        if is_new && is_sent && matches!(eshop, Given::Value(_)) {
            let message = "cannot be sent with `eshop`: it is told of one e-shop, or of a whole organisation";
            object.refuse("organisation", "contradiction", message);
        }
        Self { eshop, organisation }
    }

    /// What is named; of a new webhook it is one of the two.
    pub(in crate::webhook) fn named(self) -> Option<Named> {
        let of_all = || self.organisation.map(Named::Organisation);
        self.eshop.value().map(Named::Eshop).or_else(of_all)
    }

    /// Refuses what differs from what a webhook has.
    pub(in crate::webhook) fn must_be_of(
        &self,
        old_organisation: OrganisationId,
        old_eshop: Option<EshopId>,
    ) -> Result<(), Problem> {
        let refused = match self.eshop {
            Given::Value(eshop) if Some(eshop) != old_eshop => Some(("eshop", "not_allowed")),
            // a value that fits others
            Given::Null if old_eshop.is_some() => Some(("eshop", "contradiction")),
            _ => {
                let is_other = self.organisation.is_some_and(|organisation| organisation != old_organisation);
                is_other.then_some(("organisation", "not_allowed"))
            }
        };
        match refused {
            Some((field, code)) => Err(Problem::violation(field, code, "cannot be changed")),
            None => Ok(()),
        }
    }
}

/// Which events a body asks for, and what of them.
#[derive(Debug, Default)]
pub(in crate::webhook) struct Choice {
    event: Given<&'static str>,
    events: Option<Vec<&'static str>>,
    /// Also if it was refused.
    has_events: bool,
    criteria: Given<Value>,
    select: Given<Vec<String>>,
}

impl Choice {
    /// The same where a new one hears of all, unless it says something else.
    pub(in crate::webhook) fn members_or_all(object: &mut Object<'_>, is_new: bool) -> Self {
        let says_nothing = is_new && !object.has("event") && !object.has("events");
        let choice = Self::members(object, is_new && !says_nothing);
        if says_nothing { Self { event: Given::Value(ALL), ..choice } } else { choice }
    }

    pub(in crate::webhook) fn members(object: &mut Object<'_>, is_new: bool) -> Self {
        let has_events = object.has("events");
        if is_new && !object.has("event") && !has_events {
            object.refuse("event", "required", "is required, unless `events` is sent");
        }
        Self {
            event: object.nullable("event", one_of(SUBSCRIBABLE)),
            events: object.optional("events", array(1..=20, one_of(NAMES))),
            has_events,
            criteria: object.nullable("criteria", filter::criteria()),
            select: object.nullable("select", filter::select()),
        }
    }

    /// What it says of a new webhook, with its criteria, read; what is wrong is refused.
    pub(in crate::webhook) fn judge(
        self,
        object: &mut Object<'_>,
        named: Option<Named>,
    ) -> Option<(Subscribed, Filter, Vec<Condition>)> {
        let of_organisation = !matches!(named, Some(Named::Eshop(_)));
        let filter = Filter { criteria: self.criteria.value(), select: self.select.value() };
        let subscribed = subscribed(self.event, self.events.as_deref(), None);
        let judged = match &subscribed {
            // one that is refused was sent
            Err(violation) if self.has_events && violation.property_path == "event" => Err(Vec::new()),
            Err(violation) => Err(vec![violation.clone()]),
            Ok(subscribed) => filter.judge(&subscribed.as_ref()?.events, of_organisation),
        };
        match judged {
            Ok(conditions) => Some((subscribed.ok()??, filter, conditions)),
            Err(violations) => {
                for Violation { property_path, code, message, .. } in violations {
                    object.refuse_other(&property_path, code, message);
                }
                None
            }
        }
    }

    /// What it makes of what was chosen before; its criteria, read, where they must be judged anew.
    pub(in crate::webhook) fn changed(
        self,
        was: &Subscribed,
        had: &Filter,
        of_organisation: bool,
    ) -> Result<(Subscribed, Filter, Option<Vec<Condition>>), Problem> {
        let subscribed = subscribed(self.event, self.events.as_deref(), Some(was))
            .map_err(|violation| Problem::invalid(vec![violation]))?
            .unwrap_or_else(|| was.clone());
        let filter = Filter {
            criteria: self.criteria.or_keep(had.criteria.clone()),
            select: self.select.or_keep(had.select.clone()),
        };
        // what is stored stays as it was judged
        let is_other = filter != *had || subscribed.events != was.events;
        let judged = is_other.then(|| filter.judge(&subscribed.events, of_organisation));
        let conditions = judged.transpose().map_err(Problem::invalid)?;
        Ok((subscribed, filter, conditions))
    }
}

/// What a body subscribes to, by `event`, by `events`, or by both where they say the same; nothing: what it was. A record that was
/// read and is sent back changes nothing.
fn subscribed(
    event: Given<&str>,
    events: Option<&[&str]>,
    old: Option<&Subscribed>,
) -> Result<Option<Subscribed>, Violation> {
    let is_null = matches!(event, Given::Null);
    let word = event.value().map(Subscribed::to_one);
    let list = events.map(Subscribed::to_some);
    let is_old_word = word.as_ref().is_some_and(|word| old.is_some_and(|old| old.event == word.event));
    let is_old_list = list.as_ref().is_some_and(|list| old.is_some_and(|old| old.events == list.events));
    match (word, list) {
        (None, None) if is_null && old.is_none_or(|old| old.event.is_some()) => {
            Err(Violation::new("event", "contradiction", "cannot be null, unless `events` is sent"))
        }
        (None, None) => Ok(None),
        // also of a `*` that stands for fewer types than there are now
        (Some(_), None) if is_old_word => Ok(None),
        (Some(_), Some(_)) if is_old_word && is_old_list => Ok(None),
        (Some(word), None) => Ok(Some(word)),
        (None, Some(list)) => Ok(Some(list)),
        (Some(word), Some(list)) if word.events == list.events => Ok(Some(word)),
        (Some(_), Some(_)) => {
            let message = "cannot say something else than `event`: send one of the two";
            Err(Violation::new("events", "contradiction", message))
        }
    }
}
