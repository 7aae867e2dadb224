//! The overview: what needs attention by its name, the figures, and the charts.

use std::time::Duration;

use longshore_shared::kernel::access::Role;
use longshore_shared::kernel::activity::{self, Span, Subject};
use longshore_shared::operate::{backlog, course};
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
    let page = browser.open("/console").await.expect(200).text;
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
    let page = browser.open("/console").await.expect(200).text;
    assert!(!page.contains("has failed 3 times"), "{page}");
    // others see nothing of it
    let (stranger, _) = world.stranger().await;
    let token = stranger.token(&api.services, Role::Admin).await.unwrap();
    let page = Browser::new(api, &token).open("/console").await.expect(200).text;
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
        activity.note_call(hook.into(), delivered);
    }
    activity.write(&api.services.db.main).await.unwrap();
    let (stranger, _) = world.stranger().await;
    let mine = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let theirs = stranger.token(&api.services, Role::Admin).await.unwrap();
    for query in ["", "?span=day", "?span=week", "?span=hour"] {
        let page = Browser::new(api, &mine).open(&format!("/console{query}")).await.expect(200).text;
        assert!(page.contains("1 done, 1 failed") && page.contains("2 done, 1 failed"), "{query}: {page}");
        assert!(!page.contains("Due deliveries") && !page.contains("span=six-hours"), "{query}: {page}");
        let page = Browser::new(api, &theirs).open(&format!("/console{query}")).await.expect(200).text;
        assert!(page.contains("0 done, none failed") && !page.contains("1 failed"), "{query}: {page}");
    }
    let page = Browser::new(api, &api.viewer).open("/console?span=six-hours").await.expect(200).text;
    assert!(page.contains("3 done, none failed") && page.contains("data-plot="), "{page}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn old_activity_is_summed_up_by_the_hour_and_a_week_still_has_all_of_it(
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
        let course = activity::read(&api.services.db.lists, span).await.unwrap();
        course.jobs.iter().map(|point| point.good).sum::<i64>()
    };
    let before =
        [sum(Span::Hour).await, sum(Span::SixHours).await, sum(Span::Day).await, sum(Span::Week).await];
    assert_eq!(before[3], 5_000);
    backlog::sample(&api.services).await.unwrap();
    let rows = world.count("SELECT count(*) FROM activity").await;
    assert!(rows < 1_700, "25 hours by the minute, and the rest by the hour: {rows}");
    let after =
        [sum(Span::Hour).await, sum(Span::SixHours).await, sum(Span::Day).await, sum(Span::Week).await];
    assert_eq!(before, after);
    // once is enough
    backlog::sample(&api.services).await.unwrap();
    assert_eq!(world.count("SELECT count(*) FROM activity").await, rows);
    assert_eq!(sum(Span::Week).await, 5_000);
    let spans = course::spans(&longshore_shared::kernel::access::Scope::Everything);
    assert_eq!(spans, Span::ALL);
}
