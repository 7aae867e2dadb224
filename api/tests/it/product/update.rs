//! Updating products.

use http::Method;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{MIGRATIONS, PATH, World, id};
use crate::support::strangers;

#[tokio::test]
async fn an_update_changes_the_given_fields_and_leaves_the_rest() {
    let world = World::new(&strangers().await).await;
    let before = world.create("sku", json!({"weight": 5, "description": "A rope"})).await;
    let reply = world.put(&id(&before), json!({"name": "Rope", "weight": 6})).await.expect(200);
    let after = reply.json();
    assert_eq!(reply.header("location"), Some(format!("{PATH}/{}", id(&before)).as_str()));
    assert!(after["changedAt"].as_str().unwrap() > before["changedAt"].as_str().unwrap());
    let mut expected = before.clone();
    expected["name"] = json!("Rope");
    expected["weight"] = json!(6);
    expected["changedAt"] = after["changedAt"].clone();
    expected["version"] = json!(2);
    assert_eq!(reply.header("etag"), Some("\"2\""));
    assert_eq!(after, expected);
    let read = world.api.get(&world.api.user, reply.header("location").unwrap()).await.expect(200);
    assert_eq!(read.json(), after);
    assert_eq!(read.header("etag"), reply.header("etag"));
    let (action, changes) = world.audited(&id(&before)).await;
    assert_eq!(action, "product.update");
    assert_eq!(changes, json!({"name": ["Anchor", "Rope"], "weight": [5, 6]}));
}

#[tokio::test]
async fn the_answer_to_an_update_equals_that_of_a_look_up() {
    let world = World::new(&strangers().await).await;
    let second = world.eshop().await;
    let (rope, hook) = (world.add("rope", json!({})).await, world.add("hook", json!({})).await);
    let child = |id: &str, quantity: i32| json!({"productId": id, "quantity": quantity});
    let product = world.add("product", json!({})).await;
    for change in [
        json!({"eshops": [second, world.api.tenant.eshop]}),
        json!({"eshops": [second]}),
        json!({"type": "bundle", "childrenProducts": [child(&rope, 1), child(&hook, 2)]}),
        json!({"childrenProducts": [child(&hook, 2), child(&rope, 1)]}),
        json!({"childrenProducts": [child(&hook, 3)]}),
        json!({"name": "Another name"}),
        json!({"type": null, "childrenProducts": null, "productGroup": Uuid::max()}),
        json!({"childrenProducts": []}),
        json!({"type": "virtual"}),
    ] {
        let updated = world.put(&product, change.clone()).await.expect(200).json();
        assert_eq!(world.get(&product).await, updated, "{change}");
        for (name, value) in change.as_object().unwrap() {
            let expected = match (name.as_str(), value) {
                ("type", Value::Null) => json!("physical"),
                ("childrenProducts", value) if *value == json!([]) => Value::Null,
                ("eshops", value) if value.as_array().unwrap().len() == 2 => continue,
                _ => value.clone(),
            };
            assert_eq!(updated[name], expected, "{change}");
        }
    }
}

#[tokio::test]
async fn null_clears_nullable_fields() {
    let world = World::new(&strangers().await).await;
    let full = json!({
        "description": "A rope", "weight": 1, "height": 2, "width": 3, "length": 4, "countryOfOrigin": "CZ",
        "hsCode": "5607", "productGroup": Uuid::max(), "category": "dangerous_substances",
    });
    let product = world.add("full", full.clone()).await;
    let mut nothing = full.clone();
    nothing.as_object_mut().unwrap().values_mut().for_each(|value| *value = Value::Null);
    let cleared = world.put(&product, nothing).await.expect(200).json();
    let (_, changes) = world.audited(&product).await;
    for (name, value) in full.as_object().unwrap() {
        assert_eq!(cleared[name], Value::Null, "{name}");
        assert_eq!(changes[name], json!([value, null]), "{name}");
    }
    assert_eq!(changes.as_object().unwrap().len(), full.as_object().unwrap().len());
    assert_eq!(world.get(&product).await, cleared);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_update_without_changes_leaves_no_trace(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let rope = world.add("rope", json!({})).await;
    let members = json!({
        "type": "bundle", "childrenProducts": [{"productId": rope, "quantity": 1}], "weight": 1,
        "referenceNumbers": ["1"], "eshops": [world.api.tenant.eshop, world.eshop().await],
    });
    let before = world.create("set", members).await;
    world.webhook(world.api.tenant.eshop.get(), "*").await;
    let traces = world.traces().await;
    let mut same = before.clone();
    for own in ["id", "images", "services", "createdAt", "changedAt", "version"] {
        same.as_object_mut().unwrap().remove(own).unwrap();
    }
    let mut turned = before["eshops"].as_array().unwrap().clone();
    turned.reverse();
    for body in
        [json!({}), same, json!({"eshops": turned}), json!({"active": true}), json!({"description": null})]
    {
        let reply = world.put(&id(&before), body.clone()).await.expect(200);
        assert_eq!(reply.json(), before, "{body}");
        assert!(reply.header("etag").is_some() && reply.header("location").is_some());
    }
    assert_eq!(world.get(&id(&before)).await, before);
    assert_eq!(world.traces().await, traces);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_update_is_sent_to_the_eshops_that_have_or_lose_the_product(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let (own, second) = (world.api.tenant.eshop, world.eshop().await);
    let product = world.add("sku", json!({})).await;
    let [loses, gains] =
        [world.webhook(own.get(), "product_change").await, world.webhook(second, "product_change").await];
    let change = json!({"eshops": [second], "productSku": "new sku"});
    // the other e-shop has not heard of the product before
    let mut all = world.put(&product, change).await.expect(200).json();
    assert_eq!(
        (&all["eshops"], &all["name"], &all["description"]),
        (&json!([second]), &json!("Anchor"), &Value::Null)
    );
    for own in ["id", "organisation", "createdAt", "changedAt", "version"] {
        all.as_object_mut().unwrap().remove(own).unwrap();
    }
    let expected = json!({
        "id": product, "organisation": world.api.tenant.organisation, "productSku": "new sku",
        "changedFields": ["eshops", "productSku"], "fields": all, "version": 2,
    });
    assert_eq!(world.last_event().await, expected);
    let heard: Vec<Uuid> = sqlx::query_scalar("SELECT webhook_id FROM delivery ORDER BY webhook_id = $1")
        .bind(gains)
        .fetch_all(&world.owner)
        .await
        .unwrap();
    assert_eq!(heard, [loses, gains]);
    // from now on only the other e-shop gets events
    world.put(&product, json!({"weight": 1})).await.expect(200);
    assert_eq!(world.traces().await, [3, 2, 3]);
}

#[tokio::test]
async fn the_organisation_and_a_taken_sku_are_refused() {
    let world = World::new(&strangers().await).await;
    let (stranger, theirs) = world.stranger().await;
    let product = world.add("sku", json!({})).await;
    let taken = world.add("taken", json!({})).await;
    for organisation in [json!(stranger.organisation), json!(Uuid::nil())] {
        let reply = world.put(&product, json!({"organisation": organisation})).await.expect(400);
        assert_eq!(reply.violations(), ["organisation not_allowed"]);
        let path = format!("{PATH}/{product}");
        let body = json!({"organisation": organisation, "eshops": [stranger.eshop]});
        let reply = world.api.put(&world.api.superadmin, &path, body).await.expect(400);
        assert_eq!(reply.violations(), ["organisation not_allowed", "eshops[0] unknown_reference"]);
    }
    world.put(&product, json!({"organisation": world.api.tenant.organisation})).await.expect(200);
    let reply = world.put(&product, json!({"productSku": "taken"})).await.expect(400);
    assert_eq!(reply.violations(), ["productSku already_taken"]);
    let parameters = json!({"{{ value }}": "taken", "{{ id }}": taken});
    assert_eq!(reply.json()["violations"][0]["parameters"], parameters);
    world.put(&product, json!({"productSku": "theirs"})).await.expect(200);
    let reply = world.put(&product, json!({"eshops": [stranger.eshop]})).await.expect(400);
    assert_eq!(reply.violations(), ["eshops[0] unknown_reference"]);
    let child = json!({"type": "bundle", "childrenProducts": [{"productId": theirs, "quantity": 1}]});
    let reply = world.put(&product, child).await.expect(400);
    assert_eq!(reply.violations(), ["childrenProducts[0].productId unknown_reference"]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_rules_of_bundles_apply_to_the_updated_record(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (rope, hook) = (world.add("rope", json!({})).await, world.add("hook", json!({})).await);
    let children = |id: &str| json!([{"productId": id, "quantity": 1}]);
    let set = world.add("set", json!({"type": "bundle", "childrenProducts": children(&rope)})).await;
    for (product, body, expected) in [
        (&set, json!({"type": "physical"}), "childrenProducts not_allowed"),
        (&set, json!({"type": null}), "childrenProducts not_allowed"),
        (&set, json!({"childrenProducts": null}), "childrenProducts required"),
        (&set, json!({"childrenProducts": []}), "childrenProducts required"),
        (&set, json!({"childrenProducts": children(&set)}), "childrenProducts[0].productId not_allowed"),
        (&hook, json!({"type": "bundle"}), "childrenProducts required"),
        (&hook, json!({"childrenProducts": children(&rope)}), "childrenProducts not_allowed"),
        (
            &hook,
            json!({"type": "bundle", "childrenProducts": children(&hook)}),
            "childrenProducts[0].productId not_allowed",
        ),
        // a child stays physical
        (&rope, json!({"type": "virtual"}), "type not_allowed"),
        (&rope, json!({"type": "bundle", "childrenProducts": children(&hook)}), "type not_allowed"),
    ] {
        let reply = world.put(product, body.clone()).await.expect(400);
        assert_eq!(reply.violations(), [expected], "{body}");
    }
    // when it is no longer a child, its type may change; a product that is no longer a bundle frees its
    // children
    world.put(&set, json!({"type": "virtual", "childrenProducts": null})).await.expect(200);
    assert_eq!(world.count("SELECT count(*) FROM product_child").await, 0);
    world.put(&rope, json!({"type": "virtual"})).await.expect(200);
    world.put(&set, json!({"type": "bundle", "childrenProducts": children(&hook)})).await.expect(200);
    let (_, changes) = world.audited(&set).await;
    assert_eq!(changes, json!({"type": ["virtual", "bundle"], "childrenProducts": [null, children(&hook)]}));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_product_that_becomes_a_child_meanwhile_stays_physical(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let rope = world.add("rope", json!({})).await;
    let set = world.add("set", json!({"type": "virtual"})).await;
    let mut gate = world.owner.begin().await.unwrap();
    sqlx::query(
        "WITH child AS (SELECT id FROM product WHERE id = $2::uuid FOR SHARE),
              bundle AS (UPDATE product SET type = 'bundle' WHERE id = $1::uuid RETURNING id)
         INSERT INTO product_child (bundle_id, product_id, quantity, position)
         SELECT bundle.id, child.id, 1, 1 FROM bundle, child",
    )
    .bind(&set)
    .bind(&rope)
    .execute(&mut *gate)
    .await
    .unwrap();
    let compose = async {
        world.blocked(1).await;
        gate.commit().await.unwrap();
    };
    let (reply, ()) = tokio::join!(world.put(&rope, json!({"type": "virtual"})), compose);
    assert_eq!(reply.expect(400).violations(), ["type not_allowed"]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_product_in_stock_stays_physical(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let rope = world.add("rope", json!({})).await;
    let stock = |quantity: i32| {
        sqlx::query(
            "INSERT INTO product_stock (id, organisation_id, product_id, warehouse_id, wms_id, quantity)
             SELECT uuid_v7(), organisation_id, id, $2, $3, $4 FROM product WHERE id = $1::uuid
             ON CONFLICT (product_id, warehouse_id, wms_id) DO UPDATE SET quantity = excluded.quantity",
        )
        .bind(&rope)
        .bind(world.api.tenant.warehouse)
        .bind(world.api.tenant.wms)
        .bind(quantity)
        .execute(&world.owner)
    };
    stock(5).await.unwrap();
    let reply = world.put(&rope, json!({"type": "virtual"})).await;
    assert_eq!(reply.expect(400).violations(), ["type in_stock"]);
    stock(0).await.unwrap();
    world.put(&rope, json!({"type": "virtual"})).await.expect(200);
}

#[tokio::test]
async fn only_the_expected_version_is_changed() {
    let world = World::new(&strangers().await).await;
    let made = world.post(world.body("sku")).await.expect(201);
    let (product, first) = (id(&made.json()), made.header("etag").unwrap().to_owned());
    let second = world.put_if(&product, json!({"weight": 1}), &first).await.expect(200);
    let second = second.header("etag").unwrap().to_owned();
    assert_ne!(first, second);
    for tags in [&first, "W/\"1\"", "\"x\", \"y\""] {
        let stale = world.put_if(&product, json!({"weight": 2}), tags).await;
        assert_eq!(stale.status.as_u16(), 412, "{tags}: {}", stale.text);
        assert_eq!(stale.json()["code"], "precondition_failed");
    }
    for tags in ["2", "\"", "\"\u{e4}\"", "\"2\", 3", " "] {
        let unreadable = world.put_if(&product, json!({"weight": 2}), tags).await.expect(400).json();
        assert_eq!((&unreadable["code"], tags), (&json!("invalid_header"), tags), "{unreadable}");
    }
    // an update without changes is refused like any other
    world.put_if(&product, json!({}), &first).await.expect(412);
    assert_eq!(world.get(&product).await["weight"], 1);
    let third = world.put_if(&product, json!({"weight": 2}), &format!("{first}, {second}")).await.expect(200);
    world.put_if(&product, json!({"weight": 3}), "*").await.expect(200);
    // as a proxy that compresses has made it
    world.put_if(&product, json!({"weight": 3}), "W/\"4\"").await.expect(200);
    world.put_if(&product, json!({"weight": 4}), third.header("etag").unwrap()).await.expect(412);
    world.put_if(&Uuid::nil().to_string(), json!({"weight": 4}), "*").await.expect(404);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn concurrent_updates_both_take_effect(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let product = world.add("sku", json!({})).await;
    let mut gate = world.owner.begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE product IN SHARE MODE").execute(&mut *gate).await.unwrap();
    let race = async {
        tokio::join!(world.put(&product, json!({"name": "Rope"})), world.put(&product, json!({"weight": 7})))
    };
    let open = async {
        // written by one statement, or one after another
        world.blocked(1).await;
        gate.rollback().await.unwrap();
    };
    let ((one, other), ()) = tokio::join!(race, open);
    one.expect(200);
    other.expect(200);
    let after = world.get(&product).await;
    assert_eq!((&after["name"], &after["weight"]), (&json!("Rope"), &json!(7)));
    assert_eq!(world.traces().await, [3, 0, 0]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn concurrent_updates_each_keep_their_caller_and_their_request(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.webhook(world.api.tenant.eshop.get(), "product_change").await;
    let mut products = Vec::new();
    for n in 0..40 {
        products.push(world.add(&format!("sku {n}"), json!({})).await);
    }
    let callers = [&world.api.user, &world.api.superadmin];
    let updates = products.iter().zip(0..).map(|(product, n)| {
        let (path, request) = (format!("{PATH}/{product}"), format!("request-{n}"));
        let body = json!({"name": format!("Rope {n}"), "active": n % 3 == 0});
        let world = &world;
        async move {
            let headers = [("x-request-id", request.as_str())];
            world.api.call_with(callers[n % 2], Method::PUT, &path, body, &headers).await.expect(200).json()
        }
    });
    for (updated, n) in futures::future::join_all(updates).await.iter().zip(0..) {
        assert_eq!(updated["name"], json!(format!("Rope {n}")));
        assert_eq!(&world.get(&products[n]).await, updated);
    }
    let as_asked: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM unnest($1::uuid[]) WITH ORDINALITY AS p (id, n)
         JOIN audit a ON a.entity_id = p.id AND a.action = 'product.update' AND a.request_id = 'request-' || (n - 1)
         JOIN access_token t ON t.id = a.actor_id AND t.name = a.actor_name
          AND (t.role = 'superadmin') = ((n - 1) % 2 = 1)
         JOIN event e ON e.entity_id = p.id AND e.request_id = a.request_id
          AND e.data -> 'fields' ->> 'name' = 'Rope ' || (n - 1)
         JOIN delivery d ON d.event_id = e.id",
    )
    .bind(products.iter().map(|id| id.parse().unwrap()).collect::<Vec<Uuid>>())
    .fetch_one(&world.owner)
    .await
    .unwrap();
    assert_eq!(as_asked, 40);
    assert_eq!(world.traces().await, [80, 80, 80]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_update_that_has_to_wait_delays_no_other(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (rope, hook) = (world.add("rope", json!({})).await, world.add("hook", json!({})).await);
    let mut gate = world.owner.begin().await.unwrap();
    sqlx::query("SELECT FROM product WHERE id = $1::uuid FOR UPDATE")
        .bind(&rope)
        .execute(&mut *gate)
        .await
        .unwrap();
    let others = async {
        world.blocked(1).await;
        world.put(&hook, json!({"name": "Hook"})).await.expect(200);
        gate.rollback().await.unwrap();
    };
    let (waited, ()) = tokio::join!(world.put(&rope, json!({"name": "Rope"})), others);
    waited.expect(200);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_update_that_only_the_database_refuses_fails_alone(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let mut products = Vec::new();
    for n in 0..12 {
        products.push(world.add(&format!("sku {n}"), json!({})).await);
    }
    let refuse = "ALTER TABLE product ADD CONSTRAINT made_to_refuse CHECK (name <> 'Refused')";
    sqlx::raw_sql(refuse).execute(&world.owner).await.unwrap();
    let updates = products.iter().zip(0..).map(|(product, n)| {
        let name = if n == 5 { "Refused" } else { "Rope" };
        world.put(product, json!({ "name": name }))
    });
    for (reply, n) in futures::future::join_all(updates).await.into_iter().zip(0..) {
        reply.expect(if n == 5 { 409 } else { 200 });
    }
    assert_eq!(world.count("SELECT count(*) FROM audit WHERE action = 'product.update'").await, 11);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn updates_that_lose_a_race_together_are_retried_one_by_one(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let mut products = Vec::new();
    for n in 0..12 {
        products.push(world.add(&format!("sku {n}"), json!({})).await);
    }
    // a sequence is not rolled back with its transaction
    let lose = "CREATE SEQUENCE writes;
                CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
                BEGIN
                    IF nextval('writes') <= 2 THEN
                        RAISE EXCEPTION USING ERRCODE = '40P01';
                    END IF;
                    RETURN NULL;
                END $$;
                CREATE TRIGGER lose BEFORE UPDATE ON product EXECUTE FUNCTION lose()";
    world.execute(lose).await;
    let updates = products.iter().map(|product| world.put(product, json!({"name": "Rope"})));
    for reply in futures::future::join_all(updates).await {
        reply.expect(200);
    }
    assert_eq!(world.count("SELECT count(*) FROM audit WHERE action = 'product.update'").await, 12);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_update_that_is_overtaken_checks_its_precondition_again(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let made = world.post(world.body("sku")).await.expect(201);
    let product = id(&made.json());
    let mut gate = world.owner.begin().await.unwrap();
    sqlx::raw_sql("UPDATE product SET weight = 1, changed_at = changed_at + interval '1 second'")
        .execute(&mut *gate)
        .await
        .unwrap();
    let overtake = async {
        world.blocked(1).await;
        gate.commit().await.unwrap();
    };
    let (reply, ()) =
        tokio::join!(world.put_if(&product, json!({"name": "Rope"}), made.header("etag").unwrap()), overtake);
    reply.expect(412);
    let after = world.get(&product).await;
    assert_eq!((&after["name"], &after["weight"]), (&json!("Anchor"), &json!(1)));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_update_ends_even_with_many_others_of_the_same_product(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let product = world.add("sku", json!({})).await;
    let updates = (0..24).map(|n| world.put(&product, json!({"referenceNumbers": [n.to_string()]})));
    for reply in futures::future::join_all(updates).await {
        reply.expect(200);
    }
    assert_eq!(world.count("SELECT count(*) FROM audit WHERE action = 'product.update'").await, 24);
    // each started from a different state
    let starts = "SELECT count(DISTINCT changes -> 'referenceNumbers' -> 0) FROM audit WHERE action = 'product.update'";
    assert_eq!(world.count(starts).await, 24);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn one_of_two_concurrent_updates_to_a_sku_is_refused(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (rope, hook) = (world.add("rope", json!({})).await, world.add("hook", json!({})).await);
    let mut gate = world.owner.begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE product IN SHARE MODE").execute(&mut *gate).await.unwrap();
    let sku = || json!({"productSku": "sku"});
    let race = async { tokio::join!(world.put(&rope, sku()), world.put(&hook, sku())) };
    let open = async {
        world.blocked(2).await;
        gate.rollback().await.unwrap();
    };
    let ((one, other), ()) = tokio::join!(race, open);
    let (won, lost) = if one.status.as_u16() == 200 { (one, other) } else { (other, one) };
    won.expect(200);
    assert_eq!(lost.expect(400).violations(), ["productSku already_taken"]);
    assert_eq!(world.traces().await, [3, 0, 0]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn only_one_of_two_products_can_become_the_child_of_the_other(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let (rope, hook) = (world.add("rope", json!({})).await, world.add("hook", json!({})).await);
    let set_of = |id: &str| json!({"type": "bundle", "childrenProducts": [{"productId": id, "quantity": 1}]});
    let mut gate = world.owner.begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE product_child IN SHARE MODE").execute(&mut *gate).await.unwrap();
    let race = async { tokio::join!(world.put(&rope, set_of(&hook)), world.put(&hook, set_of(&rope))) };
    // one has locked both products and is about to make the other its child; the other waits for the locks
    let open = async {
        world.blocked(2).await;
        gate.rollback().await.unwrap();
    };
    let ((one, other), ()) = tokio::join!(race, open);
    let (won, lost) = if one.status.as_u16() == 200 { (one, other) } else { (other, one) };
    won.expect(200);
    let violations = lost.expect(400).violations();
    assert_eq!(violations, ["childrenProducts[0].productId not_allowed", "type not_allowed"]);
    assert_eq!(world.count("SELECT count(*) FROM product_child").await, 1);
}
