//! Requirements of changes, and the protection of pages in browsers.

use longshore_kernel::queue::control;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{Browser, MIGRATIONS, audited, hidden, job, world};

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_change_requires_a_page_of_the_console_and_the_form_token_of_its_session(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let browser = Browser::new(api, &api.superadmin);
    let path = "/console/queue/lane/pause";
    let question = browser.open(path).await.expect(200).text;
    let fields = hidden(&question);
    let good: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(good.len(), 1);
    for site in ["cross-site", "same-site", "none"] {
        browser.send_from(site, path, &good).await.expect(403);
    }
    browser.send_bare(path, &[]).await.expect(403);
    browser.send_bare(path, &[("form_token", "0")]).await.expect(403);
    // the token of another login
    let other = api.tenant.token(&api.services, longshore_kernel::access::Role::Superadmin).await.unwrap();
    Browser::new(api, &other).send_bare(path, &good).await.expect(403);
    let paused =
        async || control::wishes(&api.services.db.main).await.unwrap().iter().any(|wish| wish.paused);
    assert!(!paused().await);
    let reply = browser.send_bare(path, &good).await.expect(303);
    assert_eq!(reply.header("location"), Some("/console/queue?done=paused"));
    assert!(paused().await);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn reading_a_page_changes_nothing(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let browser = Browser::new(api, &api.superadmin);
    let running = job(&world, &api.tenant, "running", None).await;
    for path in [format!("/console/job/{running}/cancel"), "/console/queue/chunk/pause".to_owned()] {
        browser.open(&path).await.expect(200);
    }
    assert_eq!(audited(&world, running.get()).await, None);
    assert_eq!(world.count("SELECT count(*) FROM queue WHERE paused").await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_queue_is_paused_resumed_and_given_a_concurrency(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let browser = Browser::new(api, &api.superadmin);
    browser.act("/console/queue/chunk/pause", &[]).await.expect(303);
    assert!(browser.open("/console/queue").await.expect(200).text.contains("/console/queue/chunk/resume"));
    browser.act("/console/queue/chunk/resume", &[]).await.expect(303);
    browser.act("/console/queue/chunk/concurrency?to=7", &[]).await.expect(303);
    assert!(browser.open("/console/queue").await.expect(200).text.contains("7 per worker"));
    browser.act("/console/queue/chunk/concurrency?to=", &[]).await.expect(303);
    assert!(!browser.open("/console/queue").await.expect(200).text.contains("a worker</dd>"));
    for (path, status) in [
        ("/console/queue/chunk/concurrency?to=0", 400),
        ("/console/queue/chunk/concurrency?to=4097", 400),
        ("/console/queue/chunk/concurrency?to=x", 400),
        ("/console/queue/chunks/pause", 404),
    ] {
        browser.open(path).await.expect(status);
    }
    let actions: Vec<String> =
        sqlx::query_scalar("SELECT action FROM audit WHERE entity_type = 'queue' ORDER BY id")
            .fetch_all(&world.owner)
            .await
            .unwrap();
    assert_eq!(actions, ["queue.pause", "queue.resume", "queue.update", "queue.update"]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_page_loads_nothing_from_elsewhere_and_cannot_be_framed(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let browser = Browser::new(&world.api, &world.api.superadmin);
    for path in
        ["/console", "/console/login", "/console/nothing", "/console/job/x", "/console/asset/console.css"]
    {
        let reply = browser.open(path).await;
        let policy = reply.header("content-security-policy").unwrap();
        for word in ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"]
        {
            assert!(policy.contains(word), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        if !path.contains("asset") {
            assert_eq!(reply.header("cache-control"), Some("no-store"), "{path}");
            let text = &reply.text;
            assert!(
                !text.contains("<style") && !text.contains(" style=") && !text.contains(" onclick="),
                "{text}"
            );
            assert!(!text.contains("<script>") && !text.contains("src=\"http"), "{text}");
        }
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn assets_are_in_the_binary_and_named_by_their_content(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let browser = Browser::new(&world.api, "");
    let page = browser.open("/console/login").await.expect(200).text;
    for (name, media_type) in
        [("console.css", "text/css"), ("console.js", "text/javascript"), ("icon.svg", "image/svg+xml")]
    {
        let start = page.find(&format!("/console/asset/{name}?")).unwrap();
        let address = page[start..].split('"').next().unwrap();
        let asset = browser.open(address).await.expect(200);
        assert!(asset.header("content-type").unwrap().starts_with(media_type));
        assert!(asset.header("cache-control").unwrap().contains("immutable"));
    }
    browser.open("/console/asset/nothing.js").await.expect(404);
}
