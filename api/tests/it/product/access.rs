//! Permissions on products (`docs/reference/roles.md#permissions`).

use http::Method;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{MIGRATIONS, PATH, World, body, id};
use crate::support::strangers;

use longshore_kernel::ids::OrganisationId;

/// Every operation that changes a product.
fn writes(world: &World, id: &str) -> Vec<(Method, String, Value)> {
    vec![
        (Method::POST, PATH.to_owned(), world.body("new")),
        (Method::PUT, format!("{PATH}/{id}"), json!({"weight": 1})),
        (Method::PUT, format!("{PATH}/activate/{id}"), Value::Null),
        (Method::PUT, format!("{PATH}/{id}/activate"), Value::Null),
        (Method::PUT, format!("{PATH}/deactivate/{id}"), Value::Null),
        (Method::PUT, format!("{PATH}/{id}/deactivate"), Value::Null),
        (Method::PUT, format!("{PATH}/activate"), json!([id])),
        (Method::PUT, format!("{PATH}/deactivate"), json!([id])),
    ]
}

#[tokio::test]
async fn without_a_valid_token_nothing_is_revealed() {
    let world = World::new(&strangers().await).await;
    let product = world.add("sku", json!({})).await;
    let mut operations = writes(&world, &product);
    operations.push((Method::GET, format!("{PATH}/{product}"), Value::Null));
    operations.push((Method::POST, format!("{PATH}/list"), Value::Null));
    for (method, path, body) in operations {
        for token in ["lsh_nonsense", ""] {
            let reply = world.api.call_with(token, method.clone(), &path, body.clone(), &[]).await;
            assert_eq!(reply.status.as_u16(), 401, "{method} {path}: {}", reply.text);
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
            assert_eq!(reply.json()["code"], "unauthenticated");
        }
        let request = http::Request::builder().method(method).uri(path).body(axum::body::Body::empty());
        world.api.send(request.unwrap()).await.expect(401);
    }
}

#[tokio::test]
async fn a_viewer_reads_and_a_connector_writes() {
    let world = World::new(&strangers().await).await;
    let product = world.add("sku", json!({})).await;
    for (method, path, body) in writes(&world, &product) {
        let call = async |token: &str| {
            let prefer = [("prefer", "respond-async")];
            world.api.call_with(token, method.clone(), &path, body.clone(), &prefer).await
        };
        let refused = call(&world.api.viewer).await;
        assert_eq!(refused.status.as_u16(), 403, "{method} {path}: {}", refused.text);
        assert_eq!(refused.json()["code"], "forbidden");
        let done = call(&world.api.connector).await;
        assert!(done.status.is_success(), "{method} {path}: {}", done.text);
    }
    world.api.get(&world.api.viewer, &format!("{PATH}/{product}")).await.expect(200);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_product_of_another_organisation_is_not_found(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (stranger, theirs) = world.stranger().await;
    for token in [&world.api.user, &world.api.connector] {
        for id in [theirs.as_str(), &Uuid::nil().to_string()] {
            let path = format!("{PATH}/{id}");
            // even if the body or the precondition would be refused
            for body in [json!({"name": "Mine"}), json!({}), json!({"colour": "red"})] {
                let reply = world.api.put(token, &path, body).await.expect(404);
                assert_eq!(reply.json()["code"], "not_found");
            }
            let stale = [("if-match", "\"0\"")];
            world.api.call_with(token, Method::PUT, &path, json!({}), &stale).await.expect(404);
            world.api.get(token, &path).await.expect(404);
        }
        let reply = world.api.put(token, &format!("{PATH}/sku"), json!({})).await.expect(400);
        assert_eq!(reply.json()["code"], "invalid_id");
    }
    // a caller with access to everything may change it, and the audit names the organisation
    let path = format!("{PATH}/{theirs}");
    world.api.put(&world.api.superadmin, &path, json!({"name": "Theirs"})).await.expect(200);
    let audited: OrganisationId =
        sqlx::query_scalar("SELECT organisation_id FROM audit WHERE action = 'product.update'")
            .fetch_one(&world.owner)
            .await
            .unwrap();
    assert_eq!(audited, stranger.organisation);
}

#[tokio::test]
async fn a_connector_of_one_eshop_has_the_products_of_that_one() {
    let world = World::new(&strangers().await).await;
    let tenant = &world.api.tenant;
    let token = tenant.eshop_token(&world.api.services).await.unwrap();
    let second = world.eshop().await;
    let shared = world.add("shared", json!({"eshops": [tenant.eshop, second]})).await;
    let hidden = world.add("hidden", json!({"eshops": [second]})).await;

    for (method, path, body) in writes(&world, &hidden).into_iter().skip(1).take(5) {
        let reply = world.api.call_with(&token, method.clone(), &path, body, &[]).await;
        assert_eq!(reply.status.as_u16(), 404, "{method} {path}: {}", reply.text);
    }
    world.api.get(&token, &format!("{PATH}/{hidden}")).await.expect(404);

    // it creates only in its own e-shop, and only with children that it sees
    let made = world.api.post(&token, PATH, body(tenant, "own")).await.expect(201).json();
    assert_eq!(world.api.get(&token, &format!("{PATH}/{}", id(&made))).await.expect(200).json(), made);
    let elsewhere = world.body_with("new", &json!({"eshops": [tenant.eshop, second]}));
    let reply = world.api.post(&token, PATH, elsewhere).await.expect(400);
    assert_eq!(reply.violations(), ["eshops[1] unknown_reference"]);
    let bundle = json!({"type": "bundle", "childrenProducts": [{"productId": hidden, "quantity": 1}]});
    let reply = world.api.post(&token, PATH, world.body_with("new", &bundle)).await.expect(400);
    assert_eq!(reply.violations(), ["childrenProducts[0].productId unknown_reference"]);
    // a SKU of an invisible product is taken, too
    let reply = world.api.post(&token, PATH, body(tenant, "hidden")).await.expect(400);
    assert_eq!(reply.violations(), ["productSku already_taken"]);
    assert_eq!(reply.json()["violations"][0]["parameters"], json!({"{{ value }}": "hidden"}));
    let reply = world.api.post(&world.api.user, PATH, body(tenant, "hidden")).await.expect(400);
    assert_eq!(reply.json()["violations"][0]["parameters"]["{{ id }}"], hidden);

    // a shared product stays in the other e-shop
    let path = format!("{PATH}/{shared}");
    let mut both = [tenant.eshop, second.into()];
    both.sort_unstable();
    for eshops in [json!([tenant.eshop]), json!([second, tenant.eshop])] {
        let updated = world.api.put(&token, &path, json!({"eshops": eshops})).await.expect(200).json();
        assert_eq!(updated["eshops"], json!(both));
    }
    let reply = world.api.put(&token, &path, json!({"eshops": [second]})).await.expect(400);
    assert_eq!(reply.violations(), ["eshops required"]);
    let third = world.eshop().await;
    let reply = world.api.put(&token, &path, json!({"eshops": [tenant.eshop, third]})).await.expect(400);
    assert_eq!(reply.violations(), ["eshops[1] unknown_reference"]);
    let updated = world.api.put(&token, &path, json!({"weight": 3})).await.expect(200).json();
    assert_eq!(world.api.get(&token, &path).await.expect(200).json(), updated);
    world.api.put(&token, &format!("{path}/deactivate"), Value::Null).await.expect(204);
    assert_eq!(world.get(&shared).await["active"], false);
}
