//! A list request as SQL, and what it answers.

use futures::TryStreamExt as _;
use sqlx::postgres::PgArguments;
use sqlx::{Arguments as _, PgConnection};

use super::criteria::Level;
use super::nested::{Row, Shape};
use super::sort::Order;
use super::sql::{Alias, Binder, Sql};
use super::{EVERYTHING, LIMIT, Request};
use longshore_kernel::access::Scope;
use longshore_kernel::problem::Problem;

/// A request as SQL: an inner query picks rows in their order, an outer one makes records of what it picked, so that what
/// `offset` skips costs no record.
#[derive(Debug)]
pub(super) struct Statement {
    /// what the outer query makes of a row
    columns: Sql,
    /// the inner query, up to the end of its order: one for each table
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
        total.push("SELECT count(*) FROM ").table(resource).piece(&level.from);
        total.push(" WHERE true").piece(&level.conditions);
        binder.settle(&mut total);
        let total_arguments = binder.arguments()?;
        let order = Order::new(&mut binder, &mut level, &request.sort);
        let mut columns = Sql::default();
        shape.columns(&mut columns);
        binder.settle(&mut columns);
        let pick = |table: &&'static str| {
            let mut pick = Sql::default();
            pick.push("SELECT ").alias(Alias::ROOT).push(".*").piece(&order.keys);
            pick.push(" FROM ").push(table).piece(&level.from).push(" WHERE true").piece(&level.conditions);
            pick.push(" ORDER BY ").piece(&order.inner);
            binder.settle(&mut pick);
            pick
        };
        let picks = resource.tables.iter().map(pick).collect();
        let arguments = binder.arguments()?;
        Ok(Self { columns, picks, order: order.outer, arguments, total, total_arguments, shape })
    }

    /// The rows of a page, and how many match; `None` where there are more than `most`, or where they have more than `bytes`.
    pub(super) async fn page(
        &self,
        connection: &mut PgConnection,
        scope: &Scope,
        request: &Request,
        most: i64,
        bytes: usize,
    ) -> Result<Option<(Vec<Row>, i64)>, Problem> {
        let rows = match request.limit {
            Some(0) => Some(Vec::new()),
            _ => self.rows(connection, scope, request, bytes).await?,
        };
        let Some(rows) = rows else { return Ok(None) };
        let returned = i64::try_from(rows.len()).map_err(Problem::internal)?;
        if returned > most {
            return Ok(None);
        }
        let total = self.total(connection, request, returned).await?;
        Ok(Some((rows, total)))
    }

    /// The rows of a page, with their related records where they are wanted; `None` where they have more than `most` bytes.
    pub(super) async fn rows(
        &self,
        connection: &mut PgConnection,
        scope: &Scope,
        request: &Request,
        most: usize,
    ) -> Result<Option<Vec<Row>>, Problem> {
        let (sql, arguments) = self.bounded(request.limit, request.offset)?;
        let mut found = sqlx::query_with(sql.finish(), arguments).fetch(&mut *connection);
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while let Some(row) = found.try_next().await? {
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

    /// How many match: counted only where the rows that came back do not prove it.
    pub(super) async fn total(
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
        let total: i64 = query.fetch_one(connection).await?;
        // rows that were added in the meantime are counted too; removed rows must not make the page inconsistent
        let seen = if returned > 0 { request.offset + returned } else { 0 };
        Ok(total.max(seen))
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
