//! `longshore-api restored`: what is mended after Postgres was set back (`docs/backup.md#after-a-restore`).

use std::collections::{BTreeMap, HashSet};
use std::process::Stdio;

use longshore_domain::webhook::event::example;
use longshore_http::app::App;
use longshore_kernel::ids::{EventId, WebhookId};
use longshore_operate::restored::{Wanted, mend};
use longshore_testkit::program::Ran;
use longshore_testkit::services;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection, PgPool};
use tokio::process::Command;
use tokio::sync::Notify;
use uuid::Uuid;

use super::{MIGRATIONS, program, run};
use crate::product::World;

/// A time before everything that a test does.
const SINCE: &str = "2026-01-31T09:00:00Z";

/// A set-back that the service has seen.
const SEEN: &str = "INSERT INTO set_back (epoch, reason, since, \"until\")
                    VALUES (2, 'a test', now() - interval '1 hour', now() + interval '1 hour');
                    UPDATE pulse SET epoch = 2";

async fn restored(options: &PgConnectOptions, arguments: &[&str]) -> Ran {
    let url = options.to_url_lossy().to_string();
    run(&[&["restored"], arguments].concat(), &[("DATABASE_URL", &url)]).await
}

async fn execute(owner: &PgPool, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(owner).await.unwrap();
}

async fn count(owner: &PgPool, sql: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(owner).await.unwrap()
}

/// An order on hold; returns its id.
async fn order(world: &World, number: &str) -> String {
    let body = json!({
        "eshop": world.api.tenant.eshop, "orderNumber": number, "value": 12, "currency": "EUR",
        "items": [{"productSku": "MUG", "quantity": 2}],
    });
    let made = world.api.post(&world.api.user, "/api/expedition", body).await.expect(201).json();
    made["id"].as_str().unwrap().to_owned()
}

async fn cancel(world: &World, order: &str) {
    let path = format!("/api/expedition/{order}/cancel");
    world.api.put(&world.api.user, &path, Value::Null).await.expect(200);
}

/// A receiver: it keeps the highest version of each field, and what it was told last about a restore.
#[derive(Default)]
struct Receiver {
    obeys: bool,
    heard: HashSet<Uuid>,
    /// The path of each record that it knows.
    paths: BTreeMap<Uuid, String>,
    kept: BTreeMap<(Uuid, String), (i64, Value)>,
}

impl Receiver {
    /// Hears all that is on its way to it.
    async fn hear(&mut self, world: &World) {
        let events: Vec<(Uuid, String, String, Uuid, Value)> = sqlx::query_as(
            "SELECT e.id, e.type, e.entity_type, e.entity_id, e.data FROM delivery d JOIN event e ON e.id = d.event_id ORDER BY d.id",
        )
        .fetch_all(&world.owner)
        .await
        .unwrap();
        for (id, kind, entity, record, data) in events {
            if !self.heard.insert(id) {
                continue;
            }
            if kind == "restored" {
                if self.obeys {
                    self.read_again(world).await;
                }
                continue;
            }
            self.paths.insert(record, format!("/api/{entity}/{record}"));
            let version = data["version"].as_i64().unwrap();
            for field in data["changedFields"].as_array().unwrap() {
                let field = field.as_str().unwrap();
                self.take(record, field, version, data["fields"][field].clone());
            }
        }
    }

    fn take(&mut self, record: Uuid, field: &str, version: i64, value: Value) {
        let kept = self.kept.entry((record, field.to_owned())).or_default();
        if kept.0 < version {
            *kept = (version, value);
        }
    }

    /// Drops the versions, and reads the fields that it keeps.
    async fn read_again(&mut self, world: &World) {
        for (record, field) in std::mem::take(&mut self.kept).into_keys() {
            if let Some(fields) = read(world, &self.paths[&record]).await {
                self.take(record, &field, fields["version"].as_i64().unwrap(), fields[&field].clone());
            }
        }
    }

    /// The fields of existing records that it has wrong.
    async fn wrong(&self, world: &World) -> Vec<String> {
        let mut wrong = Vec::new();
        for ((record, field), (_, value)) in &self.kept {
            if let Some(fields) = read(world, &self.paths[record]).await
                && !["version", "changedAt"].contains(&field.as_str())
                && fields[field] != *value
            {
                wrong.push(field.clone());
            }
        }
        wrong.sort();
        wrong
    }
}

async fn read(world: &World, path: &str) -> Option<Value> {
    let reply = world.api.get(&world.api.user, path).await;
    (reply.status != 404).then(|| reply.expect(200).json())
}

/// Runs a program of Postgres on the database of a test.
async fn postgres(program: &str, options: &PgConnectOptions, arguments: &[&str]) {
    let url = services::database_settings().unwrap().database_url;
    let (server, _) = url.rsplit_once('/').unwrap();
    let database = format!("--dbname={server}/{}", options.get_database().unwrap());
    let mut command = Command::new(program);
    Ran::of(command.arg(database).args(arguments), "").await.unwrap().ends_with(0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn receivers_end_equal_after_a_dump_was_restored_whether_they_obey_or_a_record_changes_again(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut world = World::new(&options).await;
    world.webhook(world.api.tenant.eshop.get(), "*").await;
    let mug = world.add("MUG", json!({"name": "Mug"})).await;
    let (canceled, edited) = (order(&world, "A").await, order(&world, "B").await);
    let edit = format!("/api/expedition/{edited}");
    let folder = tempfile::tempdir().unwrap();
    let dump = folder.path().join("dump").to_str().unwrap().to_owned();
    postgres("pg_dump", &options, &["--format=custom", "--file", &dump]).await;

    // what is lost: two receivers have heard it
    let (mut obeying, mut ignoring) = (Receiver { obeys: true, ..Receiver::default() }, Receiver::default());
    for change in [json!({"name": "Lost"}), json!({"name": "Lost again", "weight": 7})] {
        world.put(&mug, change).await.expect(200);
    }
    world.add("CUP", json!({})).await;
    world.api.put(&world.api.user, &edit, json!({"ref1": "lost"})).await.expect(200);
    cancel(&world, &canceled).await;
    for receiver in [&mut obeying, &mut ignoring] {
        receiver.hear(&world).await;
        assert_eq!(receiver.wrong(&world).await, [""; 0]);
    }

    let name = options.get_database().unwrap();
    let mut server = PgConnection::connect_with(&options.clone().database("postgres")).await.unwrap();
    for sql in [
        format!("DROP DATABASE {name:?} WITH (FORCE)"),
        format!("CREATE DATABASE {name:?} TEMPLATE template0"),
    ] {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut server).await.unwrap();
    }
    postgres("pg_restore", &options, &["--exit-on-error", &dump]).await;
    world.api.serve(App::new(services::for_test(&options).unwrap()));
    world.owner = PgPool::connect_with(options.clone()).await.unwrap();
    let lost = ["name", "ref1", "status", "weight"];
    assert_eq!(ignoring.wrong(&world).await, lost);

    restored(&options, &["--since", SINCE]).await.ends_with(0);
    for receiver in [&mut obeying, &mut ignoring] {
        receiver.hear(&world).await;
    }
    assert_eq!(
        (obeying.wrong(&world).await, ignoring.wrong(&world).await),
        (vec![], lost.map(str::to_owned).to_vec())
    );
    world.put(&mug, json!({"name": "Pot", "weight": 8})).await.expect(200);
    world.api.put(&world.api.user, &edit, json!({"ref1": "kept"})).await.expect(200);
    cancel(&world, &canceled).await;
    for receiver in [&mut obeying, &mut ignoring] {
        receiver.hear(&world).await;
        assert_eq!(receiver.wrong(&world).await, [""; 0]);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn each_version_jumps_once_in_an_epoch_also_in_sessions_that_are_open(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let mug = world.add("MUG", json!({})).await;
    let lasting = order(&world, "A").await;
    let sync = async || {
        let body =
            json!({"eshop": world.api.tenant.eshop, "products": [{"productSku": "CUP", "name": "Cup"}]});
        let path = "/api/partner-integration/eshop/sync/products";
        world.api.post(&world.api.user, path, body).await.expect(200).json()["id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let version = async |table: &str, id: &str| {
        count(&world.owner, &format!("SELECT version FROM {table} WHERE id = '{id}'")).await
    };
    let change = async |weight: i64| {
        world.put(&mug, json!({"weight": weight})).await.expect(200);
        let path = format!("/api/expedition/{lasting}");
        world.api.put(&world.api.user, &path, json!({"ref1": weight.to_string()})).await.expect(200);
        let job = sync().await;
        world.api.put(&world.api.user, &format!("/api/job/cancel/{job}"), Value::Null).await;
        (version("product", &mug).await, version("expedition", &lasting).await, version("job", &job).await)
    };
    // plans are kept from here on
    for n in 2..8 {
        assert_eq!(change(n).await, (n, n, 3));
    }
    // a version that only a tombstone has
    execute(&world.owner, "INSERT INTO tombstone (entity_type, entity_id, version, deleted_by) VALUES ('expedition', uuid_v7(), 7000, 'x')")
        .await;
    execute(&world.owner, SEEN).await;
    let said = restored(&options, &[]).await.ends_with(0).stdout;
    let expected = "\nversions: what changes from now on has one above 1014000; the highest was 7000\n";
    assert!(said.contains(expected), "{said}");
    assert_eq!(change(10).await, (1_014_001, 1_014_001, 1_014_002));
    assert_eq!(change(11).await, (1_014_002, 1_014_002, 1_014_002));
    // a record begins at 1, also now
    assert_eq!(world.create("NEW", json!({})).await["version"], 1);
    // the next time the versions that were given count, although no record has them: the dump may be older
    execute(
        &world.owner,
        "SET session_replication_role = replica; UPDATE product SET version = 1; UPDATE expedition SET version = 1;
         UPDATE job SET version = 1; RESET session_replication_role",
    )
    .await;
    execute(&world.owner, "INSERT INTO set_back (epoch, reason, since) VALUES (3, 'a test', now())").await;
    let said = restored(&options, &[]).await.ends_with(0).stdout;
    assert!(said.contains("has one above 4028000; the highest was 1014000\n"), "{said}");
}

/// Records of everything that a restore makes wrong, in an e-shop with an active and an inactive webhook, beside another e-shop.
async fn furnish(world: &World) {
    let tenant = &world.api.tenant;
    let (eshop, organisation, wms) = (tenant.eshop, tenant.organisation, tenant.wms);
    for of in [tenant.eshop.get(), tenant.eshop.get(), world.eshop().await] {
        world.webhook(of, "product_change").await;
    }
    execute(
        &world.owner,
        &format!(
            "UPDATE webhook SET active = false WHERE id = (SELECT max(id::text)::uuid FROM webhook WHERE eshop_id = '{eshop}');
             INSERT INTO admin (id, email, first_name, last_name, role, active, active_acceptance)
             VALUES ('018f0000-0000-7000-8000-000000000001', 'a@example.com', 'A', 'B', 'admin', true, 1);
             INSERT INTO session (id, admin_id, expires_at, ends_at, created_at)
             SELECT uuid_v7(), id, now() + interval '1 day', now() + interval '1 day', now() - age * interval '1 hour'
             FROM admin, generate_series(-2, 2, 4) AS age;
             INSERT INTO idempotency (caller_id, method, path, key, claimed_until, claim, outcome, created_at)
             SELECT uuid_v7(), 'POST', '/', key, now() + interval '1 minute', uuid_v7(), outcome, now() - age * interval '1 hour'
             FROM (VALUES ('old', 'done', 2), ('new', 'done', 0), ('executed', NULL, 2)) AS kept (key, outcome, age);
             INSERT INTO partner_memo (eshop_id, kind, source, memo, is_current) VALUES ('{eshop}', 'product.sync', 'feed', 'etag', true);
             INSERT INTO partner_item (eshop_id, inventory, item, product_sku) VALUES ('{eshop}', '', '1', 'MUG');
             INSERT INTO partner_stock (eshop_id, inventory, item, partner_warehouse, taken) VALUES ('{eshop}', '', '1', 'w', 5);
             INSERT INTO stock_send_out (eshop_id, next_at, compare_at) VALUES ('{eshop}', now(), now() + interval '1 day');
             INSERT INTO wms_setting (wms_id, organisation_id, active, paused, base_url, credentials, max_in_flight, secret, fills, fills_before)
             VALUES ('{wms}', '{organisation}', true, false, 'https://wms.example', '', 1, '', true, '4000000000');"
        ),
    )
    .await;
}

/// Where each sequence stands.
async fn sequences(owner: &PgPool) -> BTreeMap<String, i64> {
    let found: Vec<(String, i64)> = sqlx::query_as(
        "SELECT sequencename::text, coalesce(last_value, 0) FROM pg_sequences WHERE schemaname = 'public'",
    )
    .fetch_all(owner)
    .await
    .unwrap();
    found.into_iter().collect()
}

/// Mends, and is interrupted after so many lines; returns whether it came to its end.
async fn mend_until(options: &PgConnectOptions, lines: usize) -> bool {
    let mut owner = PgConnection::connect_with(options).await.unwrap();
    let (cut, mut told) = (Notify::new(), 0);
    let mut tell = |_: &str| {
        told += 1;
        if told == lines {
            cut.notify_one();
        }
    };
    let wanted = Wanted { since: None, asks_warehouses: false };
    tokio::select! {
        biased;
        () = cut.notified() => false,
        done = mend(&mut owner, wanted, &mut tell) => { done.unwrap(); true }
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_is_killed_and_interrupted_at_every_step_is_done_once(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let owner = &world.owner;
    furnish(&world).await;
    execute(owner, SEEN).await;
    let before = sequences(owner).await;

    // killed in the middle of a step
    let mut lock = owner.begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE idempotency IN ACCESS EXCLUSIVE MODE").execute(&mut *lock).await.unwrap();
    let mut command = Command::new(program("longshore-api"));
    command
        .env_clear()
        .env("DATABASE_URL", options.to_url_lossy().as_str())
        .arg("restored")
        .stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    services::until_locked(owner, 1).await.unwrap();
    child.kill().await.unwrap();
    lock.rollback().await.unwrap();
    let steps = "SELECT count(*) FROM set_back_step";
    assert_eq!(count(owner, steps).await, 3);
    for lines in 1..=8 {
        assert!(!mend_until(&options, lines).await, "{lines}");
        let pending = "SELECT count(*) FROM set_back WHERE mended_at IS NULL";
        assert_eq!(count(owner, pending).await, 1, "it is mended with the last step only");
    }
    assert!(mend_until(&options, usize::MAX).await);

    for (name, value) in sequences(owner).await {
        assert_eq!(value, before[&name] + 1_000_000, "{name}");
    }
    for (what, expected) in [
        ("SELECT version_floor()", 1_000_004),
        (steps, 7),
        ("SELECT count(*) FROM set_back WHERE epoch = 2 AND mended_at IS NOT NULL", 1),
        ("SELECT count(*) FROM event WHERE type = 'restored'", 2),
        (
            "SELECT count(*) FROM delivery d JOIN event e ON e.id = d.event_id AND e.entity_id = d.eshop_id JOIN webhook w ON w.id = d.webhook_id",
            3,
        ),
        ("SELECT count(*) FROM delivery", 3),
        ("SELECT count(*) FROM session WHERE ended_at IS NULL AND created_at > now()", 1),
        ("SELECT count(*) FROM session WHERE ended_at IS NOT NULL AND created_at < now()", 1),
        ("SELECT count(*) FROM audit WHERE action = 'session.end'", 1),
        ("SELECT count(*) FROM idempotency WHERE key IN ('new', 'executed')", 2),
        ("SELECT count(*) FROM idempotency", 2),
        ("SELECT count(*) FROM partner_memo", 0),
        ("SELECT count(*) FROM partner_stock WHERE taken IS NULL", 1),
        ("SELECT count(*) FROM stock_send_out WHERE compare_at <= now()", 1),
        ("SELECT count(*) FROM wms_setting WHERE fills AND fills_before IS NULL", 1),
    ] {
        assert_eq!(count(owner, what).await, expected, "{what}");
    }
    let again = restored(&options, &[]).await.ends_with(1);
    assert!(
        again.stderr.contains("no set-back of Postgres is known that is not mended (the last one, since 20"),
        "{again:?}"
    );
    assert_eq!(count(owner, "SELECT count(*) FROM delivery").await, 3);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_set_back_that_nobody_saw_begins_an_epoch_once(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.webhook(world.api.tenant.eshop.get(), "product_change").await;
    let unknown = restored(&options, &[]).await.ends_with(1);
    assert!(unknown.stderr.contains("repeat this with --since and a time"), "{unknown:?}");
    let to_come = restored(&options, &["--since", "2999-01-31"]).await.ends_with(1);
    assert!(to_come.stderr.contains("--since must be in the past"), "{to_come:?}");
    restored(&options, &["--since", "yesterday"]).await.ends_with(2);

    let first = restored(&options, &["--since", SINCE, "--ask-warehouses"]).await.ends_with(0).stdout;
    let begins = format!("epoch 2: what was committed after {SINCE} may be lost\nnumbers: ");
    assert!(first.starts_with(&begins), "{first}");
    for said in [
        "\nwebhooks: 1 are sent the event `restored`\n",
        "\nlook at 4 access tokens (",
        "\nlook at the secrets of 1 webhooks, ",
    ] {
        assert!(first.contains(said), "{said} is not in {first}");
    }
    assert!(first.ends_with("\nmended: orders are handed over to warehouses again\n"), "{first}");
    let again = restored(&options, &["--since", SINCE]).await.ends_with(0).stdout;
    assert_eq!(again, "the set-back since that time is mended: nothing is left to do\n");
    let epochs = "SELECT count(*) FROM set_back s JOIN pulse p ON p.epoch = s.epoch WHERE s.epoch = 2 AND s.mended_at IS NOT NULL";
    assert_eq!(
        (count(&world.owner, epochs).await, count(&world.owner, "SELECT count(*) FROM delivery").await),
        (1, 1)
    );

    let deliveries = json!({"criteria": {"event": {"eq": "restored"}}});
    let deliveries =
        world.api.post(&world.api.user, "/api/webhook-delivery/list", deliveries).await.expect(200).json();
    let path = format!("/api/webhook-delivery/{}/body", deliveries["results"][0]["id"].as_str().unwrap());
    let body = world.api.get(&world.api.user, &path).await.expect(200).json();
    assert_eq!(
        (&body["type"], &body["id"], body.get("test")),
        (&json!("restored"), &json!(world.api.tenant.eshop), None)
    );
    assert_eq!(
        (&body["data"]["since"], &body["data"]["epoch"]),
        (&json!("2026-01-31T09:00:00.000000+00:00"), &json!(2))
    );
    assert_eq!(body["data"]["id"], body["id"]);
    let example = example::data("restored", WebhookId::new(), Some(world.api.tenant.eshop), EventId::new());
    let members = |data: &Value| data.as_object().unwrap().keys().cloned().collect::<HashSet<_>>();
    assert_eq!(members(&body["data"]), members(&example));
    let other = restored(&options, &["--since", "2026-01-31T10:00:00Z"]).await.ends_with(0).stdout;
    assert!(other.starts_with("epoch 3: "), "{other}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_dump_is_mended_before_the_service_has_seen_it(_: PgPoolOptions, options: PgConnectOptions) {
    let mut world = World::new(&options).await;
    // raised in another cluster
    execute(
        &world.owner,
        "UPDATE pulse SET number = 7, at = '2026-01-31T09:00:00Z', system_identifier = 1, database_oid = 1, table_oid = 1, timeline = 1",
    )
    .await;
    let said = restored(&options, &["--since", "2026-02-01"]).await.ends_with(0).stdout;
    assert!(said.starts_with(&format!("epoch 2: what was committed after {SINCE} may be lost\n")), "{said}");
    world.api.serve(App::new(services::for_test(&options).unwrap()));
    read(&world, "/api/webhook/list").await;
    let set_backs = "SELECT count(*) FROM set_back WHERE mended_at IS NOT NULL";
    let all = "SELECT count(*) FROM set_back";
    assert_eq!((count(&world.owner, set_backs).await, count(&world.owner, all).await), (1, 1));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn only_the_owner_of_the_tables_mends(_: PgPoolOptions, options: PgConnectOptions) {
    World::new(&options).await;
    let service = format!("{}&options=-c%20role%3Dlongshore_service", options.to_url_lossy());
    let refused = run(&["restored", "--since", SINCE], &[("DATABASE_URL", &service)]).await.ends_with(1);
    assert!(refused.stderr.contains("does not own the tables"), "{refused:?}");
}
