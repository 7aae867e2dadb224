//! A test of the connection to the system of a warehouse (`docs/reference/warehouse-systems.md#connection-test`).

use chrono::{DateTime, Utc};
use http::{HeaderName, HeaderValue};
use tokio::time::Instant;

use super::{ENTITY, of_scope, open_credentials, open_secret};
use crate::calling::PostgresTime;
use crate::calling::signature::Signer;
use crate::job::connection;
use crate::job::kind::TestWms;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::ids::WmsId;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;
use longshore_kernel::tombstone;

/// Accepts a test (`POST /api/partner-integration/wms-setting/{wmsId}/test`), also of a setting that is not active or paused: it can
/// be tried before it is switched on.
pub async fn test(services: &Services, context: &Context, wms: WmsId) -> Result<Answer, Problem> {
    let scope = context.scope();
    let mut change = Change::begin(services).await?;
    let organisation = of_scope(change.connection(), scope, wms, true).await?;
    let stored = sqlx::query_scalar!("SELECT wms_id FROM wms_setting WHERE wms_id = $1", wms.get())
        .fetch_optional(change.connection())
        .await?;
    let Some(id) = stored else {
        return Err(tombstone::missing(change.connection(), scope, ENTITY, wms.get()).await);
    };
    let setting = connection::Setting { entity: (ENTITY, id), of: wms.get(), organisation, eshop: None };
    connection::accept(change, context, &TestWms { wms }, setting).await
}

/// What a single call of a system needs, outside of its lane.
#[derive(Debug)]
pub struct Contact {
    /// Where the system is.
    pub base_url: String,
    /// Signs with the live secrets.
    pub signer: Signer,
    /// The header that authenticates to it.
    pub authentication: Option<(HeaderName, HeaderValue)>,
    /// The clock for the timestamp of the call.
    pub time: PostgresTime,
}

/// Reads it; nothing where the wms has no setting. No lease is needed: a test has no order, and says nothing to the breaker.
pub async fn contact(services: &Services, wms: WmsId) -> Result<Option<Contact>, Problem> {
    struct Row {
        base_url: String,
        credentials: Vec<u8>,
        secrets: Vec<Vec<u8>>,
        now: DateTime<Utc>,
    }
    let row = sqlx::query_as!(
        Row,
        r#"SELECT s.base_url, s.credentials, clock_timestamp() AS "now!",
                  array_prepend(s.secret, ARRAY(
                      SELECT f.secret FROM wms_former_secret f WHERE f.wms_id = $1 AND f.signs_until > now()
                      ORDER BY f.signs_until DESC)) AS "secrets!"
           FROM wms_setting s WHERE s.wms_id = $1"#,
        wms.get(),
    )
    .fetch_optional(&services.db.main)
    .await?;
    let read = Instant::now();
    let Some(row) = row else { return Ok(None) };
    let vault = &services.vault;
    let secrets =
        row.secrets.iter().map(|sealed| open_secret(vault, wms, sealed)).collect::<Result<Vec<_>, _>>()?;
    Ok(Some(Contact {
        base_url: row.base_url,
        signer: Signer::new(secrets),
        authentication: open_credentials(vault, wms, &row.credentials)?.header(),
        time: PostgresTime::new(row.now, read),
    }))
}
