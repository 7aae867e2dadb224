//! The page of an order.

use longshore_domain::list::fields::expedition::ExpeditionStatus;
use longshore_kernel::access::Role;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{Yard, page};
use crate::console::{Browser, MIGRATIONS};

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_page_of_an_order_says_what_it_waits_for_and_when_that_comes(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let yard = Yard::new(&options).await;
    let (api, owner) = (&yard.world.api, &yard.world.owner);
    let hook = json!({"eshop": api.tenant.eshop, "event": "expedition_status_change", "destination": "https://shop.example/orders"});
    let browser = yard.browser(Role::User).await;
    let silent = yard.order("SILENT", 1, &json!({})).await;
    let shown = browser.open(&page(&silent)).await.expect(200).text;
    assert!(
        shown.contains("No webhook of the e-shop listens to orders.") && !shown.contains("Waits for</h2>"),
        "{shown}"
    );
    api.post(&api.user, "/api/eshop-webhook", hook).await.expect(201);
    yard.stock(2).await;
    let earlier = yard.order("EARLIER", 4, &json!({"send": true})).await;
    let waits = yard.order("LATER", 3, &json!({"send": true})).await;
    // three are announced in its place; pieces in another wms do not serve it
    sqlx::query(
        "WITH supplier AS (
             INSERT INTO supplier SELECT (jsonb_populate_record(NULL::supplier, jsonb_build_object('id', uuid_v7(),
                 'organisation_id', $1, 'name', 'Kiln', 'active', true, 'version', 1, 'created_at', now(), 'changed_at', now()))).* RETURNING id
         ), advice AS (
             INSERT INTO stock_advice (id, organisation_id, warehouse_id, wms_id, supplier_id, internal_id, expected_at, status,
                                       count_of_items, count_of_sku, sum_of_quantity)
             SELECT uuid_v7(), s.organisation_id, s.warehouse_id, s.wms_id, supplier.id, 'ADV-1', '2099-03-01', 'new', 1, 1, 5
             FROM product_stock s, supplier RETURNING id
         ), item AS (
             INSERT INTO stock_advice_item (id, stock_advice_id, position, product_id, quantity, received)
             SELECT uuid_v7(), advice.id, 0, s.product_id, 5, 2 FROM advice, product_stock s
         ), other AS (
             INSERT INTO wms (id, organisation_id, name, distribution_center, store_key, internal_id)
             VALUES (uuid_v7(), $1, 'Annex', uuid_v7(), 'annex', 'annex') RETURNING id
         )
         INSERT INTO product_stock (id, organisation_id, product_id, warehouse_id, wms_id, quantity)
         SELECT uuid_v7(), s.organisation_id, s.product_id, s.warehouse_id, other.id, 9 FROM product_stock s, other",
    )
    .bind(api.tenant.organisation)
    .execute(owner)
    .await
    .unwrap();
    let shown = browser.open(&page(&waits)).await.expect(200).text;
    for part in [
        "It waits for goods.",
        "Looked at again when there is enough of <strong>MUG</strong>",
        "1 order that waits for the same is served before it.",
        "3 expected on 2099-03-01",
        "advice ADV-1, new",
        "9 free in ",
        "Annex.",
        "Stock in another place does not serve this order.",
        "expedition.create",
        "expedition.send",
        "on hold → waits for goods",
        "https://shop.example/orders",
        ">expedition_status_change</a>",
        "pending",
        "/unbook\" data-ask",
        "/cancel\" data-ask",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("/process\""), "{shown}");
    let first = browser.open(&page(&earlier)).await.expect(200).text;
    assert!(first.contains("No order is served before it."), "{first}");
    // a page that is open gets the same
    browser.open(&page("00000000-0000-0000-0000-000000000007")).await.expect(404);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_happened_to_an_order_is_one_timeline(_: PgPoolOptions, options: PgConnectOptions) {
    let yard = Yard::new(&options).await;
    let api = &yard.world.api;
    let hook = json!({"eshop": api.tenant.eshop, "event": "expedition_status_change", "destination": "https://shop.example/orders"});
    api.post(&api.user, "/api/eshop-webhook", hook).await.expect(201);
    yard.stock(5).await;
    let id = yard.order("ONE", 2, &json!({"send": true})).await;
    for status in ["take_out", "waiting_for_the_carrier"] {
        let path = format!("/api/expedition/{id}/status");
        api.put(&api.superadmin, &path, json!({"status": status})).await.expect(200);
    }
    // one piece of news of its warehouse, and one that contradicts what the service knows
    sqlx::query(
        "WITH news AS (
             INSERT INTO wms_news (wms_id, id, expedition_id, digest)
             SELECT $2, name, $1, '' FROM unnest(ARRAY['N-1', 'N-2']) AS name
         )
         INSERT INTO wms_contradiction (expedition_id, number, wms_id, news_id) VALUES ($1, 1, $2, 'N-2')",
    )
    .bind(id.parse::<Uuid>().unwrap())
    .bind(api.tenant.wms)
    .execute(&yard.world.owner)
    .await
    .unwrap();
    let admin = yard.browser(Role::Admin).await;
    let shown = admin.open(&page(&id)).await.expect(200).text;
    let timeline = shown.split("id=\"timeline\"").nth(1).unwrap();
    for part in [
        "expedition.create",
        "expedition.send",
        "take out → waits for the carrier",
        "expedited -2</strong> of MUG in ",
        "reported <code>N-1</code>",
        "reported <code>N-2</code> <span class=\"refused\">It was packed",
        ">expedition_status_change</a> to ",
    ] {
        assert!(timeline.contains(part), "{part}: {shown}");
    }
    // its own number leads nowhere
    assert!(!timeline.contains(&format!("<a href=\"/console/order/{id}\">")), "{timeline}");
    let long_ago = admin.open(&format!("{}?day=2000-01-01", page(&id))).await.expect(200).text;
    assert!(long_ago.contains("Nothing happened in this period."), "{long_ago}");
    let wrong = admin.open(&format!("{}?since=yesterday", page(&id))).await.expect(400).text;
    assert!(wrong.contains("wrong-since") && wrong.contains("Order ONE"), "{wrong}");
    // who may not read the audit sees how the status changed, and nothing else of it
    assert!(timeline.contains("<summary>"), "{timeline}");
    let connector = Browser::new(api, &api.tenant.eshop_token(&api.services).await.unwrap());
    let shown = connector.open(&page(&id)).await.expect(200).text;
    let timeline = shown.split("id=\"timeline\"").nth(1).unwrap();
    assert!(timeline.contains("take out → waits for the carrier"), "{timeline}");
    assert!(!timeline.contains("orderNumber") && !timeline.contains("/console/audit"), "{timeline}");
    assert!(!timeline.contains("expedition_status_change"), "{timeline}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_is_asked_about_an_order_says_its_status_as_its_page_does(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let yard = Yard::new(&options).await;
    yard.stock(2).await;
    let admin = yard.browser(Role::Admin).await;
    let begins = yard.order("BEGINS", 1, &json!({"send": true})).await;
    let begun = yard.order("BEGUN", 1, &json!({"send": true})).await;
    let waits = yard.order("WAITS", 1, &json!({"send": true})).await;
    for operation in ["status", "cancel"] {
        admin.act(&format!("{}/{operation}", page(&begun)), &[("status", "take_out")]).await.expect(303);
    }
    for (id, sentence) in [
        (&waits, "It waits for goods."),
        (&begins, "All of it is booked. The warehouse can begin."),
        (&begun, "Cancelling was asked for. The warehouse has not answered."),
    ] {
        assert!(admin.open(&page(id)).await.expect(200).text.contains(sentence), "{sentence}");
        for question in ["edit", "cancel", "rollback", "status"] {
            let asked = admin.open(&format!("{}/{question}", page(id))).await.expect(200).text;
            assert!(asked.contains(sentence), "{question} {sentence}: {asked}");
            // what stands between its tags
            let shown = asked.split('<').filter_map(|part| part.split_once('>'));
            for (_, text) in shown {
                let raw =
                    ExpeditionStatus::WORDS.iter().find(|word| word.contains('_') && text.contains(**word));
                assert_eq!(raw, None, "{question}: {text}");
            }
        }
    }
}
