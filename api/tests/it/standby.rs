//! A Postgres whose commits wait for a standby.

use std::time::{Duration, Instant};

use futures::future::join_all;
use http::{Method, StatusCode};
use longshore_http::app::App;
use longshore_kernel::database::Database;
use longshore_kernel::migration;
use longshore_stack::port::free_port;
use longshore_stack::postgres::{Cluster, OWNER, hand_over};
use longshore_stack::process::Process;
use longshore_testkit::services;
use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection};
use tempfile::TempDir;

use crate::support::{Api, Reply};

const PATIENCE: Duration = Duration::from_secs(30);

/// The service with a Postgres of its own.
struct World {
    api: Api,
    owner: PgConnection,
    url: String,
    _postgres: Process,
    _folder: TempDir,
}

impl World {
    /// A request waits for so many seconds.
    async fn start(seconds: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        hand_over(folder.path()).unwrap();
        let cluster = Cluster::in_folder(folder.path().join("postgres")).unwrap();
        cluster.create(None).unwrap();
        let port = free_port().unwrap();
        let postgres = cluster.start(port, &[("fsync", "off"), ("shared_buffers", "16MB")]).unwrap();
        let url = format!("postgres://{OWNER}@127.0.0.1:{port}/postgres");
        migration::migrate(&url).await.unwrap();
        let options: PgConnectOptions = url.parse().unwrap();
        let mut api = Api::new(&options).await;
        let mut services = api.services.clone();
        let mut settings = services::database_settings().unwrap();
        (settings.commit_seconds, settings.database_connections) = (seconds, 4);
        services.db = Database::from_options(&options, &settings);
        api.serve(App::new(services));
        let owner = PgConnection::connect(&url).await.unwrap();
        Self { api, owner, url, _postgres: postgres, _folder: folder }
    }

    async fn execute(&mut self, sql: &'static str) {
        sqlx::raw_sql(sql).execute(&mut self.owner).await.unwrap();
    }

    async fn wait_until(&mut self, sql: &'static str) {
        let until = Instant::now() + PATIENCE;
        while !sqlx::query_scalar::<_, bool>(sql).fetch_one(&mut self.owner).await.unwrap() {
            assert!(Instant::now() < until, "{sql}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Nothing is the standby that commits wait for.
    async fn lose_standby(&mut self) {
        self.execute("ALTER SYSTEM SET synchronous_standby_names = 'lost'").await;
        self.execute("SELECT pg_reload_conf()").await;
        self.wait_until("SELECT current_setting('synchronous_standby_names') = 'lost'").await;
        // the checkpointer says that commits wait
        self.execute("CHECKPOINT").await;
    }

    async fn create(&self, name: &str, key: Option<&str>) -> Reply {
        let body = json!({"organisation": self.api.tenant.organisation, "name": name});
        let key = key.map(|key| ("idempotency-key", key));
        self.api.call_with(&self.api.user, Method::POST, "/api/supplier", body, key.as_slice()).await
    }

    async fn named(&self, name: &str) -> Value {
        let asked = json!({"criteria": {"name": {"eq": name}}});
        let found = self.api.post(&self.api.user, "/api/supplier/list", asked).await.expect(200).json();
        found["results"].as_array().unwrap_or_else(|| panic!("{found}")).len().into()
    }
}

fn detail(reply: &Reply) -> String {
    assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (503, Some("2")), "{}", reply.text);
    reply.json()["detail"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_a_standby_lacks_is_not_answered_and_reads_go_on() {
    let mut world = World::start(1).await;
    let mut suppliers = Vec::new();
    for number in 0..6 {
        let created = world.create(&format!("before {number}"), None).await.expect(201).json();
        suppliers.push(created["id"].as_str().unwrap().to_owned());
    }
    world.lose_standby().await;

    // two of four connections may wait; another commit counts when it has waited for a second
    let mut unanswered = Vec::new();
    loop {
        let name = format!("unanswered {}", unanswered.len());
        // each changes another row, so that none waits for the lock of another
        let path = format!("/api/supplier/{}", suppliers[unanswered.len()]);
        let why = detail(&world.api.put(&world.api.user, &path, json!({"name": name})).await);
        if why.contains("waits for its standby") {
            break;
        }
        assert!(why.contains("may have happened") && unanswered.len() < 4, "{why}");
        unanswered.push(name);
    }
    assert!(unanswered.len() >= 2, "{unanswered:?}");
    detail(&world.create("refused", Some("k")).await);
    // nobody sees what may still be lost
    assert_eq!((world.named("before 0").await, world.named(&unanswered[0]).await), (json!(1), json!(0)));
    let attention = world.api.get(&world.api.superadmin, "/api/attention").await.expect(200).json();
    let lines = attention["lines"].as_array().unwrap();
    let line = lines.iter().find(|line| line["kind"] == "standby").unwrap_or_else(|| panic!("{attention}"));
    assert_eq!(line["severity"], "critical");
    let counted = format!("{} commits for ", unanswered.len());
    assert!(line["sentence"].as_str().unwrap().contains(&counted), "{line}");

    world.execute("ALTER SYSTEM RESET synchronous_standby_names").await;
    world.execute("SELECT pg_reload_conf()").await;
    world.wait_until("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep')").await;
    // as a client does: what was counted is believed for a moment
    let until = Instant::now() + PATIENCE;
    let created = loop {
        let reply = world.create("refused", Some("k")).await;
        if reply.status != StatusCode::SERVICE_UNAVAILABLE || Instant::now() > until {
            break reply;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    created.expect(201);
    for name in unanswered.iter().map(String::as_str).chain(["refused"]) {
        assert_eq!(world.named(name).await, json!(1), "{name}");
    }
}

/// Writes with a key claim it in a task of its own, and those of products are written together in another one.
#[tokio::test(flavor = "multi_thread")]
async fn writes_that_wait_for_a_standby_leave_connections_to_reads() {
    let mut world = World::start(1).await;
    let before = world.create("before", None).await.expect(201).json();
    let mut products = Vec::new();
    for number in 0..3 {
        let sku = format!("SKU-{number}");
        let product = json!({
            "organisation": world.api.tenant.organisation, "eshops": [world.api.tenant.eshop.to_string()], "productSku": sku,
            "internalSku": sku, "name": "before", "imeiCheckRequired": false, "active": true,
        });
        let product = world.api.post(&world.api.user, "/api/product", product).await.expect(201).json();
        products.push(format!("/api/product/{}", product["id"].as_str().unwrap()));
    }
    world.lose_standby().await;

    let (api, world) = (&world.api, &world);
    let products = products.iter().map(|path| api.put(&api.user, path, json!({"name": "after"})));
    let keyed = (0..6).map(|number| async move {
        let (name, key) = (format!("keyed {number}"), format!("k{number}"));
        world.create(&name, Some(&key)).await
    });
    let (products, keyed) = tokio::join!(join_all(products), join_all(keyed));
    for reply in products.iter().chain(&keyed) {
        assert_eq!(reply.status.as_u16(), 503, "{}", reply.text);
    }
    let path = format!("/api/supplier/{}", before["id"].as_str().unwrap());
    let until = Instant::now() + PATIENCE;
    while api.services.db.main.num_idle() < 2 {
        assert!(Instant::now() < until, "connections stay with what waits");
        api.get(&api.user, &path).await;
    }
    api.get(&api.user, &path).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_wait_for_a_standby_is_cancelled_is_not_answered() {
    let mut world = World::start(4).await;
    world.lose_standby().await;
    let cancel = async {
        let mut owner = PgConnection::connect(&world.url).await.unwrap();
        let cancelled = "SELECT bool_or(pg_cancel_backend(pid)) IS TRUE FROM pg_stat_activity
                         WHERE wait_event = 'SyncRep' AND query = 'COMMIT' AND state_change < clock_timestamp() - interval '1 second'";
        while !sqlx::query_scalar::<_, bool>(cancelled).fetch_one(&mut owner).await.unwrap() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let (reply, ()) = tokio::join!(world.create("cancelled", None), cancel);
    let why = detail(&reply);
    assert!(why.contains("may have happened"), "{why}");
    assert_eq!(world.named("cancelled").await, json!(1));
}
