//! `/api/job` (`docs/reference/jobs.md#job`).

mod bulk;
mod changes;
mod criteria;
mod guard;
mod organisations;
mod preview;
mod standing;
mod wait;

use http::Method;
use longshore_domain::job::kind::JobState;
use longshore_domain::job::watch::JobWatch;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use crate::product::{MIGRATIONS, PATH as PRODUCT, World};

/// Accepts a bulk switch; returns the job's id.
async fn accept(world: &World, token: &str) -> String {
    let prefer = [("prefer", "respond-async")];
    let path = format!("{PRODUCT}/activate");
    let reply =
        world.api.call_with(token, Method::PUT, &path, json!([Uuid::max()]), &prefer).await.expect(202);
    reply.json()["id"].as_str().unwrap().to_owned()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_job_is_cancelled_once(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let job = accept(&world, &world.api.user).await;
    let path = format!("/api/job/cancel/{job}");
    world.api.put(&world.api.viewer, &path, Value::Null).await.expect(403);
    let cancelled = world.api.put(&world.api.user, &path, Value::Null).await.expect(200).json();
    assert_eq!((&cancelled["id"], &cancelled["state"]), (&json!(job), &json!("cancelled")));
    assert!(cancelled["finishedAt"].is_string());
    assert_eq!(
        world.api.get(&world.api.viewer, &format!("/api/job/{job}")).await.expect(200).json(),
        cancelled
    );
    let again = world.api.put(&world.api.user, &path, Value::Null).await.expect(409);
    assert_eq!(again.json()["code"], "conflict");
    assert_eq!(world.count("SELECT count(*) FROM job_chunk WHERE state <> 'cancelled'").await, 0);
    assert_eq!(world.count("SELECT count(*) FROM audit WHERE action = 'job.cancel'").await, 1);
    // nor can it be retried: the refusal says why, and what to do instead
    let retry = format!("/api/job/retry/{job}");
    let refused = world.api.put(&world.api.user, &retry, Value::Null).await.expect(409).json();
    assert_eq!(refused["code"], "conflict");
    let detail = refused["detail"].as_str().unwrap();
    assert!(
        detail.starts_with("a cancelled job cannot be retried")
            && detail.ends_with("process the remaining items"),
        "{detail}"
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_follower_of_a_job_that_runs_again_does_not_get_its_former_end(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let job = accept(&world, &world.api.user).await.parse().unwrap();
    let watch = JobWatch::new(world.api.services.db.clone());
    world.execute("UPDATE job SET state = 'failed', chunks_open = 0, finished_at = now()").await;
    // another client has seen its end, and still follows it
    let mut former = watch.follow(job);
    former.wait_for(|standing| standing.ended).await.unwrap();
    world.execute("UPDATE job SET state = 'queued', chunks_open = 1, finished_at = NULL").await;
    let mut latter = watch.follow(job);
    assert!(!latter.borrow_and_update().ended);
    latter.changed().await.unwrap();
    assert_eq!((latter.borrow().state, latter.borrow().ended), (Some(JobState::Queued), false));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_job_of_another_organisation_is_not_found(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (stranger, _) = world.stranger().await;
    let theirs = stranger.token(&world.api.services, longshore_kernel::access::Role::User).await.unwrap();
    let foreign = accept(&world, &theirs).await;
    let everybodys = accept(&world, &world.api.superadmin).await;
    let bound = world.api.tenant.eshop_token(&world.api.services).await.unwrap();
    let organisations = accept(&world, &world.api.user).await;
    for (token, job) in [
        (&world.api.user, foreign.as_str()),
        (&world.api.connector, &foreign),
        (&world.api.user, &everybodys),
        (&world.api.user, &Uuid::nil().to_string()),
        (&bound, &organisations),
    ] {
        for (method, path) in [
            (Method::GET, format!("/api/job/{job}")),
            (Method::GET, format!("/api/job/{job}/events")),
            (Method::POST, format!("/api/job/{job}/error/list")),
            (Method::POST, format!("/api/job/{job}/error/group")),
            (Method::GET, format!("/api/job/{job}/refused")),
            (Method::PUT, format!("/api/job/cancel/{job}")),
            (Method::PUT, format!("/api/job/retry/{job}")),
        ] {
            let reply = world.api.call_with(token, method.clone(), &path, Value::Null, &[]).await;
            assert_eq!(reply.status.as_u16(), 404, "{method} {path}: {}", reply.text);
            assert_eq!(reply.json()["code"], "not_found");
        }
    }
    let listed = world.api.post(&world.api.user, "/api/job/list", Value::Null).await.expect(200).json();
    assert_eq!(listed["paging"]["total"], 1);
    assert_eq!(listed["results"][0]["id"], organisations);
    assert_eq!(world.count("SELECT count(*) FROM job WHERE state <> 'queued'").await, 0);
    world.api.get(&world.api.user, "/api/job/latest").await.expect(400);
    world.api.get("lsh_nonsense", &format!("/api/job/{organisations}")).await.expect(401);
    world.api.get(&world.api.superadmin, &format!("/api/job/{foreign}")).await.expect(200);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn refused_items_are_counted_by_code_and_field_with_an_example(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let job = accept(&world, &world.api.user).await;
    world
        .execute(
            "INSERT INTO job_item_error (job_id, index, line, key, code, message, field, notice, payload)
             SELECT id, n, n + 2, 'sku ' || n, CASE WHEN n < 10 THEN 'required' ELSE 'malformed_row' END, 'is wrong: ' || n,
                    CASE WHEN n < 10 THEN 'items[' || n || '].productSku' END, n = 12, ''
             FROM job, generate_series(3, 12) AS n;
             UPDATE job SET total = 20, done = 20, failed = 20",
        )
        .await;
    let path = format!("/api/job/{job}/error/group");
    let groups = world.api.post(&world.api.viewer, &path, Value::Null).await.expect(200).json();
    let example = |index: i32, code: &str| json!({"index": index, "line": index + 2, "key": format!("sku {index}"), "code": code, "message": format!("is wrong: {index}")});
    let results = [
        json!({"code": "required", "field": "items[].productSku", "count": 7, "example": example(3, "required")}),
        json!({"code": "malformed_row", "field": null, "count": 2, "example": example(10, "malformed_row")}),
    ];
    assert_eq!(groups, json!({"results": results, "kept": 9, "refused": 20}));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn refused_rows_are_given_back_as_they_were_sent(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let sync = json!({"eshop": world.api.tenant.eshop, "products": [{"productSku": "1"}]});
    let sync = world
        .api
        .post(&world.api.user, "/api/partner-integration/eshop/sync/products", sync)
        .await
        .expect(200);
    let job = sync.json()["id"].as_str().unwrap().to_owned();
    world
        .execute(
            r#"INSERT INTO job_item_error (job_id, index, line, key, code, message, notice, payload)
               SELECT id, n.*
               FROM job, (VALUES
                   (1, 3::bigint, 'A', 'required', 'name is required', false, '{"productSku": "A",  "weight": 1.50, "weight": 2}'::bytea),
                   (2, 4, 'B', 'notice', 'weight was rounded', true, '{}'),
                   (4, NULL, NULL, 'malformed_row', 'must be a JSON object', false, '["č"'::text::bytea)) AS n;
               UPDATE job SET total = 9, done = 5, failed = 5"#,
        )
        .await;
    let path = format!("/api/job/{job}/refused");
    let rows = world.api.get(&world.api.viewer, &path).await.expect(200);
    assert_eq!(rows.header("content-type"), Some("application/x-ndjson"));
    assert_eq!(rows.header("longshore-rows"), Some("2 of 5"));
    assert_eq!(
        rows.text,
        concat!(
            r#"{"_line":3,"_code":"required","_message":"name is required","productSku":"A","weight":1.50,"weight":2}"#,
            "\n",
            r#"{"_line":null,"_code":"malformed_row","_message":"must be a JSON object","_row":"[\"č\""}"#,
            "\n"
        )
    );
    // a few at a time: however many, however large
    world
        .execute(
            r#"DELETE FROM job_item_error;
               INSERT INTO job_item_error (job_id, index, code, message, payload)
               SELECT id, n, 'required', 'name is required',
                      convert_to(format('{"productSku": "%s", "name": "%s"}', n, repeat('x', CASE WHEN n % 1000 = 7 THEN 900000 ELSE 40 END)), 'UTF8')
               FROM job, generate_series(0, 9999) AS n;
               UPDATE job SET total = 10000, done = 10000, failed = 10000"#,
        )
        .await;
    let started = std::time::Instant::now();
    let rows = world.api.get(&world.api.user, &path).await.expect(200);
    let took = started.elapsed();
    assert_eq!(rows.header("longshore-rows"), None);
    for (number, line) in rows.text.lines().enumerate() {
        let row: Value = serde_json::from_str(line).unwrap();
        assert_eq!(row["productSku"], number.to_string());
    }
    assert_eq!(rows.text.lines().count(), 10_000);
    assert!(took.as_secs() < 20, "{took:?}");
    println!("10,000 refused rows of {} bytes took {took:?}", rows.text.len());
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn rows_of_a_chunk_that_failed_are_given_back_too(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let sync = json!({"eshop": world.api.tenant.eshop, "products": [{"productSku": "1"}, {"productSku": "2", "name": "Mug"}]});
    let sync = world
        .api
        .post(&world.api.user, "/api/partner-integration/eshop/sync/products", sync)
        .await
        .expect(200);
    let bulk = accept(&world, &world.api.user).await;
    world
        .execute(
            "UPDATE job_chunk SET state = 'failed';
             INSERT INTO job_item_error (job_id, index, key, code, message, payload)
             SELECT id, n, CASE WHEN kind = 'product.sync' THEN (n + 1)::text ELSE 'ffffffff-ffff-ffff-ffff-ffffffffffff' END, 'chunk_failed', 'why', ''
             FROM job, generate_series(0, 1) AS n WHERE kind = 'product.sync' OR n = 0",
        )
        .await;
    let rows = async |job: &str| {
        world.api.get(&world.api.user, &format!("/api/job/{job}/refused")).await.expect(200).text
    };
    let reason = r#""_line":null,"_code":"chunk_failed","_message":"why""#;
    assert_eq!(
        rows(sync.json()["id"].as_str().unwrap()).await,
        format!("{{{reason},\"productSku\":\"1\"}}\n{{{reason},\"name\":\"Mug\",\"productSku\":\"2\"}}\n")
    );
    assert_eq!(rows(&bulk).await, format!("{{{reason},\"id\":\"ffffffff-ffff-ffff-ffff-ffffffffffff\"}}\n"));
    // without the chunk, what is known of a row is left
    world.execute("UPDATE job_chunk SET payload = NULL").await;
    assert!(
        rows(sync.json()["id"].as_str().unwrap())
            .await
            .starts_with(&format!("{{{reason},\"productSku\":\"1\"}}\n"))
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_refused_items_of_a_job_are_listed_by_position(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let job = accept(&world, &world.api.user).await;
    world
        .execute(
            "INSERT INTO job_item_error (job_id, index, key, code, message, payload)
             SELECT id, 4 - n, CASE WHEN n < 3 THEN 'sku ' || n END, 'not_found', 'is not there', 'secret'
             FROM job, generate_series(0, 3) AS n",
        )
        .await;
    let path = format!("/api/job/{job}/error/list");
    let all = world.api.post(&world.api.user, &path, Value::Null).await.expect(200).json();
    let item = |index: i32, key: Value| json!({"index": index, "line": null, "key": key, "code": "not_found", "message": "is not there"});
    let items =
        [item(1, Value::Null), item(2, json!("sku 2")), item(3, json!("sku 1")), item(4, json!("sku 0"))];
    assert_eq!(
        all,
        json!({"results": items, "paging": {"returned": 4, "from": 0, "to": 4, "total": 4, "next": null}})
    );
    for (body, from, to) in [
        (json!({}), 0, 4),
        (json!({"limit": 2}), 0, 2),
        (json!({"limit": 2, "offset": 3}), 3, 4),
        (json!({"limit": 0}), 0, 0),
        (json!({"offset": 9}), 9, 9),
    ] {
        let mut page = world.api.post(&world.api.viewer, &path, body.clone()).await.expect(200).json();
        let next = page["paging"].as_object_mut().unwrap().remove("next").unwrap();
        assert_eq!(next.is_null(), to >= 4 || from == to, "{body}");
        if let Some(next) = next.as_str() {
            let body = json!({"limit": 2, "after": next, "count": "none"});
            let rest = world.api.post(&world.api.viewer, &path, body).await.expect(200).json();
            let paging = json!({"returned": 2, "from": 2, "to": 4, "total": null, "next": null});
            assert_eq!(rest, json!({"results": items[2..], "paging": paging}));
        }
        let results = items.get(from..to).unwrap_or_default();
        let paging = json!({"returned": results.len(), "from": from, "to": to, "total": 4});
        assert_eq!(page, json!({"results": results, "paging": paging}), "{body}");
    }
    let as_csv = [("accept", "text/csv")];
    let (post, body) = (Method::POST, json!({"offset": 2}));
    let file = world.api.call_with(&world.api.viewer, post, &path, body, &as_csv).await.expect(200);
    assert_eq!(file.header("content-type"), Some("text/csv; charset=utf-8"));
    let lines = "3,,sku 1,not_found,is not there\r\n4,,sku 0,not_found,is not there\r\n";
    assert_eq!(file.text, format!("index,line,key,code,message\r\n{lines}"));
    for (body, violation) in [
        (json!({"limit": 10_001}), "limit out_of_range"),
        (json!({"limit": -1}), "limit out_of_range"),
        (json!({"offset": -1}), "offset out_of_range"),
        (json!({"after": "1abc"}), "after invalid_cursor"),
        (json!({"sort": []}), "sort unknown_field"),
        (json!([]), " wrong_type"),
    ] {
        let reply = world.api.post(&world.api.user, &path, body.clone()).await.expect(400);
        assert_eq!(reply.violations(), [violation], "{body}");
    }
}
