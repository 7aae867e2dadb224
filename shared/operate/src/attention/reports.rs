//! What warehouses reported of orders and was refused, orders that they packed although they did not have them any more, and orders
//! that only they have (`docs/reference/attention.md#lines`).

use chrono::{DateTime, Utc};
use longshore_domain::attention::{Kind, Line, Owner, Page, Severity};
use longshore_domain::expedition::news::lost::MOST;
use longshore_domain::job::shares::LISTED;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::figure::{seconds, up_to};
use longshore_kernel::ids::{ExpeditionId, JobId, OrganisationId, WmsId};
use longshore_kernel::problem::Problem;
use uuid::Uuid;

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

/// Orders that a warehouse packed although they were canceled or given back, or that it has by a number that is lost.
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
    /// Some of them it has by a number that is lost.
    has_lost: bool,
}

/// Orders that a warehouse reports of since Postgres was set back, and that are not here.
#[derive(Clone, Debug)]
struct Lost {
    wms_id: WmsId,
    wms: String,
    organisation_id: OrganisationId,
    organisation: String,
    orders: i64,
    first: DateTime<Utc>,
    /// The first report of the last one.
    last: DateTime<Utc>,
    /// What the warehouse calls that, and the number of its hand-over.
    order: Uuid,
    number: Option<i32>,
}

/// The lines about them. A caller of one e-shop sees none: a warehouse is its organisation's.
pub(super) async fn lines(db: &Database, scope: &Scope, now: DateTime<Utc>) -> Result<Vec<Line>, Problem> {
    if scope.eshop().is_some() {
        return Ok(Vec::new());
    }
    let (refused, packed, lost) = tokio::try_join!(refused(db, scope), packed(db, scope), lost(db, scope))?;
    let packed = packed.iter().map(|packed| of_packed(packed, now));
    let lost = lost.iter().map(|lost| of_lost(lost, now));
    Ok(packed.chain(lost).chain(refused.iter().map(|refused| of_refused(refused, now))).collect())
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
                  d.order_number AS "order_number!", counted.has_lost AS "has_lost!"
           FROM named n
           JOIN organisation o ON o.id = ANY (ARRAY[n.organisation_id])
           JOIN expedition_detail d ON d.id = ANY (ARRAY[n.expedition_id])
           CROSS JOIN LATERAL (
               SELECT count(DISTINCT expedition_id) AS orders, bool_or(is_lost) AS has_lost FROM (
                   SELECT expedition_id, is_lost FROM wms_contradiction c
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

async fn lost(db: &Database, scope: &Scope) -> Result<Vec<Lost>, Problem> {
    let found = sqlx::query_as!(
        Lost,
        r#"WITH RECURSIVE last (wms_id, created_at, expedition_id, number) AS (
               (SELECT wms_id, created_at, expedition_id, number FROM wms_lost_order ORDER BY wms_id DESC, created_at DESC LIMIT 1)
               UNION ALL
               SELECT previous.* FROM last l CROSS JOIN LATERAL (
                   SELECT wms_id, created_at, expedition_id, number FROM wms_lost_order
                   WHERE wms_id < l.wms_id ORDER BY wms_id DESC, created_at DESC LIMIT 1) AS previous
           ), named AS (
               SELECT l.*, w.name, w.organisation_id,
                      row_number() OVER (PARTITION BY w.organisation_id ORDER BY l.created_at DESC, l.wms_id) AS turn
               FROM last l JOIN wms w ON w.id = ANY (ARRAY[l.wms_id])
               WHERE in_scope($1, w.organisation_id)
               ORDER BY turn, l.created_at DESC, l.wms_id LIMIT $2
           )
           SELECT n.wms_id AS "wms_id!: WmsId", n.name AS wms, o.id AS "organisation_id: OrganisationId", o.name AS organisation,
                  counted.orders AS "orders!", counted.first AS "first!", n.created_at AS "last!", n.expedition_id AS "order!",
                  n.number
           FROM named n
           JOIN organisation o ON o.id = ANY (ARRAY[n.organisation_id])
           CROSS JOIN LATERAL (
               SELECT count(*) AS orders, min(created_at) AS first FROM wms_lost_order k WHERE k.wms_id = n.wms_id) AS counted
           ORDER BY n.created_at DESC, n.wms_id"#,
        scope.organisations() as Option<&[OrganisationId]>,
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
    let (orders, end) = match (packed.orders == 1, packed.has_lost) {
        (true, false) => {
            ("order was packed although it was canceled or given back", "Its pieces left the stock.")
        }
        (false, false) => {
            ("orders were packed although they were canceled or given back", "Their pieces left the stock.")
        }
        (true, true) => (
            "order is in the warehouse by a number that is not known here",
            "What was packed left the stock.",
        ),
        (false, true) => (
            "orders are in the warehouse by a number that is not known here, or were packed although they were canceled or given back",
            "What was packed left the stock.",
        ),
    };
    let sentence = format!(
        "{} ({}): {} {orders}, the last {} ago: {}. {end}",
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

fn of_lost(lost: &Lost, now: DateTime<Utc>) -> Line {
    let ago = |at: DateTime<Utc>| seconds((now - at).as_seconds_f64());
    let orders = if lost.orders == 1 { "reported order is not here" } else { "reported orders are not here" };
    let number = lost.number.map_or_else(String::new, |number| format!(", number {number}"));
    let full = if lost.orders < MOST { "" } else { " Reports of others are refused." };
    let sentence = format!(
        "{} ({}): {} {orders} since Postgres was set back, the first for {}, the last for {}: {}{number}.{full}",
        lost.wms,
        lost.organisation,
        up_to(lost.orders, MOST),
        ago(lost.first),
        ago(lost.last),
        lost.order,
    );
    let owner = Owner::Organisation(lost.organisation_id);
    let page = Page::Record("wms", lost.wms_id.into());
    let line = Line::new(Kind::LostOrders, &lost.wms_id.to_string(), owner, sentence, page);
    Line { severity: Severity::Warning, word: "lost", cause: Some(lost.last), ..line }
}
