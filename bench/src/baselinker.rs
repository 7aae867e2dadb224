//! A fake BaseLinker: it takes forms over real HTTP on a loopback port, keeps to the documented shape and to the documented
//! limit, remembers what came, and misbehaves when it is told to.
//!
//! Whoever goes over its limit is blocked, as by the real one; [`BaseLinker::fullest_window`] says how close anybody
//! came, and [`BaseLinker::over`] who went over it. To fake one more fault, add a variant to [`Mischief`] and its arm in `answer.rs`.

mod answer;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The token that it knows from the start.
pub const TOKEN: &str = "1000-2000-FAKETOKEN";

/// The catalogue that it has.
pub const INVENTORY: &str = "307";

/// The warehouse that it has.
pub const WAREHOUSE: &str = "bl_206";

/// A product of its catalogue.
#[derive(Clone, Debug)]
pub struct Goods {
    /// The rest of `getInventoryProductsData`, over what the fields below say.
    pub data: Value,
    /// SKU.
    pub sku: String,
    /// Name.
    pub name: String,
    /// Pieces by warehouse.
    pub stock: BTreeMap<String, i64>,
}

/// What it does instead of answering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mischief {
    /// None: it answers.
    None,
    /// An HTTP status, with a page for people.
    Status(u16),
    /// HTTP 200 with a page for people.
    WebPage,
    /// A refusal of its own: code and message.
    Refuse(String, String),
    /// A body of one's own, with HTTP 200.
    Body(String),
    /// Half of the answer, then the connection's end.
    Cut,
    /// Nothing, until the caller leaves.
    Silence,
    /// A redirect to somewhere.
    Redirect(String),
    /// The page before the one that was asked for.
    PageBefore,
    /// A page without products.
    NoPage,
    /// The answer without the product of this id.
    Without(u64),
    /// The answer with products of wrong types.
    WrongTypes,
}

/// A request that came.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Its method.
    pub method: String,
    /// Its parameters.
    pub parameters: Value,
    /// Its token.
    pub token: String,
    /// When it came.
    pub at: Instant,
    /// Whether it met a mischief, or a block.
    pub spoiled: bool,
}

/// The server; it ends when it is dropped.
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
    /// Told of each request.
    came: tokio::sync::watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Inner {
    tokens: HashMap<String, Account>,
    goods: BTreeMap<u64, Goods>,
    asked: Vec<Asked>,
    mischief: VecDeque<(String, Mischief)>,
    /// What every call meets in turn, and how many have.
    turns: (Vec<Mischief>, usize),
    /// Requests that came to another address.
    strayed: Vec<String>,
    /// Requests after which a token is revoked.
    revoke_after: Option<usize>,
    warnings: BTreeMap<u64, String>,
}

/// A token that is known.
#[derive(Debug, Default)]
struct Account {
    /// When its requests came.
    came: VecDeque<Instant>,
    /// The most of them in any window.
    fullest: usize,
    /// When one came that was over the limit, and how many it was the last of.
    over: Vec<(Instant, usize)>,
    /// Until when it is blocked, and what is said of it.
    blocked: Option<(Instant, String)>,
}

impl BaseLinker {
    /// One with the documented limit.
    ///
    /// # Errors
    /// When there is no free port.
    pub async fn start() -> std::io::Result<Self> {
        Self::limited(100, Duration::from_mins(1)).await
    }

    /// One that lets a token ask so often in any stretch of this length.
    ///
    /// # Errors
    /// When there is no free port.
    pub async fn limited(requests: usize, window: Duration) -> std::io::Result<Self> {
        let inner =
            Inner { tokens: HashMap::from([(TOKEN.to_owned(), Account::default())]), ..Inner::default() };
        let state = Arc::new(State {
            limit: (requests, window),
            inner: Mutex::new(inner),
            came: tokio::sync::watch::Sender::new(0),
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}/connector.php", listener.local_addr()?);
        let router = Router::new()
            .route("/connector.php", axum::routing::post(answer::answer))
            .fallback(answer::stray)
            .with_state(Arc::clone(&state));
        let serving = tokio::spawn(async move {
            // it ends with its task
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { url, state, serving })
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Puts a product into its catalogue.
    pub fn put(&self, id: u64, sku: &str, name: &str, data: Value) {
        let stock = BTreeMap::from([(WAREHOUSE.to_owned(), 0)]);
        let goods = Goods { data, sku: sku.to_owned(), name: name.to_owned(), stock };
        self.state.inner().goods.insert(id, goods);
    }

    /// Names a product anew.
    pub fn rename(&self, id: u64, name: &str) {
        if let Some(goods) = self.state.inner().goods.get_mut(&id) {
            name.clone_into(&mut goods.name);
        }
    }

    /// Puts so many products into its catalogue: `P0`, `P1`, … with ids from 1,000 on.
    pub fn fill(&self, count: u32) {
        for n in 0..count {
            let data = serde_json::json!({"weight": 0.25, "ean": format!("{:013}", n), "height": 1.5});
            self.put(1_000 + u64::from(n), &format!("P{n}"), &format!("Product {n}"), data);
        }
    }

    /// Takes a product out of its catalogue.
    pub fn remove(&self, id: u64) {
        self.state.inner().goods.remove(&id);
    }

    /// Pieces of a product in its warehouse.
    #[must_use]
    pub fn stock(&self, id: u64) -> Option<i64> {
        self.state.inner().goods.get(&id)?.stock.get(WAREHOUSE).copied()
    }

    /// Sets pieces of a product in its warehouse, as somebody in its office would.
    pub fn set_stock(&self, id: u64, pieces: i64) {
        if let Some(goods) = self.state.inner().goods.get_mut(&id) {
            goods.stock.insert(WAREHOUSE.to_owned(), pieces);
        }
    }

    /// Has it warn of a product instead of taking its stock.
    pub fn warn_of(&self, id: u64, message: &str) {
        self.state.inner().warnings.insert(id, message.to_owned());
    }

    /// Has the next call of a method (or of any: an empty name) meet this.
    pub fn next(&self, method: &str, mischief: Mischief) {
        self.state.inner().mischief.push_back((method.to_owned(), mischief));
    }

    /// Has the call after the next one of a method meet this.
    pub fn next_but_one(&self, method: &str, mischief: Mischief) {
        let mut inner = self.state.inner();
        inner.mischief.push_back((method.to_owned(), Mischief::None));
        inner.mischief.push_back((method.to_owned(), mischief));
    }

    /// Has every call meet these in turn, until it is told otherwise; where there are none, it answers.
    pub fn misbehave(&self, turns: Vec<Mischief>) {
        self.state.inner().turns = (turns, 0);
    }

    /// Forgets a token, or knows it again.
    pub fn know(&self, token: &str, known: bool) {
        let mut inner = self.state.inner();
        if known {
            inner.tokens.entry(token.to_owned()).or_default();
        } else {
            inner.tokens.remove(token);
        }
    }

    /// Forgets its tokens after so many more requests.
    pub fn revoke_after(&self, requests: usize) {
        self.state.inner().revoke_after = Some(requests);
    }

    /// Blocks the token for so long; `said` is the text of the refusals.
    pub fn block(&self, length: Duration, said: &str) {
        if let Some(account) = self.state.inner().tokens.get_mut(TOKEN) {
            account.blocked = Some((Instant::now() + length, said.to_owned()));
        }
    }

    /// Lets the token in again.
    pub fn unblock(&self) {
        if let Some(account) = self.state.inner().tokens.get_mut(TOKEN) {
            account.blocked = None;
        }
    }

    /// The requests that came, in their order.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.state.inner().asked.clone()
    }

    /// The same, and forgets them: for who looks at many of them, and again and again.
    #[must_use]
    pub fn take_asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state.inner().asked)
    }

    /// Requests that came to another address than its own.
    #[must_use]
    pub fn strayed(&self) -> Vec<String> {
        self.state.inner().strayed.clone()
    }

    /// How often a method was called.
    #[must_use]
    pub fn calls(&self, method: &str) -> usize {
        self.state.inner().asked.iter().filter(|asked| asked.method == method).count()
    }

    /// The most requests of the token in any window so far, those that were refused among them.
    #[must_use]
    pub fn fullest_window(&self) -> usize {
        self.state.inner().tokens.get(TOKEN).map_or(0, |account| account.fullest)
    }

    /// Each request of the token that was over the limit: when it came, and how many had come in the window that it ended.
    #[must_use]
    pub fn over(&self) -> Vec<(Instant, usize)> {
        self.state.inner().tokens.get(TOKEN).map_or_else(Vec::new, |account| account.over.clone())
    }

    /// Waits until so many requests have come.
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
