//! The body of `PUT …/status` (`docs/reference/orders.md#status-by-hand`).

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::expedition::body::{MAX_ITEMS, MAX_QUANTITY};
use crate::expedition::report::{MOST, Parcel, error, must_be_possible, parcel};
use crate::list::fields::expedition::ExpeditionStatus as Status;
use longshore_kernel::ids::ExpeditionItemId;
use longshore_kernel::input::{self, Object, Reader, Rule, array, drafts, int32, object};
use longshore_kernel::problem::{Problem, Violation};

/// A report by hand.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    pub(super) status: Option<Status>,
    pub(super) at: Option<DateTime<Utc>>,
    pub(super) items: Option<Vec<(ExpeditionItemId, i32)>>,
    pub(super) parcels: Vec<Parcel>,
    pub(super) errors: Option<Value>,
    /// Whether the warehouse accepts a cancel or a rollback.
    pub(super) cancel: Option<bool>,
    /// Whether it counts although a WMS reports on the order.
    pub(super) force: bool,
}

/// Reads the body of `PUT …/status` at that moment, with what is wrong with it. What was refused is blank.
pub(super) fn read(body: Value, now: DateTime<Utc>) -> (Report, Vec<Violation>) {
    let rule = object(move |object| {
        let report = members(object);
        must_be_possible(object, report.at, now);
        Some(report)
    });
    Reader::draft(body, rule)
}

/// Whether the body of `PUT …/status` can be read at that moment.
pub fn check(body: Value, now: DateTime<Utc>) -> Result<(), Problem> {
    let (_, refused) = read(body, now);
    Problem::refuse(refused)
}

/// The body of `PUT …/status`.
pub fn body() -> impl Rule {
    object(|object| Some(members(object)))
}

fn members(object: &mut Object<'_>) -> Report {
    let answers = object.has("cancel");
    let cancel = object.optional("cancel", input::one_of(CANCEL)).map(|cancel| cancel == CANCEL[0]);
    let force = object.optional_or("force", input::boolean(), false);
    let status = object.required_if(!answers, "status", input::one_of(REPORTED));
    let status = status.and_then(|status| status.parse::<Status>().ok());
    if answers && status.is_some() {
        object.refuse("cancel", "contradiction", "is allowed without a status only");
    }
    if status == Some(Status::Canceled) && !force {
        object.refuse("status", "contradiction", "is allowed with `force` only");
    }
    let at = object.nullable("at", input::timestamp()).value();
    let items = object.optional("items", drafts(1..=MAX_ITEMS, input::object(|object| Some(item(object)))));
    let parcels = object.optional("parcels", array(1..=MOST, input::object(parcel))).unwrap_or_default();
    let gives_errors = object.has("errors");
    let errors = object.optional("errors", array(1..=MOST, input::object(error)));
    match (status, gives_errors) {
        (Some(Status::Incorrect), false) => {
            object.refuse("errors", "required", "is required with the status incorrect");
        }
        (Some(status), true) if status != Status::Incorrect => {
            object.refuse("errors", "not_allowed", "is allowed with the status incorrect only");
        }
        _ => {}
    }
    if items.is_some() && status.is_some_and(|status| !status.is_packed()) {
        object.refuse("items", "not_allowed", "is allowed from the status waiting_for_the_carrier on");
    }
    Report { status, at, items, parcels, errors: errors.map(Value::Array), cancel, force }
}

/// The answers to a cancel or a rollback.
const CANCEL: &[&str] = &["accepted", "refused"];

/// The statuses that a warehouse can report.
const REPORTED: &[&str] = &[
    "take_out",
    "completion",
    "waiting_for_the_carrier",
    "carrier_picked_up",
    "ready_to_takeover",
    "delivered",
    "incorrect",
    "canceled",
];

fn item(item: &mut Object<'_>) -> (ExpeditionItemId, i32) {
    let id = item.required("id", input::id()).unwrap_or_default();
    let expedited = item.required("expedited", int32(0..=MAX_QUANTITY)).unwrap_or_default();
    (id.into(), expedited)
}
