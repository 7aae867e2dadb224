//! How many webhooks an e-shop may have, or an organisation of its own, and how many readers.
//!
//! These are few, so they are counted exactly, other than what has a quota: concurrent creations follow each other.

use sqlx::PgConnection;
use uuid::Uuid;

use super::choice::Source;
use crate::account::token::made;
use longshore_kernel::access::Scope;
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::problem::{Problem, QUOTA_REACHED};

/// Refuses one more webhook of what has as many as it may.
pub(in crate::webhook) async fn of_webhooks(
    connection: &mut PgConnection,
    Source { id, eshop, .. }: Source,
    most: u16,
) -> Result<(), Problem> {
    hold(connection, "webhooks", id).await?;
    let count = sqlx::query_scalar!(r#"SELECT count(*) AS "n!" FROM webhook WHERE source_id = $1"#, id);
    let there = count.fetch_one(connection).await?;
    let whose = if eshop.is_some() { "the e-shop" } else { "the organisation itself" };
    judge(whose, "webhooks", there, most.into())
}

/// Refuses one more reader of an organisation that has as many as it may.
pub(in crate::webhook) async fn of_readers(
    connection: &mut PgConnection,
    organisation: OrganisationId,
    most: i64,
) -> Result<(), Problem> {
    let id = organisation.get();
    hold(connection, "event readers", id).await?;
    let count =
        sqlx::query_scalar!(r#"SELECT count(*) AS "n!" FROM event_reader WHERE organisation_id = $1"#, id);
    let there = count.fetch_one(connection).await?;
    judge("the organisation", "readers", there, most)
}

/// Webhooks that a token may have, and readers.
const OF_A_TOKEN: i64 = 4;

/// Refuses one more of a token that has as many `webhooks`, or `readers`, as it may, or that has ended.
pub(in crate::webhook) async fn of_maker(
    connection: &mut PgConnection,
    scope: &Scope,
    what: &str,
) -> Result<(), Problem> {
    let Some(token) = scope.maker() else { return Ok(()) };
    made::hold(connection, token).await?;
    let count = sqlx::query_scalar!(
        r#"SELECT (SELECT count(*) FROM webhook WHERE $2 = 'webhooks' AND made_by = $1)
                + (SELECT count(*) FROM event_reader WHERE $2 <> 'webhooks' AND made_by = $1) AS "n!""#,
        token.get(),
        what,
    );
    let there = count.fetch_one(connection).await?;
    judge("this token", what, there, OF_A_TOKEN)
}

/// Has concurrent creations wait until this transaction ends. What is counted then is counted by a statement of its own, which sees
/// what earlier ones have committed.
async fn hold(connection: &mut PgConnection, what: &str, id: Uuid) -> Result<(), sqlx::Error> {
    // the names of locks of other kinds have other beginnings
    sqlx::query!("SELECT pg_advisory_xact_lock(hashtextextended($1 || ' of ' || $2::uuid, 0))", what, id)
        .execute(connection)
        .await?;
    Ok(())
}

fn judge(whose: &str, what: &str, there: i64, most: i64) -> Result<(), Problem> {
    if there < most {
        return Ok(());
    }
    let detail =
        format!("{whose} has {there} {what} and may have {most}: delete one that is no longer needed");
    Err(Problem::new(&QUOTA_REACHED, detail))
}
