//! What happened to an e-shop and in an organisation.

use longshore_kernel::access::{Role, Scope};
use longshore_kernel::ids::{EshopId, OrganisationId};
use longshore_operate::timeline::{self, Entry, Wanted};
use longshore_testkit::services::{analyse_by_hand, pages_looked_at};
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{Browser, MIGRATIONS, job, webhook, world};
use crate::expedition::World as Orders;
use crate::product::World;

/// The timeline of a page.
fn events(page: &str) -> &str {
    page.split("id=\"timeline\"").nth(1).unwrap().split("</section>").next().unwrap()
}

/// Records that a person did something.
async fn did(world: &World, person: &str, action: &str, entity: Uuid) {
    sqlx::query(
        "INSERT INTO audit (id, actor_type, actor_id, actor_name, action, entity_type, entity_id, organisation_id, changes)
         VALUES (uuid_v7(), 'admin', uuid_v7(), $1, $2, split_part($2, '.', 1), $3, $4, '{\"name\": [\"old\", \"new\"]}')",
    )
    .bind(person)
    .bind(action)
    .bind(entity)
    .bind(world.api.tenant.organisation)
    .execute(&world.owner)
    .await
    .unwrap();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_page_of_an_eshop_says_what_was_done_to_it_its_jobs_and_what_failed(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let eshop = api.tenant.eshop;
    webhook(api, "https://kept.example/in").await;
    let gone = webhook(api, "https://gone.example/in").await;
    api.delete(&api.user, &format!("/api/eshop-webhook/{gone}")).await.expect(204);
    let setting = json!({"integrationType": "feed", "active": true, "baseUrl": "https://feed.example/", "credentials": {"type": "none"}});
    let path = format!("/api/partner-integration/eshop-setting/{eshop}");
    api.post(&api.user, &path, setting).await.expect(200);
    did(&world, "Jana Nováková", "eshop.update", eshop.get()).await;
    for _ in 0..3 {
        job(&world, &api.tenant, "succeeded", None).await;
    }
    let failed = job(&world, &api.tenant, "failed", Some("the feed answers HTTP 401")).await;
    // an outage that is over, a moment that is no outage, and an outage of now
    for said in [
        "UPDATE webhook_lane SET failures = 4, failing_since = now() - interval '2 hours'",
        "UPDATE webhook_lane SET failures = 0, failing_since = NULL",
        "UPDATE webhook_lane SET failures = 4, failing_since = now() - interval '50 seconds'",
        "UPDATE webhook_lane SET failures = 0, failing_since = NULL",
        "UPDATE webhook_lane SET failures = 4, failing_since = now() - interval '4 minutes'",
        "UPDATE integration_setting SET error = 'HTTP 500', error_at = now() - interval '3 hours'",
        "UPDATE integration_setting SET error = NULL, error_at = NULL",
        "UPDATE integration_setting SET error = 'HTTP 401 of the feed', error_at = now() - interval '1 hour'",
    ] {
        world.execute(said).await;
    }

    let browser = Browser::new(api, &api.superadmin);
    let here = format!("/console/eshop/{eshop}");
    let page = browser.open(&here).await.expect(200).text;
    let all = events(&page);
    for said in [
        // one field that changed is named
        "<strong>eshop.update</strong>: name old → new by Jana Nováková",
        "<strong>webhook.create</strong> of <a href",
        "<strong>webhook.delete</strong> of <a href",
        "https://gone.example/in</a>",
        "<strong>integration_setting.create</strong> of <a href",
        "3 jobs since ",
        "6 items changed",
        &format!("/console/job/{failed}\">product sync</a>"),
        "the feed answers HTTP 401",
        "HTTP 401 of the feed",
    ] {
        assert!(all.contains(said), "{said}: {all}");
    }
    assert_eq!(
        (all.matches("began to fail").count(), all.matches("no longer fails, after").count()),
        (4, 2),
        "{all}"
    );
    assert!(all.contains("after 2 h") && all.contains("after 3 h"), "{all}");
    // the period and the part are those that are asked for
    let part = async |part: &str| {
        let page = browser.open(&format!("{here}?part={part}")).await.expect(200).text;
        events(&page).to_owned()
    };
    let (changes, jobs, health) = (part("changes").await, part("jobs").await, part("health").await);
    assert!(changes.contains("webhook.delete") && !changes.contains("3 jobs since"), "{changes}");
    assert!(jobs.contains("3 jobs since") && !jobs.contains("webhook.delete"), "{jobs}");
    assert!(!jobs.contains("began to fail") && health.contains("began to fail"), "{jobs}");
    assert!(!health.contains("webhook.delete") && !health.contains("3 jobs since"), "{health}");
    let before = browser.open(&format!("{here}?until=2001-01-01T00:00")).await.expect(200).text;
    assert!(events(&before).contains("Nothing happened in this period."), "{before}");
    for wrong in ["?day=tuesday", "?part=everything"] {
        browser.open(&format!("{here}{wrong}")).await.expect(400);
    }
    // the line of several jobs leads to them
    let list = jobs.split("href=\"").find(|link| link.starts_with("/console/job?kind=product.sync")).unwrap();
    let list = list.split('"').next().unwrap().replace("&amp;", "&");
    let listed = browser.open(&list).await.expect(200).text;
    assert_eq!(listed.matches("<strong>product sync</strong>").count(), 3, "{list}: {listed}");
    // who may not read the audit or webhooks sees neither
    let connector = Browser::new(api, &api.tenant.eshop_token(&api.services).await.unwrap());
    let page = connector.open(&here).await.expect(200).text;
    let seen = events(&page);
    assert!(seen.contains("3 jobs since"), "{seen}");
    assert!(!seen.contains("webhook.create") && !seen.contains("kept.example"), "{seen}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_count_says_how_many_pieces_there_were_and_are(_: PgPoolOptions, options: PgConnectOptions) {
    let world = Orders::new(&options).await;
    let mug: Uuid = world.mug.parse().unwrap();
    for (kind, pieces) in [("counted", -7), ("counted", 3)] {
        sqlx::query(
            "WITH stock AS (
                 UPDATE product_stock SET quantity = quantity + $2
                 WHERE product_id = $1 AND quantity > 0 RETURNING organisation_id, warehouse_id, wms_id
             )
             INSERT INTO stock_movement (id, organisation_id, product_id, warehouse_id, wms_id, kind, quantity, incoming, actor_type, actor_name)
             SELECT uuid_v7(), organisation_id, $1, warehouse_id, wms_id, $3, $2, 0, 'token', 'scanner' FROM stock",
        )
        .bind(mug)
        .bind(pieces)
        .bind(kind)
        .execute(&world.owner)
        .await
        .unwrap();
    }
    let page = Browser::new(&world.api, &world.api.superadmin).open(&format!("/console/product/{mug}")).await;
    let page = page.expect(200).text;
    for said in ["counted 100,000 → 99,993", "counted 99,993 → 99,996", "received +100,000"] {
        assert!(page.contains(said), "{said}: {page}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_page_of_an_organisation_says_what_people_did_in_it(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    // a program did this
    let mug = world.add("MUG", json!({})).await;
    let hook = webhook(api, "https://hooks.example/in").await;
    did(&world, "Jana Nováková", "product.update", mug.parse().unwrap()).await;
    job(&world, &api.tenant, "succeeded", None).await;
    sqlx::query(
        "UPDATE webhook SET active = false, disabled_at = now(), disabled_reason = 'nothing but failures' WHERE id = $1",
    )
    .bind(hook)
    .execute(&world.owner)
    .await
    .unwrap();
    sqlx::query(
        "INSERT INTO wms_setting (wms_id, organisation_id, active, paused, base_url, credentials, max_in_flight, secret, fills)
         VALUES ($1, $2, true, false, 'https://wms.example/', '', 1, '', false)",
    )
    .bind(api.tenant.wms)
    .bind(api.tenant.organisation)
    .execute(&world.owner)
    .await
    .unwrap();
    world.execute("INSERT INTO wms_lane (wms_id) SELECT wms_id FROM wms_setting").await;
    world
        .execute(
            "UPDATE wms_lane SET failures = 1, failing_since = now(), error = 'HTTP 503', error_at = now()",
        )
        .await;
    let token = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let here = format!("/console/organisation/{}", api.tenant.organisation);
    let page = Browser::new(api, &token).open(&here).await.expect(200).text;
    let all = events(&page);
    for said in [
        "<strong>product.update</strong> of <a href",
        ">MUG</a>",
        "by Jana Nováková",
        "product sync</a>",
        &format!("/console/eshop/{}", api.tenant.eshop),
        "was disabled: <span class=\"refused\">nothing but failures",
        "HTTP 503",
    ] {
        assert!(all.contains(said), "{said}: {all}");
    }
    assert!(!all.contains("product.create") && !all.contains("webhook.create"), "{all}");
    // of another organisation, neither the page nor any of it
    let (stranger, _) = world.stranger().await;
    let token = stranger.token(&api.services, Role::Admin).await.unwrap();
    let browser = Browser::new(api, &token);
    browser.open(&here).await.expect(404);
    browser.open(&format!("/console/eshop/{}", api.tenant.eshop)).await.expect(404);
    let own =
        browser.open(&format!("/console/organisation/{}", stranger.organisation)).await.expect(200).text;
    assert!(!events(&own).contains("Nováková") && !events(&own).contains("HTTP 503"), "{own}");
}

/// What both timelines have, and how many pages of tables and indexes they look at.
async fn looked_at(world: &World) -> (usize, i64) {
    let (services, tenant) = (&world.api.services, &world.api.tenant);
    let wanted = Wanted {
        audit: true,
        deliveries: true,
        jobs: true,
        settings: true,
        systems: true,
        ..Wanted::default()
    };
    let (organisation, eshop): (OrganisationId, EshopId) = (tenant.organisation, tenant.eshop);
    let pool = &services.db.lists;
    // planned once before, so that only the rows count
    let mut pages = 0;
    let mut entries = 0;
    for _ in 0..2 {
        let before = pages_looked_at(pool, 1, &world.owner).await.unwrap();
        let of_eshop =
            timeline::of_eshop(&services.db, &Scope::Everything, organisation, eshop, &wanted).await.unwrap();
        let of_all =
            timeline::of_organisation(&services.db, &Scope::Everything, organisation, &wanted).await.unwrap();
        pages = pages_looked_at(pool, 1, &world.owner).await.unwrap() - before;
        let is_complete =
            |entry: &&Entry| matches!(entry, Entry::Record(_) | Entry::Jobs(_) | Entry::Health(_));
        entries = of_eshop.entries.iter().chain(&of_all.entries).filter(is_complete).count();
    }
    (entries, pages)
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_timeline_reads_a_bounded_part_of_the_past_whatever_the_statistics_say(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    analyse_by_hand(&world.owner).await.unwrap();
    did(&world, "Jana Nováková", "eshop.update", api.tenant.eshop.get()).await;
    let (stranger, _) = world.stranger().await;
    world.execute("ANALYZE").await;
    // a year of jobs with their items, most of them of another organisation, and outages
    for (tenant, records) in [(&api.tenant, 40_000), (&stranger, 120_000)] {
        sqlx::query(
            "WITH made AS (
                 INSERT INTO job (id, kind, state, organisation_id, eshop_id, acceptance, total, done, changed, actor_type, actor_name,
                     created_at, finished_at)
                 SELECT uuid_v7(), 'product.sync', 'succeeded', $1, $2, nextval('acceptance'), 1, 1, 1, 'token', 'program',
                        now() - make_interval(secs => n * 30), now()
                 FROM generate_series(1, $3 / 10) AS n RETURNING id
             )
             INSERT INTO audit (id, actor_type, actor_name, action, entity_type, entity_id, organisation_id, changes, job_id)
             SELECT uuid_v7(), CASE WHEN n % 2 = 0 THEN 'token' ELSE 'admin' END, 'program', 'product.update', 'product', uuid_v7(), $1,
                    '{}', CASE WHEN n % 2 = 0 THEN (SELECT id FROM made LIMIT 1) END
             FROM generate_series(1, $3) AS n",
        )
        .bind(tenant.organisation)
        .bind(tenant.eshop)
        .bind(records)
        .execute(&world.owner)
        .await
        .unwrap();
    }
    sqlx::query(
        "INSERT INTO outage (called, name, kind, organisation_id, eshop_id, began_at, ended_at)
         SELECT uuid_v7(), 'https://hooks.example/in', 'webhook', $1, $2, now() - make_interval(mins => 5 * n), now() - make_interval(mins => 5 * n - 2)
         FROM generate_series(1, 20000) AS n",
    )
    .bind(api.tenant.organisation)
    .bind(api.tenant.eshop)
    .execute(&world.owner)
    .await
    .unwrap();
    for statistics in ["those of tiny tables", "known"] {
        let (entries, pages) = looked_at(&world).await;
        assert!(entries >= 150, "{statistics}: {entries}");
        assert!(pages < 6_000, "{statistics}: {pages} pages");
        world.execute("ANALYZE").await;
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_happened_goes_on_on_the_next_page_without_a_gap(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    sqlx::query(
        "INSERT INTO audit (id, at, actor_type, actor_name, action, entity_type, entity_id, organisation_id, changes)
         SELECT uuid_v7_floor(at), at, 'admin', 'Jana ' || n || '.', 'eshop.update', 'eshop', $1, $2, '{}'
         FROM generate_series(1, 130) AS n, date_trunc('milliseconds', now() - make_interval(mins => n)) AS at",
    )
    .bind(api.tenant.eshop)
    .bind(api.tenant.organisation)
    .execute(&world.owner)
    .await
    .unwrap();
    let browser = Browser::new(api, &api.superadmin);
    for (here, kept) in [
        (format!("/console/eshop/{}", api.tenant.eshop), "?part=changes"),
        (format!("/console/organisation/{}", api.tenant.organisation), "?part=changes"),
    ] {
        let mut seen = std::collections::BTreeSet::new();
        let mut address = format!("{here}{kept}");
        for _ in 0..10 {
            let page = browser.open(&address).await.expect(200).text;
            let events = events(&page);
            let numbers =
                events.split("by Jana ").skip(1).map(|rest| rest.split('.').next().unwrap().to_owned());
            seen.extend(numbers);
            let older = events.split("href=\"").find(|link| link.contains("rel=\"next\""));
            let Some(older) = older else { break };
            address = older.split('"').next().unwrap().replace("&amp;", "&");
        }
        assert_eq!(seen.len(), 130, "{here}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_delivery_that_ended_late_says_when(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let mug = world.add("MUG", json!({})).await;
    let hook = webhook(api, "https://hooks.example/in").await;
    sqlx::query(
        "INSERT INTO delivery_history (id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id, state,
             attempt_count, attempts, created_at, finished_at)
         SELECT uuid_v7(), $1, $2, $3, uuid_v7(), 'product_change', $4, state, calls,
                jsonb_build_array(jsonb_build_object('number', calls, 'durationMs', 44, 'status', status)),
                made, made + took::interval
         FROM CAST('2026-01-05T19:11:46Z' AS timestamptz) AS made, (VALUES
             ('delivered', 4, 200, '699 seconds'),
             ('delivered', 1, 202, '4 seconds'),
             ('exhausted', 9, 500, '5 days')
         ) AS ended (state, calls, status, took)",
    )
    .bind(hook)
    .bind(api.tenant.eshop)
    .bind(api.tenant.organisation)
    .bind(mug.parse::<Uuid>().unwrap())
    .execute(&world.owner)
    .await
    .unwrap();
    let browser = Browser::new(api, &api.superadmin);
    let page = browser.open(&format!("/console/product/{mug}")).await.expect(200).text;
    let all = events(&page);
    // as text, without what the style sheet and the script need
    let text: String =
        all.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect();
    for said in [
        "delivered at 19:23:25, 12 min late, attempt 4, answer 200 in 44 ms",
        "delivered, answer 202 in 44 ms",
        "exhausted at 01-10 19:11, after 5 d, attempt 9, answer 500 in 44 ms",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    // the script writes it in the time of the visitor
    let time = "<time data-short=\"\" datetime=\"2026-01-05T19:23:25.000Z\">19:23:25</time>";
    assert!(all.contains(time), "{all}");
}
