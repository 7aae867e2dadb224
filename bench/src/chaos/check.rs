//! The invariants, checked when all work is done.

mod orders;
mod partners;
mod warehouses;
mod webhooks;

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use longshore_kernel::config::RedisSettings;
use longshore_kernel::queue::{Queue, Queues};
use longshore_testkit::world::Tenant;
use sqlx::PgConnection;
use uuid::Uuid;

pub(crate) use self::webhooks::{OF_CHANGED, OF_ORGANISATION};
use super::crew::{Crew, connect};
use super::fleet::Shop;
use super::load::{Load, PromisedJob, Promises};
use super::minder::Minder;
use super::neighbour::Neighbour;
use super::orders::Merchant;
use super::partners::Partner;
use super::proxy::Proxy;
use super::report::Check;

use super::warehouses::Warehouse;

/// The interval of checking whether all work is done.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// For how long there must be no work.
const QUIET: Duration = Duration::from_secs(1);

/// Bytes by which Redis may have grown, for its own tables.
const REDIS_SLACK: u64 = 4 << 20;

/// Connections that one process of the service may have, with those of a worker for its leases.
const CONNECTIONS: i64 = 32 + 8 + 4 + 4;

/// Facts about a run that the checks need besides its participants.
#[derive(Debug)]
pub(crate) struct Course<'r> {
    /// When the first fault could occur.
    pub(crate) began: Instant,
    /// The memory of Redis at that time.
    pub(crate) redis_bytes: u64,
    /// When Redis was emptied.
    pub(crate) emptied: Vec<Emptied>,
    /// Periods in which requests may have waited for Postgres or an api process.
    pub(crate) stalls: Vec<(Instant, Instant)>,
    /// The webhook-id of the last test.
    pub(crate) last_test: Uuid,
    /// What carries the connections of the service to Postgres, if it can count them.
    pub(crate) to_postgres: Option<&'r Proxy>,
}

/// Redis was emptied at some moment in this period.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Emptied {
    pub(crate) from: Instant,
    pub(crate) until: Instant,
}

/// The memory that Redis uses, in bytes.
pub(crate) async fn redis_bytes(crew: &Crew) -> anyhow::Result<u64> {
    let mut redis = queues(crew)?.connection();
    let info: String = redis::cmd("INFO").arg("memory").query_async(&mut redis).await?;
    let used =
        info.lines().find_map(|line| line.strip_prefix("used_memory:")).context("there is no used_memory")?;
    Ok(used.trim().parse()?)
}

/// The queues of the service.
pub(crate) fn queues(crew: &Crew) -> anyhow::Result<Queues> {
    // the default prefix of the service
    let settings = RedisSettings { redis_url: crew.redis_url.clone(), queue_prefix: "longshore:".to_owned() };
    Ok(Queues::open(&settings)?)
}

/// Makes everything due now that waits for hours.
pub(crate) async fn hurry(psql: &mut PgConnection) -> anyhow::Result<()> {
    for hurry in [
        "UPDATE delivery SET next_attempt_at = now() WHERE next_attempt_at > now()",
        "UPDATE webhook_lane SET probe_at = now() WHERE probe_at > now()",
        "UPDATE job_chunk SET next_attempt_at = now() WHERE state = 'queued' AND next_attempt_at > now()",
        "UPDATE job SET out_of_line_until = now() WHERE out_of_line_until > now()",
        // not while a call may be under way
        "UPDATE expedition_handover SET handover_next_attempt_at = now()
         WHERE id = ANY (ARRAY(SELECT id FROM expedition_handover
                               WHERE handover_next_attempt_at > now() AND coalesce(handover_in_call_until <= now(), true)
                               FOR NO KEY UPDATE SKIP LOCKED))",
        "UPDATE wms_lane SET probe_at = CASE WHEN probe_at IS NOT NULL THEN least(probe_at, now()) END, held_until = NULL
         WHERE probe_at > now() OR held_until > now()",
    ] {
        sqlx::query(hurry).execute(&mut *psql).await?;
    }
    Ok(())
}

/// Starts the nightly comparison of the quantities at partners with the available ones. It corrects a count
/// that a frozen worker sent last, which a partner cannot distinguish from a new one.
pub(crate) async fn run_nightly_comparison(crew: &Crew) -> anyhow::Result<()> {
    let mut psql = connect(crew).await?;
    sqlx::query("UPDATE stock_send_out SET compare_at = now()").execute(&mut psql).await?;
    Ok(())
}

/// Makes all waiting work due, and waits until nothing is left to do; returns the work that remains.
pub(crate) async fn be_quiet(crew: &Crew, within: Duration) -> anyhow::Result<Option<String>> {
    let mut psql = connect(crew).await?;
    let queues = queues(crew)?;
    let (until, mut quiet_since) = (Instant::now() + within, None);
    loop {
        hurry(&mut psql).await?;
        let left: (i64, i64, i64, i64, i64, i64, i64, i64, i64) = sqlx::query_as(
            "SELECT (SELECT count(*) FROM delivery),
                    (SELECT count(*) FROM webhook_lane WHERE leased_until > now()),
                    (SELECT count(*) FROM job WHERE state NOT IN ('succeeded', 'failed', 'cancelled')),
                    (SELECT count(*) FROM job WHERE state = 'receiving'),
                    (SELECT count(*) FROM stock_change) + (SELECT count(*) FROM eshop_stock_change)
                    + (SELECT count(*) FROM stock_due),
                    -- what would begin by the clock in the middle of the looking
                    (SELECT count(*) FROM partner_clock WHERE next_run_at < now() + interval '10 seconds')
                    + (SELECT count(*) FROM stock_send_out WHERE compare_at < now() + interval '10 seconds'),
                    (SELECT count(*) FROM product_stock WHERE marked_at IS NOT NULL),
                    (SELECT count(*) FROM expedition_handover WHERE handover_state IN ('pending', 'sending', 'withdrawing')),
                    (SELECT count(*) FROM wms_lane WHERE leased_until > now())",
        )
        .fetch_one(&mut psql)
        .await?;
        // runs upkeep that is due each minute now; if the entry is lost, the next round sends it again
        let due = [(left.3, "receiving"), (left.5, "partners"), (left.5, "comparisons")];
        let due = due.iter().filter(|(left, _)| *left > 0).map(|(_, task)| (*task).to_owned());
        let due: Vec<String> = due.collect();
        if !due.is_empty() {
            _ = queues.put(Queue::Upkeep, &due, Duration::from_secs(1)).await;
        }
        if left == (0, 0, 0, 0, 0, 0, 0, 0, 0) {
            if quiet_since.get_or_insert_with(Instant::now).elapsed() >= QUIET {
                return Ok(None);
            }
        } else {
            quiet_since = None;
        }
        if Instant::now() >= until {
            return Ok(Some(format!(
                "after {within:?}, {} deliveries, {} leased lanes, {} jobs ({} of them receiving), {} stocks to be sent, \
                 {} syncs by the clock, {} marked stocks, {} hand-overs and {} leased lanes of wms are left",
                left.0, left.1, left.2, left.3, left.4, left.5, left.6, left.7, left.8
            )));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Checks that a query returns no rows, and shows a few if it does.
async fn none(psql: &mut PgConnection, name: &str, of: i64, query: &'static str) -> anyhow::Result<Check> {
    let found: Vec<String> =
        sqlx::query_scalar(query).fetch_all(psql).await.with_context(|| name.to_owned())?;
    Ok(Check::new(name, of.unsigned_abs(), found))
}

/// Who took part in a run, with their promises.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cast<'r> {
    pub(crate) load: &'r Load,
    pub(crate) shops: &'r [(Uuid, Shop)],
    pub(crate) partners: &'r [Partner],
    pub(crate) minder: &'r Minder<'r>,
    pub(crate) neighbour: &'r Neighbour,
    pub(crate) merchants: &'r [Merchant],
    pub(crate) warehouses: &'r [Warehouse],
}

/// All invariants.
pub(crate) async fn all(crew: &Crew, cast: Cast<'_>, course: &Course<'_>) -> anyhow::Result<Vec<Check>> {
    let Cast { load, shops, partners, minder, neighbour, merchants, warehouses } = cast;
    let mut psql = connect(crew).await?;
    let mut checks = Vec::new();
    for (name, caller) in [
        ("no answer but success, 503 with Retry-After, or none", &load.caller),
        (
            "the neighbour that floods: no answer but success, 429 or 503 with Retry-After, or none",
            &neighbour.caller,
        ),
    ] {
        let tally = caller.tally();
        let mut answers = Check::new(name, tally.answers.values().sum(), tally.violations.clone());
        answers.violations = tally.violated;
        for evidence in &mut answers.evidence {
            evidence.push_str(&said_of(crew, evidence)?);
        }
        checks.push(answers);
    }
    checks.push(not_crowded_out(load, course));
    let promised = std::mem::take(&mut *load.promises());
    let kept = promises(&mut psql, &promised, &load.tenant).await;
    *load.promises() = promised;
    checks.extend(kept?);
    let accepted = neighbour.jobs().clone();
    checks.push(
        jobs(
            &mut psql,
            "each job of the neighbour that was accepted did all of its items, each once",
            &accepted,
        )
        .await?,
    );
    let deeds = std::mem::take(&mut *minder.deeds());
    let mut all_shops = vec![
        (load.tenant.organisation.get(), shops),
        (neighbour.tenant.organisation.get(), neighbour.shops.as_slice()),
    ];
    all_shops.extend(merchants.iter().map(|one| (one.tenant.organisation.get(), one.shops.as_slice())));
    all_shops.extend(warehouses.iter().map(|one| (one.tenant.organisation.get(), one.shops.as_slice())));
    let kept = webhooks::all(&mut psql, &all_shops, &deeds, course.last_test).await;
    *minder.deeds() = deeds;
    checks.extend(kept?);
    checks.extend(partners::all(&mut psql, partners, course).await?);
    checks.extend(orders::all(crew, &mut psql, merchants).await?);
    checks.extend(warehouses::all(&mut psql, warehouses).await?);
    checks.extend(rows(&mut psql).await?);
    checks.extend(servers(crew, &mut psql, course).await?);
    checks.push(panics(crew)?);
    Ok(checks)
}

/// What holds after Postgres was set back.
pub(crate) async fn after_a_set_back(crew: &Crew, warehouses: &[Warehouse]) -> anyhow::Result<Vec<Check>> {
    let mut psql = connect(crew).await?;
    let shops: Vec<_> =
        warehouses.iter().map(|one| (one.tenant.organisation.get(), one.shops.as_slice())).collect();
    let mut checks = vec![
        warehouses::after_a_set_back(&mut psql, warehouses).await?,
        webhooks::derived(&mut psql, &shops).await?,
    ];
    checks.extend(orders::rules(crew, &mut psql).await?);
    checks.push(panics(crew)?);
    for check in &mut checks {
        check.name.insert_str(0, "after a set-back: ");
    }
    Ok(checks)
}

/// The flood of one organisation must not take from the share of another. While Postgres does not answer, the
/// requests of any organisation pile up, and may exceed its own share.
fn not_crowded_out(load: &Load, course: &Course<'_>) -> Check {
    let tally = load.caller.tally();
    let in_a_stall = |at: &Instant| course.stalls.iter().any(|(from, until)| (from..=until).contains(&at));
    let crowded_out = tally.crowded_out.iter().filter(|(at, _)| !in_a_stall(at));
    let found = crowded_out.map(|(_, evidence)| evidence.clone()).collect();
    let name = "no other organisation is answered 429 because of the neighbour";
    Check::new(name, tally.answers.values().sum(), found)
}

async fn promises(
    psql: &mut PgConnection,
    promises: &Promises,
    tenant: &Tenant,
) -> anyhow::Result<Vec<Check>> {
    let mut checks = Vec::new();
    let (products, names): (Vec<Uuid>, Vec<String>) = promises.names.iter().cloned().unzip();
    let found: Vec<String> = sqlx::query_scalar(
        "SELECT given.product || ' was named ' || given.name || ' ' || count(audit.id) || ' times'
         FROM unnest($1::uuid[], $2::text[]) AS given (product, name)
         LEFT JOIN audit ON audit.entity_id = given.product AND audit.changes->'name'->>1 = given.name
         GROUP BY given.product, given.name HAVING count(audit.id) <> 1",
    )
    .bind(&products)
    .bind(&names)
    .fetch_all(&mut *psql)
    .await?;
    checks.push(Check::new("each name that was accepted was given once", products.len() as u64, found));

    let last: HashMap<Uuid, String> = promises.names.iter().cloned().collect();
    let (products, names): (Vec<Uuid>, Vec<String>) = last.into_iter().unzip();
    let found: Vec<String> = sqlx::query_scalar(
        "SELECT given.product || ' is named ' || product.name || ' instead of ' || given.name
         FROM unnest($1::uuid[], $2::text[]) AS given (product, name) JOIN product ON product.id = given.product
         WHERE product.name <> given.name",
    )
    .bind(&products)
    .bind(&names)
    .fetch_all(&mut *psql)
    .await?;
    checks.push(Check::new(
        "each product bears the last name that was accepted",
        products.len() as u64,
        found,
    ));

    let (skus, ids): (Vec<String>, Vec<Uuid>) = promises.created.iter().cloned().unzip();
    let found: Vec<String> = sqlx::query_scalar(
        "SELECT given.sku || ' is ' || coalesce(product.id::text, 'missing') || ' instead of ' || given.id || ', created '
                || (SELECT count(*) FROM audit WHERE audit.entity_id = product.id AND audit.action = 'product.create')
                || ' times'
         FROM unnest($1::text[], $2::uuid[]) AS given (sku, id)
         LEFT JOIN product ON product.product_sku = given.sku AND product.organisation_id = $3
         WHERE product.id IS DISTINCT FROM given.id
            OR (SELECT count(*) FROM audit WHERE audit.entity_id = product.id AND audit.action = 'product.create') <> 1",
    )
    .bind(&skus)
    .bind(&ids)
    .bind(tenant.organisation)
    .fetch_all(&mut *psql)
    .await?;
    checks.push(Check::new("each product that was created is there, created once", skus.len() as u64, found));

    let name = "each job that was accepted did all of its items, each once";
    checks.push(jobs(psql, name, &promises.jobs).await?);

    let found: Vec<String> = sqlx::query_scalar(
        "SELECT product_sku || ' is ' || active || ', ' || name || ', ' || coalesce(quantity::text, 'uncounted')
         FROM product LEFT JOIN product_stock ON product_stock.product_id = product.id
         WHERE product.organisation_id = $1 AND (
             product_sku LIKE 'SWITCHED-%' AND active <> coalesce($2, active)
             OR product_sku LIKE 'SYNCED-%' AND (name <> coalesce($3, name) OR quantity IS DISTINCT FROM coalesce($4, quantity))
             OR product_sku LIKE 'BROKEN-%')",
    )
    .bind(tenant.organisation)
    .bind(promises.switched)
    .bind(promises.synced.as_deref())
    .bind(promises.counted)
    .fetch_all(&mut *psql)
    .await?;
    let all: i64 = sqlx::query_scalar("SELECT count(*) FROM product").fetch_one(&mut *psql).await?;
    let name =
        "products are as the last switch, sync and count left them, and none came by a sync that broke off";
    checks.push(Check::new(name, all.unsigned_abs(), found));
    Ok(checks)
}

/// Checks that each of these jobs processed all of its items.
async fn jobs(psql: &mut PgConnection, name: &str, jobs: &[PromisedJob]) -> anyhow::Result<Check> {
    let ids: Vec<Uuid> = jobs.iter().map(|job| job.id).collect();
    let items = jobs.iter().map(|job| i32::try_from(job.items)).collect::<Result<Vec<_>, _>>()?;
    let found: Vec<String> = sqlx::query_scalar(
        "SELECT given.id || ': ' || coalesce(to_jsonb(job) - 'parameters', 'null')::text || ', audited ' || audited.count
         FROM unnest($1::uuid[], $2::int[]) AS given (id, items) LEFT JOIN job ON job.id = given.id
         CROSS JOIN LATERAL (SELECT count(*) FROM audit WHERE audit.job_id = given.id AND audit.entity_type <> 'job') audited
         WHERE job.state IS DISTINCT FROM 'succeeded' OR job.total <> given.items OR job.done <> given.items
            OR job.failed > 0
            OR CASE job.kind WHEN 'preview' THEN 0 ELSE job.changed END <> audited.count",
    )
    .bind(&ids)
    .bind(&items)
    .fetch_all(psql)
    .await?;
    Ok(Check::new(name, ids.len() as u64, found))
}

async fn rows(psql: &mut PgConnection) -> anyhow::Result<Vec<Check>> {
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM audit").fetch_one(&mut *psql).await?;
    let mut checks = vec![
        none(
            psql,
            "each change has its audit record and its event",
            count,
            "SELECT audit.action || ' ' || audit.id FROM audit LEFT JOIN event ON event.id = audit.id
             WHERE event.id IS NULL AND audit.entity_type IN ('product', 'product_stock')
               -- without a listener, no event is made
               AND audit.organisation_id IN (SELECT organisation_id FROM webhook)
             UNION ALL
             SELECT event.type || ' ' || event.id FROM event LEFT JOIN audit ON audit.id = event.id
             WHERE audit.id IS NULL AND event.type NOT IN ('test', 'job_finished')
               -- what orders book is audited with the order
               AND NOT (event.type IN ('expedition_booked_change', 'product_stock_change')
                        AND event.organisation_id IN (SELECT organisation_id FROM expedition))",
        )
        .await?,
    ];
    let jobs: i64 = sqlx::query_scalar("SELECT count(*) FROM job").fetch_one(&mut *psql).await?;
    checks.push(
        none(
            psql,
            "no job and no chunk is stuck",
            jobs,
            "SELECT id || ' is ' || state FROM job WHERE state NOT IN ('succeeded', 'failed', 'cancelled')
             UNION ALL
             SELECT job_id || '-' || number || ' is ' || state FROM job_chunk WHERE state IN ('queued', 'running')",
        )
        .await?,
    );
    checks.push(
        none(
            psql,
            "no row is orphaned, no lane leased, no stock other than the sum of its movements",
            jobs + count,
            "SELECT 'delivery ' || d.id FROM delivery d
             WHERE NOT EXISTS (SELECT FROM event WHERE event.id = d.event_id)
                OR NOT EXISTS (SELECT FROM webhook WHERE webhook.id = d.webhook_id)
             UNION ALL
             SELECT 'delivered ' || d.id FROM delivery_history d
             WHERE NOT EXISTS (SELECT FROM event WHERE event.id = d.event_id)
                OR NOT EXISTS (SELECT FROM webhook WHERE webhook.id = d.webhook_id)
             UNION ALL
             SELECT 'lane ' || webhook_id FROM webhook_lane WHERE leased_until > now() OR probe_at IS NOT NULL OR failures > 0
             UNION ALL
             SELECT 'lane of wms ' || wms_id FROM wms_lane
             WHERE leased_until > now() OR probe_at IS NOT NULL OR failures > 0 OR held_until > now()
             UNION ALL
             SELECT 'hand-over of ' || id FROM expedition_handover
             WHERE handover_state IN ('pending', 'sending', 'withdrawing') OR handover_in_call_until > now()
             UNION ALL
             SELECT 'webhook ' || id FROM webhook w WHERE NOT active
                OR NOT EXISTS (SELECT FROM webhook_lane l WHERE l.webhook_id = w.id)
             UNION ALL
             SELECT 'payload of ' || job_id || '-' || number FROM job_chunk JOIN job ON job.id = job_id
             -- that of a dry run stays for as long as it can be applied
             WHERE payload IS NOT NULL AND job_chunk.state = 'succeeded' AND preview_of IS NULL
             UNION ALL
             SELECT 'SKU of the fetch ' || job_id FROM partner_fetch_key
             UNION ALL
             SELECT 'change of stocks in ' || warehouse_id FROM stock_change
             UNION ALL
             SELECT 'change of stocks of ' || eshop_id FROM eshop_stock_change
             UNION ALL
             SELECT 'stock due for ' || eshop_id || ': ' || product_id FROM stock_due
             UNION ALL
             SELECT 'key ' || key FROM idempotency
             WHERE outcome IS NULL AND (claimed_until > now() + interval '1 minute' OR job_id IS NOT NULL)
             UNION ALL
             SELECT 'stock ' || s.id FROM product_stock s
             WHERE s.quantity <> (SELECT coalesce(sum(m.quantity), 0) FROM stock_movement m
                                  WHERE (m.product_id, m.warehouse_id, m.wms_id) = (s.product_id, s.warehouse_id, s.wms_id))",
        )
        .await?,
    );
    Ok(checks)
}

async fn servers(crew: &Crew, psql: &mut PgConnection, course: &Course<'_>) -> anyhow::Result<Vec<Check>> {
    let sessions: Vec<(String, String, i64)> = sqlx::query_as(
        "SELECT application_name, coalesce(state, 'none'), count(*) FROM pg_stat_activity
         WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND application_name LIKE 'longshore-%'
         GROUP BY 1, 2",
    )
    .fetch_all(&mut *psql)
    .await?;
    let all: i64 = sessions.iter().map(|(_, _, count)| count).sum();
    let members = i64::try_from(crew.members().count())?;
    let most = CONNECTIONS * members;
    let mut wrong: Vec<String> = sessions
        .iter()
        .filter(|(_, state, _)| state.starts_with("idle in transaction"))
        .map(|(name, state, count)| format!("{count} sessions of {name} are {state}"))
        .collect();
    if all > most {
        wrong.push(format!("{all} sessions of the service, of at most {most}"));
    }
    // processes may open or close connections between the two looks
    if let Some(proxied) = course.to_postgres.map(|proxy| i64::try_from(proxy.open())).transpose()?
        && all.abs_diff(proxied) > members.unsigned_abs()
    {
        wrong.push(format!("{all} sessions, but {proxied} connections of the service"));
    }
    let connections =
        Check::new("connections to Postgres are back where they were", all.unsigned_abs(), wrong);

    let (bytes, queues) = (redis_bytes(crew).await?, queues(crew)?);
    let mut wrong = Vec::new();
    if bytes > course.redis_bytes + REDIS_SLACK {
        wrong.push(format!("{bytes} bytes, {} before", course.redis_bytes));
    }
    for queue in [Queue::Chunk, Queue::Lane, Queue::Partner, Queue::Handover] {
        let stats = queues.stats(queue).await?;
        if stats.depth > 0 {
            wrong.push(format!("{queue:?}: {stats:?}"));
        }
    }
    let redis = Check::new("memory and queues of Redis are back where they were", bytes, wrong);
    Ok(vec![connections, redis])
}

/// The log lines about the request that a piece of evidence names.
fn said_of(crew: &Crew, evidence: &str) -> anyhow::Result<String> {
    let id = evidence.split_once("\"requestId\":\"").and_then(|(_, rest)| rest.split('"').next());
    let Some(id) = id.filter(|id| !id.is_empty()) else { return Ok(String::new()) };
    let mut said = String::new();
    for member in crew.members() {
        for line in std::fs::read_to_string(member.log())?.lines().filter(|line| line.contains(id)) {
            _ = write!(said, "\n                {}: {line}", member.name);
        }
    }
    Ok(said)
}

/// Checks that no process of the service panicked.
fn panics(crew: &Crew) -> anyhow::Result<Check> {
    let (mut lines, mut found) = (0, HashSet::new());
    for member in crew.members() {
        for line in std::fs::read_to_string(member.log())?.lines() {
            lines += 1;
            if line.contains("panicked at") {
                found.insert(format!("{}: {line}", member.name));
            }
        }
    }
    Ok(Check::new("nothing panicked", lines, found.into_iter().collect()))
}
