//! Orders that a set-back of Postgres has left unclear: what a warehouse has of them is not known, or nobody can be asked for them
//! (`docs/reference/attention.md#lines`).

use chrono::{DateTime, Utc};
use longshore_domain::attention::{Kind, Line, Owner, Page};
use longshore_domain::job::shares::LISTED;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::figure::up_to;
use longshore_kernel::ids::{ExpeditionId, OrganisationId, WmsId};
use longshore_kernel::problem::Problem;

/// Orders of a wms that are looked at.
const COUNTED: i64 = 1_000;

/// The orders of a wms.
#[derive(Clone, Debug)]
struct Doubtful {
    wms_id: WmsId,
    wms: String,
    organisation_id: OrganisationId,
    organisation: String,
    /// The warehouse has them, and may have been given other items or another address.
    unknown: i64,
    /// They were asked back, and the wms has no active setting.
    unasked: i64,
    /// One of them, and when the last came.
    order: ExpeditionId,
    order_number: String,
    last: DateTime<Utc>,
}

/// A line for each wms that has such orders. A caller of one e-shop sees none: a warehouse is its organisation's.
pub(super) async fn lines(db: &Database, scope: &Scope) -> Result<Vec<Line>, Problem> {
    if scope.eshop().is_some() {
        return Ok(Vec::new());
    }
    let found = sqlx::query_as!(
        Doubtful,
        r#"WITH RECURSIVE having_doubt (wms_id) AS (
               -- from one wms to the next, by the index of what is in doubt
               (SELECT handover_wms_id FROM expedition_handover WHERE handover_in_doubt ORDER BY handover_wms_id LIMIT 1)
               UNION ALL
               SELECT following.handover_wms_id FROM having_doubt h CROSS JOIN LATERAL (
                   SELECT handover_wms_id FROM expedition_handover
                   WHERE handover_in_doubt AND handover_wms_id > h.wms_id ORDER BY handover_wms_id LIMIT 1) AS following
           ), counted AS (
               SELECT h.wms_id, w.name, w.organisation_id, c.*,
                      row_number() OVER (PARTITION BY w.organisation_id ORDER BY c.last DESC, h.wms_id) AS turn
               FROM having_doubt h
               JOIN wms w ON w.id = ANY (ARRAY[h.wms_id])
               CROSS JOIN LATERAL (
                   SELECT count(*) FILTER (WHERE l.is_unknown) AS unknown, count(*) FILTER (WHERE NOT l.is_unknown) AS unasked,
                          (array_agg(l.id ORDER BY l.since DESC, l.id))[1] AS id, max(l.since) AS last
                   FROM (
                       SELECT n.id, n.handover_since AS since, n.handover_state = 'accepted' AS is_unknown
                       FROM expedition_handover n JOIN expedition e ON e.id = ANY (ARRAY[n.id])
                       WHERE n.handover_wms_id = h.wms_id AND n.handover_in_doubt
                         -- what is packed is decided
                         AND e.status NOT IN ('waiting_for_the_carrier', 'carrier_picked_up', 'ready_to_takeover', 'probably_delivered',
                                              'delivered')
                         AND (n.handover_contents_unknown AND n.handover_state = 'accepted'
                              OR n.handover_state = 'withdrawing'
                                 AND NOT EXISTS (SELECT FROM wms_setting s WHERE s.wms_id = h.wms_id AND s.active))
                       LIMIT (SELECT $2::bigint)) AS l) AS c
               WHERE c.id IS NOT NULL AND in_scope($1, w.organisation_id)
               ORDER BY turn, c.last DESC, h.wms_id LIMIT $3
           )
           SELECT c.wms_id AS "wms_id!: WmsId", c.name AS "wms!", o.id AS "organisation_id: OrganisationId", o.name AS organisation,
                  c.unknown AS "unknown!", c.unasked AS "unasked!", c.id AS "order!: ExpeditionId",
                  d.order_number, c.last AS "last!"
           FROM counted c
           JOIN organisation o ON o.id = ANY (ARRAY[c.organisation_id])
           JOIN expedition_detail d ON d.id = ANY (ARRAY[c.id])
           ORDER BY c.last DESC, c.wms_id"#,
        scope.organisations() as Option<&[OrganisationId]>,
        COUNTED,
        LISTED,
    )
    .fetch_all(&db.main)
    .await?;
    Ok(found.iter().map(of_wms).collect())
}

fn of_wms(doubtful: &Doubtful) -> Line {
    let orders =
        |count: i64| format!("{} {}", up_to(count, COUNTED), if count == 1 { "order" } else { "orders" });
    let mut said = Vec::new();
    if doubtful.unknown > 0 {
        said.push(format!(
            "keeps {} that may have other items or another address there, since the database was set back: ask the warehouse",
            orders(doubtful.unknown)
        ));
    }
    if doubtful.unasked > 0 {
        said.push(format!(
            "has no active setting, so nobody is asked for {} that it may have: say as their status whether it gives them back",
            orders(doubtful.unasked)
        ));
    }
    let Doubtful { wms, organisation, order_number, .. } = doubtful;
    let sentence = format!("{wms} ({organisation}) {}. The last is {order_number}.", said.join("; "));
    let owner = Owner::Organisation(doubtful.organisation_id);
    let page = Page::Record("expedition", doubtful.order.into());
    let line = Line::new(Kind::DoubtfulOrders, &doubtful.wms_id.to_string(), owner, sentence, page);
    Line { word: "in doubt", cause: Some(doubtful.last), ..line }
}
