//! The destinations: e-shops that accept deliveries, some of which misbehave for a while, each in its own
//! way, and one with an untrusted certificate.
//!
//! Each records the ids that it *accepted*, which are those answered with success. Deliveries that it
//! received while it misbehaved do not count.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use longshore_kernel::words;
use longshore_testkit::receiver::{Answer, By, Receipt, Receiver};
use longshore_testkit::signature::Verifier;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use uuid::Uuid;

words! {
    /// A misbehaviour of a destination; each belongs to one.
    pub(crate) enum Misbehaviour ("misbehaviour of a destination") {
        /// Never answers.
        Hang = "hangs",
        /// Answers a byte at a time.
        Drip = "drips",
        /// Answers 300 MiB.
        Large = "answers 300 MiB",
        /// Answers a redirect.
        Redirect = "redirects",
        /// Ends the connection.
        Reset = "resets",
        /// Answers 500.
        Fail = "answers 500",
        /// Its clock has jumped by an hour: it accepts no signature.
        Clock = "clock jumps",
    }
}

/// The size of a large answer.
pub(crate) const LARGE: usize = 300 << 20;

/// The interval of reading a book.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What a destination received.
#[derive(Debug, Default)]
pub(crate) struct Book {
    /// How often each id was accepted.
    pub(crate) accepted: HashMap<Uuid, u32>,
    /// The entity of each id.
    pub(crate) entities: HashMap<Uuid, Uuid>,
    /// Requests without a valid and recent signature of one of its secrets.
    pub(crate) unsigned: u64,
    /// Requests without an id or an entity, or whose id had another entity or other events before.
    pub(crate) lies: u64,
    /// The events of each batch, in order.
    batches: HashMap<Uuid, Vec<Option<Uuid>>>,
    /// How many of the known secrets signed each id when it last came.
    pub(crate) signed: HashMap<Uuid, usize>,
    /// The derived state: for each field of a record, the value of its highest version. `None` if the value
    /// was too large for an event and has to be read from the record.
    pub(crate) fields: HashMap<(Uuid, String), (i64, Option<Value>)>,
    /// Accepted events, repeated ones included, that name the e-shops that they concern.
    pub(crate) naming_eshops: u64,
    /// Changes of records without a version.
    pub(crate) unversioned: u64,
    /// The entity and the time of each accepted delivery, in order.
    pub(crate) moments: Vec<(Uuid, Instant)>,
}

impl Book {
    /// How many deliveries repeated an accepted one.
    pub(crate) fn duplicates(&self) -> u64 {
        self.accepted.values().map(|count| u64::from(count - 1)).sum()
    }

    /// Applies an event as documented: each field whose known version is lower.
    fn take(&mut self, record: Uuid, data: &Value) {
        let Some(changed) = data["changedFields"].as_array() else { return };
        let Some(version) = data["version"].as_i64() else {
            self.unversioned += 1;
            return;
        };
        for name in changed.iter().filter_map(Value::as_str) {
            let kept = self.fields.entry((record, name.to_owned())).or_insert((0, None));
            if kept.0 < version {
                *kept = (version, data["fields"].get(name).cloned());
            }
        }
    }

    /// The longest time without an accepted delivery, between `since` and the last one.
    pub(crate) fn longest_silence(&self, since: Instant) -> Duration {
        let later = self.moments.iter().map(|(_, moment)| *moment).filter(|moment| *moment > since);
        let mut last = since;
        let silences = later.map(|moment| {
            let silence = moment - last;
            last = moment;
            silence
        });
        silences.max().unwrap_or_default()
    }
}

/// One destination.
#[derive(Debug)]
pub(crate) struct Shop {
    pub(crate) name: String,
    /// Its misbehaviour, if it has one.
    pub(crate) how: Option<Misbehaviour>,
    receiver: Receiver,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    elsewhere: String,
    misbehaves: Mutex<Option<Misbehaviour>>,
    takes: Mutex<Duration>,
    /// One for each secret.
    verifiers: Mutex<Vec<Verifier>>,
    refusals: Mutex<Refusals>,
    book: Mutex<Book>,
}

/// Refusals of a destination that otherwise works: a few ids, repeatedly.
#[derive(Debug, Default)]
struct Refusals {
    /// The number of ids to refuse.
    most: usize,
    /// How often each id was refused.
    refused: HashMap<Uuid, usize>,
}

impl Refusals {
    fn takes_in(&mut self, id: Uuid) -> bool {
        if self.refused.len() < self.most {
            self.refused.entry(id).or_default();
        }
        self.refused.get_mut(&id).map(|times| *times += 1).is_some()
    }
}

impl Shop {
    /// Opens a destination at an address.
    pub(crate) async fn open(at: Ipv4Addr, name: &str, how: Option<Misbehaviour>) -> io::Result<Self> {
        let receiver = Receiver::counting_at((at, 0).into()).await?;
        let state = Arc::new(State {
            elsewhere: receiver.url("/elsewhere"),
            misbehaves: Mutex::default(),
            takes: Mutex::default(),
            verifiers: Mutex::default(),
            refusals: Mutex::default(),
            book: Mutex::default(),
        });
        let judging = Arc::clone(&state);
        receiver.answer("/", Answer::By(By::new(move |receipt| judging.answer(receipt))));
        // detects a client that follows redirects
        let followed = Arc::clone(&state);
        let judge = By::new(move |_| {
            lock(&followed.book).lies += 1;
            Answer::Status(204)
        });
        receiver.answer("/elsewhere", Answer::By(judge));
        Ok(Self { name: name.to_owned(), how, receiver, state })
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        self.receiver.url("/")
    }

    /// Also accepts signatures of this secret.
    pub(crate) fn believe(&self, secret: &str) -> anyhow::Result<()> {
        lock(&self.state.verifiers).push(Verifier::new(secret)?);
        Ok(())
    }

    /// The number of secrets it accepts.
    pub(crate) fn secrets(&self) -> usize {
        lock(&self.state.verifiers).len()
    }

    /// Refuses the first `ids` ids from now on, and accepts the others; 0 ends that.
    pub(crate) fn refuse(&self, ids: usize) {
        *lock(&self.state.refusals) = Refusals { most: ids, refused: HashMap::new() };
    }

    /// How many ids it has refused at least this often.
    pub(crate) fn refused(&self, times: usize) -> usize {
        lock(&self.state.refusals).refused.values().filter(|refused| **refused >= times).count()
    }

    /// Starts or ends a misbehaviour.
    pub(crate) fn misbehave(&self, how: Option<Misbehaviour>) {
        *lock(&self.state.misbehaves) = how;
    }

    /// Sets how long it takes to accept a delivery.
    pub(crate) fn take(&self, long: Duration) {
        *lock(&self.state.takes) = long;
    }

    /// The number of requests received.
    pub(crate) fn requests(&self) -> u64 {
        self.receiver.requests()
    }

    /// Waits until it has accepted this many ids.
    pub(crate) async fn accepts(&self, ids: usize, within: Duration) -> anyhow::Result<()> {
        let until = Instant::now() + within;
        while self.book().accepted.len() < ids {
            let (name, accepted) = (&self.name, self.book().accepted.len());
            anyhow::ensure!(Instant::now() < until, "{name}: {accepted} of {ids} after {within:?}");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    /// What it received.
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.state.book)
    }
}

impl State {
    fn answer(&self, receipt: &Receipt) -> Answer {
        let how = *lock(&self.misbehaves);
        let verifiers = lock(&self.verifiers).clone();
        if verifiers.is_empty() {
            return Answer::Status(503);
        }
        let signed = verifiers.iter().filter(|verifier| verifier.verify(receipt).is_ok()).count();
        if how == Some(Misbehaviour::Clock) {
            // by its clock, what was signed just now is an hour old
            return Answer::Status(400);
        }
        if signed == 0 {
            lock(&self.book).unsigned += 1;
            return Answer::Status(400);
        }
        match how {
            Some(Misbehaviour::Hang) => return Answer::Hang,
            Some(Misbehaviour::Redirect) => return Answer::Redirect(self.elsewhere.clone()),
            Some(Misbehaviour::Reset) => return Answer::Cut,
            Some(Misbehaviour::Fail) => return Answer::Status(500),
            Some(Misbehaviour::Drip | Misbehaviour::Large | Misbehaviour::Clock) | None => {}
        }
        let id = receipt.header("webhook-id").and_then(|id| id.parse::<Uuid>().ok());
        if id.is_some_and(|id| lock(&self.refusals).takes_in(id)) {
            return Answer::Status(500);
        }
        let content: Value = serde_json::from_slice(&receipt.body).unwrap_or_default();
        let uuid = |value: &Value| value.as_str().and_then(|id| id.parse::<Uuid>().ok());
        let mut book = lock(&self.book);
        let events: Vec<(Option<Uuid>, &Value)> = match content["events"].as_array() {
            Some(events) => events.iter().map(|event| (uuid(&event["webhookId"]), event)).collect(),
            None => vec![(id, &content)],
        };
        if let (Some(id), "batch") = (id, content["type"].as_str().unwrap_or_default()) {
            let ids: Vec<_> = events.iter().map(|(id, _)| *id).collect();
            if *book.batches.entry(id).or_insert_with(|| ids.clone()) != ids {
                book.lies += 1;
            }
        }
        for (id, event) in events {
            match (id, uuid(&event["id"])) {
                (Some(id), Some(entity)) if *book.entities.entry(id).or_insert(entity) == entity => {
                    *book.accepted.entry(id).or_default() += 1;
                    book.naming_eshops +=
                        u64::from(event.get("eshop").or_else(|| event.get("eshops")).is_some());
                    if event["type"] == "restored" {
                        // what it knows may never have been
                        book.fields.clear();
                    }
                    book.take(entity, &event["data"]);
                    book.signed.insert(id, signed);
                    book.moments.push((entity, Instant::now()));
                }
                _ => book.lies += 1,
            }
        }
        let takes = *lock(&self.takes);
        match how {
            // these are successes
            Some(Misbehaviour::Drip) => Answer::Drip,
            Some(Misbehaviour::Large) => Answer::Large(LARGE),
            _ if takes.is_zero() => Answer::Status(204),
            _ => Answer::After(takes, Box::new(Answer::Status(204))),
        }
    }
}

/// A destination with a self-signed certificate, to which nothing should be sent.
#[derive(Debug)]
pub(crate) struct Impostor {
    address: SocketAddr,
    believed: Arc<Mutex<u64>>,
    accepting: JoinHandle<()>,
}

impl Impostor {
    pub(crate) async fn open(at: Ipv4Addr) -> anyhow::Result<Self> {
        _ = rustls::crypto::ring::default_provider().install_default();
        // for localhost and 127.0.0.1, valid for a hundred years, signed by itself
        let certificate = CertificateDer::from_pem_slice(include_bytes!("../../data/self_signed.pem"))?;
        let key = PrivateKeyDer::from_pem_slice(include_bytes!("../../data/self_signed.key"))?;
        let config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .context("the certificate")?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((at, 0)).await?;
        let address = listener.local_addr()?;
        let believed = Arc::new(Mutex::new(0));
        let counter = Arc::clone(&believed);
        let accepting = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let (acceptor, counter) = (acceptor.clone(), Arc::clone(&counter));
                tokio::spawn(async move {
                    if acceptor.accept(stream).await.is_ok() {
                        *lock(&counter) += 1;
                    }
                });
            }
        });
        Ok(Self { address, believed, accepting })
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        format!("https://{}/", self.address)
    }

    /// The number of requests it received.
    pub(crate) fn believed(&self) -> u64 {
        *lock(&self.believed)
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Ignores poisoning: the run fails anyway if a thread panicked while it held the lock.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
