//! Demo data: an organisation with e-shop, warehouse, wms and a small catalogue, and tokens for them.

use std::path::PathBuf;
use std::time::Duration;

use crate::api::{Api, JobState};
use crate::catalogue::Catalogue;
use crate::orders::Orders;
use anyhow::ensure;
use clap::Args;
use longshore_domain::account::admin::{self, NewAdmin};
use longshore_domain::account::token::{self, NewToken, Tokens};
use longshore_kernel::access::{Role, Scope};
use longshore_kernel::clock::Clock;
use longshore_kernel::config::{
    DatabaseSettings, ObjectStoreSettings, OutboundSettings, QuotaSettings, RedisSettings, VaultSettings,
};
use longshore_kernel::context::Origin;
use longshore_kernel::crypto::{Vault, random_bytes};
use longshore_kernel::database::{Database, Use};
use longshore_kernel::ids;
use longshore_kernel::metrics::Metrics;
use longshore_kernel::objects::Objects;
use longshore_kernel::queue::Queues;
use longshore_kernel::quota::Quotas;
use longshore_kernel::refusals::Refusals;
use longshore_kernel::rest::Rests;
use longshore_kernel::services::Services;
use longshore_stack::environment::Environment;
use longshore_testkit::world::Tenant;
use secrecy::ExposeSecret as _;
use uuid::Uuid;

/// The shop of the shipped catalogue.
const NAME: &str = "Harbour Gifts";

/// How long the sync of the small catalogue may take.
const DEADLINE: Duration = Duration::from_mins(1);

#[derive(Args, Debug)]
pub(super) struct Seed {
    /// File of `./dev up`, to which the ids and tokens are added.
    #[arg(long)]
    env_file: PathBuf,
    /// URL of the api.
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    base_url: String,
    /// URL of the worker's metrics.
    #[arg(long, default_value = "http://127.0.0.1:8081/metrics")]
    worker_metrics_url: String,
    #[command(flatten)]
    database: DatabaseSettings,
    #[command(flatten)]
    redis: RedisSettings,
    #[command(flatten)]
    vault: VaultSettings,
    #[command(flatten)]
    objects: ObjectStoreSettings,
    #[command(flatten)]
    outbound: OutboundSettings,
    #[command(flatten)]
    quotas: QuotaSettings,
}

impl Seed {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let mut environment = Environment::read(&self.env_file)?;
        environment.set("BASE_URL", &self.base_url);
        environment.set("CONSOLE_URL", &format!("{}/console", self.base_url));
        environment.set("WORKER_METRICS_URL", &self.worker_metrics_url);
        let metrics = Metrics::new();
        let services = Services {
            db: Database::connect_lazy(&self.database, "longshore-demo", Use::Work)?,
            queues: Queues::open(&self.redis)?,
            vault: Vault::new(&self.vault.encryption_key)?,
            objects: Objects::open(&self.objects)?,
            clock: Clock::system(),
            outbound: self.outbound,
            quotas: Quotas::new(self.quotas, metrics.clone()),
            metrics,
            unfinished_jobs: 10_000,
            refusals: Refusals::default(),
            rests: Rests::default(),
        };
        if is_there(&services, &environment).await {
            println!("the demo data is there already");
        } else {
            create(&services, &mut environment).await?;
        }
        add_admin(&services, &mut environment).await?;
        // Written first, so that the tokens are not lost if the sync of the catalogue fails.
        environment.write(&self.env_file)?;
        fill(&environment).await?;
        if environment.get("CARRIER_ID").is_none() {
            order(&mut environment).await?;
            environment.write(&self.env_file)?;
        }
        Ok(())
    }
}

/// Whether the tokens in the file are valid here, for the organisation and e-shop in it.
async fn is_there(services: &Services, environment: &Environment) -> bool {
    let tokens = Tokens::new(services.db.clone());
    let id = |key: &str| environment.get(key).and_then(|id| id.parse::<Uuid>().ok());
    let (Some(organisation), Some(eshop)) = (id("ORGANISATION_ID"), id("ESHOP_ID")) else { return false };
    for (key, role, scope) in [
        ("SUPERADMIN_TOKEN", Role::Superadmin, Scope::Everything),
        ("USER_TOKEN", Role::User, Scope::Organisations([organisation.into()].into())),
        (
            "CONNECTOR_TOKEN",
            Role::Connector,
            Scope::Eshop { organisation: organisation.into(), eshop: eshop.into() },
        ),
    ] {
        let Some(token) = environment.get(key) else { return false };
        match tokens.authenticate(token).await {
            Ok(caller) if caller.role == role && caller.scope == scope => {}
            _ => return false,
        }
    }
    true
}

async fn create(services: &Services, environment: &mut Environment) -> anyhow::Result<()> {
    let tenant = Tenant::create(services, NAME).await?;
    environment.forget("CARRIER_ID");
    environment.set("ORGANISATION_ID", &tenant.organisation);
    environment.set("ESHOP_ID", &tenant.eshop);
    environment.set("WAREHOUSE_ID", &tenant.warehouse);
    environment.set("WMS_ID", &tenant.wms);
    for (key, role, organisation, eshop) in [
        ("SUPERADMIN_TOKEN", Role::Superadmin, None, None),
        ("USER_TOKEN", Role::User, Some(tenant.organisation), None),
        ("CONNECTOR_TOKEN", Role::Connector, Some(tenant.organisation), Some(tenant.eshop)),
    ] {
        let name = format!("{NAME}, development: {}", role.as_str());
        let new = NewToken { name, role, organisation, eshop, wms: None, expires_at: None };
        let shown = token::create(&services.db, &Origin::command_line(), &new).await?;
        environment.set(key, &shown.token.expose_secret());
    }
    println!("created the organisation {NAME} with e-shop, warehouse, wms and tokens");
    Ok(())
}

/// Creates the demo's superadmin, unless the file names an existing one.
async fn add_admin(services: &Services, environment: &mut Environment) -> anyhow::Result<()> {
    if let Some(login) = environment.get("ADMIN_LOGIN")
        && admin::is_known(&services.db, login).await?
    {
        return Ok(());
    }
    let secret: [u8; 16] = random_bytes();
    let password = secret.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    let mut login = "admin@longshore.invalid".to_owned();
    if admin::is_known(&services.db, &login).await? {
        // the file with its password is lost
        login = format!("admin-{}@longshore.invalid", ids::new_id().simple());
    }
    let new = NewAdmin {
        email: login.clone(),
        first_name: "Demo".to_owned(),
        last_name: "Admin".to_owned(),
        role: Role::Superadmin,
        password: password.clone().into(),
        organisations: Vec::new(),
    };
    admin::create_first(&services.db, &Origin::command_line(), new).await?;
    environment.set("ADMIN_LOGIN", &login);
    environment.set("ADMIN_PASSWORD", &password);
    println!("created the superadmin {login}");
    Ok(())
}

/// Syncs the shipped catalogue into the e-shop, as a connector does; existing products stay unchanged.
async fn fill(environment: &Environment) -> anyhow::Result<()> {
    let catalogue = Catalogue::shipped();
    let api = Api::new(environment.need("BASE_URL")?, environment.need("CONNECTOR_TOKEN")?)?;
    let job = api.sync_products(catalogue.body(environment.need("ESHOP_ID")?.parse()?)).await?;
    let job = api.job_ended(job.id, DEADLINE).await?;
    ensure!(job.state == JobState::Succeeded, "the sync of the catalogue {}: {:?}", job.state, job.error);
    let progress = job.progress;
    println!(
        "its catalogue: {} products in, {} there already, {} rows refused on purpose",
        progress.changed, progress.unchanged, progress.failed
    );
    Ok(())
}

/// Imports the shipped orders: some are booked, others wait.
async fn order(environment: &mut Environment) -> anyhow::Result<()> {
    let base_url = environment.need("BASE_URL")?;
    let id = |key: &str| anyhow::Ok(environment.need(key)?.parse::<Uuid>()?);
    let (organisation, eshop, warehouse) = (id("ORGANISATION_ID")?, id("ESHOP_ID")?, id("WAREHOUSE_ID")?);
    let superadmin = Api::new(base_url, environment.need("SUPERADMIN_TOKEN")?)?;
    let carrier = superadmin.create_carrier(organisation).await?;
    let api = Api::new(base_url, environment.need("CONNECTOR_TOKEN")?)?;
    let stock = Orders::stock(&superadmin.skus(organisation).await?);
    let job = api.count_stocks(eshop, warehouse, &stock).await?;
    api.job_ended(job.id, DEADLINE).await?;
    let job = api.import_orders(Orders::shipped().body(eshop, carrier)).await?;
    let job = api.job_ended(job.id, DEADLINE).await?;
    ensure!(job.state == JobState::Succeeded, "the import of orders {}: {:?}", job.state, job.error);
    let progress = job.progress;
    println!("its orders: {} in, {} rows refused on purpose", progress.changed, progress.failed);
    environment.set("CARRIER_ID", &carrier);
    Ok(())
}
