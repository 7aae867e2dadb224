//! Invariants of orders and of the stocks that they are booked in: those that `doctor` checks, too, and those that
//! need the history of each order, or the answers that its caller got.

mod history;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use longshore_domain::expedition::invariants;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use self::history::{HOLDING, Histories};
use super::none;
use crate::chaos::crew::Crew;
use crate::chaos::orders::{Accepted, HOT, HOT_PIECES, Merchant};
use crate::chaos::report::Check;

/// How long an import or a sync may take that nothing but others of the same products keep waiting: half of the time after which
/// Postgres ends a transaction that does nothing.
const CROSSED_WITHIN: Duration = Duration::from_secs(30);

/// All invariants of orders.
pub(super) async fn all(
    crew: &Crew,
    psql: &mut PgConnection,
    merchants: &[Merchant],
) -> anyhow::Result<Vec<Check>> {
    let mut checks = rules(crew, psql).await?;
    let histories = Histories::read(psql).await?;
    checks.extend(histories.events(psql).await?);
    checks.push(histories.sent_last(merchants));
    checks.push(histories.in_turn(psql).await?);
    checks.push(numbers(psql, merchants).await?);
    checks.extend(jobs(psql, merchants).await?);
    checks.push(crossed(psql, merchants).await?);
    checks.extend(goods(psql, merchants).await?);
    Ok(checks)
}

/// What holds of the rows, with any history.
pub(super) async fn rules(crew: &Crew, psql: &mut PgConnection) -> anyhow::Result<Vec<Check>> {
    let pool = PgPool::connect(crew.database_url.as_str()).await?;
    let mut broken: HashMap<&str, Vec<String>> =
        invariants::broken(&pool).await?.into_iter().map(|broken| (broken.rule, broken.rows)).collect();
    pool.close().await;
    let of: i64 =
        sqlx::query_scalar("SELECT (SELECT count(*) FROM expedition) + (SELECT count(*) FROM product_stock)")
            .fetch_one(&mut *psql)
            .await?;
    let mut checks: Vec<Check> = invariants::rules()
        .map(|rule| Check::new(rule, of.unsigned_abs(), broken.remove(rule).unwrap_or_default()))
        .collect();
    checks.push(
        none(
            psql,
            "no stock is marked any more",
            of,
            "SELECT 'stock ' || id || ' since ' || marked_at FROM product_stock WHERE marked_at IS NOT NULL",
        )
        .await?,
    );
    checks.push(
        none(
            psql,
            "no more is booked than is there, also by those that are handed over, unless a count took it away",
            of,
            "SELECT format('stock %s holds %s of %s pieces', s.id, s.held, s.quantity) FROM product_stock s
             WHERE s.held > s.quantity
               AND NOT EXISTS (SELECT FROM stock_movement m
                               WHERE (m.product_id, m.warehouse_id, m.wms_id) = (s.product_id, s.warehouse_id, s.wms_id)
                                 AND m.kind = 'counted' AND m.quantity < 0)",
        )
        .await?,
    );
    Ok(checks)
}

/// Each number is there once, and was created once, and again after each deletion that made it free.
async fn numbers(psql: &mut PgConnection, merchants: &[Merchant]) -> anyhow::Result<Check> {
    let (mut of, mut found) = (0, Vec::new());
    for merchant in merchants {
        let promised: BTreeMap<String, i64> = {
            let book = merchant.book();
            let mut promised: BTreeMap<String, i64> =
                book.orders.keys().map(|number| (number.clone(), 1)).collect();
            for (_, number) in &book.deleted {
                *promised.entry(number.clone()).or_default() += 1;
            }
            promised
        };
        of += promised.len() as u64;
        let created: Vec<(Option<String>, i64)> = sqlx::query_as(
            "SELECT changes -> 'orderNumber' ->> 1, count(*) FROM audit
             WHERE organisation_id = $1 AND action = 'expedition.create' GROUP BY 1",
        )
        .bind(merchant.tenant.organisation)
        .fetch_all(&mut *psql)
        .await?;
        let created: BTreeMap<String, i64> =
            created.into_iter().map(|(number, count)| (number.unwrap_or_default(), count)).collect();
        let all: HashSet<&String> = promised.keys().chain(created.keys()).collect();
        for number in all {
            let (promised, created) = (promised.get(number).copied(), created.get(number).copied());
            if promised != created {
                found.push(format!(
                    "order {number} was created {created:?} times, and was to be {promised:?} times"
                ));
            }
        }
        let twice: Vec<String> = sqlx::query_scalar(
            "SELECT order_number || ' is there ' || count(*) || ' times' FROM expedition_detail WHERE eshop_id = $1
             GROUP BY order_number HAVING count(*) <> 1",
        )
        .bind(merchant.tenant.eshop)
        .fetch_all(&mut *psql)
        .await?;
        found.extend(twice);
    }
    Ok(Check::new("each order number is in its e-shop once, however often it was sent", of, found))
}

/// Jobs: each row is done, and changed what the audit says; the last push of each row, sent again, changes nothing.
async fn jobs(psql: &mut PgConnection, merchants: &[Merchant]) -> anyhow::Result<Vec<Check>> {
    let accepted: Vec<Accepted> =
        merchants.iter().flat_map(|merchant| merchant.book().jobs.clone()).collect();
    let ids: Vec<Uuid> = accepted.iter().map(|job| job.id).collect();
    let items = accepted.iter().map(|job| i32::try_from(job.items)).collect::<Result<Vec<_>, _>>()?;
    let failed = accepted.iter().map(|job| i32::try_from(job.failed)).collect::<Result<Vec<_>, _>>()?;
    let found: Vec<String> = sqlx::query_scalar(
        "SELECT given.id || ': ' || coalesce(to_jsonb(job) - 'parameters', 'null')::text || ', audited ' || audited.count
                || ', given ' || given.items || ' of which ' || given.failed || ' fail; refused: '
                || coalesce((SELECT jsonb_agg(jsonb_build_array(e.index, e.key, e.code, e.message)) FROM job_item_error e
                             WHERE e.job_id = given.id)::text, 'none')
         FROM unnest($1::uuid[], $2::int[], $3::int[]) AS given (id, items, failed) LEFT JOIN job ON job.id = given.id
         CROSS JOIN LATERAL (
             SELECT count(*) FROM audit a
             WHERE a.job_id = given.id AND a.entity_type <> 'job'
               -- what is created and sent at once has two records
               AND NOT (a.action = 'expedition.create' AND EXISTS (
                       SELECT FROM audit s WHERE s.job_id = a.job_id AND s.entity_id = a.entity_id
                         AND s.action = 'expedition.send' AND s.at = a.at + interval '1 microsecond'))
         ) audited
         WHERE job.state IS DISTINCT FROM 'succeeded' OR job.total <> given.items OR job.done <> given.items
            OR job.failed <> given.failed OR job.changed <> audited.count",
    )
    .bind(&ids)
    .bind(&items)
    .bind(&failed)
    .fetch_all(&mut *psql)
    .await?;
    let repeated: Vec<Accepted> = accepted.iter().filter(|job| job.is_repeated).copied().collect();
    let ids: Vec<Uuid> = repeated.iter().map(|job| job.id).collect();
    let changed: Vec<String> = sqlx::query_scalar(
        "SELECT id || ' changed ' || changed || ', left ' || unchanged FROM job
         WHERE id = ANY ($1) AND (changed <> 0 OR unchanged <> total)",
    )
    .bind(&ids)
    .fetch_all(psql)
    .await?;
    let rows: usize = repeated.iter().map(|job| job.items).sum();
    Ok(vec![
        Check::new(
            "each job of orders and their stocks has done each of its rows, each once",
            accepted.len() as u64,
            found,
        ),
        Check::new("an order that is imported again, unchanged, does not change", rows as u64, changed),
    ])
}

/// Imports of orders and syncs of their products, when nothing was broken: none waited for another until its time was up. Where
/// each holds what the other waits for, on connections that do not belong together for Postgres, nothing else ends it.
async fn crossed(psql: &mut PgConnection, merchants: &[Merchant]) -> anyhow::Result<Check> {
    let jobs: Vec<Uuid> = merchants.iter().flat_map(|merchant| merchant.book().crossed.clone()).collect();
    let late: Vec<String> = sqlx::query_scalar(
        "SELECT format('%s %s ran from %s to %s', job.kind, given.id, job.started_at, job.finished_at)
         FROM unnest($1::uuid[]) AS given (id) LEFT JOIN job USING (id)
         WHERE coalesce(job.finished_at - job.started_at > make_interval(secs => $2), true)",
    )
    .bind(&jobs)
    .bind(CROSSED_WITHIN.as_secs_f64())
    .fetch_all(psql)
    .await?;
    Ok(Check::new(
        "imports and syncs of the same products do not wait for each other",
        jobs.len() as u64,
        late,
    ))
}

/// Pieces: of the stock that all orders want, of what was received, of bundles.
async fn goods(psql: &mut PgConnection, merchants: &[Merchant]) -> anyhow::Result<Vec<Check>> {
    let (mut hot, mut received, mut wanted) = (Vec::new(), Vec::new(), 0);
    for merchant in merchants {
        let organisation = merchant.tenant.organisation;
        let (quantity, held, left, waiting, booked): (i64, i64, i64, i64, i64) = sqlx::query_as(
            "SELECT s.quantity::bigint, s.held,
                    (SELECT coalesce(sum(i.expedited), 0) FROM expedition_item i WHERE i.product_id = p.id),
                    (SELECT count(*) FROM expedition e JOIN expedition_item i ON i.expedition_id = e.id
                     WHERE i.product_id = p.id AND e.count_of_items = 1 AND i.quantity = 1 AND NOT e.reservation_paused
                       AND e.status IN ('awaiting_reservation', 'waiting_for_goods')),
                    (SELECT coalesce(sum(i.quantity), 0) FROM expedition e JOIN expedition_item i ON i.expedition_id = e.id
                     WHERE i.product_id = p.id
                       AND e.status = ANY ($3))
             FROM product p JOIN product_stock s ON s.product_id = p.id WHERE p.organisation_id = $1 AND p.product_sku = $2",
        )
        .bind(organisation)
        .bind(HOT)
        .bind(HOLDING)
        .fetch_one(&mut *psql)
        .await?;
        wanted += booked + left + waiting;
        // every order could be served until the last piece was gone
        if booked != held
            || quantity + left != HOT_PIECES
            || held > quantity
            || (waiting > 0 && held < quantity)
        {
            hot.push(format!(
                "{organisation}: of {HOT_PIECES} pieces {quantity} are there, {left} left, {held} are held, {booked} are \
                 booked, {waiting} orders of a piece wait"
            ));
        }
        let moved: Vec<(String, i64)> = sqlx::query_as(
            "SELECT p.product_sku, sum(m.quantity) FROM stock_movement m JOIN product p ON p.id = m.product_id
             WHERE m.organisation_id = $1 AND m.kind = 'received' GROUP BY 1",
        )
        .bind(organisation)
        .fetch_all(&mut *psql)
        .await?;
        let moved: BTreeMap<String, i64> = moved.into_iter().collect();
        let sent: BTreeMap<String, i64> =
            merchant.book().received.iter().map(|(sku, pieces)| ((*sku).to_owned(), *pieces)).collect();
        if moved != sent {
            received.push(format!("{organisation} has received {moved:?}, and was sent {sent:?}"));
        }
    }
    let orders: i64 = sqlx::query_scalar("SELECT count(*) FROM expedition").fetch_one(&mut *psql).await?;
    let of = merchants.len() as u64;
    Ok(vec![
        Check::new("of the stock that all orders want, exactly what it has is booked", wanted.unsigned_abs(), hot),
        Check::new("what was received came in once", of, received),
        none(
            psql,
            "the parts of a bundle are as many as were ordered, and of each item something left, is open or is given up",
            orders,
            "SELECT format('order %s: %s of product %s in place of %s', b.expedition_id, coalesce(i.quantity, 0), c.child,
                           c.quantity * b.quantity)
             FROM expedition_bundle b
             CROSS JOIN LATERAL (SELECT product_id AS child, quantity FROM product_child WHERE bundle_id = b.product_id) c
             LEFT JOIN expedition_item i ON i.expedition_id = b.expedition_id AND i.bundle_position = b.position
                                        AND i.product_id = c.child
             WHERE i.quantity IS DISTINCT FROM c.quantity * b.quantity
             UNION ALL
             SELECT format('item %s of a bundle that was not ordered', i.id) FROM expedition_item i
             LEFT JOIN expedition_bundle b ON b.expedition_id = i.expedition_id AND b.position = i.bundle_position
             LEFT JOIN product_child c ON c.bundle_id = b.product_id AND c.product_id = i.product_id
             WHERE i.bundle_position IS NOT NULL AND c.product_id IS NULL
             UNION ALL
             SELECT format('item %s: %s of %s left, and its movements say %s', i.id, i.expedited, i.quantity, m.pieces)
             FROM expedition_item i
             CROSS JOIN LATERAL (SELECT coalesce(-sum(m.quantity), 0) AS pieces FROM stock_movement m
                                 WHERE m.expedition_item_id = i.id) m
             -- what left against its status is looked at with the warehouses
             WHERE m.pieces <> coalesce(i.expedited, 0)
               AND NOT EXISTS (SELECT FROM wms_contradiction c WHERE c.expedition_id = i.expedition_id)
             UNION ALL
             SELECT format('order %s is %s, expedited completely: %s', e.id, e.status, e.expedited_completely)
             FROM expedition e
             WHERE e.expedited_completely IS DISTINCT FROM (
                 SELECT CASE WHEN bool_or(i.expedited IS NOT NULL) THEN bool_and(i.expedited = i.quantity) END
                 FROM expedition_item i WHERE i.expedition_id = e.id)",
        )
        .await?,
    ])
}
