//! The language of every list operation, and the look-up of single records (`docs/reference/lists.md#request`).
//!
//! # Modules
//!
//! - [`resource`] describes what can be listed: a [`Resource`] is a table in [`fields`], and contains every
//!   text that may reach SQL.
//! - `path` follows dotted names through it, `criteria`, `sort` and `select` read what the caller wants, `sql` writes the
//!   statement, `nested` fetches related records, `stream` sends long lists.
//!
//! # Guarantees
//!
//! - Text that a caller sends is never SQL: statements are written from `&'static str`, values are bound, with their
//!   types.
//! - Nothing is ignored: an unknown field, operator or key, and a value of the wrong type, is refused with its path.
//! - Every `FROM` is limited to the caller's scope: in results, in `total`, behind dotted paths and in nested records.
//! - A short page is one query, a long one a cursor; its total another one unless the page proves it; each expanded
//!   relation one more.
//! - Postgres builds a record as JSON, and it is sent without being parsed.
//!
//! # Adding a resource
//!
//! Describe it as a [`Resource`] in [`fields`], and call [`answer`] from its list operation and [`find`] from its
//! read, create and update operations. Every field that clients poll or sort by needs an index with the id.

pub mod criteria;
pub mod fields;
#[cfg(test)]
mod hostile;
mod nested;
pub mod path;
pub mod resource;
mod select;
pub mod sort;
mod sql;
pub mod stream;

use std::time::Duration;

use futures::TryStreamExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use sqlx::postgres::PgArguments;
use sqlx::{Arguments as _, PgConnection, PgExecutor};
use uuid::Uuid;

use self::criteria::{Condition, Level};
use self::nested::{Row, Shape};
use self::resource::{Field, Resource};
use self::sort::Order;
use self::sql::{Alias, Binder, Sql};
use self::stream::{Piece, Stream};
use longshore_kernel::access::Scope;
use longshore_kernel::input::{Reader, Schema, array, boolean, custom, integer, object};
use longshore_kernel::problem::{Problem, UNAVAILABLE};
use longshore_kernel::services::Services;
use longshore_kernel::sqlstate::is_cancelled;

/// The largest `limit`.
pub const LIMIT: i64 = 10_000;
/// The largest `offset`.
pub const OFFSET: i64 = 2_147_483_647;
/// More rows than a table has.
const EVERYTHING: i64 = 1 << 53;
/// What an unlimited list may hold to be answered like a page, in one piece.
const WHOLE: i64 = 1_000;
/// A page of no more rows is asked for by one statement, unless they turn out to be large.
const AT_ONCE: i64 = 250;
/// Bytes of records that are gathered before the first of them is sent.
const GATHERED: usize = 1024 * 1024;

/// A list as it was asked for, checked against its resource.
#[derive(Clone, Debug)]
pub struct Request {
    resource: &'static Resource,
    criteria: Vec<Condition>,
    sort: Vec<sort::Key>,
    select: Vec<&'static Field>,
    limit: Option<i64>,
    offset: i64,
    nested: bool,
}

impl Request {
    /// Reads the body of a list operation; without one, every record is asked for.
    pub fn read(resource: &'static Resource, body: Option<Value>) -> Result<Self, Problem> {
        let body = body.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        // the API document describes these from the fields of the resource
        let by_hand = Schema::Anything;
        let criteria = custom(by_hand.clone(), |reader: &mut Reader, value: Value| {
            criteria::read(reader, resource, value)
        });
        let key =
            custom(by_hand.clone(), |reader: &mut Reader, value: Value| sort::read(reader, resource, value));
        let select =
            custom(by_hand, |reader: &mut Reader, value: Value| select::read(reader, resource, value));
        let extra = object(|extra| {
            Some(criteria::flags(
                resource.extras().filter(|field| extra.optional_or(field.name, boolean(), false)),
            ))
        });
        let rule = object(|object| {
            let criteria = object.optional("criteria", criteria);
            let extra = resource.extras().next().and_then(|_| object.optional("extra", extra));
            let sort = object.optional("sort", array(sort::KEYS, key));
            let limit = object.optional("limit", integer(0..=LIMIT));
            let offset = object.optional_or("offset", integer(0..=OFFSET), 0);
            let nested = object.optional_or("nested", boolean(), false);
            let select = object.optional("select", select);
            Some(Self {
                resource,
                criteria: criteria.into_iter().chain(extra).flatten().collect(),
                sort: sort.filter(|keys| !keys.is_empty()).unwrap_or_else(|| sort::default(resource)),
                select: select.unwrap_or_else(|| select::all(resource)),
                limit,
                offset,
                nested,
            })
        });
        Reader::read(body, rule)
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
        .fetch_all(executor)
        .await?;
    Ok(found.into_iter().map(|(id, json, version)| Record { id, json, version }).collect())
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
    let first =
        rows.unwrap_or_default().into_iter().next().map(|row| serde_json::from_str::<First>(&row.json));
    Ok(first.transpose().map_err(Problem::internal)?.map(|first| first.id))
}

/// The answer of a list.
#[derive(Debug)]
pub enum Listed {
    /// The whole answer, as JSON.
    Whole(String),
    /// The first piece of an answer of any length, and the others.
    Stream(String, Stream),
}

/// Answers a list: a page, or every match where no limit is given. What is larger than a mebibyte is sent while it is read, so
/// that no answer is as large in memory as it is on the wire; `patience` is how long its reader may leave a piece of it unread.
pub async fn answer(
    services: &Services,
    resource: &'static Resource,
    scope: &Scope,
    body: Option<Value>,
    patience: Duration,
) -> Result<Listed, Problem> {
    let request = Request::read(resource, body)?;
    // most lists are short: those need neither a cursor nor, without a limit, one of the few connections for streams
    let short = match request.limit {
        Some(limit) if limit > AT_ONCE => None,
        Some(limit) => Some((limit, limit)),
        None => Some((WHOLE + 1, WHOLE)),
    };
    if let Some((limit, most)) = short {
        let first = Request { limit: Some(limit), ..request.clone() };
        let mut connection = services.db.lists.acquire().await?;
        let statement = Statement::new(scope, &first)?;
        let rows = match limit {
            0 => Some(Vec::new()),
            _ => statement.rows(&mut connection, scope, &first, GATHERED).await?,
        };
        if let Some(rows) = rows
            && count(&rows) <= most
        {
            let total = statement.total(&mut connection, &first, count(&rows)).await?;
            return Ok(Listed::Whole(envelope(&rows, first.offset, total)));
        }
    }
    let pool = if request.limit.is_some() { &services.db.lists } else { &services.db.streams };
    let mut stream = Stream::open(pool, scope.clone(), request, patience).await?;
    Ok(match stream.next().await? {
        Some(Piece::Last(text)) => Listed::Whole(text),
        Some(Piece::More(text)) => Listed::Stream(text, stream),
        None => return Err(Problem::internal("a list ended before it began")),
    })
}

/// Answers a page, whole: `{"results":[…],"paging":{…}}`. For callers within the service.
pub async fn page(services: &Services, scope: &Scope, request: &Request) -> Result<String, Problem> {
    let statement = Statement::new(scope, request)?;
    let mut connection = services.db.lists.acquire().await?;
    let rows = match request.limit {
        Some(0) => Vec::new(),
        _ => statement.rows(&mut connection, scope, request, usize::MAX).await?.unwrap_or_default(),
    };
    let total = statement.total(&mut connection, request, count(&rows)).await?;
    Ok(envelope(&rows, request.offset, total))
}

fn count(rows: &[Row]) -> i64 {
    i64::try_from(rows.len()).unwrap_or(i64::MAX)
}

fn envelope(rows: &[Row], offset: i64, total: i64) -> String {
    let length: usize = rows.iter().map(|row| row.json.len() + 1).sum();
    let mut text = String::with_capacity(length + 128);
    text.push_str(HEAD);
    for (position, row) in rows.iter().enumerate() {
        if position > 0 {
            text.push(',');
        }
        text.push_str(&row.json);
    }
    text.push_str(&tail(count(rows), offset, total));
    text
}

/// What an answer starts with.
const HEAD: &str = "{\"results\":[";

/// What an answer ends with.
fn tail(returned: i64, offset: i64, total: i64) -> String {
    let to = offset + returned;
    format!("],\"paging\":{{\"returned\":{returned},\"from\":{offset},\"to\":{to},\"total\":{total}}}}}")
}

/// A request as SQL: an inner query picks rows in their order, an outer one makes records of what it picked, so that what
/// `offset` skips costs no record.
#[derive(Debug)]
struct Statement {
    /// up to the end of the inner query's order
    rows: Sql,
    /// the order in terms of the inner query's result
    order: Sql,
    arguments: PgArguments,
    total: Sql,
    total_arguments: PgArguments,
    shape: Shape,
}

impl Statement {
    fn new(scope: &Scope, request: &Request) -> Result<Self, Problem> {
        let resource = request.resource;
        let shape = Shape::new(request);
        let mut binder = Binder::new(scope);
        let mut level = Level::root(&mut binder, resource);
        for condition in &request.criteria {
            level.require(&mut binder, condition);
        }
        let mut total = Sql::default();
        total.push("SELECT count(*) FROM ").piece(&level.from).push(" WHERE true").piece(&level.conditions);
        binder.settle(&mut total);
        let total_arguments = binder.arguments()?;
        let order = Order::new(&mut binder, &mut level, &request.sort);
        let mut rows = Sql::default();
        rows.push("SELECT ");
        shape.columns(&mut rows);
        rows.push(" FROM (SELECT ").alias(Alias::ROOT).push(".*").piece(&order.keys);
        rows.push(" FROM ").piece(&level.from).push(" WHERE true").piece(&level.conditions);
        rows.push(" ORDER BY ").piece(&order.inner);
        binder.settle(&mut rows);
        let arguments = binder.arguments()?;
        Ok(Self { rows, order: order.outer, arguments, total, total_arguments, shape })
    }

    /// The rows of a page, with their related records where they are wanted; `None` where they have more than `most` bytes.
    async fn rows(
        &self,
        connection: &mut PgConnection,
        scope: &Scope,
        request: &Request,
        most: usize,
    ) -> Result<Option<Vec<Row>>, Problem> {
        let (sql, arguments) = self.bounded(request.limit, request.offset)?;
        let mut found = sqlx::query_with(sql.finish(), arguments).fetch(&mut *connection);
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while let Some(row) = found.try_next().await.map_err(refused)? {
            let row = self.shape.read(&row)?;
            bytes += row.json.len();
            if bytes > most {
                return Ok(None);
            }
            rows.push(row);
        }
        drop(found);
        self.shape.expand(connection, scope, &mut rows).await?;
        Ok(Some(rows))
    }

    /// The query of a page.
    fn bounded(&self, limit: Option<i64>, offset: i64) -> Result<(Sql, PgArguments), Problem> {
        let (mut sql, arguments) = self.picked(limit.unwrap_or(LIMIT), offset)?;
        sql.push(" ORDER BY ").piece(&self.order);
        Ok((sql, arguments))
    }

    /// The query of the rows of a cursor.
    ///
    /// It names its order only within: a second one would be sorted by again where a criterion fixes a key, as finished
    /// records, before the first of them is sent. The outer query keeps the order of the inner one, because with any limit
    /// Postgres cannot merge the two.
    fn for_cursor(&self, limit: Option<i64>, offset: i64) -> Result<(Sql, PgArguments), Problem> {
        self.picked(limit.unwrap_or(EVERYTHING), offset)
    }

    fn picked(&self, limit: i64, offset: i64) -> Result<(Sql, PgArguments), Problem> {
        let (mut sql, mut arguments) = (self.rows.clone(), self.arguments.clone());
        for (words, value) in [(" LIMIT $", limit), (" OFFSET $", offset)] {
            arguments.add(value).map_err(Problem::internal)?;
            sql.push(words).number(arguments.len());
        }
        sql.push(") ").alias(Alias::ROOT);
        Ok((sql, arguments))
    }

    /// How many match: counted only where the rows that came back do not prove it.
    async fn total(
        &self,
        connection: &mut PgConnection,
        request: &Request,
        returned: i64,
    ) -> Result<i64, Problem> {
        let is_last = request.limit.is_none_or(|limit| returned < limit);
        if is_last && (returned > 0 || request.offset == 0) {
            return Ok(request.offset + returned);
        }
        let query = sqlx::query_scalar_with(self.total.clone().finish(), self.total_arguments.clone());
        let total: i64 = query.fetch_one(connection).await.map_err(refused)?;
        // rows that were added in the meantime are counted too; removed rows must not make the page inconsistent
        let seen = if returned > 0 { request.offset + returned } else { 0 };
        Ok(total.max(seen))
    }
}

/// A list that was stopped for taking too long is the caller's to narrow; the rest is as ever.
fn refused(error: sqlx::Error) -> Problem {
    match &error {
        error if is_cancelled(error) => Problem::new(
            &UNAVAILABLE,
            "the list takes too long; narrow its criteria or request fewer records",
        )
        .retry_after(Duration::from_secs(5)),
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use longshore_kernel::ids::{EshopId, OrganisationId, WmsId};
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::list::fields::job::JOB;
    use crate::list::fields::movement::STOCK_MOVEMENT;
    use crate::list::fields::product::PRODUCT;
    use longshore_kernel::problem::INVALID_DATA;

    fn sql(scope: &Scope, body: Value) -> String {
        let statement = Statement::new(scope, &Request::read(&PRODUCT, Some(body)).unwrap()).unwrap();
        format!("{}; {}; {}", statement.rows.text(), statement.order.text(), statement.total.text())
    }

    #[test]
    fn a_value_changes_the_bound_values_and_never_the_text() {
        let of = |name: &str| {
            sql(
                &Scope::Everything,
                json!({"criteria": {"name": {"eq": name, "like": name, "in": [name]}, "eshops.name": {"eq": name}}}),
            )
        };
        assert_eq!(of("'; DROP TABLE product; --"), of("x"));
        assert!(of("x").contains("t0.name = $"));
    }

    #[test]
    fn an_order_ends_with_the_id_and_the_id_goes_the_way_of_the_last_key() {
        let of = |sort: Value| sql(&Scope::Everything, json!({ "sort": sort }));
        assert!(of(json!([])).contains("ORDER BY t0.created_at, t0.id; s0, t0.id;"));
        let down = of(json!([{"field": "changedAt", "order": "DESC"}]));
        assert!(down.contains("ORDER BY t0.changed_at DESC, t0.id DESC"), "{down}");
        let id = of(json!([{"field": "weight"}, {"field": "id", "order": "DESC"}, {"field": "name"}]));
        assert!(id.contains("ORDER BY t0.weight, t0.id DESC;"), "{id}");
    }

    #[test]
    fn one_organisation_is_compared_and_several_are_looked_up() {
        let scope =
            |n: u128| Scope::Organisations((1..=n).map(OrganisationId::from_u128).collect::<Arc<[_]>>());
        assert!(sql(&scope(1), json!({})).contains("t0.organisation_id = $1"));
        assert!(sql(&scope(2), json!({})).contains("t0.organisation_id = ANY($1)"));
        assert!(!sql(&Scope::Everything, json!({})).contains("WHERE true AND"));
    }

    #[test]
    fn jobs_of_several_organisations_are_found_by_callers_who_see_several() {
        let sql = |n: u128| {
            let scope = Scope::Organisations((1..=n).map(OrganisationId::from_u128).collect::<Arc<[_]>>());
            let statement = Statement::new(&scope, &Request::read(&JOB, None).unwrap()).unwrap();
            statement.total.text().to_owned()
        };
        assert!(sql(1).ends_with(" AND t0.organisation_id = $1"), "{}", sql(1));
        let several = " AND (t0.organisation_id = ANY($1) OR t0.organisations <@ $2::uuid[])";
        assert!(sql(2).ends_with(several), "{}", sql(2));
    }

    #[test]
    fn every_relation_of_a_path_is_limited_to_the_scope() {
        let eshop = Scope::Eshop { organisation: OrganisationId::from_u128(1), eshop: EshopId::from_u128(2) };
        let text = sql(&eshop, json!({"criteria": {"eshops.organisation.name": {"eq": "x"}}}));
        assert!(text.contains("t2.organisation_id = $1 AND t2.id = $2"), "{text}");
        assert!(text.contains("t3.id = t2.organisation_id AND t3.id = $1"), "{text}");
        // what is not described as that of a wms is none of its business
        let wms = Scope::Wms { organisation: OrganisationId::from_u128(1), wms: WmsId::from_u128(2) };
        let text = sql(&wms, json!({"criteria": {"eshops.organisation.name": {"eq": "x"}}}));
        assert!(text.contains("t2.organisation_id = $1 AND false"), "{text}");
        let request = Request::read(&STOCK_MOVEMENT, None).unwrap();
        let statement = Statement::new(&wms, &request).unwrap();
        assert!(statement.total.text().ends_with(" AND t0.organisation_id = $1 AND t0.wms_id = $2"));
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "\\PC{0,12}".prop_map(Value::from),
            prop::sample::select(vec!["name", "ASC", "eshops.name", "id'); DROP TABLE product; --"])
                .prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 48, 6, |inner| {
            let names = prop_oneof![
                "\\PC{0,12}",
                prop::sample::select(vec![
                    "criteria",
                    "sort",
                    "select",
                    "limit",
                    "offset",
                    "nested",
                    "name",
                    "weight",
                    "eshops.name",
                    "organisation.name",
                    "field",
                    "order",
                    "eq",
                    "in",
                    "like",
                    "gt",
                    "null",
                    "flag",
                ])
                .prop_map(str::to_owned),
            ];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map(names, inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_a_caller_sends_is_read_or_refused_with_a_path(body in json_value()) {
            match Request::read(&PRODUCT, Some(body)) {
                Ok(request) => {
                    Statement::new(&Scope::Everything, &request).unwrap();
                }
                Err(problem) => {
                    prop_assert_eq!(problem.kind(), &INVALID_DATA);
                    prop_assert!(!problem.violations().is_empty());
                }
            }
        }
    }
}
