//! Partners: the systems of e-shops that the worker goes to by itself (`docs/reference/syncs.md#integration-settings`).
//!
//! # Terms
//!
//! - A **partner** is the system behind an e-shop's integration setting. The worker reads products or stocks from it, or sends
//!   stocks to it. There is one trait ([`Partner`]), a file for each partner, and a table of them ([`PARTNERS`]).
//! - A **page** is what a partner returns at once, at most [`ROWS_PER_PAGE`] rows; it is recorded as chunks of a job as soon
//!   as it is there, so fetching and writing overlap, and no more than a page is ever in memory.
//! - A **cursor** is where the next page begins, in the partner's own words. It is kept in Postgres with each page: a worker
//!   that dies is followed by one that goes on there.
//! - A **memo** is what a partner wants to know the next time it is asked for the same (the version of a feed). It is kept
//!   when everything of a fetch went in.
//!
//! # What a partner does not do
//!
//! It does not retry, does not wait, and writes nothing: it classifies a failure ([`PartnerError`]), and its caller
//! ([`crate::jobs::partner_fetch`]) acts on it. It does not validate rows: they have the shape of the push form, and the rules of
//! the push form refuse them one by one. It calls through [`crate::outbound`] only.
//!
//! # Adding a partner
//!
//! An [`Integration`], what its credentials are, a file here, a line in [`PARTNERS`]; `CONTRIBUTING.md` says it in full.

pub mod baselinker;
pub mod failure;
pub mod feed;
pub mod row;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use longshore_shared::partner::baselinker::window::Window;
pub use longshore_shared::partner::send_out::items::Listed as Item;
pub use longshore_shared::partner::send_out::listing::Page as ItemPage;
use longshore_shared::partner::setting::{Integration, Setting};
use longshore_shared::platform::services::Services;

pub use self::failure::PartnerError;
pub use self::row::Row;
use crate::outbound::Client;

/// The most rows that a page has.
pub const ROWS_PER_PAGE: usize = longshore_shared::job::payload::ROWS_PER_CHUNK;

/// What a partner can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// It can be asked for products.
    pub products: bool,
    /// It can be asked for stocks.
    pub stocks: bool,
    /// It can be told of so many stocks in one call; 0: of none.
    pub stocks_per_call: usize,
    /// It lists what it has, by ids of its own.
    pub lists_items: bool,
    /// How often it may be asked; none: as often as one likes. Keeping to it is its own business.
    pub rate: Option<Rate>,
}

/// At most so many requests in any stretch of this length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many.
    pub requests: u32,
    /// In which time.
    pub within: Duration,
}

/// Where a fetch begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start<'s> {
    /// The cursor of the last page that was recorded; none: at the beginning.
    pub cursor: Option<&'s str>,
    /// The memo of the last fetch of the same that went in whole.
    pub memo: Option<&'s str>,
}

/// A page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Its rows, at most [`ROWS_PER_PAGE`]; none is fine.
    pub rows: Vec<Row>,
    /// Where the next one begins. A fetch that is broken off goes on there.
    pub cursor: Option<String>,
    /// What came before is void: the fetch had to begin anew (what it was reading has changed).
    pub anew: bool,
    /// What to say at the next fetch.
    pub memo: Option<String>,
}

/// The pages from a cursor on; the stream's end is the end of what there is. After an error nothing comes.
pub type Pages<'p> = BoxStream<'p, Result<Page, PartnerError>>;

/// What a partner lists, from a cursor on; the last page names no next one.
pub type ItemPages<'p> = BoxStream<'p, Result<ItemPage, PartnerError>>;

/// Where stocks are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The partner's inventory, where it has several.
    pub inventory: Option<String>,
    /// The partner's warehouse.
    pub warehouse: String,
}

/// How many pieces the partner is to offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StockCount {
    /// The partner's own id of the item, where it has one.
    pub item: Option<String>,
    /// The product's SKU.
    pub product_sku: String,
    /// Pieces.
    pub quantity: i32,
}

/// What the partner took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Positions among the counts that it refused, each with its reason; it took the others.
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

    /// What it lists of an inventory from a cursor on, with the pieces that it has: where it does
    /// ([`Abilities::lists_items`]), stocks are told by its own ids, and compared with what it has every night.
    fn items<'p>(&'p self, _inventory: &'p str, _cursor: Option<&'p str>) -> ItemPages<'p> {
        futures::stream::empty().boxed()
    }

    /// Tells it of stocks, at most [`Abilities::stocks_per_call`]. Told twice, it is as if told once.
    fn send_stocks<'p>(
        &'p self,
        place: &'p Place,
        counts: &'p [StockCount],
    ) -> BoxFuture<'p, Result<Taken, PartnerError>>;
}

/// What every partner is opened with; cheap to clone.
#[derive(Clone, Debug)]
pub struct Tools {
    /// Pools, queues, clock: for a limit that all workers share.
    pub services: Arc<Services>,
    /// The only way out.
    pub client: Client,
    /// The limit of BaseLinker's requests, shared by every worker.
    pub baselinker: Window,
    /// How long a partner may take to begin an answer, and to go on with it.
    pub patience: Duration,
}

/// What [`Tools::patience`] is unless somebody says otherwise.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Opens a partner.
type Open = fn(&Tools, &Setting) -> Result<Box<dyn Partner>, PartnerError>;

/// The partners there are.
const PARTNERS: &[(Integration, Open)] =
    &[(Integration::Baselinker, baselinker::open), (Integration::Feed, feed::open)];

/// The partner of a setting.
///
/// # Errors
/// [`PartnerError::Permanent`] where the setting cannot be used as it is.
pub fn open(tools: &Tools, setting: &Setting) -> Result<Box<dyn Partner>, PartnerError> {
    let integration = setting.wanted.integration;
    let Some((_, open)) = PARTNERS.iter().find(|(kind, _)| *kind == integration) else {
        let sentence = format!("this worker cannot speak to {} yet", integration.as_str());
        return Err(PartnerError::Permanent(sentence));
    };
    open(tools, setting)
}
