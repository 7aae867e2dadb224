//! Every operation in every status (`docs/reference/orders.md#operations`, `#statuses`).

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{MIGRATIONS, STATUSES, World, must_be_wrong_status, path};
use crate::support::strangers;

/// What comes of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// 200, and nothing changes.
    Same,
    /// 200, and the record changes; its status is that one.
    Is(&'static str),
    /// 202, and the record changes: the warehouse is asked.
    Asked,
    /// 204: the order is gone.
    Gone,
    /// `wrong_status`: 400 for a body that changes the order, else 409.
    Refused,
}

use Expected::{Asked, Gone, Is, Refused, Same};

const LINE: [&str; 7] = [
    "awaiting_processing",
    "take_out",
    "completion",
    "waiting_for_the_carrier",
    "carrier_picked_up",
    "ready_to_takeover",
    "delivered",
];

fn place(status: &str) -> Option<usize> {
    // without news, it is at the pickup place as far as is known
    let status = if status == "probably_delivered" { "ready_to_takeover" } else { status };
    LINE.iter().position(|known| *known == status)
}

/// An operation: its name, its request, and what comes of it in a status.
struct Operation {
    name: &'static str,
    method: Method,
    path: &'static str,
    body: Value,
    expected: Box<dyn Fn(&'static str) -> Expected>,
}

fn operations() -> Vec<Operation> {
    fn operation(
        name: &'static str,
        method: Method,
        path: &'static str,
        body: Value,
        expected: impl Fn(&'static str) -> Expected + 'static,
    ) -> Operation {
        Operation { name, method, path, body, expected: Box::new(expected) }
    }
    const BOOKABLE: [&str; 3] = ["awaiting_reservation", "waiting_for_goods", "stock_ok"];
    let rebooked = |status| match status {
        "awaiting_reservation" => Is("stock_ok"),
        "waiting_for_goods" | "stock_ok" => Same,
        _ => Refused,
    };
    let mut operations =
        vec![
            operation("update", Method::PUT, "", json!({"fragile": true}), |status| match status {
                "on_hold" | "incorrect" => Is(status),
                _ => Refused,
            }),
            // no booking depends on it
            operation("update the note", Method::PUT, "", json!({"note": "by the gate"}), |status| {
                match status {
                    "on_hold" | "incorrect" | "awaiting_processing" => Is(status),
                    _ if BOOKABLE.contains(&status) => Is(status),
                    _ => Refused,
                }
            }),
            operation("patch", Method::PATCH, "", json!({"ref1": "R", "externalId": null}), Is),
            operation("delete", Method::DELETE, "", Value::Null, |status| match status {
                "on_hold" | "incorrect" | "canceled" => Gone,
                _ => Refused,
            }),
            operation("send", Method::PUT, "send", Value::Null, |status| match status {
                "on_hold" => Is("awaiting_processing"),
                "canceled" => Refused,
                _ => Same,
            }),
            operation("send and rebook", Method::PUT, "send", json!({"rebook": true}), move |status| {
                match status {
                    "on_hold" => Is("awaiting_processing"),
                    "incorrect" => Same,
                    _ => rebooked(status),
                }
            }),
            operation("process", Method::PUT, "process", Value::Null, |status| match status {
                "stock_ok" => Is("awaiting_processing"),
                _ if place(status).is_some() => Same,
                _ => Refused,
            }),
            operation("rollback", Method::PUT, "rollback", Value::Null, |status| match status {
                "on_hold" => Same,
                "canceled" | "waiting_for_cancel" => Refused,
                _ if place(status) > Some(0) => Refused,
                _ => Is("on_hold"),
            }),
            operation("cancel", Method::PUT, "cancel", Value::Null, |status| match status {
                "canceled" | "waiting_for_cancel" => Same,
                "take_out" | "completion" => Asked,
                _ if place(status) > Some(0) => Refused,
                _ => Is("canceled"),
            }),
            operation("cancel with a reason", Method::PUT, "cancel", json!({"reason": "late"}), |status| {
                match status {
                    "canceled" | "waiting_for_cancel" => Same,
                    "take_out" | "completion" => Asked,
                    _ if place(status) > Some(0) => Refused,
                    _ => Is("canceled"),
                }
            }),
            operation("rebook", Method::PATCH, "rebook", Value::Null, rebooked),
            operation("unbook", Method::PATCH, "unbook", Value::Null, |status| match status {
                "awaiting_reservation" => Same,
                _ if BOOKABLE.contains(&status) => Is("awaiting_reservation"),
                _ => Refused,
            }),
            operation(
                "report incorrect",
                Method::PUT,
                "status",
                json!({"status": "incorrect", "errors": [{"message": "is broken"}]}),
                |status| match status {
                    "awaiting_processing"
                    | "take_out"
                    | "completion"
                    | "waiting_for_cancel"
                    | "incorrect" => Is("incorrect"),
                    _ => Refused,
                },
            ),
        ];
    for reported in &LINE[1..] {
        operations.push(operation(
            "report",
            Method::PUT,
            "status",
            json!({"status": reported}),
            move |status| {
                // while a cancel waits, what is picked and packed is remembered
                let from = if status == "waiting_for_cancel" { place("take_out") } else { place(status) };
                match from {
                    Some(1) if status == "waiting_for_cancel" && place(reported) <= place("completion") => {
                        Same
                    }
                    Some(from) if from < place(reported).unwrap() => Is(reported),
                    Some(_) if status == *reported => Same,
                    Some(from) if from == place(reported).unwrap() => Is(reported),
                    _ => Refused,
                }
            },
        ));
    }
    operations
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn each_operation_does_in_each_status_what_the_reference_says(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let allowed: BTreeSet<(String, String)> =
        sqlx::query_as("SELECT from_status, to_status FROM expedition_transition")
            .fetch_all(&world.owner)
            .await
            .unwrap()
            .into_iter()
            .collect();
    let mut number = 0;
    for operation in operations() {
        for status in STATUSES {
            number += 1;
            let case = format!("{} {} of {status}", operation.name, operation.body);
            println!("{case}");
            let before = world.at(status, &number.to_string()).await;
            let body = operation.body.clone();
            let reply = world.on(operation.method.clone(), &before, operation.path, body).await;
            let expected = (operation.expected)(status);
            if expected == Gone {
                assert!(reply.expect(204).text.is_empty());
                world.api.get(&world.api.user, &path(&before, "")).await.expect(410);
                continue;
            }
            let after = world.read(&before).await;
            if after["status"] == "awaiting_reservation" || after["status"] == "waiting_for_goods" {
                // so that no order waits for what a later case gives back
                world.act(&after, "cancel", Value::Null).await.expect(200);
            }
            match expected {
                Refused => {
                    if operation.name.starts_with("update") {
                        assert_eq!(reply.expect(400).violations(), ["status wrong_status"], "{case}");
                    } else {
                        must_be_wrong_status(reply, status);
                    }
                    assert_eq!(after, before, "{case}");
                }
                Same => {
                    let is_asked = operation.path == "cancel" && status == "waiting_for_cancel";
                    let reply = reply.expect(if is_asked { 202 } else { 200 });
                    assert_eq!(reply.header("location"), Some(path(&before, "").as_str()));
                    assert_eq!((reply.json(), &after), (before.clone(), &before), "{case}");
                }
                Is(_) | Asked => {
                    let (status, answer) = match expected {
                        Is(status) => (status, 200),
                        _ => ("waiting_for_cancel", 202),
                    };
                    let reply = reply.expect(answer);
                    assert_eq!(reply.json(), after, "{case}");
                    assert_eq!(after["status"], status, "{case}");
                    assert_eq!(after["version"], before["version"].as_i64().unwrap() + 1, "{case}");
                    assert_eq!(reply.header("etag"), Some(format!("\"{}\"", after["version"]).as_str()));
                    let (from, to) = (&before["status"], &after["status"]);
                    let pair = (from.as_str().unwrap().to_owned(), to.as_str().unwrap().to_owned());
                    assert!(from == to || allowed.contains(&pair), "{pair:?}");
                    let statuses = after["audits"].as_array().unwrap().len();
                    let was = before["audits"].as_array().unwrap().len();
                    assert_eq!(statuses - was, usize::from(from != to), "{case}");
                }
                Gone => unreachable!("looked at above"),
            }
        }
    }
    world.must_hold().await;
    assert_eq!(world.contradictions().await, 0);
}

#[tokio::test]
async fn operations_on_a_deleted_order_are_410_and_on_an_unknown_one_404() {
    let world = World::new(&strangers().await).await;
    let order = world.at("on_hold", "1").await;
    world.on(Method::DELETE, &order, "", Value::Null).await.expect(204);
    let unknown = json!({"id": uuid::Uuid::nil()});
    for operation in operations() {
        for (order, status, code) in [(&order, 410, "gone"), (&unknown, 404, "not_found")] {
            let body = operation.body.clone();
            let reply = world.on(operation.method.clone(), order, operation.path, body).await.expect(status);
            assert_eq!(reply.json()["code"], code, "{}", operation.name);
        }
    }
    // both of its names are free again
    let again = world.made(world.order_with("1", &json!({"externalId": "E"}))).await;
    world.on(Method::DELETE, &again, "", Value::Null).await.expect(204);
    world.made(world.order_with("1", &json!({"externalId": "E"}))).await;
}

#[tokio::test]
async fn an_operation_starts_from_the_version_that_its_caller_requires() {
    let world = World::new(&strangers().await).await;
    let operate = async |order: &Value, method: Method, operation: &str, tag: &str| {
        let headers = [("if-match", tag)];
        world.api.call_with(&world.api.user, method, &path(order, operation), Value::Null, &headers).await
    };
    for (number, (method, operation, status)) in [
        (Method::PUT, "send", "on_hold"),
        (Method::PUT, "process", "stock_ok"),
        (Method::PUT, "rollback", "stock_ok"),
        (Method::PUT, "cancel", "stock_ok"),
        (Method::PATCH, "rebook", "stock_ok"),
        (Method::PATCH, "unbook", "stock_ok"),
    ]
    .into_iter()
    .enumerate()
    {
        let order = world.at(status, &number.to_string()).await;
        let version = order["version"].as_i64().unwrap();
        for stale in [format!("\"{}\"", version + 1), "\"x\"".to_owned()] {
            let refused = operate(&order, method.clone(), operation, &stale).await.expect(412);
            assert_eq!(refused.json()["code"], "precondition_failed", "{operation}");
            assert_eq!(world.read(&order).await, order, "{operation}");
        }
        operate(&order, method, operation, &format!("\"{version}\"")).await.expect(200);
    }
    world.must_hold().await;
}

#[tokio::test]
async fn an_order_that_a_warehouse_had_is_kept() {
    let world = World::new(&strangers().await).await;
    let order = world.at("awaiting_processing", "1").await;
    let torn = json!({"status": "incorrect", "errors": [{"message": "torn"}]});
    for body in [json!({"status": "take_out"}), torn] {
        world.on(Method::PUT, &order, "status", body).await.expect(200);
    }
    for operation in ["", "rollback", ""] {
        let method = if operation.is_empty() { Method::DELETE } else { Method::PUT };
        let status = if operation.is_empty() { 409 } else { 200 };
        world.on(method, &order, operation, Value::Null).await.expect(status);
    }
}

#[tokio::test]
async fn a_body_may_be_absent_and_needs_no_content_type() {
    let world = World::new(&strangers().await).await;
    for (number, operation) in ["send", "cancel"].into_iter().enumerate() {
        for (case, (body, kind)) in
            [("", None), ("", Some("text/plain")), ("{}", Some("application/json"))].into_iter().enumerate()
        {
            let order = world.at("on_hold", &format!("{number}-{case}")).await;
            let mut request = http::Request::builder()
                .method(Method::PUT)
                .uri(path(&order, operation))
                .header("authorization", format!("Bearer {}", world.api.user));
            if let Some(kind) = kind {
                request = request.header("content-type", kind);
            }
            let request = request.body(axum::body::Body::from(body)).unwrap();
            world.api.send(request).await.expect(200);
        }
    }
    let order = world.at("on_hold", "x").await;
    for (operation, body, violation) in [
        ("send", json!({"rebook": "yes"}), "rebook wrong_type"),
        ("send", json!({"colour": 1}), "colour unknown_field"),
        ("send", json!([]), " wrong_type"),
        ("cancel", json!({"reason": 1}), "reason wrong_type"),
        ("cancel", json!({"reason": "x".repeat(256)}), "reason invalid_length"),
    ] {
        let reply = world.act(&order, operation, body).await.expect(400);
        assert_eq!(reply.violations(), [violation]);
    }
    assert_eq!(world.read(&order).await, order);
}

#[tokio::test]
async fn if_match_guards_changes_and_the_tag_is_the_version() {
    let world = World::new(&strangers().await).await;
    let order = world.at("on_hold", "1").await;
    let booked = world.at("awaiting_processing", "2").await;
    let api = &world.api;
    for (order, method, operation, body) in [
        (&order, Method::PUT, "", json!({"note": "n"})),
        (&order, Method::PATCH, "", json!({"ref2": "n"})),
        (&booked, Method::PUT, "status", json!({"status": "take_out"})),
        (&order, Method::DELETE, "", Value::Null),
    ] {
        let target = path(order, operation);
        let old = [("if-match", "\"99\"")];
        let reply = api.call_with(&api.superadmin, method.clone(), &target, body.clone(), &old).await;
        assert_eq!(reply.expect(412).json()["code"], "precondition_failed");
        let tag = api.get(&api.user, &path(order, "")).await.header("etag").unwrap().to_owned();
        let fresh = [("if-match", tag.as_str())];
        let reply = api.call_with(&api.superadmin, method, &target, body, &fresh).await;
        assert!(reply.status.is_success(), "{}", reply.text);
    }
}
