//! `/api/audit` (`docs/reference/accounts.md#audit`), and the audit of every change.

mod account;
mod expedition;
mod goods;
mod version;

use std::collections::BTreeSet;

use http::Method;
use longshore_api::openapi;
use longshore_kernel::access::Role;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::product::id;
use crate::stock_advice::{MIGRATIONS, World};
use crate::support::strangers;

const PATH: &str = "/api/audit";

async fn actions(world: &World, token: &str, body: Value) -> Vec<String> {
    let listed = world.api.post(token, PATH, body).await.expect(200).json();
    let results = listed["results"].as_array().unwrap();
    results.iter().map(|record| record["action"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_change_is_audited_with_who_what_when_and_why() {
    let world = World::new(&strangers().await).await;
    let product = world.add("sku", json!({})).await;
    let call = [("x-request-id", "why-1")];
    let path = format!("/api/product/{product}");
    world.api.call_with(&world.api.user, Method::PUT, &path, json!({"weight": 7}), &call).await.expect(200);
    let body = json!({"criteria": {"entity.id": {"eq": product}, "action": {"eq": "product.update"}}});
    let listed = world.api.post(&world.api.user, PATH, body).await.expect(200).json();
    assert_eq!(listed["paging"]["total"], 1);
    let record = &listed["results"][0];
    let fields: BTreeSet<_> = record.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = ["id", "at", "actor", "action", "entity", "organisation", "changes", "requestId", "job"];
    assert_eq!(fields, BTreeSet::from(expected));
    assert_eq!(record["entity"], json!({"type": "product", "id": product}));
    assert_eq!(
        (&record["actor"]["type"], &record["actor"]["name"]),
        (&json!("token"), &json!("user of a test"))
    );
    assert!(record["actor"]["id"].is_string());
    assert_eq!(record["changes"], json!({"weight": [null, 7]}));
    assert_eq!((&record["requestId"], &record["job"]), (&json!("why-1"), &Value::Null));
    assert_eq!(record["organisation"], json!(world.api.tenant.organisation));

    // filtered and sorted by time; by default the oldest first
    let at = &record["at"];
    let since = json!({"criteria": {"at": {"gte": at}}, "limit": 10});
    assert_eq!(actions(&world, &world.api.user, since).await, ["product.update"]);
    let before = json!({"criteria": {"at": {"lt": at}, "entity.id": {"eq": product}}});
    assert_eq!(actions(&world, &world.api.user, before).await, ["product.create"]);
    let of_it = |sort: Value| json!({"criteria": {"entity.id": {"eq": product}}, "sort": sort, "limit": 10});
    let newest = of_it(json!([{"field": "at", "order": "DESC"}]));
    assert_eq!(actions(&world, &world.api.user, newest).await, ["product.update", "product.create"]);
    assert_eq!(
        actions(&world, &world.api.user, of_it(json!([]))).await,
        ["product.create", "product.update"]
    );
    let by_actor =
        json!({"criteria": {"actor.name": {"like": "USER OF"}, "action": {"in": ["product.create"]}}});
    assert_eq!(actions(&world, &world.api.user, by_actor).await, ["product.create"]);
    let refused =
        world.api.post(&world.api.user, PATH, json!({"criteria": {"changes.weight": {"eq": 7}}})).await;
    assert_eq!(refused.expect(400).violations(), ["criteria.changes.weight unknown_field"]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn each_role_reads_as_far_as_the_table_says(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.add("ours", json!({})).await;
    world.stranger().await;
    let api = &world.api;
    let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    api.put(&api.superadmin, "/api/queue/lane/pause", Value::Null).await.expect(200);
    let body = || json!({"criteria": {"action": {"in": ["product.create", "queue.pause"]}}, "limit": 10});
    for everything in [&api.superadmin, &api.viewer] {
        assert_eq!(
            actions(&world, everything, body()).await,
            ["product.create", "product.create", "queue.pause"]
        );
    }
    for own in [&admin, &api.user] {
        assert_eq!(actions(&world, own, body()).await, ["product.create"]);
        let all = api.post(own, PATH, Value::Null).await.expect(200).json();
        let ours = json!(api.tenant.organisation);
        assert!(all["results"].as_array().unwrap().iter().all(|record| record["organisation"] == ours));
    }
    api.post(&api.connector, PATH, Value::Null).await.expect(403);
    api.post("", PATH, Value::Null).await.expect(401);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_service_may_insert_and_select_and_no_more(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let before = world.count("SELECT count(*) FROM audit").await;
    assert!(before > 0);
    for pool in [&world.api.services.db.main, &world.owner] {
        for statement in ["UPDATE audit SET action = 'nothing'", "DELETE FROM audit", "TRUNCATE audit"] {
            let error = sqlx::query(statement).execute(pool).await.unwrap_err();
            let code = error.as_database_error().and_then(|e| e.code().map(std::borrow::Cow::into_owned));
            assert_eq!(code.as_deref(), Some("42501"), "{statement}: {error}");
        }
    }
    // nor by way of the parent: its partitions have no grants of their own
    let error =
        sqlx::query("DELETE FROM audit_default").execute(&world.api.services.db.main).await.unwrap_err();
    assert!(error.to_string().contains("permission denied"), "{error}");
    assert_eq!(world.count("SELECT count(*) FROM audit").await, before);
}

/// Every writing operation of the router, as `METHOD path`: all but lists, counts, look-ups and the search.
fn writing_operations() -> BTreeSet<String> {
    let writes = openapi::routes().iter().filter(|route| {
        let reads = route.method == Method::GET
            || ["/list", "/count", "/group", "/try", "/position"].iter().any(|end| route.path.ends_with(end))
            || [PATH, "/api/find"].contains(&route.path);
        !reads
    });
    writes.map(|route| format!("{} {}", route.method, route.path)).collect()
}

/// A request for an operation, and the audit action that it leaves; bulk operations and syncs only leave a
/// job here, whose changes the worker's tests cover.
struct Case {
    operation: &'static str,
    path: String,
    body: Value,
    leaves: Leaves,
}

enum Leaves {
    Record(&'static str),
    /// Several, in alphabetical order.
    Records(&'static [&'static str]),
    Job,
    /// One record too, of the caller with the token of a login.
    Login {
        token: String,
        action: &'static str,
    },
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn every_writing_operation_leaves_a_record_that_shows_no_secret(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    use Leaves::{Job, Login, Record, Records};

    let world = World::new(&options).await;
    let api = &world.api;
    let tenant = &api.tenant;
    let mug = world.add("mug", json!({})).await;
    world.webhook(tenant.eshop.get(), "product_change").await;
    world.add("listening", json!({})).await;
    let delivery: String =
        sqlx::query_scalar("SELECT id::text FROM delivery").fetch_one(&world.owner).await.unwrap();
    let advice = world.announce("PO-1", &[(&mug, 2)]).await;
    let second = world.announce("PO-2", &[(&mug, 2)]).await;
    let hook = |secret: &str| {
        let authentication = json!({"type": "bearer", "token": secret});
        json!({"eshop": tenant.eshop, "event": "test", "destination": "https://shop.example/", "authentication": authentication})
    };
    let webhook = id(&api.post(&api.user, "/api/eshop-webhook", hook("hush-1")).await.expect(201).json());
    let accept = async |name: &str| {
        let prefer = [("prefer", "respond-async")];
        let path = format!("/api/product/{name}");
        let reply =
            api.call_with(&api.superadmin, Method::PUT, &path, json!([mug]), &prefer).await.expect(202);
        id(&reply.json())
    };
    let (running, failed) = (accept("activate").await, accept("deactivate").await);
    let (open, broken) = (accept("activate").await, accept("deactivate").await);
    for failed in [&failed, &broken] {
        sqlx::query("UPDATE job_chunk SET state = 'failed', failed = 1 WHERE job_id = $1::uuid")
            .bind(failed)
            .execute(&world.owner)
            .await
            .unwrap();
        sqlx::query(
            "UPDATE job SET state = 'failed', chunks_open = 0, done = 1, failed = 1, finished_at = now() WHERE id = $1::uuid",
        )
        .bind(failed)
        .execute(&world.owner)
        .await
        .unwrap();
    }

    let tried = json!({"ids": [mug], "dryRun": true});
    let prefer = [("prefer", "respond-async")];
    let path = "/api/product/activate";
    let tried = api.call_with(&api.superadmin, Method::PUT, path, tried, &prefer).await.expect(202).json();
    world
        .execute(
            "UPDATE job SET state = 'succeeded', chunks_open = 0, finished_at = now(), preview_kept_until = now() + interval '1 hour'
             WHERE kind = 'preview'",
        )
        .await;

    let withholding = accept("deactivate").await;
    sqlx::query(
        "WITH ended AS (
             UPDATE job SET state = 'succeeded', chunks_open = 0, done = 1, withheld = 1, finished_at = now() WHERE id = $1::uuid
             RETURNING acceptance, organisation_id
         )
         INSERT INTO job_withheld (job_id, index, entity_id, organisation_id, field, changes, acceptance, payload)
         SELECT $1::uuid, 0, $2::uuid, organisation_id, 'active', '{}', 1000000, '{}' FROM ended",
    )
    .bind(&withholding)
    .bind(&mug)
    .execute(&world.owner)
    .await
    .unwrap();

    let case = |operation, path: String, body, leaves| Case { operation, path, body, leaves };
    let fixed = |operation: &'static str, body, leaves| {
        case(operation, operation.split_once(' ').unwrap().1.to_owned(), body, leaves)
    };
    let none = Value::Null;
    let rows = json!({"eshop": tenant.eshop, "products": [{"productSku": "mug", "name": "Mug"}]});
    let counts = json!({"eshop": tenant.eshop, "warehouseId": tenant.warehouse, "stocks": [{"productSku": "mug", "quantity": 1}]});
    let receipt = super::stock_advice::receipt(&advice, &[(0, 1)], false);
    let on = |path: &str, id: &str| path.replace("{id}", id);
    let product = |operation: &'static str, body: Value, action| {
        case(operation, on(operation.split_once(' ').unwrap().1, &mug), body, Record(action))
    };
    let hooked = |operation: &'static str, body: Value, action| {
        case(operation, on(operation.split_once(' ').unwrap().1, &webhook), body, Record(action))
    };
    let reader = json!({"eshop": tenant.eshop, "name": "ERP"});
    let reader = id(&api.post(&api.user, "/api/event-reader", reader).await.expect(201).json());
    let of_reader = |operation: &'static str, body: Value, action| {
        case(operation, on(operation.split_once(' ').unwrap().1, &reader), body, Record(action))
    };
    let mut cases = vec![
        fixed("POST /api/product", world.body("new"), Record("product.create")),
        product("PUT /api/product/{id}", json!({"weight": 3}), "product.update"),
        product("PUT /api/product/deactivate/{id}", none.clone(), "product.deactivate"),
        product("PUT /api/product/activate/{id}", none.clone(), "product.activate"),
        product("PUT /api/product/{id}/deactivate", none.clone(), "product.deactivate"),
        product("PUT /api/product/{id}/activate", none.clone(), "product.activate"),
        fixed("PUT /api/product/activate", json!([mug]), Job),
        fixed("PUT /api/product/deactivate", json!([mug]), Job),
        fixed("POST /api/stock-advice", world.advice("PO-3", &[(&mug, 1)]), Record("stock_advice.create")),
        case(
            "PUT /api/stock-advice/{id}/receive",
            super::stock_advice::path(&advice, "receive"),
            receipt,
            Record("stock_advice.receive"),
        ),
        case(
            "PUT /api/stock-advice/{id}/cancel",
            super::stock_advice::path(&second, "cancel"),
            none.clone(),
            Record("stock_advice.cancel"),
        ),
        fixed("POST /api/eshop-webhook", hook("hush-2"), Record("webhook.create")),
        hooked(
            "PUT /api/eshop-webhook/{id}",
            json!({"authentication": {"type": "bearer", "token": "hush-3"}}),
            "webhook.update",
        ),
        hooked("PUT /api/eshop-webhook/deactivate/{id}", none.clone(), "webhook.deactivate"),
        hooked("PUT /api/eshop-webhook/activate/{id}", none.clone(), "webhook.activate"),
        hooked("PUT /api/eshop-webhook/{id}/rotate-secret", none.clone(), "webhook.rotate_secret"),
        hooked("POST /api/eshop-webhook/{id}/test", none.clone(), "webhook.test"),
        case(
            "POST /api/eshop-webhook/{id}/recover",
            format!("/api/eshop-webhook/{webhook}/recover"),
            json!({"since": "2026-01-01T00:00:00Z"}),
            Job,
        ),
        hooked("DELETE /api/eshop-webhook/{id}", none.clone(), "webhook.delete"),
        fixed(
            "POST /api/event-reader",
            json!({"eshop": tenant.eshop, "name": "ERP"}),
            Record("event_reader.create"),
        ),
        of_reader("PUT /api/event-reader/{id}", json!({"name": "renamed"}), "event_reader.update"),
        of_reader("DELETE /api/event-reader/{id}", none.clone(), "event_reader.delete"),
        case(
            "PUT /api/webhook-delivery/redeliver/{id}",
            format!("/api/webhook-delivery/redeliver/{delivery}"),
            none.clone(),
            Record("delivery.redeliver"),
        ),
        fixed("PUT /api/webhook-delivery/redeliver", json!([delivery]), Job),
        fixed(
            "POST /api/webhook-delivery/replay",
            json!({"eshop": tenant.eshop, "since": "2026-01-01T00:00:00Z"}),
            Job,
        ),
        fixed("POST /api/partner-integration/eshop/sync/products", rows, Job),
        fixed("POST /api/partner-integration/eshop/sync/product-stocks", counts, Job),
        case("POST /api/job/{id}/apply", format!("/api/job/{}/apply", id(&tried)), none.clone(), Job),
        case(
            "POST /api/job/{id}/release",
            format!("/api/job/{withholding}/release"),
            json!({"upTo": 1}),
            Record("job.release"),
        ),
        fixed("PUT /api/job/cancel", json!([open]), Record("job.cancel")),
        fixed("PUT /api/job/retry", json!([broken]), Record("job.retry")),
        case(
            "PUT /api/job/cancel/{id}",
            format!("/api/job/cancel/{running}"),
            none.clone(),
            Record("job.cancel"),
        ),
        case(
            "PUT /api/job/retry/{id}",
            format!("/api/job/retry/{failed}"),
            none.clone(),
            Record("job.retry"),
        ),
        case(
            "PUT /api/queue/{name}",
            "/api/queue/lane".to_owned(),
            json!({"concurrency": 9}),
            Record("queue.update"),
        ),
        case(
            "PUT /api/queue/{name}/pause",
            "/api/queue/lane/pause".to_owned(),
            none.clone(),
            Record("queue.pause"),
        ),
        case(
            "PUT /api/queue/{name}/resume",
            "/api/queue/lane/resume".to_owned(),
            none.clone(),
            Record("queue.resume"),
        ),
    ];
    // nothing reads the queues
    let attention = api.get(&api.superadmin, "/api/attention").await.expect(200).json();
    let line = attention["lines"].as_array().unwrap().iter().find(|line| line["kind"] == "queue").unwrap();
    let line = line["id"].as_str().unwrap().to_owned();
    let said = |operation: &'static str, body: Value, action| {
        case(operation, on(operation.split_once(' ').unwrap().1, &line), body, Record(action))
    };
    cases.extend([
        said("PUT /api/attention/{id}/acknowledge", json!({"note": "seen"}), "attention.acknowledge"),
        said("PUT /api/attention/{id}/mute", json!({"for": "1h", "reason": "later"}), "attention.mute"),
        said("DELETE /api/attention/{id}/silence", none, "attention.end"),
    ]);
    cases.extend(goods::cases(&world, &mug).await);
    cases.extend(expedition::cases(&world, &mug).await);
    // made last and run first: the code of a second factor is good for a minute
    cases.splice(0..0, account::cases(&world).await);
    let covered: BTreeSet<String> = cases.iter().map(|case| case.operation.to_owned()).collect();
    assert_eq!(covered, writing_operations(), "each writing operation of the router has a case here");

    let mut before = version::records(&world).await;
    for (number, Case { operation, path, body, leaves }) in cases.into_iter().enumerate() {
        let request = format!("case-{number}");
        let headers = [("x-request-id", request.as_str()), ("prefer", "respond-async")];
        let method = operation.split_once(' ').unwrap().0.parse().unwrap();
        let reply = if operation == goods::FORM {
            let request = http::Request::builder()
                .method(method)
                .uri(&path)
                .header("authorization", format!("Bearer {}", api.superadmin))
                .header("content-type", "multipart/form-data; boundary=lines")
                .header("x-request-id", &request);
            api.send(request.body(goods::PICTURE.into()).unwrap()).await
        } else {
            let token = if let Login { token, .. } = &leaves { token } else { &api.superadmin };
            api.call_with(token, method, &path, body, &headers).await
        };
        assert!(reply.status.is_success(), "{operation}: {}", reply.text);
        let left: Vec<String> = match leaves {
            Record(_) | Records(_) | Login { .. } => {
                sqlx::query_scalar("SELECT DISTINCT action FROM audit WHERE request_id = $1 ORDER BY action")
            }
            Job => sqlx::query_scalar(
                "SELECT DISTINCT 'job' FROM job WHERE request_id = $1 AND actor_id IS NOT NULL",
            ),
        }
        .bind(&request)
        .fetch_all(&world.owner)
        .await
        .unwrap();
        let expected = match leaves {
            Record(action) | Login { action, .. } => vec![action],
            Records(actions) => actions.to_vec(),
            Job => vec!["job"],
        };
        assert_eq!(left, expected, "{operation}");
        let after = version::records(&world).await;
        version::compare(&world, operation, &request, &before, &after).await;
        before = after;
    }
    // the command line creates tokens, too; it created this world
    for action in
        ["access_token.create", "organisation.create", "eshop.create", "warehouse.create", "wms.create"]
    {
        let by_hand: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM audit WHERE action = $1 AND actor_type = 'command_line' AND actor_id IS NULL",
        )
        .bind(action)
        .fetch_one(&world.owner)
        .await
        .unwrap();
        assert!(by_hand > 0, "{action}");
    }
    assert_eq!(world.count("SELECT count(*) FROM audit WHERE changes::text LIKE '%hush-%'").await, 0);
    assert_eq!(world.count("SELECT count(*) FROM audit WHERE changes::text LIKE '%lsh\\_%'").await, 0);
    let masked = "SELECT count(*) FROM audit WHERE action IN ('webhook.create', 'access_token.create')
                  AND changes::text NOT LIKE '%***%'";
    assert_eq!(world.count(masked).await, 0);
}
