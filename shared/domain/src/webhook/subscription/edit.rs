//! What a request wants of a webhook, read by the rules of its fields.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::choice::{Choice, Named, Whose};
use super::filter::Filter;
use super::stored::{Batching, Settings, Stored, Subscribed};
use crate::list::document::Condition;
use crate::list::fields::subscription::WEBHOOK;
use longshore_kernel::authentication::{self, Authentication};
use longshore_kernel::config::OutboundSettings;
use longshore_kernel::destination::{destination, is_same_origin};
use longshore_kernel::echo::Echo;
use longshore_kernel::input::{
    Given, Object, Reader, Rule, Schema, boolean, int32, number, object, timestamp,
};
use longshore_kernel::problem::{Problem, Violation};

/// Calls that may be under way at once, unless the request says otherwise.
const DEFAULT_IN_FLIGHT: i32 = 16;

/// The same for batches, of which more may not be under way.
const BATCHES_IN_FLIGHT: i32 = 4;

/// What a new webhook is to be.
#[derive(Debug)]
pub(super) struct NewWebhook {
    pub(super) settings: Settings,
    /// Its criteria, read.
    pub(super) conditions: Vec<Condition>,
    pub(super) authentication: Authentication,
}

/// The fields that a request changes.
#[derive(Debug, Default)]
pub(super) struct Edit {
    pub(super) whose: Whose,
    pub(super) choice: Choice,
    pub(super) destination: Option<String>,
    pub(super) active: Option<bool>,
    pub(super) authentication: Given<Authentication>,
    pub(super) max_in_flight: Option<i32>,
    pub(super) ordered: Option<bool>,
    pub(super) batch: Given<Batching>,
    pub(super) max_per_second: Given<f64>,
    /// Read-only members.
    pub(super) echo: Echo,
}

/// What is tried: what a webhook would have been told of.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) subscribed: Subscribed,
    pub(super) filter: Filter,
    /// Its criteria, read.
    pub(super) conditions: Vec<Condition>,
    /// Only of events since then.
    pub(super) since: DateTime<Utc>,
}

/// What the body of a trial accepts.
#[must_use]
pub fn trial_schema() -> Schema {
    Object::schema(Trial::members)
}

impl Trial {
    fn members(object: &mut Object<'_>) -> (Whose, Choice, Option<DateTime<Utc>>) {
        let whose = Whose::members(object, true);
        (whose, Choice::members(object, true), object.nullable("since", timestamp()).value())
    }

    /// Reads the body of a trial: what it says, whose events these are in any case, and what is wrong with it.
    pub(super) fn read(body: Value) -> (Option<Self>, Option<Named>, Vec<Violation>) {
        let rule = object(|object| {
            let (whose, choice, since) = Self::members(object);
            let named = whose.named();
            let since = since.unwrap_or_default();
            let of = |(subscribed, filter, conditions)| Self { subscribed, filter, conditions, since };
            Some((choice.judge(object, named).map(of), named))
        });
        let ((trial, named), refused) = Reader::draft(body, rule);
        (trial.filter(|_| refused.is_empty()), named, refused)
    }
}

/// What the body of a creation or of an update accepts.
#[must_use]
pub fn schema(is_new: bool) -> Schema {
    Object::schema(|object| Edit::members(object, &OutboundSettings::default(), is_new))
}

/// What a webhook becomes.
#[derive(Debug)]
pub(super) struct Fields {
    pub(super) action: &'static str,
    pub(super) settings: Settings,
    /// Its criteria, read, where they must be judged anew.
    pub(super) conditions: Option<Vec<Condition>>,
    /// Whether it becomes active, or inactive; nothing where it stays what it was.
    pub(super) switched: Option<bool>,
    pub(super) old_authentication: String,
    /// Only where it differs.
    pub(super) new_authentication: Option<Authentication>,
}

impl Edit {
    /// Takes the members of the body of a creation or of an update.
    fn members(object: &mut Object<'_>, outbound: &OutboundSettings, is_new: bool) -> Self {
        let or = |default| is_new.then_some(default);
        let whose = Whose::members(object, is_new);
        let choice = Choice::members(object, is_new);
        let batch = object.nullable("batch", batch());
        let most = if matches!(batch, Given::Value(_)) { BATCHES_IN_FLIGHT } else { DEFAULT_IN_FLIGHT };
        let or_in_flight = is_new.then_some(most);
        Self {
            whose,
            choice,
            destination: object.required_if(is_new, "destination", destination(outbound)),
            active: object.optional_with("active", boolean(), or(true)),
            authentication: object.nullable("authentication", authentication::read(authentication::TYPES)),
            max_in_flight: object.optional_with("maxInFlight", int32(1..=256), or_in_flight),
            ordered: object.optional_with("ordered", boolean(), or(false)),
            batch,
            max_per_second: object.nullable("maxPerSecond", number(0.1..=1_000.0)),
            echo: Echo::of(object, is_new, |name| WEBHOOK.shows(name)),
        }
    }

    /// Reads the body of an update.
    pub(super) fn read(outbound: &OutboundSettings, body: Value) -> Result<Self, Problem> {
        Reader::read(body, object(|object| Some(Self::members(object, outbound, false))))
    }

    /// What the webhook becomes; `stored` is its authentication.
    pub(super) fn apply(self, old: &Stored, stored: &Authentication) -> Result<Fields, Problem> {
        self.whose.must_be_of(old.organisation, old.eshop)?;
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
        let was = old.settings();
        let batch = self.batch.or_keep(was.batch);
        let ordered = self.ordered.unwrap_or(was.ordered);
        let goes_together = goes_together(batch, ordered, self.max_in_flight);
        Problem::refuse(goes_together.into_iter().collect())?;
        let most = if batch.is_some() { was.max_in_flight.min(BATCHES_IN_FLIGHT) } else { was.max_in_flight };
        let (subscribed, filter, conditions) =
            self.choice.changed(&was.subscribed, &was.filter, old.eshop.is_none())?;
        let settings = Settings {
            subscribed,
            destination: self.destination.unwrap_or_else(|| was.destination.clone()),
            active: self.active.unwrap_or(was.active),
            max_in_flight: self.max_in_flight.unwrap_or(most),
            ordered,
            batch,
            max_per_second: self.max_per_second.or_keep(was.max_per_second),
            filter,
        };
        let new_authentication = (authentication != *stored).then_some(authentication);
        let only_active =
            new_authentication.is_none() && settings == Settings { active: settings.active, ..was };
        let action = match settings.active {
            _ if !only_active => "webhook.update",
            true => "webhook.activate",
            false => "webhook.deactivate",
        };
        let switched = self.active.filter(|active| *active != old.active);
        let old_authentication = stored.kind().to_owned();
        Ok(Fields { action, settings, conditions, switched, old_authentication, new_authentication })
    }
}

/// What `batch` accepts.
#[must_use]
pub fn batch_schema() -> Schema {
    batch().schema()
}

fn batch() -> impl Rule<Out = Batching> + Clone {
    object(|object| {
        let max_events = object.required("maxEvents", int32(1..=500));
        let max_wait_ms = object.optional_or("maxWaitMs", int32(0..=60_000), 0);
        Some(Batching { max_events: max_events?, max_wait_ms })
    })
}

/// What does not go together, as far as the request says how many calls it wants under way.
fn goes_together(batch: Option<Batching>, ordered: bool, max_in_flight: Option<i32>) -> Option<Violation> {
    let batch = batch?;
    if max_in_flight.is_some_and(|most| most > BATCHES_IN_FLIGHT) {
        let message = format!("cannot be more than {BATCHES_IN_FLIGHT} with `batch`");
        return Some(Violation::new("maxInFlight", "contradiction", message));
    }
    let message = "must be 0 with `ordered`: the events that come during a call go together anyway";
    (ordered && batch.max_wait_ms > 0).then(|| Violation::new("batch.maxWaitMs", "contradiction", message))
}

impl NewWebhook {
    /// Reads the body of a creation: what it says, unless it is refused, what it hears of in any case, and what is wrong with it.
    pub(super) fn read(
        outbound: &OutboundSettings,
        body: Value,
    ) -> (Option<Self>, Option<Named>, Vec<Violation>) {
        let rule = object(|object| {
            let given = Edit::members(object, outbound, true);
            let authentication = given.authentication.value().unwrap_or(Authentication::None);
            if authentication.clone().unmask(&Authentication::None).is_err() {
                object.refuse("authentication", "required", "is masked, but no value is stored yet");
            }
            let named = given.whose.named();
            let choice = given.choice.judge(object, named);
            let batch = given.batch.value();
            if let Some(violation) = goes_together(batch, given.ordered == Some(true), given.max_in_flight) {
                object.refuse_other(&violation.property_path, violation.code, violation.message);
            }
            let new = || {
                let (subscribed, filter, conditions) = choice?;
                let settings = Settings {
                    subscribed,
                    destination: given.destination?,
                    active: given.active?,
                    max_in_flight: given.max_in_flight?,
                    ordered: given.ordered?,
                    batch,
                    max_per_second: given.max_per_second.value(),
                    filter,
                };
                Some(Self { settings, conditions, authentication })
            };
            Some((named, new()))
        });
        let ((named, new), refused) = Reader::draft(body, rule);
        (new.filter(|_| refused.is_empty()), named, refused)
    }
}
