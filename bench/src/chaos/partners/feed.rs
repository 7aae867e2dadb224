//! A feed, served as NDJSON and as JSON in turn, with an `ETag`, which accepts stocks line by line. Each has
//! one misbehaviour.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::header::ETAG;
use http::{Method, StatusCode};
use longshore_kernel::words;
use longshore_testkit::receiver::{Answer, By, Document, Gate, Receipt, Receiver};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{PRODUCTS, Place, Serves, lock, name, sku};

/// The ids of its only inventory and its only warehouse.
const INVENTORY: &str = "main";
const WAREHOUSE: &str = "W1";

words! {
    /// A misbehaviour of a feed; each belongs to one.
    pub(crate) enum Mischief ("misbehaviour of a feed") {
        /// Does not answer.
        Hang = "hangs",
        /// Answers 500, or asks to wait for a moment.
        Fail = "answers 500, or wants to be left alone",
        /// Sends something that is no feed, or only part of one; accepts stocks, but sends an invalid answer.
        Malformed = "gives what is no feed",
        /// Sends half of its feed; accepts stocks, but closes the connection instead of answering.
        Cut = "gives half of it",
        /// Answers a redirect.
        Redirect = "redirects",
    }
}

impl Mischief {
    /// Whether it may make a job fail permanently; the other misbehaviours are transient.
    fn is_permanent(self) -> bool {
        matches!(self, Self::Malformed | Self::Redirect)
    }
}

/// The requests of a feed.
#[derive(Debug, Default)]
struct Book {
    /// The last quantities it received, by SKU.
    stocks: HashMap<String, i64>,
    /// Requests that it should never get.
    odd: Vec<String>,
    /// The number of requests, and those during its misbehaviour: reading the feed, and sending stocks.
    asked: u64,
    unread: u64,
    untold: u64,
}

/// A feed; see the module.
#[derive(Debug)]
pub(super) struct Feed {
    state: Arc<State>,
    receiver: Receiver,
}

impl Feed {
    /// Opens a feed with its misbehaviour.
    pub(super) async fn open(at: Ipv4Addr, how: Mischief) -> io::Result<Self> {
        let (receiver, state) = serve(at, how).await?;
        Ok(Self { state, receiver })
    }
}

impl Serves for Feed {
    fn place(&self) -> Place {
        Place { inventory: INVENTORY, warehouse: WAREHOUSE }
    }

    fn setting(&self) -> Value {
        json!({ "integrationType": "feed", "baseUrl": self.receiver.url("/") })
    }

    fn does(&self, how: super::Mischief) -> bool {
        how == super::Mischief::Feed(self.state.how)
    }

    fn edition(&self) -> usize {
        *lock(&self.state.edition)
    }

    fn publish(&self) {
        *lock(&self.state.edition) += 1;
    }

    fn misbehave(&self, _how: super::Mischief, _lasts: Duration) {
        *lock(&self.state.misbehaves) = true;
    }

    fn behave(&self) {
        *lock(&self.state.misbehaves) = false;
    }

    fn let_go(&self) {
        self.state.gate.open();
    }

    fn explains(&self, error: &str) -> bool {
        self.state.how.is_permanent() && !error.is_empty()
    }

    fn item(&self, number: usize) -> String {
        sku(number)
    }

    fn offers(&self) -> BTreeMap<String, i64> {
        lock(&self.state.book).stocks.clone().into_iter().collect()
    }

    fn book(&self) -> super::Book {
        let (how, book) = (self.state.how.as_str(), lock(&self.state.book));
        let figures = vec![(format!("{how} (read)"), book.unread), (format!("{how} (sent)"), book.untold)];
        super::Book { asked: book.asked, odd: book.odd.clone(), limited: None, figures }
    }
}

/// The state of a feed, for the function that answers.
#[derive(Debug)]
struct State {
    how: Mischief,
    elsewhere: String,
    misbehaves: Mutex<bool>,
    /// Releases hanging calls after the faults.
    gate: Gate,
    edition: Mutex<usize>,
    book: Mutex<Book>,
}

/// A line of received stocks.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Count {
    product_sku: String,
    quantity: i64,
}

impl State {
    fn answer(&self, receipt: &Receipt) -> Answer {
        let how = lock(&self.misbehaves).then_some(self.how);
        let turn = {
            let mut book = lock(&self.book);
            book.asked += 1;
            let spoiled = if receipt.method == Method::PUT { &mut book.untold } else { &mut book.unread };
            *spoiled += u64::from(how.is_some());
            *spoiled
        };
        match (&receipt.method, receipt.query.as_deref()) {
            (&Method::GET, Some(query)) if query == format!("inventory={INVENTORY}") => {
                self.give(receipt, how, turn)
            }
            (&Method::PUT, Some(query)) if query == format!("warehouse={WAREHOUSE}") => {
                self.take(receipt, how, turn)
            }
            (method, query) => {
                lock(&self.book).odd.push(format!("{method} {query:?}"));
                Answer::Status(404)
            }
        }
    }

    /// Answers with its products.
    fn give(&self, receipt: &Receipt, how: Option<Mischief>, turn: u64) -> Answer {
        let edition = *lock(&self.edition);
        let version = format!("\"{edition}\"");
        let document = |body: String| Document {
            headers: vec![(ETAG, version.clone())],
            body: body.into(),
            ..Document::default()
        };
        match how {
            Some(Mischief::Malformed) => {
                let whole = feed(edition);
                Answer::Document(document(match turn % 3 {
                    0 => "<html><body>Sign in</body></html>".to_owned(),
                    1 => format!(
                        "[{} {{\"productSku\": \"INVENTED\"",
                        json!({"productSku": sku(0), "name": name(0, edition)})
                    ),
                    // invalid lines among valid ones
                    _ => whole.replace("0\",\"name\":", "0-INVENTED\",\"name\":,"),
                }))
            }
            Some(Mischief::Cut) => {
                let whole = feed(edition);
                let cut_after = Some(whole.len() * 19 / 20);
                Answer::Document(Document { cut_after, ..document(whole) })
            }
            Some(how) => self.refuse(how, turn),
            None if receipt.header("if-none-match") == Some(&version) => {
                Answer::Status(StatusCode::NOT_MODIFIED.as_u16())
            }
            // alternates between both forms
            None if edition.is_multiple_of(2) => Answer::Document(document(feed(edition))),
            None => {
                let rows = feed(edition).trim_end().replace('\n', ",");
                Answer::Document(document(format!("{{\"products\":[{rows}]}}")))
            }
        }
    }

    /// Accepts stocks.
    fn take(&self, receipt: &Receipt, how: Option<Mischief>, turn: u64) -> Answer {
        let answer = match how {
            None => Answer::Status(204),
            Some(Mischief::Malformed) => Answer::Body(200, "<html>Thank you".into()),
            Some(Mischief::Cut) => Answer::Cut,
            Some(how) => return self.refuse(how, turn),
        };
        let mut book = lock(&self.book);
        for line in receipt.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice::<Count>(line) {
                Ok(count) => {
                    book.stocks.insert(count.product_sku, count.quantity);
                }
                Err(error) => book.odd.push(format!("{}: {error}", String::from_utf8_lossy(line))),
            }
        }
        answer
    }

    fn refuse(&self, how: Mischief, turn: u64) -> Answer {
        match how {
            Mischief::Hang => Answer::Gated(self.gate.clone(), Box::new(Answer::Cut)),
            Mischief::Redirect => Answer::Redirect(self.elsewhere.clone()),
            Mischief::Fail | Mischief::Malformed | Mischief::Cut => match turn % 3 {
                0 => Answer::RetryAfter(503, 1),
                1 => Answer::RetryAfter(429, 2),
                _ => Answer::Status(500),
            },
        }
    }
}

/// An edition of a feed, one product per line.
fn feed(edition: usize) -> String {
    (0..PRODUCTS).fold(String::new(), |mut feed, number| {
        // the order of members matters to the malformed variants
        _ = writeln!(feed, "{{\"productSku\":\"{}\",\"name\":\"{}\"}}", sku(number), name(number, edition));
        feed
    })
}

/// Serves a feed.
async fn serve(at: Ipv4Addr, how: Mischief) -> io::Result<(Receiver, Arc<State>)> {
    let receiver = Receiver::counting_at((at, 0).into()).await?;
    let state = Arc::new(State {
        how,
        elsewhere: receiver.url("/elsewhere"),
        misbehaves: Mutex::default(),
        gate: Gate::closed(),
        edition: Mutex::default(),
        book: Mutex::default(),
    });
    let judging = Arc::clone(&state);
    receiver.answer("/", Answer::By(By::new(move |receipt| judging.answer(receipt))));
    // detects a client that follows redirects
    let followed = Arc::clone(&state);
    let judge = By::new(move |receipt| {
        lock(&followed.book).odd.push(format!("{} followed a redirect", receipt.method));
        Answer::Status(204)
    });
    receiver.answer("/elsewhere", Answer::By(judge));
    Ok((receiver, state))
}
