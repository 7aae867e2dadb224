//! The overview: what needs attention by its name, the figures, and the charts.

use std::time::Duration;

use longshore_domain::standing::backlog;
use longshore_kernel::access::Role;
use longshore_kernel::activity::{self, Span, Subject};
use longshore_operate::course;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{Browser, MIGRATIONS, job, webhook, world};

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_fails_is_named_with_its_answer_and_what_waits(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let hook = webhook(api, "https://hooks.alpine.example/in").await;
    sqlx::query("UPDATE webhook_lane SET failures = 9, failing_since = now() - interval '6 minutes' WHERE webhook_id = $1")
        .bind(hook)
        .execute(&world.owner)
        .await
        .unwrap();
    sqlx::query(
        "INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at, attempt_count, attempts)
         SELECT uuid_v7(), $1, $2, uuid_v7(), now(), 1, '[{\"number\": 1, \"status\": 500}]' FROM generate_series(1, 27)",
    )
    .bind(hook)
    .bind(api.tenant.eshop)
    .execute(&world.owner)
    .await
    .unwrap();
    for _ in 0..3 {
        job(&world, &api.tenant, "failed", Some("the feed answers HTTP 401")).await;
    }
    let browser = Browser::new(api, &api.viewer);
    let page = browser.overview().await;
    for said in [
        &format!("href=\"/console/webhook/{hook}\""),
        "hooks.alpine.example (",
        "500 for 6 min, 27 waiting.",
        "has failed 3 times in",
        "the feed answers HTTP 401",
        &format!("href=\"/console/eshop/{}\"", api.tenant.eshop),
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    let attention = page.find("id=\"attention\"").unwrap();
    assert!(
        attention < page.find("id=\"figures\"").unwrap() && attention < page.find("id=\"standing\"").unwrap()
    );
    // a success ends it
    job(&world, &api.tenant, "succeeded", None).await;
    let page = browser.overview().await;
    assert!(!page.contains("has failed 3 times"), "{page}");
    // others see nothing of it
    let (stranger, _) = world.stranger().await;
    let token = stranger.token(&api.services, Role::Admin).await.unwrap();
    let page = Browser::new(api, &token).overview().await;
    assert!(!page.contains("alpine.example") && !page.contains("HTTP 401"), "{page}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_admin_sees_the_charts_of_its_own_organisations(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let hook = webhook(api, "https://shop.example/").await;
    job(&world, &api.tenant, "succeeded", None).await;
    job(&world, &api.tenant, "failed", Some("no")).await;
    let activity = api.services.metrics.activity();
    for delivered in [true, true, false] {
        activity.note(Subject::Delivery, "delivered", Duration::from_millis(5));
        activity.note_call(hook.into(), delivered, Duration::from_millis(40));
    }
    activity.write(&api.services.db.main).await.unwrap();
    let (stranger, _) = world.stranger().await;
    let mine = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let theirs = stranger.token(&api.services, Role::Admin).await.unwrap();
    for query in ["", "?span=six-hours", "?span=day", "?span=week"] {
        let page = Browser::new(api, &mine).open(&format!("/console{query}")).await.expect(200).text;
        assert!(page.contains("1 done, 1 failed") && page.contains("2 done, 1 failed"), "{query}: {page}");
        assert!(!page.contains("Due deliveries") && !page.contains("Duration of calls"), "{query}: {page}");
        let page = Browser::new(api, &theirs).open(&format!("/console{query}")).await.expect(200).text;
        assert!(page.contains("0 done, none failed") && !page.contains("1 failed"), "{query}: {page}");
    }
    // a job is no call: each has its share
    let page = Browser::new(api, &mine).open("/console").await.expect(200).text;
    for (name, share, of) in [("Jobs failed", "50.00 %", "1 of 2"), ("Calls failed", "33.34 %", "1 of 3")] {
        let figure = page.split(&format!(">{name}</span>")).nth(1).unwrap().split("</a>").next().unwrap();
        assert!(figure.contains(share) && figure.contains(of), "{figure}");
    }
    let page = Browser::new(api, &api.viewer).open("/console?span=six-hours").await.expect(200).text;
    assert!(page.contains("3 done, none failed") && page.contains("data-plot="), "{page}");
    // the last minute may have had none
    assert!(
        page.contains("Duration of calls") && page.contains("95 % in the last minute with calls"),
        "{page}"
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn old_activity_is_summed_up_and_every_span_still_has_all_of_it(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    sqlx::query(
        "INSERT INTO activity (minute, subject, outcome, slot, count)
         SELECT date_trunc('minute', now()) - make_interval(mins => n), 'job', 'succeeded', 3, 1 FROM generate_series(1, 5000) AS n",
    )
    .execute(&world.owner)
    .await
    .unwrap();
    let sum = async |span| {
        let course = activity::read(&api.services.db.main, span).await.unwrap();
        course.jobs.iter().map(|point| point.good).sum::<i64>()
    };
    let before =
        [sum(Span::Hour).await, sum(Span::SixHours).await, sum(Span::Day).await, sum(Span::Week).await];
    assert_eq!(before[3], 5_000);
    backlog::sample(&api.services).await.unwrap();
    let rows = world.count("SELECT count(*) FROM activity").await;
    assert!(rows < 300, "an hour by the minute, then by five minutes, quarters and hours: {rows}");
    let after =
        [sum(Span::Hour).await, sum(Span::SixHours).await, sum(Span::Day).await, sum(Span::Week).await];
    assert_eq!(before, after);
    // once is enough
    backlog::sample(&api.services).await.unwrap();
    assert_eq!(world.count("SELECT count(*) FROM activity").await, rows);
    assert_eq!(sum(Span::Week).await, 5_000);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn webhooks_eshops_and_queues_have_charts_that_lead_to_lists(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let [hook, other] =
        [webhook(api, "https://shop.example/").await, webhook(api, "https://two.example/").await];
    let activity = api.services.metrics.activity();
    for (hook, delivered, seconds) in [(hook, true, 1), (hook, true, 1), (hook, false, 4), (other, true, 9)] {
        activity.note_call(hook.into(), delivered, Duration::from_secs(seconds));
        activity.write(&api.services.db.main).await.unwrap();
    }
    job(&world, &api.tenant, "succeeded", None).await;
    let course = course::of_webhook(&api.services.db, hook.into(), Span::Hour).await.unwrap();
    assert_eq!((course.calls.len(), course.steps.minutes), (12, 5));
    let calls: Vec<_> = course.calls.iter().filter(|calls| calls.good + calls.bad > 0).collect();
    assert!(!calls.is_empty() && calls.len() <= 2, "{calls:?}");
    assert_eq!(calls.iter().map(|calls| calls.good).sum::<i64>(), 2);
    assert_eq!(calls.iter().map(|calls| calls.bad).sum::<i64>(), 1);
    let slowest = calls.iter().filter_map(|calls| calls.slowest_ms).reduce(f64::max);
    assert_eq!(slowest, Some(4_000.0));
    if let [calls] = calls[..] {
        assert_eq!(calls.mean_ms, Some(2_000.0));
    }

    let browser = Browser::new(api, &api.viewer);
    let eshop = api.tenant.eshop;
    for span in ["", "?span=six-hours", "?span=day", "?span=week"] {
        let page = browser.open(&format!("/console/webhook/{hook}{span}")).await.expect(200).text;
        assert!(page.contains("2 done, 1 failed") && page.contains("slowest at most 4.0 s"), "{page}");
        let list = format!("<td><a href=\"/console/webhook/{hook}?since=20");
        assert!(page.contains(&list) && page.contains("#ended\">"), "{page}");
        let page = browser.open(&format!("/console/eshop/{eshop}{span}")).await.expect(200).text;
        assert!(page.contains("3 done, 1 failed") && page.contains("slowest at most 9.0 s"), "{page}");
        assert!(page.contains(&format!("<td><a href=\"/console/job?eshop={eshop}&amp;since=20")), "{page}");
    }
    // the list of that period has the job
    let page = browser.open(&format!("/console/eshop/{eshop}")).await.expect(200).text;
    let list = page.split("<td><a href=\"/console/job?eshop=").nth(1).unwrap().split('"').next().unwrap();
    let list = format!("/console/job?eshop={}", list.replace("&amp;", "&"));
    assert!(browser.open(&list).await.expect(200).text.contains("<strong>product sync</strong>"));

    for (subject, seconds) in [(Subject::Partner, 1), (Subject::Handover, 2), (Subject::Upkeep, 4)] {
        for outcome in ["succeeded", "succeeded", "failed"] {
            activity.note(subject, outcome, Duration::from_secs(seconds));
        }
    }
    activity.write(&api.services.db.main).await.unwrap();
    let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    for (queue, chart, unit) in [
        ("partner", "Turns at partners", "turns/min"),
        ("handover", "Calls of warehouses", "calls/min"),
        ("upkeep", "Duration of tasks", "tasks/min"),
    ] {
        let here = format!("/console/queue/{queue}");
        let page = browser.open(&here).await.expect(200).text;
        assert!(page.contains(chart) && page.contains("2 done, 1 failed") && page.contains(unit), "{page}");
        // an admin of an organisation does not see how the service does
        let page = Browser::new(api, &admin).open(&here).await.expect(200).text;
        assert!(!page.contains(chart) && page.contains("counted for the whole service"), "{page}");
    }
    for (queue, chart) in [("chunk", "Open jobs"), ("lane", "Due deliveries")] {
        let page = browser.open(&format!("/console/queue/{queue}?span=day")).await.expect(200).text;
        assert!(page.contains(chart) && page.contains(&format!("id=\"card-{queue}\"")), "{page}");
    }
    browser.open("/console/queue/nothing").await.expect(404);
    // a connector sees the jobs of its e-shop, and no webhooks
    let connector = Browser::new(api, &api.tenant.eshop_token(&api.services).await.unwrap());
    let page = connector.open(&format!("/console/eshop/{eshop}")).await.expect(200).text;
    assert!(page.contains("Finished jobs") && !page.contains("Calls to destinations"), "{page}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn old_calls_of_a_webhook_are_summed_up_by_the_hour(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let hook = webhook(api, "https://shop.example/").await;
    sqlx::query(
        "INSERT INTO webhook_activity (webhook_id, minute, delivered, failed, milliseconds, slowest)
         SELECT $1, date_bin('5 minutes', now(), 'epoch') - make_interval(mins => 5 * n), 2, 1, 300, n FROM generate_series(0, 999) AS n",
    )
    .bind(hook)
    .execute(&world.owner)
    .await
    .unwrap();
    let sum = async |span| {
        let course = course::of_webhook(&api.services.db, hook.into(), span).await.unwrap();
        let slowest = course.calls.iter().filter_map(|calls| calls.slowest_ms).fold(0.0, f64::max);
        (course.calls.iter().map(|calls| calls.good + calls.bad).sum::<i64>(), slowest)
    };
    let spans = [Span::Hour, Span::SixHours, Span::Day, Span::Week];
    let mut before = Vec::new();
    for span in spans {
        before.push(sum(span).await);
    }
    assert_eq!(before[3], (3_000, 999.0));
    backlog::sample(&api.services).await.unwrap();
    let rows = world.count("SELECT count(*) FROM webhook_activity").await;
    assert!(rows < 400, "25 hours by five minutes, and the rest by the hour: {rows}");
    for (span, before) in spans.into_iter().zip(before) {
        assert_eq!(sum(span).await, before, "{span:?}");
    }
}
