//! What always holds of orders and their stocks, as queries that find what breaks it: for `doctor`, and for tests.

use sqlx::PgPool;

use longshore_kernel::problem::Problem;

/// Rows of each kind that are named.
const NAMED: i64 = 10;

/// Something that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// What should hold.
    pub rule: &'static str,
    /// The first rows that break it, by what identifies them.
    pub rows: Vec<String>,
    /// What an operator does about it.
    pub remedy: &'static str,
}

/// No fault of another program leads there.
const REPORT: &str =
    "keep a copy of these rows and of the audit, and report it: no operation of the service should lead here";
/// An order was forgotten.
const REBOOK: &str = "PATCH /api/expedition/{id}/rebook, or Rebook on its page of the console, lets each of these orders take its turn again; report it, too";
/// An order is not due although it should be.
const HAND_OVER: &str =
    "switch the setting of the wms off and on again, which makes these orders due; report it, too";
/// A stock is not marked.
const ALLOCATE: &str = "see that a worker runs, and what its log says after \"cannot allocate\" (docs/runbook.md#marks-of-stocks-stay)";
/// An earlier version took a moment before the end of the year 9999 that Postgres rounds up; such a record cannot be read.
const YEARS: &str = "an earlier version took them: set them to another time in Postgres, as the role that owns the tables (UPDATE expedition_detail SET eshop_order_date = NULL WHERE id = …; UPDATE stock_advice SET expected_at = … WHERE id = …)";

/// The rules, each with the query of the rows that break it, and the remedy. They name statuses themselves, since they also check the
/// functions that the service uses. A marked stock is one that the allocator is about to
/// look at.
const RULES: &[(&str, &str, &str)] = &[
    (
        "a stock holds what its orders have booked, and misses what they wait for",
        "SELECT format('stock %s has held %s and missing %s; its orders have %s and %s',
                       coalesce(s.id::text, '(none) of product ' || i.product_id), coalesce(s.held, 0),
                       coalesce(s.missing, 0), coalesce(i.held, 0), coalesce(i.missing, 0))
         FROM product_stock s
         FULL JOIN (
             SELECT i.product_id, e.warehouse_id, e.wms_id,
                    sum(i.quantity) FILTER (WHERE e.status IN ('stock_ok', 'awaiting_processing', 'take_out', 'completion',
                                                               'waiting_for_cancel')) AS held,
                    sum(i.quantity) FILTER (WHERE e.status IN ('awaiting_reservation', 'waiting_for_goods')) AS missing
             FROM expedition e JOIN expedition_item i ON i.expedition_id = e.id
             WHERE e.status IN ('awaiting_reservation', 'waiting_for_goods', 'stock_ok', 'awaiting_processing', 'take_out',
                                'completion', 'waiting_for_cancel')
             GROUP BY 1, 2, 3
         ) i ON i.product_id = s.product_id AND i.warehouse_id = s.warehouse_id AND i.wms_id = s.wms_id
         WHERE (s.held, s.missing) IS DISTINCT FROM (coalesce(i.held, 0), coalesce(i.missing, 0))",
        REPORT,
    ),
    (
        "a stock has what its movements come to",
        "SELECT format('stock %s has %s pieces and %s incoming; its movements come to %s and %s', s.id, s.quantity, s.incoming,
                       coalesce(m.quantity, 0), coalesce(m.incoming, 0))
         FROM product_stock s
         LEFT JOIN (SELECT product_id, warehouse_id, wms_id, sum(quantity) AS quantity, sum(incoming) AS incoming
                    FROM stock_movement GROUP BY 1, 2, 3) m
             ON m.product_id = s.product_id AND m.warehouse_id = s.warehouse_id AND m.wms_id = s.wms_id
         WHERE (s.quantity, s.incoming) IS DISTINCT FROM (coalesce(m.quantity, 0), coalesce(m.incoming, 0))",
        REPORT,
    ),
    (
        "an order waits for no unmarked stock that has enough for it",
        "SELECT format('order %s waits for %s pieces of stock %s, which has %s free', e.id, e.waits_quantity, s.id,
                       s.quantity - s.held)
         FROM expedition e JOIN product_stock s ON s.id = e.waits_for_id
         WHERE s.marked_at IS NULL AND (e.status = 'awaiting_reservation' OR e.waits_quantity <= s.quantity - s.held)",
        REBOOK,
    ),
    (
        "bookings are covered by what is there, but for those that are handed over",
        "SELECT format('stock %s holds %s of %s pieces', s.id, s.held, s.quantity)
         FROM product_stock s
         WHERE s.held > s.quantity AND s.marked_at IS NULL AND EXISTS (
             SELECT FROM expedition_item i JOIN expedition e ON e.id = i.expedition_id
             LEFT JOIN expedition_handover n ON n.id = e.id
             WHERE i.product_id = s.product_id AND i.expedited IS NULL AND e.warehouse_id = s.warehouse_id
               AND e.wms_id = s.wms_id AND e.status IN ('stock_ok', 'awaiting_processing')
               AND NOT is_handed_over(e.status, n.handover_state))",
        REPORT,
    ),
    (
        "an order that waits for goods names one of its own stocks, and what it needs of it",
        "SELECT format('order %s waits for %s pieces of stock %s', e.id, e.waits_quantity, e.waits_for_id)
         FROM expedition e
         WHERE e.waits_for_id IS NOT NULL AND e.waits_quantity IS DISTINCT FROM (
             SELECT sum(i.quantity) FROM expedition_item i JOIN product_stock s ON s.product_id = i.product_id
             WHERE i.expedition_id = e.id AND s.id = e.waits_for_id AND s.warehouse_id = e.warehouse_id
               AND s.wms_id = e.wms_id)",
        REBOOK,
    ),
    (
        "a packed order says what left, and no other does",
        "SELECT format('item %s of order %s, which is %s, has expedited %s', i.id, e.id, e.status, i.expedited)
         FROM expedition_item i JOIN expedition e ON e.id = i.expedition_id
         WHERE (i.expedited IS NOT NULL)
               <> (e.status IN ('waiting_for_the_carrier', 'carrier_picked_up', 'ready_to_takeover', 'probably_delivered',
                                'delivered'))",
        REPORT,
    ),
    (
        "no order is taken back that its warehouse may have",
        "SELECT format('order %s is %s, and its hand-over is %s', e.id, e.status, h.handover_state)
         FROM expedition_handover h JOIN expedition e ON e.id = h.id
         WHERE h.handover_state IN ('sending', 'accepted', 'withdrawing')
               AND NOT is_handed_over(e.status, NULL) AND e.status <> 'awaiting_processing'
               -- since a set-back it may have one, whatever its status is
               AND NOT h.handover_in_doubt
            OR h.handover_state = 'pending' AND e.status <> 'awaiting_processing'
            OR h.handover_state IN ('refused', 'withdrawn') AND e.status = 'waiting_for_cancel'",
        REPORT,
    ),
    (
        "an order that a warehouse can begin with is due, or its warehouse has it",
        "SELECT format('order %s is awaiting_processing since %s, and its hand-over is %s', e.id, e.status_since,
                       coalesce(h.handover_state, 'none'))
         FROM wms_setting s
         JOIN expedition e ON e.organisation_id = s.organisation_id AND e.status = 'awaiting_processing' AND e.wms_id = s.wms_id
         LEFT JOIN expedition_handover h ON h.id = e.id
         WHERE s.active AND NOT s.fills AND e.created_at >= s.since
           AND coalesce(h.handover_state NOT IN ('pending', 'sending', 'accepted', 'withdrawing'), true)",
        HAND_OVER,
    ),
    (
        "marks go within a minute",
        "SELECT format('%s in %s, %s: marked since %s', p.product_sku, w.name, m.name, s.marked_at)
         FROM product_stock s
         JOIN product p ON p.id = s.product_id JOIN warehouse w ON w.id = s.warehouse_id JOIN wms m ON m.id = s.wms_id
         WHERE s.marked_at < now() - interval '1 minute'",
        ALLOCATE,
    ),
    (
        "dates have years of four digits",
        "SELECT format('the eshopOrderDate of order %s is %s', id, eshop_order_date) FROM expedition_detail
         WHERE eshop_order_date >= '10000-01-01T00:00:00Z'
         UNION ALL
         SELECT format('the expectedAt of stock advice %s is %s', id, expected_at) FROM stock_advice
         WHERE expected_at >= '10000-01-01T00:00:00Z'",
        YEARS,
    ),
];

/// The rules by their names.
pub fn rules() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|(rule, ..)| *rule)
}

/// Finds what does not hold. It reads all open orders and all stocks.
pub async fn broken(pool: &PgPool) -> Result<Vec<Broken>, Problem> {
    let mut found = Vec::new();
    for (rule, query, remedy) in RULES {
        let rows = first(pool, query).await?;
        if !rows.is_empty() {
            found.push(Broken { rule, rows, remedy });
        }
    }
    Ok(found)
}

/// Products that orders wait for in one place while there are enough in another: no rule is broken, and yet no order is served.
pub async fn elsewhere(pool: &PgPool) -> Result<Vec<String>, Problem> {
    first(
        pool,
        "SELECT format('%s: %s wait in %s, %s; free in %s, %s: %s', p.product_sku, lack.orders, w.name, m.name, ow.name, om.name,
                       other.free)
         FROM (SELECT waits_for_id AS stock, count(*) AS orders, min(waits_quantity) AS least
               FROM expedition WHERE waits_for_id IS NOT NULL GROUP BY waits_for_id) AS lack
         JOIN product_stock s ON s.id = lack.stock AND s.marked_at IS NULL AND s.quantity - s.held < lack.least
         CROSS JOIN LATERAL (
             SELECT o.warehouse_id, o.wms_id, o.quantity - o.held AS free FROM product_stock o
             WHERE o.product_id = s.product_id AND o.id <> s.id AND o.quantity - o.held >= lack.least
             ORDER BY o.quantity - o.held DESC, o.id LIMIT 1
         ) AS other
         JOIN product p ON p.id = s.product_id
         JOIN warehouse w ON w.id = s.warehouse_id JOIN wms m ON m.id = s.wms_id
         JOIN warehouse ow ON ow.id = other.warehouse_id JOIN wms om ON om.id = other.wms_id
         ORDER BY lack.orders DESC, s.id",
    )
    .await
}

/// The first rows of a query.
async fn first(pool: &PgPool, query: &str) -> Result<Vec<String>, Problem> {
    let limited = format!("SELECT * FROM ({query}) AS found LIMIT $1");
    Ok(sqlx::query_scalar(sqlx::AssertSqlSafe(limited)).bind(NAMED).fetch_all(pool).await?)
}
