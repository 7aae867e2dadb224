//! The fields of the setting of a wms, read by their rules.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;

use crate::partner::setting::body::FEED_TYPES;
use longshore_kernel::authentication::{self, Authentication};
use longshore_kernel::config::OutboundSettings;
use longshore_kernel::destination::{destination, is_same_origin};
use longshore_kernel::echo::Echo;
use longshore_kernel::ids::WmsId;
use longshore_kernel::input::{self, Object, Reader, Schema, boolean, id, int32, object, timestamp};
use longshore_kernel::problem::Problem;

/// Calls at once, unless the setting says otherwise.
pub const IN_FLIGHT: i32 = 8;

/// The most that it may say.
pub const MOST_IN_FLIGHT: i32 = 64;

/// What a setting says, but for its credentials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Fields {
    pub(super) active: bool,
    pub(super) paused: bool,
    pub(super) base_url: String,
    pub(super) max_in_flight: i32,
    /// Orders that were created before go on by hand.
    pub(super) since: Option<DateTime<Utc>>,
}

impl Fields {
    /// Whether credentials for it are meant for another one, too.
    pub(super) fn is_at_the_place_of(&self, other: &Self) -> bool {
        is_same_origin(&self.base_url, &other.base_url)
    }
}

/// What a request says: credentials may be masked.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) wanted: Fields,
    /// What it says of `since`, which stays where it is left out.
    pub(super) since: input::Given<DateTime<Utc>>,
    pub(super) credentials: Authentication,
    /// Read-only members.
    pub(super) echo: Echo,
}

/// What a setting shows and no body changes.
const READ_ONLY: &[&str] = &[
    "organisation",
    "toHandOver",
    "blockedUntil",
    "blockedBy",
    "lastError",
    "waiting",
    "oldestWaitingSince",
    "createdAt",
    "changedAt",
];

impl Given {
    /// Reads the body of a request about the setting of a wms.
    pub(super) fn read(outbound: &OutboundSettings, wms: WmsId, body: Value) -> Result<Self, Problem> {
        Reader::read(body, object(|object| Self::members(object, outbound, wms)))
    }

    fn members(object: &mut Object<'_>, outbound: &OutboundSettings, wms: WmsId) -> Option<Self> {
        if object.optional("wms", id()).is_some_and(|given| given != wms.get()) {
            object.refuse("wms", "not_allowed", "must be the wms of the path");
        }
        let active = object.optional_or("active", boolean(), true);
        let paused = object.optional_or("paused", boolean(), false);
        let base_url = object.required("baseUrl", destination(outbound));
        let credentials = object.optional("credentials", authentication::read(FEED_TYPES));
        let credentials = credentials.unwrap_or(Authentication::None);
        let max_in_flight = object.optional_or("maxInFlight", int32(1..=MOST_IN_FLIGHT), IN_FLIGHT);
        let since = object.nullable("since", timestamp());
        let echo = Echo::of(object, false, |name| READ_ONLY.contains(&name));
        let wanted = Fields { active, paused, base_url: base_url?, max_in_flight, since: None };
        Some(Self { wanted, since, credentials, echo })
    }
}

/// What the body of a request accepts.
#[must_use]
pub fn schema() -> Schema {
    Object::schema(|object| Given::members(object, &OutboundSettings::default(), WmsId::nil()))
}
