//! Creating products.

use http::Method;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{MIGRATIONS, PATH, World, body, id};
use crate::support::strangers;

use longshore_kernel::ids::OrganisationId;

#[tokio::test]
async fn a_create_with_only_required_fields_takes_the_defaults() {
    let world = World::new(&strangers().await).await;
    let reply = world.post(world.body("4006381333931")).await.expect(201);
    let made = reply.json();
    let expected = json!({
        "id": made["id"],
        "organisation": world.api.tenant.organisation,
        "eshops": [world.api.tenant.eshop],
        "productSku": "4006381333931",
        "internalSku": "I-1",
        "productGroup": null,
        "name": "Anchor",
        "description": null,
        "weight": null,
        "height": null,
        "width": null,
        "length": null,
        "referenceNumbers": [],
        "packagingType": "A",
        "imeiCheckRequired": false,
        "workAroundSnIn": false,
        "workAroundEanSticker": false,
        "workAroundWarrantyInf": false,
        "workAroundLot": false,
        "active": true,
        "countryOfOrigin": null,
        "hsCode": null,
        "type": "physical",
        "childrenProducts": null,
        "category": null,
        "images": [],
        "services": [],
        "createdAt": made["createdAt"],
        "changedAt": made["createdAt"],
        "version": 1,
    });
    assert_eq!(made, expected);
    assert_eq!(Uuid::parse_str(&id(&made)).unwrap().get_version_num(), 7);
    assert_eq!(reply.header("location"), Some(format!("{PATH}/{}", id(&made)).as_str()));
    let read = world.api.get(&world.api.user, reply.header("location").unwrap()).await.expect(200);
    assert_eq!(read.json(), made);
    assert_eq!(read.header("etag"), reply.header("etag"));
    assert_eq!(reply.header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn the_answer_to_a_full_create_equals_that_of_a_look_up() {
    let world = World::new(&strangers().await).await;
    let (second, child) = (world.eshop().await, world.add("child", json!({})).await);
    let own = world.api.tenant.eshop;
    let members = json!({
        "eshops": [second, own, second],
        "productGroup": Uuid::max(),
        "description": "A set of ropes \u{1f6a2}",
        "weight": 12_500, "height": 1, "width": 2, "length": 3,
        "referenceNumbers": ["8590000000017", "8590000000024"],
        "imeiCheckRequired": true, "workAroundSnIn": true, "workAroundEanSticker": true,
        "workAroundWarrantyInf": true, "workAroundLot": true, "active": false,
        "countryOfOrigin": "DE", "hsCode": "5607.49", "type": "bundle", "category": "dangerous_substances",
        "childrenProducts": [{"productId": child, "quantity": 2}],
    });
    let made = world.create("set", members.clone()).await;
    let mut eshops = [own, second.into()];
    eshops.sort_unstable();
    assert_eq!(made["eshops"], json!(eshops));
    for (name, value) in members.as_object().unwrap().iter().filter(|(name, _)| *name != "eshops") {
        assert_eq!(&made[name], value, "{name}");
    }
    assert_eq!(world.get(&id(&made)).await, made);
    let listed =
        world.api.post(&world.api.user, "/api/product/list", json!({"criteria": {"id": {"eq": id(&made)}}}));
    assert_eq!(listed.await.expect(200).json()["results"], json!([made]));
}

#[tokio::test]
async fn a_product_sku_is_unique_in_its_organisation_and_case_counts() {
    let world = World::new(&strangers().await).await;
    let first = world.add("sku", json!({})).await;
    let reply = world.post(world.body("sku")).await.expect(400);
    assert_eq!(reply.json()["code"], "invalid_data");
    assert_eq!(reply.violations(), ["productSku already_taken"]);
    let parameters = json!({"{{ value }}": "sku", "{{ id }}": first});
    assert_eq!(reply.json()["violations"][0]["parameters"], parameters);
    assert_eq!(reply.json()["detail"], "productSku belongs to another product of the organisation");
    for other in ["SKU", "sku ", " sku"] {
        world.add(other, json!({})).await;
    }
    // other organisations have their own SKUs
    let (stranger, _) = world.stranger().await;
    world.api.post(&world.api.superadmin, PATH, body(&stranger, "sku")).await.expect(201);
    world.add("theirs", json!({})).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn one_of_two_concurrent_creates_of_a_sku_is_refused(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let mut gate = world.owner.begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE product IN SHARE MODE").execute(&mut *gate).await.unwrap();
    let race = async {
        let (one, other) = (world.post(world.body("sku")), world.post(world.body("sku")));
        tokio::join!(one, other)
    };
    // both have looked and found it free before either inserts
    let open = async {
        world.blocked(2).await;
        gate.rollback().await.unwrap();
    };
    let ((one, other), ()) = tokio::join!(race, open);
    let (won, lost) = if one.status.as_u16() == 201 { (one, other) } else { (other, one) };
    let won = won.expect(201);
    let lost = lost.expect(400);
    assert_eq!(lost.json()["violations"][0]["parameters"]["{{ id }}"], id(&won.json()));
    assert_eq!(lost.violations(), ["productSku already_taken"]);
    assert_eq!(world.traces().await, [1, 0, 0]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_child_that_stops_being_physical_meanwhile_is_refused(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let child = world.add("child", json!({})).await;
    let mut gate = world.owner.begin().await.unwrap();
    sqlx::raw_sql("UPDATE product SET type = 'virtual'").execute(&mut *gate).await.unwrap();
    let bundle = json!({"type": "bundle", "childrenProducts": [{"productId": child, "quantity": 1}]});
    let turn = async {
        world.blocked(1).await;
        gate.commit().await.unwrap();
    };
    let (reply, ()) = tokio::join!(world.post(world.body_with("set", &bundle)), turn);
    assert_eq!(reply.expect(400).violations(), ["childrenProducts[0].productId not_allowed"]);
    assert_eq!(world.count("SELECT count(*) FROM product").await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn references_to_other_organisations_are_refused_with_their_path(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let (stranger, theirs) = world.stranger().await;
    let own = world.api.tenant.eshop;
    let child = json!([{"productId": theirs, "quantity": 1}]);
    for (members, expected) in [
        (json!({"organisation": stranger.organisation}), "organisation unknown_reference"),
        (json!({"organisation": Uuid::nil()}), "organisation unknown_reference"),
        // and nothing of other organisations is revealed
        (
            json!({"organisation": stranger.organisation, "eshops": [stranger.eshop], "productSku": "theirs"}),
            "organisation unknown_reference",
        ),
        (json!({"eshops": [own, stranger.eshop]}), "eshops[1] unknown_reference"),
        (
            json!({"type": "bundle", "childrenProducts": child}),
            "childrenProducts[0].productId unknown_reference",
        ),
    ] {
        let reply = world.post(world.body_with("new", &members)).await.expect(400);
        assert_eq!(reply.violations(), [expected], "{members}");
    }
    // a caller with access to both organisations cannot mix them
    let mixed = world.body_with("new", &json!({"eshops": [stranger.eshop]}));
    let reply = world.api.post(&world.api.superadmin, PATH, mixed).await.expect(400);
    assert_eq!(reply.violations(), ["eshops[0] unknown_reference"]);
    assert_eq!(world.count("SELECT count(*) FROM product").await, 1);
}

#[tokio::test]
async fn the_refusal_of_an_unreadable_body_says_why() {
    let world = World::new(&strangers().await).await;
    let send = async |content_type: &str, body: &'static [u8]| {
        let request = http::Request::builder()
            .method(Method::POST)
            .uri(PATH)
            .header("authorization", format!("Bearer {}", world.api.user))
            .header("content-type", content_type)
            .body(axum::body::Body::from(body));
        let reply = world.api.send(request.unwrap()).await;
        (reply.status.as_u16(), reply.json()["code"].as_str().unwrap().to_owned())
    };
    let refusal = |status: u16, code: &str| (status, code.to_owned());
    assert_eq!(send("application/json", b"").await, refusal(400, "malformed_body"));
    assert_eq!(send("application/json", b"{").await, refusal(400, "malformed_body"));
    assert_eq!(send("application/json", b"{\"name\": \"\xff\"}").await, refusal(400, "malformed_body"));
    assert_eq!(send("application/json", br#"{"name": "\ud800"}"#).await, refusal(400, "malformed_body"));
    assert_eq!(send("text/plain", b"{}").await, refusal(415, "unsupported_media_type"));
    assert_eq!(send("application/json; charset=utf-8", b"{}").await, refusal(400, "invalid_data"));
}

async fn post_once(world: &World, token: &str, key: &str, body: Value) -> crate::support::Reply {
    world.api.call_with(token, Method::POST, PATH, body, &[("idempotency-key", key)]).await
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_repeated_create_is_executed_once_with_the_same_answer(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let user = &world.api.user;
    let first = post_once(&world, user, "k", world.body("sku")).await.expect(201);
    assert_eq!(first.header("idempotent-replayed"), None);
    let again = post_once(&world, user, "k", world.body("sku")).await.expect(201);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.text, first.text);
    for header in ["location", "etag", "content-type"] {
        assert_eq!(again.header(header), first.header(header), "{header}");
    }
    let other = post_once(&world, user, "k", world.body("other")).await.expect(422);
    assert_eq!(other.json()["code"], "idempotency_key_reused");
    // a key belongs to its caller
    post_once(&world, &world.api.connector, "k", world.body("sku")).await.expect(400);
    assert_eq!(world.traces().await, [1, 0, 0]);
    let wrong = post_once(&world, user, &"x".repeat(256), world.body("third")).await.expect(400);
    assert_eq!(wrong.json()["code"], "invalid_header");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_second_request_with_the_key_of_a_running_one_is_refused_at_once(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let mut gate = world.owner.begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE product IN SHARE MODE").execute(&mut *gate).await.unwrap();
    let first = post_once(&world, &world.api.user, "k", world.body("sku"));
    let second = async {
        world.blocked(1).await;
        let reply = post_once(&world, &world.api.user, "k", world.body("sku")).await;
        gate.rollback().await.unwrap();
        reply
    };
    let (first, second) = tokio::join!(first, second);
    let second = second.expect(409);
    assert_eq!(second.json()["code"], "request_in_progress");
    assert_eq!(second.header("retry-after"), Some("1"));
    first.expect(201);
    let third = post_once(&world, &world.api.user, "k", world.body("sku")).await.expect(201);
    assert_eq!(third.header("idempotent-replayed"), Some("true"));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_key_is_held_for_seconds_and_renewed_while_its_request_runs(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let mut gate = world.owner.begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE product IN SHARE MODE").execute(&mut *gate).await.unwrap();
    let first = post_once(&world, &world.api.user, "k", world.body("sku"));
    let holder = async {
        world.blocked(1).await;
        let held = "SELECT count(*) FROM idempotency WHERE claimed_until <= now() + interval '15 seconds'";
        world.until(held, 1).await;
        // it would expire now, but its process renews it
        sqlx::raw_sql("UPDATE idempotency SET claimed_until = now()").execute(&world.owner).await.unwrap();
        world.until("SELECT count(*) FROM idempotency WHERE claimed_until > now()", 1).await;
        gate.rollback().await.unwrap();
    };
    let (first, ()) = tokio::join!(first, holder);
    first.expect(201);
}

#[tokio::test]
async fn a_refused_create_releases_its_key() {
    let world = World::new(&strangers().await).await;
    let taken = world.add("taken", json!({})).await;
    post_once(&world, &world.api.user, "k", json!({})).await.expect(400);
    post_once(&world, &world.api.user, "k", world.body("taken")).await.expect(400);
    let made = post_once(&world, &world.api.user, "k", world.body("free")).await.expect(201);
    assert_eq!(made.header("idempotent-replayed"), None);
    assert_ne!(id(&made.json()), taken);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_create_is_audited_and_sent_to_subscribers(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let second = world.eshop().await;
    let own = world.api.tenant.eshop;
    // without subscribers: of another event, of another e-shop
    world.webhook(own.get(), "product_stock_change").await;
    let elsewhere = world.webhook(second, "product_change").await;
    world.add("unheard", json!({})).await;
    assert_eq!(world.traces().await, [1, 0, 0]);

    let listeners =
        [world.webhook(own.get(), "product_change").await, world.webhook(own.get(), "*").await, elsewhere];
    world.execute("UPDATE webhook SET active = false WHERE event = '*'").await;
    let headers = [("x-request-id", "request-7")];
    let body =
        world.body_with("heard", &json!({"eshops": [own, second], "weight": 7, "referenceNumbers": []}));
    let made =
        world.api.call_with(&world.api.user, Method::POST, PATH, body, &headers).await.expect(201).json();
    assert_eq!(world.traces().await, [2, 1, 3]);

    let (action, changes) = world.audited(&id(&made)).await;
    assert_eq!(action, "product.create");
    let fields = json!({
        "eshops": made["eshops"], "productSku": "heard", "internalSku": "I-1", "name": "Anchor", "weight": 7,
        "packagingType": "A", "imeiCheckRequired": false, "workAroundSnIn": false, "workAroundEanSticker": false,
        "workAroundWarrantyInf": false, "workAroundLot": false, "active": true, "type": "physical",
    });
    let fields = fields.as_object().unwrap();
    let expected: Value = fields
        .iter()
        .map(|(name, new)| (name.clone(), json!([null, new])))
        .collect::<serde_json::Map<_, _>>()
        .into();
    assert_eq!(changes, expected);
    let (actor, name, entity, organisation, request, job): (
        String,
        String,
        String,
        OrganisationId,
        Option<String>,
        Option<Uuid>,
    ) = sqlx::query_as(
        "SELECT actor_type, actor_name, entity_type, organisation_id, request_id, job_id
             FROM audit WHERE entity_id = $1::uuid AND actor_id IS NOT NULL",
    )
    .bind(id(&made))
    .fetch_one(&world.owner)
    .await
    .unwrap();
    assert_eq!((actor.as_str(), name.as_str(), entity.as_str()), ("token", "user of a test", "product"));
    assert_eq!(
        (organisation, request.as_deref(), job),
        (world.api.tenant.organisation, Some("request-7"), None)
    );

    let mut last_event = world.last_event().await;
    let mut names: Vec<String> = serde_json::from_value(last_event["changedFields"].take()).unwrap();
    names.sort_unstable();
    assert!(names.iter().eq(fields.keys()), "{names:?}");
    assert_eq!(
        last_event,
        json!({
            "id": made["id"], "organisation": made["organisation"], "productSku": "heard", "changedFields": null,
            "fields": fields, "version": 1,
        })
    );
    let matching: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM delivery d JOIN event e ON e.id = d.event_id
         WHERE e.type = 'product_change' AND e.entity_id = $1::uuid AND d.webhook_id = ANY($2) AND d.attempt_count = 0",
    )
    .bind(id(&made))
    .bind(listeners)
    .fetch_one(&world.owner)
    .await
    .unwrap();
    assert_eq!(matching, 3);
}

#[tokio::test]
async fn an_event_of_more_than_15_kilobytes_shrinks_to_the_identity_of_the_product_and_its_changed_fields() {
    let world = World::new(&strangers().await).await;
    world.webhook(world.api.tenant.eshop.get(), "*").await;
    // 100 numbers of 255 characters
    let made = world.create("large", json!({"referenceNumbers": vec!["x".repeat(255); 100]})).await;
    let last_event = world.last_event().await;
    let members: Vec<&String> = last_event.as_object().unwrap().keys().collect();
    assert_eq!(members, ["changedFields", "id", "organisation", "productSku", "version"]);
    assert_eq!(last_event["id"], made["id"]);
    assert!(last_event["changedFields"].as_array().unwrap().contains(&json!("referenceNumbers")));
    world.put(&id(&made), json!({"referenceNumbers": vec!["y".repeat(255); 100]})).await.expect(200);
    let shrunk = json!({
        "id": made["id"], "organisation": made["organisation"], "productSku": "large", "version": 2,
        "changedFields": ["referenceNumbers"],
    });
    assert_eq!(world.last_event().await, shrunk);
    // below the limit, all fields are sent
    let numbers = json!(vec!["x".repeat(240); 60]);
    world.put(&id(&made), json!({"referenceNumbers": numbers})).await.expect(200);
    assert_eq!(world.last_event().await["fields"], json!({"referenceNumbers": numbers}));
    // the audit keeps all fields
    let (_, changes) = world.audited(&id(&made)).await;
    assert_eq!(changes["referenceNumbers"][0], json!(vec!["y".repeat(255); 100]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_create_reads_no_other_products_of_a_large_organisation(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let child = world.add("CHILD", json!({})).await;
    // many products, and no table statistics yet
    let many = "INSERT INTO product (id, organisation_id, product_sku, internal_sku, name, reference_numbers,
                    packaging_type, imei_check_required, work_around_sn_in, work_around_ean_sticker,
                    work_around_warranty_inf, work_around_lot, active, active_acceptance, type)
                SELECT uuid_v7(), (SELECT organisation_id FROM product), 'M' || n, 'M', 'Many', '{}', 'A', false, false,
                       false, false, false, true, 0, 'physical'
                FROM generate_series(1, 2000) AS n";
    world.execute(many).await;
    let bundle = json!({"type": "bundle", "childrenProducts": [{"productId": child, "quantity": 2}]});
    world.post(world.body_with("SET", &bundle)).await.expect(201);
    world.post(world.body("M7")).await.expect(400);
    let looked = "SELECT (idx_scan >= 3)::int::bigint FROM pg_stat_user_indexes
                  WHERE indexrelname = 'product_sku_is_unique_in_the_organisation'";
    world.until(looked, 1).await;
    let by_organisation = "SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes
                           WHERE indexrelname IN ('product_by_change', 'product_by_creation')";
    assert_eq!(world.count(by_organisation).await, 0);
}
