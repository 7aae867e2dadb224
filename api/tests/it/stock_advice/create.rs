//! Announcing goods.

use http::Method;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{MIGRATIONS, PATH, World, advice, supplier};
use crate::support::strangers;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_announced_advice_is_shown_and_its_pieces_are_incoming(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let (mug, cup) = (world.add("mug", json!({})).await, world.add("cup", json!({})).await);
    world.webhook(world.api.tenant.eshop.get(), "*").await;
    let mut body = world.advice("PO-1", &[(&mug, 3), (&cup, 1_000_000), (&mug, 4)]);
    body["packagingUnit"] = json!("pallet");
    body["countOfUnits"] = json!(2);
    body["note"] = json!("fragile");
    body["ref2"] = json!("r");
    let reply = world.api.post(&world.api.user, PATH, body).await.expect(201);
    let made = reply.json();
    let id = made["id"].as_str().unwrap();
    assert_eq!(reply.header("location"), Some(format!("{PATH}/{id}").as_str()));
    assert!(reply.header("etag").is_some());
    let tenant = &world.api.tenant;
    for (field, expected) in [
        ("organisation", json!(tenant.organisation)),
        ("warehouse", json!(tenant.warehouse)),
        ("wms", json!(tenant.wms)),
        ("supplier", json!(world.supplier)),
        ("packagingUnit", json!("pallet")),
        ("countOfUnits", json!(2)),
        ("note", json!("fragile")),
        ("internalId", json!("PO-1")),
        ("expectedAt", json!("2030-01-02T02:04:05.000000+00:00")),
        ("ref1", Value::Null),
        ("ref2", json!("r")),
        ("status", json!("new")),
        ("countOfItems", json!(3)),
        ("countOfSku", json!(2)),
        ("sumOfQuantity", json!(1_000_007)),
    ] {
        assert_eq!(made[field], expected, "{field}");
    }
    let items = made["items"].as_array().unwrap();
    let shown: Vec<_> = items.iter().map(|i| (&i["product"], &i["quantity"], &i["received"])).collect();
    let zero = json!(0);
    assert_eq!(
        shown,
        [
            (&json!(mug), &json!(3), &zero),
            (&json!(cup), &json!(1_000_000), &zero),
            (&json!(mug), &json!(4), &zero)
        ]
    );
    assert_eq!(world.api.get(&world.api.viewer, &format!("{PATH}/{id}")).await.expect(200).json(), made);
    let listed = json!({"criteria": {"internalId": {"eq": "PO-1"}, "items.product": {"eq": cup}}});
    let listed = world.api.post(&world.api.user, &format!("{PATH}/list"), listed).await.expect(200).json();
    assert_eq!(listed["results"], json!([made]));

    assert_eq!((world.stock(&mug).await, world.stock(&cup).await), ([0, 7], [0, 1_000_000]));
    assert_eq!(world.contradictions().await, 0);
    // events: the advice, and each stock once
    let events: Vec<(String, Value)> =
        sqlx::query_as("SELECT type, data FROM event ORDER BY type DESC, data->>'productSku'")
            .fetch_all(&world.owner)
            .await
            .unwrap();
    let kinds: Vec<_> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["stock_advice_status_change", "product_stock_change", "product_stock_change"]);
    assert_eq!(
        (&events[0].1["id"], &events[0].1["status"], &events[0].1["orderNumber"]),
        (&json!(id), &json!("new"), &json!("PO-1"))
    );
    assert_eq!(
        (&events[2].1["productSku"], &events[2].1["changedFields"], &events[2].1["fields"]),
        (&json!("mug"), &json!(["incoming"]), &json!({"incoming": 7}))
    );
    assert_eq!(world.count("SELECT count(*) FROM delivery").await, 3);
    let audited = "SELECT string_agg(entity_type, ' ' ORDER BY entity_type) = 'product_stock product_stock stock_advice'
                   FROM audit WHERE action = 'stock_advice.create'";
    let audited: Option<bool> = sqlx::query_scalar(audited).fetch_one(&world.owner).await.unwrap();
    assert_eq!(audited, Some(true));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn all_violations_are_reported_at_once(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let mug = world.add("mug", json!({})).await;
    let post = async |body: Value| world.api.post(&world.api.user, PATH, body).await;
    assert_eq!(
        post(json!({})).await.expect(400).violations(),
        ["organisation", "warehouse", "wms", "supplier", "items", "internalId", "expectedAt"]
            .map(|name| format!("{name} required"))
    );
    for (field, value, violation) in [
        ("items", json!([]), "items invalid_count"),
        ("items", json!([{"product": mug, "quantity": 0}]), "items[0].quantity out_of_range"),
        ("items", json!([{"product": mug, "quantity": 1_000_001}]), "items[0].quantity out_of_range"),
        ("items", json!([{"product": mug, "quantity": 1.5}]), "items[0].quantity wrong_type"),
        ("items", json!([{"quantity": 1}]), "items[0].product required"),
        ("items", json!([{"product": mug, "quantity": 1, "lot": "x"}]), "items[0].lot unknown_field"),
        ("internalId", json!(""), "internalId invalid_length"),
        ("internalId", json!("x".repeat(256)), "internalId invalid_length"),
        ("expectedAt", json!("2030-01-02T03:04:05"), "expectedAt invalid_timestamp"),
        ("countOfUnits", json!(-1), "countOfUnits out_of_range"),
        ("countOfUnits", json!(1_000_001), "countOfUnits out_of_range"),
        ("note", json!("x".repeat(10_001)), "note invalid_length"),
        ("packagingUnit", json!("x".repeat(256)), "packagingUnit invalid_length"),
        ("ref3", json!("a\0b"), "ref3 invalid_character"),
        ("status", json!("closed"), "status unknown_field"),
    ] {
        let mut body = world.advice("PO-1", &[(&mug, 1)]);
        body[field] = value;
        assert_eq!(post(body).await.expect(400).violations(), [violation]);
    }
    assert_eq!(world.count("SELECT count(*) FROM stock_movement").await, 0);
    // values just within the bounds are accepted
    let mut body = world.advice(&"x".repeat(255), &[(&mug, 1)]);
    body["note"] = json!("ü".repeat(10_000));
    body["countOfUnits"] = Value::Null;
    post(body).await.expect(201);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn referenced_records_must_exist_and_match(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (stranger, theirs) = world.stranger().await;
    let their_supplier = supplier(&world, stranger.organisation.get()).await;
    let mug = world.add("mug", json!({})).await;
    let voucher = world.add("voucher", json!({"type": "virtual"})).await;
    let set = json!({"type": "bundle", "childrenProducts": [{"productId": mug, "quantity": 1}]});
    let set = world.add("set", set).await;
    let post = async |body: Value| world.api.post(&world.api.user, PATH, body).await;

    let mut body = world.advice("PO-1", &[(&voucher, 1), (&mug, 1), (&set, 1), (&theirs, 1)]);
    body["warehouse"] = json!(stranger.warehouse);
    body["wms"] = json!(stranger.wms);
    body["supplier"] = json!(their_supplier);
    assert_eq!(
        post(body).await.expect(400).violations(),
        [
            "warehouse unknown_reference",
            "wms unknown_reference",
            "supplier unknown_reference",
            "items[0].product not_stocked",
            "items[2].product not_stocked",
            "items[3].product unknown_reference",
        ]
    );
    let foreign = advice(&stranger, their_supplier, "PO-1", &[(&theirs, 1)]);
    assert_eq!(post(foreign).await.expect(400).violations(), ["organisation unknown_reference"]);
    let mut body = world.advice("PO-1", &[(&mug, 1)]);
    body["organisation"] = json!(Uuid::nil());
    assert_eq!(post(body).await.expect(400).violations(), ["organisation unknown_reference"]);
    // neither hides the other: what the rules refuse, and what is not there
    let mut body = world.advice("PO-1", &[(&mug, 0), (&theirs, 1), (&theirs, 0), ("x", 1)]);
    body["warehouse"] = json!("x");
    body["supplier"] = json!(their_supplier);
    body["expectedAt"] = json!("today");
    assert_eq!(
        post(body).await.expect(400).violations(),
        [
            "warehouse invalid_id",
            "items[0].quantity out_of_range",
            "items[2].quantity out_of_range",
            "items[3].product invalid_id",
            "expectedAt invalid_timestamp",
            "supplier unknown_reference",
            "items[1].product unknown_reference",
            "items[2].product unknown_reference",
        ]
    );
    let mut body = world.advice("PO-1", &[(&mug, 0)]);
    body["organisation"] = json!(Uuid::nil());
    let both = ["items[0].quantity out_of_range", "organisation unknown_reference"];
    assert_eq!(post(body).await.expect(400).violations(), both);
    // a wms of the organisation that does not work in the warehouse
    world.execute("UPDATE warehouse SET default_wms_id = NULL; DELETE FROM warehouse_wms").await;
    let body = world.advice("PO-1", &[(&mug, 1)]);
    assert_eq!(post(body).await.expect(400).violations(), ["wms not_linked"]);
    assert_eq!(world.count("SELECT count(*) FROM stock_advice").await, 0);
}

#[tokio::test]
async fn an_internal_id_is_unique_in_its_organisation() {
    let world = World::new(&strangers().await).await;
    let mug = world.add("mug", json!({})).await;
    let body = world.advice("PO-1", &[(&mug, 2)]);
    let post = || world.api.post(&world.api.user, PATH, body.clone());
    let replies = futures::future::join_all((0..4).map(|_| post())).await;
    let mut statuses: Vec<_> = replies.iter().map(|reply| reply.status.as_u16()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 400, 400, 400]);
    let made = replies.iter().find(|reply| reply.status == 201).unwrap().json();
    for refused in replies.iter().filter(|reply| reply.status == 400) {
        assert_eq!(refused.violations(), ["internalId already_taken"]);
        let parameters = json!({"{{ value }}": "PO-1", "{{ id }}": made["id"]});
        assert_eq!(refused.json()["violations"][0]["parameters"], parameters);
    }
    assert_eq!((world.stock(&mug).await, world.contradictions().await), ([0, 2], 0));
    // other organisations have their own numbers
    let (stranger, theirs) = world.stranger().await;
    let their_supplier = supplier(&world, stranger.organisation.get()).await;
    let theirs = advice(&stranger, their_supplier, "PO-1", &[(&theirs, 1)]);
    world.api.post(&world.api.superadmin, PATH, theirs).await.expect(201);
}

#[tokio::test]
async fn a_repeated_create_announces_once() {
    let world = World::new(&strangers().await).await;
    let mug = world.add("mug", json!({})).await;
    let key = [("idempotency-key", "once")];
    let body = world.advice("PO-1", &[(&mug, 2)]);
    let call = || world.api.call_with(&world.api.user, Method::POST, PATH, body.clone(), &key);
    let first = call().await.expect(201);
    let second = call().await.expect(201);
    assert_eq!(second.header("idempotent-replayed"), Some("true"));
    assert_eq!(first.json(), second.json());
    assert_eq!(world.stock(&mug).await, [0, 2]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn more_than_a_stock_can_hold_is_a_conflict(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let mug = world.add("mug", json!({})).await;
    let items = vec![(mug.as_str(), 1_000_000); 2_148];
    let reply = world.api.post(&world.api.user, PATH, world.advice("PO-1", &items)).await.expect(409);
    assert_eq!(reply.json()["code"], "conflict");
    assert_eq!(world.count("SELECT count(*) FROM stock_advice").await, 0);
}
