//! A BaseLinker account: a fake that enforces the documented limit. It has all of its misbehaviours, one at a
//! time.
//!
//! Several e-shops of different organisations share its token and ask in parallel, so without a limit they
//! would exceed it when the faults allow.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use longshore_kernel::clock::Clock;
use longshore_kernel::words;
use longshore_testkit::baselinker::{Asked, BaseLinker, INVENTORY, Mischief as Bad, TOKEN, WAREHOUSE};
use serde_json::{Map, Value, json};

use super::{Limited, PRODUCTS, Place, Serves, lock, name, sku};

/// Its name for each e-shop that shares its token; the first sends stocks to it.
pub(super) const NAMES: [&str; 3] = ["BaseLinker", "BaseLinker (second e-shop)", "BaseLinker (third e-shop)"];

/// The id of its first product.
const FIRST: u64 = 1_000;

/// Products on a page of its list, and maximum number of products in a call with stocks.
const PAGE: usize = 1_000;

words! {
    /// A misbehaviour of the account.
    pub(crate) enum Mischief ("misbehaviour of BaseLinker") {
        /// Does not answer.
        Hang = "BaseLinker hangs",
        /// Answers 500, a web page, an error of BaseLinker, or something that is no answer.
        Fail = "BaseLinker answers 500, a page, or an error",
        /// Sends half of each answer, including those that confirm stocks.
        Cut = "BaseLinker gives half of its answers",
        /// Lists nothing or the previous page, omits a product, or sends products with wrong types.
        Lie = "BaseLinker gives what is not so",
        /// Blocks the token.
        Block = "BaseLinker blocks the token",
        /// Rejects the token, or answers with a redirect.
        Refuse = "BaseLinker refuses the token, or redirects",
    }
}

impl Mischief {
    /// Its answers in turn; `url` is its own URL.
    fn turns(self, url: &str) -> Vec<Bad> {
        let refuse = |code: &str| Bad::Refuse(code.to_owned(), "said on purpose".to_owned());
        match self {
            Self::Hang => vec![Bad::Silence],
            Self::Fail => vec![
                Bad::Status(500),
                Bad::WebPage,
                refuse("ERROR_INTERNAL"),
                Bad::Status(503),
                Bad::Body("[]".to_owned()),
            ],
            Self::Cut => vec![Bad::Cut],
            Self::Lie => vec![Bad::WrongTypes, Bad::PageBefore, Bad::Without(FIRST + 7), Bad::NoPage],
            // the block itself answers every call
            Self::Block => Vec::new(),
            Self::Refuse => vec![refuse("ERROR_BAD_TOKEN"), Bad::Redirect(format!("{url}/elsewhere"))],
        }
    }
}

/// The results of its requests.
#[derive(Debug, Default)]
struct Book {
    /// Its current misbehaviour.
    how: Option<Mischief>,
    /// The time of each request.
    came: Vec<Instant>,
    /// Requests during each misbehaviour: reading, and sending stocks.
    spoiled: BTreeMap<Mischief, (u64, u64)>,
    /// Requests that it should never get.
    odd: Vec<String>,
}

/// An account; see the module.
#[derive(Debug)]
pub(super) struct Account {
    server: BaseLinker,
    clock: Clock,
    edition: Mutex<usize>,
    book: Mutex<Book>,
}

impl Account {
    /// Opens an account with its catalogue.
    pub(super) async fn open(at: Ipv4Addr) -> io::Result<Self> {
        let server = BaseLinker::start_at((at, 0).into()).await?;
        for (id, number) in (FIRST..).zip(0..PRODUCTS) {
            server.put(id, &sku(number), &name(number, 0), json!({ "weight": 0.25 }));
        }
        Ok(Self { server, clock: Clock::system(), edition: Mutex::default(), book: Mutex::default() })
    }
}

impl Serves for Account {
    fn place(&self) -> Place {
        Place { inventory: INVENTORY, warehouse: WAREHOUSE }
    }

    fn setting(&self) -> Value {
        json!({ "integrationType": "baselinker", "baseUrl": self.server.url(), "credentials": { "token": TOKEN } })
    }

    fn does(&self, how: super::Mischief) -> bool {
        matches!(how, super::Mischief::BaseLinker(_))
    }

    fn edition(&self) -> usize {
        *lock(&self.edition)
    }

    fn publish(&self) {
        let mut edition = lock(&self.edition);
        *edition += 1;
        for (id, number) in (FIRST..).zip(0..PRODUCTS) {
            self.server.rename(id, &name(number, *edition));
        }
    }

    fn misbehave(&self, how: super::Mischief, lasts: Duration) {
        let super::Mischief::BaseLinker(how) = how else { return };
        self.look();
        lock(&self.book).how = Some(how);
        self.server.misbehave(how.turns(self.server.url()));
        if how == Mischief::Block {
            // as the real one writes it: without a zone, to the second
            let until = self.clock.now() + lasts + Duration::from_secs(1);
            let until = until.format("%Y-%m-%d %H:%M:%S");
            self.server.block(lasts, &format!("Query limit exceeded, token blocked until {until}"));
        }
    }

    fn behave(&self) {
        self.look();
        self.server.misbehave(Vec::new());
        lock(&self.book).how = None;
    }

    fn look(&self) {
        let mut book = lock(&self.book);
        for asked in self.server.take_asked() {
            book.came.push(asked.at);
            if let Some(odd) = odd(&asked) {
                book.odd.push(odd);
            }
            if let Some(how) = book.how.filter(|_| asked.spoiled) {
                let (read, sent) = book.spoiled.entry(how).or_default();
                let spoiled = if is_telling(&asked) { sent } else { read };
                *spoiled += 1;
            }
        }
    }

    fn pace(&self) -> Range<f64> {
        0.5..1.5
    }

    /// More syncs than this would use the limit up after a minute and a half without any request, and it must
    /// recover in time.
    fn bears(&self) -> Option<usize> {
        Some(6)
    }

    fn explains(&self, error: &str) -> bool {
        ["does not accept the token (ERROR_BAD_TOKEN", "answers with a redirect (HTTP 307)"]
            .iter()
            .any(|reason| error.contains(reason))
    }

    fn item(&self, number: usize) -> String {
        (FIRST + number as u64).to_string()
    }

    fn offers(&self) -> BTreeMap<String, i64> {
        let offer = |(id, number)| Some((sku(number), self.server.stock(id)?));
        (FIRST..).zip(0..PRODUCTS).filter_map(offer).collect()
    }

    fn book(&self) -> super::Book {
        self.look();
        let book = lock(&self.book);
        let (asked, mut odd) = (book.came.len() as u64, book.odd.clone());
        odd.extend(self.server.strayed().iter().map(|request| format!("{request}: followed a redirect")));
        let fullest = self.server.fullest_window() as u64;
        let mut figures = vec![
            ("BaseLinker is asked".to_owned(), asked),
            ("BaseLinker is asked in the fullest minute".to_owned(), fullest),
        ];
        for how in Mischief::ALL {
            let (read, sent) = book.spoiled.get(&how).copied().unwrap_or_default();
            figures.push((format!("{how} (read)"), read));
            figures.push((format!("{how} (sent)"), sent));
        }
        let limited = Some(Limited { came: book.came.clone(), over: self.server.over() });
        super::Book { asked, odd, limited, figures }
    }
}

/// Whether a request sends stocks.
fn is_telling(asked: &Asked) -> bool {
    asked.method == "updateInventoryProductsStock"
}

/// What is wrong with a request, if anything.
fn odd(asked: &Asked) -> Option<String> {
    let Asked { method, parameters, token, .. } = asked;
    let is_ours = |id: u64| (FIRST..FIRST + PRODUCTS as u64).contains(&id);
    let pieces =
        |stocks: &Map<String, Value>| stocks.len() == 1 && stocks.get(WAREHOUSE).is_some_and(Value::is_u64);
    let others = match method.as_str() {
        // one more page is allowed: the fake may have answered with another page than the requested one
        "getInventoryProductsList" => {
            let pages = PRODUCTS.div_ceil(PAGE) as u64;
            parameters["page"].as_u64().is_some_and(|page| (1..=pages + 1).contains(&page))
        }
        "getInventoryProductsData" => parameters["products"]
            .as_array()
            .is_some_and(|ids| ids.len() <= PAGE && ids.iter().all(|id| id.as_u64().is_some_and(is_ours))),
        "updateInventoryProductsStock" => parameters["products"].as_object().is_some_and(|products| {
            products.len() <= PAGE
                && products.iter().all(|(id, stocks)| {
                    id.parse().is_ok_and(is_ours) && stocks.as_object().is_some_and(pieces)
                })
        }),
        _ => false,
    };
    let is_well = others
        && token == TOKEN
        && parameters["inventory_id"].as_u64().is_some_and(|id| id.to_string() == INVENTORY)
        && parameters.as_object().is_some_and(|parameters| parameters.len() == 2);
    (!is_well).then(|| {
        // enough to recognise the request
        let parameters: String = parameters.to_string().chars().take(300).collect();
        format!("{method} {parameters} by the token {token}")
    })
}
