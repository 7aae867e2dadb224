//! Who sees and does what in the console.

use axum::body::Body;
use longshore_kernel::access::Role;
use longshore_testkit::world::Tenant;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{Browser, MIGRATIONS, audited, job, webhook, world};

/// Every page without a parameter.
const PAGES: [&str; 18] = [
    "/console",
    "/console/account",
    "/console/attention",
    "/console/audit?whose=all",
    "/console/find",
    "/console/find?q=s",
    "/console/order",
    "/console/order/attention",
    "/console/product",
    "/console/queue",
    "/console/job",
    "/console/failure",
    "/console/webhook",
    "/console/reader",
    "/console/delivery",
    "/console/audit",
    "/console/sync",
    "/console/schedule",
];

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_visitor_without_a_login_is_sent_to_log_in_and_returns(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    for token in ["", "lsh_nobody", "x"] {
        let browser = Browser::new(&world.api, token);
        for page in PAGES {
            let reply = browser.open(page).await.expect(303);
            assert!(reply.header("location").unwrap().starts_with("/console/login"), "{page}");
        }
        let reply = browser.open("/console/job?state=failed").await;
        assert_eq!(reply.header("location"), Some("/console/login?next=%2Fconsole%2Fjob%3Fstate%3Dfailed"));
        browser.open("/console/live").await.expect(401);
    }
    // a bearer token is for the API, and opens no page
    world.api.get(&world.api.superadmin, "/console").await.expect(303);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_error_is_a_page_with_the_navigation_bar_of_a_visitor_who_is_logged_in(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let viewer = Browser::new(&world.api, &world.api.viewer);
    let overview = viewer.open("/console/").await.expect(200).text;
    assert!(overview.contains("data-live=\"/console/live\""), "{overview}");
    for (path, status, said) in [
        ("/console/nothing", 404, "<p>The console has no page at this address.</p>"),
        ("/console/job/00000000-0000-0000-0000-000000000000", 404, "aria-current=\"page\">Jobs</a>"),
        ("/console/webhook?health=well", 400, "Is not one of the options"),
        ("/console/queue/chunk/pause", 403, "Not allowed"),
    ] {
        let page = viewer.open(path).await.expect(status).text;
        assert!(page.contains("Log out") && page.contains(said), "{path}: {page}");
        assert!(!page.contains("data-live"), "{path}: {page}");
    }
    // a visitor who is not logged in sees no navigation bar
    let nobody = Browser::new(&world.api, "lsh_nobody").open("/console/nothing").await.expect(404).text;
    assert!(!nobody.contains("Log out"), "{nobody}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_unsupported_method_is_an_error_page(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let viewer = Browser::new(&world.api, &world.api.viewer);
    for (method, path, allow) in [
        ("DELETE", "/console", "GET,HEAD"),
        ("POST", "/console/job", "GET,HEAD"),
        ("POST", "/console/nothing", "GET,HEAD"),
        ("PUT", "/console/queue/chunk/pause", "GET,HEAD,POST"),
        ("GET", "/console/logout", "POST"),
        ("POST", "/console/asset/console.css", "GET,HEAD"),
    ] {
        let reply =
            world.api.send(viewer.request(method, path).body(Body::empty()).unwrap()).await.expect(405);
        assert_eq!(reply.header("allow"), Some(allow), "{method} {path}");
        assert!(reply.header("content-type").unwrap().starts_with("text/html"), "{method} {path}");
        let said = "<p>This page does not support this method.</p>";
        assert!(
            reply.text.contains("Log out") && reply.text.contains(said),
            "{method} {path}: {}",
            reply.text
        );
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_viewer_reads_every_page_without_actions(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let failed = job(&world, &api.tenant, "failed", Some("it broke")).await;
    let hook = webhook(api, "https://shop.example/hook").await;
    let viewer = Browser::new(api, &api.viewer);
    let pages = PAGES.map(str::to_owned);
    let single = [format!("/console/job/{failed}"), format!("/console/webhook/{hook}")];
    for page in pages.iter().chain(&single) {
        let shown = viewer.open(page).await.expect(200);
        assert!(!shown.text.contains("data-ask"), "{page}: {}", shown.text);
    }
    for action in [
        format!("/console/job/{failed}/retry"),
        format!("/console/job/{failed}/cancel"),
        "/console/queue/chunk/pause".to_owned(),
        "/console/queue/chunk/resume".to_owned(),
        "/console/queue/chunk/concurrency".to_owned(),
        format!("/console/webhook/{hook}/test"),
        format!("/console/webhook/{hook}/activate"),
        format!("/console/webhook/{hook}/deactivate"),
        "/console/replay".to_owned(),
        "/console/import".to_owned(),
        "/console/job/cancel".to_owned(),
        "/console/job/retry".to_owned(),
        format!("/console/webhook/{hook}/redeliver"),
        format!("/console/webhook/{hook}/redeliver-all"),
        format!("/console/delivery/{hook}/redeliver"),
        "/console/delivery/redeliver".to_owned(),
        "/console/failure/0/retry".to_owned(),
    ] {
        viewer.open(&action).await.expect(403);
        viewer.send_bare(&action, &[]).await.expect(403);
    }
    assert_eq!(audited(&world, failed.get()).await, None);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_admin_acts_on_its_organisations_but_not_on_queues(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let token = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let admin = Browser::new(api, &token);
    let failed = job(&world, &api.tenant, "failed", Some("it broke")).await;
    let reply = admin.act(&format!("/console/job/{failed}/retry"), &[]).await.expect(303);
    assert_eq!(reply.header("location"), Some(format!("/console/job/{failed}?done=retried").as_str()));
    let after = admin.open(reply.header("location").unwrap()).await.expect(200);
    assert!(after.text.contains("The job is in the queue again."), "{}", after.text);
    assert_eq!(audited(&world, failed.get()).await, Some(("job.retry".into(), "admin of a test".into())));
    admin.open("/console/queue/chunk/pause").await.expect(403);
    admin.send_bare("/console/queue/chunk/pause", &[]).await.expect(403);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn who_may_not_read_webhooks_sees_no_figures_of_them(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    webhook(api, "https://shop.example/hook").await;
    world
        .execute("UPDATE webhook SET active = false, disabled_at = now(), disabled_reason = 'only failures'")
        .await;
    let here = format!("/console/organisation/{}", api.tenant.organisation);
    for (token, sees) in [(&api.user, true), (&api.connector, false)] {
        let page = Browser::new(api, token).open(&here).await.expect(200).text;
        for figure in [
            "<dt>Webhooks</dt>",
            "data-label=\"Webhooks\"",
            "data-label=\"Failing\"",
            "data-label=\"Disabled\"",
            "<dt>E-shops whose partner or webhook fails</dt><dd>1</dd>",
        ] {
            assert_eq!(page.contains(figure), sees, "{figure}: {page}");
        }
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn records_of_a_foreign_organisation_are_not_found(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let other = Tenant::create(&api.services, "Strangers").await.unwrap();
    let theirs = job(&world, &other, "failed", Some("their secret error")).await;
    let body =
        serde_json::json!({"eshop": other.eshop, "event": "*", "destination": "https://strangers.example/"});
    let hook = api.post(&api.superadmin, "/api/eshop-webhook", body).await.expect(201).json();
    let hook = hook["id"].as_str().unwrap();
    let token = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let admin = Browser::new(api, &token);
    for page in PAGES {
        let shown = admin.open(page).await.expect(200).text;
        for theirs in ["Strangers", "their secret error", "strangers.example"] {
            assert!(!shown.contains(theirs), "{page}: {theirs}");
        }
    }
    for (page, status) in [
        (format!("/console/job/{theirs}"), 404),
        (format!("/console/job/{theirs}/retry"), 404),
        (format!("/console/job/{theirs}/errors.csv"), 404),
        (format!("/console/job/{theirs}/refused"), 404),
        (format!("/console/webhook/{hook}"), 404),
        (format!("/console/webhook/{hook}/test"), 404),
        (format!("/console/webhook/{hook}/redeliver-all"), 404),
    ] {
        admin.open(&page).await.expect(status);
    }
    let group = "SELECT md5('product.sync their secret error')";
    let key: String = sqlx::query_scalar(group).fetch_one(&world.owner).await.unwrap();
    admin.open(&format!("/console/failure/{key}/retry")).await.expect(404);
    // visitors with access to everything see all records
    let superadmin = Browser::new(api, &api.superadmin);
    assert!(superadmin.open("/console/failure").await.expect(200).text.contains("their secret error"));
    superadmin.open(&format!("/console/failure/{key}/retry")).await.expect(200);
}
