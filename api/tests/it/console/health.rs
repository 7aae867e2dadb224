//! The state of the service in the console.

use std::time::Duration;

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt as _;
use longshore_domain::standing::backlog;
use longshore_kernel::activity::{self, Span, Subject};
use longshore_kernel::config::RedisSettings;
use longshore_kernel::queue::{Beat, Queue, Queues};
use longshore_testkit::little_redis::LittleRedis;
use longshore_testkit::services;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tower::ServiceExt as _;

use super::{Browser, MIGRATIONS, job, webhook, world};
use crate::product::World;
use crate::support::Api;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_backlog_without_a_worker_is_shown_as_such(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let browser = Browser::new(api, &api.viewer);
    let page = browser.overview().await;
    assert!(page.contains("No worker reads this queue. No work is waiting."), "{page}");
    assert!(page.contains("No workers."), "{page}");
    job(&world, &api.tenant, "queued", None).await;
    api.services.queues.put(Queue::Chunk, &["x:0".to_owned()], Duration::from_secs(20)).await.unwrap();
    for text in [browser.overview().await, browser.open("/console/queue").await.expect(200).text] {
        assert!(text.contains("1 open, but no worker reads this queue."), "{text}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn due_deliveries_are_a_backlog_even_if_redis_has_no_entry_for_them(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let hook = webhook(api, "https://shop.example/hook").await;
    sqlx::query(
        "INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at)
         VALUES (uuid_v7(), $1, $2, uuid_v7(), now() - interval '5 minutes')",
    )
    .bind(hook)
    .bind(api.tenant.eshop)
    .execute(&world.owner)
    .await
    .unwrap();
    let page = Browser::new(api, &api.viewer).overview().await;
    assert!(page.contains("1 open, but no worker reads this queue."), "{page}");
    // one dead worker is one line
    let said =
        "No worker reads the queues chunk, partner, lane, handover and upkeep: 1 open. Start a worker.";
    assert_eq!(page.matches(said).count(), 1, "{page}");
    assert!(!page.contains("Queue lane: "), "{page}");
    assert!(page.contains("1 delivery due, the oldest for 5 min."), "{page}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn without_redis_every_page_works_and_shows_the_outage(_: PgPoolOptions, options: PgConnectOptions) {
    let away =
        RedisSettings { redis_url: "redis://127.0.0.1:1".to_owned(), queue_prefix: "away:".to_owned() };
    let mut services = services::for_test(&options).unwrap();
    services.queues = Queues::open(&away).unwrap();
    let api = Api::over(services).await;
    let browser = Browser::new(&api, &api.superadmin);
    let overview = browser.overview().await;
    assert!(
        overview.contains("Redis cannot be reached.") && overview.contains("Redis is away."),
        "{overview}"
    );
    let queues = browser.open("/console/queue").await.expect(200).text;
    assert!(queues.contains("unknown"), "{queues}");
    browser.act("/console/queue/chunk/pause", &[]).await.expect(303);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_pause_of_upkeep_has_a_warning_and_is_shown_while_it_lasts(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let browser = Browser::new(&world.api, &world.api.superadmin);
    let question = browser.open("/console/queue/upkeep/pause").await.expect(200).text;
    for stops in
        ["no scheduled sync starts", "no old data is removed", "backlog charts", "resumes automatically"]
    {
        assert!(question.contains(stops), "{stops}: {question}");
    }
    let other = browser.open("/console/queue/chunk/pause").await.expect(200).text;
    assert!(other.contains("until it is resumed") && !other.contains("automatically"), "{other}");
    let long = "x".repeat(201);
    browser.act("/console/queue/upkeep/pause", &[("reason", &long)]).await.expect(400);
    browser.act("/console/queue/upkeep/pause", &[("reason", "moving the disks")]).await.expect(303);
    let at: chrono::DateTime<chrono::Utc> =
        sqlx::query_scalar("SELECT resumes_at FROM queue WHERE name = 'upkeep'")
            .fetch_one(&world.owner)
            .await
            .unwrap();
    let expected = format!(
        " (“moving the disks”): retention, schedules and charts are stopped. The queue resumes automatically at {}.",
        at.format("%Y-%m-%d %H:%M:%S UTC")
    );
    // although there is no worker either
    let overview = browser.overview().await;
    assert!(overview.contains("Queue upkeep: Paused by superadmin of a test at "), "{overview}");
    assert!(overview.contains(&expected), "{overview}");
    let queues = browser.open("/console/queue").await.expect(200).text;
    assert!(queues.contains("Paused by superadmin of a test at ") && queues.contains(&expected), "{queues}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_queue_with_open_jobs_that_cannot_begin_is_not_shown_as_idle(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let redis = LittleRedis::start().await.unwrap();
    let mut services = services::for_test(&options).unwrap();
    services.queues = redis.queues().unwrap();
    let world = World::over(Api::over(services).await, &options).await;
    let api = &world.api;
    // a worker reads the queue
    let stream = api.services.queues.keys(Queue::Chunk).stream().to_owned();
    redis.ask::<()>(&["XGROUP", "CREATE", &stream, "workers", "0", "MKSTREAM"]).await.unwrap();
    redis.ask::<()>(&["XGROUP", "CREATECONSUMER", &stream, "workers", "box-1-a"]).await.unwrap();
    let browser = Browser::new(api, &api.viewer);
    let page = browser.open("/console/queue").await.expect(200).text;
    assert!(page.contains("Idle · 1 worker"), "{page}");
    // a worker reports its version and memory; a report without a reader is not listed
    let now = api.services.clock.now();
    let beat = Beat { version: "0.0.9".to_owned(), since: now, at: now, memory: Some(512_345_678) };
    for worker in ["box-1", "box-2"] {
        api.services.queues.beat(worker, &beat).await.unwrap();
    }
    let overview = browser.overview().await;
    for said in ["<code>box-1</code>", ">alive<", "512 MB", ">0.0.9<"] {
        assert!(overview.contains(said), "{said}: {overview}");
    }
    assert!(!overview.contains("box-2"), "{overview}");
    assert_eq!(api.services.queues.beats(&["box-3", "box-1"]).await.unwrap(), [None, Some(beat)]);
    job(&world, &api.tenant, "retrying", None).await;
    let page = browser.open("/console/queue").await.expect(200).text;
    assert!(page.contains("1 open, none can start yet") && !page.contains("Idle · 1"), "{page}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn finished_work_is_counted_per_minute_and_charted(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let activity = api.services.metrics.activity();
    for _ in 0..3 {
        activity.note(Subject::Delivery, "delivered", Duration::from_millis(30));
    }
    activity.note(Subject::Delivery, "exhausted", Duration::from_secs(2));
    activity.note(Subject::Job, "succeeded", Duration::from_secs(1));
    activity.write(&api.services.db.main).await.unwrap();
    // two writes in the same minute are added up
    activity.note(Subject::Delivery, "delivered", Duration::from_millis(30));
    activity.write(&api.services.db.main).await.unwrap();
    activity.write(&api.services.db.main).await.unwrap();
    assert_eq!(backlog::sample(&api.services).await.unwrap(), 0);
    for span in [Span::Hour, Span::Day] {
        let course = activity::read(&api.services.db.main, span).await.unwrap();
        let sum =
            |points: &[activity::Point]| points.iter().fold((0, 0), |(g, b), p| (g + p.good, b + p.bad));
        assert_eq!((course.deliveries.len(), sum(&course.deliveries)), (span.steps(), (4, 1)));
        assert_eq!(sum(&course.jobs), (1, 0));
        assert_eq!(course.waiting.iter().flatten().count(), 1);
    }
    let browser = Browser::new(api, &api.viewer);
    for page in ["/console", "/console?span=day"] {
        let text = browser.open(page).await.expect(200).text;
        assert!(text.contains("4 done, 1 failed") && text.contains("<svg"), "{text}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn old_counts_are_removed(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    sqlx::query(
        "INSERT INTO activity (minute, subject, outcome, slot, count)
         VALUES (now() - interval '9 days', 'job', 'failed', 3, 1), (now() - interval '7 days', 'job', 'failed', 3, 1)",
    )
    .execute(&world.owner)
    .await
    .unwrap();
    assert_eq!(backlog::sample(&world.api.services).await.unwrap(), 1);
    assert_eq!(world.count("SELECT count(*) FROM activity").await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_open_page_gets_its_parts(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let running = job(&world, &api.tenant, "running", None).await;
    let hook = webhook(api, "https://shop.example/").await;
    let test = format!("/api/eshop-webhook/{hook}/test");
    let test = api.post(&api.user, &test, serde_json::Value::Null).await.expect(202).json();
    for (path, part) in [
        ("/console/live".to_owned(), "\"workers\""),
        ("/console/queue/live".to_owned(), "\"card-chunk\""),
        (format!("/console/job/{running}/live"), "\"standing\""),
        (format!("/console/webhook/{hook}/live"), "\"calls\""),
        (format!("/console/delivery/{}/live", test["id"].as_str().unwrap()), "\"attempts\""),
    ] {
        let cookie = format!("longshore_console={}", api.superadmin);
        let request = Request::builder().uri(path).header("host", "test").header("cookie", cookie);
        let response = api.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut body = response.into_body();
        let first =
            tokio::time::timeout(Duration::from_secs(30), body.frame()).await.unwrap().unwrap().unwrap();
        let text = String::from_utf8(first.into_data().unwrap().to_vec()).unwrap();
        assert!(text.starts_with("event: parts\n") && text.contains(part), "{text}");
        // it gets each further look, even without changes
        let next =
            tokio::time::timeout(Duration::from_secs(30), body.frame()).await.unwrap().unwrap().unwrap();
        assert!(next.into_data().unwrap().starts_with(b"event: parts\n"));
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_open_page_can_show_that_it_is_not_up_to_date(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let browser = Browser::new(&world.api, &world.api.superadmin);
    for page in ["/console", "/console/queue"] {
        let text = browser.open(page).await.expect(200).text;
        let bar = text.split("<p").find(|p| p.contains("id=\"stale\"")).unwrap();
        assert!(bar.contains("role=\"status\"></p>"), "{bar}");
    }
    let still = browser.open("/console/audit").await.expect(200).text;
    assert!(!still.contains("id=\"stale\""), "{still}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn each_queue_is_a_part_and_its_controls_have_ids(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let browser = Browser::new(&world.api, &world.api.superadmin);
    let queues = browser.open("/console/queue").await.expect(200).text;
    for queue in ["chunk", "lane", "partner", "upkeep"] {
        for id in ["card", "pause", "to", "change"] {
            assert_eq!(queues.matches(&format!("id=\"{id}-{queue}\"")).count(), 1, "{id}-{queue}: {queues}");
        }
    }
}
