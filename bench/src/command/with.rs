//! Runs a command with a temporary service.

use anyhow::{bail, ensure};
use clap::Args;
use longshore_demo::api::Api;
use longshore_domain::account::admin::{self, NewAdmin};
use longshore_kernel::access::Role;
use longshore_kernel::context::Origin;
use longshore_kernel::ids;
use longshore_testkit::services;
use longshore_testkit::stack::{self, Stack, StackSettings};
use longshore_testkit::world::Tenant;
use tokio::process::Command;

#[derive(Args, Debug)]
pub(super) struct With {
    #[command(flatten)]
    stack: StackSettings,
    /// The command and its arguments. Its environment has the address and settings of the service, the ids and tokens of a tenant, and the programs of the service on the path.
    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<String>,
}

impl With {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let [program, arguments @ ..] = self.command.as_slice() else { bail!("there is no command") };
        let stack = Stack::start(&self.stack).await?;
        let services = services::for_test(&stack.database_url.as_str().parse()?)?;
        let tenant = Tenant::create(&services, "Harbour Gifts").await?;
        let mut command = Command::new(program);
        command.args(arguments).env("BASE_URL", &stack.base_url);
        command.env("WORKER_METRICS_URL", &stack.worker_metrics_url).env("PROGRAMS", stack::programs()?);
        command.envs(stack.settings());
        for (name, id) in [
            ("ORGANISATION_ID", tenant.organisation.get()),
            ("ESHOP_ID", tenant.eshop.get()),
            ("WAREHOUSE_ID", tenant.warehouse),
            ("WMS_ID", tenant.wms),
        ] {
            command.env(name, id.to_string());
        }
        for (name, role) in [
            ("SUPERADMIN_TOKEN", Role::Superadmin),
            ("USER_TOKEN", Role::User),
            ("CONNECTOR_TOKEN", Role::Connector),
        ] {
            command.env(name, tenant.token(&services, role).await?);
        }
        let superadmin = Api::new(&stack.base_url, &tenant.token(&services, Role::Superadmin).await?)?;
        let carrier = superadmin.create_carrier(tenant.organisation.get()).await?;
        command.env("CARRIER_ID", carrier.to_string());
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
        command.env("ADMIN_LOGIN", login).env("ADMIN_PASSWORD", password);
        let ended = command.status().await?;
        ensure!(ended.success(), "{program}: {ended}");
        Ok(())
    }
}
