//! An e-shop of its own on a running service, with a client that may do everything in its organisation.

use longshore_domain::account::eshop::{self, NewEshop};
use longshore_domain::account::token::{self, NewToken};
use longshore_kernel::access::Role;
use longshore_kernel::context::Origin;
use longshore_kernel::services::Services;
use longshore_testkit::services;
use longshore_testkit::stack::Stack;
use longshore_testkit::world::Tenant;
use secrecy::{ExposeSecret as _, SecretString};
use uuid::Uuid;

use crate::api::Api;

/// An e-shop without products, and a token with all permissions for its organisation.
#[derive(Debug)]
pub struct Site {
    /// The service.
    pub api: Api,
    /// The organisation.
    pub organisation: Uuid,
    /// Its e-shop.
    pub eshop: Uuid,
    /// Its warehouse, with a default wms.
    pub warehouse: Uuid,
}

impl Site {
    /// Creates an organisation with an e-shop on a stack, and the token.
    ///
    /// # Errors
    /// When they cannot be created.
    pub async fn on(stack: &Stack, name: &str) -> anyhow::Result<Self> {
        let services = services::for_test(&stack.database_url.as_str().parse()?)?;
        let tenant = Tenant::create(&services, name).await?;
        let token = tenant.token(&services, Role::User).await?;
        let api = Api::new(&stack.base_url, &token)?;
        let Tenant { organisation, eshop, warehouse, .. } = tenant;
        Ok(Self { api, organisation: organisation.get(), eshop: eshop.get(), warehouse })
    }

    /// Creates another e-shop of the organisation.
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub async fn another_eshop(&self, stack: &Stack, name: &str) -> anyhow::Result<Uuid> {
        let services = services::for_test(&stack.database_url.as_str().parse()?)?;
        let new = NewEshop {
            organisation: self.organisation.into(),
            name: name.to_owned(),
            warehouses: vec![self.warehouse],
        };
        Ok(eshop::create(&services, &Origin::command_line(), &new).await?.get())
    }
}

/// A client with the token of a superadmin: an operator, who creates carriers and reports what warehouses do.
///
/// # Errors
/// When the token cannot be created.
pub async fn operator(services: &Services, base_url: &str) -> anyhow::Result<Api> {
    Api::new(base_url, operator_token(services).await?.expose_secret())
}

/// The token of a superadmin.
///
/// # Errors
/// When it cannot be created.
pub async fn operator_token(services: &Services) -> anyhow::Result<SecretString> {
    let new = NewToken {
        name: "operator of the demo".to_owned(),
        role: Role::Superadmin,
        organisation: None,
        eshop: None,
        wms: None,
        expires_at: None,
    };
    Ok(token::create(&services.db, &Origin::command_line(), &new).await?.token)
}

/// The same on a stack.
///
/// # Errors
/// When the token cannot be created.
pub async fn operator_of(stack: &Stack) -> anyhow::Result<Api> {
    operator(&services::for_test(&stack.database_url.as_str().parse()?)?, &stack.base_url).await
}
