//! Acknowledging and muting on the overview.

use longshore_kernel::access::Role;
use serde_json::Value;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::repair::send_opened;
use super::{Browser, MIGRATIONS, hidden, webhook, world};
use crate::attention::{FAILS, RECOVERS, execute};

/// The part of a page with a title, up to the next one.
fn group<'p>(page: &'p str, title: &str) -> &'p str {
    let part = page.split(&format!("id=\"{title}\"")).nth(1).unwrap_or_default();
    part.split("<h").next().unwrap().split("</section>").next().unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_line_is_acknowledged_muted_and_shown_again_by_its_buttons(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let hook = webhook(api, "https://hooks.alpine.example/in").await;
    execute(&world, FAILS, hook).await;
    let token = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let admin = Browser::new(api, &token);
    let listed = api.get(&token, "/api/attention").await.expect(200).json();
    let lines = listed["lines"].as_array().unwrap();
    let line = lines.iter().find(|line| line["kind"] == "destination").unwrap()["id"].as_str().unwrap();
    let path = |action: &str| format!("/console/attention/{line}/{action}");

    let page = admin.overview().await;
    assert!(page.contains(&format!("href=\"{}\" data-ask", path("acknowledge"))), "{page}");
    assert!(
        page.contains(&format!("href=\"{}\" data-ask", path("mute"))) && !page.contains("acknowledged-title")
    );
    // who may not has no button, and lines of the service have none for an admin
    let shown = Browser::new(api, &api.viewer).overview().await;
    assert!(shown.contains("hooks.alpine.example (") && !shown.contains("data-ask"), "{shown}");
    assert_eq!(page.matches("/acknowledge\"").count(), 1, "{page}");

    let reply = admin.act(&path("acknowledge"), &[("note", "<b>they move</b>")]).await.expect(303);
    assert_eq!(reply.header("location"), Some("/console?done=acknowledged"));
    let page = admin.open("/console").await.expect(200).text;
    let seen = group(&page, "acknowledged-title");
    assert!(
        seen.contains("hooks.alpine.example (") && seen.contains("admin of a test has seen it"),
        "{page}"
    );
    assert!(seen.contains("&lt;b&gt;they move&lt;/b&gt;") && seen.contains(&path("end")), "{page}");
    assert_eq!(
        page.matches("hooks.alpine.example (").count(),
        2,
        "the line and the name of its button: {page}"
    );

    let asked = admin.open(&path("mute")).await.expect(200).text;
    assert!(asked.contains("<option value=\"8h\">8 hours</option>"), "{asked}");
    let refused = admin.act(&path("mute"), &[("for", "8h")]).await.expect(400).text;
    assert!(refused.contains("wrong-reason"), "{refused}");
    admin.act(&path("mute"), &[("for", "8h"), ("reason", "until the evening")]).await.expect(303);
    for page in ["/console", "/console/attention"] {
        let page = admin.open(page).await.expect(200).text;
        let muted = group(&page, "muted-title");
        assert!(muted.contains("hooks.alpine.example (") && muted.contains("until the evening"), "{page}");
        assert!(muted.contains("muted by admin of a test") && !page.contains("acknowledged-title"), "{page}");
    }
    let opened = admin.open(&path("acknowledge")).await.expect(200).text;
    execute(&world, RECOVERS, hook).await;
    // the line went while somebody confirmed
    let reply = send_opened(&admin, &path("acknowledge"), &hidden(&opened), &[]).await.expect(303);
    assert_eq!(reply.header("location"), Some("/console?done=line-over"));
    let page = admin.open("/console?done=line-over").await.expect(200).text;
    assert!(page.contains("The line is over") && !page.contains("acknowledged-title"), "{page}");
    let page = admin.open("/console").await.expect(200).text;
    assert!(group(&page, "muted-title").contains("not there now"), "{page}");
    let reply = admin.act(&path("end"), &[]).await.expect(303);
    assert_eq!(reply.header("location"), Some("/console?done=silence-ended"));
    assert!(!admin.open("/console").await.expect(200).text.contains("muted-title"));
    // what is over leads to no form, but back, and another organisation has neither line
    let (stranger, _) = world.stranger().await;
    let token = stranger.token(&api.services, Role::Admin).await.unwrap();
    for browser in [&admin, &Browser::new(api, &token)] {
        for action in ["acknowledge", "mute"] {
            let reply = browser.open(&format!("{}?from=all", path(action))).await.expect(303);
            assert_eq!(reply.header("location"), Some("/console/attention?done=line-over"));
        }
        browser.open(&path("end")).await.expect(404);
    }
    Browser::new(api, &api.viewer).open(&path("mute")).await.expect(403);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_overview_shows_the_first_new_lines_of_a_kind_and_leads_to_the_rest(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    for number in 1..=7 {
        execute(&world, FAILS, webhook(api, &format!("https://host-{number}.example/")).await).await;
    }
    let browser = Browser::new(api, &api.superadmin);
    let shown = |page: &str| page.matches(".example (").count() / 3;
    let page = browser.overview().await;
    assert_eq!(shown(&page), 5, "{page}");
    assert!(page.contains("<a href=\"/console/attention\">2 more</a>"), "{page}");
    let all = browser.open("/console/attention").await.expect(200).text;
    assert_eq!(shown(&all), 7, "{all}");
    assert!(!all.contains(" more</a>"), "{all}");
    // what was seen makes room for what was not
    let lines = api.get(&api.superadmin, "/api/attention").await.expect(200).json();
    let lines = lines["lines"].as_array().unwrap().iter().filter(|line| line["kind"] == "destination");
    for line in lines.take(4) {
        let path = format!("/api/attention/{}/acknowledge", line["id"].as_str().unwrap());
        api.put(&api.superadmin, &path, Value::Null).await.expect(200);
    }
    let page = browser.open("/console").await.expect(200).text;
    assert!(!page.contains(" more</a>") && page.contains("host-7.example ("), "{page}");
    assert_eq!(group(&page, "acknowledged-title").matches("has seen it").count(), 4, "{page}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_needs_attention_about_orders_is_acknowledged_on_their_page(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    execute(&world, FAILS, webhook(api, "https://hooks.example/in").await).await;
    let mug = world.add("MUG", serde_json::json!({})).await;
    sqlx::query(
        "INSERT INTO product_stock AS s (id, organisation_id, product_id, warehouse_id, wms_id, quantity, marked_at)
         VALUES (uuid_v7(), $1, $2, $3, $4, 1, now() - interval '5 minutes')",
    )
    .bind(api.tenant.organisation)
    .bind(mug.parse::<Uuid>().unwrap())
    .bind(api.tenant.warehouse)
    .bind(api.tenant.wms)
    .execute(&world.owner)
    .await
    .unwrap();
    let token = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let admin = Browser::new(api, &token);
    let here = "/console/order/attention";
    let page = admin.open(here).await.expect(200).text;
    // no line about webhooks
    assert!(
        page.contains("1 stock has waited for the allocator") && !page.contains("hooks.example"),
        "{page}"
    );
    let link = page.split("href=\"").find(|link| link.contains("/acknowledge?from=orders\"")).unwrap();
    let link = link.split('"').next().unwrap();
    let reply = admin.act(link, &[]).await.expect(303);
    assert_eq!(reply.header("location"), Some("/console/order/attention?done=acknowledged"));
    let page = admin.open(here).await.expect(200).text;
    assert!(group(&page, "acknowledged-title").contains("1 stock has waited for the allocator"), "{page}");
    let reply = admin.act(&link.replace("/acknowledge", "/end"), &[]).await.expect(303);
    assert_eq!(reply.header("location"), Some("/console/order/attention?done=silence-ended"));
    let mute = link.replace("/acknowledge", "/mute").replace("orders", "//evil.example");
    let reply = admin.act(&mute, &[("for", "1h"), ("reason", "counting")]).await.expect(303);
    assert_eq!(reply.header("location"), Some("/console?done=muted"));
    // who may not has no buttons, and who may not see what needs attention has no lines
    let viewer = Browser::new(api, &api.viewer).open(here).await.expect(200).text;
    assert!(!viewer.contains("data-ask"), "{viewer}");
    let user = Browser::new(api, &api.user).open(here).await.expect(200).text;
    assert!(!user.contains("What to acknowledge or mute"), "{user}");
}
