//! The setting of a wms: how the system of its warehouse is reached (`docs/reference/orders.md#setting-of-a-wms`). Without an active
//! one, orders of the wms go on by hand.
//!
//! Credentials and the secret are sealed at rest. Credentials are shown masked, the secret once. The lane of the wms is made with its
//! setting, so workers find it.

pub mod body;
pub mod rotation;
pub mod store;
pub mod trial;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::PgConnection;

use self::body::Fields;
use longshore_kernel::access::Scope;
use longshore_kernel::answer::Answer;
use longshore_kernel::authentication::Authentication;
use longshore_kernel::crypto::Vault;
use longshore_kernel::ids::{OrganisationId, WmsId};
use longshore_kernel::problem::{CORRUPTED_DATA, Problem};
use longshore_kernel::services::Services;
use longshore_kernel::tombstone;

/// Its entity type, in the audit and on tombstones.
const ENTITY: &str = "wms_setting";

/// The place of its secret in the vault.
fn secret_place(wms: WmsId) -> String {
    format!("wms_setting.secret:{wms}")
}

/// The place of its credentials.
fn credentials_place(wms: WmsId) -> String {
    format!("wms_setting.credentials:{wms}")
}

fn corrupted(what: &str) -> Problem {
    Problem::new(&CORRUPTED_DATA, format!("the stored {what} of the setting of the wms cannot be read"))
}

/// Opens its secret, or one that was rotated away.
pub(super) fn open_secret(vault: &Vault, wms: WmsId, sealed: &[u8]) -> Result<Vec<u8>, Problem> {
    vault.open(&secret_place(wms), sealed).map_err(|_| corrupted("secret"))
}

/// Opens its credentials.
pub(super) fn open_credentials(vault: &Vault, wms: WmsId, sealed: &[u8]) -> Result<Authentication, Problem> {
    let opened = vault.open(&credentials_place(wms), sealed).map_err(|_| corrupted("credentials"))?;
    serde_json::from_slice(&opened).map_err(|_| corrupted("credentials"))
}

fn location(wms: WmsId) -> String {
    format!("/api/partner-integration/wms-setting/{wms}")
}

/// A setting as it is stored, with the state of its lane.
struct Row {
    wms: WmsId,
    organisation: OrganisationId,
    active: bool,
    paused: bool,
    base_url: String,
    credentials: Vec<u8>,
    max_in_flight: i32,
    since: Option<DateTime<Utc>>,
    to_hand_over: i64,
    version: i64,
    created_at: DateTime<Utc>,
    changed_at: DateTime<Utc>,
    blocked_until: Option<DateTime<Utc>>,
    blocked_by: Option<String>,
    last_error: Option<Value>,
    waiting: i64,
    oldest_waiting_since: Option<DateTime<Utc>>,
}

async fn row(connection: &mut PgConnection, wms: WmsId) -> Result<Option<Row>, sqlx::Error> {
    let to_hand_over = to_hand_over(connection, wms).await?;
    sqlx::query_as!(
        Row,
        r#"SELECT s.wms_id AS wms, s.organisation_id AS organisation, s.active, s.paused, s.base_url, s.credentials,
                  s.max_in_flight, nullif(s.since, '-infinity') AS since, $2::bigint AS "to_hand_over!", s.version, s.created_at, s.changed_at,
                  (SELECT u FROM (SELECT greatest(l.probe_at, l.held_until) AS u) AS b WHERE u > now()) AS blocked_until,
                  CASE WHEN EXISTS (SELECT FROM set_back WHERE mended_at IS NULL) THEN 'set_back' END AS blocked_by,
                  CASE WHEN l.error IS NOT NULL THEN jsonb_build_object(
                      'at', to_char(l.error_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"'),
                      'message', l.error, 'expedition', l.error_expedition_id) END AS last_error,
                  w.n AS "waiting!", w.since AS oldest_waiting_since
           FROM wms_setting s JOIN wms_lane l ON l.wms_id = s.wms_id
           CROSS JOIN LATERAL (
               SELECT count(*) AS n, min(h.handover_since) AS since FROM expedition_handover h
               WHERE h.handover_wms_id = s.wms_id AND h.handover_state IN ('pending', 'sending', 'withdrawing')
           ) w
           WHERE s.wms_id = $1"#,
        wms.get(),
        to_hand_over,
    )
    .fetch_optional(connection)
    .await
}

/// How many orders become due when the setting of a wms is switched on, whether it has one or not.
pub async fn to_become_due(services: &Services, scope: &Scope, wms: WmsId) -> Result<i64, Problem> {
    let mut connection = services.db.main.acquire().await?;
    of_scope(&mut connection, scope, wms, false).await?;
    Ok(to_hand_over(&mut connection, wms).await?)
}

/// The orders that are `awaiting_processing` in a wms, and not due.
async fn to_hand_over(connection: &mut PgConnection, wms: WmsId) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT count(*) AS "orders!" FROM wms m
           LEFT JOIN wms_setting s ON s.wms_id = m.id
           JOIN expedition e ON e.organisation_id = m.organisation_id AND e.status = 'awaiting_processing' AND e.wms_id = m.id
           LEFT JOIN expedition_handover h ON h.id = e.id
           -- of a setting that is in use, every order is due
           WHERE m.id = $1 AND (s.wms_id IS NULL OR s.fills OR NOT s.active)
             AND e.created_at >= coalesce(s.since, '-infinity') AND coalesce(h.handover_state IN ('refused', 'withdrawn'), true)"#,
        wms.get(),
    )
    .fetch_one(connection)
    .await
}

impl Row {
    fn fields(&self, vault: &Vault) -> Result<(Fields, Authentication), Problem> {
        let (active, paused, base_url) = (self.active, self.paused, self.base_url.clone());
        let fields =
            Fields { active, paused, base_url, max_in_flight: self.max_in_flight, since: self.since };
        Ok((fields, open_credentials(vault, self.wms, &self.credentials)?))
    }

    fn answer(&self, vault: &Vault) -> Result<Answer, Problem> {
        let moment = |at: DateTime<Utc>| at.format("%Y-%m-%dT%H:%M:%S%.6f%:z").to_string();
        let (fields, credentials) = self.fields(vault)?;
        let body = json!({
            "wms": self.wms,
            "organisation": self.organisation,
            "active": fields.active,
            "paused": fields.paused,
            "baseUrl": fields.base_url,
            "credentials": Authentication::masked(credentials.kind()),
            "maxInFlight": fields.max_in_flight,
            "since": fields.since.map(moment),
            "toHandOver": self.to_hand_over,
            "blockedUntil": self.blocked_until.map(moment),
            "blockedBy": self.blocked_by,
            "lastError": self.last_error,
            "waiting": self.waiting,
            "oldestWaitingSince": self.oldest_waiting_since.map(moment),
            "createdAt": moment(self.created_at),
            "changedAt": moment(self.changed_at),
            "version": self.version,
        });
        Ok(Answer::updated(location(self.wms), self.version, body.to_string()))
    }
}

/// Reads a setting (`GET /api/partner-integration/wms-setting/{wmsId}`).
pub async fn find(services: &Services, scope: &Scope, wms: WmsId) -> Result<Answer, Problem> {
    let mut connection = services.db.main.acquire().await?;
    of_scope(&mut connection, scope, wms, false).await?;
    match row(&mut connection, wms).await? {
        Some(row) => row.answer(&services.vault),
        None => Err(tombstone::missing(&mut *connection, scope, ENTITY, wms.get()).await),
    }
}

/// The organisation of a wms of the scope; the wms is locked if its setting is about to change.
async fn of_scope(
    connection: &mut PgConnection,
    scope: &Scope,
    wms: WmsId,
    lock: bool,
) -> Result<OrganisationId, Problem> {
    let organisation = sqlx::query_scalar!(
        r#"SELECT organisation_id AS "id: OrganisationId" FROM wms WHERE id = $2 AND in_scope($1, organisation_id)"#,
        scope.organisations() as Option<&[OrganisationId]>,
        wms.get(),
    )
    .fetch_optional(&mut *connection)
    .await?
    .ok_or_else(|| Problem::not_found("wms"))?;
    if lock {
        sqlx::query!("SELECT FROM wms WHERE id = $1 FOR NO KEY UPDATE", wms.get())
            .execute(connection)
            .await?;
    }
    Ok(organisation)
}
