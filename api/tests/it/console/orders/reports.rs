//! Reports of warehouses that were refused, and orders that were packed although the warehouse did not have them any more: lines of what
//! needs attention.

use longshore_kernel::access::Role;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::Yard;
use crate::attention::{find, line, path, refused_reports};
use crate::product::MIGRATIONS;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn refused_reports_and_orders_that_were_packed_all_the_same_are_lines(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let yard = Yard::new(&options).await;
    let (world, api) = (&yard.world, &yard.world.api);
    let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let (stranger, _) = world.stranger().await;
    let theirs = stranger.token(&api.services, Role::Admin).await.unwrap();
    let kinds = ["refused_reports", "contradicted_orders"];
    for kind in kinds {
        assert_eq!(find(world, &admin, kind).await, None);
    }
    refused_reports(world, api.tenant.wms, 90).await;
    let last = refused_reports(world, api.tenant.wms, 20).await;
    let mut orders = Vec::new();
    for (number, minutes_ago) in [("ONE", 50), ("TWO", 40)] {
        let id = yard.order(number, 2, &json!({"send": true})).await;
        sqlx::query(
            "INSERT INTO wms_contradiction (expedition_id, number, wms_id, news_id, at)
             VALUES ($1::uuid, 1, $2, 'N', now() - make_interval(mins => $3))",
        )
        .bind(&id)
        .bind(api.tenant.wms)
        .bind(minutes_ago)
        .execute(&world.owner)
        .await
        .unwrap();
        orders.push(id);
    }
    let (reports, packed) = (line(world, &admin, kinds[0]).await, line(world, &admin, kinds[1]).await);
    let place = "Gifts inventory (Gifts)";
    for (line, severity, page, said) in [
        (
            &reports,
            "warning",
            format!("/console/job/{last}"),
            "4 reports were refused in 3 days, the last 20 min ago: items[0].expedited must come to at most what was ordered",
        ),
        (
            &packed,
            "critical",
            format!("/console/order/{}", orders[1]),
            "2 orders were packed although they were canceled or given back, the last 40 min ago: TWO. Their pieces left the stock.",
        ),
    ] {
        assert_eq!(line["sentence"], format!("{place}: {said}"));
        assert_eq!((&line["severity"], &line["page"]), (&json!(severity), &json!(page)));
        assert_eq!(line["organisation"], json!(api.tenant.organisation));
        assert_eq!(find(world, &theirs, line["kind"].as_str().unwrap()).await, None);
    }
    let shown = yard.browser(Role::Admin).await.open("/console/order/attention").await.expect(200).text;
    assert!(shown.contains("4 reports were refused") && shown.contains("2 orders were packed"), "{shown}");

    // one more is new
    for line in [&reports, &packed] {
        api.put(&admin, &path(line, "acknowledge"), Value::Null).await.expect(200);
    }
    refused_reports(world, api.tenant.wms, 1).await;
    let again = line(world, &admin, kinds[0]).await;
    assert_eq!((&again["id"], &again["silence"]), (&reports["id"], &Value::Null));
    assert_eq!(line(world, &admin, kinds[1]).await["silence"]["mode"], "acknowledged");

    world.execute("UPDATE job SET created_at = now() - interval '73 hours'").await;
    world.execute("UPDATE wms_contradiction SET at = now() - interval '73 hours'").await;
    for kind in kinds {
        assert_eq!(find(world, &admin, kind).await, None);
    }
}
