//! The proof on the running service, for people.

use std::path::PathBuf;

use crate::api::Api;
use crate::catalogue::Catalogue;
use crate::orders::Orders;
use crate::proof;
use crate::proof::Breaks;
use crate::site::{self, Site};
use anyhow::{Context as _, bail};
use clap::Args;
use longshore_kernel::access::Role;
use longshore_stack::environment::Environment;
use longshore_testkit::world::Tenant;
use longshore_testkit::{process, services, stack};

#[derive(Args, Debug)]
pub(super) struct Demo {
    /// File with the environment that `./dev up` wrote.
    #[arg(long, default_value = ".dev/env")]
    env_file: PathBuf,
    /// File with the process id of the worker.
    #[arg(long, default_value = ".dev/worker.pid")]
    worker_pid_file: PathBuf,
    /// Catalogue to use instead of the shipped one: NDJSON with `productSku` or `sku`, and `name`.
    #[arg(long, env = "LONGSHORE_DEMO_CATALOGUE")]
    catalogue: Option<PathBuf>,
}

impl Demo {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let environment = Environment::read(&self.env_file)?;
        let catalogue = match &self.catalogue {
            Some(path) => Catalogue::read(path)?,
            None => Catalogue::shipped(),
        };
        // A new organisation, so that only the changes of the demo are counted.
        let services = services::for_test(&environment.need("DATABASE_URL")?.parse()?)?;
        let tenant = Tenant::create(&services, "Demo").await?;
        let token = tenant.token(&services, Role::User).await?;
        let site = Site {
            api: Api::new(environment.need("BASE_URL")?, &token)?,
            organisation: tenant.organisation.get(),
            eshop: tenant.eshop.get(),
            warehouse: tenant.warehouse,
        };
        let breaks = Running {
            worker_pid_file: self.worker_pid_file,
            redis_url: environment.need("REDIS_URL")?.to_owned(),
        };
        let report = proof::run(&site, &catalogue, &breaks, |line| println!("- {line}")).await?;
        println!("\n{report}\n");
        let mut faults = report.faults();
        if self.catalogue.is_some() {
            println!("- the orders of the demo are for the shipped catalogue: none are imported");
        } else {
            let operator = site::operator(&services, environment.need("BASE_URL")?).await?;
            let tell = |line| println!("- {line}");
            let report = proof::orders::run(&site, &operator, &Orders::shipped(), &breaks, tell).await?;
            println!("\n{report}");
            faults.extend(report.faults());
        }
        if !faults.is_empty() {
            bail!("the proof fails");
        }
        Ok(())
    }
}

/// The processes of `./dev up`.
struct Running {
    worker_pid_file: PathBuf,
    redis_url: String,
}

impl Breaks for Running {
    async fn kill_worker(&self) -> anyhow::Result<()> {
        let file = &self.worker_pid_file;
        let pid = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        process::kill(pid.trim().parse()?).await
    }

    async fn flush_redis(&self) -> anyhow::Result<()> {
        stack::flush(&self.redis_url).await
    }
}
