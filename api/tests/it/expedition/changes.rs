//! `expedition_change`: what changed beside the status (`docs/reference/orders.md#events`).

use http::Method;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{MIGRATIONS, World};
use crate::support::strangers;

impl World {
    /// The type and data of each event of an order since that many, in their order.
    async fn events(&self, order: &Value, since: i64) -> Vec<(String, Value)> {
        sqlx::query_as("SELECT type, data FROM event WHERE entity_id = $1::uuid ORDER BY id OFFSET $2")
            .bind(order["id"].as_str().unwrap())
            .bind(since)
            .fetch_all(&self.owner)
            .await
            .unwrap()
    }
}

fn names(data: &Value) -> Vec<&str> {
    let mut names: Vec<_> =
        data["changedFields"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    names.sort_unstable();
    names
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_deletion_is_told_with_a_version_above_all_others(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.webhook(world.api.tenant.eshop.get(), "expedition_deleted").await;
    let order = world.made(world.order("1", &world.mug)).await;
    let before = world.act(&order, "", json!({"externalId": "E-1"})).await.expect(200).json();
    let path = format!("/api/expedition/{}", order["id"].as_str().unwrap());
    world.api.delete(&world.api.user, &path).await.expect(204);
    world.api.get(&world.api.user, &path).await.expect(410);
    let expected = json!({
        "id": order["id"], "organisation": order["organisation"], "eshop": order["eshop"], "orderNumber": "1", "externalId": "E-1",
        "version": before["version"].as_i64().unwrap() + 1,
    });
    assert_eq!(world.events(&order, 0).await, [("expedition_deleted".to_owned(), expected)]);
    let later = "SELECT count(*) FROM event e JOIN audit a USING (id)
                 WHERE e.at > (SELECT max(at) FROM audit WHERE entity_id = e.entity_id AND id <> a.id)";
    assert_eq!(world.count(later).await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_body_that_changes_an_order_is_told_as_the_record_shows_it_and_nothing_personal(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.webhook(world.api.tenant.eshop.get(), "*").await;
    let order = world.made(world.order("1", &world.mug)).await;
    let put = json!({
        "billingStreet": "hush-1", "note": "hush-2", "value": "12.50", "eshopOrderDate": "2026-05-31T10:00:00.5+02:00",
        "items": [{"product": world.mug, "quantity": 3}], "priority": 7, "externalId": "E-1",
    });
    let after = world.act(&order, "", put.clone()).await.expect(200).json();
    let events = world.events(&order, 1).await;
    let [(kind, data)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(kind, "expedition_change");
    let expected = [
        "billingStreet",
        "deliveryStreet",
        "eshopOrderDate",
        "externalId",
        "items",
        "note",
        "priority",
        "sumOfQuantity",
        "value",
    ];
    assert_eq!(names(data), expected);
    let fields = data["fields"].as_object().unwrap();
    let shown: Vec<_> = fields.keys().map(String::as_str).collect();
    assert_eq!(shown, ["eshopOrderDate", "externalId", "items", "priority", "sumOfQuantity", "value"]);
    for name in ["eshopOrderDate", "externalId", "priority", "sumOfQuantity", "value"] {
        assert_eq!(fields[name], after[name], "{name}");
    }
    assert_eq!(fields["items"][0]["id"], after["items"][0]["id"]);
    assert_eq!(
        (&data["version"], &data["externalId"], &data["status"], &data["orderNumber"]),
        (&after["version"], &json!("E-1"), &json!("on_hold"), &json!("1"))
    );
    let hushed = "SELECT count(*) FROM event WHERE data::text LIKE '%hush-%'";
    assert_eq!(world.count(hushed).await, 0);
    // the same again changes nothing, and has no event
    world.act(&order, "", put).await.expect(200);
    assert_eq!(world.events(&order, 2).await, []);
    // references, in any status
    world.act(&order, "send", Value::Null).await.expect(200);
    let before = i64::try_from(world.events(&order, 0).await.len()).unwrap();
    let patched = world.on(Method::PATCH, &order, "", json!({"ref1": "R"})).await.expect(200).json();
    let events = world.events(&order, before).await;
    let [(kind, data)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((kind.as_str(), &data["fields"]), ("expedition_change", &json!({"ref1": "R"})));
    assert_eq!((&data["version"], &data["status"]), (&patched["version"], &json!("awaiting_processing")));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn late_parcels_are_told_all_together_and_a_change_of_the_status_is_told_as_that_alone(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.webhook(world.api.tenant.eshop.get(), "*").await;
    let order = world.at("awaiting_processing", "1").await;
    let report = |number: &str| json!({"status": "waiting_for_the_carrier", "parcels": [{"extPackageNumber": number, "extPackageTrackingNumber": "Z"}]});
    let before = i64::try_from(world.events(&order, 0).await.len()).unwrap();
    world.report(&order, report("1")).await.expect(200);
    let events = world.events(&order, before).await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0].0, "expedition_status_change");
    let after = world.report(&order, report("2")).await.expect(200).json();
    let events = world.events(&order, before + 1).await;
    let [(kind, data)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((kind.as_str(), names(data)), ("expedition_change", vec!["parcels"]));
    let events: Vec<_> =
        data["fields"]["parcels"].as_array().unwrap().iter().map(|p| p["extPackageNumber"].clone()).collect();
    assert_eq!(events, [json!("1"), json!("2")]);
    assert_eq!(data["version"], after["version"]);
    // an earlier moment is a change, too, and has the form of the record
    let at = json!({"status": "waiting_for_the_carrier", "at": "2026-01-01T00:00:00Z"});
    let after = world.report(&order, at).await.expect(200).json();
    let events = world.events(&order, before + 2).await;
    assert_eq!(events[0].1["fields"], json!({"packedAt": after["packedAt"]}));
    let audited = sqlx::query_scalar::<_, Value>(
        "SELECT changes -> 'packedAt' -> 1 FROM audit WHERE entity_id = $1 ORDER BY id DESC LIMIT 1",
    );
    let id: Uuid = order["id"].as_str().unwrap().parse().unwrap();
    assert_eq!(audited.bind(id).fetch_one(&world.api.services.db.main).await.unwrap(), after["packedAt"]);
    // nothing new, no event
    world.report(&order, report("2")).await.expect(200);
    assert_eq!(world.events(&order, before + 3).await, []);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_operation_that_changes_an_order_and_not_its_status_is_told(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.webhook(world.api.tenant.eshop.get(), "*").await;
    // sent again, it is incorrect for another reason
    let order = world.at("incorrect", "1").await;
    let nowhere = json!({"carrier": world.carrier, "billingCity": null});
    world.act(&order, "", nowhere).await.expect(200);
    let before = i64::try_from(world.events(&order, 0).await.len()).unwrap();
    let after = world.act(&order, "send", Value::Null).await.expect(200).json();
    assert_eq!(after["errors"][0]["propertyPath"], "deliveryCity");
    let events = world.events(&order, before).await;
    let [(kind, data)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((kind.as_str(), &data["fields"]), ("expedition_change", &json!({"errors": after["errors"]})));
    assert_eq!((&data["version"], &data["status"]), (&after["version"], &json!("incorrect")));
    // incorrect for the same reason: nothing changes
    world.act(&order, "send", Value::Null).await.expect(200);
    assert_eq!(world.events(&order, before + 1).await, []);

    // an order that waits for its turn is passed over, and no longer
    let order = world.at("awaiting_reservation", "2").await;
    let blocked = "UPDATE product_stock SET marked_at = now() WHERE held > 0 OR quantity > 0";
    for (operation, is_paused) in [("rebook", false), ("unbook", true)] {
        world.execute(blocked).await;
        let before = i64::try_from(world.events(&order, 0).await.len()).unwrap();
        let after = world.on(Method::PATCH, &order, operation, Value::Null).await.expect(200).json();
        assert_eq!(
            (&after["status"], &after["reservationPaused"]),
            (&json!("awaiting_reservation"), &json!(is_paused))
        );
        let events = world.events(&order, before).await;
        let [(kind, data)] = &events[..] else { panic!("{events:?}") };
        assert_eq!(
            (kind.as_str(), &data["fields"]),
            ("expedition_change", &json!({"reservationPaused": is_paused}))
        );
        assert_eq!(data["version"], after["version"]);
    }
}

/// Fields of the record that no event names: the version and its moments, what is derived, and what the hand-over says.
const NEVER_TOLD: [&str; 7] =
    ["version", "changedAt", "modifiedAt", "statusSince", "audits", "waitsFor", "handover"];

/// Members of an item that events have.
const OF_ITEM: [&str; 7] = ["id", "product", "productSku", "quantity", "booked", "missing", "expedited"];

/// A value of a record as events show it.
fn as_told(name: &str, value: &Value) -> Value {
    let members: &[&str] = match name {
        "items" => &OF_ITEM,
        "parcels" => {
            &["extPackageNumber", "extPackageTrackingNumber", "extCarrierTrackingNumber", "trackingUrl"]
        }
        _ => return value.clone(),
    };
    let of = |element: &Value| -> Value {
        members
            .iter()
            .map(|member| ((*member).to_owned(), element[*member].clone()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    value.as_array().into_iter().flatten().map(of).collect()
}

/// An e-shop's copy of an order, by the rules of the quick start: the highest version of each field, from events, and from the record
/// where an event names a field that it does not have.
#[derive(Default)]
struct Copied {
    fields: std::collections::BTreeMap<String, (i64, Value)>,
}

impl Copied {
    fn take(&mut self, version: i64, name: &str, value: Value) {
        let known = self.fields.entry(name.to_owned()).or_insert((-1, Value::Null));
        if known.0 < version {
            *known = (version, value);
        }
    }

    fn take_record(&mut self, record: &Value) {
        for (name, value) in record.as_object().unwrap() {
            self.take(record["version"].as_i64().unwrap(), name, as_told(name, value));
        }
    }

    fn must_be(&self, record: &Value, after: &str) {
        for (name, value) in record.as_object().unwrap() {
            if NEVER_TOLD.contains(&name.as_str()) {
                continue;
            }
            let (_, copied) = &self.fields[name];
            let (mut copied, mut shown) = (copied.clone(), as_told(name, value));
            // what left is told with the packing; until then it is null
            for item in copied.as_array_mut().into_iter().chain(shown.as_array_mut()).flatten() {
                if let Some(item) = item.as_object_mut().filter(|_| name == "items") {
                    item.retain(|member, value| member != "expedited" || !value.is_null());
                }
            }
            assert_eq!(copied, shown, "{name} after {after}");
        }
    }
}

/// A method and an operation, and its body.
type Step = (&'static str, Value);

#[tokio::test]
async fn a_copy_that_is_kept_by_the_rules_is_the_record_after_each_operation() {
    let world = World::new(&strangers().await).await;
    world.webhook(world.api.tenant.eshop.get(), "*").await;
    let parcels = json!([{"extPackageNumber": "1", "extPackageTrackingNumber": "T1"}]);
    let three = json!({"items": [{"product": world.mug, "quantity": 3}]});
    let none_there = json!({"items": [{"product": world.lamp, "quantity": 2}]});
    let scenarios: [(&str, Value, Vec<Step>); 7] = [
        (
            "packed in part",
            three.clone(),
            vec![
                ("PUT ", json!({"billingStreet": "Quay 1", "note": "n", "priority": 7})),
                ("PUT ", json!({"items": [{"product": world.mug, "quantity": 4}]})),
                ("PUT send", Value::Null),
                ("PUT status", json!({"status": "take_out"})),
                (
                    "PUT status",
                    json!({"status": "waiting_for_the_carrier", "items": "one left", "parcels": parcels}),
                ),
                ("PUT status", json!({"status": "carrier_picked_up"})),
                ("PUT status", json!({"status": "delivered"})),
                ("PATCH ", json!({"ref1": "R"})),
            ],
        ),
        (
            "delivered at once",
            three.clone(),
            vec![("PUT send", Value::Null), ("PUT status", json!({"status": "delivered"}))],
        ),
        (
            "waits, is passed over, and is held",
            none_there,
            vec![
                ("PUT send", Value::Null),
                ("PATCH unbook", Value::Null),
                ("PATCH rebook", Value::Null),
                ("PUT rollback", Value::Null),
                ("PUT ", json!({"ref2": "R"})),
                ("PUT send", Value::Null),
                ("PUT cancel", Value::Null),
            ],
        ),
        (
            "booked and given back",
            json!({"waitBeforeProcessing": true}),
            vec![
                ("PUT send", Value::Null),
                ("PATCH unbook", Value::Null),
                ("PATCH rebook", Value::Null),
                ("PUT process", Value::Null),
                ("PUT rollback", Value::Null),
                ("PUT cancel", Value::Null),
            ],
        ),
        (
            "incorrect, and mended",
            json!({"carrier": null}),
            vec![
                ("PUT send", Value::Null),
                (
                    "PUT ",
                    json!({"carrier": world.carrier, "note": "n", "items": [{"product": world.mug, "quantity": 2}]}),
                ),
                ("PUT send", Value::Null),
                ("PUT cancel", Value::Null),
            ],
        ),
        (
            "refused by the warehouse",
            three.clone(),
            vec![
                ("PUT send", Value::Null),
                ("PUT status", json!({"status": "incorrect", "errors": [{"message": "no such street"}]})),
                ("PUT ", json!({"ref3": "R"})),
                ("PUT send", Value::Null),
            ],
        ),
        (
            "asked back",
            three,
            vec![
                ("PUT send", Value::Null),
                ("PUT status", json!({"status": "take_out"})),
                ("PUT cancel", Value::Null),
                ("PUT status", json!({"status": "completion"})),
            ],
        ),
    ];
    for (number, (scenario, members, steps)) in scenarios.into_iter().enumerate() {
        let order = world.made(world.order_with(&number.to_string(), &members)).await;
        let mut copied = Copied::default();
        // the first event says the status only
        copied.take_record(&world.read(&order).await);
        let mut seen = i64::try_from(world.events(&order, 0).await.len()).unwrap();
        for (step, body) in steps {
            let (method, operation) = step.split_once(' ').unwrap();
            let mut body = body;
            if body["items"] == "one left" {
                body["items"] = json!([{"id": world.read(&order).await["items"][0]["id"], "expedited": 1}]);
            }
            let reply = world.on(method.parse().unwrap(), &order, operation, body).await;
            assert!(reply.status.is_success(), "{scenario}, {step}: {}", reply.text);
            world.allocate().await;
            let record = world.read(&order).await;
            let events = world.events(&order, seen).await;
            seen += i64::try_from(events.len()).unwrap();
            for (_, data) in &events {
                let (version, fields) =
                    (data["version"].as_i64().unwrap(), data["fields"].as_object().unwrap());
                for (name, value) in fields {
                    copied.take(version, name, as_told(name, value));
                }
                if names(data).into_iter().any(|name| !fields.contains_key(name)) {
                    copied.take_record(&record);
                }
            }
            copied.must_be(&record, &format!("{step} ({scenario}): {events:#?}"));
        }
    }
}
