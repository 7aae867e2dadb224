//! All records that match criteria, for operations on them (`docs/reference/jobs.md#bulk-by-criteria`): a statement finds them, and
//! no list shows them.

use serde_json::Value;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::{FromRow, PgConnection, SqlStr};

use super::criteria::{self, Condition, Level};
use super::resource::Resource;
use super::sql::{Alias, Binder, Sql};
use super::{or_empty_object, refused};
use longshore_kernel::access::Scope;
use longshore_kernel::input::{Reader, Rule, Schema, custom};
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// Bytes of criteria: a job that is about what matches keeps and shows them.
pub const LONGEST: usize = 256 * 1024;

/// In a transaction whose other statements are planned once: this one is planned for its values, like a list, with memory to sort a
/// million ids. If that takes long, Postgres expected too few rows (`read` in `list`).
const AS_A_LIST: &str = "SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL enable_seqscan = on;
     SET LOCAL enable_bitmapscan = on; SET LOCAL work_mem = '64MB'; SET LOCAL statement_timeout = '20s'";
const WITHOUT_LOOPS: &str = "SET LOCAL enable_nestloop = off; SET LOCAL statement_timeout = '60s'";
const AS_BEFORE: &str = "SET LOCAL plan_cache_mode TO DEFAULT; SET LOCAL enable_seqscan TO DEFAULT;
     SET LOCAL enable_bitmapscan TO DEFAULT; SET LOCAL work_mem TO DEFAULT; SET LOCAL statement_timeout TO DEFAULT;
     SET LOCAL enable_nestloop TO DEFAULT";

/// How a statement may be planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// As Postgres likes.
    Any,
    /// The way that takes as long as there are rows.
    WithoutLoops,
}

/// The records of a resource that match criteria.
#[derive(Clone, Debug)]
pub struct Matching {
    resource: &'static Resource,
    conditions: Vec<Condition>,
    criteria: Value,
}

/// Reads criteria, as lists do.
pub fn rule(resource: &'static Resource) -> impl Rule<Out = Matching> {
    custom(Schema::AnyObject, move |reader: &mut Reader, value: Value| {
        let criteria = or_empty_object(value);
        let conditions = criteria::read(reader, resource, criteria.clone())?;
        if criteria.to_string().len() > LONGEST {
            reader.refuse("too_large", format!("must have at most {LONGEST} bytes"));
            return None;
        }
        Some(Matching { resource, conditions, criteria })
    })
}

impl Matching {
    /// Of criteria that the service itself has written.
    pub fn of(resource: &'static Resource, criteria: Value) -> Result<Self, Problem> {
        Reader::read(criteria, rule(resource))
    }

    /// As they were given.
    #[must_use]
    pub fn criteria(&self) -> &Value {
        &self.criteria
    }

    /// Whether there is no condition: everything matches.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        // one that was refused is a condition, too
        let is_none = |asked: &Value| match asked {
            Value::Object(operators) => operators.is_empty(),
            Value::Array(empty) => empty.is_empty(),
            _ => false,
        };
        self.criteria.as_object().is_none_or(|paths| paths.values().all(is_none))
    }

    /// How many match, of those that the scope includes.
    pub async fn count(&self, services: &Services, scope: &Scope) -> Result<i64, Problem> {
        let mut tx = services.db.lists.transaction(None).await?;
        let counted: Result<(i64,), _> =
            self.one(&mut tx, scope, PgArguments::default(), &["SELECT count(*)"], "").await;
        Ok(counted.map_err(refused)?.0)
    }

    /// The one row of a statement: `before` ends in what is selected of each record `{t}`, and `behind` follows its conditions. Its
    /// own values are the first ones. It is not kept, so it needs a transaction: a pooler has it in one session only.
    pub(crate) async fn one<R: for<'r> FromRow<'r, PgRow> + Send + Unpin>(
        &self,
        tx: &mut PgConnection,
        scope: &Scope,
        values: PgArguments,
        before: &[&'static str],
        behind: &'static str,
    ) -> Result<R, Problem> {
        let (sql, values) = self.statement(scope, values, before, behind)?;
        Ok(sqlx::query_as_with(sql, values).persistent(false).fetch_one(tx).await?)
    }

    /// The same in a transaction that does other things.
    pub(crate) async fn one_within<R: for<'r> FromRow<'r, PgRow> + Send + Unpin>(
        &self,
        tx: &mut PgConnection,
        plan: Plan,
        scope: &Scope,
        values: PgArguments,
        before: &[&'static str],
        behind: &'static str,
    ) -> Result<R, Problem> {
        sqlx::raw_sql(AS_A_LIST).execute(&mut *tx).await?;
        if plan == Plan::WithoutLoops {
            sqlx::raw_sql(WITHOUT_LOOPS).execute(&mut *tx).await?;
        }
        let found = self.one(tx, scope, values, before, behind).await?;
        sqlx::raw_sql(AS_BEFORE).execute(tx).await?;
        Ok(found)
    }

    fn statement(
        &self,
        scope: &Scope,
        values: PgArguments,
        before: &[&'static str],
        behind: &'static str,
    ) -> Result<(SqlStr, PgArguments), Problem> {
        let mut binder = Binder::after(values, scope);
        let mut level = Level::root(&mut binder, self.resource);
        for condition in &self.conditions {
            level.require(&mut binder, condition);
        }
        let mut sql = Sql::default();
        for text in before {
            sql.expression(text, Alias::ROOT);
        }
        sql.push(" FROM ").table(self.resource).piece(&level.from);
        sql.push(" WHERE true").piece(&level.conditions).push(behind);
        binder.settle(&mut sql);
        Ok((sql.finish(), binder.arguments()?))
    }
}
