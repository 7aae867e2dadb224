//! What a request wants of a webhook, read by the rules of its fields.

use serde_json::Value;

use super::Stored;
use crate::list::fields::subscription::{SUBSCRIBABLE, WEBHOOK};
use longshore_kernel::authentication::{self, Authentication};
use longshore_kernel::config::OutboundSettings;
use longshore_kernel::destination::{destination, is_same_origin};
use longshore_kernel::echo::{self, Echo};
use longshore_kernel::ids::EshopId;
use longshore_kernel::input::{self, Given, Object, Reader};
use longshore_kernel::problem::Problem;

/// Calls that may be under way at once, unless the request says otherwise.
const MAX_IN_FLIGHT: i32 = 16;

/// What a new webhook is to be.
#[derive(Debug)]
pub(super) struct NewWebhook {
    pub(super) eshop: EshopId,
    pub(super) event: &'static str,
    pub(super) destination: String,
    pub(super) active: bool,
    pub(super) authentication: Authentication,
    pub(super) max_in_flight: i32,
    pub(super) ordered: bool,
}

/// What of a webhook is to change.
#[derive(Debug, Default)]
pub(super) struct Edit {
    pub(super) eshop: Option<EshopId>,
    pub(super) event: Option<&'static str>,
    pub(super) destination: Option<String>,
    pub(super) active: Option<bool>,
    pub(super) authentication: Given<Authentication>,
    pub(super) max_in_flight: Option<i32>,
    pub(super) ordered: Option<bool>,
    /// Read-only members.
    pub(super) echo: Echo,
}

/// What a webhook becomes.
#[derive(Debug)]
pub(super) struct Fields {
    pub(super) action: &'static str,
    pub(super) event: String,
    pub(super) destination: String,
    pub(super) active: bool,
    pub(super) max_in_flight: i32,
    pub(super) ordered: bool,
    pub(super) old_authentication: String,
    /// Only where it differs.
    pub(super) new_authentication: Option<Authentication>,
}

impl Edit {
    fn members(object: &mut Object<'_>, outbound: &OutboundSettings) -> Self {
        Self {
            eshop: None,
            event: None,
            destination: object.optional("destination", destination(outbound)),
            active: object.optional("active", input::boolean),
            authentication: object.nullable("authentication", authentication::read(authentication::TYPES)),
            max_in_flight: object.optional("maxInFlight", input::int32(1..=256)),
            ordered: object.optional("ordered", input::boolean),
            echo: Echo::default(),
        }
    }

    /// Reads the body of an update.
    pub(super) fn read(outbound: &OutboundSettings, body: Value) -> Result<Self, Problem> {
        Reader::read(body, |reader, body| {
            let mut object = reader.object(body)?;
            let eshop = object.optional("eshop", input::id).map(EshopId::from);
            let event = object.optional("event", input::one_of(SUBSCRIBABLE));
            let mut edit = Self { eshop, event, ..Self::members(&mut object, outbound) };
            edit.echo = Echo::of_update(&mut object, |name| WEBHOOK.shows(name));
            object.finish();
            Some(edit)
        })
    }

    /// What the webhook becomes.
    pub(super) fn apply(self, old: &Stored) -> Result<Fields, Problem> {
        if self.eshop.is_some_and(|eshop| eshop != old.eshop) {
            return Err(Problem::violation("eshop", "immutable", "cannot be changed after creation"));
        }
        let stored = &old.authentication;
        // secrets for one host are not shown to another, even if the caller may change the destination
        let moved = self.destination.as_deref().is_some_and(|new| !is_same_origin(new, &old.destination));
        let kept = if moved { &Authentication::None } else { stored };
        let authentication = match self.authentication {
            Given::Absent if kept == stored => stored.clone(),
            Given::Absent => {
                let message = "must be sent again: the destination has a different host";
                return Err(Problem::violation("authentication", "required", message));
            }
            Given::Null => Authentication::None,
            Given::Value(given) => given
                .unmask(kept)
                .map_err(|member| authentication::nothing_stored("authentication", member))?,
        };
        let fields = Fields {
            action: "webhook.update",
            event: self.event.map_or_else(|| old.event.clone(), str::to_owned),
            destination: self.destination.unwrap_or_else(|| old.destination.clone()),
            active: self.active.unwrap_or(old.active),
            max_in_flight: self.max_in_flight.unwrap_or(old.max_in_flight),
            ordered: self.ordered.unwrap_or(old.ordered),
            old_authentication: stored.kind().to_owned(),
            new_authentication: (authentication != *stored).then_some(authentication),
        };
        let only_active = fields.new_authentication.is_none()
            && fields.event == old.event
            && fields.destination == old.destination
            && (fields.max_in_flight, fields.ordered) == (old.max_in_flight, old.ordered);
        let action = match fields.active {
            _ if !only_active => "webhook.update",
            true => "webhook.activate",
            false => "webhook.deactivate",
        };
        Ok(Fields { action, ..fields })
    }
}

impl NewWebhook {
    /// Reads the body of a creation.
    pub(super) fn read(outbound: &OutboundSettings, body: Value) -> Result<Self, Problem> {
        Reader::read(body, |reader, body| {
            let mut object = reader.object(body)?;
            let eshop = object.required("eshop", input::id);
            let event = object.required("event", input::one_of(SUBSCRIBABLE));
            if !object.has("destination") {
                object.refuse("destination", "required", "is required");
            }
            let given = Edit::members(&mut object, outbound);
            let authentication = given.authentication.value().unwrap_or(Authentication::None);
            if authentication.clone().unmask(&Authentication::None).is_err() {
                object.refuse("authentication", "required", "is masked, but no value is stored yet");
            }
            echo::pass_over_empty(&mut object, |name| WEBHOOK.shows(name));
            object.finish();
            Some(Self {
                eshop: eshop?.into(),
                event: event?,
                destination: given.destination?,
                active: given.active.unwrap_or(true),
                authentication,
                max_in_flight: given.max_in_flight.unwrap_or(MAX_IN_FLIGHT),
                ordered: given.ordered.unwrap_or(false),
            })
        })
    }
}
