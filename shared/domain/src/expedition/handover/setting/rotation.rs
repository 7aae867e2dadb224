//! Rotation: of the secret of a wms (`calling::secret`), and of the keys that seal its setting.

use super::{ENTITY, credentials_place, of_scope, row, secret_place};
use crate::calling::secret;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::ids::WmsId;
use longshore_kernel::problem::Problem;
use longshore_kernel::resealing::SealedTable;
use longshore_kernel::sealed_table;
use longshore_kernel::services::Services;
use longshore_kernel::tombstone;

secret::signing!(
    WmsId,
    "wms",
    secret_place,
    "wms_setting",
    "wms_id",
    "wms_former_secret",
    "wms_lane",
    "wms_id"
);

/// Rotates the secret (`PUT …/rotate-secret`). It is shown in this answer, and in no replay of it.
pub async fn rotate_secret(services: &Services, context: &Context, wms: WmsId) -> Result<Answer, Problem> {
    let scope = context.scope();
    let mut change = Change::begin(services).await?;
    of_scope(change.connection(), scope, wms, true).await?;
    let rotated = secret::rotate(&mut change, context, wms).await?;
    let Some(stored) = row(change.connection(), wms).await? else {
        return Err(tombstone::missing(change.connection(), scope, ENTITY, wms.get()).await);
    };
    let answer = rotated.answer(change, context, stored.answer(&services.vault)?).await?;
    if let Some(token) = rotated.held {
        secret::until_ending(&services.db, wms, token).await;
    }
    Ok(answer)
}

/// The secrets and credentials of settings.
pub const SEALED: SealedTable = sealed_table!(
    "wms_setting",
    "wms_id",
    ["secret" => secret_place, "credentials" => credentials_place],
    |id, error| tracing::warn!(wms.id = %id, %error, "the stored secrets of a wms cannot be read")
);

/// Their secrets that were rotated away and still sign.
pub const SEALED_FORMER: SealedTable = sealed_table!(
    "wms_former_secret" examined "signs_until > now()",
    "wms_id",
    ["secret" => secret_place],
    |id, error| tracing::warn!(wms.id = %id, %error, "a former secret of a wms cannot be read")
);
