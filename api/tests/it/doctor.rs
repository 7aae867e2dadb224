//! The doctor on real servers: each check succeeds if all is well, and fails otherwise.

use std::fmt;
use std::time::{Duration, Instant};

use chrono::TimeDelta;
use clap::{Args as _, FromArgMatches as _};
use longshore_kernel::clock::Clock;
use longshore_kernel::queue::Queue;
use longshore_kernel::services::Services;
use longshore_kernel::{ids, set_back};
use longshore_operate::doctor::{self, Finding, Patient, Verdict};
use longshore_testkit::little_redis::LittleRedis;
use longshore_testkit::port::free_port;
use longshore_testkit::services;
use longshore_testkit::world::Tenant;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions as _, PgPool};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::command::run;
use crate::migrate::empty;
use crate::support::Api;

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

/// The key of the tests' services, and another one.
const KEY: &str = "test:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";
const OTHER_KEY: &str = "other:CAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg=";

/// A correct installation without a running worker.
struct World {
    services: Services,
    /// Pool of the owner's role, with which the tests break things.
    owner: PgPool,
    arguments: Vec<(&'static str, String)>,
    folder: TempDir,
}

/// The findings of the doctor.
struct Report(Vec<Finding>);

impl Report {
    #[track_caller]
    fn of(&self, check: &str) -> &Finding {
        self.0.iter().find(|finding| finding.check == check).unwrap_or_else(|| panic!("no {check} in {self}"))
    }

    fn has(&self, check: &str) -> bool {
        self.0.iter().any(|finding| finding.check == check)
    }

    /// Asserts the verdict and the finding of a check; every verdict but a good one has a remedy.
    #[track_caller]
    fn says(&self, check: &str, verdict: Verdict, found: &str) {
        let finding = self.of(check);
        assert_eq!(finding.verdict, verdict, "{self}");
        assert!(finding.found.contains(found), "{found:?} is not in {self}");
        assert_eq!(finding.remedy.is_none(), verdict == Verdict::Ok, "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|finding| writeln!(f, "{finding:?}"))
    }
}

impl World {
    async fn new(options: &PgConnectOptions) -> Self {
        let services = services::for_test(options).unwrap();
        let api = Api::over(services.clone()).await;
        let hook = json!({
            "eshop": api.tenant.eshop, "event": "*", "destination": "https://shop.example/hook",
            "authentication": {"type": "bearer", "token": "hush"},
        });
        api.post(&api.user, "/api/eshop-webhook", hook).await.expect(201);
        let folder = tempfile::tempdir().unwrap();
        let arguments = vec![
            ("--database-url", options.to_url_lossy().to_string()),
            // the server of the tests has room for several processes
            ("--database-connections", "2".to_owned()),
            ("--queue-prefix", services.queues.prefix().to_owned()),
            ("--encryption-key", KEY.to_owned()),
            ("--object-store", folder.path().join("objects").display().to_string()),
        ];
        Self { services, owner: PgPool::connect_with(options.clone()).await.unwrap(), arguments, folder }
    }

    /// Runs the doctor with these settings instead of the correct ones.
    async fn examine(&self, other: &[(&'static str, &str)]) -> Report {
        self.examine_at(other, &Clock::system()).await
    }

    async fn examine_at(&self, other: &[(&'static str, &str)], clock: &Clock) -> Report {
        let mut arguments = Vec::new();
        for (name, value) in &self.arguments {
            if other.iter().all(|(replaced, _)| replaced != name) {
                arguments.extend([*name, value.as_str()]);
            }
        }
        arguments.extend(other.iter().flat_map(|(name, value)| [*name, *value]));
        examine_by(&arguments, clock).await
    }

    async fn execute(&self, sql: &'static str) {
        sqlx::raw_sql(sql).execute(&self.owner).await.unwrap();
    }
}

/// Runs the doctor with only these settings.
async fn examine_by(arguments: &[&str], clock: &Clock) -> Report {
    let command = Patient::augment_args(clap::Command::new("test"));
    let matches = command.try_get_matches_from(["test"].iter().chain(arguments)).unwrap();
    Report(doctor::examine(&Patient::from_arg_matches(&matches).unwrap(), clock).await)
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_correct_installation_has_no_faults(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let report = world.examine(&[]).await;
    for check in [
        "settings",
        "postgres.connection",
        "postgres.version",
        "postgres.primary",
        "postgres.connections",
        "postgres.role",
        "postgres.grants",
        "postgres.migrations",
        "postgres.clock",
        "postgres.vacuum",
        "postgres.letters",
        "postgres.set_back",
        "redis.connection",
        "redis.version",
        "redis.primary",
        "redis.eviction",
        "redis.clock",
        "redis.memory",
        "redis.writes",
        "secrets",
        "orders",
        "objects",
    ] {
        report.says(check, Verdict::Ok, "");
    }
    report.says("secrets", Verdict::Ok, "all 2 can be opened");
    // the test object was removed again
    let kept = std::fs::read_dir(world.folder.path().join("objects/doctor")).unwrap();
    assert_eq!(kept.count(), 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_set_back_is_a_fault_until_it_is_mended(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    // as after a restore into another database, whose pulse was raised where it was dumped
    set_back::watch(&world.services.db, &world.services.queues).await.unwrap();
    world.execute("UPDATE pulse SET database_oid = database_oid + 1").await;
    let report = world.examine(&[]).await;
    report.says("postgres.set_back", Verdict::Fail, "what was committed since");
    assert!(report.of("postgres.set_back").remedy.as_deref().unwrap().contains("longshore-api restored"));
    world.execute("UPDATE set_back SET mended_at = now()").await;
    world.examine(&[]).await.says("postgres.set_back", Verdict::Ok, "");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn missing_workers_are_a_warning_and_a_fault_if_work_is_waiting(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.examine(&[]).await.says("workers", Verdict::Warn, "none reads chunk, ");
    let (names, patience) = (["x".to_owned()], Duration::from_secs(20));
    world.services.queues.put(Queue::Chunk, &names, patience).await.unwrap();
    world.examine(&[]).await.says("workers", Verdict::Fail, "work is waiting");
    // Postgres has the work that Redis does not know
    let other = world.examine(&[("--queue-prefix", "nobody:")]).await;
    other.says("workers", Verdict::Warn, "none reads");
    let tenant = Tenant::create(&world.services, "Busy").await.unwrap();
    sqlx::query(
        "INSERT INTO job (id, kind, state, organisation_id, eshop_id, parameters, total, chunks_open, actor_type,
             actor_name, acceptance)
         VALUES (uuid_v7(), 'product.sync', 'queued', $1, $2, '{}', 1, 1, 'token', 'x', nextval('acceptance'))",
    )
    .bind(tenant.organisation)
    .bind(tenant.eshop)
    .execute(&world.owner)
    .await
    .unwrap();
    let other = world.examine(&[("--queue-prefix", "nobody:")]).await;
    other.says("workers", Verdict::Fail, "work is waiting");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_unavailable_postgres_or_redis_is_reported_once(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let report = world.examine(&[("--database-url", "postgres://longshore@127.0.0.1:1/longshore")]).await;
    report.says("postgres.connection", Verdict::Fail, "");
    assert!(!report.has("postgres.version") && !report.has("secrets"), "{report}");
    report.says("redis.connection", Verdict::Ok, "");
    world.examine(&[("--database-url", "mysql://x")]).await.says("postgres.connection", Verdict::Fail, "");

    let report = world.examine(&[("--redis-url", "redis://127.0.0.1:1")]).await;
    report.says("redis.connection", Verdict::Fail, "");
    assert!(!report.has("redis.version") && !report.has("workers"), "{report}");
    report.says("secrets", Verdict::Ok, "");
    world.examine(&[("--redis-url", "http://x")]).await.says("redis.connection", Verdict::Fail, "");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_unsuitable_database_is_reported_with_the_remedy(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let says = async |check: &str, verdict, found: &str| world.examine(&[]).await.says(check, verdict, found);
    let report = world.examine(&[("--database-connections", "1000")]).await;
    report.says("postgres.connections", Verdict::Fail, "up to 1017");

    let report = world.examine(&[("--database-role", "nobody_by_that_name")]).await;
    report.says("postgres.role", Verdict::Fail, "there is no role");
    assert!(!report.has("postgres.grants") && !report.has("secrets"), "{report}");
    let login = options.get_username().to_owned();
    let report = world.examine(&[("--database-role", &login)]).await;
    report.says("postgres.role", Verdict::Fail, "is a superuser");

    world.execute("REVOKE SELECT ON product, job FROM longshore_service").await;
    says("postgres.grants", Verdict::Fail, "may not read job, product").await;
    world.execute("GRANT SELECT ON product, job TO longshore_service").await;
    world.execute("GRANT UPDATE ON audit TO longshore_service").await;
    says("postgres.grants", Verdict::Fail, "may alter the audit").await;
    world.execute("REVOKE UPDATE ON audit FROM longshore_service").await;
    says("postgres.grants", Verdict::Ok, "").await;

    // for new sessions of this database
    world
        .execute("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$")
        .await;
    says("postgres.durability", Verdict::Warn, "synchronous_commit = off").await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn missing_broken_and_unknown_migrations_are_reported(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let says = async |verdict, found: &str| {
        let report = world.examine(&[]).await;
        report.says("postgres.migrations", verdict, found);
        assert_eq!(report.has("secrets"), verdict != Verdict::Fail, "{report}");
        report
    };
    world
        .execute(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
             VALUES (999999, 'tomorrow', true, '', 0)",
        )
        .await;
    says(Verdict::Warn, "the database has 1 that this version does not know").await;
    world.execute("UPDATE _sqlx_migrations SET success = false WHERE version = 999999").await;
    says(Verdict::Fail, "migration 999999 was interrupted").await;
    world.execute("DELETE FROM _sqlx_migrations WHERE version = 999999").await;
    world.execute("UPDATE applied_function SET sha256 = sha256('x') WHERE name = 'in_wms'").await;
    says(Verdict::Fail, "1 functions have another text, starting with in_wms").await;
    world.execute("UPDATE _sqlx_migrations SET checksum = 'x' WHERE version = 2").await;
    let report = says(Verdict::Fail, "created before the first release").await;
    let remedy = report.of("postgres.migrations").remedy.as_deref().unwrap();
    assert!(remedy.starts_with("create a new, empty database"), "{remedy}");
    world.execute("DELETE FROM _sqlx_migrations WHERE version IN (2, 5)").await;
    says(Verdict::Fail, "2 are missing, starting with 2").await;
    world.execute("DROP TABLE _sqlx_migrations").await;
    says(Verdict::Fail, "none has been applied").await;
}

#[sqlx::test(migrations = false)]
async fn a_database_login_that_cannot_migrate_is_reported_with_the_missing_privileges(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    empty(&options).await;
    let owner = PgPool::connect_with(options.clone()).await.unwrap();
    let login = format!("doctor_{}", ids::new_id().simple());
    let execute = async |sql: String| sqlx::raw_sql(AssertSqlSafe(sql)).execute(&owner).await.unwrap();
    // roles belong to the server: other tests create this one at the same time
    let made = "DO $$ BEGIN CREATE ROLE longshore_service NOLOGIN;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$";
    execute(made.to_owned()).await;
    execute(format!("CREATE ROLE {login} LOGIN")).await;
    let url = options.clone().username(&login).to_url_lossy().to_string();
    let arguments = ["--database-url", &url, "--encryption-key", KEY, "--object-store", "/nonexistent"];
    let examine = async || examine_by(&arguments, &Clock::system()).await;

    let report = examine().await;
    report.says("postgres.migrations", Verdict::Fail, "none has been applied");
    report.says("postgres.login", Verdict::Warn, "needs membership of \"longshore_service\"");
    let remedy = report.of("postgres.login").remedy.clone().unwrap();
    // the statements that it prints are enough
    for statement in remedy.split("-c '").skip(1).map(|rest| rest.split('\'').next().unwrap()) {
        execute(statement.to_owned()).await;
    }
    let report = examine().await;
    assert!(!report.has("postgres.login"), "{report}");
    let database = options.get_database().unwrap();
    execute(format!("ALTER DATABASE \"{database}\" OWNER TO {login}")).await;
    longshore_kernel::migration::migrate(&url).await.unwrap();
    let report = examine().await;
    report.says("postgres.migrations", Verdict::Ok, "");
    assert!(!report.has("postgres.login"), "it has migrated without CREATEROLE: {report}");
    // which means much below Postgres 16, also where another login asks
    execute(format!("ALTER ROLE {login} CREATEROLE")).await;
    let number = sqlx::query_scalar::<_, i32>("SELECT current_setting('server_version_num')::int");
    let is_mighty = number.fetch_one(&owner).await.unwrap() < 160_000;
    let superuser = options.to_url_lossy().to_string();
    for url in [&url, &superuser] {
        let arguments = ["--database-url", url, "--encryption-key", KEY, "--object-store", "/nonexistent"];
        let report = examine_by(&arguments, &Clock::system()).await;
        assert_eq!(report.has("postgres.login"), is_mighty, "{report}");
        if is_mighty {
            report.says("postgres.login", Verdict::Warn, "pg_execute_server_program");
            let remedy = report.of("postgres.login").remedy.clone().unwrap();
            assert!(remedy.ends_with(&format!("-c 'ALTER ROLE \"{login}\" NOCREATEROLE'")), "{remedy}");
        }
    }
    // roles outlive the database of a test
    execute(format!("ALTER DATABASE \"{database}\" OWNER TO CURRENT_USER; DROP OWNED BY {login} CASCADE"))
        .await;
    execute(format!("DROP ROLE {login}")).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_wrong_clock_is_reported(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let fast = Clock::from_fn(|| Clock::system().now() + TimeDelta::hours(1));
    let report = world.examine_at(&[], &fast).await;
    for check in ["postgres.clock", "redis.clock"] {
        report.says(check, Verdict::Fail, "s off the clock");
        assert!(report.of(check).found.starts_with("-3"), "{report}");
    }
    // stored secrets can still be decrypted
    report.says("secrets", Verdict::Ok, "");
}

/// A Redis that is unsuitable for queues; dropping it ends it.
async fn unfit_redis(folder: &TempDir) -> (Child, String) {
    let port = free_port().unwrap();
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "no"]);
    command.args(["--maxmemory-policy", "allkeys-lru", "--replicaof", "127.0.0.1 1"]);
    command.arg("--dir").arg(folder.path()).stdout(std::process::Stdio::null()).kill_on_drop(true);
    (command.spawn().unwrap(), format!("redis://127.0.0.1:{port}"))
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_redis_that_evicts_keys_or_is_a_replica_is_reported(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (_redis, url) = unfit_redis(&world.folder).await;
    let until = Instant::now() + Duration::from_mins(1);
    let report = loop {
        let report = world.examine(&[("--redis-url", &url)]).await;
        if report.of("redis.connection").verdict == Verdict::Ok || Instant::now() >= until {
            break report;
        }
        // it is still starting
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    report.says("redis.eviction", Verdict::Fail, "allkeys-lru");
    report.says("redis.primary", Verdict::Fail, "replica");
    report.says("redis.writes", Verdict::Fail, "READONLY");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_full_or_nearly_full_redis_is_reported(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let redis = LittleRedis::start().await.unwrap();
    let examine = async || world.examine(&[("--redis-url", &redis.url)]).await;
    let report = examine().await;
    report.says("redis.memory", Verdict::Ok, "of 4.0 MB used");
    report.says("redis.writes", Verdict::Ok, "can be written");
    redis.nearly_fill().await.unwrap();
    let report = examine().await;
    report.says("redis.memory", Verdict::Warn, "MB used: when memory is full");
    report.says("redis.writes", Verdict::Ok, "can be written");
    redis.fill().await.unwrap();
    let report = examine().await;
    report.says("redis.connection", Verdict::Ok, "");
    report.says("redis.memory", Verdict::Warn, "of 4.0 MB used");
    report.says("redis.writes", Verdict::Fail, "OOM");
    let remedy = report.of("redis.writes").remedy.clone().unwrap();
    assert!(remedy.starts_with("redis-cli -u \"$REDIS_URL\" config set maxmemory "), "{remedy}");
    redis.free().await.unwrap();
    examine().await.says("redis.writes", Verdict::Ok, "can be written");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_missing_or_old_key_is_reported_by_name(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let says = async |keys: &str, verdict, found: &str| {
        world.examine(&[("--encryption-key", keys)]).await.says("secrets", verdict, found);
    };
    says(OTHER_KEY, Verdict::Fail, "2 of 2 cannot be opened; missing: test").await;
    says(&format!("{OTHER_KEY},{KEY}"), Verdict::Warn, "2 of them only with an older key").await;
    says(&OTHER_KEY.replace("other:", "test:"), Verdict::Fail, "2 of 2 cannot be opened").await;
    says("nonsense", Verdict::Fail, "").await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_object_store_that_is_not_writable_is_reported(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let file = world.folder.path().join("a file");
    std::fs::write(&file, "").unwrap();
    let below = file.join("objects").display().to_string();
    world.examine(&[("--object-store", &below)]).await.says("objects", Verdict::Fail, "");
    world.examine(&[("--object-store", "gs://bucket")]).await.says(
        "objects",
        Verdict::Fail,
        "must be a folder",
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_command_prints_a_line_for_each_finding_and_fails_if_a_check_does(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let redis = std::env::vars().find(|(name, _)| name == "REDIS_URL").map(|(_, url)| url);
    let redis = redis.unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let environment = [("REDIS_URL", redis.as_str())];
    let mut arguments = vec!["doctor"];
    arguments.extend(world.arguments.iter().flat_map(|(name, value)| [*name, value.as_str()]));

    let well = run(&arguments, &environment).await.ends_with(0).stdout;
    assert!(well.lines().any(|line| line == "ok    secrets               all 2 can be opened"), "{well}");
    assert!(
        well.lines().any(|line| line.starts_with("warn  workers ") && line.ends_with("check its log")),
        "{well}"
    );

    world.execute("REVOKE SELECT ON product FROM longshore_service").await;
    arguments.push("--json");
    let ill = run(&arguments, &environment).await.ends_with(1).json();
    assert_eq!(ill["verdict"], "fail");
    let grants =
        ill["findings"].as_array().unwrap().iter().find(|f| f["check"] == "postgres.grants").unwrap();
    assert_eq!(grants["verdict"], "fail");
    let remedy = grants["remedy"].as_str().unwrap();
    assert!(remedy.ends_with("psql \"$DATABASE_URL\" -c 'GRANT SELECT, INSERT, UPDATE, DELETE ON product TO \"longshore_service\"'"), "{remedy}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn orders_that_do_not_agree_with_their_stocks_are_named(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world
        .execute(
            "INSERT INTO product (id, organisation_id, product_sku, internal_sku, name, reference_numbers, packaging_type,
                 imei_check_required, work_around_sn_in, work_around_ean_sticker, work_around_warranty_inf, work_around_lot,
                 active, active_acceptance, type)
             SELECT uuid_v7(), id, 'P', 'P', 'Mug', '{}', 'A', false, false, false, false, false, true, 1, 'physical'
             FROM organisation LIMIT 1;
             INSERT INTO product_stock (id, organisation_id, product_id, warehouse_id, wms_id, quantity, held, missing, marked_at)
             SELECT '01a20000-0000-7000-8000-000000000001', p.organisation_id, p.id, w.id, m.id, 5, 2, 0,
                    now() - interval '1 hour'
             FROM product p, warehouse w, wms m LIMIT 1",
        )
        .await;
    let report = world.examine(&[]).await;
    for found in [
        "stock 01a20000-0000-7000-8000-000000000001 has held 2 and missing 0; its orders have 0 and 0",
        "has 5 pieces and 0 incoming; its movements come to 0 and 0",
        "marked since",
    ] {
        report.says("orders", Verdict::Fail, found);
    }
    let remedy = report.of("orders").remedy.clone().unwrap_or_default();
    assert!(remedy.contains("report it") && remedy.contains("see that a worker runs"), "{remedy}");
}
