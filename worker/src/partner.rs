//! Partners: the external systems of e-shops that the worker calls
//! (`docs/reference/syncs.md#integration-settings`).
//!
//! # Terms
//!
//! - A **partner** is the system behind an e-shop's integration setting. The worker reads products or stocks from it, or sends
//!   stocks to it. There is one trait ([`Partner`]), a file for each partner, and a table of them ([`PARTNERS`]).
//! - A **page** is what a partner returns at once, at most [`ROWS_PER_PAGE`] rows. It is recorded as chunks
//!   of a job as soon as it arrives, so fetching and writing overlap, and no more than one page is in memory.
//! - A **cursor** is where the next page begins, in the partner's own terms. Postgres stores it with each
//!   page: if a worker dies, the next one continues there.
//! - A **memo** is information for the next fetch of the same data (the version of a feed). It is stored
//!   after a complete fetch.
//!
//! # What a partner does not do
//!
//! It does not retry, wait or write: it classifies a failure ([`PartnerError`]), and its caller
//! (`jobs/partner_fetch.rs`) acts on it. It does not validate rows: they have the shape of the push
//! form, whose rules refuse them one by one. It calls only through [`crate::outbound`].
//!
//! # Adding a partner
//!
//! Needs an [`Integration`], the format of its credentials, a file here, and a line in [`PARTNERS`]; see
//! `CONTRIBUTING.md`.

pub mod baselinker;
pub mod failure;
pub mod feed;
mod trial;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
pub use longshore_domain::job::fetching::Page;
pub use longshore_domain::job::row::form::Row;
use longshore_domain::partner::baselinker::window::Window;
pub use longshore_domain::partner::send_out::listing::Listed as Item;
pub use longshore_domain::partner::send_out::listing::Page as ItemPage;
use longshore_domain::partner::setting::{Integration, Setting};
use longshore_kernel::services::Services;

pub use self::failure::PartnerError;
pub use self::trial::test;
use crate::outbound::Client;

/// Maximum number of rows in a page.
pub const ROWS_PER_PAGE: usize = longshore_domain::job::payload::ROWS_PER_CHUNK;

/// What a partner can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// It provides products.
    pub products: bool,
    /// It provides stocks.
    pub stocks: bool,
    /// How many stocks one call can send to it; 0 if none can be sent.
    pub stocks_per_call: usize,
    /// It lists its items, with its own ids.
    pub lists_items: bool,
    /// How often it may be called, if limited. The partner itself keeps to the limit.
    pub rate: Option<Rate>,
}

/// At most this many requests in any period of this length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The number of requests.
    pub requests: u32,
    /// The length of the period.
    pub within: Duration,
}

/// Where a fetch begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start<'s> {
    /// The cursor of the last recorded page; `None` starts at the beginning.
    pub cursor: Option<&'s str>,
    /// The memo of the last complete fetch of the same data.
    pub memo: Option<&'s str>,
}

/// The pages from a cursor on; the stream ends after the last one, or after an error.
pub type Pages<'p> = BoxStream<'p, Result<Page, PartnerError>>;

/// The listed items from a cursor on; the last page has no cursor.
pub type ItemPages<'p> = BoxStream<'p, Result<ItemPage, PartnerError>>;

/// Where stocks are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The partner's inventory, where it has several.
    pub inventory: Option<String>,
    /// The partner's warehouse.
    pub warehouse: String,
}

/// The quantity that the partner should offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StockCount {
    /// The partner's own id of the item, where it has one.
    pub item: Option<String>,
    /// The product's SKU.
    pub product_sku: String,
    /// Pieces.
    pub quantity: i32,
}

/// The result of sending stocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Positions of the counts that it refused, each with its reason; it accepted the others.
    pub refused: Vec<(usize, String)>,
}

/// A partner, as one e-shop's setting opens it.
pub trait Partner: Send + Sync + fmt::Debug {
    /// What it can do.
    fn abilities(&self) -> Abilities;

    /// The products of an inventory, as rows of the push form (`{productSku, name, …}`).
    fn products<'p>(&'p self, inventory: &'p str, start: Start<'p>) -> Pages<'p>;

    /// The stocks of a warehouse, as rows of the push form (`{productSku, quantity}`).
    fn stocks<'p>(&'p self, warehouse: &'p str, start: Start<'p>) -> Pages<'p>;

    /// Its items in an inventory from a cursor on, with their quantities. If it lists items
    /// ([`Abilities::lists_items`]), stocks are sent with its own ids, and compared with its quantities every
    /// night.
    fn items<'p>(&'p self, _inventory: &'p str, _cursor: Option<&'p str>) -> ItemPages<'p> {
        futures::stream::empty().boxed()
    }

    /// What it did not do within that time, where it has returned no page.
    fn is_late(&self, limit: Duration) -> String {
        format!("the partner returned no page within {} s", limit.as_secs())
    }

    /// Sends stocks to it, at most [`Abilities::stocks_per_call`]. Sending them twice has the same effect as
    /// once.
    fn send_stocks<'p>(
        &'p self,
        place: &'p Place,
        counts: &'p [StockCount],
    ) -> BoxFuture<'p, Result<Taken, PartnerError>>;
}

/// What every partner needs; cheap to clone.
#[derive(Clone, Debug)]
pub struct Tools {
    /// Pools, queues, clock: for limits that all workers share.
    pub services: Arc<Services>,
    /// The client for outbound calls.
    pub client: Client,
    /// The request limit of BaseLinker, shared by all workers.
    pub baselinker: Window,
    /// How long a partner may take to begin an answer, and between its pieces.
    pub patience: Duration,
}

/// The default of [`Tools::patience`].
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Opens a partner.
type Open = fn(&Tools, &Setting) -> Result<Box<dyn Partner>, PartnerError>;

/// All partners.
const PARTNERS: &[(Integration, Open)] =
    &[(Integration::Baselinker, baselinker::open), (Integration::Feed, feed::open)];

/// The partner of a setting.
///
/// # Errors
/// [`PartnerError::Permanent`] if the setting cannot be used as it is.
pub fn open(tools: &Tools, setting: &Setting) -> Result<Box<dyn Partner>, PartnerError> {
    let integration = setting.wanted.integration;
    let Some((_, open)) = PARTNERS.iter().find(|(kind, _)| *kind == integration) else {
        let sentence = format!("this worker does not support {} yet", integration.as_str());
        return Err(PartnerError::Permanent(sentence));
    };
    open(tools, setting)
}
