//! Runs a command with a temporary service.

use anyhow::{bail, ensure};
use clap::Args;
use longshore_demo::api::Api;
use longshore_domain::account::admin::{self, NewAdmin};
use longshore_kernel::access::Role;
use longshore_kernel::context::Origin;
use longshore_kernel::ids;
use longshore_stack::environment::{Environment, OWNER_DATABASE_URL, PROGRAMS};
use longshore_testkit::services;
use longshore_testkit::stack::{self, Stack, StackSettings};
use longshore_testkit::world::Tenant;
use sqlx::{Connection as _, Executor as _, PgConnection};
use tokio::process::Command;

/// The login of the service, as `./dev up` and deployments have it. Others may create it at the same moment: it is of the whole server.
const LOGIN: &str = "DO $$ BEGIN
    CREATE ROLE longshore_app LOGIN IN ROLE longshore_service;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
END $$";

#[derive(Args, Debug)]
pub(super) struct With {
    #[command(flatten)]
    stack: StackSettings,
    /// The command and its arguments. Its environment has the address and settings of the service, the ids and tokens of a tenant, the folder of the programs (`PROGRAMS`), and a file with all of these as `./dev up` writes it (`ENV_FILE`). There, as in any installation, `DATABASE_URL` is that of a login which owns nothing.
    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<String>,
}

impl With {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let [program, arguments @ ..] = self.command.as_slice() else { bail!("there is no command") };
        let stack = Stack::start(&self.stack).await?;
        let services = services::for_test(&stack.database_url.as_str().parse()?)?;
        let tenant = Tenant::create(&services, "Harbour Gifts").await?;
        let mut environment = Environment::default();
        environment.set("BASE_URL", &stack.base_url);
        environment.set("WORKER_METRICS_URL", &stack.worker_metrics_url);
        environment.set(PROGRAMS, &stack::programs()?.display());
        for (name, value) in stack.settings() {
            environment.set(name, &value);
        }
        for (name, id) in [
            ("ORGANISATION_ID", tenant.organisation.get()),
            ("ESHOP_ID", tenant.eshop.get()),
            ("WAREHOUSE_ID", tenant.warehouse),
            ("WMS_ID", tenant.wms),
        ] {
            environment.set(name, &id);
        }
        for (name, role) in [
            ("SUPERADMIN_TOKEN", Role::Superadmin),
            ("USER_TOKEN", Role::User),
            ("CONNECTOR_TOKEN", Role::Connector),
        ] {
            environment.set(name, &tenant.token(&services, role).await?);
        }
        let superadmin = Api::new(&stack.base_url, &tenant.token(&services, Role::Superadmin).await?)?;
        let carrier = superadmin.create_carrier(tenant.organisation.get()).await?;
        environment.set("CARRIER_ID", &carrier);
        // a superadmin with a login
        let (login, password) = ("admin@longshore.invalid", ids::new_id().simple().to_string());
        let new = NewAdmin {
            email: login.to_owned(),
            first_name: "Demo".to_owned(),
            last_name: "Admin".to_owned(),
            role: Role::Superadmin,
            password: password.clone().into(),
            organisations: Vec::new(),
        };
        admin::create_first(&services.db, &Origin::command_line(), new).await?;
        environment.set("ADMIN_LOGIN", &login);
        environment.set("ADMIN_PASSWORD", &password);
        let mut command = Command::new(program);
        command.args(arguments).envs(environment.pairs());

        let mut connection = PgConnection::connect(stack.database_url.as_str()).await?;
        connection.execute(LOGIN).await?;
        connection.close().await?;
        let mut of_service = stack.database_url.clone();
        ensure!(of_service.set_username("longshore_app").is_ok(), "{of_service} has no user");
        environment.set("DATABASE_URL", &of_service);
        environment.set(OWNER_DATABASE_URL, &stack.database_url);
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("env");
        environment.write(&file)?;
        command.env("ENV_FILE", file);
        let ended = command.status().await?;
        ensure!(ended.success(), "{program}: {ended}");
        Ok(())
    }
}
