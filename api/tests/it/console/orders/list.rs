//! The list of orders.

use longshore_kernel::access::Role;
use longshore_testkit::world::Tenant;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{Yard, shows};
use crate::console::MIGRATIONS;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_is_found_by_number_sku_tracking_number_and_status(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let yard = Yard::new(&options).await;
    let api = &yard.world.api;
    yard.stock(3).await;
    let held = yard.order("HELD-1", 1, &json!({"externalId": "shop 7"})).await;
    let booked = yard.order("BOOKED-1", 2, &json!({"send": true})).await;
    let waits = yard.order("WAITS-1", 5, &json!({"send": true})).await;
    let report = json!({"status": "take_out", "parcels": [
        {"extPackageNumber": "P1", "extPackageTrackingNumber": "TRACK-1", "extCarrierTrackingNumber": "CARRIER-1"},
        {"extPackageNumber": "P2", "extPackageTrackingNumber": "TRACK-2"}]});
    api.put(&api.superadmin, &format!("/api/expedition/{booked}/status"), report).await.expect(200);
    let browser = yard.browser(Role::User).await;
    let all = browser.open("/console/order").await.expect(200).text;
    for id in [&held, &booked, &waits] {
        assert!(shows(&all, id), "{all}");
    }
    for count in ["on hold 1<", "take out 1<", "waits for goods 1<", "delivered 0<"] {
        assert!(all.contains(count), "{count}: {all}");
    }
    for (query, found) in [
        ("number=HELD-1", vec![&held]),
        ("number=shop+7", vec![&held]),
        ("number=HELD", vec![]),
        ("tracking=TRACK-1", vec![&booked]),
        ("tracking=TRACK-2", vec![&booked]),
        ("tracking=carrier-1", vec![&booked]),
        ("sku=MUG", vec![&held, &booked, &waits]),
        ("sku=MUG&status=waiting_for_goods", vec![&waits]),
        ("sku=MUG&number=HELD-1", vec![&held]),
        ("sku=JUG", vec![]),
        ("status=waiting_for_goods", vec![&waits]),
        ("status=delivered", vec![]),
        (&format!("eshop={}", api.tenant.eshop), vec![&held, &booked, &waits]),
        (&format!("eshop={}&status=on_hold", api.tenant.eshop), vec![&held]),
        (&format!("eshop={}", Uuid::nil()), vec![]),
    ] {
        let list = browser.open(&format!("/console/order?{query}")).await.expect(200).text;
        for id in [&held, &booked, &waits] {
            assert_eq!(shows(&list, id), found.contains(&id), "{query}: {list}");
        }
    }
    for query in ["status=none", "eshop=x", "after=1"] {
        browser.open(&format!("/console/order?{query}")).await.expect(400);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn many_orders_of_others_with_the_same_number_hide_none_of_ones_own(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let yard = Yard::new(&options).await;
    let api = &yard.world.api;
    let first = yard.order("SAME", 1, &json!({"externalId": "shop 7"})).await;
    let other = Tenant::create(&api.services, "Other").await.unwrap();
    // more than one search looks at, each in an e-shop of its own
    sqlx::query(
        "WITH shop AS (
             INSERT INTO eshop SELECT (jsonb_populate_record(s, jsonb_build_object('id', uuid_v7()))).*
             FROM eshop s, generate_series(1, 5001) WHERE s.id = $2 RETURNING id
         ), made AS (
             INSERT INTO expedition SELECT (jsonb_populate_record(e, jsonb_build_object('id', uuid_v7(), 'organisation_id', $1::uuid,
                 'eshop_id', shop.id))).*
             FROM shop, expedition e WHERE e.id = $3::uuid RETURNING id, eshop_id
         )
         INSERT INTO expedition_detail
         SELECT (jsonb_populate_record(d, jsonb_build_object('id', made.id, 'eshop_id', made.eshop_id, 'tracking_number', 'TRACK'))).*
         FROM made, expedition_detail d WHERE d.id = $3::uuid",
    )
    .bind(other.organisation)
    .bind(other.eshop)
    .bind(&first)
    .execute(&yard.world.owner)
    .await
    .unwrap();
    api.delete(&api.user, &format!("/api/expedition/{first}")).await.expect(204);
    let own = yard.order("SAME", 1, &json!({"externalId": "shop 7"})).await;
    sqlx::query("UPDATE expedition_detail SET tracking_number = 'TRACK' WHERE id = $1::uuid")
        .bind(&own)
        .execute(&yard.world.owner)
        .await
        .unwrap();
    sqlx::query(
        "INSERT INTO expedition_parcel (id, expedition_id, ext_package_number, ext_package_tracking_number)
         SELECT uuid_v7(), id, 'P', 'PARCEL' FROM expedition ORDER BY created_at, id",
    )
    .execute(&yard.world.owner)
    .await
    .unwrap();
    let browser = yard.browser(Role::User).await;
    for query in ["number=SAME", "number=shop+7", "tracking=TRACK", "tracking=PARCEL"] {
        let list = browser.open(&format!("/console/order?{query}")).await.expect(200).text;
        assert!(shows(&list, &own), "{query}: {list}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_list_of_orders_has_pages_that_lose_and_repeat_none(_: PgPoolOptions, options: PgConnectOptions) {
    let yard = Yard::new(&options).await;
    for n in 0..120 {
        yard.order(&format!("N{n:03}"), 1, &json!({})).await;
    }
    let browser = yard.browser(Role::User).await;
    for (first, oldest) in [
        ("/console/order", false),
        ("/console/order?status=on_hold", false),
        ("/console/order?sku=MUG", false),
        ("/console/order?sort=oldest", true),
        ("/console/order?status=on_hold&sort=oldest", true),
        ("/console/order?sku=MUG&sort=oldest", true),
    ] {
        let (mut address, mut seen) = (Some(first.to_owned()), Vec::new());
        while let Some(here) = address.take() {
            let list = browser.open(&here).await.expect(200).text;
            seen.extend(list.split("<strong>N").skip(1).map(|rest| rest[..3].to_owned()));
            address =
                list.split("rel=\"next\"").next().filter(|before| before.len() < list.len()).map(|before| {
                    before.rsplit("href=\"").next().unwrap().split('"').next().unwrap().replace("&amp;", "&")
                });
        }
        let mut expected: Vec<_> = (0..120).map(|n| format!("{n:03}")).collect();
        if !oldest {
            expected.reverse();
        }
        assert_eq!(seen, expected, "{first}");
    }
}
