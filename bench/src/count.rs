//! Instructions that Postgres executes for a change, counted by callgrind: the same at any load of the machine.
//!
//! One connection makes a few changes, and another one many: the difference is what one more change costs. Connecting, planning and
//! filling caches fall out.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures::future::try_join_all;
use longshore_domain::account::token::Tokens;
use longshore_domain::catalog::product::create::create;
use longshore_domain::catalog::product::together::Batcher;
use longshore_domain::catalog::product::update::update;
use longshore_domain::webhook::lane::{Attempt, End, Outcome, lease, record, release};
use longshore_domain::webhook::reader::{self, feed};
use longshore_domain::webhook::subscription;
use longshore_kernel::access::Role;
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::ids::{DeliveryId, WebhookId};
use longshore_stack::port::on_free_port;
use longshore_stack::postgres::{self, Cluster, OWNER};
use longshore_testkit::services;
use longshore_testkit::stack::programs;
use longshore_testkit::world::Tenant;
use serde_json::json;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, Executor as _, PgConnection};
use uuid::Uuid;

/// Rounds of changes on one connection, and on another one.
const ROUNDS: [usize; 2] = [20, 60];

/// Products that are changed in turn.
const PRODUCTS: usize = 64;

/// How long Postgres may take to write what was counted.
const PATIENCE: Duration = Duration::from_secs(30);

/// Without what happens by itself.
const SETTINGS: [(&str, &str); 5] = [
    ("fsync", "off"),
    ("autovacuum", "off"),
    ("full_page_writes", "off"),
    ("checkpoint_timeout", "1h"),
    ("jit", "off"),
];

/// What is counted of changes: its name, how many come together, and the instructions that each may take at most, in thousands.
const CHANGES: [(&str, usize, u64); 2] =
    [("a name of a product, alone", 1, 2_350), ("a name of a product, of ten together", 10, 845)];

/// The same beside webhooks whose criteria the change does not meet.
const BESIDE: (&str, usize, u64) = ("the same beside 15 webhooks whose criteria it does not meet", 10, 1_040);

/// The same beside readers: one event is for all of them.
const READ: (&str, usize, u64) = ("the same beside 16 readers", 10, 860);

/// As many as an e-shop has besides the one that hears of everything.
const OTHERS: usize = 15;

/// Readers beside the one that was there before.
const READERS: usize = 15;

/// Events of a page, which is most of what there is then, and the instructions that each may take at most, in thousands: of a reader,
/// and of a query that asks for nothing else.
const PAGE: (usize, [u64; 2]) = (800, [40, 20]);

/// Pages on one connection, and on another one.
const PAGES: [usize; 2] = [5, 15];

/// Outcomes that are recorded together, and the instructions that each may take at most, in thousands.
const OUTCOMES: (usize, u64) = (10, 230);

/// What was counted.
#[derive(Debug)]
pub struct Count {
    what: &'static str,
    thousands: u64,
    most: u64,
}

impl Count {
    /// Whether it is no more than it may be.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.thousands <= self.most
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, thousands, most } = self;
        write!(f, "{what}: {thousands} thousand instructions of Postgres, at most {most}")
    }
}

/// Counts, with a Postgres of its own in an empty folder that its user can reach.
///
/// # Errors
/// When a program is missing, or the database refuses.
pub async fn run(folder: &Path) -> anyhow::Result<Vec<Count>> {
    let cluster = Cluster::in_folder(folder.join("postgres"))?;
    cluster.create(None)?;
    // what is not counted is not slowed down
    let (server, port) = on_free_port(|port| cluster.start(port, &SETTINGS))?;
    let made = World::make(port).await;
    cluster.stop();
    drop(server);
    let world = made?;

    let profiles = folder.join("profiles");
    fs::create_dir(&profiles)?;
    postgres::hand_over(&profiles)?;
    let (_server, port) = on_free_port(|port| {
        let mut counting = postgres::as_postgres("valgrind")?;
        counting.args(["--tool=callgrind", "--trace-children=yes", "--vgdb=no", "-q"]);
        counting.arg(format!("--callgrind-out-file={}/%p", profiles.display()));
        let server = cluster.server(port, &SETTINGS)?;
        counting.arg(server.get_program()).args(server.get_args());
        cluster.start_by(counting)
    })?;
    let counted = world.count(port, &profiles).await;
    cluster.stop();
    counted
}

/// An e-shop with products, and a webhook that hears of them.
struct World {
    context: Context,
    webhook: WebhookId,
    products: Vec<Uuid>,
}

impl World {
    async fn make(port: u16) -> anyhow::Result<Self> {
        let url = url(port);
        let migrated = Command::new(programs()?.join("longshore-api"))
            .arg("migrate")
            .env("DATABASE_URL", &url)
            .output()?;
        ensure!(migrated.status.success(), "migrate: {}", String::from_utf8_lossy(&migrated.stderr));
        let services = services::for_test(&url.parse()?)?;
        let tenant = Tenant::create(&services, "Counted").await?;
        let token = tenant.token(&services, Role::User).await?;
        let caller = Tokens::new(services.db.clone()).authenticate(&token).await?.as_ref().clone();
        let context = Context { caller, origin: Origin::command_line(), claim: None };
        let webhook =
            json!({"eshop": tenant.eshop, "event": "product_change", "destination": "https://shop.example/"});
        subscription::create(&services, &context, webhook).await?;
        let reader = json!({"eshop": tenant.eshop, "event": "product_change", "name": "ERP"});
        reader::create(&services, &context, reader).await?;
        for n in 0..PRODUCTS {
            let product = json!({
                "organisation": tenant.organisation, "eshops": [tenant.eshop], "productSku": format!("C-{n}"),
                "internalSku": format!("C-{n}"), "name": format!("Counted mug {n}"), "weight": 320, "active": true, "imeiCheckRequired": false,
            });
            create(&services, &context, product).await?;
        }
        let products =
            sqlx::query_scalar("SELECT id FROM product ORDER BY id").fetch_all(&*services.db.main).await?;
        services.db.close().await;
        let mut connection = PgConnection::connect(&url).await?;
        connection.execute("VACUUM (ANALYZE)").await?;
        let webhook = sqlx::query_scalar("SELECT id FROM webhook").fetch_one(&mut connection).await?;
        Ok(Self { context, webhook, products })
    }

    async fn count(&self, port: u16, profiles: &Path) -> anyhow::Result<Vec<Count>> {
        let options = url(port).parse()?;
        // the first connection fills what all share
        self.changes(&options, 1, 1, profiles).await?;
        let [few, many] = ROUNDS;
        let mut counted = Vec::new();
        for (what, together, most) in CHANGES {
            counted.push(self.count_changes(&options, (what, together, most), profiles).await?);
        }
        counted.extend(self.read(&options, profiles).await?);
        self.add_readers(&options).await?;
        counted.push(self.count_changes(&options, READ, profiles).await?);
        self.add_others(&options).await?;
        counted.push(self.count_changes(&options, BESIDE, profiles).await?);
        let (what, (together, most)) = ("the outcome of a delivery, of ten together", OUTCOMES);
        let before = self.outcomes(&options, few, profiles).await?;
        let sum = self.outcomes(&options, many, profiles).await?;
        counted.push(Count { what, thousands: more(before, sum, together)?, most });
        Ok(counted)
    }

    async fn count_changes(
        &self,
        options: &PgConnectOptions,
        (what, together, most): (&'static str, usize, u64),
        profiles: &Path,
    ) -> anyhow::Result<Count> {
        let [few, many] = ROUNDS;
        let before = self.changes(options, together, few, profiles).await?;
        let sum = self.changes(options, together, many, profiles).await?;
        Ok(Count { what, thousands: more(before, sum, together)?, most })
    }

    async fn add_readers(&self, options: &PgConnectOptions) -> anyhow::Result<()> {
        let services = services::for_test(options)?;
        let eshop: Uuid =
            sqlx::query_scalar("SELECT eshop_id FROM webhook").fetch_one(&*services.db.main).await?;
        for n in 0..READERS {
            let reader = json!({"eshop": eshop, "event": "product_change", "name": n.to_string()});
            reader::create(&services, &self.context, reader).await?;
        }
        services.db.close().await;
        Ok(())
    }

    /// Counts what an event costs that is read, and by a bare query.
    async fn read(&self, options: &PgConnectOptions, profiles: &Path) -> anyhow::Result<[Count; 2]> {
        let [few, many] = PAGES;
        let (size, [most, most_bare]) = PAGE;
        let before = self.pages(options, few, profiles).await?;
        let sum = self.pages(options, many, profiles).await?;
        let bare_before = bare_pages(options, few, profiles).await?;
        let bare_sum = bare_pages(options, many, profiles).await?;
        Ok([
            Count { what: "an event of a page of a reader", thousands: of_page(before, sum, size)?, most },
            Count {
                what: "an event of the same page by a bare query",
                thousands: of_page(bare_before, bare_sum, size)?,
                most: most_bare,
            },
        ])
    }

    /// Reads the first page so often.
    async fn pages(&self, options: &PgConnectOptions, rounds: usize, profiles: &Path) -> anyhow::Result<u64> {
        let services = services::with_connections(options, 1)?;
        let backend: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&services.db.main).await?;
        let reader: Uuid =
            sqlx::query_scalar("SELECT id FROM event_reader").fetch_one(&services.db.main).await?;
        let asked = feed::Asked { limit: u64::try_from(PAGE.0)?, ..feed::Asked::default() };
        for _ in 0..rounds {
            let page = feed::read(&services, &self.context.caller.scope, reader.into(), &asked).await?;
            ensure!(page.events == PAGE.0, "a page has {} events", page.events);
        }
        services.db.close().await;
        instructions(&profiles.join(backend.to_string())).await
    }

    /// Adds webhooks that hear of heavy products only.
    async fn add_others(&self, options: &PgConnectOptions) -> anyhow::Result<()> {
        let services = services::for_test(options)?;
        let eshop: Uuid =
            sqlx::query_scalar("SELECT eshop_id FROM webhook").fetch_one(&*services.db.main).await?;
        for n in 0..OTHERS {
            let heavy = json!({
                "eshop": eshop, "event": "product_change", "destination": format!("https://shop.example/{n}"),
                "criteria": {"data.fields.weight": {"gte": 10_000}},
            });
            subscription::create(&services, &self.context, heavy).await?;
        }
        services.db.close().await;
        Ok(())
    }

    /// Makes changes on a connection of their own; returns the instructions of its process.
    async fn changes(
        &self,
        options: &PgConnectOptions,
        together: usize,
        rounds: usize,
        profiles: &Path,
    ) -> anyhow::Result<u64> {
        let services = services::with_connections(options, 1)?;
        let backend: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&services.db.main).await?;
        let batcher = Batcher::default();
        for round in 0..rounds {
            let changed = self.products.iter().cycle().skip(round * together).take(together);
            let changes = changed.map(|id| {
                let body = json!({"name": format!("Counted mug, edition {rounds} {round}")});
                update(&services, &batcher, &self.context, *id, body, |_| Ok(()))
            });
            try_join_all(changes).await?;
        }
        services.db.close().await;
        instructions(&profiles.join(backend.to_string())).await
    }

    /// Records outcomes of the deliveries of changes, as of a destination that is well.
    async fn outcomes(
        &self,
        options: &PgConnectOptions,
        rounds: usize,
        profiles: &Path,
    ) -> anyhow::Result<u64> {
        let aside = services::for_test(options)?;
        let leased =
            lease(&aside, &[self.webhook]).await?.remove(&self.webhook).context("no lane is free")??;
        let due: Vec<(DeliveryId, Uuid)> = sqlx::query_as(
            "SELECT d.id, e.entity_id FROM delivery d JOIN event e ON e.id = d.event_id ORDER BY d.id LIMIT $1",
        )
        .bind(i64::try_from(rounds * OUTCOMES.0)?)
        .fetch_all(&aside.db.main)
        .await?;
        ensure!(due.len() == rounds * OUTCOMES.0, "there are only {} deliveries", due.len());
        let services = services::with_connections(options, 1)?;
        let backend: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&services.db.main).await?;
        for due in due.chunks(OUTCOMES.0) {
            let outcomes: Vec<Outcome> = due
                .iter()
                .map(|(delivery, entity)| Outcome {
                    delivery: *delivery,
                    webhook: self.webhook,
                    token: leased.lease.token,
                    probe: false,
                    organisation: leased.lease.organisation,
                    event_type: "product_change".to_owned(),
                    entity: *entity,
                    end: End::Delivered,
                    attempt: Some(Attempt {
                        number: 1,
                        at: aside.clock.now(),
                        duration_ms: 20,
                        status: Some(200),
                        error: None,
                        response: Some("ok".to_owned()),
                        headers: None,
                    }),
                    hold: None,
                    batch: None,
                })
                .collect();
            record(&services, &outcomes).await?;
        }
        services.db.close().await;
        release(&aside.db, &[(self.webhook, leased.lease.token)]).await?;
        aside.db.close().await;
        instructions(&profiles.join(backend.to_string())).await
    }
}

/// What one more event of a page costs, in thousands.
fn of_page(few: u64, many: u64, size: usize) -> anyhow::Result<u64> {
    Ok(many.saturating_sub(few) / (1_000 * u64::try_from((PAGES[1] - PAGES[0]) * size)?))
}

/// Reads it by the index alone.
async fn bare_pages(options: &PgConnectOptions, rounds: usize, profiles: &Path) -> anyhow::Result<u64> {
    let services = services::with_connections(options, 1)?;
    let backend: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&services.db.main).await?;
    for _ in 0..rounds {
        let page = sqlx::query(
            "SELECT id, type, entity_id, at, data::text, eshops FROM event
             WHERE organisation_id = (SELECT organisation_id FROM webhook LIMIT 1) AND written_by > '0'
             ORDER BY written_by, id LIMIT $1",
        )
        .bind(i64::try_from(PAGE.0)?)
        .fetch_all(&services.db.main)
        .await?;
        ensure!(page.len() == PAGE.0, "a page has {} events", page.len());
    }
    services.db.close().await;
    instructions(&profiles.join(backend.to_string())).await
}

/// What one more costs, by the sums of both [`ROUNDS`] of so many together; in thousands.
fn more(few: u64, many: u64, together: usize) -> anyhow::Result<u64> {
    Ok(many.saturating_sub(few) / (1_000 * u64::try_from((ROUNDS[1] - ROUNDS[0]) * together)?))
}

fn url(port: u16) -> String {
    format!("postgres://{OWNER}@127.0.0.1:{port}/postgres")
}

/// What a profile counted, once its process has ended.
async fn instructions(profile: &Path) -> anyhow::Result<u64> {
    let until = Instant::now() + PATIENCE;
    loop {
        let text = fs::read_to_string(profile).unwrap_or_default();
        if let Some(total) = text.lines().find_map(|line| line.strip_prefix("totals: ")) {
            return Ok(total.trim().parse()?);
        }
        ensure!(Instant::now() < until, "{} has no total", profile.display());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
