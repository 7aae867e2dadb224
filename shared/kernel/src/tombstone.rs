//! Tombstones: what was permanently deleted, so that reading it answers 410 (`docs/reference/records.md#delete`).
//!
//! A deletion adds a common table expression to its statement, and look-ups of missing records use [`missing`]:
//!
//! ```sql
//! buried AS (
//!     INSERT INTO tombstone (entity_type, entity_id, organisation_id, deleted_by)
//!     SELECT 'webhook', id, organisation_id, $3 FROM made
//! )
//! ```
//!
//! (`$3` is the actor's name in [`record_change!`](crate::record_change).) A record that may come back under the same id
//! takes its tombstone away when it does.

use sqlx::PgExecutor;
use uuid::Uuid;

use super::problem::Problem;
use crate::access::Scope;
use crate::ids::{EshopId, OrganisationId, TokenId, WmsId};

/// Why a record is not there: [`GONE`](super::problem::GONE) where the caller could have seen it before it was deleted, else
/// [`NOT_FOUND`](super::problem::NOT_FOUND).
pub async fn missing<'c>(
    connection: impl PgExecutor<'c>,
    scope: &Scope,
    entity_type: &str,
    id: impl Into<Uuid>,
) -> Problem {
    let buried = sqlx::query_scalar!(
        r#"SELECT EXISTS (
               SELECT FROM tombstone
               WHERE entity_id = $1 AND entity_type = $2 AND in_scope($3, organisation_id)
                 AND (eshop_id IS NULL OR in_eshop($4, eshop_id)) AND $5::uuid IS NULL
                 AND (made_by IS NULL OR in_hands($6, made_by))
           ) AS "buried!""#,
        id.into(),
        entity_type,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        // what a wms has is not deleted
        scope.wms() as Option<WmsId>,
        scope.maker() as Option<TokenId>,
    )
    .fetch_one(connection)
    .await;
    match buried {
        Ok(true) => Problem::gone(entity_type),
        Ok(false) => Problem::not_found(entity_type),
        Err(error) => error.into(),
    }
}
