//! Dry runs, as their callers see them (`docs/reference/jobs.md#dry-run`).

use axum::body::Body;
use http::Request;
use longshore_kernel::access::Role;

use super::*;
use crate::support::Reply;

const DEACTIVATE: &str = "/api/product/deactivate";
const PRODUCTS: &str = "/api/partner-integration/eshop/sync/products";
const AT_ONCE: [(&str, &str); 1] = [("prefer", "respond-async")];

/// Asks for a dry run of a bulk.
async fn tried(world: &World, token: &str, body: Value) -> Reply {
    world.api.call_with(token, Method::PUT, DEACTIVATE, body, &AT_ONCE).await
}

/// Pushes rows in a form; returns the job.
async fn pushed(world: &World, path: &str, media: &str, rows: &str) -> Value {
    let request = Request::post(path)
        .header("authorization", format!("Bearer {}", world.api.user))
        .header("content-type", media)
        .header("prefer", "respond-async");
    world.api.send(request.body(Body::from(rows.to_owned())).unwrap()).await.expect(202).json()
}

/// Ends a dry run as a worker would that found two items to change.
async fn end(world: &World, job: &str) {
    sqlx::query(
        "WITH ended AS (
             UPDATE job SET state = 'succeeded', chunks_open = 0, finished_at = now(), preview_kept_until = now() + interval '1 hour',
                 preview = preview || '{\"updated\": 2, \"rows\": 2}' WHERE id = $1::uuid
         ), chunks AS (
             UPDATE job_chunk SET state = 'succeeded', compared = array_fill('1'::text, ARRAY[item_count]) WHERE job_id = $1::uuid
         )
         INSERT INTO job_preview_row (job_id, index, id, exists, key, would, changes)
         SELECT $1::uuid, n, gen_random_uuid(), n = 1, 'P-' || n, CASE n WHEN 0 THEN 'create' ELSE 'update' END,
                '{\"active\": [true, false]}'
         FROM generate_series(0, 1) AS n",
    )
    .bind(job)
    .execute(&world.owner)
    .await
    .unwrap();
}

fn id(job: &Value) -> String {
    job["id"].as_str().unwrap().to_owned()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn every_form_of_a_push_and_of_a_bulk_can_be_tried(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    let product = world.add("MUG-1", json!({})).await;
    let eshop = api.tenant.eshop;
    let row = json!({"productSku": "MUG-2", "name": "Mug"});
    let document = json!({"eshop": eshop, "dryRun": true, "products": [row]});
    let lines = format!("{}\n{row}\n", json!({"eshop": eshop, "dryRun": true}));
    let jobs = [
        tried(&world, &api.user, json!({"ids": [product], "dryRun": true})).await.expect(202).json(),
        api.call_with(&api.user, Method::POST, PRODUCTS, document, &AT_ONCE).await.expect(202).json(),
        pushed(&world, PRODUCTS, "application/x-ndjson", &lines).await,
        pushed(
            &world,
            &format!("{PRODUCTS}?eshop={eshop}&dryRun=true"),
            "text/csv",
            "productSku,name\nMUG-2,Mug\n",
        )
        .await,
    ];
    for (job, of) in jobs.iter().zip(["product.deactivate", "product.sync", "product.sync", "product.sync"]) {
        assert_eq!((&job["kind"], &job["of"]), (&json!("preview"), &json!(of)), "{job}");
        assert_eq!(job["preview"]["created"], 0, "{job}");
    }
    assert_eq!(
        world.count("SELECT count(*) FROM job WHERE sequence IS NOT NULL").await,
        0,
        "they are in no line"
    );
    // four of an organisation are enough; all else of it is accepted
    let refused = tried(&world, &api.user, json!({"ids": [product], "dryRun": true})).await.expect(429);
    assert_eq!(refused.json()["code"], "share_used");
    assert_eq!(refused.headers["retry-after"], "10");
    tried(&world, &api.user, json!({"ids": [product], "dryRun": false})).await.expect(202);
    let (stranger, foreign) = world.stranger().await;
    let theirs = stranger.token(&api.services, Role::User).await.unwrap();
    tried(&world, &theirs, json!({"ids": [foreign], "dryRun": true})).await.expect(202);

    // a member that is not a boolean, and a pull, which has no rows to try
    let wrong = tried(&world, &api.user, json!({"ids": [product], "dryRun": "yes"})).await.expect(400).json();
    assert_eq!(wrong["violations"][0]["propertyPath"], "dryRun");
    let pull = json!({"eshop": eshop, "inventoryId": "307", "dryRun": true});
    let refused = api.post(&api.user, PRODUCTS, pull).await.expect(400).json();
    assert_eq!(refused["violations"][0]["propertyPath"], "dryRun", "{refused}");
    let jobs = api
        .put(&api.user, "/api/job/cancel", json!({"ids": [Uuid::max()], "dryRun": true}))
        .await
        .expect(400);
    assert_eq!(jobs.json()["violations"][0]["code"], "unknown_field");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_dry_run_is_applied_by_whoever_may_do_it(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    let product = world.add("MUG-1", json!({})).await;
    let job =
        id(&tried(&world, &api.user, json!({"ids": [product], "dryRun": true})).await.expect(202).json());
    let path = format!("/api/job/{job}/apply");
    let early = api.post(&api.user, &path, json!({})).await.expect(409).json();
    assert!(early["detail"].as_str().unwrap().ends_with("this one is queued"), "{early}");
    end(&world, &job).await;
    let (stranger, _) = world.stranger().await;
    let theirs = stranger.token(&api.services, Role::User).await.unwrap();
    api.post(&theirs, &path, json!({})).await.expect(404);
    api.post(&theirs, &format!("/api/job/{job}/preview/list"), Value::Null).await.expect(404);
    api.post(&api.viewer, &path, json!({})).await.expect(403);
    let wrong = api.post(&api.user, &path, json!({"force": 1})).await.expect(400).json();
    assert_eq!(wrong["violations"][0]["propertyPath"], "force");

    let keyed = [("idempotency-key", "once")];
    let applied = api.call_with(&api.user, Method::POST, &path, Value::Null, &keyed).await.expect(202).json();
    assert_eq!((&applied["kind"], &applied["of"]), (&json!("product.deactivate"), &Value::Null));
    assert_eq!(applied["progress"]["total"], 1);
    let replayed =
        api.call_with(&api.user, Method::POST, &path, Value::Null, &keyed).await.expect(202).json();
    assert_eq!(replayed["id"], applied["id"]);
    let again = api.post(&api.user, &path, json!({})).await.expect(409).json();
    assert!(again["detail"].as_str().unwrap().ends_with(&id(&applied)), "{again}");
    let chunks = "SELECT count(*) FROM job_chunk c JOIN job j ON j.id = c.job_id
                  WHERE j.kind = 'product.deactivate' AND c.compared = ARRAY['1'] AND c.payload IS NOT NULL";
    assert_eq!(world.count(chunks).await, 1);
    let of_another = api.post(&api.user, &format!("/api/job/{}/apply", id(&applied)), json!({})).await;
    assert_eq!(of_another.expect(409).json()["detail"], "only a dry run can be applied");
    api.put(&api.user, &format!("/api/job/retry/{job}"), Value::Null).await.expect(409);

    // what a connector may not do, it may not apply
    let redelivery = json!({"ids": [Uuid::max()], "dryRun": true});
    let path = "/api/webhook-delivery/redeliver";
    let job = id(&api.put(&api.user, path, redelivery).await.expect(202).json());
    end(&world, &job).await;
    let connector = api.tenant.token(&api.services, Role::Connector).await.unwrap();
    api.get(&connector, &format!("/api/job/{job}")).await.expect(200);
    api.post(&connector, &format!("/api/job/{job}/apply"), json!({"force": true})).await.expect(403);
    api.post(&api.user, &format!("/api/job/{job}/apply"), json!({"force": true})).await.expect(202);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_a_dry_run_would_do_is_a_list(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    let product = world.add("MUG-1", json!({})).await;
    let [job, other] = [0, 1].map(|_| json!({"ids": [product], "dryRun": true}));
    let job = id(&tried(&world, &api.user, job).await.expect(202).json());
    let other = id(&tried(&world, &api.user, other).await.expect(202).json());
    end(&world, &job).await;
    end(&world, &other).await;
    let path = format!("/api/job/{job}/preview/list");
    let items = api.post(&api.viewer, &path, Value::Null).await.expect(200).json();
    assert_eq!(items["paging"]["total"], 2);
    let page = api.post(&api.viewer, &path, json!({"limit": 1, "count": "exact"})).await.expect(200).json();
    assert_eq!((&page["paging"]["total"], &page["results"][0]), (&json!(2), &items["results"][0]));
    let first = &items["results"][0];
    assert_eq!(
        (&first["would"], &first["id"], &first["key"]),
        (&json!("create"), &Value::Null, &json!("P-0"))
    );
    assert!(items["results"][1]["id"].is_string());
    let body = json!({"criteria": {"would": {"eq": "update"}}, "select": ["key", "changes"]});
    let items = api.post(&api.user, &path, body.clone()).await.expect(200).json();
    assert_eq!(items["results"], json!([{"key": "P-1", "changes": {"active": [true, false]}}]));
    let csv =
        api.call_with(&api.user, Method::POST, &path, body, &[("accept", "text/csv")]).await.expect(200);
    assert!(csv.text.contains("\r\nP-1,\"{\"\"active\"\":[true,false]}\"\r\n"), "{}", csv.text);
    let shown = api.get(&api.user, &format!("/api/job/{job}")).await.expect(200).json();
    let sums = json!({"created": 0, "updated": 2, "unchanged": 0, "refused": 0, "deactivated": 0, "zeroed": 0, "booked": 0,
                      "waiting": 0, "deliveries": 0});
    assert_eq!(shown["preview"], sums);
    let found =
        api.post(&api.user, "/api/job/list", json!({"criteria": {"of": {"eq": "product.deactivate"}}})).await;
    assert_eq!(found.expect(200).json()["paging"]["total"], 2);
}
