//! A list request as SQL, and what it answers.

use futures::TryStreamExt as _;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::{Arguments as _, PgConnection, Row as _};

use super::criteria::Level;
use super::cursor::Cursor;
use super::nested::{Row, Shape};
use super::sort::Order;
use super::sql::{Alias, Binder, Sql};
use super::{BOUND, BOUNDED, EVERYTHING, LIMIT, Page, Request, Total, UNCOUNTED, count};
use longshore_kernel::access::Scope;
use longshore_kernel::problem::Problem;

/// A request as SQL: an inner query picks rows in their order, an outer one makes records of what it picked, so that what
/// `offset` skips costs no record.
#[derive(Debug)]
pub(super) struct Statement {
    /// what the outer query makes of a row
    columns: Sql,
    /// the inner query, up to the end of its order: one for each table, and part of what is behind a cursor
    picks: Vec<Sql>,
    /// the order in terms of the inner query's result
    order: Sql,
    arguments: PgArguments,
    total: Sql,
    total_arguments: PgArguments,
    pub(super) shape: Shape,
}

impl Statement {
    pub(super) fn new(scope: &Scope, request: &Request) -> Result<Self, Problem> {
        let resource = request.resource;
        let shape = Shape::new(request);
        let mut binder = Binder::new(scope);
        let mut level = Level::root(&mut binder, resource);
        for condition in &request.criteria {
            level.require(&mut binder, condition);
        }
        let mut total = Sql::default();
        let is_bounded = request.count == BOUNDED;
        total.push(if is_bounded { "SELECT count(*) FROM (SELECT FROM " } else { "SELECT count(*) FROM " });
        total.table(resource).piece(&level.from).push(" WHERE true").piece(&level.conditions);
        if is_bounded {
            total.push(" LIMIT ").piece(&binder.bind(BOUND + 1)).push(") AS counted");
        }
        binder.settle(&mut total);
        let total_arguments = binder.arguments()?;
        let after = request.after.as_ref().map(|after| &*after.values);
        let order = Order::new(&mut binder, &mut level, &request.sort, after);
        let mut columns = Sql::default();
        shape.columns(&mut columns);
        if request.limit.is_some() {
            columns.push(", ").piece(&order.cursor);
        }
        binder.settle(&mut columns);
        let mut picks = Vec::with_capacity(resource.tables.len() * order.behind.len());
        for table in resource.tables {
            for behind in &order.behind {
                let mut pick = Sql::default();
                pick.push("SELECT ")
                    .alias(Alias::ROOT)
                    .push(".*")
                    .piece(&order.keys)
                    .push(" FROM ")
                    .push(table);
                pick.piece(&level.from).push(" WHERE true").piece(&level.conditions).piece(behind);
                pick.push(" ORDER BY ").piece(&order.inner);
                binder.settle(&mut pick);
                picks.push(pick);
            }
        }
        let arguments = binder.arguments()?;
        Ok(Self { columns, picks, order: order.outer, arguments, total, total_arguments, shape })
    }

    /// A page; `None` where there are more rows than `most`, or where they have more than `bytes`.
    pub(super) async fn page(
        &self,
        connection: &mut PgConnection,
        scope: &Scope,
        request: &Request,
        most: i64,
        bytes: usize,
    ) -> Result<Option<Page>, Problem> {
        let found = match request.limit {
            Some(0) => Some((Vec::new(), End::of(request))),
            _ => self.rows(connection, scope, request, bytes).await?,
        };
        let Some((rows, end)) = found else { return Ok(None) };
        let returned = count(&rows);
        if returned > most {
            return Ok(None);
        }
        let total = self.total(connection, request, returned, &end).await?;
        Ok(Some(Page { rows, next: end.next(request, returned), total }))
    }

    /// The rows of a page, with their related records where they are wanted; `None` where they have more than `most` bytes.
    pub(super) async fn rows(
        &self,
        connection: &mut PgConnection,
        scope: &Scope,
        request: &Request,
        most: usize,
    ) -> Result<Option<(Vec<Row>, End)>, Problem> {
        let mut end = End::of(request);
        let (sql, arguments) = self.bounded(request.one_more(), request.offset)?;
        let mut found = sqlx::query_with(sql.finish(), arguments).fetch(&mut *connection);
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while let Some(row) = found.try_next().await? {
            if !end.takes(&row)? {
                continue;
            }
            let row = self.shape.read(&row)?;
            bytes += row.json.len();
            if bytes > most {
                return Ok(None);
            }
            rows.push(row);
        }
        drop(found);
        self.shape.expand(connection, scope, &mut rows).await?;
        Ok(Some((rows, end)))
    }

    /// The query of a page.
    pub(super) fn bounded(&self, limit: Option<i64>, offset: i64) -> Result<(Sql, PgArguments), Problem> {
        let (mut sql, arguments) = self.picked(limit.unwrap_or(LIMIT), offset)?;
        sql.push(" ORDER BY ").piece(&self.order);
        Ok((sql, arguments))
    }

    /// The query of the rows of a cursor.
    ///
    /// It names its order only within: a second one would be sorted by again where a criterion fixes a key, as finished
    /// records, before the first of them is sent. The outer query keeps the order of the inner one, because with any limit
    /// Postgres cannot merge the two.
    pub(super) fn for_cursor(&self, limit: Option<i64>, offset: i64) -> Result<(Sql, PgArguments), Problem> {
        self.picked(limit.unwrap_or(EVERYTHING), offset)
    }

    fn picked(&self, limit: i64, offset: i64) -> Result<(Sql, PgArguments), Problem> {
        let (mut sql, mut arguments) = (Sql::default(), self.arguments.clone());
        sql.push("SELECT ").piece(&self.columns).push(" FROM (");
        if let [only] = &*self.picks {
            sql.piece(only);
        } else {
            // a page of all is within the first rows of each
            arguments.add(offset.saturating_add(limit)).map_err(Problem::internal)?;
            let most = arguments.len();
            sql.push("SELECT * FROM (");
            for (position, pick) in self.picks.iter().enumerate() {
                sql.push(if position > 0 { " UNION ALL (" } else { "(" });
                sql.piece(pick).push(" LIMIT $").number(most).push(")");
            }
            sql.push(") ").alias(Alias::ROOT).push(" ORDER BY ").piece(&self.order);
        }
        for (words, value) in [(" LIMIT $", limit), (" OFFSET $", offset)] {
            arguments.add(value).map_err(Problem::internal)?;
            sql.push(words).number(arguments.len());
        }
        sql.push(") ").alias(Alias::ROOT);
        Ok((sql, arguments))
    }

    /// How many match: counted only where somebody asks, and the rows that came back do not prove it.
    pub(super) async fn total(
        &self,
        connection: &mut PgConnection,
        request: &Request,
        returned: i64,
        end: &End,
    ) -> Result<Total, Problem> {
        if request.count == UNCOUNTED {
            return Ok(Total::default());
        }
        // what a cursor knows of the rows before may have changed
        let begins_at_a_number = request.after.is_none();
        let is_last = request.limit != Some(0) && !end.goes_on;
        if begins_at_a_number && is_last && (returned > 0 || request.offset == 0) {
            return Ok(Total { matches: Some(request.offset + returned), at_least: false });
        }
        let query = sqlx::query_scalar_with(self.total.clone().finish(), self.total_arguments.clone());
        let total: i64 = query.fetch_one(connection).await?;
        let at_least = request.count == BOUNDED && total > BOUND;
        let total = if at_least { BOUND } else { total };
        // rows that were added in the meantime are counted too; removed rows must not make the page inconsistent
        let seen = if begins_at_a_number && returned > 0 { request.offset + returned } else { 0 };
        Ok(Total { matches: Some(total.max(seen)), at_least })
    }
}

impl Request {
    /// The rows that are asked for: one more than the page has, which tells whether it is the last.
    pub(super) fn one_more(&self) -> Option<i64> {
        self.limit.map(|limit| limit.saturating_add(1))
    }
}

/// Finds the end of a page, of which one row more is asked for than it has.
#[derive(Debug, Default)]
pub(super) struct End {
    left: Option<i64>,
    /// Where the last row of the page is in the order.
    place: Option<String>,
    /// Whether others come after it.
    goes_on: bool,
}

impl End {
    pub(super) fn of(request: &Request) -> Self {
        Self { left: request.limit, place: None, goes_on: false }
    }

    /// Whether the next row is one of the page.
    pub(super) fn takes(&mut self, row: &PgRow) -> Result<bool, sqlx::Error> {
        let Some(left) = &mut self.left else { return Ok(true) };
        if *left == 0 {
            self.goes_on = true;
            return Ok(false);
        }
        *left -= 1;
        if *left == 0 {
            self.place = Some(row.try_get(row.len() - 1)?);
        }
        Ok(true)
    }

    /// The cursor of the next page.
    pub(super) fn next(&self, request: &Request, returned: i64) -> Option<String> {
        let place = self.place.as_ref().filter(|_| self.goes_on)?;
        Some(Cursor::write(&request.identity(), request.from().saturating_add(returned), place))
    }
}

#[cfg(test)]
mod tests {
    use longshore_kernel::ids::{EshopId, OrganisationId, WmsId};
    use std::sync::Arc;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::list::fields::job::JOB;
    use crate::list::fields::movement::STOCK_MOVEMENT;
    use crate::list::fields::product::PRODUCT;
    use longshore_kernel::problem::INVALID_DATA;

    fn sql(scope: &Scope, body: Value) -> String {
        let statement = Statement::new(scope, &Request::read(&PRODUCT, Some(body)).unwrap()).unwrap();
        format!("{}; {}; {}", statement.picks[0].text(), statement.order.text(), statement.total.text())
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
    fn a_cursor_is_a_comparison_that_the_index_of_the_order_answers() {
        const ID: &str = "0192a1b2-7000-7000-8000-000000000005";
        let behind = |sort: Value, values: Value| {
            let of = Request::read(&PRODUCT, Some(json!({"sort": sort}))).unwrap().identity();
            let after = Cursor::write(&of, 10, &values.to_string());
            let request = Request::read(&PRODUCT, Some(json!({"sort": sort, "after": after}))).unwrap();
            let statement = Statement::new(&Scope::Everything, &request).unwrap();
            let between = |pick: &Sql| {
                let (_, conditions) = pick.text().split_once(" WHERE true AND ").unwrap();
                conditions.split_once(" ORDER BY ").unwrap().0.to_owned()
            };
            statement.picks.iter().map(between).collect::<Vec<_>>()
        };
        let time = json!(["2026-01-31T12:00:00+00:00", ID]);
        assert_eq!(behind(json!([]), time.clone()), ["ROW(t0.created_at, t0.id) > ROW($1, $2)"]);
        let down = json!([{"field": "changedAt", "order": "DESC"}]);
        assert_eq!(behind(down, time), ["ROW(t0.changed_at, t0.id) < ROW($1, $2)"]);
        let weight = json!([{"field": "weight"}]);
        let both = ["ROW(t0.weight, t0.id) > ROW($1, $2)", "t0.weight IS NULL"];
        assert_eq!(behind(weight.clone(), json!([5, ID])), both);
        assert_eq!(behind(weight, json!([null, ID])), ["t0.weight IS NULL AND ROW(t0.id) > ROW($1)"]);
        let mixed = json!([{"field": "type", "order": "DESC"}, {"field": "id"}]);
        let text = "'); DROP TABLE product; --";
        assert_eq!(
            behind(mixed, json!([text, ID])),
            ["ROW(t0.type) <= ROW($1) AND (t0.type < $1 OR t0.type = $1 AND (t0.id > $2))"]
        );
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
