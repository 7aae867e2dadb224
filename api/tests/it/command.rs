//! The command lines: the programs themselves, with the service behind a real socket. Commands that need a worker are
//! tested in `bench`.

mod operator;
mod restored;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use bytes::Bytes;
use http::Method;
use longshore_client::{HAND_OVER_STATES, Hit, ORDER_STATUSES};
use longshore_domain::job::kind::JobKind;
use longshore_domain::list::fields::expedition::{ExpeditionStatus, HandoverState};
use longshore_http::app::App;
use longshore_kernel::access::Role;
use longshore_operate::find::Kind;
use longshore_testkit::program::Ran;
use longshore_testkit::receiver::{Answer, Receiver};
use longshore_testkit::services;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::hostile::socket::Server;
use crate::support::{Api, send_again};

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

/// The service at a URL.
struct World {
    api: Api,
    server: Server,
}

/// Runs `longshore-api` without the caller's own settings.
pub(crate) async fn run(arguments: &[&str], environment: &[(&str, &str)]) -> Ran {
    run_program("longshore-api", arguments, environment).await
}

/// Runs `longshore` without the caller's own settings.
async fn longshore(arguments: &[&str], environment: &[(&str, &str)]) -> Ran {
    run_program("longshore", arguments, environment).await
}

/// A program of this build, which `cargo build --bins` makes.
fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_longshore-api")).with_file_name(name)
}

/// Runs a program without the caller's own settings.
async fn run_program(name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Ran {
    with_input(name, arguments, environment, "").await
}

/// The same with this standard input.
async fn with_input(name: &str, arguments: &[&str], environment: &[(&str, &str)], input: &str) -> Ran {
    let mut command = Command::new(program(name));
    command.env_clear().envs(environment.iter().copied()).args(arguments);
    Ran::of(&mut command, input).await.unwrap()
}

impl World {
    async fn new(options: &PgConnectOptions) -> Self {
        let app = App::new(services::for_test(options).unwrap());
        Self { server: Server::start(app.clone()).await, api: Api::with(app).await }
    }

    async fn run(&self, token: &str, arguments: &[&str]) -> Ran {
        longshore(arguments, &[("LONGSHORE_URL", &self.server.url()), ("LONGSHORE_TOKEN", token)]).await
    }

    /// Accepts a sync that no worker executes; returns its job.
    async fn sync(&self) -> String {
        let body = json!({"eshop": self.api.tenant.eshop, "products": [{"productSku": "1", "name": "Mug"}]});
        let path = "/api/partner-integration/eshop/sync/products";
        let job = self.api.post(&self.api.user, path, body).await.expect(200).json();
        job["id"].as_str().unwrap().to_owned()
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn tokens_are_listed_and_revoked(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let as_superadmin = async |arguments: &[&str]| world.run(&world.api.superadmin, arguments).await;

    let listed = as_superadmin(&["token", "list", "--json"]).await.ends_with(0).json();
    let of_the_user = |listed: &Value| {
        let all = listed["results"].as_array().unwrap().clone();
        all.into_iter()
            .find(|token| token["name"] == "user of a test")
            .map(|t| t["id"].as_str().unwrap().to_owned())
    };
    let id = of_the_user(&listed).unwrap();
    let table = as_superadmin(&[
        "token",
        "list",
        "--ids",
        "--organisation",
        &world.api.tenant.organisation.to_string(),
    ])
    .await
    .ends_with(0)
    .stdout;
    assert!(
        table.starts_with("ID ") && table.contains(&id) && table.contains("connector of a test"),
        "{table}"
    );
    assert!(!table.contains("superadmin of a test"), "{table}");

    let revoked = as_superadmin(&["token", "revoke", &id]).await.ends_with(0);
    assert_eq!(revoked.stdout, format!("token {id} is revoked\n"));
    // its record stays, and says so
    let listed = as_superadmin(&["token", "list", "--json"]).await.json();
    let kept = listed["results"].as_array().unwrap().iter().find(|token| token["id"] == *id).unwrap();
    assert_eq!(kept["revokedBy"]["name"], "superadmin of a test", "{kept}");
    let again = as_superadmin(&["token", "revoke", &id]).await.ends_with(0);
    assert_eq!(again.stdout, revoked.stdout);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn jobs_are_listed_watched_and_cancelled(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let as_user = async |arguments: &[&str]| world.run(&world.api.user, arguments).await;
    let (kept, cancelled) = (world.sync().await, world.sync().await);

    let shown = as_user(&["job", "show", &cancelled]).await.ends_with(0).stdout;
    assert!(shown.contains(&format!("\nwaits for  job {kept}, since 20")), "{shown}");
    assert!(as_user(&["job", "show", &kept]).await.ends_with(0).stdout.contains("\nwaits for  -\n"));
    let listed = as_user(&["job", "list", "--state", "queued", "--ids"]).await.ends_with(0).stdout;
    assert!(listed.contains("WAITS FOR") && listed.contains(&format!("  job {kept}  ")), "{listed}");

    assert_eq!(
        as_user(&["job", "cancel", &cancelled]).await.ends_with(0).stdout,
        format!("job {cancelled} is cancelled\n")
    );
    as_user(&["job", "cancel", &cancelled]).await.ends_with(3);
    // a cancelled job did not do its work
    let watched = as_user(&["job", "watch", &cancelled]).await.ends_with(1);
    assert!(watched.stdout.starts_with(&format!("job {cancelled} cancelled: 0 changed")), "{watched:?}");

    let eshop = world.api.tenant.eshop.to_string();
    let mine = ["job", "list", "--state", "queued", "--eshop", &eshop];
    let listed = as_user(&[&mine[..], &["--ids"]].concat()).await.ends_with(0).stdout;
    assert!(listed.contains(&kept) && !listed.contains(&cancelled), "{listed}");
    let without = as_user(&mine).await.ends_with(0).stdout;
    assert!(without.starts_with("KIND ") && !without.contains(&kept), "{without}");
    let all = as_user(&["job", "list", "--json", "--limit", "1"]).await.ends_with(0).json();
    assert_eq!(all["paging"]["total"], 2);
    assert_eq!(all["results"][0]["id"], json!(cancelled), "the newest first");
    as_user(&["job", "retry", &kept]).await.ends_with(3);

    // who follows a job hears what it waits for
    world.api.put(&world.api.superadmin, "/api/queue/chunk/pause", Value::Null).await.expect(200);
    let mut command = Command::new(program("longshore"));
    command.env_clear().env("LONGSHORE_URL", world.server.url()).env("LONGSHORE_TOKEN", &world.api.user);
    command.args(["job", "watch", &kept]).stderr(Stdio::piped()).kill_on_drop(true);
    let mut watching = command.spawn().unwrap();
    let mut said = BufReader::new(watching.stderr.take().unwrap()).lines();
    assert_eq!(said.next_line().await.unwrap().as_deref(), Some("the job waits for a paused queue"));
    watching.kill().await.unwrap();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn things_are_named_as_people_call_them_and_tables_have_no_ids(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let (eshop, organisation) = (world.api.tenant.eshop, world.api.tenant.organisation);
    let as_user = async |arguments: &[&str]| world.run(&world.api.user, arguments).await;
    let owner = sqlx::PgPool::connect_with(options.clone()).await.unwrap();
    let rename = format!("UPDATE eshop SET name = 'Harbour Mugs' WHERE id = '{eshop}'");
    sqlx::raw_sql(sqlx::AssertSqlSafe(rename)).execute(&owner).await.unwrap();

    for typed in ["Harbour Mugs", "harbour mugs", &eshop.to_string()] {
        let shown = as_user(&["eshop", "show", typed, "--json"]).await.ends_with(0).json();
        assert_eq!(shown["id"], json!(eshop), "{typed}");
    }
    // a part of a name is no name, for a command that may write
    let part = as_user(&["eshop", "show", "Harbour"]).await.ends_with(3);
    let said = format!("there is no e-shop Harbour; did you mean one of these? {eshop} (Harbour Mugs, ");
    assert!(part.stderr.contains(&said), "{part:?}");
    let unknown = as_user(&["job", "list", "--eshop", "Cups"]).await.ends_with(3);
    assert_eq!(unknown.stderr, "error: there is no e-shop Cups\n");
    let hook = ["webhook", "create", "--eshop", "Harbour Mugs", "--destination", "https://shop.example/hook"];
    as_user(&hook).await.ends_with(0);
    as_user(&["webhook", "deactivate", "shop.example"]).await.ends_with(0);
    as_user(&hook).await.ends_with(0);
    let several = as_user(&["webhook", "deactivate", "shop.example"]).await.ends_with(2);
    assert!(several.stderr.matches("https://shop.example/hook, Harbour Mugs").count() == 2, "{several:?}");

    let listed = as_user(&["webhook", "list"]).await.ends_with(0).stdout;
    assert!(
        listed.starts_with("ORGANISATION  E-SHOP ") && listed.contains("  Harbour Mugs  *  "),
        "{listed}"
    );
    let tokens = world.run(&world.api.superadmin, &["token", "list"]).await.ends_with(0).stdout;
    assert!(tokens.starts_with("NAME ") && !tokens.contains(&organisation.to_string()), "{tokens}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_refused_items_of_a_job_are_shown_with_it_and_listed(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let job = world.sync().await;
    let owner = sqlx::PgPool::connect_with(options.clone()).await.unwrap();
    sqlx::raw_sql(
        "INSERT INTO job_item_error (job_id, index, line, key, code, message, field, payload)
         SELECT id, n, n + 2, 'SKU-' || n, 'out_of_range', 'weight is too large', 'weight', '{\"weight\": 1e9}'
         FROM job, generate_series(0, 29) AS n;
         UPDATE job SET state = 'succeeded', total = 31, done = 31, changed = 1, failed = 30, chunks_open = 0, attempts = 3,
             started_at = now() - interval '12 minutes', attempt_started_at = now() - interval '3 seconds', finished_at = now()",
    )
    .execute(&owner)
    .await
    .unwrap();
    let as_user = async |arguments: &[&str]| world.run(&world.api.user, arguments).await;

    let shown = as_user(&["job", "show", &job]).await.ends_with(0).stdout;
    assert!(shown.contains("\nran        3 s, 12 min since its first start (3 attempts)\n"), "{shown}");
    assert!(shown.contains("\n\nREFUSED  CODE          FIELD   EXAMPLE\n30       out_of_range  weight  weight is too large\n\n"), "{shown}");
    assert!(shown.contains("  SKU-19  out_of_range  weight is too large\n"), "{shown}");
    let end = format!(
        "\n… and 10 more: longshore job errors {job} --all\nas they were sent, to be repaired and sent again: longshore job refused {job}\n"
    );
    assert!(shown.ends_with(&end), "{shown}");
    let watched = as_user(&["job", "watch", &job]).await.ends_with(5).stdout;
    assert!(watched.contains("\nREFUSED  CODE ") && watched.ends_with(&end), "{watched}");

    for (part, rows) in [(&[][..], 20), (&["--limit", "5"], 5), (&["--offset", "29"], 1), (&["--all"], 30)] {
        let listed = as_user(&[&["job", "errors", &job][..], part].concat()).await.ends_with(0).stdout;
        assert!(listed.starts_with("INDEX  LINE  KEY ") && listed.lines().count() == rows + 1, "{listed}");
    }
    let all = as_user(&["job", "errors", &job, "--all", "--json"]).await.ends_with(0).json();
    assert_eq!(all["results"].as_array().map(Vec::len), Some(30));
    as_user(&["job", "errors", &job, "--all", "--limit", "5"]).await.ends_with(2);
    let refused = as_user(&["job", "refused", &job]).await.ends_with(0);
    let first = r#"{"_line":2,"_code":"out_of_range","_message":"weight is too large","weight":1e9}"#;
    assert_eq!((refused.stdout.lines().count(), refused.stdout.lines().next()), (30, Some(first)));
    assert_eq!(refused.stderr, "");
    let csv = as_user(&["job", "errors", &job, "--csv"]).await.ends_with(0).stdout;
    assert!(
        csv.starts_with("index,line,key,code,message\r\n0,2,SKU-0,out_of_range,weight is too large\r\n"),
        "{csv}"
    );
    assert_eq!(csv.matches("\r\n").count(), 31);
    let jobs = as_user(&["job", "list", "--state", "succeeded", "--csv"]).await.ends_with(0).stdout;
    assert!(jobs.starts_with("id,kind,state,") && jobs.lines().nth(1).unwrap().starts_with(&job), "{jobs}");
    let webhooks = as_user(&["webhook", "list", "--csv"]).await.ends_with(0).stdout;
    assert!(webhooks.starts_with("id,") && webhooks.lines().count() == 1, "{webhooks}");
    for others in ["--json", "--limit=5", "--offset=5", "--ids"] {
        as_user(&["job", "list", "--csv", others]).await.ends_with(2);
    }
    world.run(&world.api.user, &["job", "errors", &uuid::Uuid::from_u128(7).to_string()]).await.ends_with(3);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn orders_are_imported_listed_sent_and_cancelled(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let (eshop, organisation) = (world.api.tenant.eshop.to_string(), world.api.tenant.organisation);
    let product = json!({
        "organisation": organisation, "eshops": [eshop], "productSku": "MUG", "internalSku": "MUG", "name": "Mug",
        "imeiCheckRequired": false, "active": true,
    });
    world.api.post(&world.api.user, "/api/product", product).await.expect(201);
    let order = json!({
        "eshop": eshop, "orderNumber": "H-1", "value": 12, "currency": "EUR", "items": [{"productSku": "MUG", "quantity": 2}],
    });
    let made = world.api.post(&world.api.user, "/api/expedition", order).await.expect(201).json();
    let id = made["id"].as_str().unwrap();
    let as_user = async |arguments: &[&str]| world.run(&world.api.user, arguments).await;

    let listed = as_user(&["order", "list", "--status", "on_hold", "--eshop", &eshop, "--ids"])
        .await
        .ends_with(0)
        .stdout;
    assert!(listed.starts_with("ID ") && listed.contains(id) && listed.contains("H-1"), "{listed}");
    for other in [
        ["--number", "H-2"],
        ["--sku", "CUP"],
        ["--status", "delivered"],
        ["--hand-over", "sending,withdrawing"],
    ] {
        let none = as_user(&["order", "list", other[0], other[1]]).await.ends_with(0).stdout;
        assert_eq!(none.lines().count(), 1, "{none}");
    }
    let found =
        as_user(&["order", "list", "--number", "H-1", "--sku", "MUG", "--json"]).await.ends_with(0).json();
    assert_eq!(found["results"][0]["id"], made["id"]);

    let refused = as_user(&["order", "send", id]).await.ends_with(5).stdout;
    assert!(refused.starts_with("order H-1 is incorrect\nerror      "), "{refused}");
    let shown = as_user(&["order", "show", id]).await.ends_with(0).stdout;
    for said in [
        "order      H-1\n",
        "status     incorrect\n",
        "error      carrier: ",
        "item       2 x MUG, 0 booked\n",
    ] {
        assert!(shown.contains(said), "{said:?} is not in {shown}");
    }
    assert_eq!(as_user(&["order", "show", id, "--json"]).await.ends_with(0).json()["status"], "incorrect");
    // by its number, as people type it
    for typed in ["H-1", " h-1", "#H-1"] {
        assert_eq!(as_user(&["order", "show", typed, "--json"]).await.ends_with(0).json()["id"], made["id"]);
        let listed = as_user(&["order", "list", "--number", typed, "--ids"]).await.ends_with(0).stdout;
        assert_eq!((listed.lines().count(), listed.contains(id)), (2, true), "{typed}: {listed}");
        let found = as_user(&["find", typed, "--kind", "order,job", "--ids"]).await.ends_with(0).stdout;
        assert!(found.contains(&format!("\norder  {id}  H-1  ")), "{typed}: {found}");
    }
    // the program of a warehouse lists orders, and finds nothing
    let program = world.api.tenant.token(&world.api.services, Role::Warehouse).await.unwrap();
    world.run(&program, &["order", "list", "--number", "H-1"]).await.ends_with(0);
    world.run(&program, &["find", "H-1"]).await.ends_with(3);
    let unknown = as_user(&["order", "show", "H-9"]).await.ends_with(3);
    assert_eq!(unknown.stderr, "error: there is no order H-9\n");
    let none = as_user(&["find", "H-1", "--kind", "product", "--json"]).await.ends_with(0).json();
    assert_eq!(none, json!({"results": [], "more": []}));
    as_user(&["find", "H-1", "--kind", "expedition"]).await.ends_with(2);
    let cancel = ["order", "cancel", "h-1", "--reason", "changed her mind"];
    assert_eq!(as_user(&cancel).await.ends_with(0).stdout, "order H-1 is canceled\n");
    let again = as_user(&["order", "send", id]).await.ends_with(3);
    assert!(again.stderr.contains("409 wrong_status"), "{again:?}");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("orders.ndjson");
    std::fs::write(&file, "{\"orderNumber\":\"H-1\",\"cancel\":true}\n").unwrap();
    let import = ["order", "import", file.to_str().unwrap(), "--eshop", &eshop, "--detach", "--json"];
    let job = as_user(&import).await.ends_with(0).json();
    assert_eq!((&job["kind"], &job["state"]), (&json!("expedition.sync"), &json!("queued")));
    assert_eq!(ORDER_STATUSES, ExpeditionStatus::WORDS);
    assert_eq!(HAND_OVER_STATES, HandoverState::WORDS);
    assert_eq!(Hit::KINDS, Kind::WORDS);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn webhooks_are_listed_tested_and_recovered(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let body =
        json!({"eshop": world.api.tenant.eshop, "event": "*", "destination": "https://shop.example/hook"});
    let made = world.api.post(&world.api.user, "/api/eshop-webhook", body).await.expect(201).json();
    let id = made["id"].as_str().unwrap();
    let as_user = async |arguments: &[&str]| world.run(&world.api.user, arguments).await;

    let eshop = world.api.tenant.eshop.to_string();
    let listed = as_user(&["webhook", "list", "--health", "healthy", "--eshop", &eshop, "--ids"])
        .await
        .ends_with(0)
        .stdout;
    assert!(listed.contains(id) && listed.contains("https://shop.example/hook"), "{listed}");
    assert_eq!(
        as_user(&["webhook", "list", "--health", "disabled"]).await.ends_with(0).stdout.lines().count(),
        1
    );

    let example = ["webhook", "test", id, "--event", "product_change", "--wait", "0", "--json"];
    let sent = as_user(&example).await.ends_with(0).json();
    let body =
        as_user(&["delivery", "show", sent["id"].as_str().unwrap(), "--body"]).await.ends_with(0).json();
    assert_eq!((&body["type"], &body["test"]), (&json!("product_change"), &json!(true)));
    // what was sent is no event of a record
    let few = r#"{"data.fields.weight": {"lte": 5}}"#;
    let tried = ["webhook", "try", "--eshop", &eshop, "--events", "product_change", "--criteria", few];
    assert_eq!(as_user(&tried).await.ends_with(0).stdout, "0 of the newest 0 events\n");
    let other = ["--destination", "https://shop.example/few", "--select", "weight,active"];
    let other = [&["webhook", "create"], &tried[2..], &other].concat();
    assert!(as_user(&other).await.ends_with(0).stdout.contains("whsec_"));
    let stored = json!({"criteria": {"destination": {"like": "few"}}, "select": ["criteria", "select"]});
    let stored = world.api.post(&world.api.user, "/api/eshop-webhook/list", stored).await.expect(200).json();
    let few: Value = serde_json::from_str(few).unwrap();
    assert_eq!(stored["results"], json!([{"criteria": few, "select": ["weight", "active"]}]));
    let unreadable = ["webhook", "try", "--eshop", &eshop, "--criteria", "weight < 5"];
    assert!(as_user(&unreadable).await.ends_with(2).stderr.contains("must be JSON"));
    let unknown = as_user(&["webhook", "test", id, "--event", "weather_change"]).await.ends_with(2);
    assert!(unknown.stderr.contains("product_stock_change"), "{unknown:?}");
    // no attempt was made, so it did not arrive
    let printed = as_user(&["webhook", "test", id, "--wait", "1"]).await.ends_with(1).stdout;
    assert!(printed.contains("is pending: no worker has tried it yet"), "{printed}");
    // the answer to the previous delivery explains it
    let owner = sqlx::PgPool::connect_with(options.clone()).await.unwrap();
    sqlx::query(
        "UPDATE delivery SET attempt_count = 1, attempts =
             '[{\"number\": 1, \"at\": \"2026-01-01T00:00:00Z\", \"durationMs\": 41, \"status\": 503, \"error\": \"answered 503\"}]'
         WHERE id = $1",
    )
    .bind(sent["id"].as_str().unwrap().parse::<uuid::Uuid>().unwrap())
    .execute(&owner)
    .await
    .unwrap();
    sqlx::query("UPDATE webhook_lane SET failures = 5, failing_since = now(), probe_at = now()")
        .execute(&owner)
        .await
        .unwrap();
    let printed = as_user(&["webhook", "test", id, "--wait", "1"]).await.ends_with(1).stdout;
    assert!(printed.contains("is held by the breaker") && printed.contains("status 503, 41 ms"), "{printed}");
    sqlx::query("UPDATE webhook SET ordered = true").execute(&owner).await.unwrap();
    let printed = as_user(&["webhook", "test", id, "--wait", "1"]).await.ends_with(1).stdout;
    assert!(printed.contains(&format!("behind delivery {}", sent["id"].as_str().unwrap())), "{printed}");
    world
        .api
        .put(&world.api.user, &format!("/api/eshop-webhook/deactivate/{id}"), json!(null))
        .await
        .expect(204);
    for (wait, status) in [("0", 0), ("30", 1)] {
        let printed = as_user(&["webhook", "test", id, "--wait", wait]).await.ends_with(status).stdout;
        assert!(printed.contains("is kept: the webhook is inactive"), "{printed}");
    }
    let recover = ["webhook", "recover", id, "--since", "6h", "--detach", "--json"];
    let job = as_user(&recover).await.ends_with(0).json();
    assert_eq!((&job["kind"], &job["state"]), (&json!("webhook.recover"), &json!("queued")));
    let id = job["id"].as_str().unwrap();
    send_again(&world.api.services, id.parse().unwrap()).await;
    let watched = as_user(&["job", "watch", id]).await.ends_with(0).stdout;
    assert!(watched.contains("\nNo waiting deliveries to release; no failed ones to resend.\n"), "{watched}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_refusal_is_shown_with_its_fields_and_has_its_own_exit_status(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let nobody = uuid::Uuid::from_u128(7).to_string();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("products.ndjson");
    std::fs::write(&file, "{\"productSku\":\"1\"}\n").unwrap();
    let sync = ["sync", "products", file.to_str().unwrap(), "--eshop", &nobody];
    let wrong = world.run(&world.api.user, &sync).await.ends_with(3);
    let expected = "error: eshop does not exist (400 invalid_data, request ";
    assert!(wrong.stderr.starts_with(expected), "{wrong:?}");
    assert_eq!(wrong.stdout, "");

    let stranger = world.run("lsh_nobody", &["job", "list"]).await.ends_with(3);
    assert!(stranger.stderr.contains("(401 unauthenticated"), "{stranger:?}");
    world.run(&world.api.user, &["job", "watch", &nobody]).await.ends_with(3);
    world.run(&world.api.user, &["token", "list"]).await.ends_with(3);
    // for a missing file the service is not called
    let missing = ["sync", "products", "/nowhere/products.ndjson", "--eshop", &nobody];
    let missing = world.run(&world.api.user, &missing).await.ends_with(1);
    assert!(missing.stderr.starts_with("error: /nowhere/products.ndjson: "), "{missing:?}");
    // a missing token is a usage error, and so is an empty one
    let url = world.server.url();
    for environment in
        [&[("LONGSHORE_URL", url.as_str())][..], &[("LONGSHORE_URL", &url), ("LONGSHORE_TOKEN", "")]]
    {
        longshore(&["job", "list"], environment).await.ends_with(2);
    }
}

#[tokio::test]
async fn a_missing_or_different_service_is_distinguished_from_a_refusal() {
    let gone =
        longshore(&["job", "list"], &[("LONGSHORE_URL", "http://127.0.0.1:1"), ("LONGSHORE_TOKEN", "t")])
            .await;
    assert!(gone.stderr.starts_with("error: cannot reach http://127.0.0.1:1: "), "{gone:?}");
    gone.ends_with(4);

    let other = Receiver::start().await.unwrap();
    other.answer_all(Answer::Body(404, Bytes::from_static(b"<html>")));
    let (url, environment) = (other.url(""), ("LONGSHORE_TOKEN", "t"));
    let strange = longshore(&["job", "list"], &[("LONGSHORE_URL", &url), environment]).await.ends_with(4);
    assert!(strange.stderr.contains("does not answer as Longshore does: status 404"), "{strange:?}");
    // no body is no empty list, and neither is an object without one
    let id = uuid::Uuid::from_u128(7).to_string();
    for body in ["", "{}", "[]"] {
        other.answer_all(Answer::Body(200, Bytes::from_static(body.as_bytes())));
        for command in [&["job", "list"][..], &["audit", "--json"], &["job", "errors", &id, "--all"]] {
            let strange = longshore(command, &[("LONGSHORE_URL", &url), environment]).await.ends_with(4);
            assert!(strange.stderr.contains("does not answer as Longshore does: "), "{body:?} {strange:?}");
        }
    }
}

#[tokio::test]
async fn a_busy_service_is_called_again_as_requested_and_with_the_same_key() {
    let busy = Receiver::start().await.unwrap();
    let id = uuid::Uuid::from_u128(7).to_string();
    let progress = json!({"total": 0, "done": 0, "changed": 0, "unchanged": 0, "failed": 0});
    let job =
        json!({"id": id, "kind": "webhook.recover", "state": "queued", "progress": progress, "error": null});
    let recovered = Answer::Body(202, Bytes::from(job.to_string()));
    busy.answer_all(Answer::Sequence(vec![
        Answer::RetryAfter(503, 0),
        Answer::RetryAfter(429, 0),
        recovered,
    ]));
    let (url, token) = (busy.url(""), ("LONGSHORE_TOKEN", "t"));
    let recover = ["webhook", "recover", &id, "--since", "2020-01-01", "--detach"];
    let ran = longshore(&recover, &[("LONGSHORE_URL", &url), token]).await.ends_with(0);
    assert_eq!(ran.stdout, format!("{id}\n"));
    let receipts = busy.receipts();
    assert_eq!(receipts.len(), 3);
    assert!(receipts.iter().all(|receipt| receipt.method == Method::POST));
    assert_eq!(busy.counts_by("idempotency-key").into_values().collect::<Vec<_>>(), [3]);
    assert_eq!(busy.counts_by("authorization"), [("Bearer t".to_owned(), 3)].into());

    // after too many busy answers the command fails with a message
    busy.forget();
    busy.answer_all(Answer::RetryAfter(503, 0));
    longshore(&recover, &[("LONGSHORE_URL", &url), token]).await.ends_with(4);
    assert_eq!(busy.requests(), 6);

    // a pipe cannot be sent twice
    busy.forget();
    let sync = ["sync", "products", "-", "--eshop", &id];
    longshore(&sync, &[("LONGSHORE_URL", &url), token]).await.ends_with(4);
    assert_eq!(busy.requests(), 1);
}

#[tokio::test]
async fn an_invalid_argument_is_a_usage_error_that_says_what_is_expected() {
    let environment = [("LONGSHORE_URL", "http://127.0.0.1:1"), ("LONGSHORE_TOKEN", "t")];
    let id = uuid::Uuid::from_u128(7).to_string();
    for (arguments, said) in [
        (&["job", "list", "--state", "broken"][..], "possible values: receiving, queued, running"),
        (&["job", "list", "--state", "failed,broken"], "possible values: receiving, queued, running"),
        (&["job", "list", "--kind", "product.snyc"], "'product.sync'"),
        (&["webhook", "list", "--health", "bad"], "possible values: healthy, failing, disabled"),
        (&["job", "watch", "123"], "must be an id"),
        (&["job", "list", "--eshop", " "], "must not be empty"),
        (
            &["webhook", "recover", &id, "--since", "tomorrow"],
            "must be a time (2027-01-31T00:00:00Z), a date",
        ),
    ] {
        let wrong = longshore(arguments, &environment).await.ends_with(2);
        assert!(wrong.stderr.contains(said), "{wrong:?}");
    }
}

#[tokio::test]
async fn a_token_may_come_from_a_file_but_only_once() {
    let service = Receiver::start().await.unwrap();
    service.answer_all(Answer::Status(404));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "lsh_from_a_file\n").unwrap();
    let (url, named) = (service.url(""), ("LONGSHORE_TOKEN_FILE", file.to_str().unwrap()));
    longshore(&["job", "list"], &[("LONGSHORE_URL", &url), named]).await.ends_with(4);
    assert_eq!(service.counts_by("authorization"), [("Bearer lsh_from_a_file".to_owned(), 1)].into());

    let twice = longshore(&["job", "list"], &[named, ("LONGSHORE_TOKEN", "t")]).await.ends_with(2);
    assert!(twice.stderr.contains("LONGSHORE_TOKEN and LONGSHORE_TOKEN_FILE are both set"), "{twice:?}");
    let gone = [("LONGSHORE_TOKEN_FILE", "/nowhere/token")];
    let gone = longshore(&["job", "list"], &gone).await.ends_with(2);
    assert!(gone.stderr.contains("cannot read the file that LONGSHORE_TOKEN_FILE names"), "{gone:?}");
}

#[tokio::test]
async fn a_command_that_was_moved_names_its_new_program() {
    let old = run(&["job", "watch", "7"], &[]).await.ends_with(2);
    assert_eq!(old.stderr, "error: `longshore-api job` is `longshore job` now\n");
}

/// The client knows the words of the API from its documentation only.
#[test]
fn the_client_knows_every_kind_state_and_health() {
    assert_eq!(longshore_client::Job::KINDS, JobKind::WORDS);
    assert_eq!(longshore_client::JobState::ALL, longshore_domain::list::fields::job::JobState::WORDS);
    assert_eq!(longshore_client::Webhook::EVENTS, longshore_domain::webhook::event::NAMES);
    assert_eq!(longshore_client::Health::ALL, longshore_domain::list::fields::subscription::HEALTHS);
    assert_eq!(
        longshore_client::Queue::NAMES,
        longshore_kernel::queue::Queue::ALL.map(longshore_kernel::queue::Queue::name)
    );
}

#[tokio::test]
async fn completions_and_pages_of_the_manual_come_from_the_programs() {
    let programs = [
        (
            "longshore-api",
            "admin",
            &["create"][..],
            ["longshore-api-token-create.1", "longshore-api-doctor.1"],
        ),
        (
            "longshore",
            "webhook",
            &["list", "create", "listen", "test", "recover"],
            ["longshore-job-watch.1", "longshore-sync-products.1"],
        ),
    ];
    for (name, command, subcommands, pages) in programs {
        let folder = tempfile::tempdir().unwrap();
        let run = async |arguments: &[&str]| run_program(name, arguments, &[]).await.ends_with(0).stdout;
        let script = folder.path().join("completions.bash");
        std::fs::write(&script, run(&["completions", "bash"]).await).unwrap();
        // bash itself reads them, and then knows the commands
        let test = format!(
            "source {} && words=\"$(complete -p {name})\" && words=\"${{words#*-F }}\" \
             && COMP_WORDS=({name} {command} '') COMP_CWORD=2 && \"${{words%% *}}\" {name} '' {command} \
             && printf '%s ' \"${{COMPREPLY[@]}}\"",
            script.display()
        );
        let completed = Command::new("bash").args(["-c", &test]).output().await.unwrap();
        let completed = String::from_utf8(completed.stdout).unwrap();
        for word in subcommands {
            assert!(
                completed.split_whitespace().any(|known| known == *word),
                "{word} is not in {completed:?}"
            );
        }
        assert!(run(&["completions", "zsh"]).await.starts_with(&format!("#compdef {name}")));
        assert!(run(&["completions", "fish"]).await.contains(&format!("complete -c {name}")));

        assert!(run(&["man"]).await.contains(&format!(".TH {name} 1")));
        run(&["man", "--folder", folder.path().to_str().unwrap()]).await;
        for page in pages.into_iter().chain([format!("{name}.1").as_str()]) {
            assert!(folder.path().join(page).is_file(), "{page}");
        }
    }
}
