//! Events: what webhooks may listen to, and the body in which they hear of it (`docs/reference/webhooks.md#body`).

pub mod example;
pub(super) mod member;

use std::fmt::Write as _;

use bytes::Bytes;
use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

pub use crate::list::fields::event::{ALL, NAMES, RESTORED, SUBSCRIBABLE, TEST, TYPES};
use crate::record::shrunk;

pub use longshore_kernel::change::EventType;
use longshore_kernel::ids::{EventId, WebhookId};
use longshore_kernel::json::compact;

/// A body has fewer bytes than this.
pub const BODY_LIMIT: usize = 20_000;

/// E-shops that a body names.
const MOST_ESHOPS: usize = 100;

/// Members of `data` that a webhook is sent whatever it selects: by them a receiver knows the record, and what is newer.
const ALWAYS: &[&str] = &["id", "version", "changedFields", "productSku", "orderNumber", "externalId"];

/// An event as it is sent.
#[derive(Clone, Debug, Default)]
pub struct Event {
    /// Its id, which is the `webhook-id` of every delivery of it.
    pub id: EventId,
    /// Its type.
    pub kind: String,
    /// The record that changed; of a test, the webhook.
    pub entity: Uuid,
    /// Whether it is a [test](is_test): its body says so.
    pub is_test: bool,
    /// When it changed.
    pub at: DateTime<Utc>,
    /// JSON of the event.
    pub data: String,
    /// The e-shops that it concerns, where its body says so: that is for webhooks of the organisation.
    pub eshops: Option<Vec<Uuid>>,
    /// The request that caused it.
    pub request_id: Option<String>,
    /// The trace context to continue.
    pub traceparent: Option<String>,
}

/// Whether an event that a webhook is sent is a test of it: then it is about the webhook itself, as no other event is.
#[must_use]
pub fn is_test(webhook: WebhookId, entity: Uuid) -> bool {
    webhook.get() == entity
}

impl Event {
    /// The body of its deliveries: `{"id", "type", "timestamp", "data"}`, for a webhook of the organisation with `eshop` or `eshops`, for
    /// a test with `test`, for status events with `status` and `orderNumber`. Where it would reach [`BODY_LIMIT`], `data` shrinks to what the record is, its `version` and the
    /// names of the changed fields.
    #[must_use]
    pub fn body(&self) -> Bytes {
        let mut body = String::with_capacity(160 + self.data.len());
        self.write(&mut body);
        body.into()
    }

    /// Leaves out what a webhook is not told: the e-shops, unless it is one of the organisation, and what it did not select of `data`
    /// and of `data.fields`, if it selects. What is about the webhook itself stays whole.
    pub fn narrow(&mut self, of_organisation: bool, select: Option<&[String]>) {
        if !of_organisation {
            self.eshops = None;
        }
        let Some(select) = select else { return };
        if [RESTORED.name, TEST.name].contains(&self.kind.as_str()) {
            return;
        }
        let Ok(Value::Object(mut data)) = serde_json::from_str(&self.data) else { return };
        let is_selected = |name: &String| select.contains(name);
        data.retain(|name, _| ALWAYS.contains(&name.as_str()) || name == "fields" || is_selected(name));
        if let Some(Value::Object(fields)) = data.get_mut("fields") {
            fields.retain(|name, _| is_selected(name));
        }
        self.data = Value::from(data).to_string();
    }

    /// Writes its body with `webhookId`, by which receivers know it again.
    pub(super) fn write_with_id(&self, body: &mut String) {
        self.write(body);
        body.pop();
        let _ = write!(body, r#","webhookId":"{}"}}"#, self.id);
    }

    fn write(&self, body: &mut String) {
        let begin = body.len();
        let at = self.at.to_rfc3339_opts(SecondsFormat::Micros, false);
        // ids, names of types and timestamps need no escapes
        let _ = write!(body, r#"{{"id":"{}","type":"{}","timestamp":"{at}""#, self.record(), self.kind);
        if self.is_test {
            body.push_str(r#","test":true"#);
        }
        let known = TYPES.iter().find(|kind| kind.name == self.kind);
        if let Some(eshops) = &self.eshops {
            let _ = match known {
                Some(kind) if kind.shared => {
                    let some = &eshops[..eshops.len().min(MOST_ESHOPS)];
                    write!(body, r#","eshops":{}"#, json!(some))
                }
                _ => write!(body, r#","eshop":{}"#, json!(eshops.first())),
            };
        }
        if known.is_some_and(|kind| kind.status) {
            self.write_status(body);
        }
        body.push_str(r#","data":"#);
        let data = compact(&self.data);
        let written = body.len() - begin;
        if written + data.len() + 1 < BODY_LIMIT {
            body.push_str(&data);
        } else {
            // one byte closes the body
            let data = serde_json::from_str(&data).unwrap_or_default();
            let _ = write!(body, "{}", shrunk(&data, BODY_LIMIT - written - 1));
        }
        body.push('}');
    }

    /// The record that the body names. That of a test is in its data: it does not exist, unless it is the webhook.
    fn record(&self) -> Uuid {
        let named = || serde_json::from_str::<Value>(&self.data).ok()?.get("id")?.as_str()?.parse().ok();
        if self.is_test { named().unwrap_or(self.entity) } else { self.entity }
    }

    fn write_status(&self, body: &mut String) {
        let Ok(data) = serde_json::from_str::<Value>(&self.data) else { return };
        for name in ["status", "orderNumber"] {
            let value = data.get("fields").and_then(|f| f.get(name)).or_else(|| data.get(name));
            // a name or a number; what is longer is found in the data
            match value {
                Some(Value::String(text)) if text.len() > 1_000 => {}
                Some(value @ (Value::String(_) | Value::Number(_))) => {
                    let _ = write!(body, r#","{name}":{value}"#);
                }
                _ => {}
            }
        }
    }
}

/// The body of a batch: `{"type": "batch", "timestamp", "events"}`, whose timestamp is that of its last event.
#[must_use]
pub fn body_of_batch(events: &[Event]) -> Bytes {
    let at = events.last().map(|event| event.at).unwrap_or_default();
    let mut body =
        String::with_capacity(100 + events.iter().map(|event| event.data.len() + 240).sum::<usize>());
    let at = at.to_rfc3339_opts(SecondsFormat::Micros, false);
    let _ = write!(body, r#"{{"type":"batch","timestamp":"{at}","events":["#);
    for (index, event) in events.iter().enumerate() {
        if index > 0 {
            body.push(',');
        }
        event.write_with_id(&mut body);
    }
    body.push_str("]}");
    body.into()
}

#[cfg(test)]
mod tests {
    use longshore_kernel::ids::EshopId;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn event(kind: &str, data: &Value) -> Event {
        Event {
            id: Uuid::from_u128(7).into(),
            kind: kind.to_owned(),
            entity: Uuid::from_u128(0x0192_1111_2222_7333_8444_5555_6666_7777),
            at: DateTime::from_timestamp_micros(1_700_000_000_123_456).unwrap(),
            data: data.to_string(),
            ..Event::default()
        }
    }

    fn body(kind: &str, data: &Value) -> Value {
        let body = event(kind, data).body();
        assert!(body.len() < BODY_LIMIT);
        // Postgres writes white space
        let spaced = Event { data: format!("{data:#}"), ..event(kind, data) };
        assert_eq!(spaced.body(), body);
        serde_json::from_slice(&body).unwrap()
    }

    #[test]
    fn every_type_has_the_documented_form() {
        let data =
            json!({"id": "01921111-2222-7333-8444-555566667777", "status": "closed", "orderNumber": "A-1"});
        for kind in TYPES {
            let mut expected = json!({
                "id": "01921111-2222-7333-8444-555566667777",
                "type": kind.name,
                "timestamp": "2023-11-14T22:13:20.123456+00:00",
                "data": data,
            });
            if kind.status {
                expected["status"] = json!("closed");
                expected["orderNumber"] = json!("A-1");
            }
            assert_eq!(body(kind.name, &data), expected, "{}", kind.name);
        }
    }

    #[test]
    fn the_new_status_of_a_change_goes_before_an_identifying_one() {
        let data =
            json!({"id": "x", "status": "old", "changedFields": ["status"], "fields": {"status": "new"}});
        assert_eq!(body("stock_advice_status_change", &data)["status"], "new");
    }

    #[test]
    fn a_test_says_that_it_is_one_and_names_the_record_of_its_example() {
        for kind in TYPES {
            let webhook = WebhookId::from_u128(1);
            let data =
                example::data(kind.name, webhook, Some(EshopId::from_u128(2)), Uuid::from_u128(7).into());
            let test = Event { entity: webhook.get(), is_test: true, ..event(kind.name, &data) };
            let written: Value = serde_json::from_slice(&test.body()).unwrap();
            assert_eq!((&written["test"], &written["data"]), (&json!(true), &data), "{}", kind.name);
            assert_eq!(written["id"], data["id"], "{}", kind.name);
            assert_eq!(written.get("status").is_some(), kind.status, "{}", kind.name);
            assert_eq!(written.get("orderNumber").is_some(), kind.status, "{}", kind.name);
        }
    }

    #[test]
    fn every_type_can_be_subscribed_to_and_so_can_all() {
        let names: Vec<_> = TYPES.iter().map(|t| t.name).chain([ALL]).collect();
        assert_eq!(SUBSCRIBABLE, names);
    }

    #[test]
    fn large_data_shrinks_to_the_identity_the_version_and_the_changed_fields() {
        let data = json!({
            "id": "01921111-2222-7333-8444-555566667777", "productSku": "mug \"1\"", "version": 7, "more": "x".repeat(2_000), "parts": [1],
            "changedFields": ["name", "note"], "fields": {"note": "ü".repeat(10_000)},
        });
        let written = body("product_change", &data);
        assert_eq!(
            written["data"],
            json!({
                "id": "01921111-2222-7333-8444-555566667777", "productSku": "mug \"1\"", "version": 7,
                "changedFields": ["name", "note"],
            })
        );
        let small = json!({"id": "x", "changedFields": ["note"], "fields": {"note": "x".repeat(19_000)}});
        assert_eq!(body("product_change", &small)["data"], small);
    }

    proptest! {
        #[test]
        fn a_body_is_json_below_the_limit_whatever_the_data(
            names in proptest::collection::vec(".{0,300}", 0..120), note in ".{0,9000}", order in ".{0,3000}"
        ) {
            let data = json!({"id": "x", "orderNumber": order, "changedFields": names, "fields": {"note": note}});
            for kind in ["product_change", "expedition_status_change"] {
                let body = event(kind, &data).body();
                prop_assert!(body.len() < BODY_LIMIT);
                let written: Value = serde_json::from_slice(&body).unwrap();
                prop_assert!(written["data"]["changedFields"].is_array());
            }
        }
    }
}
