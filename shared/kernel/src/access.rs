//! Roles, permissions and scopes (`docs/reference/roles.md#scopes`).
//!
//! A *role* says what a caller may do, a *scope* with which records. Every query on tenant data takes the scope first.

use std::sync::Arc;

use uuid::Uuid;

use crate::ids::{EshopId, OrganisationId, SessionId, TokenId, WmsId};
use crate::problem::{FORBIDDEN, Problem};
use crate::share::Who;

/// What an account or token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// May everything, everywhere.
    Superadmin,
    /// Runs the organisations it was added to.
    Admin,
    /// Works in its organisation.
    User,
    /// A program of its organisation, or of one e-shop of it.
    Connector,
    /// Reads everything.
    Viewer,
    /// The program of one wms: it reads what its warehouse has to do, and says what became of it.
    Warehouse,
}

impl Role {
    /// Every role, as it is stored and spelled.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Superadmin, "superadmin"),
        (Self::Admin, "admin"),
        (Self::User, "user"),
        (Self::Connector, "connector"),
        (Self::Viewer, "viewer"),
        (Self::Warehouse, "warehouse"),
    ];

    /// Its spelling.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(role, _)| *role == self).map_or("", |(_, name)| name)
    }

    /// Reads its spelling.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, name)| *name == text).map(|(role, _)| *role)
    }

    /// Whether it sees every organisation; the others have one in their token.
    #[must_use]
    pub fn sees_everything(self) -> bool {
        matches!(self, Self::Superadmin | Self::Viewer)
    }
}

macro_rules! permissions {
    ($($(#[$doc:meta])* $name:ident: $($role:ident)*;)*) => {
        /// What an operation asks of its caller.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Permission { $($(#[$doc])* $name),* }

        impl Permission {
            /// Every permission.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The roles that have it: the table of `docs/reference/roles.md#permissions`.
            #[must_use]
            pub fn roles(self) -> &'static [Role] {
                match self { $(Self::$name => &[$(Role::$role),*]),* }
            }
        }
    };
}

permissions! {
    /// Read the records of one's scope.
    Read: Superadmin Admin User Connector Viewer;
    /// Read orders, their items, reservations, movements and receipts.
    ReadExpeditions: Superadmin Admin User Connector Viewer Warehouse;
    /// Read stock advices.
    ReadAdvices: Superadmin Admin User Connector Viewer Warehouse;
    /// Look after one's own account, where one has logged in.
    OwnAccount: Superadmin Admin User Connector Viewer;
    /// Set up, switch on and remove one's own second factor.
    SecondFactor: Superadmin Admin;
    /// Create and change organisations, warehouses and packaging options.
    WriteOrganisations: Superadmin;
    /// Create and change e-shops and wms.
    WriteEshops: Superadmin Admin;
    /// Create and change products, images and stocks.
    WriteProducts: Superadmin Admin User Connector;
    /// Create, change, send, hold, cancel and delete orders.
    WriteExpeditions: Superadmin Admin User Connector;
    /// Say what the warehouse did with an order.
    ReportExpeditions: Superadmin Admin;
    /// Report what a warehouse did with orders, as its program does.
    SendNews: Superadmin Admin Warehouse;
    /// Create and change suppliers and stock advices.
    WriteAdvices: Superadmin Admin User;
    /// Say what of a stock advice has come.
    ReceiveAdvices: Superadmin Admin User Warehouse;
    /// Switch product services.
    WriteServices: Superadmin Admin;
    /// Create and change carriers and carrier services.
    WriteCarriers: Superadmin;
    /// Create, change and delete carrier preferences.
    WritePreferences: Superadmin Admin User;
    /// Read webhooks and deliveries.
    ReadWebhooks: Superadmin Admin User Viewer;
    /// Create and change webhooks, redeliver.
    WriteWebhooks: Superadmin Admin User;
    /// The same of those that one sees by the API: a connector its own.
    ReadOwnWebhooks: Superadmin Admin User Connector Viewer;
    /// Create, change, test, recover and delete them.
    WriteOwnWebhooks: Superadmin Admin User Connector;
    /// Read readers of events, and events by them.
    ReadReaders: Superadmin Admin User Connector Viewer;
    /// Create, change and delete readers of events.
    WriteReaders: Superadmin Admin User Connector;
    /// Read integration settings.
    ReadSettings: Superadmin Admin User Connector Viewer;
    /// Create and change integration settings.
    WriteSettings: Superadmin Admin User Connector;
    /// Read settings of wms.
    ReadWmsSettings: Superadmin Admin Viewer;
    /// Create and change settings of wms.
    WriteWmsSettings: Superadmin Admin;
    /// Read jobs.
    ReadJobs: Superadmin Admin User Connector Viewer;
    /// Start syncs; cancel and retry jobs.
    WriteJobs: Superadmin Admin User Connector;
    /// Release what the guard of a sync has withheld.
    ReleaseWithheld: Superadmin Admin User;
    /// Read admins.
    ReadAdmins: Superadmin Admin Viewer;
    /// Create, change and delete admins.
    WriteAdmins: Superadmin;
    /// Read business users.
    ReadBusinessUsers: Superadmin Admin Viewer;
    /// Create, change and delete business users.
    WriteBusinessUsers: Superadmin Admin;
    /// Read the audit.
    ReadAudit: Superadmin Admin User Viewer;
    /// Create, list and revoke access tokens.
    ManageTokens: Superadmin Admin;
    /// Read the queues.
    ReadQueues: Superadmin Admin Viewer;
    /// Pause and resume queues, change their concurrency.
    ManageQueues: Superadmin;
    /// Acknowledge and mute what needs attention.
    WriteAttention: Superadmin Admin;
}

/// Whose records a caller may see and change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// All scopes.
    Everything,
    /// Those of these organisations.
    Organisations(Arc<[OrganisationId]>),
    /// Those of one e-shop, of this organisation. What belongs to no e-shop is the organisation's.
    Eshop {
        /// The organisation of the e-shop.
        organisation: OrganisationId,
        /// The e-shop.
        eshop: EshopId,
    },
    /// Those of an organisation, or of one e-shop of it; of webhooks and readers, those that this token has made.
    Connector {
        /// The organisation.
        organisation: OrganisationId,
        /// The e-shop that the token is bound to.
        eshop: Option<EshopId>,
        /// The token.
        token: TokenId,
    },
    /// Those that a wms of this organisation works with.
    Wms {
        /// The organisation of the wms.
        organisation: OrganisationId,
        /// The wms.
        wms: WmsId,
    },
}

impl Scope {
    /// The organisations, or nothing where there is no limit. Bind it as `uuid[]`:
    /// `in_scope($1, organisation_id)`.
    #[must_use]
    pub fn organisations(&self) -> Option<&[OrganisationId]> {
        match self {
            Self::Everything => None,
            Self::Organisations(ids) => Some(ids),
            Self::Eshop { organisation, .. }
            | Self::Connector { organisation, .. }
            | Self::Wms { organisation, .. } => Some(std::slice::from_ref(organisation)),
        }
    }

    /// The one e-shop, where the scope is that narrow. Bind it as `uuid`: `in_eshop($2, eshop_id)`.
    #[must_use]
    pub fn eshop(&self) -> Option<EshopId> {
        match self {
            Self::Eshop { eshop, .. } => Some(*eshop),
            Self::Connector { eshop, .. } => *eshop,
            _ => None,
        }
    }

    /// The one wms, where the scope is that narrow. Bind it as `uuid`: `in_wms($2, wms_id)`.
    #[must_use]
    pub fn wms(&self) -> Option<WmsId> {
        match self {
            Self::Wms { wms, .. } => Some(*wms),
            _ => None,
        }
    }

    /// The token, where the scope has only those webhooks and readers that it has made. Bind it as `uuid`: `in_hands($3, made_by)`.
    #[must_use]
    pub fn maker(&self) -> Option<TokenId> {
        match self {
            Self::Connector { token, .. } => Some(*token),
            _ => None,
        }
    }

    /// Whether an organisation is in it.
    #[must_use]
    pub fn has_organisation(&self, id: OrganisationId) -> bool {
        self.organisations().is_none_or(|ids| ids.contains(&id))
    }

    /// Whether an e-shop of an organisation is in it.
    #[must_use]
    pub fn has_eshop(&self, organisation: OrganisationId, id: EshopId) -> bool {
        self.has_organisation(organisation) && self.eshop().is_none_or(|eshop| eshop == id)
    }
}

/// The actor, as in the audit: `actor {type, id, name}` (`docs/reference/accounts.md#audit`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// `token`, `admin`, `business_user`, `job`, `schedule` or `command_line`.
    pub kind: String,
    /// Its record, where it has one.
    pub id: Option<Uuid>,
    /// Its name at that time.
    pub name: String,
}

/// The caller, with its role and scope.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The token that was shown.
    pub token: TokenId,
    /// Its session, if it comes from a login.
    pub session: Option<SessionId>,
    /// The actor, as the audit names it.
    pub actor: Actor,
    /// What it may do.
    pub role: Role,
    /// With whose records.
    pub scope: Scope,
    /// The operator requires a second factor, and this account has none yet: it can only set one up.
    pub must_set_up: bool,
}

impl Caller {
    /// Whose it is, for what is counted: the account, which may have several tokens, or the token that is of none.
    #[must_use]
    pub fn account(&self) -> Uuid {
        self.actor.id.unwrap_or(self.token.get())
    }

    /// Whose share of a common resource its requests use: the organisation's, or the account's where that has none or several.
    #[must_use]
    pub fn who(&self) -> Who {
        let account = self.account();
        let group = match &self.scope {
            Scope::Organisations(ids) => match **ids {
                [organisation] => organisation.get(),
                _ => account,
            },
            Scope::Eshop { organisation, .. }
            | Scope::Connector { organisation, .. }
            | Scope::Wms { organisation, .. } => organisation.get(),
            Scope::Everything => account,
        };
        Who { group, account }
    }

    /// The organisation, where it is of one alone.
    #[must_use]
    pub fn organisation(&self) -> Option<OrganisationId> {
        match self.scope.organisations() {
            Some([only]) => Some(*only),
            _ => None,
        }
    }

    /// Refuses a caller whose role has not the permission.
    pub fn must(&self, permission: Permission) -> Result<(), Problem> {
        let is_own = matches!(permission, Permission::OwnAccount | Permission::SecondFactor);
        if self.must_set_up && !is_own {
            let detail = "this account needs a second factor; set one up with POST and PUT /api/account/totp";
            return Err(Problem::new(&FORBIDDEN, detail));
        }
        if permission.roles().contains(&self.role) {
            Ok(())
        } else {
            Err(Problem::new(&FORBIDDEN, format!("the role {} may not do this", self.role.as_str())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_superadmin_may_everything_and_a_viewer_changes_nothing() {
        for permission in Permission::ALL {
            assert!(permission.roles().contains(&Role::Superadmin), "{permission:?}");
            let name = format!("{permission:?}");
            let reads = name.starts_with("Read") || *permission == Permission::OwnAccount;
            assert_eq!(permission.roles().contains(&Role::Viewer), reads, "{permission:?}");
        }
    }

    #[test]
    fn a_scope_of_one_eshop_excludes_its_neighbours() {
        let organisation = OrganisationId::from_u128(1);
        let (eshop, other) = (EshopId::from_u128(2), EshopId::from_u128(3));
        let scope = Scope::Eshop { organisation, eshop };
        assert!(scope.has_organisation(organisation) && scope.has_eshop(organisation, eshop));
        assert!(!scope.has_eshop(organisation, other));
        assert!(!scope.has_organisation(OrganisationId::from_u128(3)));
        assert!(!Scope::Organisations(Arc::from([])).has_organisation(organisation));
    }
}
