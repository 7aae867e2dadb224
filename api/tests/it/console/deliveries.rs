//! The list of the deliveries of all webhooks.

use longshore_kernel::access::Role;
use longshore_kernel::ids::DeliveryId;
use longshore_operate::delivery::{PAGE, WAITING_WINDOW, WEBHOOKS};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::webhooks::{ended, followed, waiting};
use super::{Browser, MIGRATIONS, next_page, webhook, world};
use crate::product::World;

const HERE: &str = "/console/delivery";

/// The deliveries that a page lists, in its order.
fn listed(page: &str) -> Vec<DeliveryId> {
    let rows = page.split("<a href=\"/console/delivery/").skip(1);
    rows.map(|rest| rest[..36].parse().unwrap()).collect()
}

/// Inserts a delivery that waits, of an event of this type; returns its id.
async fn pending(world: &World, hook: Uuid, kind: &str) -> DeliveryId {
    sqlx::query_scalar(
        "WITH happened AS (
             INSERT INTO event (id, type, organisation_id, entity_type, entity_id, data)
             VALUES (uuid_v7(), $4, $2, 'expedition', uuid_v7(), '{\"orderNumber\": \"ORDER-1\"}') RETURNING id
         )
         INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at)
         SELECT uuid_v7(), $1, $3, id, now() + interval '5 hours' FROM happened RETURNING id",
    )
    .bind(hook)
    .bind(world.api.tenant.organisation)
    .bind(world.api.tenant.eshop)
    .bind(kind)
    .fetch_one(&world.owner)
    .await
    .unwrap()
}

/// Every delivery that a search lists, page by page, and how many each page has.
async fn all(browser: &Browser<'_>, query: &str) -> (Vec<DeliveryId>, Vec<usize>) {
    let (mut seen, mut sizes) = (Vec::new(), Vec::new());
    let mut path = format!("{HERE}?{query}");
    loop {
        let page = browser.open(&path).await.expect(200).text;
        let found = listed(&page);
        sizes.push(found.len());
        seen.extend(found);
        match next_page(&page) {
            Some(next) => path = next,
            None => return (seen, sizes),
        }
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn deliveries_of_all_webhooks_are_found_by_each_criterion(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let mug = world.add("MUG-7", serde_json::json!({"name": "Harbour mug"})).await;
    let [a, b] = [webhook(api, "https://a.example/hook").await, webhook(api, "https://b.example/hook").await];
    let delivered = ended(&world, a.into(), "delivered", 1).await[0];
    let exhausted = ended(&world, a.into(), "exhausted", 1).await[0];
    let cancelled = ended(&world, b.into(), "cancelled", 1).await[0];
    let waits = pending(&world, b, "expedition_status_change").await;
    let entity: Uuid = sqlx::query_scalar("SELECT entity_id FROM delivery_history WHERE id = $1")
        .bind(exhausted)
        .fetch_one(&world.owner)
        .await
        .unwrap();
    sqlx::query("UPDATE delivery_history SET entity_id = $1 WHERE id = $2")
        .bind(mug.parse::<Uuid>().unwrap())
        .bind(delivered)
        .execute(&world.owner)
        .await
        .unwrap();
    let every = [waits, cancelled, exhausted, delivered];
    let (eshop, nobody) = (api.tenant.eshop, Uuid::from_u128(1));
    let searches: [(String, &[DeliveryId]); 22] = [
        (String::new(), &every),
        ("state=pending".to_owned(), &every[..1]),
        ("state=cancelled".to_owned(), &every[1..2]),
        ("state=exhausted".to_owned(), &every[2..3]),
        ("state=delivered".to_owned(), &every[3..]),
        ("destination=A.EXAMPLE".to_owned(), &every[2..]),
        ("destination=b.example&state=cancelled".to_owned(), &every[1..2]),
        ("destination=nowhere".to_owned(), &[]),
        ("destination=nowhere&state=exhausted".to_owned(), &[]),
        ("event=expedition_status_change".to_owned(), &every[..1]),
        ("event=product_change&state=exhausted".to_owned(), &every[2..3]),
        ("event=test&state=exhausted".to_owned(), &[]),
        (format!("entity={entity}"), &every[2..3]),
        (format!("entity={entity}&state=exhausted"), &every[2..3]),
        ("entity=mug-7".to_owned(), &every[3..]),
        (format!("entity={nobody}"), &[]),
        (format!("eshop={eshop}"), &every),
        (format!("eshop={eshop}&state=exhausted"), &every[2..3]),
        (format!("eshop={nobody}"), &[]),
        ("hours=1".to_owned(), &every),
        ("until=2001-01-01T00:00".to_owned(), &[]),
        ("since=2999-01-01T00:00&hours=1".to_owned(), &[]),
    ];
    let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let (stranger, _) = world.stranger().await;
    let theirs = stranger.token(&api.services, Role::Admin).await.unwrap();
    for (query, expected) in &searches {
        for token in [&api.superadmin, &admin] {
            let page = Browser::new(api, token).open(&format!("{HERE}?{query}")).await.expect(200).text;
            let mut found = listed(&page);
            // ended at the same moment, or made in the same microsecond
            found.sort_unstable();
            let mut expected = expected.to_vec();
            expected.sort_unstable();
            assert_eq!(found, expected, "{query}");
        }
    }
    for query in ["", "state=exhausted", "state=pending", "destination=a.example"] {
        let page = Browser::new(api, &theirs).open(&format!("{HERE}?{query}")).await.expect(200).text;
        assert!(listed(&page).is_empty() && page.contains("No delivery matches."), "{query}: {page}");
    }
    let browser = Browser::new(api, &api.viewer);
    for refused in
        ["state=broken", "eshop=x", "entity=NO-SUCH-SKU", "since=yesterday", "after=x", "sort=x", "event=%00"]
    {
        let page = browser.open(&format!("{HERE}?{refused}")).await.expect(400).text;
        assert!(page.contains("The search cannot be read."), "{refused}: {page}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn every_delivery_is_on_one_page_in_both_directions(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let hooks = [webhook(api, "https://a.example/").await, webhook(api, "https://b.example/").await];
    for place in 0..PAGE {
        ended(&world, hooks[place % 2].into(), "exhausted", 1).await;
        ended(&world, hooks[place % 2].into(), "delivered", 1).await;
    }
    // many end at once when a webhook is deleted: the order continues by their ids
    ended(&world, hooks[0].into(), "cancelled", PAGE).await;
    pending(&world, hooks[1], "product_change").await;
    let browser = Browser::new(api, &api.superadmin);
    for (query, sql, count) in [
        (
            "",
            "SELECT id FROM (SELECT id FROM delivery UNION ALL SELECT id FROM delivery_history) AS d ORDER BY id DESC",
            3 * PAGE + 1,
        ),
        (
            "destination=example",
            "SELECT id FROM (SELECT id FROM delivery UNION ALL SELECT id FROM delivery_history) AS d ORDER BY id DESC",
            3 * PAGE + 1,
        ),
        (
            "state=delivered",
            "SELECT id FROM delivery_history WHERE state = 'delivered' ORDER BY id DESC",
            PAGE,
        ),
        (
            "state=exhausted",
            "SELECT id FROM delivery_history WHERE state = 'exhausted' ORDER BY finished_at DESC, id DESC",
            PAGE,
        ),
        (
            "state=cancelled",
            "SELECT id FROM delivery_history WHERE state = 'cancelled' ORDER BY finished_at DESC, id DESC",
            PAGE,
        ),
    ] {
        let mut expected: Vec<DeliveryId> = sqlx::query_scalar(sql).fetch_all(&world.owner).await.unwrap();
        assert_eq!(expected.len(), count);
        let (newest, sizes) = all(&browser, &format!("{query}&size=25")).await;
        assert_eq!(newest, expected, "{query}");
        assert!(sizes.iter().all(|size| *size <= 25), "{query}: {sizes:?}");
        expected.reverse();
        let (oldest, _) = all(&browser, &format!("{query}&size=25&sort=oldest")).await;
        assert_eq!(oldest, expected, "{query}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_search_with_few_matches_looks_at_a_limited_number_and_can_be_continued(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let hook = webhook(api, "https://shop.example/").await;
    let wanted = pending(&world, hook, "test").await;
    sqlx::query(
        "INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at)
         SELECT uuid_v7(), $1, $2, uuid_v7(), now() + interval '5 hours' FROM generate_series(1, $3)",
    )
    .bind(hook)
    .bind(api.tenant.eshop)
    .bind(WAITING_WINDOW)
    .execute(&world.owner)
    .await
    .unwrap();
    let browser = Browser::new(api, &api.superadmin);
    for query in ["event=test", "event=test&state=pending"] {
        let first = browser.open(&format!("{HERE}?{query}")).await.expect(200).text;
        assert!(first.contains("No delivery matches.") && first.contains("Search older"), "{first}");
        let second = browser.open(&next_page(&first).unwrap()).await.expect(200).text;
        assert_eq!(listed(&second), [wanted], "{query}");
        assert_eq!(next_page(&second), None, "{query}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_list_says_that_more_webhooks_match_than_it_reads(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let hook = webhook(api, "https://shop.example/").await;
    sqlx::query(
        "INSERT INTO delivery_history (id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id, state,
             attempt_count, attempts, created_at, finished_at)
         SELECT uuid_v7(), CASE WHEN n = 0 THEN $1 ELSE uuid_v7() END, $2, $3, uuid_v7(), 'product_change', uuid_v7(),
                'exhausted', 1, '[]', now(), now()
         FROM generate_series(0, $4) AS n",
    )
    .bind(hook)
    .bind(api.tenant.eshop)
    .bind(api.tenant.organisation)
    .bind(i32::try_from(WEBHOOKS).unwrap())
    .execute(&world.owner)
    .await
    .unwrap();
    let browser = Browser::new(api, &api.viewer);
    let said = "Choose an e-shop or a destination";
    let page = browser.open(&format!("{HERE}?state=exhausted")).await.expect(200).text;
    assert!(page.contains(said) && page.contains("deleted webhook"), "{page}");
    let page =
        browser.open(&format!("{HERE}?state=exhausted&destination=shop.example")).await.expect(200).text;
    assert!(!page.contains(said) && listed(&page).len() == 1, "{page}");
    sqlx::query(
        "DELETE FROM delivery_history WHERE id = (SELECT id FROM delivery_history WHERE webhook_id <> $1 LIMIT 1)",
    )
        .bind(hook)
        .execute(&world.owner)
        .await
        .unwrap();
    let page = browser.open(&format!("{HERE}?state=exhausted")).await.expect(200).text;
    assert!(!page.contains(said), "{page}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn selected_deliveries_of_several_webhooks_are_sent_again_together(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let hooks = [webhook(api, "https://a.example/").await, webhook(api, "https://b.example/").await];
    let mut ids = Vec::new();
    for hook in hooks {
        ids.extend(ended(&world, hook.into(), "exhausted", 1).await);
    }
    pending(&world, hooks[0], "product_change").await;
    let browser = Browser::new(api, &api.superadmin);
    let list = browser.open(HERE).await.expect(200).text;
    let choices = list.matches("<input class=\"select\" type=\"checkbox\" name=\"id\"").count();
    assert!(list.contains("Redeliver selected") && choices == 2, "{list}");
    // the one that waits cannot be chosen
    let without = "<input class=\"select\" type=\"checkbox\" disabled title=\"It waits, and is sent anyway\"";
    assert_eq!((list.matches(without).count(), list.matches("class=\"select\"").count()), (1, 3), "{list}");
    let waits = browser.open(&format!("{HERE}?state=pending")).await.expect(200).text;
    assert!(!waits.contains("Redeliver selected") && !waits.contains("class=\"select\""), "{waits}");
    browser.open(&format!("{HERE}/redeliver")).await.expect(400);
    let chosen = format!("{HERE}/redeliver?id={}&id={}", ids[0], ids[1]);
    let location = browser.act(&chosen, &[]).await.expect(303).header("location").unwrap().to_owned();
    let page = followed(&world, &browser, &location).await;
    assert!(page.contains("2 deliveries resent"), "{page}");
    assert_eq!(waiting(&world).await, 3);
    assert_eq!(world.count("SELECT count(*) FROM audit WHERE action = 'delivery.redeliver'").await, 2);
    // of a foreign organisation, nothing is sent
    let (stranger, _) = world.stranger().await;
    let theirs = stranger.token(&api.services, Role::Admin).await.unwrap();
    let location =
        Browser::new(api, &theirs).act(&chosen, &[]).await.expect(303).header("location").unwrap().to_owned();
    followed(&world, &Browser::new(api, &theirs), &location).await;
    assert_eq!(waiting(&world).await, 3);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn all_deliveries_that_match_are_sent_again_by_one_job(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let hooks = [webhook(api, "https://a.example/").await, webhook(api, "https://b.example/").await];
    for hook in hooks {
        ended(&world, hook.into(), "exhausted", 3).await;
        ended(&world, hook.into(), "delivered", 1).await;
    }
    let browser = Browser::new(api, &api.superadmin);
    for (search, offered) in
        [("", false), ("?state=pending", false), ("?state=exhausted&destination=a.ex", true)]
    {
        let list = browser.open(&format!("{HERE}{search}")).await.expect(200).text;
        assert_eq!(list.contains("Redeliver all that match"), offered, "{search}: {list}");
    }
    let all = format!("{HERE}/redeliver?state=exhausted&destination=a.ex&hours=24&all=true");
    let question = browser.open(&all).await.expect(200).text;
    assert!(
        question.contains("Redeliver 3 deliveries?") && question.contains("name=\"since\""),
        "{question}"
    );
    let location = browser.act(&all, &[]).await.expect(303).header("location").unwrap().to_owned();
    let page = followed(&world, &browser, &location).await;
    assert!(page.contains("3 deliveries resent"), "{page}");
    assert_eq!(waiting(&world).await, 3);
    browser.open(&format!("{HERE}/redeliver?all=true")).await.expect(400);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn figures_and_charts_lead_to_the_deliveries_of_their_period(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let hook = webhook(api, "https://shop.example/").await;
    let [delivery] = ended(&world, hook.into(), "delivered", 1).await[..] else { unreachable!() };
    let activity = api.services.metrics.activity();
    activity.note(
        longshore_kernel::activity::Subject::Delivery,
        "delivered",
        std::time::Duration::from_millis(5),
    );
    activity.note_call(hook.into(), true, std::time::Duration::from_millis(40));
    activity.write(&api.services.db.main).await.unwrap();
    let browser = Browser::new(api, &api.viewer);
    let overview = browser.overview().await;
    assert!(overview.contains("<a class=\"figure\" href=\"/console/delivery?hours=1\">"), "{overview}");
    let eshop = format!("/console/eshop/{}", api.tenant.eshop);
    for page in ["/console", "/console?span=week", "/console/queue/lane", eshop.as_str()] {
        let text = browser.open(page).await.expect(200).text;
        // the table of the chart has the same links without script
        let list = text.split("<td><a href=\"/console/delivery?").nth(1).unwrap().split('"').next().unwrap();
        let list = format!("{HERE}?{}", list.replace("&amp;", "&"));
        let found = browser.open(&list).await.expect(200).text;
        assert_eq!(listed(&found), [delivery], "{page}: {list}");
    }
}
