//! From changes to jobs: found by the dispatcher of any worker.

use sqlx::{PgConnection, PgPool};

use super::{Extent, accept};
use longshore_kernel::change::Change;
use longshore_kernel::context::Origin;
use longshore_kernel::ids::{EshopId, OrganisationId};
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// The pause between two send-outs of changes to the partner of an e-shop, in seconds: changes during the pause are sent
/// together.
const DEBOUNCE_SECONDS: f64 = 3.0;

/// The pause after a send-out has failed permanently, unless another one succeeds or the setting is stored again, in seconds.
const REST_SECONDS: f64 = 900.0;

/// Changes (one a statement) that one look takes.
const CHANGES: i64 = 1_000;

/// E-shops that one look accepts jobs for, of each kind.
const ESHOPS: i64 = 100;

/// Only one worker looks at a time.
const LOCK: &str = "send-out of stocks";

/// An e-shop whose partner needs stocks.
struct Due {
    eshop: EshopId,
    organisation: OrganisationId,
}

/// Turns changes into due stocks, and accepts a job for each e-shop whose partner may get them now; returns how many.
pub async fn dispatch(services: &Services) -> Result<u64, Problem> {
    // most of the time there is nothing
    if !is_anything_due(&services.db.main).await? {
        return Ok(0);
    }
    let mut change = Change::begin(services).await?;
    if !alone(change.connection()).await? {
        return Ok(0);
    }
    let whole = take(change.connection()).await?;
    let eshops = sqlx::query_as!(
        Due,
        r#"WITH due AS (
               SELECT s.eshop_id, s.organisation_id,
                      coalesce((SELECT greatest(o.next_at, o.failed_at + make_interval(secs => $2))
                                FROM stock_send_out o WHERE o.eshop_id = s.eshop_id), '-infinity') AS next_at
               FROM integration_setting s JOIN eshop e ON e.id = s.eshop_id AND e.active
               WHERE s.active AND s.stock_sync_enabled AND EXISTS (SELECT FROM stock_due d WHERE d.eshop_id = s.eshop_id)
                 -- asked of each e-shop by itself: joined with all jobs, their whole history may be read every second
                 AND (SELECT true FROM job j WHERE j.eshop_id = s.eshop_id AND j.kind = 'stock.send'
                        AND j.created_at > now() - interval '2 days'
                        AND j.source = 'changes' AND j.state IN ('queued', 'running', 'retrying')
                      LIMIT 1) IS NULL
           ), ready AS (
               SELECT eshop_id, organisation_id FROM due WHERE next_at <= now()
               -- organisations take turns, and in each the e-shop that was sent something the longest time ago
               ORDER BY row_number() OVER (PARTITION BY organisation_id ORDER BY next_at, eshop_id), next_at, eshop_id
               LIMIT $3
           ), noted AS (
               INSERT INTO stock_send_out (eshop_id, next_at, compare_at)
               SELECT eshop_id, now() + make_interval(secs => $1), next_night(eshop_id) FROM ready
               ON CONFLICT (eshop_id) DO UPDATE SET next_at = excluded.next_at
           )
           SELECT eshop_id AS "eshop!", organisation_id AS "organisation!" FROM ready"#,
        DEBOUNCE_SECONDS,
        REST_SECONDS,
        ESHOPS,
    )
    .fetch_all(change.connection())
    .await?;
    let changes = eshops.iter().map(|due| (due, "stock changes", Extent::Changes));
    let whole = whole.iter().map(|due| (due, "change of a default wms", Extent::Everything));
    let mut sends: Vec<_> = changes.chain(whole).collect();
    // each takes the lock of its e-shop: in the order in which the clock takes them
    sends.sort_by_key(|(due, ..)| (due.organisation, due.eshop));
    for (due, schedule, extent) in &sends {
        accept(&mut change, &Origin::schedule(schedule), due.organisation, due.eshop, extent).await?;
    }
    change.commit().await?;
    Ok(sends.len() as u64)
}

async fn is_anything_due(db: &PgPool) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM stock_change) OR EXISTS (SELECT FROM eshop_stock_change)
                  OR EXISTS (SELECT FROM stock_due) AS "due!""#
    )
    .fetch_one(db)
    .await
}

async fn alone(tx: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(r#"SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0)) AS "alone!""#, LOCK)
        .fetch_one(tx)
        .await
}

/// Takes changes, oldest first: notes the products that are due, and returns the e-shops of which everything is.
async fn take(tx: &mut PgConnection) -> Result<Vec<Due>, sqlx::Error> {
    take_of_stocks(tx).await?;
    take_of_products(tx).await?;
    take_of_all(tx).await
}

/// Of stocks: notes each product for each e-shop that sells it and maps the warehouse.
async fn take_of_stocks(tx: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "WITH taken AS (
             DELETE FROM stock_change WHERE id = ANY (ARRAY(SELECT id FROM stock_change ORDER BY id LIMIT $1))
             RETURNING warehouse_id, wms_id, products
         ), changed AS (
             SELECT DISTINCT t.warehouse_id, t.wms_id, p.id AS product_id
             FROM taken t CROSS JOIN LATERAL unnest(t.products) AS p (id)
         )
         INSERT INTO stock_due (eshop_id, product_id)
         SELECT DISTINCT s.eshop_id, c.product_id
         FROM changed c
         JOIN integration_warehouse m ON m.warehouse_id = c.warehouse_id
         JOIN warehouse w ON w.id = m.warehouse_id AND coalesce(m.wms_id, w.default_wms_id) = c.wms_id
         JOIN integration_setting s ON s.id = m.setting_id AND s.active AND s.stock_sync_enabled
         JOIN product_eshop e ON e.eshop_id = s.eshop_id AND e.product_id = c.product_id
         ORDER BY s.eshop_id, c.product_id
         ON CONFLICT (eshop_id, product_id) DO UPDATE SET number = excluded.number",
        CHANGES,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Of the products of e-shops: notes those that came to an e-shop, left it, or got another SKU or type.
async fn take_of_products(tx: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "WITH taken AS (
             DELETE FROM eshop_stock_change
             WHERE id = ANY (ARRAY(SELECT id FROM eshop_stock_change WHERE products IS NOT NULL ORDER BY id LIMIT $1))
             RETURNING eshop_id, products
         ), changed AS (
             SELECT DISTINCT t.eshop_id, p.id AS product_id FROM taken t CROSS JOIN LATERAL unnest(t.products) AS p (id)
         )
         INSERT INTO stock_due (eshop_id, product_id)
         SELECT c.eshop_id, c.product_id
         FROM changed c
         JOIN integration_setting s ON s.eshop_id = c.eshop_id AND s.active AND s.stock_sync_enabled
         JOIN product p ON p.id = ANY (ARRAY[c.product_id])
         ORDER BY c.eshop_id, c.product_id
         ON CONFLICT (eshop_id, product_id) DO UPDATE SET number = excluded.number",
        CHANGES,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Of warehouses: returns the e-shops whose partners must be sent everything.
async fn take_of_all(tx: &mut PgConnection) -> Result<Vec<Due>, sqlx::Error> {
    sqlx::query_as!(
        Due,
        r#"WITH taken AS (
               DELETE FROM eshop_stock_change
               WHERE id = ANY (ARRAY(SELECT id FROM eshop_stock_change WHERE products IS NULL ORDER BY id LIMIT $1))
               RETURNING eshop_id
           ), sent AS (
               SELECT s.id, s.eshop_id, s.organisation_id, e.active
               FROM (SELECT DISTINCT eshop_id FROM taken) AS t
               JOIN integration_setting s ON s.eshop_id = t.eshop_id AND s.active AND s.stock_sync_enabled
               JOIN eshop e ON e.id = s.eshop_id
           ), postponed AS (
               -- the schedule of an e-shop that is not active waits until it is
               UPDATE partner_clock c SET next_run_at = least(c.next_run_at, now())
               FROM sent WHERE NOT sent.active AND c.setting_id = sent.id AND c.kind = 'stock.send'
           )
           SELECT s.eshop_id AS "eshop!", s.organisation_id AS "organisation!" FROM sent s WHERE s.active
           ORDER BY s.organisation_id, s.eshop_id"#,
        ESHOPS,
    )
    .fetch_all(tx)
    .await
}

/// The number up to which products of an e-shop are due now; `None` where none is.
pub async fn due(services: &Services, eshop: EshopId) -> Result<Option<i64>, Problem> {
    Ok(sqlx::query_scalar!("SELECT max(number) FROM stock_due WHERE eshop_id = $1", eshop.get())
        .fetch_one(&services.db.main)
        .await?)
}

/// Stocks with numbers up to the given one were sent; those that have changed again since have a greater number.
pub async fn confirm(services: &Services, eshop: EshopId, number: i64) -> Result<(), Problem> {
    sqlx::query!("DELETE FROM stock_due WHERE eshop_id = $1 AND number <= $2", eshop.get(), number)
        .execute(&services.db.main)
        .await?;
    Ok(())
}

/// Accepts the comparisons that are due tonight; returns how many. Each e-shop has its own moment of the night.
pub async fn compare(services: &Services) -> Result<u64, Problem> {
    let mut change = Change::begin(services).await?;
    if !alone(change.connection()).await? {
        return Ok(0);
    }
    let eshops = sqlx::query_as!(
        Due,
        r#"WITH enabled AS (
               INSERT INTO stock_send_out (eshop_id, next_at, compare_at)
               SELECT s.eshop_id, now(), next_night(s.eshop_id) FROM integration_setting s
               WHERE s.active AND s.stock_sync_enabled
                 AND NOT EXISTS (SELECT FROM stock_send_out o WHERE o.eshop_id = s.eshop_id)
               ON CONFLICT DO NOTHING
           ), late AS (
               SELECT o.eshop_id, s.organisation_id
               FROM stock_send_out o JOIN integration_setting s ON s.eshop_id = o.eshop_id
               JOIN eshop e ON e.id = o.eshop_id AND e.active
               WHERE o.compare_at <= now() AND s.active AND s.stock_sync_enabled
               ORDER BY o.compare_at LIMIT $1
           ), noted AS (
               UPDATE stock_send_out o SET compare_at = next_night(o.eshop_id) FROM late WHERE o.eshop_id = late.eshop_id
           )
           SELECT eshop_id AS "eshop!", organisation_id AS "organisation!" FROM late"#,
        ESHOPS,
    )
    .fetch_all(change.connection())
    .await?;
    for due in &eshops {
        let origin = Origin::schedule("nightly comparison of stocks");
        accept(&mut change, &origin, due.organisation, due.eshop, &Extent::Comparison).await?;
    }
    change.commit().await?;
    Ok(eshops.len() as u64)
}
