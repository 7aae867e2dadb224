//! What a job waits for (`waitsFor`), and its result (`outcome`).

use http::Method;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::console::Browser;
use crate::product::{MIGRATIONS, World};

const LIST: &str = "/api/job/list";
const PRODUCTS: &str = "/api/partner-integration/eshop/sync/products";

/// Accepts a push of this many products; returns the job.
pub(super) async fn push(world: &World, rows: usize) -> Value {
    let products: Vec<Value> =
        (0..rows).map(|n| json!({"productSku": format!("P{n}"), "name": "Mug"})).collect();
    let body = json!({"eshop": world.api.tenant.eshop, "products": products});
    let prefer = [("prefer", "respond-async")];
    world.api.call_with(&world.api.user, Method::POST, PRODUCTS, body, &prefer).await.expect(202).json()
}

async fn read(world: &World, job: &Value) -> Value {
    let path = format!("/api/job/{}", job["id"].as_str().unwrap());
    world.api.get(&world.api.user, &path).await.expect(200).json()
}

/// The ids of the jobs in a list with these criteria.
async fn listed(world: &World, criteria: Value) -> Vec<Value> {
    let body = json!({"criteria": criteria, "limit": 100, "sort": [{"field": "createdAt"}]});
    let page = world.api.post(&world.api.user, LIST, body).await.expect(200).json();
    page["results"].as_array().unwrap().iter().map(|job| job["id"].clone()).collect()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_waiting_job_shows_what_it_waits_for(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (first, second, third) = (push(&world, 1).await, push(&world, 1).await, push(&world, 1).await);
    assert_eq!(read(&world, &first).await["waitsFor"], Value::Null);
    let shown = read(&world, &third).await;
    let waits = &shown["waitsFor"];
    let expected = json!({"reason": "earlier_job", "job": first["id"], "eshop": world.api.tenant.eshop,
                          "since": waits["since"], "until": null});
    assert_eq!(*waits, expected);
    // since it was accepted
    assert_eq!(waits["since"], shown["changedAt"]);

    let body = json!({"select": ["id", "waitsFor"], "limit": 10, "sort": [{"field": "createdAt"}]});
    let page = world.api.post(&world.api.user, LIST, body).await.expect(200).json();
    let waits: Vec<&Value> =
        page["results"].as_array().unwrap().iter().map(|job| &job["waitsFor"]["job"]).collect();
    assert_eq!(waits, [&Value::Null, &first["id"], &first["id"]]);
    let waiting = listed(&world, json!({"waitsFor": {"null": false}})).await;
    assert_eq!(waiting, [second["id"].clone(), third["id"].clone()]);

    // a pause of the queue is shown by the first job of the line
    let resume = "/api/queue/chunk/pause";
    world.api.put(&world.api.superadmin, resume, Value::Null).await.expect(200);
    let paused = read(&world, &first).await["waitsFor"].clone();
    assert_eq!((&paused["reason"], &paused["job"]), (&json!("paused"), &Value::Null));
    assert_eq!(world.count("SELECT count(*) FROM audit WHERE action = 'queue.pause'").await, 1);
    let at: String = sqlx::query_scalar(
        "SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US') || '+00:00' FROM audit WHERE action = 'queue.pause'",
    )
    .fetch_one(&world.owner)
    .await
    .unwrap();
    assert_eq!(paused["since"], json!(at));
    // a change of its concurrency is not a pause
    world.api.put(&world.api.superadmin, "/api/queue/chunk", json!({"concurrency": 2})).await.expect(200);
    assert_eq!(read(&world, &first).await["waitsFor"]["since"], json!(at));
    // a job that came later waits since it came
    world.execute("UPDATE job SET created_at = created_at + interval '1 hour'").await;
    let later = read(&world, &first).await;
    assert_eq!(
        (&later["waitsFor"]["reason"], &later["waitsFor"]["since"]),
        (&json!("paused"), &later["createdAt"])
    );

    // ended jobs, and those being received, wait for nothing
    world.execute("UPDATE job SET state = 'cancelled', chunks_open = 0, finished_at = now()").await;
    assert_eq!(listed(&world, json!({"waitsFor": {"null": false}})).await, [] as [Value; 0]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_console_shows_what_jobs_wait_for_and_counts_them(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (first, second, _) = (push(&world, 1).await, push(&world, 1).await, push(&world, 1).await);
    let [first, second] = [first, second].map(|job| job["id"].as_str().unwrap().to_owned());
    let browser = Browser::new(&world.api, &world.api.superadmin);
    let overview = browser.overview().await;
    assert!(!overview.contains("behind 1 product sync"), "they have only just come");
    world
        .execute(
            "UPDATE job SET progressed_at = now() - interval '20 minutes';
             UPDATE job SET state = 'running', started_at = now() - interval '29 minutes'
             WHERE acceptance = (SELECT min(acceptance) FROM job)",
        )
        .await;
    let overview = browser.overview().await;
    let sentence = "2 jobs wait behind 1 product sync of Gifts shop, running for 29 min.";
    assert!(overview.contains(sentence) && overview.contains(&format!("/console/job/{first}")), "{overview}");
    let page = browser.open(&format!("/console/job/{second}")).await.expect(200).text;
    let link = format!("Waiting for job <a href=\"/console/job/{first}\">");
    let whose = "(product sync) of Gifts shop, running for 29 min;";
    assert!(page.contains(&link) && page.contains(whose), "{page}");
    let list = browser.open("/console/job").await.expect(200).text;
    assert_eq!(list.matches(&link).count(), 2, "{list}");
    assert!(
        !browser.open(&format!("/console/job/{first}")).await.expect(200).text.contains("Waiting for job")
    );

    let pause = "UPDATE queue SET paused = true WHERE name = 'chunk';
                 UPDATE job SET state = 'queued', started_at = NULL";
    world.execute(pause).await;
    let overview = browser.overview().await;
    let sentence = "Queue chunk: Paused by an operator: 3 open, no new work starts.";
    assert!(overview.contains(sentence), "{overview}");
    let list = browser.open("/console/job").await.expect(200).text;
    assert!(list.contains("Waiting for a queue that is <a href=\"/console/queue\">paused</a>"), "{list}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_job_whose_rows_were_refused_does_not_look_like_a_success(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let mut jobs = Vec::new();
    for _ in 0..4 {
        jobs.push(push(&world, 4).await);
    }
    let open = push(&world, 4).await;
    for (nth, (job, refused)) in jobs.iter().zip([0, 1, 4, 0]).enumerate() {
        sqlx::query(
            "UPDATE job SET state = CASE WHEN $3 THEN 'failed' ELSE 'succeeded' END, chunks_open = 0, finished_at = now(),
                            done = 4, changed = 4 - $2, failed = $2 WHERE id = $1::uuid",
        )
        .bind(job["id"].as_str().unwrap())
        .bind(refused)
        .bind(nth == 3)
        .execute(&world.owner)
        .await
        .unwrap();
    }
    let mut outcomes = Vec::new();
    for job in jobs.iter().chain([&open]) {
        let job = read(&world, job).await;
        outcomes.push(job["outcome"].clone());
    }
    assert_eq!(outcomes, [json!("complete"), json!("partial"), json!("nothing"), Value::Null, Value::Null]);
    let without_rows = push(&world, 0).await;
    assert_eq!((&without_rows["state"], &without_rows["outcome"]), (&json!("succeeded"), &json!("complete")));
    let found = listed(&world, json!({"outcome": {"in": ["nothing", "partial"]}})).await;
    assert_eq!(found, [jobs[1]["id"].clone(), jobs[2]["id"].clone()]);

    let browser = Browser::new(&world.api, &world.api.superadmin);
    let badge = |tone: &str, word: &str| format!("<span class=\"badge {tone}\">{word}</span>");
    let list = browser.open("/console/job").await.expect(200).text;
    for (tone, word, times) in
        [("good", "succeeded", 2), ("warn", "partly refused", 1), ("bad", "all refused", 1)]
    {
        assert_eq!(list.matches(&badge(tone, word)).count(), times, "{word}: {list}");
    }
    let page = format!("/console/job/{}", jobs[2]["id"].as_str().unwrap());
    let page = browser.open(&page).await.expect(200).text;
    assert!(page.contains(&badge("bad", "all refused")) && page.contains("<dd>nothing</dd>"), "{page}");
    let syncs = browser.open("/console/sync").await.expect(200).text;
    assert!(syncs.contains(&badge("good", "succeeded")), "the last one: {syncs}");
}
