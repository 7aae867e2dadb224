//! Orders in the console.

mod attention;
mod edit;
mod list;
mod lost;
mod page;
mod reports;

use longshore_kernel::access::Role;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{Browser, MIGRATIONS, audited, world};
use crate::product::World;

/// Fields of a form.
type Fields = &'static [(&'static str, &'static str)];

/// A carrier that is attached to the tenant, and a product with stock.
struct Yard {
    world: World,
    carrier: String,
    product: String,
}

impl Yard {
    async fn new(options: &PgConnectOptions) -> Self {
        let world = world(options).await;
        let product = world.add("MUG", json!({"name": "Harbour mug"})).await;
        let body = json!({"name": "Post", "code": 71, "organisations": [world.api.tenant.organisation]});
        let made = world.api.post(&world.api.superadmin, "/api/carrier", body).await.expect(201).json();
        let yard = Self { carrier: text(&made, "id"), product, world };
        // a first order makes the stock
        let first = yard.order("FIRST", 1, &json!({"send": true})).await;
        yard.world.api.delete_order(&first).await;
        yard
    }

    /// Creates an order of so many mugs; returns its id.
    async fn order(&self, number: &str, quantity: i64, members: &Value) -> String {
        let api = &self.world.api;
        let mut body = json!({
            "eshop": api.tenant.eshop, "orderNumber": number, "value": 1, "currency": "EUR", "carrier": self.carrier,
            "ignoreAddressValidation": true, "waitBeforeProcessing": false, "items": [{"product": self.product, "quantity": quantity}],
        });
        for (name, value) in members.as_object().unwrap() {
            body[name] = value.clone();
        }
        text(&api.post(&api.user, "/api/expedition", body).await.expect(201).json(), "id")
    }

    /// Sets how many mugs are there, without a mark.
    async fn stock(&self, quantity: i32) {
        sqlx::query("UPDATE product_stock SET quantity = $1")
            .bind(quantity)
            .execute(&self.world.owner)
            .await
            .unwrap();
        self.unmark().await;
    }

    async fn unmark(&self) {
        sqlx::query("UPDATE product_stock SET marked_at = NULL").execute(&self.world.owner).await.unwrap();
    }

    async fn status(&self, id: &str) -> String {
        sqlx::query_scalar("SELECT status FROM expedition WHERE id = $1")
            .bind(id.parse::<Uuid>().unwrap())
            .fetch_one(&self.world.owner)
            .await
            .unwrap()
    }

    /// A browser of a person with a role of the tenant.
    async fn browser(&self, role: Role) -> Browser<'_> {
        let token = self.world.api.tenant.token(&self.world.api.services, role).await.unwrap();
        Browser::new(&self.world.api, &token)
    }
}

impl crate::support::Api {
    async fn delete_order(&self, id: &str) {
        self.put(&self.user, &format!("/api/expedition/{id}/rollback"), Value::Null).await.expect(200);
        self.delete(&self.user, &format!("/api/expedition/{id}")).await.expect(204);
    }
}

fn text(record: &Value, member: &str) -> String {
    record[member].as_str().unwrap().to_owned()
}

fn page(id: &str) -> String {
    format!("/console/order/{id}")
}

/// Whether a list shows an order.
fn shows(list: &str, id: &str) -> bool {
    list.contains(&format!("href=\"{}\"", page(id)))
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn every_operation_is_asked_and_done_and_audited(_: PgPoolOptions, options: PgConnectOptions) {
    let yard = Yard::new(&options).await;
    yard.stock(2).await;
    let id = yard.order("ONE", 2, &json!({"waitBeforeProcessing": true})).await;
    let admin = yard.browser(Role::Admin).await;
    let steps: [(&str, Fields, &str, &str, &str); 8] = [
        ("send", &[], "stock_ok", "expedition.send", "order-sent"),
        ("unbook", &[], "awaiting_reservation", "expedition.unbook", "order-unbooked"),
        ("rebook", &[], "stock_ok", "expedition.rebook", "order-rebooked"),
        ("rollback", &[], "on_hold", "expedition.hold", "order-held"),
        ("send", &[], "stock_ok", "expedition.send", "order-sent"),
        ("process", &[], "awaiting_processing", "expedition.process", "order-processed"),
        ("status", &[("status", "take_out")], "take_out", "expedition.status", "order-reported"),
        (
            "status",
            &[("status", "incorrect"), ("errors[0].message", "the mug is broken")],
            "incorrect",
            "expedition.status",
            "order-reported",
        ),
    ];
    for (operation, fields, status, action, said) in steps {
        // no worker looks at the mark that unbooking leaves
        yard.unmark().await;
        let reply = admin.act(&format!("{}/{operation}", page(&id)), fields).await.expect(303);
        assert_eq!(
            reply.header("location"),
            Some(format!("{}?done={said}", page(&id)).as_str()),
            "{operation}"
        );
        assert_eq!(yard.status(&id).await, status, "{operation}");
        assert_eq!(audited(&yard.world, id.parse().unwrap()).await.unwrap().0, action);
        let shown = admin.open(reply.header("location").unwrap()).await.expect(200).text;
        assert!(shown.contains("class=\"said\""), "{shown}");
    }
    let shown = admin.open(&page(&id)).await.expect(200).text;
    assert!(shown.contains("the mug is broken"), "{shown}");
    // what the status does not allow is refused, even if the page shows it
    let refused = admin.act(&format!("{}/process", page(&id)), &[]).await.expect(409).text;
    assert!(refused.contains("is incorrect"), "{refused}");
    let long = "x".repeat(256);
    let refused = admin.act(&format!("{}/cancel", page(&id)), &[("reason", &long)]).await.expect(400).text;
    for said in ["id=\"wrong-reason\"".to_owned(), format!("name=\"reason\" value=\"{long}\"")] {
        assert!(refused.contains(&said), "{said}: {refused}");
    }
    admin.act(&format!("{}/cancel", page(&id)), &[("reason", "a change of mind")]).await.expect(303);
    assert_eq!(yard.status(&id).await, "canceled");
    // a warehouse that has begun is asked: nothing says that the order is cancelled
    let begun = yard.order("BEGUN", 1, &json!({"send": true})).await;
    admin.act(&format!("{}/status", page(&begun)), &[("status", "take_out")]).await.expect(303);
    let reply = admin.act(&format!("{}/cancel", page(&begun)), &[]).await.expect(303);
    assert_eq!(yard.status(&begun).await, "waiting_for_cancel");
    let asked = format!("{}?done=order-asked-back", page(&begun));
    assert_eq!(reply.header("location"), Some(asked.as_str()));
    let shown = admin.open(&page(&id)).await.expect(200).text;
    assert!(shown.contains("Reason: a change of mind"), "{shown}");
    // its warehouse had it, so it is kept
    let refused = admin.act(&format!("{}/delete", page(&id)), &[]).await.expect(409).text;
    assert!(refused.contains("was handed over to its warehouse"), "{refused}");
    let id = yard.order("TWO", 2, &json!({})).await;
    let reply = admin.act(&format!("{}/delete", page(&id)), &[]).await.expect(303);
    assert_eq!(reply.header("location"), Some("/console/order?done=order-deleted"));
    admin.open(&page(&id)).await.expect(404);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_is_seen_and_changed_only_within_scope_and_role(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let yard = Yard::new(&options).await;
    let api = &yard.world.api;
    yard.stock(5).await;
    let id = yard.order("OURS", 1, &json!({"send": true})).await;
    let operations =
        ["send", "process", "rollback", "cancel", "rebook", "unbook", "delete", "status", "edit"];
    // another organisation: neither the page nor an operation
    let other = Tenant::create(&api.services, "Others").await.unwrap();
    for role in [Role::Admin, Role::User, Role::Connector] {
        let token = other.token(&api.services, role).await.unwrap();
        let stranger = Browser::new(api, &token);
        for query in ["", "?number=OURS", "?sku=MUG", "?status=awaiting_processing"] {
            let list = stranger.open(&format!("/console/order{query}")).await.expect(200).text;
            assert!(!list.contains("OURS</strong>"), "{list}");
        }
        let counts = stranger.open("/console/order").await.expect(200).text;
        assert!(counts.contains("waits for processing 0<"), "{counts}");
        stranger.open(&page(&id)).await.expect(404);
        for operation in operations {
            let refused = if operation == "status" && role != Role::Admin { 403 } else { 404 };
            stranger.open(&format!("{}/{operation}", page(&id))).await.expect(refused);
        }
    }
    // a viewer reads, and may do nothing
    let viewer = Browser::new(api, &api.viewer);
    let of_eshop = viewer.open(&format!("/console/order?eshop={}", api.tenant.eshop)).await.expect(200).text;
    let kept = format!("?eshop={}&amp;status=awaiting_processing", api.tenant.eshop);
    assert!(of_eshop.contains(&kept) && !of_eshop.contains("waits for processing 1<"), "{of_eshop}");
    let shown = viewer.open(&page(&id)).await.expect(200).text;
    assert!(shown.contains("OURS") && !shown.contains("data-ask"), "{shown}");
    for operation in operations {
        viewer.open(&format!("{}/{operation}", page(&id))).await.expect(403);
        viewer.send_bare(&format!("{}/{operation}", page(&id)), &[]).await.expect(403);
    }
    // a connector has its e-shop; it reports no status, and sees no webhooks
    let connector = Browser::new(api, &api.tenant.eshop_token(&api.services).await.unwrap());
    let shown = connector.open(&page(&id)).await.expect(200).text;
    assert!(
        shown.contains("/rollback\"")
            && !shown.contains("/status\"")
            && !shown.contains("Webhook deliveries"),
        "{shown}"
    );
    connector.open(&format!("{}/status", page(&id))).await.expect(403);
    sqlx::query(
        "INSERT INTO eshop SELECT (jsonb_populate_record(s, jsonb_build_object('id', '00000000-0000-0000-0000-000000000009'))).*
         FROM eshop s WHERE id = $1",
    )
    .bind(api.tenant.eshop)
    .execute(&yard.world.owner)
    .await
    .unwrap();
    for table in ["expedition", "expedition_detail"] {
        let moved = format!("UPDATE {table} SET eshop_id = '00000000-0000-0000-0000-000000000009'");
        sqlx::query(sqlx::AssertSqlSafe(moved)).execute(&yard.world.owner).await.unwrap();
    }
    connector.open(&page(&id)).await.expect(404);
    let list = connector.open("/console/order").await.expect(200).text;
    assert!(!list.contains("OURS</strong>") && list.contains("waits for processing 0<"), "{list}");
    assert_eq!(yard.status(&id).await, "awaiting_processing");
}
