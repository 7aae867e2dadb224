//! A fake BaseLinker: it accepts forms over real HTTP on a loopback port, has the documented format and
//! limit, records its requests, and misbehaves on request.
//!
//! It blocks a token above its limit, like the real one; [`BaseLinker::fullest_window`] shows how close a
//! client came to the limit, and [`BaseLinker::over`] the requests above it. To fake another fault, add a
//! variant to [`Mischief`] and its arm in `answer.rs`.

mod answer;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A token that it knows from the start.
pub const TOKEN: &str = "1000-2000-FAKETOKEN";

/// The id of its catalogue.
pub const INVENTORY: &str = "307";

/// The id of its warehouse.
pub const WAREHOUSE: &str = "bl_206";

/// A product of its catalogue.
#[derive(Clone, Debug)]
pub struct Goods {
    /// The rest of `getInventoryProductsData`, in addition to the fields below.
    pub data: Value,
    /// SKU.
    pub sku: String,
    /// Name.
    pub name: String,
    /// Pieces by warehouse.
    pub stock: BTreeMap<String, i64>,
}

/// A fault instead of the usual answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mischief {
    /// No fault.
    None,
    /// An HTTP status, with a web page.
    Status(u16),
    /// HTTP 200 with a web page.
    WebPage,
    /// A BaseLinker error: code and message.
    Refuse(String, String),
    /// A given body, with HTTP 200.
    Body(String),
    /// Half of the answer, then the connection is closed.
    Cut,
    /// No answer, until the caller disconnects.
    Silence,
    /// A redirect to this URL.
    Redirect(String),
    /// The page before the requested one.
    PageBefore,
    /// A page without products.
    NoPage,
    /// The answer without the product of this id.
    Without(u64),
    /// The answer with products of wrong types.
    WrongTypes,
}

/// A recorded request.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Its method.
    pub method: String,
    /// Its parameters.
    pub parameters: Value,
    /// Its token.
    pub token: String,
    /// When it arrived.
    pub at: Instant,
    /// Whether it met a fault or a block.
    pub spoiled: bool,
}

/// The server; dropping it ends it.
#[derive(Debug)]
pub struct BaseLinker {
    url: String,
    state: Arc<State>,
    serving: JoinHandle<()>,
}

#[derive(Debug)]
pub(crate) struct State {
    limit: (usize, Duration),
    inner: Mutex<Inner>,
    /// The number of requests, for those who wait.
    came: tokio::sync::watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Inner {
    tokens: HashMap<String, Account>,
    goods: BTreeMap<u64, Goods>,
    asked: Vec<Asked>,
    mischief: VecDeque<(String, Mischief)>,
    /// Faults for every call in turn, and how many were used.
    turns: (Vec<Mischief>, usize),
    /// Requests to another path.
    strayed: Vec<String>,
    /// The number of requests after which all tokens are revoked.
    revoke_after: Option<usize>,
    warnings: BTreeMap<u64, String>,
}

/// A known token.
#[derive(Debug, Default)]
struct Account {
    /// The times of its requests.
    came: VecDeque<Instant>,
    /// The largest number of requests in any window.
    fullest: usize,
    /// Requests above the limit: the time of each, and the number of requests in the window it ended.
    over: Vec<(Instant, usize)>,
    /// The end of its block, and the message of the refusals.
    blocked: Option<(Instant, String)>,
}

impl BaseLinker {
    /// Starts one with the documented limit.
    ///
    /// # Errors
    /// When there is no free port.
    pub async fn start() -> std::io::Result<Self> {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into()).await
    }

    /// The same at a given address.
    ///
    /// # Errors
    /// When the address is taken.
    pub async fn start_at(address: SocketAddr) -> std::io::Result<Self> {
        Self::limited_at(address, 100, Duration::from_mins(1)).await
    }

    /// Starts one that allows a token this many requests in any period of this length.
    ///
    /// # Errors
    /// When there is no free port.
    pub async fn limited(requests: usize, window: Duration) -> std::io::Result<Self> {
        Self::limited_at((Ipv4Addr::LOCALHOST, 0).into(), requests, window).await
    }

    async fn limited_at(address: SocketAddr, requests: usize, window: Duration) -> std::io::Result<Self> {
        let inner =
            Inner { tokens: HashMap::from([(TOKEN.to_owned(), Account::default())]), ..Inner::default() };
        let state = Arc::new(State {
            limit: (requests, window),
            inner: Mutex::new(inner),
            came: tokio::sync::watch::Sender::new(0),
        });
        let listener = TcpListener::bind(address).await?;
        let url = format!("http://{}/connector.php", listener.local_addr()?);
        let router = Router::new()
            .route("/connector.php", axum::routing::post(answer::answer))
            .fallback(answer::stray)
            .with_state(Arc::clone(&state));
        let serving = tokio::spawn(async move {
            // it ends together with its task
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { url, state, serving })
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Adds a product to its catalogue.
    pub fn put(&self, id: u64, sku: &str, name: &str, data: Value) {
        let stock = BTreeMap::from([(WAREHOUSE.to_owned(), 0)]);
        let goods = Goods { data, sku: sku.to_owned(), name: name.to_owned(), stock };
        self.state.inner().goods.insert(id, goods);
    }

    /// Renames a product.
    pub fn rename(&self, id: u64, name: &str) {
        if let Some(goods) = self.state.inner().goods.get_mut(&id) {
            name.clone_into(&mut goods.name);
        }
    }

    /// Adds this many products to its catalogue: `P0`, `P1`, … with ids from 1,000 on.
    pub fn fill(&self, count: u32) {
        for n in 0..count {
            let data = serde_json::json!({"weight": 0.25, "ean": format!("{:013}", n), "height": 1.5});
            self.put(1_000 + u64::from(n), &format!("P{n}"), &format!("Product {n}"), data);
        }
    }

    /// Removes a product from its catalogue.
    pub fn remove(&self, id: u64) {
        self.state.inner().goods.remove(&id);
    }

    /// The quantity of a product in its warehouse.
    #[must_use]
    pub fn stock(&self, id: u64) -> Option<i64> {
        self.state.inner().goods.get(&id)?.stock.get(WAREHOUSE).copied()
    }

    /// Sets the quantity of a product in its warehouse, like a user of its web interface.
    pub fn set_stock(&self, id: u64, pieces: i64) {
        if let Some(goods) = self.state.inner().goods.get_mut(&id) {
            goods.stock.insert(WAREHOUSE.to_owned(), pieces);
        }
    }

    /// Makes it answer with a warning about a product instead of accepting its stock.
    pub fn warn_of(&self, id: u64, message: &str) {
        self.state.inner().warnings.insert(id, message.to_owned());
    }

    /// Sets the fault of the next call of a method (any method for an empty name).
    pub fn next(&self, method: &str, mischief: Mischief) {
        self.state.inner().mischief.push_back((method.to_owned(), mischief));
    }

    /// Sets the fault of the call after the next one of a method.
    pub fn next_but_one(&self, method: &str, mischief: Mischief) {
        let mut inner = self.state.inner();
        inner.mischief.push_back((method.to_owned(), Mischief::None));
        inner.mischief.push_back((method.to_owned(), mischief));
    }

    /// Sets the faults that every call gets in turn; an empty list ends them.
    pub fn misbehave(&self, turns: Vec<Mischief>) {
        self.state.inner().turns = (turns, 0);
    }

    /// Removes or adds a token.
    pub fn know(&self, token: &str, known: bool) {
        let mut inner = self.state.inner();
        if known {
            inner.tokens.entry(token.to_owned()).or_default();
        } else {
            inner.tokens.remove(token);
        }
    }

    /// Removes its tokens after this many more requests.
    pub fn revoke_after(&self, requests: usize) {
        self.state.inner().revoke_after = Some(requests);
    }

    /// Blocks the token for this long; `said` is the message of the refusals.
    pub fn block(&self, length: Duration, said: &str) {
        if let Some(account) = self.state.inner().tokens.get_mut(TOKEN) {
            account.blocked = Some((Instant::now() + length, said.to_owned()));
        }
    }

    /// Ends the block of the token.
    pub fn unblock(&self) {
        if let Some(account) = self.state.inner().tokens.get_mut(TOKEN) {
            account.blocked = None;
        }
    }

    /// The recorded requests, in order.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.state.inner().asked.clone()
    }

    /// Returns and forgets the recorded requests, for a caller that reads many of them repeatedly.
    #[must_use]
    pub fn take_asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state.inner().asked)
    }

    /// Requests to another path.
    #[must_use]
    pub fn strayed(&self) -> Vec<String> {
        self.state.inner().strayed.clone()
    }

    /// How often a method was called.
    #[must_use]
    pub fn calls(&self, method: &str) -> usize {
        self.state.inner().asked.iter().filter(|asked| asked.method == method).count()
    }

    /// The largest number of requests of the token in any window so far, including refused ones.
    #[must_use]
    pub fn fullest_window(&self) -> usize {
        self.state.inner().tokens.get(TOKEN).map_or(0, |account| account.fullest)
    }

    /// Each request of the token above the limit: its time, and the number of requests in the window it
    /// ended.
    #[must_use]
    pub fn over(&self) -> Vec<(Instant, usize)> {
        self.state.inner().tokens.get(TOKEN).map_or_else(Vec::new, |account| account.over.clone())
    }

    /// Waits for this many requests.
    ///
    /// # Errors
    /// When they have not by the deadline.
    pub async fn wait_for(
        &self,
        requests: usize,
        deadline: Duration,
    ) -> Result<(), tokio::time::error::Elapsed> {
        let mut came = self.state.came.subscribe();
        tokio::time::timeout(deadline, came.wait_for(|count| *count >= requests)).await.map(|_| ())
    }
}

impl Drop for BaseLinker {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl State {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
