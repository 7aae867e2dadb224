//! The language of every list operation, and the look-up of single records (`docs/reference/lists.md#request`).
//!
//! # Modules
//!
//! - [`resource`] describes what can be listed: a [`Resource`] is a table in [`fields`], and contains every
//!   text that may reach SQL.
//! - `path` follows dotted names through it, `criteria`, `sort` and `select` read what the caller wants, `cursor` where a page begins,
//!   `sql` and `statement` write the statement, `nested` fetches related records, `stream` sends long lists. [`matching`] is for
//!   operations on all that match, [`document`] for criteria about a document that is in no table.
//!
//! # Guarantees
//!
//! - Text that a caller sends is never SQL: statements are written from `&'static str`, values are bound, with their
//!   types.
//! - Nothing is ignored: an unknown field, operator or key, and a value of the wrong type, is refused with its path.
//! - Every `FROM` is limited to the caller's scope: in results, in `total`, behind dotted paths and in nested records.
//! - A short page is one query, a long one a cursor of Postgres; its total another one unless the page proves it or none is wanted;
//!   each expanded relation one more.
//! - The page behind a cursor is found where the first page is found, at the same cost.
//! - Postgres builds a record as JSON, and it is sent without being parsed.
//!
//! # Adding a resource
//!
//! Describe it as a [`Resource`] in [`fields`], and call [`answer`] from its list operation and [`find`] from its
//! read, create and update operations. Every field that clients poll or sort by needs an index with the id.

pub mod criteria;
pub mod cursor;
pub mod document;
pub mod fields;
#[cfg(test)]
mod hostile;
pub mod matching;
mod nested;
pub mod path;
pub mod resource;
mod select;
pub mod sort;
mod sql;
mod statement;
pub mod stream;

use std::fmt::Write as _;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use sqlx::PgExecutor;
use uuid::Uuid;

use self::criteria::{Condition, Operand};
use self::cursor::Cursor;
use self::nested::Row;
use self::resource::{Field, Resource};
use self::sql::Sql;
use self::statement::Statement;
use self::stream::{Piece, Stream};
use longshore_kernel::access::Scope;
use longshore_kernel::csv::write::{self as csv, Cell};
use longshore_kernel::input::{
    Reader, Rule as _, Schema, array, boolean, custom, integer, object, one_of, text,
};
use longshore_kernel::json::compact;
use longshore_kernel::problem::{Problem, UNAVAILABLE};
use longshore_kernel::services::Services;

/// The largest `limit`.
pub const LIMIT: i64 = 10_000;
/// The largest `offset`.
pub const OFFSET: i64 = 2_147_483_647;
/// How far a bounded count goes.
pub const BOUND: i64 = 10_000;
/// How `total` is counted.
pub const COUNTS: &[&str] = &["exact", BOUNDED, UNCOUNTED];
const BOUNDED: &str = "bounded";
pub(crate) const UNCOUNTED: &str = "none";
/// Why a cursor is refused.
pub(crate) const NO_CURSOR: &str = "must be the `next` of a page with the same sort and criteria";
/// More rows than a table has.
const EVERYTHING: i64 = 1 << 53;
/// What an unlimited list may hold to be answered like a page, in one piece.
const WHOLE: i64 = 1_000;
/// A page of no more rows is asked for by one statement, unless they turn out to be large.
const AT_ONCE: i64 = 250;
/// Bytes of records that are gathered before the first of them is sent.
const GATHERED: usize = 1024 * 1024;

/// How a list is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `{"results":[…],"paging":{…}}`.
    Json,
    /// A line of field names, and a line for each record (`docs/reference/lists.md#csv`).
    Csv,
    /// Each record as JSON, in a line of its own; the last one has where to read on, and how many there are.
    Lines,
}

/// A list as it was asked for, checked against its resource.
#[derive(Clone, Debug)]
pub struct Request {
    resource: &'static Resource,
    form: Form,
    criteria: Vec<Condition>,
    sort: Vec<sort::Key>,
    select: Vec<&'static Field>,
    limit: Option<i64>,
    offset: i64,
    after: Option<After>,
    count: &'static str,
    nested: bool,
    /// What the last line of [`Form::Lines`] says.
    read_on: Option<String>,
}

/// Where a page begins that has a cursor.
#[derive(Clone, Debug)]
struct After {
    /// Rows of the pages before.
    from: i64,
    /// Of the last one of these, the values in the order; nothing for null.
    values: Vec<Option<Operand>>,
}

/// An object, where PHP writes an empty one as an empty array.
pub(crate) fn or_empty_object(value: Value) -> Value {
    match value {
        Value::Array(empty) if empty.is_empty() => Value::Object(Map::new()),
        other => other,
    }
}

impl Request {
    /// Reads the body of a list operation that is answered with JSON; without one, every record is asked for.
    pub fn read(resource: &'static Resource, body: Option<Value>) -> Result<Self, Problem> {
        Self::read_for(Form::Json, resource, Vec::new(), body)
    }

    /// The same for an answer in either form, of the records that also satisfy conditions which the caller did not choose.
    fn read_for(
        form: Form,
        resource: &'static Resource,
        within: Vec<Condition>,
        body: Option<Value>,
    ) -> Result<Self, Problem> {
        let body = or_empty_object(body.unwrap_or_else(|| Value::Object(Map::new())));
        // the API document describes these from the fields of the resource
        let by_hand = Schema::Anything;
        let criteria = custom(by_hand.clone(), |reader: &mut Reader, value: Value| {
            criteria::read(reader, resource, value)
        });
        let key =
            custom(by_hand.clone(), |reader: &mut Reader, value: Value| sort::read(reader, resource, value));
        let select =
            custom(by_hand, |reader: &mut Reader, value: Value| select::read(reader, resource, value));
        let flags = object(|extra| {
            Some(criteria::flags(
                resource.extras().filter(|field| extra.optional_or(field.name, boolean(), false)),
            ))
        });
        let extra = custom(flags.schema(), move |reader: &mut Reader, value: Value| {
            flags.apply(reader, or_empty_object(value))
        });
        let rule = object(|object| {
            let criteria = object.optional("criteria", criteria);
            let extra = resource.extras().next().and_then(|_| object.optional("extra", extra));
            let sort = object.optional("sort", array(sort::KEYS, key));
            let limit = object.optional("limit", integer(0..=LIMIT));
            let offset = object.optional_or("offset", integer(0..=OFFSET), 0);
            let after = object.optional("after", text(1..=cursor::CHARACTERS));
            let count = object.optional_or("count", one_of(COUNTS), COUNTS[0]);
            let nested = object.optional_or("nested", boolean(), false);
            if nested && form == Form::Csv {
                object.refuse("nested", "not_allowed", "cannot be combined with text/csv");
            }
            let select = object.optional("select", select).filter(|select| !select.is_empty());
            let mut request = Self {
                resource,
                form,
                criteria: within.into_iter().chain(criteria.into_iter().chain(extra).flatten()).collect(),
                sort: sort::effective(resource, sort),
                select: select.unwrap_or_else(|| select::unless_named(form, resource)),
                limit,
                offset,
                after: None,
                // lines have no place for it
                count: if form == Form::Json { count } else { UNCOUNTED },
                nested,
                read_on: None,
            };
            if let Some(after) = after {
                if offset > 0 {
                    object.refuse("after", "not_allowed", "cannot be combined with an offset");
                }
                request.after = request.resume(&after);
                if request.after.is_none() {
                    object.refuse("after", "invalid_cursor", NO_CURSOR);
                }
            }
            Some(request)
        });
        Reader::read(body, rule)
    }
}

impl Request {
    /// What a cursor belongs to: the list, its order and its criteria.
    fn identity(&self) -> String {
        let mut text = self.resource.name.to_owned();
        for key in &self.sort {
            let _ = write!(text, "\n{} {}", key.path, key.descending);
        }
        let condition = |condition: &Condition| {
            let mut compared: Vec<_> = condition.comparisons.iter().map(|one| format!("{one:?}")).collect();
            compared.sort_unstable();
            format!("\n{} {compared:?}", condition.path)
        };
        let mut conditions: Vec<_> = self.criteria.iter().map(condition).collect();
        conditions.sort_unstable();
        conditions.into_iter().fold(text, |text, condition| text + &condition)
    }

    /// Where a cursor leads.
    fn resume(&self, text: &str) -> Option<After> {
        let Cursor { from, values } = Cursor::read(&self.identity(), text)?;
        let kinds: Vec<_> = sort::kinds(&self.sort).collect();
        if kinds.len() != values.len() || values.last()?.is_null() {
            return None;
        }
        let value = |(kind, value): (_, &Value)| match value {
            Value::Null => Some(None),
            value => Operand::of_cursor(kind, value).map(Some),
        };
        let values = kinds.into_iter().zip(&values).map(value).collect::<Option<_>>()?;
        Some(After { from, values })
    }

    /// Matches before the page, as far as is known: a cursor counts those of the pages before.
    fn from(&self) -> i64 {
        self.after.as_ref().map_or(self.offset, |after| after.from)
    }
}

impl Request {
    /// The text of the statement that picks its rows, as it is sent, for tests and for `EXPLAIN`.
    pub fn sql(&self, scope: &Scope) -> Result<String, Problem> {
        let statement = Statement::new(scope, self)?;
        let (sql, _) = statement.bounded(self.limit, self.offset)?;
        Ok(sql.into_text())
    }
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its id.
    pub id: Uuid,
    /// The record as the interface shows it.
    pub json: String,
    /// Its version: its entity tag.
    pub version: i64,
}

/// Looks a record up; `None` if there is none that the scope includes.
///
/// The executor is the pool of changes, or the transaction that has just changed the record.
pub async fn find<'e, E: PgExecutor<'e>>(
    executor: E,
    resource: &'static Resource,
    scope: &Scope,
    id: impl Into<Uuid>,
) -> Result<Option<Record>, Problem> {
    Ok(find_each(executor, resource, scope, &[id.into()]).await?.pop())
}

/// The same for several records, in any order.
pub async fn find_each<'e, E: PgExecutor<'e>>(
    executor: E,
    resource: &'static Resource,
    scope: &Scope,
    ids: &[Uuid],
) -> Result<Vec<Record>, Problem> {
    let found: Vec<(Uuid, String, i64)> = sqlx::query_as(sql::look_up(resource))
        .bind(ids)
        .bind(scope.organisations())
        .bind(scope.eshop())
        .bind(scope.wms())
        .bind(scope.maker())
        .fetch_all(executor)
        .await?;
    Ok(found.into_iter().map(|(id, json, version)| Record { id, json: compact(&json), version }).collect())
}

/// Id of the first record that satisfies criteria, of those that the scope includes.
pub async fn first_id(
    services: &Services,
    resource: &'static Resource,
    scope: &Scope,
    criteria: Value,
) -> Result<Option<Uuid>, Problem> {
    #[derive(Deserialize)]
    struct First {
        id: Uuid,
    }
    let body = json!({"criteria": criteria, "sort": [{"field": "id"}], "select": ["id"], "limit": 1});
    let request = Request::read(resource, Some(body))?;
    let mut connection = services.db.main.acquire().await?;
    let rows = Statement::new(scope, &request)?.rows(&mut connection, scope, &request, usize::MAX).await?;
    let first = rows.unwrap_or_default().0.into_iter().next();
    let first = first.map(|row| serde_json::from_str::<First>(&row.json));
    Ok(first.transpose().map_err(Problem::internal)?.map(|first| first.id))
}

/// The answer of a list.
#[derive(Debug)]
pub enum Listed {
    /// The whole answer.
    Whole(String),
    /// The first piece of an answer of any length, and the others.
    Stream(String, Stream),
}

impl Listed {
    async fn of(mut stream: Stream) -> Result<Self, Problem> {
        match stream.next().await? {
            Some(Piece::Last(text)) => Ok(Self::Whole(text)),
            Some(Piece::More(text)) => Ok(Self::Stream(text, stream)),
            None => Err(Problem::internal("a list ended before it began")),
        }
    }
}

/// Answers a list: a page, or every match where no limit is given. What is larger than a mebibyte is sent while it is read, so
/// that no answer is as large in memory as it is on the wire; `patience` is how long its reader may leave a piece of it unread.
/// Only records that satisfy `within` are listed: criteria that the caller did not choose, or nothing.
pub async fn answer(
    services: &Services,
    resource: &'static Resource,
    scope: &Scope,
    within: Option<Value>,
    body: Option<Value>,
    form: Form,
    patience: Duration,
) -> Result<Listed, Problem> {
    let within = within.map(|criteria| Request::read(resource, Some(json!({ "criteria": criteria }))));
    let within = within.transpose()?.map(|request| request.criteria).unwrap_or_default();
    let request = Request::read_for(form, resource, within, body)?;
    // most lists are short: those need neither a cursor nor, without a limit, one of the few connections for streams
    let short = match request.limit {
        Some(limit) if limit > AT_ONCE => None,
        Some(limit) => Some((limit, limit)),
        None => Some((WHOLE + 1, WHOLE)),
    };
    if let Some((limit, most)) = short {
        let first = Request { limit: Some(limit), ..request.clone() };
        if let Some(page) = read(services, scope, &first, most, GATHERED).await? {
            return Ok(Listed::Whole(envelope(&page, &first)?));
        }
    }
    let pool = if request.limit.is_some() { &services.db.lists } else { &services.db.streams };
    Listed::of(Stream::open(pool, scope.clone(), request, patience).await?).await
}

/// All records of a scope in one snapshot of the database, each in a line of its own; the last one is `{"next", "rows"}`.
pub async fn lines(
    services: &Services,
    resource: &'static Resource,
    scope: Scope,
    next: String,
    patience: Duration,
) -> Result<Listed, Problem> {
    let request = Request::read_for(Form::Lines, resource, Vec::new(), None)?;
    let request = Request { read_on: Some(next), ..request };
    Listed::of(Stream::open(&services.db.streams, scope, request, patience).await?).await
}

/// Answers a page, whole: `{"results":[…],"paging":{…}}`. For callers within the service.
pub async fn page(services: &Services, scope: &Scope, request: &Request) -> Result<String, Problem> {
    let page = read(services, scope, request, i64::MAX, usize::MAX).await?.unwrap_or_default();
    envelope(&page, request)
}

/// A page; nothing where there are more rows than `most`, or where they have more than `bytes`.
///
/// Of an e-shop that is new since the last analysis, Postgres expects no rows. Nested loops then compare each of its rows with each,
/// and a list ends at its time limit. Without them, a plan takes as long as there are rows, whatever was expected.
async fn read(
    services: &Services,
    scope: &Scope,
    request: &Request,
    most: i64,
    bytes: usize,
) -> Result<Option<Page>, Problem> {
    let statement = Statement::new(scope, request)?;
    let read = {
        let mut connection = services.db.lists.acquire().await?;
        statement.page(&mut connection, scope, request, most, bytes).await
    };
    match read {
        Err(problem) if problem.is_cancelled() => {
            let mut tx = services.db.lists.transaction(Some("BEGIN READ ONLY")).await?;
            sqlx::raw_sql("SET LOCAL enable_nestloop = off").execute(&mut *tx).await?;
            statement.page(&mut tx, scope, request, most, bytes).await.map_err(refused)
        }
        read => read,
    }
}

/// A list that was stopped for taking too long is the caller's to narrow; the rest is as ever.
pub(crate) fn refused(problem: impl Into<Problem>) -> Problem {
    let problem = problem.into();
    if !problem.is_cancelled() {
        return problem;
    }
    let detail = "the list takes too long; narrow its criteria or request fewer records";
    Problem::new(&UNAVAILABLE, detail).retry_after(Duration::from_secs(5))
}

/// The rows of a page, and what comes of them.
#[derive(Debug, Default)]
struct Page {
    rows: Vec<Row>,
    next: Option<String>,
    total: Total,
}

/// How many match.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    /// Nothing where nobody asked.
    matches: Option<i64>,
    /// There are more.
    at_least: bool,
}

fn count(rows: &[Row]) -> i64 {
    i64::try_from(rows.len()).unwrap_or(i64::MAX)
}

fn envelope(page: &Page, request: &Request) -> Result<String, Problem> {
    let length: usize = page.rows.iter().map(|row| row.json.len() + 1).sum();
    let mut text = String::with_capacity(length + 256);
    request.begin(&mut text);
    for (position, row) in page.rows.iter().enumerate() {
        request.push(&mut text, position == 0, &row.json)?;
    }
    request.end(&mut text, count(&page.rows), page.total, page.next.as_deref());
    Ok(text)
}

/// How an answer is put together.
impl Request {
    /// What it begins with.
    fn begin(&self, text: &mut String) {
        match self.form {
            Form::Json => text.push_str("{\"results\":["),
            Form::Csv => csv::line(text, self.select.iter().map(|field| Cell::text(Some(field.name)))),
            Form::Lines => {}
        }
    }

    /// A record, as JSON, behind the others.
    fn push(&self, text: &mut String, is_first: bool, record: &str) -> Result<(), Problem> {
        match self.form {
            Form::Json => {
                text.push_str(if is_first { "" } else { "," });
                text.push_str(record);
                Ok(())
            }
            Form::Csv => csv::record(text, record).map_err(Problem::internal),
            Form::Lines => {
                text.push_str(record);
                text.push('\n');
                Ok(())
            }
        }
    }

    /// What it ends with.
    fn end(&self, text: &mut String, returned: i64, total: Total, next: Option<&str>) {
        match self.form {
            Form::Json => text.push_str(&tail(self.from(), returned, total, next)),
            Form::Csv => {}
            Form::Lines => {
                text.push_str(&json!({ "next": self.read_on, "rows": returned }).to_string());
                text.push('\n');
            }
        }
    }
}

/// What an answer in JSON ends with.
fn tail(from: i64, returned: i64, total: Total, next: Option<&str>) -> String {
    let to = from.saturating_add(returned);
    let total_or_null = total.matches.map_or_else(|| "null".to_owned(), |matches| matches.to_string());
    let at_least = if total.at_least { ",\"totalAtLeast\":true" } else { "" };
    // a cursor has nothing that JSON would escape
    let next = next.map_or_else(|| "null".to_owned(), |next| format!("\"{next}\""));
    format!(
        "],\"paging\":{{\"returned\":{returned},\"from\":{from},\"to\":{to},\"total\":{total_or_null}{at_least},\"next\":{next}}}}}"
    )
}
