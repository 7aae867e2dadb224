//! The counts under the bar of every page, and those of the states of deliveries.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use axum::body::Body;
use chrono::TimeDelta;
use http::Request;
use http_body_util::BodyExt as _;
use longshore_domain::webhook::delivery::DeliveryState;
use longshore_domain::webhook::health;
use longshore_domain::webhook::lane::backlog;
use longshore_kernel::access::{Role, Scope};
use longshore_kernel::clock::Clock;
use longshore_kernel::ids::WebhookId;
use longshore_operate::delivery;
use longshore_testkit::services;
use longshore_testkit::world::Tenant;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tower::ServiceExt as _;
use uuid::Uuid;

use super::{Browser, MIGRATIONS, job, webhook, world};
use crate::product::World;
use crate::support::Api;

/// A service whose clock the test moves, by seconds.
async fn moved(options: &PgConnectOptions) -> (World, Arc<AtomicI64>) {
    let mut services = services::for_test(options).unwrap();
    let seconds = Arc::new(AtomicI64::new(0));
    let (clock, ahead) = (services.clock.clone(), Arc::clone(&seconds));
    services.clock = Clock::from_fn(move || clock.now() + TimeDelta::seconds(ahead.load(Ordering::SeqCst)));
    (World::over(Api::over(services).await, options).await, seconds)
}

/// The counts of a page: the figure and the address of each word.
fn counts(page: &str) -> Vec<(String, String, String)> {
    let nav = page.split("<nav class=\"counts\"").nth(1).unwrap_or_else(|| panic!("no counts: {page}"));
    let nav = nav.split("</nav>").next().unwrap();
    nav.split("<a ")
        .skip(1)
        .map(|link| {
            let address = link.split("href=\"").nth(1).unwrap().split('"').next().unwrap();
            let text = link.split_once('>').unwrap().1.split("</a>").next().unwrap();
            let text = text.replace("<strong>", "").replace("</strong>", "");
            let (figure, word) = text.split_once(' ').unwrap();
            (figure.to_owned(), word.to_owned(), address.replace("&amp;", "&"))
        })
        .collect()
}

/// The figure of a word.
fn figure(page: &str, word: &str) -> String {
    let counts = counts(page);
    let found = counts.iter().find(|(_, known, _)| known == word);
    found.unwrap_or_else(|| panic!("{word}: {counts:?}")).0.clone()
}

/// Inserts a delivery that waits.
async fn waiting(world: &World, hook: Uuid, attempts: i16, due_in: i32) -> Uuid {
    sqlx::query_scalar(
        "INSERT INTO delivery (id, webhook_id, eshop_id, event_id, attempt_count, next_attempt_at)
         SELECT uuid_v7(), id, eshop_id, uuid_v7(), $2, now() + make_interval(secs => $3) FROM webhook WHERE id = $1 RETURNING id",
    )
    .bind(hook)
    .bind(attempts)
    .bind(due_in)
    .fetch_one(&world.owner)
    .await
    .unwrap()
}

/// Inserts deliveries that ended.
async fn ended(world: &World, hook: Uuid, state: &str, count: i32) {
    sqlx::query(
        "INSERT INTO delivery_history (id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id, state, attempt_count,
             attempts, created_at, finished_at)
         SELECT uuid_v7(), id, eshop_id, organisation_id, uuid_v7(), 'product_change', uuid_v7(), $2, 1, '[]', now(), now()
         FROM webhook, generate_series(1, $3) WHERE id = $1",
    )
    .bind(hook)
    .bind(state)
    .bind(count)
    .execute(&world.owner)
    .await
    .unwrap();
}

async fn foreign_webhook(world: &World, other: &Tenant) -> Uuid {
    let token = other.token(&world.api.services, Role::User).await.unwrap();
    let body =
        json!({"eshop": other.eshop, "event": "product_change", "destination": "https://other.example/"});
    let made = world.api.post(&token, "/api/eshop-webhook", body).await.expect(201).json();
    made["id"].as_str().unwrap().parse().unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn every_page_counts_what_the_visitor_may_see_and_leads_to_it(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let hook = webhook(api, "https://shop.example/").await;
    let other = Tenant::create(&api.services, "Other").await.unwrap();
    let foreign = foreign_webhook(&world, &other).await;
    for state in ["queued", "queued", "running", "retrying"] {
        job(&world, &api.tenant, state, None).await;
    }
    let failed = job(&world, &api.tenant, "failed", Some("no")).await;
    job(&world, &other, "queued", None).await;
    let due = waiting(&world, hook, 0, -5).await;
    let retry = waiting(&world, hook, 2, 600).await;
    // a first attempt that is not due waits for no retry
    let first = waiting(&world, hook, 0, 600).await;
    waiting(&world, foreign, 1, -5).await;
    waiting(&world, foreign, 1, 600).await;
    sqlx::query(
        "INSERT INTO exhausted_activity (minute, webhook_id, deliveries)
         VALUES (now(), $1, 1), (now() - interval '1 minute', $1, 1), (now(), $2, 1)",
    )
    .bind(hook)
    .bind(foreign)
    .execute(&api.services.db.main)
    .await
    .unwrap();
    ended(&world, hook, "exhausted", 2).await;

    let token = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let admin = Browser::new(api, &token);
    let everything = Browser::new(api, &api.viewer);
    for (path, status) in [("/console/audit", 200), ("/console/job", 200), ("/console/webhook?size=7", 400)] {
        let [own, all] = [&admin, &everything].map(|browser| browser.open(path));
        let (own, all) = (own.await.expect(status).text, all.await.expect(status).text);
        for (word, of_own, of_all) in [
            ("queued", "2", "3"),
            ("running", "1", "1"),
            ("retrying", "1", "1"),
            ("failed in 24 h", "1", "1"),
            ("due", "1", "2"),
            ("to retry", "1", "2"),
            ("exhausted in 24 h", "2", "3"),
            ("incorrect", "0", "0"),
        ] {
            assert_eq!(
                (figure(&own, word).as_str(), figure(&all, word).as_str()),
                (of_own, of_all),
                "{path}: {word}"
            );
        }
    }
    // each leads to its list
    let page = admin.open("/console/audit").await.expect(200).text;
    for (_, word, address) in counts(&page) {
        let list = admin.open(&address).await.expect(200).text;
        let shows = |id: &str| list.contains(&format!("/{id}\""));
        match word.as_str() {
            "failed in 24 h" => assert!(shows(&failed.to_string()), "{list}"),
            "due" => assert!(shows(&due.to_string()) && !shows(&retry.to_string()), "{list}"),
            "to retry" => {
                assert!(
                    shows(&retry.to_string()) && !shows(&due.to_string()) && !shows(&first.to_string()),
                    "{list}"
                );
            }
            "exhausted in 24 h" => {
                assert_eq!(list.matches("<a href=\"/console/delivery/").count(), 2, "{list}");
            }
            _ => {}
        }
    }
    // what needs attention comes first
    let (first, _, address) = &counts(&page)[0];
    assert_eq!(address, "/console/attention");
    assert!(first.parse::<usize>().unwrap() >= 2, "{page}");
    // an error has them, too; a page for no one does not
    let page = admin.open("/console/nothing").await.expect(404).text;
    assert_eq!(figure(&page, "queued"), "2");
    let page = Browser::new(api, "").open("/console/login").await.expect(200).text;
    assert!(!page.contains("class=\"counts\""), "{page}");
    // programs read the same
    for (token, queued, exhausted) in [(&token, 2, 2), (&api.viewer, 3, 3)] {
        let counts = api.get(token, "/api/counts").await.expect(200).json();
        assert_eq!(counts["jobs"]["queued"], json!({"count": queued, "atLeast": false}), "{counts}");
        assert_eq!(
            counts["deliveries"]["exhaustedInADay"],
            json!({"count": exhausted, "atLeast": false}),
            "{counts}"
        );
        assert_eq!(counts["attention"]["worst"], "critical", "{counts}");
    }
    // an inactive webhook waits for nothing
    sqlx::query("UPDATE webhook SET active = false WHERE id = $1")
        .bind(hook)
        .execute(&world.owner)
        .await
        .unwrap();
    let scope = Scope::Organisations([api.tenant.organisation].into());
    assert_eq!(backlog::retrying(&api.services.db, &scope).await.unwrap(), 0);
    assert_eq!(backlog::retrying(&api.services.db, &Scope::Everything).await.unwrap(), 1);
    let list = admin.open("/console/delivery?waits=due").await.expect(200).text;
    assert!(list.contains("No delivery matches."), "{list}");
    let refused = admin.open("/console/delivery?state=exhausted&waits=due").await.expect(400).text;
    assert!(refused.contains("id=\"wrong-waits\""), "{refused}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn roles_that_see_less_have_fewer_counts(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    job(&world, &api.tenant, "queued", None).await;
    let other_shop = world.eshop().await;
    sqlx::query("UPDATE job SET eshop_id = $1").bind(other_shop).execute(&world.owner).await.unwrap();
    job(&world, &api.tenant, "queued", None).await;
    let path = format!("/console/eshop/{}", api.tenant.eshop);
    let words = |page: &str| counts(page).into_iter().map(|(_, word, _)| word).collect::<Vec<_>>().join(", ");
    let jobs = "queued, running, retrying, failed in 24 h";
    let page = Browser::new(api, &api.user).open(&path).await.expect(200).text;
    assert_eq!(words(&page), format!("{jobs}, due, to retry, exhausted in 24 h, incorrect"));
    assert_eq!(figure(&page, "queued"), "2");
    // a connector of an e-shop sees the jobs of that
    let token = api.tenant.eshop_token(&api.services).await.unwrap();
    let page = Browser::new(api, &token).open(&path).await.expect(200).text;
    assert_eq!(words(&page), format!("{jobs}, incorrect"));
    assert_eq!(figure(&page, "queued"), "1");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn pages_share_counts_for_seconds_and_an_action_counts_again(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (world, seconds) = moved(&options).await;
    let api = &world.api;
    let queued = job(&world, &api.tenant, "queued", None).await;
    let browser = Browser::new(api, &api.superadmin);
    let count = async || figure(&browser.open("/console/audit").await.expect(200).text, "queued");
    assert_eq!(count().await, "1");
    job(&world, &api.tenant, "queued", None).await;
    assert_eq!(count().await, "1");
    seconds.fetch_add(60, Ordering::SeqCst);
    assert_eq!(count().await, "2");
    // another one of the same scope has the same counts
    for _ in 0..2 {
        job(&world, &api.tenant, "queued", None).await;
    }
    let page = Browser::new(api, &api.viewer).open("/console/audit").await.expect(200).text;
    assert_eq!(figure(&page, "queued"), "2");
    // whoever acts sees what came of it
    browser.act(&format!("/console/job/{queued}/cancel"), &[]).await.expect(303);
    assert_eq!(count().await, "3", "four, and one of them is cancelled");
    // an open page has them as one of its parts
    let cookie = format!("longshore_console={}", api.superadmin);
    let request = Request::builder().uri("/console/job/live?refresh=5").header("cookie", cookie);
    let request = request.header("host", "ops.example").body(Body::empty()).unwrap();
    let mut body = api.router.clone().oneshot(request).await.unwrap().into_body();
    let event = body.frame().await.unwrap().unwrap().into_data().unwrap();
    let event = String::from_utf8(event.to_vec()).unwrap();
    assert!(event.contains("\"counts\":\"<nav class=\\\"counts\\\""), "{event}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_states_of_deliveries_are_counted_up_to_a_bound(_: PgPoolOptions, options: PgConnectOptions) {
    let (world, seconds) = moved(&options).await;
    let api = &world.api;
    let hook = webhook(api, "https://shop.example/").await;
    let other = Tenant::create(&api.services, "Other").await.unwrap();
    let foreign = foreign_webhook(&world, &other).await;
    waiting(&world, hook, 0, 600).await;
    waiting(&world, foreign, 0, 600).await;
    ended(&world, hook, "delivered", 7).await;
    ended(&world, hook, "exhausted", 3).await;
    ended(&world, foreign, "cancelled", 2).await;
    let token = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let (admin, everything) = (Browser::new(api, &token), Browser::new(api, &api.viewer));
    let own = admin.open("/console/delivery?event=product_change").await.expect(200).text;
    let all = everything.open("/console/delivery?event=product_change").await.expect(200).text;
    for (page, of) in [
        (&own, ["all 11<", "exhausted 3<", "pending 1<", "cancelled 0<", "delivered 7<"]),
        (&all, ["all 14<", "exhausted 3<", "pending 2<", "cancelled 2<", "delivered 7<"]),
    ] {
        for count in of {
            assert!(page.contains(count), "{count}: {page}");
        }
        assert!(
            page.contains("href=\"/console/delivery?event=product_change&amp;state=exhausted\""),
            "{page}"
        );
    }
    let shop = Scope::Eshop { organisation: api.tenant.organisation, eshop: api.tenant.eshop };
    let states = delivery::states(&api.services.db, &shop).await.unwrap();
    assert_eq!(states.of(DeliveryState::Delivered).in_words(), "7");
    assert_eq!(states.of(DeliveryState::Exhausted).in_words(), "3");
    let stranger = Scope::Eshop { organisation: other.organisation, eshop: api.tenant.eshop };
    assert_eq!(delivery::states(&api.services.db, &stranger).await.unwrap().all().in_words(), "0");

    // beyond the bound, that is said
    ended(&world, hook, "exhausted", 200).await;
    ended(&world, hook, "delivered", 1_500).await;
    seconds.fetch_add(60, Ordering::SeqCst);
    let page = admin.open("/console/delivery").await.expect(200).text;
    for count in ["all 1,000+<", "exhausted 100+<", "delivered 1,000+<", "pending 1<"] {
        assert!(page.contains(count), "{count}: {page}");
    }
    // on the page of a webhook, too
    let page = admin.open(&format!("/console/webhook/{hook}")).await.expect(200).text;
    for count in ["exhausted 203<", "cancelled 0<", "delivered 1,000+<", "all 1,203+<"] {
        assert!(page.contains(count), "{count}: {page}");
    }
    let counts = health::record(&api.services.db, WebhookId::from(hook), 0).await.unwrap().counts;
    assert_eq!((counts.newest, counts.unsuccessful()), (1_000, 203));
}
