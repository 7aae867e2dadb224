//! Orders in the console.

use longshore_shared::kernel::access::Role;
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
async fn an_order_is_found_by_number_sku_tracking_number_and_status(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let yard = Yard::new(&options).await;
    let api = &yard.world.api;
    yard.stock(3).await;
    let held = yard.order("HELD-1", 1, &json!({"externalId": "shop 7"})).await;
    let booked = yard.order("BOOKED-1", 2, &json!({"send": true})).await;
    let waits = yard.order("WAITS-1", 5, &json!({"send": true})).await;
    let report = json!({"status": "take_out", "parcels": [
        {"extPackageNumber": "P1", "extPackageTrackingNumber": "TRACK-1"}, {"extPackageNumber": "P2", "extPackageTrackingNumber": "TRACK-2"}]});
    api.put(&api.superadmin, &format!("/api/expedition/{booked}/status"), report).await.expect(200);
    let browser = yard.browser(Role::User).await;
    let all = browser.open("/console/order").await.expect(200).text;
    for id in [&held, &booked, &waits] {
        assert!(shows(&all, id), "{all}");
    }
    for count in ["on_hold 1<", "take_out 1<", "waiting_for_goods 1<", "delivered 0<"] {
        assert!(all.contains(count), "{count}: {all}");
    }
    for (query, found) in [
        ("number=HELD-1", vec![&held]),
        ("number=shop+7", vec![&held]),
        ("number=HELD", vec![]),
        ("tracking=TRACK-1", vec![&booked]),
        ("tracking=TRACK-2", vec![&booked]),
        ("sku=MUG", vec![&held, &booked, &waits]),
        ("sku=MUG&status=waiting_for_goods", vec![&waits]),
        ("sku=MUG&number=HELD-1", vec![&held]),
        ("sku=JUG", vec![]),
        ("status=waiting_for_goods", vec![&waits]),
        ("status=delivered", vec![]),
        (&format!("eshop={}", api.tenant.eshop), vec![&held, &booked, &waits]),
        (&format!("eshop={}&status=on_hold", api.tenant.eshop), vec![&held]),
        (&format!("eshop={}", Uuid::nil()), vec![]),
    ] {
        let list = browser.open(&format!("/console/order?{query}")).await.expect(200).text;
        for id in [&held, &booked, &waits] {
            assert_eq!(shows(&list, id), found.contains(&id), "{query}: {list}");
        }
    }
    for query in ["status=none", "eshop=x", "after=1"] {
        browser.open(&format!("/console/order?{query}")).await.expect(400);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn many_orders_of_others_with_the_same_number_hide_none_of_ones_own(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let yard = Yard::new(&options).await;
    let api = &yard.world.api;
    let first = yard.order("SAME", 1, &json!({"externalId": "shop 7"})).await;
    let other = Tenant::create(&api.services, "Other").await.unwrap();
    // more than one search looks at, each in an e-shop of its own
    sqlx::query(
        "WITH shop AS (
             INSERT INTO eshop SELECT (jsonb_populate_record(s, jsonb_build_object('id', uuid_v7()))).*
             FROM eshop s, generate_series(1, 5001) WHERE s.id = $2 RETURNING id
         ), made AS (
             INSERT INTO expedition SELECT (jsonb_populate_record(e, jsonb_build_object('id', uuid_v7(), 'organisation_id', $1::uuid,
                 'eshop_id', shop.id))).*
             FROM shop, expedition e WHERE e.id = $3::uuid RETURNING id, eshop_id
         )
         INSERT INTO expedition_detail
         SELECT (jsonb_populate_record(d, jsonb_build_object('id', made.id, 'eshop_id', made.eshop_id, 'tracking_number', 'TRACK'))).*
         FROM made, expedition_detail d WHERE d.id = $3::uuid",
    )
    .bind(other.organisation)
    .bind(other.eshop)
    .bind(&first)
    .execute(&yard.world.owner)
    .await
    .unwrap();
    api.delete(&api.user, &format!("/api/expedition/{first}")).await.expect(204);
    let own = yard.order("SAME", 1, &json!({"externalId": "shop 7"})).await;
    sqlx::query("UPDATE expedition_detail SET tracking_number = 'TRACK' WHERE id = $1::uuid")
        .bind(&own)
        .execute(&yard.world.owner)
        .await
        .unwrap();
    sqlx::query(
        "INSERT INTO expedition_parcel (id, expedition_id, ext_package_number, ext_package_tracking_number)
         SELECT uuid_v7(), id, 'P', 'PARCEL' FROM expedition ORDER BY created_at, id",
    )
    .execute(&yard.world.owner)
    .await
    .unwrap();
    let browser = yard.browser(Role::User).await;
    for query in ["number=SAME", "number=shop+7", "tracking=TRACK", "tracking=PARCEL"] {
        let list = browser.open(&format!("/console/order?{query}")).await.expect(200).text;
        assert!(shows(&list, &own), "{query}: {list}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_list_of_orders_has_pages_that_lose_and_repeat_none(_: PgPoolOptions, options: PgConnectOptions) {
    let yard = Yard::new(&options).await;
    for n in 0..120 {
        yard.order(&format!("N{n:03}"), 1, &json!({})).await;
    }
    let browser = yard.browser(Role::User).await;
    for (first, oldest) in [
        ("/console/order", false),
        ("/console/order?status=on_hold", false),
        ("/console/order?sku=MUG", false),
        ("/console/order?sort=oldest", true),
        ("/console/order?status=on_hold&sort=oldest", true),
        ("/console/order?sku=MUG&sort=oldest", true),
    ] {
        let (mut address, mut seen) = (Some(first.to_owned()), Vec::new());
        while let Some(here) = address.take() {
            let list = browser.open(&here).await.expect(200).text;
            seen.extend(list.split("<strong>N").skip(1).map(|rest| rest[..3].to_owned()));
            address =
                list.split("rel=\"next\"").next().filter(|before| before.len() < list.len()).map(|before| {
                    before.rsplit("href=\"").next().unwrap().split('"').next().unwrap().replace("&amp;", "&")
                });
        }
        let mut expected: Vec<_> = (0..120).map(|n| format!("{n:03}")).collect();
        if !oldest {
            expected.reverse();
        }
        assert_eq!(seen, expected, "{first}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_page_of_an_order_says_what_it_waits_for_and_when_that_comes(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let yard = Yard::new(&options).await;
    let (api, owner) = (&yard.world.api, &yard.world.owner);
    let hook = json!({"eshop": api.tenant.eshop, "event": "expedition_status_change", "destination": "https://shop.example/orders"});
    let browser = yard.browser(Role::User).await;
    let silent = yard.order("SILENT", 1, &json!({})).await;
    let shown = browser.open(&page(&silent)).await.expect(200).text;
    assert!(
        shown.contains("No webhook of the e-shop listens to orders.") && !shown.contains("Waits for</h2>"),
        "{shown}"
    );
    api.post(&api.user, "/api/eshop-webhook", hook).await.expect(201);
    yard.stock(2).await;
    let earlier = yard.order("EARLIER", 4, &json!({"send": true})).await;
    let waits = yard.order("LATER", 3, &json!({"send": true})).await;
    // three are announced in its place; pieces in another wms do not serve it
    sqlx::query(
        "WITH supplier AS (
             INSERT INTO supplier SELECT (jsonb_populate_record(NULL::supplier, jsonb_build_object('id', uuid_v7(),
                 'organisation_id', $1, 'name', 'Kiln', 'active', true, 'version', 1, 'created_at', now(), 'changed_at', now()))).* RETURNING id
         ), advice AS (
             INSERT INTO stock_advice (id, organisation_id, warehouse_id, wms_id, supplier_id, internal_id, expected_at, status,
                                       count_of_items, count_of_sku, sum_of_quantity)
             SELECT uuid_v7(), s.organisation_id, s.warehouse_id, s.wms_id, supplier.id, 'ADV-1', '2099-03-01', 'new', 1, 1, 5
             FROM product_stock s, supplier RETURNING id
         ), item AS (
             INSERT INTO stock_advice_item (id, stock_advice_id, position, product_id, quantity, received)
             SELECT uuid_v7(), advice.id, 0, s.product_id, 5, 2 FROM advice, product_stock s
         ), other AS (
             INSERT INTO wms (id, organisation_id, name, distribution_center, store_key, internal_id)
             VALUES (uuid_v7(), $1, 'Annex', uuid_v7(), 'annex', 'annex') RETURNING id
         )
         INSERT INTO product_stock (id, organisation_id, product_id, warehouse_id, wms_id, quantity)
         SELECT uuid_v7(), s.organisation_id, s.product_id, s.warehouse_id, other.id, 9 FROM product_stock s, other",
    )
    .bind(api.tenant.organisation)
    .execute(owner)
    .await
    .unwrap();
    let shown = browser.open(&page(&waits)).await.expect(200).text;
    for part in [
        "It waits for goods.",
        "Looked at again when there is enough of <strong>MUG</strong>",
        "1 order that waits for the same is served before it.",
        "3 expected on 2099-03-01",
        "advice ADV-1, new",
        "9 free in ",
        "Annex.",
        "Stock in another place does not serve this order.",
        "expedition.create",
        "expedition.send",
        "on_hold → waiting_for_goods",
        "https://shop.example/orders",
        ">expedition_status_change</a>",
        "pending",
        "/unbook\" data-ask",
        "/cancel\" data-ask",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("/process\""), "{shown}");
    let first = browser.open(&page(&earlier)).await.expect(200).text;
    assert!(first.contains("No order is served before it."), "{first}");
    // a page that is open gets the same
    browser.open(&page("00000000-0000-0000-0000-000000000007")).await.expect(404);
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
            &[("status", "incorrect"), ("message", "the mug is broken")],
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
    admin.act(&format!("{}/cancel", page(&id)), &[("reason", "a change of mind")]).await.expect(303);
    assert_eq!(yard.status(&id).await, "canceled");
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
    let operations = ["send", "process", "rollback", "cancel", "rebook", "unbook", "delete", "status"];
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
        assert!(counts.contains("awaiting_processing 0<"), "{counts}");
        stranger.open(&page(&id)).await.expect(404);
        for operation in operations {
            let refused = if operation == "status" && role != Role::Admin { 403 } else { 404 };
            stranger.open(&format!("{}/{operation}", page(&id))).await.expect(refused);
        }
    }
    // a viewer reads, and may do nothing
    let viewer = Browser::new(api, &api.viewer);
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
    assert!(!list.contains("OURS</strong>") && list.contains("awaiting_processing 0<"), "{list}");
    assert_eq!(yard.status(&id).await, "awaiting_processing");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_needs_attention_is_grouped_and_leads_to_its_orders(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let yard = Yard::new(&options).await;
    let api = &yard.world.api;
    let browser = yard.browser(Role::Admin).await;
    let nothing = browser.open("/console/order/attention").await.expect(200).text;
    for part in ["No incorrect orders.", "No order waits for goods.", "No old marks.", "No stock is short."] {
        assert!(nothing.contains(part), "{part}: {nothing}");
    }
    yard.stock(3).await;
    for number in ["WRONG-1", "WRONG-2"] {
        yard.order(number, 1, &json!({"carrier": null, "send": true})).await;
    }
    let picked = yard.order("PICKED", 3, &json!({"send": true})).await;
    let report = json!({"status": "take_out"});
    api.put(&api.superadmin, &format!("/api/expedition/{picked}/status"), report).await.expect(200);
    let waits = yard.order("WAITS", 2, &json!({"send": true})).await;
    // a count finds one; the mark is not processed
    yard.stock(1).await;
    sqlx::query("UPDATE product_stock SET marked_at = now() - interval '2 minutes'")
        .execute(&yard.world.owner)
        .await
        .unwrap();
    let shown = browser.open("/console/order/attention").await.expect(200).text;
    for part in [
        "no_carrier",
        "data-label=\"Orders\">2<",
        ">MUG</a>",
        "data-label=\"Pieces wanted\">2<",
        "2 min ago",
        "data-label=\"In stock\">1<",
        "<span class=\"refused\">3</span>",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(shows(&shown, &waits) && shows(&shown, &picked), "{shown}");
    let overview = browser.open("/console").await.expect(200).text;
    for part in
        ["2 orders are incorrect.", "1 stock has waited for the allocator", "1 stock has fewer pieces"]
    {
        assert!(overview.contains(part), "{part}: {overview}");
    }
    // of another organisation, nothing
    let other = Tenant::create(&api.services, "Others").await.unwrap();
    let token = other.token(&api.services, Role::Admin).await.unwrap();
    let stranger = Browser::new(api, &token).open("/console/order/attention").await.expect(200).text;
    assert!(!stranger.contains("MUG") && stranger.contains("No incorrect orders."), "{stranger}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_warehouse_that_does_not_answer_is_named_with_what_waits_for_it(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let yard = Yard::new(&options).await;
    let (api, owner) = (&yard.world.api, &yard.world.owner);
    let browser = yard.browser(Role::Admin).await;
    let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let setting = format!("/api/partner-integration/wms-setting/{}", api.tenant.wms);
    let body = json!({"baseUrl": "http://127.0.0.1:9/wms", "credentials": {"type": "none"}});
    api.post(&admin, &setting, body).await.expect(200);
    yard.stock(9).await;
    let waits = yard.order("WAITS", 1, &json!({"send": true})).await;
    let canceling = yard.order("CANCELING", 1, &json!({"send": true})).await;
    let due = browser.open(&page(&waits)).await.expect(200).text;
    assert!(due.contains("Due: the warehouse has not been called."), "{due}");
    let well = browser.open("/console/order/attention").await.expect(200).text;
    assert!(well.contains("Every warehouse answers."), "{well}");
    // it has answered that it has both, then fails; one is asked back
    for statement in [
        "UPDATE expedition_handover SET handover_state = 'accepted', handover_next_attempt_at = NULL, wms_internal_id = 'W-' || id",
        "UPDATE wms_lane SET failures = 6, failing_since = now() - interval '6 minutes', error = 'HTTP 500', error_at = now()",
    ] {
        sqlx::query(statement).execute(owner).await.unwrap();
    }
    let cancel = format!("/api/expedition/{canceling}/cancel");
    api.put(&admin, &cancel, Value::Null).await.expect(202);
    sqlx::query("UPDATE expedition SET status_since = now() - interval '2 hours' WHERE id = $1")
        .bind(canceling.parse::<Uuid>().unwrap())
        .execute(owner)
        .await
        .unwrap();
    let accepted = browser.open(&page(&waits)).await.expect(200).text;
    assert!(
        accepted.contains("The warehouse has it.") && accepted.contains(&format!("W-{waits}")),
        "{accepted}"
    );
    let asked = browser.open(&page(&canceling)).await.expect(200).text;
    assert!(asked.contains("Asked back; the warehouse has not answered."), "{asked}");
    let shown = browser.open("/console/order/attention").await.expect(200).text;
    for part in ["HTTP 500", "data-label=\"Orders waiting\">1<", "Failing "] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(shows(&shown, &canceling) && !shows(&shown, &waits), "{shown}");
    let overview = browser.open("/console").await.expect(200).text;
    assert!(
        overview.contains("HTTP 500 for 6 min") && overview.contains("1 cancel unanswered for over an hour"),
        "{overview}"
    );
    // of another organisation, nothing
    let other = Tenant::create(&api.services, "Others").await.unwrap();
    let token = other.token(&api.services, Role::Admin).await.unwrap();
    let stranger = Browser::new(api, &token).open("/console/order/attention").await.expect(200).text;
    assert!(!stranger.contains("HTTP 500"), "{stranger}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_happened_to_an_order_is_one_timeline(_: PgPoolOptions, options: PgConnectOptions) {
    let yard = Yard::new(&options).await;
    let api = &yard.world.api;
    let hook = json!({"eshop": api.tenant.eshop, "event": "expedition_status_change", "destination": "https://shop.example/orders"});
    api.post(&api.user, "/api/eshop-webhook", hook).await.expect(201);
    yard.stock(5).await;
    let id = yard.order("ONE", 2, &json!({"send": true})).await;
    for status in ["take_out", "waiting_for_the_carrier"] {
        let path = format!("/api/expedition/{id}/status");
        api.put(&api.superadmin, &path, json!({"status": status})).await.expect(200);
    }
    // one piece of news of its warehouse, and one that contradicts what the service knows
    sqlx::query(
        "WITH news AS (
             INSERT INTO wms_news (wms_id, id, expedition_id, digest)
             SELECT $2, name, $1, '' FROM unnest(ARRAY['N-1', 'N-2']) AS name
         )
         INSERT INTO wms_contradiction (expedition_id, number, wms_id, news_id) VALUES ($1, 1, $2, 'N-2')",
    )
    .bind(id.parse::<Uuid>().unwrap())
    .bind(api.tenant.wms)
    .execute(&yard.world.owner)
    .await
    .unwrap();
    let admin = yard.browser(Role::Admin).await;
    let shown = admin.open(&page(&id)).await.expect(200).text;
    let timeline = shown.split("id=\"timeline\"").nth(1).unwrap();
    for part in [
        "expedition.create",
        "expedition.send",
        "take_out → waiting_for_the_carrier",
        "expedited -2</strong> of MUG in ",
        "reported <code>N-1</code>",
        "reported <code>N-2</code> <span class=\"refused\">It was packed",
        ">expedition_status_change</a> to ",
    ] {
        assert!(timeline.contains(part), "{part}: {shown}");
    }
    // its own number leads nowhere
    assert!(!timeline.contains(&format!("<a href=\"/console/order/{id}\">")), "{timeline}");
    let long_ago = admin.open(&format!("{}?day=2000-01-01", page(&id))).await.expect(200).text;
    assert!(long_ago.contains("Nothing happened in this period."), "{long_ago}");
    let wrong = admin.open(&format!("{}?since=yesterday", page(&id))).await.expect(400).text;
    assert!(wrong.contains("wrong-since") && wrong.contains("Order ONE"), "{wrong}");
    // who may not read the audit sees how the status changed, and nothing else of it
    assert!(timeline.contains("<summary>"), "{timeline}");
    let connector = Browser::new(api, &api.tenant.eshop_token(&api.services).await.unwrap());
    let shown = connector.open(&page(&id)).await.expect(200).text;
    let timeline = shown.split("id=\"timeline\"").nth(1).unwrap();
    assert!(timeline.contains("take_out → waiting_for_the_carrier"), "{timeline}");
    assert!(!timeline.contains("orderNumber") && !timeline.contains("/console/audit"), "{timeline}");
    assert!(!timeline.contains("expedition_status_change"), "{timeline}");
}
