//! A page of a long list, compared with its SQL.

use std::time::Instant;

use longshore_testkit::stack::Stack;
use serde_json::{Value, json};
use uuid::Uuid;

use super::floor::Psql;
use super::load::{milliseconds, runs};
use super::{Effort, Floor, Reach, Row, median};
use longshore_demo::site::Site;

/// Pages of a run; the median counts.
const PAGES: usize = 10;

/// A typical query of a client.
struct Question {
    name: &'static str,
    criteria: Value,
    sort: Value,
    /// The same as conditions in SQL …
    conditions: &'static str,
    /// … and an order.
    order: &'static str,
}

fn questions() -> [Question; 2] {
    [
        Question {
            name: "what changed since",
            criteria: json!({ "active": { "eq": true }, "changedAt": { "gte": "2000-01-01T00:00:00Z" } }),
            sort: json!([{ "field": "changedAt", "order": "DESC" }]),
            conditions: "p.active = true AND p.changed_at >= '2000-01-01T00:00:00Z'",
            order: "p.changed_at DESC, p.id DESC",
        },
        Question {
            name: "whose name contains",
            criteria: json!({ "name": { "like": "product 77" }, "type": { "eq": "physical" } }),
            sort: json!([{ "field": "name" }]),
            conditions: "p.name ILIKE '%product 77%' AND p.type = 'physical'",
            order: "p.name, p.id",
        },
    ]
}

/// A record in the format of the API.
const RECORD: &str = "json_build_object('id', p.id,
    'eshops', ARRAY(SELECT e.eshop_id FROM product_eshop e WHERE e.product_id = p.id ORDER BY 1),
    'productSku', p.product_sku, 'internalSku', p.internal_sku, 'organisation', p.organisation_id,
    'productGroup', p.product_group, 'name', p.name, 'description', p.description, 'weight', p.weight,
    'height', p.height, 'width', p.width, 'length', p.length, 'referenceNumbers', p.reference_numbers,
    'packagingType', p.packaging_type, 'imeiCheckRequired', p.imei_check_required,
    'workAroundSnIn', p.work_around_sn_in, 'workAroundEanSticker', p.work_around_ean_sticker,
    'workAroundWarrantyInf', p.work_around_warranty_inf, 'workAroundLot', p.work_around_lot, 'active', p.active,
    'countryOfOrigin', p.country_of_origin, 'hsCode', p.hs_code, 'type', p.type, 'childrenProducts', NULL,
    'category', p.category, 'images', ARRAY[]::uuid[], 'services', p.services,
    'createdAt', to_char(p.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"+00:00\"'),
    'changedAt', to_char(p.changed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"+00:00\"'))";

pub(super) async fn measure(stack: &Stack, site: &Site, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let mut psql = Psql::connect(stack).await?;
    psql.settle().await?;
    let mut rows = Vec::new();
    for question in questions() {
        let (mut plain, mut nested, mut floors) = (Vec::new(), Vec::new(), Vec::new());
        for run in runs(effort) {
            for _ in 0..PAGES {
                let floor = psql.timed(&sql(&question, site.organisation)).await?;
                let without = ask(site, &question, false).await?;
                let with = ask(site, &question, true).await?;
                if run > 0 {
                    floors.push(floor);
                    plain.push(without);
                    nested.push(with);
                }
            }
        }
        let floor = Floor::median(floors, "the page and its total as SQL");
        let without = Floor::median(plain.clone(), "without nested");
        let what = format!("a page of 100: {}", question.name);
        rows.push(Row::relative(&what, median(plain), "ms", floor, Reach::RatioAtMost(2.0)));
        let what = format!("{what}, nested");
        rows.push(Row::relative(what, median(nested), "ms", without, Reach::RatioAtMost(2.0)));
    }
    Ok(rows)
}

async fn ask(site: &Site, question: &Question, nested: bool) -> anyhow::Result<f64> {
    let (criteria, sort) = (&question.criteria, &question.sort);
    let body = json!({ "criteria": criteria, "sort": sort, "limit": 100, "nested": nested });
    let started = Instant::now();
    site.api.list_products(&body).await?;
    Ok(milliseconds(started))
}

fn sql(question: &Question, organisation: Uuid) -> String {
    let Question { conditions, order, .. } = question;
    let of = format!("FROM product p WHERE p.organisation_id = '{organisation}' AND {conditions}");
    format!("SELECT {RECORD}::text FROM (SELECT p.* {of} ORDER BY {order} LIMIT 100) p; SELECT count(*) {of}")
}
