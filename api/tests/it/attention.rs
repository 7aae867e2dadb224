//! `/api/attention` (`docs/reference/attention.md#lines`): lines, acknowledgements, mutes.

mod events;
mod exhausted;
mod missed;
mod neighbours;

use std::collections::BTreeSet;

use longshore_kernel::access::Role;
use longshore_kernel::ids::{JobId, OrganisationId};
use longshore_operate::attention;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use crate::console::{audited, job, webhook};
use crate::product::{MIGRATIONS, World};

const PATH: &str = "/api/attention";

async fn lines(world: &World, token: &str) -> Vec<Value> {
    let listed = world.api.get(token, PATH).await.expect(200).json();
    listed["lines"].as_array().unwrap().clone()
}

/// The line of a kind, if there is one.
pub(crate) async fn find(world: &World, token: &str, kind: &str) -> Option<Value> {
    lines(world, token).await.into_iter().find(|line| line["kind"] == kind)
}

/// The line of a kind.
pub(crate) async fn line(world: &World, token: &str, kind: &str) -> Value {
    find(world, token, kind).await.unwrap_or_else(|| panic!("there is no line about {kind}"))
}

pub(crate) fn path(line: &Value, action: &str) -> String {
    format!("{PATH}/{}/{action}", line["id"].as_str().unwrap())
}

/// Executes a statement about a record.
pub(crate) async fn execute(world: &World, statement: &'static str, id: Uuid) {
    sqlx::query(statement).bind(id).execute(&world.owner).await.unwrap();
}

/// The same about an organisation, with a number: of minutes, or of rows.
async fn execute_of(world: &World, statement: &'static str, organisation: OrganisationId, number: i32) {
    sqlx::query(statement).bind(organisation).bind(number).execute(&world.owner).await.unwrap();
}

/// A job of three reports of a wms, two of which were refused so many minutes ago.
pub(crate) async fn refused_reports(world: &World, wms: Uuid, minutes_ago: i32) -> JobId {
    sqlx::query_scalar(
        "WITH made AS (
             INSERT INTO job (id, kind, state, organisation_id, sequence, parameters, acceptance, total, done, changed, failed, actor_type,
                              actor_name, created_at, finished_at)
             SELECT uuid_v7(), 'expedition.news', 'succeeded', organisation_id, id, jsonb_build_object('wms', id), nextval('acceptance'),
                    3, 3, 1, 2, 'token', 'x', now() - make_interval(mins => $2), now()
             FROM wms WHERE id = $1 RETURNING id
         ), errors AS (
             INSERT INTO job_item_error (job_id, index, code, message, payload)
             SELECT id, 0, 'too_many', 'items[0].expedited must come to at most what was ordered', '' FROM made
         )
         SELECT id FROM made",
    )
    .bind(wms)
    .bind(minutes_ago)
    .fetch_one(&world.owner)
    .await
    .unwrap()
}

/// The breaker opens, and a delivery waits.
pub(crate) const FAILS: &str = "WITH waits AS (
         INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at)
         SELECT uuid_v7(), id, eshop_id, uuid_v7(), now() + interval '1 hour' FROM webhook
         WHERE id = $1 AND NOT EXISTS (SELECT FROM delivery WHERE webhook_id = $1)
     )
     UPDATE webhook_lane SET failures = failures + 5, failing_since = coalesce(failing_since, clock_timestamp()),
                             probe_at = clock_timestamp() + interval '5 minutes'
     WHERE webhook_id = $1";
pub(crate) const RECOVERS: &str = "UPDATE webhook_lane SET failures = 0, failing_since = NULL, probe_at = NULL, probes = 0 WHERE webhook_id = $1";

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_set_back_is_a_critical_line_until_it_is_mended(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let token = &world.api.superadmin;
    assert_eq!(find(&world, token, "set_back").await, None);
    let begun = "INSERT INTO set_back (epoch, reason, since, until, seen_at)
                 SELECT 2, 'a test', at, at + interval '90 seconds', now() FROM (SELECT timestamptz '2026-01-31 12:30Z' AS at) AS t";
    sqlx::query(begun).execute(&world.owner).await.unwrap();
    let line = line(&world, token, "set_back").await;
    assert_eq!((line["severity"].as_str(), &line["organisation"]), (Some("critical"), &Value::Null));
    let sentence = line["sentence"].as_str().unwrap();
    for part in ["since 2026-01-31 12:30:00 UTC", "(2 min of it at most)", "longshore-api restored"] {
        assert!(sentence.contains(part), "{part:?} is not in {sentence}");
    }
    sqlx::query("UPDATE set_back SET mended_at = now()").execute(&world.owner).await.unwrap();
    assert_eq!(find(&world, token, "set_back").await, None);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_acknowledged_line_is_quiet_until_something_new_happens(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let api = &world.api;
    let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let hook = webhook(api, "https://hooks.alpine.example/in").await;
    execute(&world, FAILS, hook).await;
    let seen = line(&world, &admin, "destination").await;
    assert_eq!((&seen["severity"], &seen["silence"]), (&json!("critical"), &Value::Null));
    assert_eq!(seen["organisation"], json!(api.tenant.organisation));
    assert_eq!(seen["page"], json!(format!("/console/webhook/{hook}")));

    let body = json!({"cause": seen["cause"], "note": "they are moving"});
    let said = api.put(&admin, &path(&seen, "acknowledge"), body).await.expect(200).json();
    assert_eq!(
        (&said["mode"], &said["reason"], &said["by"]),
        (&json!("acknowledged"), &json!("they are moving"), &json!("admin of a test"))
    );
    let id: Uuid = seen["id"].as_str().unwrap().parse().unwrap();
    assert_eq!(audited(&world, id).await.unwrap().0, "attention.acknowledge");
    // more failures of the same outage are nothing new, and all who see the line see the acknowledgement
    execute(&world, FAILS, hook).await;
    for token in [&admin, &api.superadmin, &api.viewer] {
        let now = line(&world, token, "destination").await;
        assert_eq!((&now["id"], &now["silence"]["mode"]), (&seen["id"], &json!("acknowledged")), "{now}");
        let said = now["silence"]["sentence"].as_str().unwrap();
        assert!(said.starts_with("hooks.alpine.example (Gifts shop): failing for "), "{said}");
    }
    // it recovers and fails again: that has not been seen
    execute(&world, RECOVERS, hook).await;
    assert!(lines(&world, &admin).await.iter().all(|line| line["kind"] != "destination"));
    execute(&world, FAILS, hook).await;
    let again = line(&world, &admin, "destination").await;
    assert_eq!((&again["id"], &again["silence"]), (&seen["id"], &Value::Null));
    // an acknowledgement of what was there before does not cover this either
    api.put(&admin, &path(&seen, "acknowledge"), json!({"cause": seen["cause"]})).await.expect(200);
    assert_eq!(line(&world, &admin, "destination").await["silence"], Value::Null);
    // without a body, it is what is there now; a cause in the future covers no more than that
    api.put(&admin, &path(&seen, "acknowledge"), json!({"cause": "2999-01-01T00:00:00Z"})).await.expect(200);
    assert_eq!(line(&world, &admin, "destination").await["silence"]["mode"], "acknowledged");
    execute(&world, RECOVERS, hook).await;
    execute(&world, FAILS, hook).await;
    assert_eq!(line(&world, &admin, "destination").await["silence"], Value::Null);
    api.put(&admin, &path(&seen, "acknowledge"), Value::Null).await.expect(200);
    assert_eq!(line(&world, &admin, "destination").await["silence"]["mode"], "acknowledged");

    api.delete(&admin, &path(&seen, "silence")).await.expect(204);
    assert_eq!(audited(&world, id).await.unwrap().0, "attention.end");
    assert_eq!(line(&world, &admin, "destination").await["silence"], Value::Null);
    api.delete(&admin, &path(&seen, "silence")).await.expect(404);
    // what is over cannot be acknowledged, which is no fault of the caller
    execute(&world, RECOVERS, hook).await;
    let over = api.put(&admin, &path(&seen, "acknowledge"), Value::Null).await.expect(404).json();
    let why = over["detail"].as_str().unwrap();
    assert!(why.contains("what it was about is over"), "{why}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_destination_is_a_line_once_it_fails_for_a_while_and_something_waits(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let api = &world.api;
    let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let hook = webhook(api, "https://hooks.alpine.example/in").await;
    let is_line = async || {
        let sum = find(&world, &admin, "failing_webhooks").await;
        assert_eq!(sum, None, "a webhook without a line is in no sum either");
        find(&world, &admin, "destination").await.is_some()
    };
    execute(&world, FAILS, hook).await;
    assert!(is_line().await, "the breaker is open");
    // one failed call, just now
    let once =
        "UPDATE webhook_lane SET failures = 1, failing_since = now(), probe_at = NULL WHERE webhook_id = $1";
    execute(&world, once, hook).await;
    assert!(!is_line().await);
    let since = "UPDATE webhook_lane SET failing_since = now() - interval '61 seconds' WHERE webhook_id = $1";
    execute(&world, since, hook).await;
    assert!(is_line().await, "the only call failed a minute ago");
    // its last delivery is exhausted: nothing will show that the destination is back
    execute(&world, "DELETE FROM delivery WHERE webhook_id = $1", hook).await;
    assert!(!is_line().await);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_mute_hides_a_line_for_its_time_and_is_listed_without_it(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let api = &world.api;
    let hook = webhook(api, "https://hooks.alpine.example/in").await;
    execute(&world, FAILS, hook).await;
    let seen = line(&world, &api.superadmin, "destination").await;
    let mute = path(&seen, "mute");
    for wrong in [
        json!({"for": "8h"}),
        json!({"for": "8h", "reason": ""}),
        json!({"for": "8h", "reason": "x".repeat(201)}),
        json!({"for": "9h", "reason": "x"}),
        json!({"reason": "x"}),
        json!({"for": "8h", "reason": "x", "until": "2999-01-01T00:00:00Z"}),
    ] {
        api.put(&api.superadmin, &mute, wrong).await.expect(400);
    }
    let said =
        api.put(&api.superadmin, &mute, json!({"for": "8h", "reason": "a move"})).await.expect(200).json();
    let moment = |name: &str| said[name].as_str().unwrap().parse::<chrono::DateTime<chrono::Utc>>().unwrap();
    assert_eq!((moment("until") - moment("at")).num_hours(), 8);
    // also what is new is hidden
    execute(&world, RECOVERS, hook).await;
    execute(&world, FAILS, hook).await;
    let muted = line(&world, &api.viewer, "destination").await;
    assert_eq!((&muted["silence"]["mode"], &muted["silence"]["reason"]), (&json!("muted"), &json!("a move")));
    execute(&world, RECOVERS, hook).await;
    let listed = api.get(&api.viewer, PATH).await.expect(200).json();
    assert_eq!(listed["absent"][0]["line"], seen["id"]);
    assert_eq!(
        (listed["absent"][0]["reason"].as_str(), listed["absent"].as_array().unwrap().len()),
        (Some("a move"), 1)
    );
    // it ends by itself
    execute(&world, FAILS, hook).await;
    sqlx::query("UPDATE attention_silence SET until = now()").execute(&world.owner).await.unwrap();
    assert_eq!(line(&world, &api.viewer, "destination").await["silence"], Value::Null);
    assert_eq!(longshore_domain::attention::settle(&api.services).await.unwrap(), 1);
    assert_eq!(world.count("SELECT count(*) FROM attention_silence").await, 0);
    // one replaces the other
    api.put(&api.superadmin, &mute, json!({"for": "7d", "reason": "again"})).await.expect(200);
    api.put(&api.superadmin, &path(&seen, "acknowledge"), Value::Null).await.expect(200);
    assert_eq!(line(&world, &api.viewer, "destination").await["silence"]["mode"], "acknowledged");
    assert_eq!(world.count("SELECT count(*) FROM attention_silence").await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_admin_speaks_for_its_own_lines_only(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    let hook = webhook(api, "https://hooks.alpine.example/in").await;
    execute(&world, FAILS, hook).await;
    let (stranger, _) = world.stranger().await;
    let theirs = stranger.token(&api.services, Role::Admin).await.unwrap();
    let ours = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let mute = || json!({"for": "1h", "reason": "mine"});
    let destination = line(&world, &ours, "destination").await;
    assert!(lines(&world, &theirs).await.iter().all(|line| line["kind"] != "destination"));
    for action in ["acknowledge", "mute"] {
        api.put(&theirs, &path(&destination, action), mute_or_nothing(action)).await.expect(404);
    }
    api.put(&ours, &path(&destination, "mute"), mute()).await.expect(200);
    api.delete(&theirs, &path(&destination, "silence")).await.expect(404);
    assert_eq!(api.get(&theirs, PATH).await.expect(200).json()["absent"], json!([]));
    // nothing reads the queues, which every admin sees, and only superadmins speak for
    let queue = line(&world, &ours, "queue").await;
    assert_eq!((&queue["organisation"], &queue["cause"]), (&Value::Null, &Value::Null));
    api.put(&ours, &path(&queue, "acknowledge"), Value::Null).await.expect(403);
    api.put(&ours, &path(&queue, "mute"), mute()).await.expect(403);
    api.put(&api.superadmin, &path(&queue, "mute"), mute()).await.expect(200);
    api.delete(&ours, &path(&queue, "silence")).await.expect(404);
    let queues: BTreeSet<String> = lines(&world, &theirs)
        .await
        .iter()
        .filter(|line| line["id"] == queue["id"])
        .map(|line| line["silence"]["by"].to_string())
        .collect();
    assert_eq!(queues, BTreeSet::from(["\"superadmin of a test\"".to_owned()]));
    // others only read, or do not see it
    for action in ["acknowledge", "mute"] {
        api.put(&api.viewer, &path(&destination, action), mute_or_nothing(action)).await.expect(403);
        api.put(&api.user, &path(&destination, action), mute_or_nothing(action)).await.expect(403);
    }
    api.get(&api.user, PATH).await.expect(403);
    api.get(&api.connector, PATH).await.expect(403);
    api.get("", PATH).await.expect(401);
}

fn mute_or_nothing(action: &str) -> Value {
    if action == "mute" { json!({"for": "1h", "reason": "mine"}) } else { Value::Null }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_sum_is_silent_for_those_who_said_so_until_one_more_is_counted(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let api = &world.api;
    let (stranger, _) = world.stranger().await;
    let ours = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let theirs = stranger.token(&api.services, Role::Admin).await.unwrap();
    for tenant in [&api.tenant, &stranger] {
        job(&world, tenant, "failed", Some("no")).await;
    }
    // those of an e-shop have lines of their own
    assert_eq!(find(&world, &api.superadmin, "failed_jobs").await, None);
    let of_no_eshop = "UPDATE job SET eshop_id = NULL";
    world.execute(of_no_eshop).await;
    let mode = async |token: &str| line(&world, token, "failed_jobs").await["silence"]["mode"].clone();
    let sum = line(&world, &api.superadmin, "failed_jobs").await;
    assert_eq!(sum["sentence"], "2 jobs that belong to no e-shop failed in the last 24 hours.");
    api.put(&ours, &path(&sum, "acknowledge"), Value::Null).await.expect(200);
    assert_eq!(
        [mode(&ours).await, mode(&theirs).await, mode(&api.superadmin).await],
        [json!("acknowledged"), Value::Null, Value::Null]
    );
    api.put(&api.superadmin, &path(&sum, "acknowledge"), Value::Null).await.expect(200);
    assert_eq!([mode(&theirs).await, mode(&api.viewer).await], [Value::Null, json!("acknowledged")]);
    // the superadmin ends its own, and not that of the organisation
    api.delete(&api.superadmin, &path(&sum, "silence")).await.expect(204);
    assert_eq!([mode(&ours).await, mode(&api.viewer).await], [json!("acknowledged"), Value::Null]);
    // one more of the others is nothing new here; one more of ours is
    api.put(&api.superadmin, &path(&sum, "acknowledge"), Value::Null).await.expect(200);
    job(&world, &stranger, "failed", Some("no")).await;
    world.execute(of_no_eshop).await;
    assert_eq!([mode(&ours).await, mode(&api.superadmin).await], [json!("acknowledged"), Value::Null]);
    job(&world, &api.tenant, "failed", Some("no")).await;
    world.execute(of_no_eshop).await;
    assert_eq!(mode(&ours).await, Value::Null);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn jobs_that_fail_again_after_one_succeeded_are_something_new(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let api = &world.api;
    job(&world, &api.tenant, "failed", Some("no")).await;
    let failing = line(&world, &api.superadmin, "failing_jobs").await;
    api.put(&api.superadmin, &path(&failing, "acknowledge"), Value::Null).await.expect(200);
    let mode = async || line(&world, &api.viewer, "failing_jobs").await["silence"]["mode"].clone();
    job(&world, &api.tenant, "failed", Some("no")).await;
    assert_eq!(mode().await, "acknowledged");
    job(&world, &api.tenant, "succeeded", None).await;
    // nothing stays of it after the repair
    let left = lines(&world, &api.viewer).await;
    assert!(
        left.iter().all(|line| line["kind"] != "failing_jobs" && line["kind"] != "failed_jobs"),
        "{left:?}"
    );
    job(&world, &api.tenant, "failed", Some("no")).await;
    assert_eq!(mode().await, Value::Null);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_acknowledgement_of_the_service_ends_with_its_line(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    let pause = async || {
        api.put(&api.superadmin, "/api/queue/chunk/pause", json!({"reason": "disks"})).await.expect(200);
        let found = lines(&world, &api.superadmin).await.into_iter();
        let mut found = found.filter(|line| line["sentence"].as_str().unwrap().contains("chunk: Paused"));
        found.next().unwrap()
    };
    let paused = pause().await;
    api.put(&api.superadmin, &path(&paused, "acknowledge"), Value::Null).await.expect(200);
    let mute = json!({"for": "1h", "reason": "known"});
    let other = line(&world, &api.superadmin, "queue").await;
    assert_ne!(other["id"], paused["id"]);
    api.put(&api.superadmin, &path(&other, "mute"), mute).await.expect(200);
    // it is still there
    assert_eq!(longshore_domain::attention::settle(&api.services).await.unwrap(), 0);
    api.put(&api.superadmin, "/api/queue/chunk/resume", Value::Null).await.expect(200);
    assert_eq!(longshore_domain::attention::settle(&api.services).await.unwrap(), 1);
    let left: Vec<String> =
        sqlx::query_scalar("SELECT mode FROM attention_silence").fetch_all(&world.owner).await.unwrap();
    assert_eq!(left, ["muted"]);
    let id: Uuid = paused["id"].as_str().unwrap().parse().unwrap();
    assert_eq!(audited(&world, id).await.unwrap(), ("attention.end".to_owned(), "upkeep".to_owned()));
    // the next pause is another one, even if nothing looked meanwhile
    assert_ne!(pause().await["id"], paused["id"]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_a_newer_version_muted_does_not_hide_the_rest(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    let hook = webhook(api, "https://one.example/").await;
    execute(&world, FAILS, hook).await;
    sqlx::query(
        "INSERT INTO attention_silence (id, organisation_id, line_id, kind, mode, sentence, until, reason, actor_name)
         SELECT uuid_v7(), $1, uuid_v7(), kind, 'muted', 'x', now() + interval '1 hour', 'x', 'x'
         FROM unnest(ARRAY['of_a_newer_version', 'warehouse']) AS kind",
    )
    .bind(api.tenant.organisation)
    .execute(&world.owner)
    .await
    .unwrap();
    for token in [&api.superadmin, &api.viewer] {
        let found = api.get(token, "/api/attention").await.expect(200).json();
        assert_eq!(found["absent"].as_array().unwrap().len(), 1, "{found}");
        line(&world, token, "destination").await;
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn silences_have_a_limit_that_concurrent_ones_keep(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    for host in ["one", "two"] {
        let hook = webhook(api, &format!("https://{host}.example/")).await;
        execute(&world, FAILS, hook).await;
    }
    sqlx::query(
        "INSERT INTO attention_silence (id, organisation_id, line_id, kind, mode, sentence, until, actor_name)
         SELECT uuid_v7(), $1, uuid_v7(), 'destination', 'acknowledged', 'x', now() + make_interval(hours => n - 1), 'x'
         FROM generate_series(1, $2) AS n",
    )
    .bind(api.tenant.organisation)
    // one has expired
    .bind(i32::try_from(attention::SILENCES).unwrap())
    .execute(&world.owner)
    .await
    .unwrap();
    let found = lines(&world, &admin).await;
    let hosts: Vec<&Value> = found.iter().filter(|line| line["kind"] == "destination").collect();
    let [one, two] = hosts[..] else { panic!("{found:?}") };
    let (first, second) = (path(one, "acknowledge"), path(two, "acknowledge"));
    let (first, second) =
        tokio::join!(api.put(&admin, &first, Value::Null), api.put(&admin, &second, Value::Null));
    let statuses = BTreeSet::from([first.status.as_u16(), second.status.as_u16()]);
    assert_eq!(statuses, BTreeSet::from([200, 409]));
    // what is there can be replaced, and another organisation has room
    let taken = if first.status == 200 { one } else { two };
    api.put(&admin, &path(taken, "mute"), json!({"for": "1h", "reason": "x"})).await.expect(200);
    let queue = line(&world, &api.superadmin, "queue").await;
    api.put(&api.superadmin, &path(&queue, "acknowledge"), Value::Null).await.expect(200);
}
