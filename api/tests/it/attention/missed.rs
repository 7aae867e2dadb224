//! Lines about what fails without a failed job: syncs that refuse their rows, partners that do not answer, an organisation that fills
//! a queue. And what people switched off, which is no line.

use longshore_kernel::access::Role;
use longshore_kernel::ids::JobId;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{FAILS, execute, execute_of, find, line, lines, path};
use crate::console::{Browser, job, webhook};
use crate::product::{MIGRATIONS, World};

/// A sync of the tenant that succeeded so many minutes ago, and refused some of its rows.
pub(super) async fn sync(world: &World, kind: &str, [total, failed]: [i32; 2], minutes_ago: i32) -> JobId {
    let tenant = &world.api.tenant;
    sqlx::query_scalar(
        "INSERT INTO job (id, kind, state, organisation_id, eshop_id, acceptance, total, done, changed, failed, actor_type, actor_name,
                          created_at, finished_at)
         VALUES (uuid_v7(), $1, 'succeeded', $2, $3, nextval('acceptance'), $4, $4, $4::int - $5::int, $5, 'token', 'x',
                 now() - make_interval(mins => $6), now()) RETURNING id",
    )
    .bind(kind)
    .bind(tenant.organisation)
    .bind(tenant.eshop)
    .bind(total)
    .bind(failed)
    .bind(minutes_ago)
    .fetch_one(&world.owner)
    .await
    .unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_sync_that_refused_all_rows_is_a_line_until_one_applies_some(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let api = &world.api;
    let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let (stranger, _) = world.stranger().await;
    let theirs = stranger.token(&api.services, Role::Admin).await.unwrap();
    // a few refused rows of many are in no line
    sync(&world, "product.sync", [400, 90], 80).await;
    assert_eq!(find(&world, &admin, "refused_rows").await, None);
    sync(&world, "product.sync", [3, 3], 60).await;
    let last = sync(&world, "product.sync", [4, 4], 50).await;
    sqlx::query(
        "INSERT INTO job_item_error (job_id, index, code, message, payload, notice)
         VALUES ($1, 0, 'notice', 'the weight was rounded', '', true), ($1, 1, 'required', 'name is required', '', false)",
    )
    .bind(last)
    .execute(&world.owner)
    .await
    .unwrap();
    // neither a sync without rows, nor one of another kind, nor one that failed applied a row of these
    sync(&world, "product.sync", [0, 0], 40).await;
    sync(&world, "stock.sync", [5, 0], 40).await;
    job(&world, &api.tenant, "failed", Some("no")).await;
    let refused = line(&world, &admin, "refused_rows").await;
    assert_eq!(
        refused["sentence"],
        "product sync of Gifts shop has refused all rows for 60 min: 4 of 4 in the last of 2 runs. The first: name is required"
    );
    assert_eq!(
        (&refused["severity"], &refused["page"], &refused["organisation"]),
        (&json!("critical"), &json!(format!("/console/job/{last}")), &json!(api.tenant.organisation))
    );
    assert_eq!(find(&world, &theirs, "refused_rows").await, None);
    let eshop = format!("/console/eshop/{}", api.tenant.eshop);
    let page = Browser::new(api, &api.viewer).open(&eshop).await.expect(200).text;
    let said = "product sync of Gifts shop has refused all rows for 60 min: 4 of 4 in the last of 2 runs.";
    assert!(page.contains(said) && page.contains(&format!("href=\"/console/job/{last}\"")), "{page}");

    // one more run that refuses all is nothing new
    api.put(&admin, &path(&refused, "acknowledge"), Value::Null).await.expect(200);
    sync(&world, "product.sync", [5, 5], 30).await;
    let again = line(&world, &admin, "refused_rows").await;
    assert_eq!((&again["id"], &again["silence"]["mode"]), (&refused["id"], &json!("acknowledged")));
    // a row that is applied ends it, and what comes then is new
    sync(&world, "product.sync", [5, 4], 20).await;
    assert_eq!(find(&world, &admin, "refused_rows").await, None);
    let page = Browser::new(api, &api.viewer).open(&eshop).await.expect(200).text;
    assert!(!page.contains("has refused all rows"), "{page}");
    sync(&world, "product.sync", [5, 5], 10).await;
    let new = line(&world, &admin, "refused_rows").await;
    assert_eq!((&new["id"], &new["silence"]), (&refused["id"], &Value::Null));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_sync_that_refused_most_of_many_rows_is_a_warning_for_three_days(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let api = &world.api;
    sync(&world, "expedition.sync", [150, 99], 30).await;
    assert_eq!(find(&world, &api.viewer, "refused_rows").await, None);
    let most = sync(&world, "expedition.sync", [250, 200], 20).await;
    let refused = line(&world, &api.viewer, "refused_rows").await;
    assert_eq!(
        (&refused["severity"], refused["sentence"].as_str()),
        (
            &json!("warning"),
            Some(
                "expedition sync of Gifts shop has refused most rows for 20 min: 200 of 250 in the last run."
            )
        )
    );
    // an acknowledgement of it does not cover that everything is refused
    api.put(&api.superadmin, &path(&refused, "acknowledge"), Value::Null).await.expect(200);
    sync(&world, "expedition.sync", [250, 250], 10).await;
    let all = line(&world, &api.viewer, "refused_rows").await;
    assert_eq!((&all["severity"], &all["silence"]), (&json!("critical"), &Value::Null));
    execute(&world, "DELETE FROM job WHERE id <> $1", most.get()).await;
    execute(&world, "UPDATE job SET created_at = now() - interval '73 hours' WHERE id = $1", most.get())
        .await;
    assert_eq!(find(&world, &api.viewer, "refused_rows").await, None);
}

/// A pull of the tenant that began so many minutes ago, and has got no page.
pub(super) async fn pull(world: &World, minutes_ago: i32) -> JobId {
    let tenant = &world.api.tenant;
    sqlx::query_scalar(
        "WITH made AS (
             INSERT INTO job (id, kind, state, organisation_id, eshop_id, source, sequence, acceptance, out_of_line_until, chunks_open, attempts,
                              actor_type, actor_name, created_at, started_at)
             SELECT uuid_v7(), 'product.sync', 'running', $1, $2, '307', $2, nextval('acceptance'), 'infinity', 1, 1, 'clock', 'schedule', t, t
             FROM (SELECT now() - make_interval(mins => $3) AS t) AS began RETURNING id, started_at
         ), fetched AS (
             INSERT INTO partner_fetch (job_id, changed_at) SELECT id, started_at FROM made
         ), chunk AS (
             INSERT INTO job_chunk (job_id, number, state, calls_partner, item_count, first_index, attempts, leased_until, started_at)
             SELECT id, 0, 'running', true, 0, 0, 1, now() + interval '1 hour', started_at FROM made
         )
         SELECT id FROM made",
    )
    .bind(tenant.organisation)
    .bind(tenant.eshop)
    .bind(minutes_ago)
    .fetch_one(&world.owner)
    .await
    .unwrap()
}

const ATTEMPT_FAILS: &str = "WITH moved AS (UPDATE job SET state = 'retrying', error = 'the partner returned no page within 120 s' WHERE id = $1)
    UPDATE job_chunk SET state = 'queued', leased_until = NULL, waits_since = now(), next_attempt_at = now() + interval '1 minute',
                         error = 'the partner returned no page within 120 s' WHERE job_id = $1";
const NEXT_ATTEMPT: &str = "WITH moved AS (UPDATE job SET state = 'running', attempts = 2 WHERE id = $1)
    UPDATE job_chunk SET state = 'running', leased_until = now() + interval '1 hour', attempts = 2, started_at = now() WHERE job_id = $1";
const A_PAGE_COMES: &str =
    "WITH fetched AS (UPDATE partner_fetch SET pages = 1, changed_at = now() WHERE job_id = $1)
    UPDATE job_chunk SET attempts = 1, error = NULL, waits_since = NULL WHERE job_id = $1";
const WAITS_FOR_ITS_TURN: &str =
    "WITH fetched AS (UPDATE partner_fetch SET changed_at = now() - interval '1 hour' WHERE job_id = $1)
    UPDATE job_chunk SET state = 'queued', leased_until = NULL, next_attempt_at = now() WHERE job_id = $1";

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_partner_that_does_not_answer_is_a_line_before_its_job_fails(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let api = &world.api;
    let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let (stranger, _) = world.stranger().await;
    let theirs = stranger.token(&api.services, Role::Admin).await.unwrap();
    let recent = pull(&world, 4).await;
    assert_eq!(find(&world, &admin, "silent_partner").await, None);
    execute(&world, "DELETE FROM job WHERE id = $1", recent.get()).await;

    let job = pull(&world, 7).await;
    let silent = line(&world, &admin, "silent_partner").await;
    let begins = "product sync of Gifts shop has made no progress at its partner for 7 min";
    assert_eq!(silent["sentence"], format!("{begins}, attempt 1 of 10: no answer yet"));
    assert_eq!(
        (&silent["severity"], &silent["page"], &silent["organisation"]),
        (&json!("warning"), &json!(format!("/console/job/{job}")), &json!(api.tenant.organisation))
    );
    assert_eq!(find(&world, &theirs, "silent_partner").await, None);
    // an attempt that failed does not begin the time anew, nor does the next one
    execute(&world, ATTEMPT_FAILS, job.get()).await;
    let error = "the partner returned no page within 120 s";
    let failed = line(&world, &admin, "silent_partner").await;
    assert_eq!(failed["sentence"], format!("{begins}, attempt 1 of 10: {error}"));
    assert_eq!((&failed["id"], &failed["cause"]), (&silent["id"], &silent["cause"]));
    execute(&world, NEXT_ATTEMPT, job.get()).await;
    let next = line(&world, &admin, "silent_partner").await;
    assert_eq!(next["sentence"], format!("{begins}, attempt 2 of 10: {error}"));
    let eshop = format!("/console/eshop/{}", api.tenant.eshop);
    let page = Browser::new(api, &api.viewer).open(&eshop).await.expect(200).text;
    assert!(page.contains(begins) && page.contains(&format!("href=\"/console/job/{job}\"")), "{page}");
    // a page ends it
    execute(&world, A_PAGE_COMES, job.get()).await;
    assert_eq!(find(&world, &admin, "silent_partner").await, None);
    // a pull that lets others go first waits for no answer
    execute(&world, WAITS_FOR_ITS_TURN, job.get()).await;
    assert_eq!(find(&world, &admin, "silent_partner").await, None);
}

/// Jobs of an organisation whose chunk has been due for two minutes.
async fn due(world: &World, tenant: &Tenant, jobs: i32) {
    execute_of(world, "WITH made AS (
             INSERT INTO job (id, kind, state, organisation_id, acceptance, total, chunks_open, actor_type, actor_name)
             SELECT uuid_v7(), 'product.activate', 'queued', $1, nextval('acceptance'), 1, 1, 'token', 'x' FROM generate_series(1, $2)
             RETURNING id
         )
         INSERT INTO job_chunk (job_id, number, state, item_count, first_index, next_attempt_at)
         SELECT id, 0, 'queued', 1, 0, now() - interval '2 minutes' FROM made", tenant.organisation, jobs).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_organisation_that_fills_a_queue_is_named_to_those_who_see_it(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let api = &world.api;
    let (stranger, _) = world.stranger().await;
    let ours = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let theirs = stranger.token(&api.services, Role::Admin).await.unwrap();
    due(&world, &api.tenant, 99).await;
    assert_eq!(find(&world, &api.superadmin, "noisy_organisation").await, None);
    due(&world, &api.tenant, 21).await;
    due(&world, &stranger, 30).await;
    for token in [&api.superadmin, &ours] {
        let noisy = line(&world, token, "noisy_organisation").await;
        assert_eq!(
            noisy["sentence"],
            "Gifts has 120 of the 150 open chunks; queue chunk is behind by 2 min."
        );
        let page = format!("/console/organisation/{}", api.tenant.organisation);
        assert_eq!((&noisy["severity"], &noisy["page"]), (&json!("warning"), &json!(page)));
    }
    assert_eq!(find(&world, &theirs, "noisy_organisation").await, None);
    // most of it is no longer its own
    due(&world, &stranger, 100).await;
    let noisy = line(&world, &theirs, "noisy_organisation").await;
    assert_eq!(noisy["sentence"], "Other has 130 of the 250 open chunks; queue chunk is behind by 2 min.");
    assert_eq!(find(&world, &ours, "noisy_organisation").await, None);
    // an acknowledgement ends with the line
    api.put(&theirs, &path(&noisy, "acknowledge"), Value::Null).await.expect(200);
    assert_eq!(longshore_domain::attention::settle(&api.services).await.unwrap(), 0);
    world.execute("DELETE FROM job").await;
    assert_eq!(longshore_domain::attention::settle(&api.services).await.unwrap(), 1);
    assert_eq!(world.count("SELECT count(*) FROM attention_silence").await, 0);

    // those that wait for a destination that fails, or asked for a pause, are in no queue
    let [works, fails, holds] = [
        webhook(api, "https://shop.example/in").await,
        webhook(api, "https://down.example/in").await,
        webhook(api, "https://busy.example/in").await,
    ];
    execute(&world, FAILS, fails).await;
    let hold = "UPDATE webhook_lane SET held_until = now() + interval '4 minutes' WHERE webhook_id = $1";
    execute(&world, hold, holds).await;
    for (hook, deliveries) in [(works, 110), (fails, 200), (holds, 200)] {
        sqlx::query(
            "INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at)
             SELECT uuid_v7(), $1, $2, uuid_v7(), now() - interval '2 minutes' FROM generate_series(1, $3)",
        )
        .bind(hook)
        .bind(api.tenant.eshop)
        .bind(deliveries)
        .execute(&world.owner)
        .await
        .unwrap();
    }
    let noisy = line(&world, &ours, "noisy_organisation").await;
    assert_eq!(noisy["sentence"], "Gifts has 110 of the 110 due deliveries; queue lane is behind by 2 min.");
}

/// What is switched off, of a kind.
async fn off(world: &World, token: &str, kind: &str) -> Option<Value> {
    let listed = world.api.get(token, super::PATH).await.expect(200).json();
    listed["switchedOff"].as_array().unwrap().iter().find(|off| off["kind"] == kind).cloned()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_people_switched_off_is_listed_with_who_and_when_and_counted_nowhere(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let api = &world.api;
    let (stranger, _) = world.stranger().await;
    let theirs = stranger.token(&api.services, Role::Admin).await.unwrap();
    let browser = Browser::new(api, &api.viewer);
    assert!(!browser.overview().await.contains("Switched off by people"));
    let before = lines(&world, &api.viewer).await.len();
    let hook = webhook(api, "https://shop.example/in").await;
    sqlx::query(
        "INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at)
         SELECT uuid_v7(), $1, $2, uuid_v7(), now() + interval '1 hour' FROM generate_series(1, 2)",
    )
    .bind(hook)
    .bind(api.tenant.eshop)
    .execute(&world.owner)
    .await
    .unwrap();
    api.put(&api.user, &format!("/api/eshop-webhook/deactivate/{hook}"), Value::Null).await.expect(204);
    // one that was disabled has a line instead
    let disabled = webhook(api, "https://gone.example/in").await;
    execute(
        &world,
        "UPDATE webhook SET active = false, disabled_at = now(), disabled_reason = 'gone' WHERE id = $1",
        disabled,
    )
    .await;
    let setting = format!("/api/partner-integration/eshop-setting/{}", api.tenant.eshop);
    let feed = json!({"integrationType": "feed", "baseUrl": "http://127.0.0.1:9/", "active": false});
    api.post(&api.user, &setting, feed).await.expect(200);
    let after = lines(&world, &api.viewer).await;
    assert_eq!(after.len(), before + 1, "{after:?}");
    assert_eq!(line(&world, &api.viewer, "disabled_webhooks").await["sentence"], "1 webhook is disabled.");

    let webhooks = off(&world, &api.viewer, "webhook").await.unwrap();
    let thing = &webhooks["things"][0];
    assert_eq!((&webhooks["count"], &webhooks["atLeast"]), (&json!(1), &json!(false)));
    assert_eq!(
        (&thing["name"], &thing["by"], &thing["waiting"]["count"]),
        (&json!("https://shop.example/in (Gifts shop)"), &json!("user of a test"), &json!(2))
    );
    assert_eq!(thing["page"], json!(format!("/console/webhook/{hook}")));
    assert!(thing["at"].is_string(), "{thing}");
    let settings = off(&world, &api.viewer, "integration").await.unwrap();
    let thing = &settings["things"][0];
    assert_eq!(
        (&thing["name"], &thing["by"], &thing["page"]),
        (
            &json!("feed of Gifts shop"),
            &json!("user of a test"),
            &json!(format!("/console/eshop/{}", api.tenant.eshop))
        )
    );
    api.put(&api.superadmin, "/api/queue/chunk/pause", json!({"reason": "disks"})).await.expect(200);
    // a pause has a line, and is not listed twice
    job(&world, &api.tenant, "queued", None).await;
    let paused = lines(&world, &theirs).await;
    let paused: Vec<_> =
        paused.iter().filter(|line| line["sentence"].to_string().contains("aused")).collect();
    assert_eq!(paused.len(), 1, "{paused:?}");
    assert_eq!(paused[0]["page"], "/console/queue/chunk");
    assert_eq!(off(&world, &theirs, "queue").await, None);
    // others see nothing of an organisation
    for kind in ["webhook", "integration"] {
        assert_eq!(off(&world, &theirs, kind).await, None);
    }
    for page in [browser.overview().await, browser.open("/console/attention").await.expect(200).text] {
        let part = page.split("Switched off by people").nth(1).unwrap();
        assert!(part.contains("https://shop.example/in (Gifts shop), 2 deliveries wait."), "{page}");
        assert!(part.contains("Integration feed of Gifts shop.") && !part.contains("Queue chunk"), "{page}");
        assert_eq!(
            page.matches("<span>Queue chunk: Paused by superadmin of a test at 20").count(),
            1,
            "{page}"
        );
        assert!(part.contains("Switched off by user of a test ") && !part.contains("gone.example"), "{page}");
    }
    // it is over when somebody switches it on
    api.put(&api.user, &format!("/api/eshop-webhook/activate/{hook}"), Value::Null).await.expect(204);
    assert_eq!(off(&world, &api.viewer, "webhook").await, None);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn much_that_is_switched_off_is_counted_and_the_last_is_named(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let api = &world.api;
    sqlx::query(
        "WITH made AS (
             INSERT INTO webhook (id, organisation_id, eshop_id, events, destination, active, authentication_type, secret, changed_at)
             SELECT uuid_v7(), $1, $2, ARRAY['product_change'], 'https://host-' || n || '.example/', false, 'none', '', now() - make_interval(hours => n)
             FROM generate_series(1, 26) AS n RETURNING id
         )
         INSERT INTO webhook_lane (webhook_id) SELECT id FROM made",
    )
    .bind(api.tenant.organisation)
    .bind(api.tenant.eshop)
    .execute(&world.owner)
    .await
    .unwrap();
    let webhooks = off(&world, &api.viewer, "webhook").await.unwrap();
    assert_eq!((&webhooks["count"], webhooks["things"].as_array().unwrap().len()), (&json!(26), 20));
    // the audit does not know them
    let first = &webhooks["things"][0];
    assert_eq!(
        (&first["name"], &first["by"]),
        (&json!("https://host-1.example/ (Gifts shop)"), &Value::Null)
    );
    let browser = Browser::new(api, &api.viewer);
    let page = browser.overview().await;
    assert!(page.contains("host-3.example") && !page.contains("host-4.example"), "{page}");
    assert!(page.contains("<a href=\"/console/attention\"><span>and 23 more webhooks</span></a>"), "{page}");
    let page = browser.open("/console/attention").await.expect(200).text;
    assert!(page.contains("host-20.example") && !page.contains("host-21.example"), "{page}");
    let rest = "<a href=\"/console/webhook?health=inactive\"><span>and 6 more webhooks</span></a>";
    assert!(page.contains(rest) && page.contains("Switched off before the audit begins."), "{page}");
}
