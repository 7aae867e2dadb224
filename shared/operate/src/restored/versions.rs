//! Versions: receivers, and callers with an `If-Match`, may know higher ones than the database does.

use sqlx::{AssertSqlSafe, PgConnection};

use super::SetBack;
use longshore_kernel::migration::APPLIED;
use longshore_kernel::problem::Problem;

/// As many changes of a record are taken to be lost at most.
const LOST: i64 = 1_000_000;

/// A version is not more than doubled where it is higher than this: all fit into a JSON number for millions of epochs.
const DOUBLED: i64 = 1_000_000_000;

/// What changes from now on gets a version above twice the highest one, and a million more.
pub(super) async fn raise(connection: &mut PgConnection, set_back: &SetBack) -> Result<String, Problem> {
    let highest = highest(connection).await?;
    let floor = floor(highest, set_back.epoch);
    sqlx::raw_sql(AssertSqlSafe(format!(
        "CREATE OR REPLACE FUNCTION version_floor() RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN {floor}"
    )))
    .execute(connection)
    .await?;
    Ok(format!("what changes from now on has one above {floor}; the highest was {highest}"))
}

/// The highest version that there is, or that was given: every table that has versions is found in the catalogue.
async fn highest(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    let tables = sqlx::query_scalar!(
        r#"SELECT quote_ident(c.relname) AS "table!" FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
           WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND c.relname <> $1
             AND a.attname = 'version' AND a.atttypid = 'bigint'::regtype"#,
        APPLIED,
    )
    .fetch_all(&mut *connection)
    .await?;
    let each = tables.iter().map(|table| format!(" UNION ALL SELECT max(version) FROM {table}"));
    let all = format!(
        "SELECT max(version) FROM (SELECT version_floor(){}) AS each (version)",
        each.collect::<String>()
    );
    sqlx::query_scalar(AssertSqlSafe(all)).fetch_one(connection).await
}

/// The epoch is in it because one backup may be restored twice: what was given after the first time is not given again.
fn floor(highest: i64, epoch: i32) -> i64 {
    highest + highest.min(DOUBLED) + LOST * i64::from(epoch - 1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_doubled_and_stay_json_numbers_for_many_epochs() {
        assert_eq!(floor(21, 2), 1_000_042);
        assert!(floor(21, 3) > floor(21, 2) + LOST - 1, "the same backup again");
        let mut highest = 21;
        for epoch in 2..10_000 {
            let next = floor(highest, epoch);
            assert!(next > highest + LOST && next < 1 << 53, "{epoch}: {next}");
            highest = next + 1_000;
        }
    }
}
