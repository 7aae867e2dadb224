//! A small world for tests and the demo: an organisation with an e-shop, a warehouse and a wms, and tokens of
//! every role.

use longshore_domain::account::eshop::{self, NewEshop};
use longshore_domain::account::organisation::{self, NewOrganisation};
use longshore_domain::account::token::{self, NewToken};
use longshore_domain::warehouse::warehouse::{self, NewWarehouse};
use longshore_domain::warehouse::wms::{self, NewWms};
use longshore_kernel::access::Role;
use longshore_kernel::context::Origin;
use longshore_kernel::ids::{EshopId, OrganisationId};
use longshore_kernel::services::Services;
use secrecy::ExposeSecret as _;
use uuid::Uuid;

/// An organisation and its records.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// The organisation.
    pub organisation: OrganisationId,
    /// Its e-shop.
    pub eshop: EshopId,
    /// Its warehouse, with the wms as default.
    pub warehouse: Uuid,
    /// Its wms.
    pub wms: Uuid,
}

impl Tenant {
    /// Creates it.
    pub async fn create(services: &Services, name: &str) -> anyhow::Result<Self> {
        let origin = Origin::command_line();
        let new = NewOrganisation {
            name: name.to_owned(),
            registration_number: "10000001".to_owned(),
            vat_number: "CZ10000001".to_owned(),
            address: ["Harbour Street 1".to_owned(), "110 00 Prague".to_owned(), String::new()],
            primary_country: "CZ".to_owned(),
            code: None,
        };
        let organisation = organisation::create(services, &origin, &new).await?;
        let new = NewWms {
            organisation,
            name: format!("{name} inventory"),
            distribution_center: Uuid::nil(),
            store_key: "main".to_owned(),
            internal_id: "1".to_owned(),
        };
        let wms = wms::create(services, &origin, &new).await?;
        let new = NewWarehouse {
            organisation,
            name: format!("{name} warehouse"),
            custom_id: "W1".to_owned(),
            wmses: vec![wms],
        };
        let warehouse = warehouse::create(services, &origin, &new).await?;
        let new = NewEshop { organisation, name: format!("{name} shop"), warehouses: vec![warehouse] };
        let eshop = eshop::create(services, &origin, &new).await?;
        Ok(Self { organisation, eshop, warehouse, wms })
    }

    /// Creates a token of a role, bound to this organisation unless the role sees everything.
    pub async fn token(&self, services: &Services, role: Role) -> anyhow::Result<String> {
        let new = NewToken {
            name: format!("{} of a test", role.as_str()),
            role,
            organisation: (!role.sees_everything()).then_some(self.organisation),
            eshop: None,
            wms: (role == Role::Warehouse).then(|| self.wms.into()),
            expires_at: None,
        };
        let shown = token::create(&services.db, &Origin::command_line(), &new).await?;
        Ok(shown.token.expose_secret().to_owned())
    }

    /// Creates a token of a connector that is bound to the e-shop.
    pub async fn eshop_token(&self, services: &Services) -> anyhow::Result<String> {
        let new = NewToken {
            name: "connector of one e-shop".to_owned(),
            role: Role::Connector,
            organisation: Some(self.organisation),
            eshop: Some(self.eshop),
            wms: None,
            expires_at: None,
        };
        let shown = token::create(&services.db, &Origin::command_line(), &new).await?;
        Ok(shown.token.expose_secret().to_owned())
    }
}
