//! How many records of a kind an organisation may have, and how many bytes of them in the object store.
//!
//! Triggers count created and deleted records and their bytes (`quota_use`); a use-case that creates one checks first
//! ([`Quotas::must_have_room`]). Concurrent transactions do not see each other, so a quota can be exceeded by the records
//! that are being created. If more than [`NEAR`] are free, a process caches the count for [`BELIEVED`], plus what it has
//! created since.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::PgConnection;

use super::config::QuotaSettings;
use super::metrics::Metrics;
use super::problem::{Problem, QUOTA_REACHED};

use crate::ids::OrganisationId;

/// With fewer left, each is looked up.
const NEAR: i64 = 1_000;

/// The same of bytes: those of so many files of the largest size.
const NEAR_BYTES: i64 = NEAR * 10 * 1024 * 1024;

/// How long a look-up is believed where more are left.
const BELIEVED: Duration = Duration::from_secs(5);

/// Organisations and kinds that are cached. Beyond that, the cache is cleared.
const REMEMBERED: usize = 10_000;

macro_rules! kinds {
    ($($name:ident: $kind:literal, $plural:literal, $setting:ident;)*) => {
        /// What has a quota.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind {
            $(#[doc = concat!("The ", $plural, " of an organisation.")] $name),*
        }

        impl Kind {
            /// Every kind.
            const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name in `quota_use`, a table as a rule, which is its name in metrics too.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $kind),* }
            }

            fn plural(self) -> &'static str {
                match self { $(Self::$name => $plural),* }
            }

            fn limit(self, settings: &QuotaSettings) -> u64 {
                match self { $(Self::$name => settings.$setting),* }
            }
        }
    };
}

kinds! {
    Eshop: "eshop", "e-shops", quota_eshops;
    Warehouse: "warehouse", "warehouses", quota_warehouses;
    Wms: "wms", "wms", quota_wms;
    Product: "product", "products", quota_products;
    Image: "product_image", "images", quota_images;
    ObjectBytes: "object_bytes", "bytes of images and invoices", quota_object_bytes;
    Supplier: "supplier", "suppliers", quota_suppliers;
    CarrierPreference: "carrier_preference", "carrier preferences", quota_carrier_preferences;
    StockAdvice: "stock_advice", "stock advices", quota_stock_advices;
    Webhook: "webhook", "webhooks", quota_webhooks;
    BusinessUser: "business_user", "business users", quota_business_users;
    Expedition: "expedition", "expeditions", quota_expeditions;
    AccessToken: "access_token", "access tokens", quota_access_tokens;
}

impl Kind {
    fn near(self) -> i64 {
        if self == Self::ObjectBytes { NEAR_BYTES } else { NEAR }
    }
}

/// How many of a kind an organisation may still create, and when that was looked up.
type Believed = HashMap<(OrganisationId, Kind), (Instant, i64)>;

/// The quotas of a process; cheap to clone.
#[derive(Clone, Debug)]
pub struct Quotas {
    settings: Arc<QuotaSettings>,
    metrics: Metrics,
    believed: Arc<Mutex<Believed>>,
}

impl Quotas {
    /// By the settings; refusals are counted.
    #[must_use]
    pub fn new(settings: QuotaSettings, metrics: Metrics) -> Self {
        // exported before the first refusal, so that its rate is visible
        for kind in Kind::ALL {
            metrics.quota_refused(kind.as_str(), 0);
        }
        Self { settings: Arc::new(settings), metrics, believed: Arc::default() }
    }

    /// Refuses so many more where they go past the quota of an organisation.
    ///
    /// # Errors
    /// `quota_reached`; those of the database.
    pub async fn must_have_room(
        &self,
        connection: &mut PgConnection,
        organisation: OrganisationId,
        kind: Kind,
        wanted: usize,
    ) -> Result<(), Problem> {
        if self.room(connection, organisation, kind, wanted).await? >= wanted {
            return Ok(());
        }
        Err(self.refusal(kind))
    }

    /// Counts the refusal of one record, and says why.
    #[must_use]
    pub fn refusal(&self, kind: Kind) -> Problem {
        self.refused(kind, 1);
        Problem::new(&QUOTA_REACHED, self.sentence(kind))
    }

    /// How many of `wanted` an organisation may still create.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn room(
        &self,
        connection: &mut PgConnection,
        organisation: OrganisationId,
        kind: Kind,
        wanted: usize,
    ) -> Result<usize, sqlx::Error> {
        let count = i64::try_from(wanted).unwrap_or(i64::MAX);
        if self.is_far(organisation, kind, count) {
            return Ok(wanted);
        }
        let used = sqlx::query_scalar!(
            r#"SELECT coalesce(sum(used), 0)::bigint AS "used!" FROM quota_use WHERE organisation_id = $1 AND kind = $2"#,
            organisation.get(),
            kind.as_str(),
        )
        .fetch_one(connection)
        .await?;
        let limit = i64::try_from(kind.limit(&self.settings)).unwrap_or(i64::MAX);
        let room = limit.saturating_sub(used).max(0);
        let mut believed = self.believed.lock().unwrap_or_else(PoisonError::into_inner);
        if believed.len() >= REMEMBERED {
            believed.clear();
        }
        believed.insert((organisation, kind), (Instant::now(), room.saturating_sub(count)));
        Ok(usize::try_from(room).unwrap_or(usize::MAX).min(wanted))
    }

    /// Counts refusals.
    pub fn refused(&self, kind: Kind, count: usize) {
        self.metrics.quota_refused(kind.as_str(), count as u64);
    }

    /// Says which quota is reached, and what it is.
    #[must_use]
    pub fn sentence(&self, kind: Kind) -> String {
        format!("the organisation has reached its quota of {}: {}", kind.plural(), kind.limit(&self.settings))
    }

    /// Whether it was looked up a moment ago, and many were left.
    fn is_far(&self, organisation: OrganisationId, kind: Kind, count: i64) -> bool {
        let mut believed = self.believed.lock().unwrap_or_else(PoisonError::into_inner);
        match believed.get_mut(&(organisation, kind)) {
            Some((at, room)) if at.elapsed() < BELIEVED && *room - count > kind.near() => {
                *room -= count;
                true
            }
            _ => false,
        }
    }
}
