//! What reports of a warehouse have in common, by hand ([`super::progress`]) or as news ([`super::news`]): parcels, errors, and
//! when a status was reached.

use chrono::{DateTime, Datelike as _, Duration, SecondsFormat, Utc};
use serde_json::{Value, json};

use crate::list::fields::expedition::ExpeditionStatus as Status;
use longshore_kernel::input::{Object, text};
use longshore_kernel::refused::Parameters;

/// How far ahead of the clock a moment may be.
const AHEAD: Duration = Duration::minutes(5);
/// The year before which none is: programs send the first moment that they know for one that they don't.
const FIRST: i32 = 2000;
/// The most errors, and the most parcels, of a report.
pub(super) const MOST: usize = 100;

/// Refuses a moment `at` which something cannot have happened.
pub(super) fn must_be_possible(object: &mut Object<'_>, at: Option<DateTime<Utc>>, now: DateTime<Utc>) {
    if at.is_some_and(|at| at > now + AHEAD) {
        object.refuse("at", "in_future", "must be at most five minutes ahead");
    } else if at.is_some_and(|at| at.year() < FIRST) {
        object.refuse("at", "out_of_range", format!("must be in {FIRST} or later"));
    }
}

/// A parcel: a field that is given wins over what was reported before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parcel {
    pub(super) number: String,
    pub(super) package_tracking_number: Option<String>,
    pub(super) carrier_tracking_number: Option<String>,
    pub(super) tracking_url: Option<String>,
}

impl Parcel {
    /// Takes what is reported of it later.
    pub(super) fn take(&mut self, later: Self) {
        self.package_tracking_number = later.package_tracking_number.or(self.package_tracking_number.take());
        self.carrier_tracking_number = later.carrier_tracking_number.or(self.carrier_tracking_number.take());
        self.tracking_url = later.tracking_url.or(self.tracking_url.take());
    }
}

/// Where an order can be tracked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tracking {
    pub(super) number: Option<String>,
    pub(super) url: Option<String>,
}

impl Tracking {
    /// Where it can be tracked once parcels were reported, of which those in `before` are now those in `after`: what a parcel gave
    /// follows the parcel, and what is missing comes from the first one.
    pub(super) fn after(&self, reported: &[Parcel], before: &[Parcel], after: &[Parcel]) -> Self {
        // a report may name a parcel twice
        let first = merged(reported).into_iter().next();
        let of = |has: &Option<String>, said: fn(&Parcel) -> &Option<String>| {
            let Some(has) = has else { return first.as_ref().and_then(|first| said(first).clone()) };
            let gave = before.iter().find(|parcel| said(parcel).as_ref() == Some(has));
            let now = gave.and_then(|gave| after.iter().find(|parcel| parcel.number == gave.number));
            Some(now.and_then(|now| said(now).clone()).unwrap_or_else(|| has.clone()))
        };
        Self {
            number: of(&self.number, |parcel| &parcel.package_tracking_number),
            url: of(&self.url, |parcel| &parcel.tracking_url),
        }
    }
}

/// Parcels, each number once: what is given later wins.
pub(super) fn merged(parcels: &[Parcel]) -> Vec<Parcel> {
    let mut merged: Vec<Parcel> = Vec::with_capacity(parcels.len());
    for parcel in parcels.iter().cloned() {
        match merged.iter_mut().find(|known| known.number == parcel.number) {
            None => merged.push(parcel),
            Some(known) => known.take(parcel),
        }
    }
    merged
}

pub(super) fn parcel(parcel: &mut Object<'_>) -> Option<Parcel> {
    parcel.empty_is_null();
    parcel.take_others(|name| matches!(name, "createdAt" | "changedAt"));
    let number = parcel.required("extPackageNumber", text(1..=255));
    let package_tracking_number = parcel.nullable("extPackageTrackingNumber", text(0..=255)).value();
    let carrier_tracking_number = parcel.nullable("extCarrierTrackingNumber", text(0..=255)).value();
    let tracking_url = parcel.nullable("trackingUrl", text(0..=2_000)).value();
    Some(Parcel { number: number?, package_tracking_number, carrier_tracking_number, tracking_url })
}

pub(super) fn error(error: &mut Object<'_>) -> Option<Value> {
    let path = error.nullable("propertyPath", text(0..=255)).value();
    let message = error.required("message", text(1..=1_000));
    let code = error.nullable("code", text(0..=100)).value();
    Some(json!({"propertyPath": path.unwrap_or_default(), "message": message?,
                "code": code.unwrap_or_else(|| "refused_by_warehouse".to_owned()),
                "parameters": Parameters::default()}))
}

/// When an order was packed, sent and delivered, as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) packed: Option<DateTime<Utc>>,
    pub(super) sent: Option<DateTime<Utc>>,
    pub(super) delivered: Option<DateTime<Utc>>,
}

impl Times {
    /// By the names of their fields, as the record shows them.
    pub(super) fn shown(&self) -> [(&'static str, Value); 3] {
        let show =
            |at: Option<DateTime<Utc>>| json!(at.map(|at| at.to_rfc3339_opts(SecondsFormat::Micros, false)));
        [("packedAt", show(self.packed)), ("sentAt", show(self.sent)), ("deliveredAt", show(self.delivered))]
    }

    /// A status of the line was reached at a moment: so were those before it, at the latest.
    pub(super) fn reach(self, status: Status, at: DateTime<Utc>) -> Self {
        let earliest = |known: Option<DateTime<Utc>>, from: Status| match known {
            Some(known) if status >= from => Some(known.min(at)),
            None if status >= from => Some(at),
            known => known,
        };
        Self {
            packed: earliest(self.packed, Status::WaitingForTheCarrier),
            sent: earliest(self.sent, Status::CarrierPickedUp),
            delivered: earliest(self.delivered, Status::Delivered),
        }
    }
}
