//! Activating and deactivating single products (`docs/reference/products.md#activation`).

use http::Method;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{MIGRATIONS, PATH, World, id};

/// Both paths of an operation on a product.
fn spellings(verb: &str, id: &str) -> [String; 2] {
    [format!("{PATH}/{verb}/{id}"), format!("{PATH}/{id}/{verb}")]
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn both_paths_switch_a_product_on_and_off(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let product = world.add("sku", json!({})).await;
    for spelling in [0, 1] {
        for (verb, active) in [("deactivate", false), ("activate", true)] {
            let path = &spellings(verb, &product)[spelling];
            let reply = world.api.put(&world.api.user, path, Value::Null).await.expect(204);
            assert_eq!(reply.text, "");
            assert_eq!(world.get(&product).await["active"], active);
        }
    }
    assert_eq!(world.traces().await, [5, 0, 0]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_outdated_version_is_not_switched(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let product = world.add("sku", json!({})).await;
    let record = format!("{PATH}/{product}");
    let tag = async || {
        let reply = world.api.get(&world.api.user, &record).await.expect(200);
        reply.header("etag").unwrap().to_owned()
    };
    let switch = async |path: &str, tag: &str| {
        let headers = [("if-match", tag)];
        world.api.call_with(&world.api.user, Method::PUT, path, Value::Null, &headers).await
    };
    for spelling in [0, 1] {
        for (verb, active) in [("deactivate", false), ("activate", true)] {
            let path = &spellings(verb, &product)[spelling];
            let seen = tag().await;
            let refused = switch(path, "\"0\"").await.expect(412);
            assert_eq!(refused.json()["code"], "precondition_failed");
            assert_eq!(world.get(&product).await["active"], !active);
            switch(path, &format!("\"0\", {seen}")).await.expect(204);
            assert_eq!(world.get(&product).await["active"], active);
            // it has changed since then
            switch(path, &seen).await.expect(412);
            switch(path, "*").await.expect(204);
        }
    }
    assert_eq!(world.traces().await, [5, 0, 0]);
    let nobody = spellings("activate", &Uuid::nil().to_string());
    switch(&nobody[0], "*").await.expect(404);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn unknown_foreign_and_malformed_ids_are_refused(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (_, theirs) = world.stranger().await;
    let product = world.add("sku", json!({})).await;
    for verb in ["activate", "deactivate"] {
        for (id, status, code) in [
            (theirs.as_str(), 404, "not_found"),
            (&Uuid::nil().to_string(), 404, "not_found"),
            ("sku", 400, "invalid_id"),
            (&product.replace('-', ""), 400, "invalid_id"),
        ] {
            for path in spellings(verb, id) {
                let reply = world.api.put(&world.api.user, &path, Value::Null).await;
                assert_eq!(reply.status.as_u16(), status, "{path}: {}", reply.text);
                assert_eq!(reply.json()["code"], code);
            }
        }
    }
    assert_eq!(world.traces().await, [2, 0, 0]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn only_a_difference_is_audited_sent_and_dated(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (second, own) = (world.eshop().await, world.api.tenant.eshop);
    let before = world.create("sku", json!({"eshops": [own, second]})).await;
    let product = id(&before);
    world.webhook(own.get(), "product_change").await;
    world.webhook(second, "*").await;
    world.api.put(&world.api.user, &spellings("activate", &product)[0], Value::Null).await.expect(204);
    assert_eq!((world.get(&product).await, world.traces().await), (before.clone(), [1, 0, 0]));

    let headers = [("x-request-id", "request-8")];
    let path = &spellings("deactivate", &product)[0];
    world.api.call_with(&world.api.user, Method::PUT, path, Value::Null, &headers).await.expect(204);
    assert_eq!(world.traces().await, [2, 1, 2]);
    assert_eq!(
        world.audited(&product).await,
        ("product.deactivate".to_owned(), json!({"active": [true, false]}))
    );
    let expected = json!({
        "id": product, "organisation": world.api.tenant.organisation, "productSku": "sku",
        "changedFields": ["active"], "fields": {"active": false}, "version": 2,
    });
    assert_eq!(world.last_event().await, expected);
    let requested = world
        .count("SELECT count(*) FROM audit WHERE request_id = 'request-8' AND actor_name = 'user of a test'");
    assert_eq!(requested.await, 1);
    let after = world.get(&product).await;
    assert!(after["changedAt"].as_str().unwrap() > before["changedAt"].as_str().unwrap());
    world.api.put(&world.api.user, path, Value::Null).await.expect(204);
    assert_eq!((world.get(&product).await, world.traces().await), (after, [2, 1, 2]));
    world.api.put(&world.api.user, &spellings("activate", &product)[1], Value::Null).await.expect(204);
    assert_eq!(
        world.audited(&product).await,
        ("product.activate".to_owned(), json!({"active": [false, true]}))
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_activation_never_overwrites_a_newer_one(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let before = world.create("sku", json!({})).await;
    let product = id(&before);
    // a later request was executed already
    world.execute("UPDATE product SET active_acceptance = nextval('acceptance') + 100").await;
    for path in spellings("deactivate", &product) {
        world.api.put(&world.api.user, &path, Value::Null).await.expect(204);
    }
    assert_eq!((world.get(&product).await, world.traces().await), (before, [1, 0, 0]));
    world.execute("SELECT setval('acceptance', (SELECT active_acceptance FROM product))").await;
    world.api.put(&world.api.user, &spellings("deactivate", &product)[0], Value::Null).await.expect(204);
    assert_eq!(world.get(&product).await["active"], false);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn every_request_with_active_takes_a_number_and_no_other_does(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let product = world.add("sku", json!({})).await;
    let number = async || world.count("SELECT active_acceptance FROM product").await;
    let mut last = number().await;
    assert!(last > 0);
    world.put(&product, json!({"name": "Rope"})).await.expect(200);
    assert_eq!(number().await, last);
    for body in [json!({"active": false}), json!({"active": false}), json!({"active": true, "weight": 1})] {
        world.put(&product, body.clone()).await.expect(200);
        assert!(number().await > last, "{body}");
        last = number().await;
    }
    // even if the product already has that state
    world.api.put(&world.api.user, &spellings("activate", &product)[0], Value::Null).await.expect(204);
    assert!(number().await > last);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_activation_that_waited_for_a_newer_one_has_no_effect(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let product = world.add("sku", json!({})).await;
    let mut gate = world.owner.begin().await.unwrap();
    sqlx::raw_sql("SELECT FROM product FOR UPDATE").execute(&mut *gate).await.unwrap();
    let overtake = async {
        world.blocked(1).await;
        sqlx::raw_sql("UPDATE product SET active_acceptance = nextval('acceptance')")
            .execute(&mut *gate)
            .await
            .unwrap();
        gate.commit().await.unwrap();
    };
    let path = &spellings("deactivate", &product)[0];
    let (reply, ()) = tokio::join!(world.api.put(&world.api.user, path, Value::Null), overtake);
    reply.expect(204);
    assert_eq!(world.get(&product).await["active"], true);
    assert_eq!(world.traces().await, [1, 0, 0]);
}
