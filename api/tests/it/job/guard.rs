//! Guards of syncs, as their callers set and release them (`docs/reference/syncs.md#guard`).

use axum::body::Body;
use http::Request;
use longshore_kernel::access::Role;

use super::*;

const PRODUCTS: &str = "/api/partner-integration/eshop/sync/products";

/// What the newest job has of its guard.
async fn guard(world: &World) -> Value {
    sqlx::query_scalar(
        "SELECT coalesce(parameters -> 'guard', 'null') FROM job ORDER BY created_at DESC LIMIT 1",
    )
    .fetch_one(&world.owner)
    .await
    .unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_guard_is_read_in_every_form(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    let eshop = api.tenant.eshop;
    let row = json!({"productSku": "MUG-1", "name": "Mug"});
    let of = |guard: Value| json!({"eshop": eshop, "guard": guard, "products": [row]});
    api.post(&api.user, PRODUCTS, of(json!({"maxDeactivated": "20%", "maxZeroed": 5}))).await.expect(200);
    assert_eq!(guard(&world).await, json!({"maxDeactivated": "20%", "maxZeroed": 5}));
    for (wrong, path) in [
        (json!({"maxDeactivated": "20 %"}), "guard.maxDeactivated"),
        (json!({"maxCancelled": "101%"}), "guard.maxCancelled"),
        (json!({"maxZeroed": -1}), "guard.maxZeroed"),
        (json!({"maxDeleted": 1}), "guard.maxDeleted"),
        (json!(5), "guard"),
    ] {
        let refused = api.post(&api.user, PRODUCTS, of(wrong.clone())).await.expect(400).json();
        assert_eq!(refused["violations"][0]["propertyPath"], path, "{wrong}: {refused}");
    }
    let pushed = async |path: &str, media: &str, rows: String| {
        let request = Request::post(path)
            .header("authorization", format!("Bearer {}", api.user))
            .header("content-type", media);
        api.send(request.body(Body::from(rows)).unwrap()).await
    };
    let lines = format!("{}\n{row}\n", json!({"eshop": eshop, "guard": {"maxDeactivated": 7}}));
    pushed(PRODUCTS, "application/x-ndjson", lines.clone()).await.expect(200);
    assert_eq!(guard(&world).await, json!({"maxDeactivated": 7}));
    let csv = "productSku,name\nMUG-1,Mug\n".to_owned();
    let query = format!("{PRODUCTS}?eshop={eshop}&guard.maxDeactivated=0.5%25&guard.maxCancelled=3");
    pushed(&query, "text/csv", csv.clone()).await.expect(200);
    assert_eq!(guard(&world).await, json!({"maxDeactivated": "0.5%", "maxCancelled": 3}));
    let query = format!("{PRODUCTS}?eshop={eshop}&guard.maxDeactivated=some");
    let refused = pushed(&query, "text/csv", csv).await.expect(400).json();
    assert_eq!(refused["violations"][0]["propertyPath"], "guard.maxDeactivated");
    // what is in the query of another form would be passed over
    let query = format!("{PRODUCTS}?guard.maxDeactivated=1");
    let refused = pushed(&query, "application/x-ndjson", lines).await.expect(400).json();
    assert_eq!(refused["violations"][0]["propertyPath"], "guard.maxDeactivated");
    let query = format!("{PRODUCT}/deactivate?dryRun=true");
    let refused = api.put(&api.user, &query, json!([Uuid::max()])).await.expect(400).json();
    assert_eq!(refused["violations"][0]["propertyPath"], "dryRun");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_new_integration_setting_has_a_guard_and_keeps_what_it_has(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let api = &world.api;
    let path = format!("/api/partner-integration/eshop-setting/{}", api.tenant.eshop);
    let setting = |more: Value| {
        let mut body = json!({"integrationType": "feed", "baseUrl": "https://feed.example/"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let stored = api.post(&api.user, &path, setting(json!({}))).await.expect(200).json();
    assert_eq!(stored["guard"], json!({"maxDeactivated": "20%"}));
    let none = api.post(&api.user, &path, setting(json!({"guard": null}))).await.expect(200).json();
    assert_eq!(none["guard"], Value::Null);
    let kept = api.post(&api.user, &path, setting(json!({"active": false}))).await.expect(200).json();
    assert_eq!(kept["guard"], Value::Null, "what says nothing of it leaves it");
    let other = setting(json!({"guard": {"maxDeactivated": 100, "maxZeroed": "50%"}}));
    let stored = api.post(&api.user, &path, other).await.expect(200).json();
    assert_eq!(stored["guard"], json!({"maxDeactivated": 100, "maxZeroed": "50%"}));
    let audited = "SELECT count(*) FROM audit WHERE changes -> 'guard' = '[null, {\"maxZeroed\": \"50%\", \"maxDeactivated\": 100}]'";
    assert_eq!(world.count(audited).await, 1);
    // what is shown can be sent back
    let mut echo = api.get(&api.user, &path).await.expect(200).json();
    echo["credentials"] = json!({"type": "none"});
    api.post(&api.user, &path, echo).await.expect(200);
    // its pulls have it
    api.post(&api.user, PRODUCTS, json!({"eshop": api.tenant.eshop, "inventoryId": "307"})).await.expect(200);
    assert_eq!(guard(&world).await, json!({"maxDeactivated": 100, "maxZeroed": "50%"}));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_is_withheld_is_listed_and_released_by_people(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    let product = world.add("MUG-1", json!({})).await;
    let body = json!({"eshop": api.tenant.eshop, "guard": {"maxDeactivated": 0}, "products": [{"productSku": "MUG-1", "active": false}]});
    let job = api.post(&api.user, PRODUCTS, body).await.expect(200).json()["id"].as_str().unwrap().to_owned();
    let path = format!("/api/job/{job}/release");
    let early = api.post(&api.user, &path, json!({"upTo": 5})).await.expect(409).json();
    assert_eq!(early["code"], "conflict");
    // as the worker leaves it
    sqlx::query(
        "WITH ended AS (
             UPDATE job SET state = 'succeeded', chunks_open = 0, done = 1, withheld = 1, finished_at = now(),
                 parameters = parameters || '{\"guardBase\": 1}' WHERE id = $1::uuid RETURNING acceptance, organisation_id
         ), chunks AS (
             UPDATE job_chunk SET state = 'succeeded' WHERE job_id = $1::uuid
         )
         INSERT INTO job_withheld (job_id, index, key, entity_id, organisation_id, field, changes, acceptance, payload)
         SELECT $1::uuid, 0, 'MUG-1', $2::uuid, organisation_id, 'active', '{\"active\": [true, false]}', acceptance,
                '{\"productSku\": \"MUG-1\", \"active\": false}'
         FROM ended",
    )
    .bind(&job)
    .bind(&product)
    .execute(&world.owner)
    .await
    .unwrap();
    let shown = api.get(&api.user, &format!("/api/job/{job}")).await.expect(200).json();
    assert_eq!((&shown["outcome"], &shown["progress"]["withheld"]), (&json!("withheld"), &json!(1)));
    let items =
        api.post(&api.viewer, &format!("/api/job/{job}/preview/list"), json!({})).await.expect(200).json();
    let expected = json!({"index": 0, "line": null, "key": "MUG-1", "would": "update", "id": product,
                          "changes": {"active": [true, false]}, "code": null, "message": null});
    assert_eq!(items["results"], json!([expected]));
    let attention = api.get(&api.superadmin, "/api/attention").await.expect(200).json();
    let lines: Vec<&Value> =
        attention["lines"].as_array().unwrap().iter().filter(|line| line["kind"] == "withheld").collect();
    let [line] = lines[..] else { panic!("{attention}") };
    assert_eq!(line["severity"], "critical");
    assert!(
        line["sentence"].as_str().unwrap().ends_with("1 of 1 products would be deactivated; withheld."),
        "{line}"
    );

    for token in [&api.viewer, &api.connector] {
        api.post(token, &path, json!({"upTo": 5})).await.expect(403);
    }
    let (stranger, _) = world.stranger().await;
    let theirs = stranger.token(&api.services, Role::User).await.unwrap();
    api.post(&theirs, &path, json!({"upTo": 5})).await.expect(404);
    api.post(&api.user, &path, json!({})).await.expect(400);
    let differs = api.post(&api.user, &path, json!({"upTo": 0})).await.expect(409).json();
    assert_eq!(
        (&differs["code"], &differs["violations"][0]["propertyPath"]),
        (&json!("count_differs"), &json!("upTo"))
    );
    let released = api.post(&api.user, &path, json!({"upTo": 1})).await.expect(202).json();
    assert_eq!((&released["id"], &released["state"]), (&json!(job), &json!("queued")));
    let chunk = "SELECT count(*) FROM job_chunk c JOIN job j ON j.id = c.job_id
                 WHERE c.state = 'queued' AND c.is_decided AND c.acceptance = j.acceptance";
    assert_eq!(world.count(chunk).await, 1);
    assert_eq!(world.count("SELECT count(*) FROM job_withheld").await, 0);
    api.post(&api.user, &path, json!({"upTo": 1})).await.expect(409);
    let attention = api.get(&api.superadmin, "/api/attention").await.expect(200).json();
    assert!(
        attention["lines"].as_array().unwrap().iter().all(|line| line["kind"] != "withheld"),
        "{attention}"
    );
}
