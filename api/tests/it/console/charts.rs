//! Charts by the kind of job, and by the worker.

use std::time::Duration;

use longshore_domain::standing::backlog;
use longshore_kernel::access::{Role, Scope};
use longshore_kernel::activity::Span;
use longshore_operate::course::{self, Runs};
use longshore_testkit::services;
use longshore_testkit::world::Tenant;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{Browser, MIGRATIONS, job, world};

const SPANS: [Span; 4] = [Span::Hour, Span::SixHours, Span::Day, Span::Week];

fn sum(runs: &[Runs]) -> (i64, i64) {
    runs.iter().fold((0, 0), |(good, bad), step| (good + step.good, bad + step.bad))
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn jobs_are_charted_by_kind(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let metrics = &api.services.metrics;
    for (kind, outcome, seconds) in [
        ("product.sync", "succeeded", 1),
        ("product.sync", "failed", 3),
        ("product.sync", "cancelled", 60),
        ("stock.sync", "succeeded", 2),
    ] {
        metrics.job_ended(kind, outcome, Duration::from_secs(seconds));
    }
    metrics.activity().write(&api.services.db.main).await.unwrap();
    metrics.job_ended("product.sync", "succeeded", Duration::from_secs(2));
    metrics.activity().write(&api.services.db.main).await.unwrap();
    for span in SPANS {
        let kinds = course::by_kind(&api.services.db, &Scope::Everything, span).await.unwrap();
        let names: Vec<_> = kinds.kinds.iter().map(|kind| kind.kind.as_str()).collect();
        assert_eq!(names, ["product.sync", "stock.sync"], "{span:?}");
        let jobs = kinds.of("product.sync");
        assert_eq!((jobs.len(), sum(&jobs)), (span.steps(), (2, 1)), "{span:?}");
        assert_eq!(jobs.iter().filter_map(|step| step.slowest_ms).reduce(f64::max), Some(3_000.0));
        assert_eq!(sum(&kinds.of("admin.delete")), (0, 0));
    }
    let activity = api.get(&api.viewer, "/api/job/activity/week").await.expect(200).json();
    assert_eq!(activity["stepMinutes"], 120, "{activity}");
    assert_eq!(activity["kinds"][0]["kind"], "product.sync", "{activity}");
    let steps = activity["kinds"][0]["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 84);
    let of = |name: &str| steps.iter().map(|step| step[name].as_i64().unwrap()).sum::<i64>();
    assert_eq!((of("succeeded"), of("failed")), (2, 1));
    api.get(&api.viewer, "/api/job/activity/year").await.expect(404);
    let browser = Browser::new(api, &api.viewer);
    for span in ["hour", "six-hours", "day", "week"] {
        let page = browser.open(&format!("/console/queue/chunk?span={span}")).await.expect(200).text;
        assert!(page.contains("Open jobs") && page.contains("By kind"), "{page}");
        let link = format!("href=\"/console/queue/chunk?span={span}&amp;kind=product.sync\"");
        assert!(page.contains(&link), "{link}: {page}");
        let page = browser
            .open(&format!("/console/queue/chunk?kind=product.sync&span={span}"))
            .await
            .expect(200)
            .text;
        for part in [
            "2 done, 1 failed",
            "slowest at most 3.0 s",
            "data-plot=",
            "All kinds",
            "<td><a href=\"/console/job?kind=product.sync&amp;since=20",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("Open jobs"), "{page}");
    }
    let page = browser.open("/console/job").await.expect(200).text;
    assert!(page.contains("href=\"/console/job?kind=product.sync\"") && page.contains("By kind"), "{page}");
    let page = browser.open("/console/job?kind=stock.sync&state=failed").await.expect(200).text;
    // without failures there is no line of them
    assert!(page.contains("1 done, none failed") && !page.contains("line bad"), "{page}");
    assert!(page.contains("href=\"/console/job?kind=stock.sync&amp;state=failed&amp;span=day\""), "{page}");
    let page = browser.open("/console/job?kind=admin.delete").await.expect(200).text;
    assert!(page.contains("0 done, none failed") && page.contains("No data in this period."), "{page}");
    // and without values no axes
    assert!(!page.contains("data-plot="), "{page}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_admin_sees_the_kinds_of_jobs_of_its_own_organisations(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let other = Tenant::create(&api.services, "Other").await.unwrap();
    job(&world, &api.tenant, "succeeded", None).await;
    job(&world, &api.tenant, "failed", Some("no")).await;
    job(&world, &api.tenant, "running", None).await;
    job(&world, &other, "succeeded", None).await;
    // counted for the whole service
    api.services.metrics.job_ended("stock.sync", "succeeded", Duration::from_secs(1));
    api.services.metrics.activity().write(&api.services.db.main).await.unwrap();
    let token = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let admin = Browser::new(api, &token);
    for span in ["hour", "week"] {
        let page =
            admin.open(&format!("/console/queue/chunk?kind=product.sync&span={span}")).await.expect(200).text;
        assert!(page.contains("1 done, 1 failed") && !page.contains("stock sync"), "{page}");
    }
    let shop = Scope::Eshop { organisation: other.organisation, eshop: other.eshop };
    let kinds = course::by_kind(&api.services.db, &shop, Span::Day).await.unwrap();
    assert_eq!(sum(&kinds.of("product.sync")), (1, 0));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn each_worker_has_its_charts(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let hook = longshore_kernel::ids::WebhookId::nil();
    // two processes with their own counts
    for (name, jobs, calls) in [("box-7", 3, 2), ("box/8 a", 0, 1)] {
        let worker = services::for_test(&options).unwrap();
        let activity = worker.metrics.activity();
        activity.of_worker(name);
        for n in 0..jobs {
            let outcome = if n == 0 { "failed" } else { "succeeded" };
            worker.metrics.job_ended("product.sync", outcome, Duration::from_secs(1));
        }
        activity.write(&worker.db.main).await.unwrap();
        for n in 0..calls {
            let outcome = if n == 0 { "failed" } else { "delivered" };
            worker.metrics.webhook_attempted(hook, outcome, Duration::from_millis(20));
        }
        activity.write(&worker.db.main).await.unwrap();
        // nothing was done since, and an idle worker is recorded once a minute
        let written = "SELECT coalesce(sum(xmin::text::bigint), 0)::bigint FROM worker_activity";
        let before = world.count(written).await;
        activity.write(&worker.db.main).await.unwrap();
        assert_eq!(world.count(written).await, before);
    }
    // the api is no worker
    api.services.metrics.job_ended("product.sync", "succeeded", Duration::from_secs(1));
    api.services.metrics.activity().write(&api.services.db.main).await.unwrap();
    for span in SPANS {
        let found = course::by_worker(&api.services.db, &Scope::Everything, span).await.unwrap();
        let mut names: Vec<_> = found.workers.iter().map(|worker| worker.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["box-7", "box/8 a"], "{span:?}");
        let found = course::of_worker(&api.services.db, &Scope::Everything, "box-7", span).await.unwrap();
        let worker = &found.workers[0];
        assert_eq!((sum(&worker.jobs), sum(&worker.calls)), ((2, 1), (1, 1)));
        let memory = worker.memory.iter().copied().flatten().max().unwrap();
        assert!(memory > 1_000_000, "{memory}");
    }
    let browser = Browser::new(api, &api.viewer);
    let page = browser.open("/console/worker").await.expect(200).text;
    assert!(page.contains("href=\"/console/worker/box-7\"") && page.contains(" MB"), "{page}");
    assert!(page.contains("href=\"/console/worker/box%2F8%20a\""), "{page}");
    assert!(browser.open("/console/queue").await.expect(200).text.contains("href=\"/console/worker\""));
    for span in ["hour", "six-hours", "day", "week"] {
        let page = browser.open(&format!("/console/worker/box-7?span={span}")).await.expect(200).text;
        for part in ["2 done, 1 failed", "1 done, 1 failed", "Memory", "&quot;unit&quot;:&quot;MB&quot;"] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
    browser.open("/console/worker/box%2F8%20a").await.expect(200);
    browser.open("/console/worker/nothing").await.expect(404);
    let activity = api.get(&api.viewer, "/api/worker/activity/day").await.expect(200).json();
    let workers = activity["workers"].as_array().unwrap();
    let steps = |name: &str| {
        let worker = workers.iter().find(|worker| worker["name"] == "box-7").unwrap();
        worker["steps"].as_array().unwrap().iter().map(|step| step[name].as_i64().unwrap_or(0)).sum::<i64>()
    };
    assert_eq!([steps("jobs"), steps("failedJobs"), steps("calls"), steps("failedCalls")], [3, 1, 2, 1]);
    assert!(steps("memoryBytes") > 1_000_000, "{activity}");
    // workers work for all organisations
    let token = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let activity = api.get(&token, "/api/worker/activity/day").await.expect(200).json();
    assert_eq!(activity["workers"], json!([]));
    let admin = Browser::new(api, &token);
    let page = admin.open("/console/worker").await.expect(200).text;
    assert!(page.contains("shown to those who see all of them") && !page.contains("box-7"), "{page}");
    admin.open("/console/worker/box-7").await.expect(404);
    assert!(!admin.open("/console/queue").await.expect(200).text.contains("/console/worker"));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn old_counts_of_kinds_and_workers_are_summed_up_in_the_steps_of_charts_and_removed(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    sqlx::raw_sql(
        "INSERT INTO job_activity (kind, minute, succeeded, failed, milliseconds, slowest)
         SELECT 'product.sync', date_trunc('minute', now()) - make_interval(mins => n), 2, 1, 300, n FROM generate_series(1, 5000) AS n;
         INSERT INTO worker_activity (worker, minute, jobs, jobs_failed, calls, calls_failed, memory)
         SELECT 'box-7', date_trunc('minute', now()) - make_interval(mins => n), 3, 1, 5, 2, n FROM generate_series(1, 5000) AS n;
         INSERT INTO exhausted_activity (minute, webhook_id, deliveries)
         SELECT date_trunc('minute', now()) - make_interval(days => n), uuid_v7(), 1 FROM generate_series(1, 20) AS n;
         INSERT INTO job_activity VALUES ('stock.sync', now() - interval '9 days', 1, 0, 1, 1);
         INSERT INTO worker_activity VALUES ('box-1', now() - interval '9 days', 1, 0, 1, 1, NULL)",
    )
    .execute(&world.owner)
    .await
    .unwrap();
    let read = async || {
        let mut sums = Vec::new();
        for span in SPANS {
            let kinds = course::by_kind(&api.services.db, &Scope::Everything, span).await.unwrap();
            let jobs = kinds.of("product.sync");
            let slowest = jobs.iter().filter_map(|step| step.slowest_ms).fold(0.0, f64::max);
            let found = course::by_worker(&api.services.db, &Scope::Everything, span).await.unwrap();
            let [worker] = found.workers.as_slice() else { panic!("{found:?}") };
            let memory = worker.memory.iter().copied().flatten().max();
            sums.push((sum(&jobs), slowest, sum(&worker.jobs), sum(&worker.calls), memory));
        }
        sums
    };
    let minute = async || world.count("SELECT floor(extract(epoch FROM now()) / 60)::bigint").await;
    let began = minute().await;
    let before = read().await;
    assert_eq!(before[3], ((10_000, 5_000), 5_000.0, (10_000, 5_000), (15_000, 10_000), Some(5_000)));
    backlog::sample(&api.services).await.unwrap();
    for table in ["job_activity", "worker_activity"] {
        let rows: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}")))
            .fetch_one(&world.owner)
            .await
            .unwrap();
        assert!(
            rows < 300,
            "{table}: an hour by the minute, a day in fewer steps, and the rest by the hour: {rows}"
        );
    }
    assert_eq!(world.count("SELECT count(*) FROM exhausted_activity").await, 7);
    let after = read().await;
    // the shorter spans end now
    let from = if minute().await == began { 0 } else { 3 };
    assert_eq!(after[from..], before[from..]);
}
