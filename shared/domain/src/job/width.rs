//! How wide a chunk is: how many deliveries it may write. Its items alone do not say it, since each change writes a
//! delivery for every webhook that listens.
//!
//! A chunk that is too wide is halved before it is executed, as one of which an item [fails](super::failing) is, and so are its
//! halves. So a chunk is seconds of a transaction, however many webhooks its organisation has.

use sqlx::PgPool;

use super::chunk::Claim;
use super::failing;
use super::kind::JobKind;
use crate::list::fields::event::{PRODUCT_CHANGE, PRODUCT_STOCK_CHANGE};
use longshore_kernel::hold::Hold;
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// Deliveries that a chunk of several items may write.
pub const WIDEST: i64 = 100_000;

/// Halves a chunk that may write more; nothing of another.
///
/// # Errors
/// Those of the database, and of a payload that cannot be read.
pub async fn halve(services: &Services, claim: &Claim) -> Result<Option<Hold>, Problem> {
    let Some(event) = claim.kind.as_ref().ok().and_then(|kind| event_of(*kind)) else { return Ok(None) };
    if claim.item_count <= 1 {
        return Ok(None);
    }
    let webhooks = listening(&services.db.main, claim.organisation, event).await?;
    if i64::from(claim.item_count).saturating_mul(webhooks) <= WIDEST {
        return Ok(None);
    }
    failing::halve(services, claim).await.map(Some)
}

/// The event of changed items, in all e-shops that they are sold in or stored for.
fn event_of(kind: JobKind) -> Option<&'static str> {
    match kind {
        JobKind::ProductActivate | JobKind::ProductDeactivate | JobKind::ProductSync => {
            Some(PRODUCT_CHANGE.name)
        }
        JobKind::StockSync
        | JobKind::ExpeditionSync
        | JobKind::ExpeditionNews
        | JobKind::ExpeditionSend
        | JobKind::ExpeditionProcess
        | JobKind::ExpeditionRollback
        | JobKind::ExpeditionCancel => Some(PRODUCT_STOCK_CHANGE.name),
        _ => None,
    }
}

/// The webhooks of an organisation that hear of an event; of several organisations, those of the one that has most.
async fn listening(
    db: &PgPool,
    organisation: Option<OrganisationId>,
    event: &str,
) -> Result<i64, sqlx::Error> {
    let Some(organisation) = organisation else {
        return sqlx::query_scalar!(
            r#"SELECT coalesce(max(n), 0) AS "n!" FROM (
                   SELECT count(*) AS n FROM webhook WHERE $1 = ANY (events) GROUP BY organisation_id) AS of"#,
            event,
        )
        .fetch_one(db)
        .await;
    };
    sqlx::query_scalar!(
        r#"SELECT count(*) AS "n!" FROM webhook WHERE organisation_id = $1 AND $2 = ANY (events)"#,
        organisation.get(),
        event,
    )
    .fetch_one(db)
    .await
}
