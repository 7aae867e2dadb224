//! A database as it is after a month: e-shops and their webhooks, jobs, deliveries, audit and orders, written by statements of a
//! million rows.

use std::time::Duration;

use longshore_testkit::stack::Stack;
use uuid::Uuid;

use crate::measure::Effort;
use crate::measure::floor::Psql;
use crate::measure::orders::page::orders;
use longshore_demo::api::JobState;
use longshore_demo::catalogue::Catalogue;
use longshore_demo::site::Site;

/// Jobs, and deliveries that have ended.
const MILLION: usize = 1_000_000;
/// Orders.
const ORDERS: usize = 300_000;
/// Audit records.
const RECORDS: usize = 300_000;
/// Deliveries that wait, and jobs that do.
const WAITING: usize = 5_000;
/// Organisations, each with an e-shop and [`WEBHOOKS`] webhooks.
const SITES: usize = 20;
/// Webhooks of an e-shop.
const WEBHOOKS: usize = 5;
/// A job that takes longer hangs.
const HUNG: Duration = Duration::from_mins(1);
/// Products of an organisation.
const PRODUCTS: usize = 100;
/// One of the workers of the week.
pub(super) const WORKER: &str = "box-1";

/// The records that pages are about.
pub(super) struct Filled {
    pub(super) organisation: Uuid,
    pub(super) eshop: Uuid,
    pub(super) webhook: Uuid,
    pub(super) job: Uuid,
    pub(super) delivery: Uuid,
    pub(super) order: Uuid,
    pub(super) product: Uuid,
    pub(super) wms: Uuid,
}

/// Fills the database, and leaves a transaction open in `old` that began before most of it.
pub(super) async fn fill(
    stack: &Stack,
    psql: &mut Psql,
    old: &mut Psql,
    effort: Effort,
) -> anyhow::Result<Filled> {
    let mut sites = Vec::new();
    for n in 0..SITES {
        let site = Site::on(stack, &format!("Console {n}")).await?;
        let job = site.api.sync_products(Catalogue::made_up(PRODUCTS).body(site.eshop)).await?;
        let job = site.api.job_ended(job.id, HUNG).await?;
        anyhow::ensure!(job.state == JobState::Succeeded, "the products are not there: {job:?}");
        for hook in 0..WEBHOOKS {
            // nothing listens there: what waits is not due before the measurement ends
            let destination = format!("http://127.0.0.1:9/shop-{n}/{hook}");
            site.api.create_webhook(site.eshop, "product_change", &destination).await?;
        }
        sites.push(site);
    }
    psql.run("ANALYZE").await?;
    psql.run(PARTITIONS).await?;
    old.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM webhook").await?;
    for sql in [jobs(effort.of(MILLION)), waiting_jobs(effort.of(WAITING))] {
        psql.run(&sql).await?;
    }
    for sql in [deliveries(effort.of(MILLION)), waiting_deliveries(effort.of(WAITING))] {
        psql.run(&sql).await?;
    }
    for sql in [records(effort.of(RECORDS)), activity()] {
        psql.run(&sql).await?;
    }
    let [first, ..] = sites.as_slice() else { anyhow::bail!("there are no sites") };
    psql.run(&orders(first.organisation, first.eshop, first.warehouse, effort.of(ORDERS))).await?;
    find(psql, first).await
}

async fn find(psql: &mut Psql, site: &Site) -> anyhow::Result<Filled> {
    let (organisation, eshop) = (site.organisation, site.eshop);
    let mut one = async |sql: String| psql.ask::<Uuid>(&sql).await;
    let webhook = one("SELECT id FROM console_hook WHERE number = 1".to_owned()).await?;
    Ok(Filled {
        organisation,
        eshop,
        webhook,
        job: one("SELECT id FROM job WHERE state = 'failed' ORDER BY created_at DESC LIMIT 1".to_owned())
            .await?,
        delivery: one(format!(
            "SELECT id FROM delivery_history WHERE webhook_id = '{webhook}' ORDER BY id DESC LIMIT 1"
        ))
        .await?,
        order: one(format!(
            "SELECT id FROM expedition WHERE eshop_id = '{eshop}' ORDER BY created_at DESC LIMIT 1"
        ))
        .await?,
        product: one(format!("SELECT id FROM product WHERE organisation_id = '{organisation}' LIMIT 1"))
            .await?,
        wms: one(format!("SELECT default_wms_id FROM warehouse WHERE id = '{}'", site.warehouse)).await?,
    })
}

/// The partitions of the last month, which its days made; the webhooks by number, the first of which has most deliveries; and the
/// products, with a stock each.
const PARTITIONS: &str = "
    DO $$
    DECLARE
        kept text;
        week timestamptz;
    BEGIN
        FOREACH kept IN ARRAY ARRAY['delivery_history', 'event'] LOOP
            FOR week IN SELECT date_trunc('week', now()) - make_interval(weeks => n) FROM generate_series(1, 5) AS n LOOP
                EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)',
                    kept || to_char(week, '_YYYYMMDD'), kept, uuid_v7_floor(week), uuid_v7_floor(week + interval '1 week'));
            END LOOP;
        END LOOP;
    END
    $$;
    INSERT INTO product_stock (id, organisation_id, product_id, warehouse_id, wms_id, quantity)
        SELECT uuid_v7(), p.organisation_id, p.id, h.id, h.default_wms_id, 0
        FROM product p JOIN warehouse h ON h.organisation_id = p.organisation_id;
    CREATE TABLE console_hook AS
        SELECT row_number() OVER (ORDER BY w.id) AS number, w.id, w.eshop_id, w.organisation_id FROM webhook w;
    CREATE UNIQUE INDEX ON console_hook (number);
    CREATE TABLE console_product AS
        SELECT row_number() OVER (ORDER BY p.id) AS number, p.id, p.product_sku FROM product p;
    CREATE UNIQUE INDEX ON console_product (number);
    ANALYZE console_hook, console_product";

/// A moment of the last month, for the nth of so many.
fn at(count: usize) -> String {
    format!("now() - interval '30 days' + n * (interval '30 days' / {count})")
}

/// Half of the jobs are of the first e-shop; a hundredth has failed. The newest tenth has an earlier version each, and the jobs of the
/// day before have been removed, as the retention does.
fn jobs(count: usize) -> String {
    let at = at(count);
    let hooks = SITES * WEBHOOKS;
    format!(
        "INSERT INTO job (id, kind, state, organisation_id, eshop_id, acceptance, total, done, changed, failed, attempts, error,
                          actor_type, actor_name, request_id, created_at, started_at, finished_at, changed_at)
         SELECT uuid_v7_at(t.at), (ARRAY['product.sync', 'stock.sync', 'stock.send', 'product.activate'])[1 + n % 4],
                t.state, h.organisation_id, h.eshop_id, nextval('acceptance'), 10, 10, 10 - t.refused, t.refused, 1,
                CASE t.state WHEN 'failed' THEN 'the feed answers HTTP ' || 400 + n % 7 || ': refused' END,
                'token', 'feed', 'request-' || n, t.at, t.at, t.at + interval '3 seconds', t.at
         FROM (SELECT n, {at} AS at, CASE WHEN n % 100 = 1 THEN 'failed' WHEN n % 100 = 2 THEN 'cancelled' ELSE 'succeeded' END AS state,
                      CASE WHEN n % 50 = 3 THEN 2 ELSE 0 END AS refused
               FROM generate_series(1, {count}) AS n) AS t
         JOIN console_hook h ON h.number = CASE WHEN t.n % 2 = 0 THEN 1 ELSE 1 + t.n % {hooks} END;
         UPDATE job SET attempts = 2 WHERE created_at > now() - interval '3 days' AND attempts = 1;
         INSERT INTO job (id, kind, state, acceptance, total, done, changed, actor_type, actor_name, created_at, finished_at)
         SELECT uuid_v7(), 'product.sync', 'succeeded', nextval('acceptance'), 1, 1, 1, 'token', 'removed', t.at, t.at
         FROM generate_series(1, {count} / 30) CROSS JOIN (SELECT now() - interval '31 days' AS at) AS t;
         DELETE FROM job WHERE actor_name = 'removed'"
    )
}

/// Jobs whose next attempt is due tomorrow.
fn waiting_jobs(count: usize) -> String {
    format!(
        "WITH made AS (
             INSERT INTO job (id, kind, state, organisation_id, eshop_id, acceptance, total, chunks_open, actor_type, actor_name)
             SELECT uuid_v7(), 'product.activate', 'queued', h.organisation_id, h.eshop_id, nextval('acceptance'), 10, 1, 'token',
                    'bulk'
             FROM generate_series(1, {count}) AS n JOIN console_hook h ON h.number = 1 + n % 10 RETURNING id
         )
         INSERT INTO job_chunk (job_id, number, state, item_count, first_index, next_attempt_at)
         SELECT id, 0, 'queued', 10, 0, now() + interval '1 day' FROM made"
    )
}

/// Ended deliveries and their events: six of ten of the first webhook; two of a hundred did not succeed, and are of ten webhooks.
fn deliveries(count: usize) -> String {
    let at = at(count);
    let (hooks, products) = (SITES * WEBHOOKS, SITES * PRODUCTS);
    format!(
        "INSERT INTO event (id, type, organisation_id, entity_type, entity_id, at, data)
         SELECT uuid_v7_at(t.at), 'product_change', h.organisation_id, 'product', p.id, t.at,
                jsonb_build_object('id', p.id, 'productSku', p.product_sku, 'changedFields', '[\"name\"]'::jsonb, 'n', n)
         FROM (SELECT n, {at} AS at FROM generate_series(1, {count}) AS n) AS t
         JOIN console_hook h ON h.number = CASE WHEN t.n % 10 < 6 THEN 1 ELSE 1 + t.n % {hooks} END
         JOIN console_product p ON p.number = 1 + t.n % {products};
         INSERT INTO delivery_history (id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id, state,
                                       attempt_count, attempts, created_at, finished_at)
         SELECT uuid_v7_at(t.at), h.id, h.eshop_id, h.organisation_id, t.id, t.type, t.entity_id, t.state, 1,
                jsonb_build_array(jsonb_build_object('number', 1, 'at', t.at, 'durationMs', 20 + t.n % 50,
                    'status', CASE t.state WHEN 'delivered' THEN 204 ELSE 503 END, 'error', NULL,
                    'response', 'an answer of the destination that is kept, because operators look at it')),
                t.at, CASE t.state WHEN 'delivered' THEN t.at + interval '1 second' ELSE least(t.at + interval '1 day', now()) END
         FROM (SELECT n, id, type, entity_id, at,
                      CASE WHEN n % 100 = 7 THEN 'exhausted' WHEN n % 100 = 17 THEN 'cancelled' ELSE 'delivered' END AS state
               FROM (SELECT (data ->> 'n')::int AS n, id, type, entity_id, at FROM event WHERE data ? 'n') AS e) AS t
         JOIN console_hook h ON h.number = CASE WHEN t.state <> 'delivered' THEN 1 + t.n / 100 % 10
                                           WHEN t.n % 10 < 6 THEN 1 ELSE 1 + t.n % {hooks} END"
    )
}

/// Deliveries that are due tomorrow, half of which were tried; as many again were removed.
fn waiting_deliveries(count: usize) -> String {
    format!(
        "INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at, attempt_count, attempts)
         SELECT uuid_v7(), h.id, h.eshop_id, e.id, now() + interval '1 day', n % 2,
                CASE WHEN n % 2 = 1 THEN '[{{\"number\": 1, \"at\": \"2026-01-01T00:00:00Z\", \"durationMs\": 41, \"status\": 503}}]'::jsonb
                     ELSE '[]' END
         FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM (SELECT id FROM event ORDER BY id DESC LIMIT {count} * 2) AS newest) AS e
         JOIN console_hook h ON h.number = 1 + e.n % 10;
         DELETE FROM delivery WHERE id IN (SELECT id FROM delivery ORDER BY id LIMIT {count})"
    )
}

/// Audit records: one in fifty by a person.
fn records(count: usize) -> String {
    let (at, products) = (at(count), SITES * PRODUCTS);
    format!(
        "INSERT INTO audit (id, at, actor_type, actor_name, action, entity_type, entity_id, organisation_id, changes, request_id, job_id)
         SELECT uuid_v7_at(t.at), t.at, CASE WHEN n % 50 = 0 THEN 'admin' ELSE 'token' END, 'somebody', 'product.update', 'product',
                p.id, q.organisation_id, '{{\"name\": [\"a\", \"b\"]}}', 'request-' || n,
                CASE WHEN n % 50 > 1 THEN uuid_v7_at(date_trunc('hour', t.at)) END
         FROM (SELECT n, {at} AS at FROM generate_series(1, {count}) AS n) AS t
         JOIN console_product p ON p.number = 1 + t.n % {products} JOIN product q ON q.id = p.id"
    )
}

/// What the charts of a week show, in the steps that the upkeep leaves of it.
fn activity() -> String {
    "CREATE TABLE console_minute AS
         SELECT generate_series(date_trunc('minute', now()) - interval '1 day', now(), '1 minute') AS at
         UNION
         SELECT generate_series(date_trunc('hour', now()) - interval '7 days', now() - interval '25 hours', '1 hour');
     CREATE TABLE console_step AS
         SELECT DISTINCT CASE WHEN at > now() - interval '70 minutes' THEN at
                              WHEN at > now() - interval '7 hours' THEN date_bin('5 minutes', at, 'epoch')
                              ELSE date_bin('15 minutes', at, 'epoch') END AS at
         FROM console_minute;
     INSERT INTO activity (minute, subject, outcome, slot, count)
     SELECT m.at, s.subject, s.outcome, slot, 10
     FROM console_step m,
          (VALUES ('job', 'succeeded'), ('job', 'failed'), ('delivery', 'delivered'), ('delivery', 'failed')) AS s (subject, outcome),
          generate_series(3, 8) AS slot
     ON CONFLICT DO NOTHING;
     INSERT INTO backlog (minute, jobs_open, jobs_oldest_seconds, deliveries_due, deliveries_oldest_seconds)
     SELECT at, 10, 60, 100, 5 FROM console_minute ON CONFLICT DO NOTHING;
     INSERT INTO webhook_activity (webhook_id, minute, delivered, failed, milliseconds, slowest)
     SELECT h.id, m, 90, 10, 5000, 300
     FROM console_hook h,
          generate_series(date_bin('5 minutes', now(), 'epoch') - interval '1 day', now(), '5 minutes') AS m
     ON CONFLICT DO NOTHING;
     INSERT INTO job_activity (kind, minute, succeeded, failed, milliseconds, slowest)
     SELECT kind, m.at, 90, 10, 5000, 300
     FROM console_step m, unnest(ARRAY['product.sync', 'stock.sync', 'stock.send', 'product.activate', 'expedition.sync']) AS kind
     ON CONFLICT DO NOTHING;
     INSERT INTO worker_activity (worker, minute, jobs, jobs_failed, calls, calls_failed, memory)
     SELECT 'box-' || n, m.at, 50, 5, 900, 10, 40000000 + n FROM console_step m, generate_series(1, 40) AS n
     ON CONFLICT DO NOTHING;
     INSERT INTO exhausted_activity (minute, webhook_id, deliveries)
     SELECT m.at, h.id, 3 FROM console_minute m JOIN console_hook h ON h.number <= 10
     ON CONFLICT DO NOTHING"
        .to_owned()
}
