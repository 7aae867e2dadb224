//! Operations on orders that their warehouse may have since a set-back (`docs/reference/orders.md#after-a-set-back`).

use http::Method;
use longshore_domain::expedition::handover::doubt;
use longshore_kernel::access::Role;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{STATUSES, World, must_be_wrong_status};
use crate::console::Browser;
use crate::product::MIGRATIONS;

/// The floor where nothing was handed over before.
const FLOOR: u64 = 1_000_000;

impl World {
    /// Switches the setting of the wms on or off.
    async fn set_active(&self, is_active: bool) {
        let admin = self.api.tenant.token(&self.api.services, Role::Admin).await.unwrap();
        let setting = format!("/api/partner-integration/wms-setting/{}", self.api.tenant.wms);
        let body = json!({"baseUrl": "http://127.0.0.1:9/wms", "active": is_active});
        self.api.post(&admin, &setting, body).await.expect(200);
    }

    /// Puts every order in doubt that there is.
    async fn doubt(&self) -> doubt::Begun {
        let long_ago = self.api.services.clock.now() - chrono::Duration::days(1);
        let mut connection = self.owner.acquire().await.unwrap();
        sqlx::query("INSERT INTO set_back (epoch, reason, since) VALUES (2, 'a test', $1)")
            .bind(long_ago)
            .execute(&mut *connection)
            .await
            .unwrap();
        doubt::begin(&mut connection, long_ago, false).await.unwrap()
    }

    /// What the record of an order says of its hand-over.
    async fn handover(&self, order: &Value) -> Value {
        self.read(order).await["handover"].clone()
    }
}

/// Whether an operation is answered by asking the warehouse, and what the order is then.
#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_warehouse_is_asked_before_an_order_in_doubt_is_held_cancelled_or_sent(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let operations = ["rollback", "cancel", "send"];
    let mut orders = Vec::new();
    for status in STATUSES {
        for operation in operations {
            orders.push((status, operation, world.at(status, &format!("{status}-{operation}")).await));
        }
    }
    world.set_active(true).await;
    let begun = world.doubt().await;
    assert_eq!(u64::try_from(begun.floor).unwrap(), FLOOR);
    // all that is not packed; what is canceled, or is to be, is asked for at once
    assert_eq!((begun.in_doubt, begun.asked), (30, 6));
    for (status, operation, order) in orders {
        let answer = world.act(&order, operation, Value::Null).await;
        let (expected, becomes) = match (status, operation) {
            ("on_hold", "send") => (202, "awaiting_processing"),
            (
                "on_hold"
                | "awaiting_reservation"
                | "waiting_for_goods"
                | "stock_ok"
                | "awaiting_processing"
                | "incorrect",
                "rollback" | "cancel",
            )
            | ("canceled" | "waiting_for_cancel", "cancel") => (202, status),
            ("take_out" | "completion", "cancel") => (202, "waiting_for_cancel"),
            ("canceled" | "waiting_for_cancel", "rollback" | "send")
                if operation == "rollback" || status == "canceled" =>
            {
                (409, status)
            }
            // of incorrect ones, too: still without a carrier
            (_, "send") => (200, status),
            (_, _) => (409, status),
        };
        let answer = answer.expect(expected).json();
        if expected == 409 {
            assert_eq!(answer["code"], "wrong_status", "{status} {operation}");
        }
        let record = world.read(&order).await;
        assert_eq!(record["status"], becomes, "{status} {operation}");
        if expected == 202 {
            let handover = &record["handover"];
            assert_eq!(
                (&handover["state"], &handover["number"], &handover["inDoubt"], &handover["contentsUnknown"]),
                (&json!("withdrawing"), &json!(FLOOR), &json!(true), &json!(false)),
                "{status} {operation}"
            );
        }
    }
    world.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_in_doubt_is_not_deleted_and_lists_find_it(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (order, other) = (world.at("on_hold", "A-1").await, world.at("delivered", "A-2").await);
    world.set_active(true).await;
    world.doubt().await;
    let listed = async |criteria: Value| {
        let body = json!({"criteria": criteria});
        let found = world.api.post(&world.api.user, "/api/expedition/list", body).await.expect(200).json();
        found["results"].as_array().unwrap().iter().map(|order| order["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(world.handover(&order).await, Value::Null);
    assert_eq!(listed(json!({"handover.inDoubt": {"eq": true}})).await, [order["id"].clone()]);
    let refused = world.on(Method::DELETE, &order, "", Value::Null).await;
    must_be_wrong_status(refused, "on_hold");
    world.act(&order, "cancel", Value::Null).await.expect(202);
    // its page says why the warehouse is not called, until somebody has mended that
    let (browser, path) = (
        Browser::new(&world.api, &world.api.user),
        format!("/console/order/{}", order["id"].as_str().unwrap()),
    );
    for is_mended in [false, true] {
        let page = browser.open(&path).await.expect(200).text;
        assert_eq!(page.contains("until longshore-api restored has run"), !is_mended, "{page}");
        world.execute("UPDATE set_back SET mended_at = now()").await;
    }
    must_be_wrong_status(world.on(Method::DELETE, &order, "", Value::Null).await, "on_hold");
    world.report(&order, json!({"cancel": "refused", "force": true})).await.expect(200);
    assert_eq!(world.handover(&order).await["contentsUnknown"], true);
    assert_eq!(listed(json!({"handover.contentsUnknown": {"eq": true}})).await, [order["id"].clone()]);
    assert_eq!(world.handover(&other).await, Value::Null);
    world.act(&order, "cancel", Value::Null).await.expect(202);
    world.report(&order, json!({"cancel": "accepted", "force": true})).await.expect(200);
    assert_eq!(world.read(&order).await["status"], "canceled");
    // a warehouse has reported on it
    must_be_wrong_status(world.on(Method::DELETE, &order, "", Value::Null).await, "canceled");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_stays_unclear_of_an_order_is_a_line_in_the_attention(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let (kept, unasked) = (world.at("on_hold", "A-1").await, world.at("on_hold", "A-2").await);
    world.set_active(true).await;
    world.doubt().await;
    let lines = async || {
        let all = world.api.get(&world.api.superadmin, "/api/attention").await.expect(200).json();
        let lines = all["lines"].as_array().cloned().unwrap_or_default();
        let lines = lines.iter().filter(|line| line["kind"] == "doubtful_orders");
        lines.map(|line| line["sentence"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(lines().await, [""; 0]);
    for order in [&kept, &unasked] {
        world.act(order, "cancel", Value::Null).await.expect(202);
    }
    assert_eq!(lines().await, [""; 0], "the warehouse is asked");
    world.report(&kept, json!({"cancel": "refused", "force": true})).await.expect(200);
    let [line] = lines().await.try_into().unwrap();
    assert!(
        line.contains("keeps 1 order that may have other items") && line.ends_with("The last is A-1."),
        "{line}"
    );
    world.set_active(false).await;
    let [line] = lines().await.try_into().unwrap();
    assert!(line.contains("nobody is asked for 1 order"), "{line}");
}
