//! The syncs that the clock starts.

use longshore_kernel::access::Role;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{Browser, MIGRATIONS, job, world};

#[sqlx::test(migrator = "MIGRATIONS")]
async fn schedules_show_what_is_due_next_and_what_can_be_done_about_it(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let browser = Browser::new(api, &api.superadmin);
    let none = browser.open("/console/schedule").await.expect(200).text;
    assert!(none.contains("No schedule matches."), "{none}");
    let setting = json!({
        "integrationType": "feed", "active": true, "baseUrl": "https://feed.example/", "credentials": {"type": "none"},
        "productSync": {"enabled": true, "intervalMinutes": 45}, "stockSync": {"enabled": true, "intervalMinutes": 15},
    });
    let path = format!("/api/partner-integration/eshop-setting/{}", api.tenant.eshop);
    api.post(&api.user, &path, setting.clone()).await.expect(200);
    let last = job(&world, &api.tenant, "failed", Some("no answer")).await;
    let page = browser.open("/console/schedule").await.expect(200).text;
    for said in
        ["product sync", "stock send", ">45 min<", ">15 min<", &format!("/console/job/{last}"), "Gifts shop"]
    {
        assert!(page.contains(said), "{said}: {page}");
    }
    let here = format!("/console/eshop/{}", api.tenant.eshop);
    for action in ["sync", "pause"] {
        assert!(page.contains(&format!("href=\"{here}/{action}\" data-ask")), "{action}: {page}");
    }
    // paused, they are not started
    browser.act(&format!("{here}/pause"), &[]).await.expect(303);
    let paused = browser.open("/console/schedule?state=paused").await.expect(200).text;
    assert!(
        paused.contains(&format!("{here}/resume")) && !paused.contains(&format!("{here}/pause")),
        "{paused}"
    );
    let running = browser.open("/console/schedule?state=running").await.expect(200).text;
    assert!(running.contains("No schedule matches."), "{running}");
    for wrong in ["state=late", "after=x"] {
        browser.open(&format!("/console/schedule?{wrong}")).await.expect(400);
    }
    // who may only read has no buttons, and a stranger no schedules
    let viewer = Browser::new(api, &api.viewer).open("/console/schedule?text=gifts").await.expect(200).text;
    assert!(viewer.contains("product sync") && !viewer.contains("data-ask"), "{viewer}");
    let (stranger, _) = world.stranger().await;
    let token = stranger.token(&api.services, Role::Admin).await.unwrap();
    let theirs = Browser::new(api, &token).open("/console/schedule").await.expect(200).text;
    assert!(theirs.contains("No schedule matches."), "{theirs}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn schedules_are_paged_without_leaving_one_out(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    // both schedules of each setting are due at the same moment
    sqlx::query(
        "WITH shop AS (
             INSERT INTO eshop SELECT (jsonb_populate_record(s, jsonb_build_object('id', uuid_v7(), 'name', 'Shop ' || n))).*
             FROM eshop s, generate_series(1, 40) AS n WHERE s.id = $1 RETURNING id, organisation_id
         ), setting AS (
             INSERT INTO integration_setting (id, eshop_id, organisation_id, integration_type, active, credentials, base_url,
                 inventories, product_sync_enabled, product_sync_interval, stock_sync_enabled, stock_sync_interval, stock_reserve)
             SELECT uuid_v7(), id, organisation_id, 'feed', true, '', 'https://partner.example/', '{}', true, 60, true, 60, 0 FROM shop
             RETURNING id
         )
         INSERT INTO partner_clock (setting_id, kind, interval_minutes, next_run_at)
         SELECT id, kind, 60, now() FROM setting, unnest(ARRAY['product.sync', 'stock.send']) AS k (kind)",
    )
    .bind(api.tenant.eshop)
    .execute(&world.owner)
    .await
    .unwrap();
    let browser = Browser::new(api, &api.viewer);
    let mut address = "/console/schedule".to_owned();
    let mut rows = 0;
    for _ in 0..5 {
        let page = browser.open(&address).await.expect(200).text;
        rows += page.matches("data-label=\"Next run\"").count();
        let Some(next) = page.split("href=\"").find(|link| link.contains("rel=\"next\"")) else { break };
        address = next.split('"').next().unwrap().replace("&amp;", "&");
    }
    assert_eq!(rows, 80);
    let one = browser.open("/console/schedule?text=Shop%2040").await.expect(200).text;
    assert_eq!(one.matches("data-label=\"Next run\"").count(), 2);
}
