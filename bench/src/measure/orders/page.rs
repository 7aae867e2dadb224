//! Pages of a list of a million orders, compared with their SQL; with statistics that are new, old and absent.

use std::time::Instant;

use longshore_testkit::stack::Stack;
use serde_json::{Value, json};
use uuid::Uuid;

use super::depot::Depot;
use crate::measure::floor::Psql;
use crate::measure::load::milliseconds;
use crate::measure::{Effort, Floor, Reach, Row, median};

/// Orders.
const ORDERS: usize = 1_000_000;

/// Pages of each kind, of which the median counts.
const PAGES: usize = 10;

/// The ages of the statistics that the planner has of orders, one after the other, and how to get there.
pub(crate) const STATISTICS: [(&str, Option<&str>); 3] = [
    // analysed before the orders came
    ("old", None),
    (
        "absent",
        Some(
            "DELETE FROM pg_statistic WHERE starelid IN ('expedition'::regclass, 'expedition_detail'::regclass,
                                                         'expedition_item'::regclass)",
        ),
    ),
    ("new", Some("VACUUM (ANALYZE) expedition, expedition_detail, expedition_item")),
];

/// A query of a client.
pub(crate) struct Question {
    pub(crate) name: &'static str,
    pub(crate) criteria: Value,
    pub(crate) sort: Value,
    /// The same as conditions in SQL …
    conditions: &'static str,
    /// … and an order.
    order: &'static str,
}

pub(crate) fn questions() -> [Question; 2] {
    [
        Question {
            name: "by status and time",
            criteria: json!({"status": {"eq": "waiting_for_goods"}}),
            sort: json!([{"field": "statusSince", "order": "DESC"}]),
            conditions: "e.status = 'waiting_for_goods'",
            order: "e.status_since DESC, e.id DESC",
        },
        Question {
            name: "what changed since",
            criteria: json!({"changedAt": {"gte": "2026-06-01T10:00:00Z"}}),
            sort: json!([{"field": "changedAt"}]),
            conditions: "e.changed_at >= '2026-06-01T10:00:00Z'",
            order: "e.changed_at, e.id",
        },
    ]
}

pub(in crate::measure) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let count = effort.of(ORDERS);
    let depot = Depot::on(stack, "pages", 1_000, 0).await?;
    let mut psql = Psql::connect(stack).await?;
    let site = &depot.site;
    psql.run(&orders(site.organisation, site.eshop, site.warehouse, count)).await?;
    let mut rows = Vec::new();
    for (statistics, get) in STATISTICS {
        if let Some(sql) = get {
            psql.run(sql).await?;
        }
        for question in questions() {
            let (mut ours, mut floors) = (Vec::new(), Vec::new());
            for _ in 0..=PAGES {
                floors.push(psql.timed(&sql(&question, &depot)).await?);
                ours.push(ask(&depot, &question).await?);
            }
            let floor = Floor::median(floors, "the rows of the page and its total as SQL");
            let what = format!("100 of {count} orders {}, {statistics} statistics", question.name);
            rows.push(Row::relative(what, median(ours), "ms", floor, Reach::RatioAtMost(2.0)));
        }
    }
    Ok(rows)
}

async fn ask(depot: &Depot, question: &Question) -> anyhow::Result<f64> {
    let Question { criteria, sort, .. } = question;
    let body = json!({"criteria": criteria, "sort": sort, "limit": 100});
    let started = Instant::now();
    depot.site.api.list_orders(&body).await?;
    Ok(milliseconds(started))
}

fn sql(question: &Question, depot: &Depot) -> String {
    let Question { conditions, order, .. } = question;
    let of =
        format!("FROM expedition e WHERE e.organisation_id = '{}' AND {conditions}", depot.site.organisation);
    format!(
        "SELECT to_jsonb(e) || to_jsonb(d) || jsonb_build_object(
                    'items', (SELECT jsonb_agg(to_jsonb(i) ORDER BY i.position) FROM expedition_item i WHERE i.expedition_id = e.id),
                    'bundles', (SELECT jsonb_agg(to_jsonb(b)) FROM expedition_bundle b WHERE b.expedition_id = e.id),
                    'parcels', (SELECT jsonb_agg(to_jsonb(l)) FROM expedition_parcel l WHERE l.expedition_id = e.id),
                    'audits', (SELECT jsonb_agg(to_jsonb(a)) FROM audit a
                               WHERE a.entity_type = 'expedition' AND a.entity_id = e.id))
         FROM (SELECT e.* {of} ORDER BY {order} LIMIT 100) e JOIN expedition_detail d ON d.id = e.id;
         SELECT count(*) {of}"
    )
}

/// Orders of a year, most of them delivered long ago.
pub(crate) fn orders(of: Uuid, eshop: Uuid, warehouse: Uuid, count: usize) -> String {
    format!(
        "ALTER TABLE expedition DISABLE TRIGGER expedition_moves;
         INSERT INTO expedition (id, organisation_id, eshop_id, warehouse_id, wms_id, status, status_since, priority,
                                 count_of_items, count_of_sku, sum_of_quantity, waits_for_id, waits_quantity, packed_at,
                                 sent_at, delivered_at, created_at, changed_at)
         SELECT uuid_v7_at(t.at), '{of}', '{eshop}', '{warehouse}', h.default_wms_id, t.status, t.at, 0, 2, 2, 3,
                CASE WHEN t.status = 'waiting_for_goods' THEN s.id END, CASE WHEN t.status = 'waiting_for_goods' THEN 1 END,
                t.over, t.over, t.over, t.at, t.at
         FROM (SELECT n, '2026-01-01'::timestamptz + n * ('1 year'::interval / {count}) AS at,
                      CASE WHEN n % 100 = 7 THEN 'waiting_for_goods' ELSE 'delivered' END AS status,
                      CASE WHEN n % 100 <> 7 THEN '2026-11-01'::timestamptz END AS over
               FROM generate_series(1, {count}) n) t
         JOIN warehouse h ON h.id = '{warehouse}'
         CROSS JOIN (SELECT id FROM product_stock WHERE warehouse_id = '{warehouse}' LIMIT 1) s;
         ALTER TABLE expedition ENABLE TRIGGER expedition_moves;
         INSERT INTO expedition_detail (id, eshop_id, order_number, value, currency, billing_last_name, billing_country,
             delivery_last_name, delivery_country, different_delivery_address, cod, ignore_address_validation, fragile,
             services, removed_virtual_products)
         SELECT id, '{eshop}', 'M-' || row_number() OVER (ORDER BY id), 20, 'EUR', 'Byron', 'GB', 'Byron', 'GB', false, false,
                false, false, '{{}}', '[]'
         FROM expedition WHERE organisation_id = '{of}';
         INSERT INTO expedition_item (id, expedition_id, position, product_id, quantity, expedited, lifo)
         SELECT uuid_v7(), e.id, i, s.product_id, i, CASE WHEN e.status = 'delivered' THEN i END, false
         FROM expedition e, generate_series(1, 2) i,
              (SELECT product_id FROM product_stock WHERE warehouse_id = '{warehouse}' LIMIT 1) s
         WHERE e.organisation_id = '{of}'"
    )
}
