//! The syncs of each e-shop.

use longshore_kernel::ids::EshopId;
use longshore_testkit::world::Tenant;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{Browser, MIGRATIONS, job, world};

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_eshop_shows_its_last_sync_the_next_one_and_the_last_error_of_its_partner(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let browser = Browser::new(api, &api.viewer);
    let page = browser.open("/console/sync").await.expect(200).text;
    assert!(page.contains("Gifts shop") && page.contains("no recent run"), "{page}");
    let last = job(&world, &api.tenant, "succeeded", None).await;
    sqlx::query(
        "WITH setting AS (
             INSERT INTO integration_setting (id, eshop_id, organisation_id, integration_type, active, credentials, base_url,
                 inventories, product_sync_enabled, product_sync_interval, stock_sync_enabled, stock_sync_interval,
                 stock_reserve, error, error_at, error_kind)
             VALUES (uuid_v7(), $1, $2, 'feed', true, '', 'https://partner.example/', '{}', true, 60, true, 60, 0,
                 'the partner answered 401', now(), 'product.sync')
             RETURNING id
         )
         INSERT INTO partner_clock (setting_id, kind, interval_minutes, next_run_at)
         SELECT id, 'product.sync', 60, now() + interval '25 minutes 10 seconds' FROM setting
         UNION ALL SELECT id, 'stock.send', 60, now() - interval '1 minute' FROM setting",
    )
    .bind(api.tenant.eshop)
    .bind(api.tenant.organisation)
    .execute(&world.owner)
    .await
    .unwrap();
    let page = browser.open("/console/sync").await.expect(200).text;
    for part in
        [&format!("/console/job/{last}"), "in 25 min", "the partner answered 401", "stock send", ">due<"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    // what was pushed says nothing of the partner, and the partner nothing of what was pushed
    for page in ["/console/sync".to_owned(), format!("/console/eshop/{}", api.tenant.eshop)] {
        let page = browser.open(&page).await.expect(200).text;
        let syncs =
            page.split("aria-label=\"Syncs, table\"").nth(1).unwrap().split("</table>").next().unwrap();
        let rows: Vec<&str> = syncs.split("<tr>").filter(|row| row.contains("<td")).collect();
        let pushed = rows.iter().find(|row| row.contains(&format!("/console/job/{last}"))).unwrap();
        assert!(pushed.contains(">pushed<") && !pushed.contains("401"), "{pushed}");
        let failed: Vec<_> = rows.iter().filter(|row| row.contains("the partner answered 401")).collect();
        assert!(failed.len() == 1 && failed[0].contains("in 25 min"), "{failed:?}");
    }
    // a page is of e-shops, each of which may have several rows
    let page = browser.open("/console/sync?name=Gifts").await.expect(200).text;
    assert!(page.contains("On this page: 1 e-shop."), "{page}");
    // by whether their partner fails
    let other = Tenant::create(&api.services, "Other").await.unwrap();
    let shows = |page: &str, eshop: EshopId| page.contains(&format!("/console/eshop/{eshop}"));
    let failing = browser.open("/console/sync?state=failing").await.expect(200).text;
    assert!(failing.contains("Failing 1<"), "{failing}");
    assert!(shows(&failing, api.tenant.eshop) && !shows(&failing, other.eshop), "{failing}");
    let all = browser.open("/console/sync?size=25").await.expect(200).text;
    assert!(shows(&all, api.tenant.eshop) && shows(&all, other.eshop), "{all}");
    for refused in ["state=well", "size=x", "after=x"] {
        browser.open(&format!("/console/sync?{refused}")).await.expect(400);
    }
    let none = browser.open("/console/sync?name=nobody").await.expect(200).text;
    assert!(none.contains("No e-shop matches."), "{none}");
}
