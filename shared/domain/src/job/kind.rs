//! Jobs as types: each has a stable kind and its parameters. A kind that only one module uses is defined in that module.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::chunk::Claim;
use longshore_kernel::access::Scope;
use longshore_kernel::ids::{EshopId, OrganisationId, WmsId};
use longshore_kernel::problem::Problem;

pub use crate::list::fields::job::{JobKind, JobState};

impl JobKind {
    /// Whether its items are rows of an e-shop or its partner, and its end an event of the e-shop (`sync_finished`).
    #[must_use]
    pub fn is_sync(self) -> bool {
        matches!(self, Self::ProductSync | Self::StockSync | Self::ExpeditionSync)
    }

    /// Whether its items are rows as they came; those of others are ids.
    #[must_use]
    pub fn has_rows(self) -> bool {
        self.is_sync() || self == Self::ExpeditionNews
    }

    /// Whether its items are ids of orders.
    #[must_use]
    pub(super) fn is_of_orders(self) -> bool {
        matches!(
            self,
            Self::ExpeditionSend
                | Self::ExpeditionProcess
                | Self::ExpeditionRollback
                | Self::ExpeditionCancel
        )
    }

    /// Whether its end has events: those of dry runs, and of tests of connections, are answers to a person.
    #[must_use]
    pub fn is_told(self) -> bool {
        !self.is_test() && self != Self::Preview
    }

    /// Whether it tests a connection: it makes one call, and changes nothing.
    #[must_use]
    pub fn is_test(self) -> bool {
        matches!(self, Self::IntegrationTest | Self::WmsTest)
    }
}

/// A job: what it needs besides its items, as it is stored. Its body is in the worker.
pub trait Job: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Its kind.
    const KIND: JobKind;

    /// Whose it is, as its body needs it.
    type Owner: Owner;

    /// Whether its chunks run one after the other, in their order.
    const IN_ORDER: bool = false;

    /// Whether each of its items can be executed without the others of its chunk: the others are all or nothing, or take
    /// steps.
    fn is_divisible(&self) -> bool {
        false
    }
}

/// Whose a job is, read from its row.
pub trait Owner: Copy + Send + Sync + 'static {
    /// Reads it.
    ///
    /// # Errors
    /// The row does not say it.
    fn of(claim: &Claim) -> Result<Self, Unusable>;
}

/// Of a job whose body does not ask.
impl Owner for () {
    fn of(_: &Claim) -> Result<Self, Unusable> {
        Ok(())
    }
}

/// An e-shop and its organisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shop {
    /// The organisation.
    pub organisation: OrganisationId,
    /// The e-shop.
    pub eshop: EshopId,
}

impl Owner for Shop {
    fn of(claim: &Claim) -> Result<Self, Unusable> {
        let shop =
            claim.organisation.zip(claim.eshop).map(|(organisation, eshop)| Self { organisation, eshop });
        shop.ok_or_else(|| Unusable::parameters(claim, "it has no e-shop"))
    }
}

impl Owner for OrganisationId {
    fn of(claim: &Claim) -> Result<Self, Unusable> {
        claim.organisation.ok_or_else(|| Unusable::parameters(claim, "it has no organisation"))
    }
}

/// A job as it is stored: its kind with its parameters.
#[derive(Clone, Debug)]
pub struct Stored {
    pub(super) kind: JobKind,
    pub(super) parameters: Value,
    pub(super) in_order: bool,
    /// Whether it is only tried.
    pub(super) is_dry_run: bool,
}

impl Stored {
    /// Of a job.
    pub(crate) fn new<J: Job>(job: &J) -> Result<Self, Problem> {
        let parameters = serde_json::to_value(job).map_err(Problem::internal)?;
        Ok(Self { kind: J::KIND, parameters, in_order: J::IN_ORDER, is_dry_run: false })
    }

    /// The kind of its row.
    pub(super) fn job_kind(&self) -> JobKind {
        if self.is_dry_run { JobKind::Preview } else { self.kind }
    }

    /// Keeps by which criteria its items were found: the job shows them.
    pub(super) fn note_criteria(&mut self, criteria: &Value) {
        if let Value::Object(parameters) = &mut self.parameters {
            parameters.insert("criteria".to_owned(), criteria.clone());
        }
    }
}

/// Why a stored job cannot be executed by this version: its `error`.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{code}: {sentence}")]
pub struct Unusable {
    code: &'static str,
    sentence: String,
}

impl Unusable {
    /// There is no job of its kind.
    #[must_use]
    pub fn kind(kind: &str) -> Self {
        Self { code: "unknown_kind", sentence: format!("this version has no jobs of the kind {kind:?}") }
    }

    /// What is stored of it is not what its kind needs.
    pub fn parameters(claim: &Claim, why: impl std::fmt::Display) -> Self {
        let sentence =
            format!("the stored parameters of this {:?} job cannot be used: {why}", claim.kind_name());
        Self { code: "unusable_parameters", sentence }
    }
}

impl Claim {
    /// Reads its job, and whose it is.
    ///
    /// # Errors
    /// What is stored of it is not what such a job needs.
    pub fn job<J: Job>(&self) -> Result<(J, J::Owner), Unusable> {
        let job = J::deserialize(&self.parameters).map_err(|error| Unusable::parameters(self, error))?;
        Ok((job, J::Owner::of(self)?))
    }

    /// What of the partner a chunk that calls it is about.
    ///
    /// # Errors
    /// The row does not say it.
    pub fn source(&self) -> Result<&str, Unusable> {
        self.source.as_deref().ok_or_else(|| Unusable::parameters(self, "it has no source"))
    }
}

/// Whose items a job may change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Within {
    /// Those of these organisations (absent: of all) …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organisations: Option<Vec<OrganisationId>>,
    /// … and of the one e-shop, where the scope of the caller was that narrow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope_eshop: Option<EshopId>,
}

impl Within {
    /// The items of these organisations, or of the whole scope where there are none, that are in the scope.
    #[must_use]
    pub(crate) fn new(scope: &Scope, organisations: &[OrganisationId]) -> Self {
        let organisations =
            if organisations.is_empty() { scope.organisations() } else { Some(organisations) };
        Self { organisations: organisations.map(<[OrganisationId]>::to_vec), scope_eshop: scope.eshop() }
    }
}

impl Within {
    /// The scope that they make.
    #[must_use]
    pub fn scope(&self) -> Scope {
        match (&self.organisations, self.scope_eshop) {
            (Some(organisations), Some(eshop)) if organisations.len() == 1 => {
                Scope::Eshop { organisation: organisations[0], eshop }
            }
            (Some(organisations), _) => Scope::Organisations(organisations.as_slice().into()),
            (None, _) => Scope::Everything,
        }
    }
}

/// Switches products on.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ActivateProducts(pub Within);

impl Job for ActivateProducts {
    const KIND: JobKind = JobKind::ProductActivate;
    type Owner = ();

    fn is_divisible(&self) -> bool {
        true
    }
}

/// Switches products off.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeactivateProducts(pub Within);

impl Job for DeactivateProducts {
    const KIND: JobKind = JobKind::ProductDeactivate;
    type Owner = ();

    fn is_divisible(&self) -> bool {
        true
    }
}

/// Takes over products of a partner.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SyncProducts {
    /// The e-shop, where the scope of the caller was that narrow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope_eshop: Option<EshopId>,
    /// The partner's inventory, as the caller named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inventory_id: Option<String>,
}

impl Job for SyncProducts {
    const KIND: JobKind = JobKind::ProductSync;
    type Owner = Shop;

    fn is_divisible(&self) -> bool {
        true
    }
}

/// Takes over stock counts of a partner.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SyncStocks {
    /// The e-shop, where the scope of the caller was that narrow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope_eshop: Option<EshopId>,
    /// The warehouse that stocks are set in.
    pub warehouse: Uuid,
    /// The wms that stocks are set in.
    pub wms: Uuid,
}

impl Job for SyncStocks {
    const KIND: JobKind = JobKind::StockSync;
    type Owner = Shop;

    fn is_divisible(&self) -> bool {
        true
    }
}

/// Takes over orders of an e-shop.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SyncExpeditions {
    /// Whether new ones are sent, where their rows do not say it; absent: unless the e-shop edits them first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send: Option<bool>,
}

impl Job for SyncExpeditions {
    const KIND: JobKind = JobKind::ExpeditionSync;
    const IN_ORDER: bool = true;
    type Owner = Shop;

    fn is_divisible(&self) -> bool {
        true
    }
}

/// Takes what a warehouse reports of orders.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TakeNews {
    /// The wms that reports.
    pub wms: WmsId,
}

impl Job for TakeNews {
    const KIND: JobKind = JobKind::ExpeditionNews;
    const IN_ORDER: bool = true;
    type Owner = OrganisationId;

    fn is_divisible(&self) -> bool {
        true
    }
}

macro_rules! bulk_of_expeditions {
    ($($(#[$doc:meta])* $name:ident = $kind:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Within);

        impl Job for $name {
            const KIND: JobKind = JobKind::$kind;
            const IN_ORDER: bool = true;
            type Owner = ();

            fn is_divisible(&self) -> bool {
                true
            }
        }
    )*};
}

bulk_of_expeditions! {
    /// Sends orders.
    SendExpeditions = ExpeditionSend;
    /// Confirms orders.
    ProcessExpeditions = ExpeditionProcess;
    /// Cancels orders.
    CancelExpeditions = ExpeditionCancel;
    /// Takes orders back.
    RollBackExpeditions = ExpeditionRollback;
}

/// Sends the stocks of an e-shop to its partner.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendStocks {
    /// The warehouse that the caller named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warehouse: Option<Uuid>,
}

impl Job for SendStocks {
    const KIND: JobKind = JobKind::StockSend;
    type Owner = Shop;
}

/// Tests the connection to the partner of an e-shop.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct TestIntegration {}

impl Job for TestIntegration {
    const KIND: JobKind = JobKind::IntegrationTest;
    type Owner = Shop;
}

/// Tests the connection to the system of a warehouse.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct TestWms {
    /// The wms.
    pub wms: WmsId,
}

impl Job for TestWms {
    const KIND: JobKind = JobKind::WmsTest;
    type Owner = OrganisationId;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_that_the_version_before_stored_are_read() {
        let id = Uuid::nil();
        let read = |stored| serde_json::from_value::<SyncProducts>(stored).unwrap();
        let by_the_clock = json!({"organisations": [id], "scopeEshop": id, "inventoryId": "307"});
        assert_eq!(read(by_the_clock).inventory_id.as_deref(), Some("307"));
        assert_eq!(read(json!({})).scope_eshop, None);
        let stored = json!({"scopeEshop": id, "warehouse": id, "wms": id});
        assert_eq!(serde_json::from_value::<SyncStocks>(stored).unwrap().scope_eshop, Some(id.into()));
        let by_the_clock = json!({"organisations": [id], "inventoryId": "everything"});
        assert_eq!(serde_json::from_value::<SendStocks>(by_the_clock).unwrap().warehouse, None);
        let within = json!({"organisations": [id]});
        let ActivateProducts(read) = serde_json::from_value(within.clone()).unwrap();
        assert_eq!(serde_json::to_value(DeactivateProducts(read)).unwrap(), within);
        assert_eq!(serde_json::to_value(ActivateProducts(Within::default())).unwrap(), json!({}));
    }

    #[test]
    fn parameters_that_a_job_needs_are_not_optional() {
        let error = serde_json::from_value::<SyncStocks>(json!({"wms": Uuid::nil()})).unwrap_err();
        assert!(error.to_string().contains("warehouse"), "{error}");
    }
}
