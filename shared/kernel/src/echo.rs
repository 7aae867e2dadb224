//! A record that was read can be written back (`docs/reference/records.md#read-only-fields`), also when it has changed since: its
//! read-only members are allowed as long as they equal the stored values, or the record was read at an earlier version.

use chrono::{DateTime, SubsecRound as _, Utc};
use serde_json::{Map, Value};

use super::ids::parse_id;
use super::input::Object;
use super::iso8601;
use super::problem::{Problem, Violation};

/// What a record says of its version. `If-Match` is for that, so these are never compared.
const VERSION: [&str; 2] = ["changedAt", "version"];

/// What the service stamps or observes by itself: never compared either, because most of it changes without a new version.
const STAMPS: [&str; 21] = [
    "audits",
    "backlog",
    "blockedBy",
    "blockedUntil",
    "handover",
    "health",
    "heldUntil",
    "lastError",
    "modifiedAt",
    "nextProductSync",
    "nextStockSync",
    "oldestWaitingSince",
    "position",
    "positionAt",
    "readAt",
    "readTo",
    "starting",
    "statusSince",
    "toHandOver",
    "waiting",
    "waitsFor",
];

/// What never changes: compared in any case, so that no record is written over another one.
const IDENTITY: [&str; 2] = ["createdAt", "id"];

/// What is wrong with a read-only member, for programs.
const READ_ONLY: &str = "read_only";

/// The read-only members that the body of an update gives.
#[derive(Clone, Debug, Default)]
pub struct Echo {
    members: Map<String, Value>,
    /// what it says of its version
    seen: Map<String, Value>,
}

impl Echo {
    /// Takes them, after the rules of the body took what they know; `is_shown` says what a record shows. A new record has
    /// none: they may only be empty arrays, as a record shows that has just been created.
    pub fn of(object: &mut Object<'_>, is_new: bool, is_shown: impl Fn(&str) -> bool) -> Self {
        if is_new {
            let given = object.take_others(is_shown);
            for (name, _) in
                given.into_iter().filter(|(_, value)| value.as_array().is_none_or(|array| !array.is_empty()))
            {
                object.refuse_other(&name, READ_ONLY, "is read-only: leave it out");
            }
            return Self::default();
        }
        let given = object.take_others(|name| VERSION.contains(&name) || is_shown(name));
        let (seen, members) = given.into_iter().partition(|(name, _)| VERSION.contains(&name.as_str()));
        Self { members, seen }
    }

    /// Whether a member of that name is among them.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// Whether there is nothing to compare.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Those that differ from the record as it is shown.
    pub fn judge(&self, record: &str) -> Result<Vec<Violation>, Problem> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let record: Value = serde_json::from_str(record).map_err(Problem::internal)?;
        let is_earlier = self.is_earlier_than(&record);
        let is_compared = |name: &str| !STAMPS.contains(&name) && (!is_earlier || IDENTITY.contains(&name));
        let differing = self
            .members
            .iter()
            .filter(|(name, given)| is_compared(name) && !is_same(given, &record[name.as_str()]));
        let message = "is read-only: leave it out, or send the stored value";
        Ok(differing.map(|(name, _)| Violation::new(name, READ_ONLY, message)).collect())
    }

    /// Whether the record has changed since it was read. Clients that do not know `version` may know `changedAt`.
    fn is_earlier_than(&self, record: &Value) -> bool {
        if let Some(version) = self.seen.get("version") {
            let versions = version.as_f64().zip(record["version"].as_f64());
            return versions.is_some_and(|(seen, stored)| seen < stored);
        }
        let at =
            |value: Option<&Value>| -> Option<DateTime<Utc>> { iso8601::timestamp(value?.as_str()?).ok() };
        let times = at(self.seen.get("changedAt")).zip(at(record.get("changedAt")));
        times.is_some_and(|(seen, stored)| seen < stored.trunc_subsecs(3))
    }
}

/// Whether a value is the stored one. Times are compared as times; some clients know milliseconds only. Ids are compared as ids.
fn is_same(given: &Value, stored: &Value) -> bool {
    match (given, stored) {
        (Value::Array(given), Value::Array(stored)) => {
            given.len() == stored.len()
                && given.iter().zip(stored).all(|(given, stored)| is_same(given, stored))
        }
        (Value::Object(given), Value::Object(stored)) => {
            let has = |(name, given)| stored.get(name).is_some_and(|stored| is_same(given, stored));
            given.len() == stored.len() && given.iter().all(has)
        }
        (Value::String(given), Value::String(stored)) => {
            let [given_at, stored_at] = [given, stored].map(|text| iso8601::timestamp(text).ok());
            given == stored
                || parse_id(given).is_some_and(|id| Some(id) == parse_id(stored))
                || given_at
                    .zip(stored_at)
                    .is_some_and(|(given, stored)| given == stored || given == stored.trunc_subsecs(3))
        }
        _ => given == stored,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::input::Reader;

    fn refused(given: Value) -> Vec<String> {
        let record = json!({
            "id": 1, "images": ["a"], "createdAt": "2026-01-02T03:04:05.123456+00:00", "error": null, "health": "healthy",
            "version": 7, "changedAt": "2026-01-03T03:04:05.123456+00:00",
        });
        let mut reader = Reader::default();
        let mut object = reader.object(given).unwrap();
        let echo = Echo::of(&mut object, false, |name| record.get(name).is_some());
        object.finish();
        let differing = echo.judge(&record.to_string()).unwrap();
        let all = reader.into_violations().into_iter().chain(differing);
        all.map(|violation| format!("{} {}", violation.property_path, violation.code)).collect()
    }

    #[test]
    fn equal_read_only_fields_are_ignored_and_different_ones_are_named() {
        let none: [&str; 0] = [];
        assert_eq!(
            refused(json!({"id": 1, "images": ["a"], "error": null, "version": 9, "changedAt": "x"})),
            none
        );
        for time in
            ["2026-01-02T03:04:05.123456Z", "2026-01-02T04:04:05.123456+01:00", "2026-01-02T03:04:05.123Z"]
        {
            assert_eq!(refused(json!({"createdAt": time})), none, "{time}");
        }
        assert_eq!(
            refused(
                json!({"id": 2, "images": [], "createdAt": "2026-01-02T03:04:05.124Z", "error": "x", "colour": 1})
            ),
            [
                "colour unknown_field",
                "createdAt read_only",
                "error read_only",
                "id read_only",
                "images read_only"
            ]
        );
    }

    #[test]
    fn an_earlier_version_of_the_record_and_stamps_are_taken() {
        let none: [&str; 0] = [];
        let earlier = [
            json!({"version": 6}),
            json!({"version": 0}),
            json!({"changedAt": "2026-01-03T03:04:05.122999Z"}),
            json!({"version": 6, "changedAt": "2026-01-03T03:04:05.123456Z"}),
        ];
        for seen in earlier {
            let with = |mut members: Value| {
                members.as_object_mut().unwrap().extend(seen.as_object().unwrap().clone());
                members
            };
            assert_eq!(refused(with(json!({"images": [], "error": "x", "health": "failing"}))), none);
            assert_eq!(
                refused(with(json!({"id": 2, "createdAt": "2026-01-02T03:04:06Z", "images": []}))),
                ["createdAt read_only", "id read_only"]
            );
        }
        let not_earlier = [
            json!({"version": 7}),
            json!({"version": 8, "changedAt": "2026-01-01T00:00:00Z"}),
            json!({"version": "6"}),
            json!({"changedAt": "2026-01-03T03:04:05.123Z"}),
            json!({"changedAt": "x"}),
        ];
        for mut given in not_earlier {
            (given["images"], given["health"]) = (json!([]), json!("failing"));
            assert_eq!(refused(given.clone()), ["images read_only"], "{given}");
        }
    }

    #[test]
    fn ids_in_capitals_and_times_are_the_stored_ones_however_deep_they_are() {
        let given =
            json!({"a": [{"id": "0192A1B2-7000-7000-8000-00000000000F", "at": "2026-01-02T04:04:05+0100"}]});
        let stored = json!({"a": [{"id": "0192a1b2-7000-7000-8000-00000000000f", "at": "2026-01-02T03:04:05.000000+00:00"}]});
        assert!(is_same(&given, &stored));
        assert!(!is_same(&json!({"a": []}), &stored) && !is_same(&json!({"a": "x"}), &stored));
        assert!(!is_same(&json!({"b": given["a"]}), &stored));
    }

    #[test]
    fn a_create_ignores_empty_read_only_fields() {
        let mut reader = Reader::default();
        let mut object =
            reader.object(json!({"services": [], "images": ["a"], "id": null, "colour": []})).unwrap();
        Echo::of(&mut object, true, |name| ["services", "images", "id"].contains(&name));
        object.finish();
        let codes = reader.into_violations().into_iter().map(|v| format!("{} {}", v.property_path, v.code));
        assert_eq!(codes.collect::<Vec<_>>(), ["id read_only", "images read_only", "colour unknown_field"]);
    }
}
