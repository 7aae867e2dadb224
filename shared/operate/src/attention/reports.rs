//! What warehouses reported of orders and was refused, and orders that they packed although they did not have them any more
//! (`docs/reference/attention.md#lines`).

use chrono::{DateTime, Utc};
use longshore_domain::attention::{Kind, Line, Owner, Page, Severity};
use longshore_domain::job::shares::LISTED;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::figure::{seconds, up_to};
use longshore_kernel::ids::{ExpeditionId, JobId, OrganisationId, WmsId};
use longshore_kernel::problem::Problem;

/// Days that are looked at.
const DAYS: i32 = 3;
/// Jobs of a warehouse whose refused reports are counted, and its orders that are.
const COUNTED: i64 = 1_000;

/// Reports of a warehouse that were refused.
#[derive(Clone, Debug)]
struct Refused {
    wms_id: WmsId,
    wms: String,
    organisation_id: OrganisationId,
    organisation: String,
    reports: i64,
    last: DateTime<Utc>,
    job: JobId,
    /// Why the first of the last job was refused.
    message: Option<String>,
}

/// Orders that a warehouse packed although they were canceled or given back.
#[derive(Clone, Debug)]
struct Packed {
    wms_id: WmsId,
    wms: String,
    organisation_id: OrganisationId,
    organisation: String,
    orders: i64,
    last: DateTime<Utc>,
    order: ExpeditionId,
    order_number: String,
}

/// The lines about both. A caller of one e-shop sees none: a warehouse is its organisation's.
pub(super) async fn lines(db: &Database, scope: &Scope, now: DateTime<Utc>) -> Result<Vec<Line>, Problem> {
    if scope.eshop().is_some() {
        return Ok(Vec::new());
    }
    let (refused, packed) = tokio::try_join!(refused(db, scope), packed(db, scope))?;
    let packed = packed.iter().map(|packed| of_packed(packed, now));
    Ok(packed.chain(refused.iter().map(|refused| of_refused(refused, now))).collect())
}

async fn refused(db: &Database, scope: &Scope) -> Result<Vec<Refused>, Problem> {
    let found = sqlx::query_as!(
        Refused,
        r#"WITH RECURSIVE last (organisation_id, sequence, id, created_at, parameters) AS (
               -- from one line of reports to the one before, the last job of each
               (SELECT organisation_id, sequence, id, created_at, parameters FROM job
                WHERE kind = 'expedition.news' AND state = 'succeeded' AND failed > 0
                ORDER BY organisation_id DESC, sequence DESC, created_at DESC LIMIT 1)
               UNION ALL
               SELECT previous.* FROM last l CROSS JOIN LATERAL (
                   SELECT organisation_id, sequence, id, created_at, parameters FROM job
                   WHERE kind = 'expedition.news' AND state = 'succeeded' AND failed > 0
                     AND (organisation_id, sequence) < (l.organisation_id, l.sequence)
                   ORDER BY organisation_id DESC, sequence DESC, created_at DESC LIMIT 1) AS previous
           ), named AS (
               SELECT *, row_number() OVER (PARTITION BY organisation_id ORDER BY created_at DESC, id) AS turn
               FROM last WHERE created_at > now() - make_interval(days => $2) AND in_scope($1, organisation_id)
               ORDER BY turn, created_at DESC, id LIMIT $4
           )
           SELECT w.id AS "wms_id: WmsId", w.name AS wms, o.id AS "organisation_id: OrganisationId", o.name AS organisation,
                  counted.reports AS "reports!", n.created_at AS "last!", n.id AS "job!: JobId",
                  (SELECT left(e.message, 200) FROM job_item_error e WHERE e.job_id = ANY (ARRAY[n.id]) AND NOT e.notice
                   ORDER BY e.job_id, e.index LIMIT 1) AS message
           FROM named n
           JOIN wms w ON w.id = ANY (ARRAY[(n.parameters ->> 'wms')::uuid])
           JOIN organisation o ON o.id = ANY (ARRAY[n.organisation_id])
           CROSS JOIN LATERAL (
               SELECT sum(failed) AS reports FROM (
                   SELECT failed FROM job
                   WHERE kind = 'expedition.news' AND state = 'succeeded' AND failed > 0
                     AND organisation_id = n.organisation_id AND sequence = n.sequence
                     AND created_at > now() - make_interval(days => $2)
                   ORDER BY organisation_id DESC, sequence DESC, created_at DESC LIMIT (SELECT $3::bigint)) AS jobs) AS counted
           ORDER BY n.created_at DESC, n.id"#,
        scope.organisations() as Option<&[OrganisationId]>,
        DAYS,
        COUNTED,
        LISTED,
    )
    .fetch_all(&db.main)
    .await?;
    Ok(found)
}

async fn packed(db: &Database, scope: &Scope) -> Result<Vec<Packed>, Problem> {
    let found = sqlx::query_as!(
        Packed,
        r#"WITH RECURSIVE last (wms_id, expedition_id, at) AS (
               (SELECT wms_id, expedition_id, at FROM wms_contradiction ORDER BY wms_id DESC, at DESC LIMIT 1)
               UNION ALL
               SELECT previous.* FROM last l CROSS JOIN LATERAL (
                   SELECT wms_id, expedition_id, at FROM wms_contradiction
                   WHERE wms_id < l.wms_id ORDER BY wms_id DESC, at DESC LIMIT 1) AS previous
           ), named AS (
               SELECT l.*, w.name, w.organisation_id,
                      row_number() OVER (PARTITION BY w.organisation_id ORDER BY l.at DESC, l.wms_id) AS turn
               FROM last l JOIN wms w ON w.id = ANY (ARRAY[l.wms_id])
               WHERE l.at > now() - make_interval(days => $2) AND in_scope($1, w.organisation_id)
               ORDER BY turn, l.at DESC, l.wms_id LIMIT $4
           )
           SELECT n.wms_id AS "wms_id!: WmsId", n.name AS wms, o.id AS "organisation_id: OrganisationId", o.name AS organisation,
                  counted.orders AS "orders!", n.at AS "last!", n.expedition_id AS "order!: ExpeditionId",
                  d.order_number AS "order_number!"
           FROM named n
           JOIN organisation o ON o.id = ANY (ARRAY[n.organisation_id])
           JOIN expedition_detail d ON d.id = ANY (ARRAY[n.expedition_id])
           CROSS JOIN LATERAL (
               SELECT count(DISTINCT expedition_id) AS orders FROM (
                   SELECT expedition_id FROM wms_contradiction c
                   WHERE c.wms_id = n.wms_id AND c.at > now() - make_interval(days => $2)
                   LIMIT (SELECT $3::bigint)) AS c) AS counted
           ORDER BY n.at DESC, n.wms_id"#,
        scope.organisations() as Option<&[OrganisationId]>,
        DAYS,
        COUNTED,
        LISTED,
    )
    .fetch_all(&db.main)
    .await?;
    Ok(found)
}

fn of_refused(refused: &Refused, now: DateTime<Utc>) -> Line {
    let reports = if refused.reports == 1 { "report was" } else { "reports were" };
    let sentence = format!(
        "{} ({}): {} {reports} refused in {DAYS} days, the last {} ago{}",
        refused.wms,
        refused.organisation,
        up_to(refused.reports, COUNTED),
        seconds((now - refused.last).as_seconds_f64()),
        refused.message.as_deref().map_or_else(|| ".".to_owned(), |message| format!(": {message}")),
    );
    let owner = Owner::Organisation(refused.organisation_id);
    let page = Page::Record("job", refused.job.into());
    let line = Line::new(Kind::RefusedReports, &refused.wms_id.to_string(), owner, sentence, page);
    Line { severity: Severity::Warning, word: "refused", cause: Some(refused.last), ..line }
}

fn of_packed(packed: &Packed, now: DateTime<Utc>) -> Line {
    let (orders, their) = if packed.orders == 1 {
        ("order was packed although it was canceled or given back", "Its")
    } else {
        ("orders were packed although they were canceled or given back", "Their")
    };
    let sentence = format!(
        "{} ({}): {} {orders}, the last {} ago: {}. {their} pieces left the stock.",
        packed.wms,
        packed.organisation,
        up_to(packed.orders, COUNTED),
        seconds((now - packed.last).as_seconds_f64()),
        packed.order_number,
    );
    let owner = Owner::Organisation(packed.organisation_id);
    let page = Page::Record("expedition", packed.order.into());
    let line = Line::new(Kind::ContradictedOrders, &packed.wms_id.to_string(), owner, sentence, page);
    Line { word: "packed", cause: Some(packed.last), ..line }
}
