//! A feed: a URL that serves products or stocks as NDJSON or JSON, plain or gzipped, and may accept stocks by
//! `PUT`.
//!
//! - Products of an inventory are at `<baseUrl>?inventory=<inventoryId>`, stocks of a warehouse at
//!   `<baseUrl>?warehouse=<warehouseId>`; a server with only one of each may ignore the parameter. For a
//!   scheduled sync, a setting without inventories reads `<baseUrl>` itself.
//! - Rows are those of the push form. A row that is not JSON, or breaks a rule, is refused by itself.
//! - `ETag` and `Last-Modified` are stored: a feed that has not changed since its last complete fetch costs
//!   one request. A `Last-Modified` alone counts only if it is [some seconds](SETTLED) older than the answer.
//! - Stocks are sent as NDJSON, with `{"productSku", "quantity"}` on every line, to
//!   `<baseUrl>?warehouse=<warehouseId>`.
//!
//! A feed of any length is read in constant memory and split into pages. After an interruption it is read
//! again, and rows that are already recorded are passed over; if it has changed meanwhile, the fetch starts
//! again. A feed without a version has not changed if the rows that are passed over have the same SKUs in the
//! same order. One that changes all the time is not read from the start for ever ([`RESTARTS`]).

mod split;
mod unfold;

use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use futures::future::BoxFuture;
use futures::stream;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, DATE, ETAG, HeaderName, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, LAST_MODIFIED,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use longshore_domain::job::payload::BYTES_PER_CHUNK;
use longshore_domain::partner::setting::Setting;
use longshore_kernel::crypto::Hasher;
use longshore_kernel::unfold::Unfoldable;
use serde::{Deserialize, Serialize};
use serde_json::json;
use url::Url;

use self::split::{Malformed, Split, Splitter};
use self::unfold::Unfolder;
use super::{
    Abilities, Page, Pages, Partner, PartnerError, Place, ROWS_PER_PAGE, Row, Start, StockCount, Taken, Tools,
};
use crate::outbound::{Call, Client, Opened, date};

/// The name of the partner in messages for an operator.
const NAME: &str = "the feed";
/// How long sending stocks may take.
const SEND_PATIENCE: Duration = Duration::from_mins(1);
/// How much older than the answer a `Last-Modified` must be: the feed may be written again in the second that it names, and a
/// clock of a server may be a little behind that of its files (RFC 9110, section 8.8.2.2).
const SETTLED: TimeDelta = TimeDelta::seconds(5);
/// How often a fetch starts again because its feed has changed. Then it continues at the row where it was: what that passes over,
/// the next fetch finds.
const RESTARTS: u32 = 3;
/// Characters of an unknown coding that are shown.
const CODING_LENGTH: usize = 30;
/// Stocks per call.
const STOCKS_PER_CALL: usize = 1_000;

/// A feed, as the setting of an e-shop describes it.
#[derive(Debug)]
pub struct Feed {
    tools: Tools,
    base: Url,
    credentials: Option<(HeaderName, HeaderValue)>,
}

/// Opens the feed of a setting.
///
/// # Errors
/// [`PartnerError::Permanent`] if the stored address or credentials cannot be used.
pub fn open(tools: &Tools, setting: &Setting) -> Result<Box<dyn Partner>, PartnerError> {
    let base = setting.wanted.base_url.as_deref().and_then(|url| Url::parse(url).ok()).ok_or_else(|| {
        PartnerError::Permanent(
            "baseUrl of the integration setting is not a valid URL: correct it".to_owned(),
        )
    })?;
    Ok(Box::new(Feed { tools: tools.clone(), base, credentials: setting.credentials.header() }))
}

impl Partner for Feed {
    fn abilities(&self) -> Abilities {
        Abilities {
            products: true,
            stocks: true,
            stocks_per_call: STOCKS_PER_CALL,
            lists_items: false,
            rate: None,
        }
    }

    fn products<'p>(&'p self, inventory: &'p str, start: Start<'p>) -> Pages<'p> {
        self.pages("products", self.url("inventory", inventory), start)
    }

    fn stocks<'p>(&'p self, warehouse: &'p str, start: Start<'p>) -> Pages<'p> {
        self.pages("stocks", self.url("warehouse", warehouse), start)
    }

    fn is_late(&self, limit: Duration) -> String {
        let seconds = limit.as_secs();
        format!(
            "{NAME} sent fewer than {ROWS_PER_PAGE} rows within {seconds} s: it must send so many in that time, or end"
        )
    }

    fn send_stocks<'p>(
        &'p self,
        place: &'p Place,
        counts: &'p [StockCount],
    ) -> BoxFuture<'p, Result<Taken, PartnerError>> {
        Box::pin(async move {
            let mut lines = Vec::new();
            for count in counts {
                let line = json!({"productSku": count.product_sku, "quantity": count.quantity}).to_string();
                lines.extend_from_slice(line.as_bytes());
                lines.push(b'\n');
            }
            let mut headers = self.headers();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
            let reply = self.client().call(Call {
                method: Method::PUT,
                url: self.url("warehouse", &place.warehouse),
                headers,
                body: lines.into(),
                deadline: SEND_PATIENCE,
                answer_bytes: 0,
            });
            let reply = reply.await.map_err(|error| PartnerError::of_call(NAME, &error))?;
            if reply.status.is_success() {
                return Ok(Taken::default());
            }
            Err(self.refusal(reply.status, &reply.headers))
        })
    }
}

/// The version of a feed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Version {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    modified: Option<String>,
}

impl Version {
    fn of(headers: &HeaderMap, now: DateTime<Utc>) -> Self {
        let text = |name| headers.get(name).and_then(|v: &HeaderValue| v.to_str().ok()).map(str::to_owned);
        let is_settled = || {
            let [answered, modified] = [DATE, LAST_MODIFIED].map(|name| date(headers, &name, now));
            answered.zip(modified).is_some_and(|(answered, modified)| answered - modified >= SETTLED)
        };
        let etag = text(ETAG);
        let modified = text(LAST_MODIFIED).filter(|_| etag.is_some() || is_settled());
        Self { etag, modified }
    }

    fn is_known(&self) -> bool {
        self.etag.is_some() || self.modified.is_some()
    }
}

/// Stored after a complete fetch; a different address is a different feed.
#[derive(Debug, Serialize, Deserialize)]
struct Memo {
    url: String,
    version: Version,
}

/// Where a fetch was interrupted.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Cursor {
    /// The number of recorded rows.
    rows: u64,
    /// The version that they are from.
    version: Version,
    /// Without a version: SHA-256 of their SKUs, in their order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    skus: Option<[u8; 32]>,
    /// How often the fetch has started again; more than [`RESTARTS`]: it continued in a feed that had changed.
    #[serde(default)]
    restarts: u32,
}

/// What a request for a feed came to.
enum Begun {
    /// It is read on from the cursor.
    Body(Box<Body>),
    /// It has not changed since the last complete fetch.
    Unchanged,
    /// It has changed since the rows before the cursor were read.
    Changed,
}

impl Feed {
    fn client(&self) -> &Client {
        &self.tools.client
    }

    fn url(&self, parameter: &str, value: &str) -> Url {
        let mut url = self.base.clone();
        if !value.is_empty() {
            url.query_pairs_mut().append_pair(parameter, value);
        }
        url
    }

    fn headers(&self) -> HeaderMap {
        self.credentials.iter().cloned().collect()
    }

    fn refusal(&self, status: StatusCode, headers: &HeaderMap) -> PartnerError {
        PartnerError::of_status(NAME, status, headers, self.tools.services.clock.now())
    }

    fn pages<'p>(&'p self, member: &'static str, url: Url, start: Start<'p>) -> Pages<'p> {
        let cursor = start.cursor.and_then(|cursor| serde_json::from_str(cursor).ok());
        let reading = Reading::Begin { url, cursor, memo: start.memo };
        Box::pin(stream::try_unfold((self, reading), move |(feed, reading)| async move {
            let mut body = match reading {
                Reading::Begin { url, cursor, memo } => {
                    match feed.begin(member, &url, cursor.as_ref(), memo).await? {
                        Begun::Body(body) => body,
                        Begun::Unchanged => return Ok(None),
                        Begun::Changed => {
                            let restarts = cursor.map_or(0, |cursor| cursor.restarts) + 1;
                            let cursor = Cursor { restarts, ..Cursor::default() };
                            let page = Page { anew: true, cursor: cursor.stored(), ..Page::default() };
                            let reading = Reading::Begin { url, cursor: Some(cursor), memo: None };
                            return Ok(Some((page, (feed, reading))));
                        }
                    }
                }
                Reading::On(body) => body,
                Reading::Done => return Ok(None),
            };
            let page = body.page().await?;
            let reading = if body.is_done() { Reading::Done } else { Reading::On(body) };
            Ok(Some((page, (feed, reading))))
        }))
    }

    /// Requests the feed, and passes over the rows before the cursor.
    async fn begin(
        &self,
        member: &'static str,
        url: &Url,
        cursor: Option<&Cursor>,
        memo: Option<&str>,
    ) -> Result<Begun, PartnerError> {
        let memo: Option<Memo> = memo.and_then(|memo| serde_json::from_str(memo).ok());
        let mut headers = self.headers();
        headers.insert(ACCEPT, HeaderValue::from_static("application/x-ndjson, application/json;q=0.9"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        if let Some(memo) = memo.filter(|memo| cursor.is_none() && memo.url == url.as_str()) {
            let mut ask = |name, value: Option<String>| {
                if let Some(Ok(value)) = value.map(HeaderValue::try_from) {
                    headers.insert(name, value);
                }
            };
            ask(IF_NONE_MATCH, memo.version.etag);
            ask(IF_MODIFIED_SINCE, memo.version.modified);
        }
        let call = Call {
            method: Method::GET,
            url: url.clone(),
            headers,
            body: Bytes::new(),
            deadline: self.tools.patience,
            answer_bytes: 0,
        };
        let answer = self.client().open(call).await.map_err(|error| PartnerError::of_call(NAME, &error))?;
        if answer.status() == StatusCode::NOT_MODIFIED {
            return Ok(Begun::Unchanged);
        }
        if !answer.status().is_success() {
            return Err(self.refusal(answer.status(), answer.headers()));
        }
        let codings =
            answer.headers().get_all(CONTENT_ENCODING).iter().filter_map(|value| value.to_str().ok());
        let is_known = |coding: &&str| {
            ["", "identity", "gzip", "x-gzip"].iter().any(|known| coding.eq_ignore_ascii_case(known))
        };
        if let Some(coding) =
            codings.flat_map(|value| value.split(',')).map(str::trim).find(|coding| !is_known(coding))
        {
            return Err(PartnerError::Permanent(format!(
                "{NAME} comes with Content-Encoding: {}, which cannot be read: serve it plain or as gzip",
                coding.chars().take(CODING_LENGTH).collect::<String>()
            )));
        }
        let version = Version::of(answer.headers(), self.tools.services.clock.now());
        let mut body = Box::new(Body {
            answer,
            pending: Bytes::new(),
            is_last: false,
            unfolder: Unfolder::new(),
            splitter: Splitter::new(member),
            rows: 0,
            skus: Hasher::default(),
            restarts: cursor.map_or(0, |cursor| cursor.restarts),
            memo: Memo { url: url.to_string(), version },
            ended: false,
        });
        if let Some(cursor) = cursor.filter(|cursor| cursor.rows > 0)
            && !body.resume(cursor).await?
        {
            return Ok(Begun::Changed);
        }
        Ok(Begun::Body(body))
    }
}

impl Cursor {
    fn stored(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }
}

/// The progress of reading.
enum Reading<'p> {
    Begin { url: Url, cursor: Option<Cursor>, memo: Option<&'p str> },
    On(Box<Body>),
    Done,
}

/// A feed that is being read.
struct Body {
    answer: Opened,
    /// Bytes that arrived but were not processed yet.
    pending: Bytes,
    /// No more bytes will arrive.
    is_last: bool,
    unfolder: Unfolder,
    splitter: Splitter,
    /// The number of rows so far.
    rows: u64,
    /// Their SKUs, if it has no version.
    skus: Hasher,
    restarts: u32,
    memo: Memo,
    ended: bool,
}

/// What is wrong with the feed.
enum Fault {
    Folded(Unfoldable),
    Document(Malformed),
}

impl From<Unfoldable> for Fault {
    fn from(fault: Unfoldable) -> Self {
        Self::Folded(fault)
    }
}

impl From<Malformed> for Fault {
    fn from(fault: Malformed) -> Self {
        Self::Document(fault)
    }
}

impl From<Fault> for PartnerError {
    fn from(fault: Fault) -> Self {
        Self::Permanent(match fault {
            Fault::Folded(fault) => format!("{NAME} comes as gzip, but {fault}"),
            Fault::Document(fault) => format!("{NAME} is neither NDJSON nor a JSON array of rows: {fault}"),
        })
    }
}

impl Body {
    /// Reads until a page is full or the feed ends.
    async fn page(&mut self) -> Result<Page, PartnerError> {
        let mut page = Page::default();
        let mut bytes = 0;
        while page.rows.len() < ROWS_PER_PAGE && bytes < BYTES_PER_CHUNK {
            match self.splitter.take() {
                Some(found) => {
                    let row = row(found);
                    bytes += row.body.len();
                    self.count(row.product_sku.as_deref());
                    page.rows.push(row);
                }
                None if self.ended => break,
                None => self.read_on().await?,
            }
        }
        let (version, restarts) = (self.memo.version.clone(), self.restarts);
        page.cursor = Cursor { rows: self.rows, version, skus: self.skus(), restarts }.stored();
        if self.is_done() && self.memo.version.is_known() && restarts <= RESTARTS {
            page.memo = serde_json::to_string(&self.memo).ok();
        }
        Ok(page)
    }

    /// Passes over the rows before a cursor; `false` if they are others now, and it is read from the start.
    async fn resume(&mut self, cursor: &Cursor) -> Result<bool, PartnerError> {
        let may_restart = cursor.restarts < RESTARTS;
        let mut is_same = self.memo.version == cursor.version;
        if is_same || !may_restart {
            self.pass_over(cursor.rows).await?;
            is_same &= self.skus() == cursor.skus;
        }
        if !is_same && !may_restart {
            self.restarts = RESTARTS + 1;
        }
        Ok(is_same || !may_restart)
    }

    /// Passes over so many rows, or to the end.
    async fn pass_over(&mut self, rows: u64) -> Result<(), PartnerError> {
        while self.rows < rows {
            match self.splitter.take() {
                Some(_) if self.memo.version.is_known() => self.rows += 1,
                Some(found) => self.count(row(found).product_sku.as_deref()),
                None if self.ended => break,
                None => self.read_on().await?,
            }
        }
        Ok(())
    }

    /// Counts a row.
    fn count(&mut self, sku: Option<&str>) {
        self.rows += 1;
        if !self.memo.version.is_known() {
            let sku = sku.unwrap_or_default().as_bytes();
            self.skus.update(&(sku.len() as u64).to_be_bytes());
            self.skus.update(sku);
        }
    }

    /// What identifies its rows so far, if it has no version.
    fn skus(&self) -> Option<[u8; 32]> {
        (!self.memo.version.is_known()).then(|| self.skus.clone().finish())
    }

    /// Whether all rows were read and returned in pages.
    fn is_done(&self) -> bool {
        self.ended && self.splitter.is_empty()
    }

    /// Processes a piece that is small enough for its decompressed form to fit in memory.
    async fn read_on(&mut self) -> Result<(), PartnerError> {
        if self.pending.is_empty() {
            let came = self.answer.next().await.map_err(|error| PartnerError::of_call(NAME, &error))?;
            self.is_last = came.is_none();
            self.pending = came.unwrap_or_default();
        }
        let piece = self.pending.split_to(self.unfolder.piece().min(self.pending.len()));
        let splitter = &mut self.splitter;
        let split = |bytes: &[u8]| splitter.push(bytes).map_err(Fault::from);
        if self.is_last {
            std::mem::replace(&mut self.unfolder, Unfolder::Plain).finish(split)?;
            self.splitter.finish().map_err(Fault::from)?;
            self.ended = true;
        } else {
            self.unfolder.push(&piece, split)?;
        }
        Ok(())
    }
}

fn row(found: Split) -> Row {
    match found {
        Split::Row(row) => Row::raw(row),
        Split::TooLong(begun) => Row::refused("is longer than the maximum of 1 MiB", begun),
    }
}
