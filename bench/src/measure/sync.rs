//! A partner's catalogue as NDJSON: all rows new, then all unchanged; and the first catalogue of an
//! installation, whose table statistics are from a few trial products.

use std::time::{Duration, Instant};

use anyhow::ensure;
use longshore_testkit::stack::{Stack, StackSettings};
use uuid::Uuid;

use super::floor::{Psql, made_up};
use super::load::{milliseconds, runs};
use super::{Effort, Floor, Reach, Row, median};
use longshore_demo::api::{Job, JobState};
use longshore_demo::catalogue::Catalogue;
use longshore_demo::site::Site;

/// Products of a run.
const PRODUCTS: usize = 100_000;

/// Products of a first catalogue.
const FIRST: usize = 33_000;

/// Products of the trial.
const TRIED: usize = 57;

/// A description of the floor of new products.
const NEW: &str =
    "COPY to a temporary table, then products, their e-shop and audit rows in one INSERT … SELECT";

/// A run that takes longer hangs.
const HUNG: Duration = Duration::from_mins(5);

pub(super) async fn measure(stack: &Stack, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let count = effort.of(PRODUCTS);
    let (catalogue, rows) = (Catalogue::made_up(count), made_up(count));
    let mut psql = Psql::connect(stack).await?;
    psql.run("CREATE TEMPORARY TABLE given (sku text NOT NULL, name text NOT NULL)").await?;
    let (mut new, mut new_floors) = (Vec::new(), Vec::new());
    let (mut again, mut again_floors, mut copies) = (Vec::new(), Vec::new(), Vec::new());
    for run in runs(effort) {
        // The floor uses a separate organisation: both begin without any of the products.
        let (bare, site) = (Site::on(stack, "sync floor").await?, Site::on(stack, "sync").await?);
        psql.settle().await?;
        psql.run("TRUNCATE given").await?;
        let started = Instant::now();
        psql.copy("COPY given FROM STDIN", &rows).await?;
        let copied = milliseconds(started);
        psql.run(&insert(&bare)).await?;
        let floor = milliseconds(started);
        psql.settle().await?;
        let figure = sync(&site, &catalogue, |changed| changed == count as u64).await?;
        psql.settle().await?;
        psql.run("ANALYZE given").await?;
        let compared = psql.timed(&compare(bare.organisation, bare.eshop)).await?;
        let same = sync(&site, &catalogue, |changed| changed == 0).await?;
        if run > 0 {
            new_floors.push(floor);
            new.push(figure);
            again_floors.push(compared);
            again.push(same);
            copies.push(copied + compared);
        }
    }
    let new_floor = Floor::median(new_floors, NEW);
    let is = "the compare-only query, on rows that are in a temporary table already";
    let again_floor = Floor::median(again_floors, is);
    let is = "the same with the COPY that brings the rows there";
    let with_copy = Floor::median(copies, is);
    let again = median(again);
    Ok(vec![
        Row::relative(
            format!("product sync of {count} new products"),
            median(new),
            "ms",
            new_floor,
            Reach::RatioAtMost(3.0),
        ),
        Row::relative(
            format!("the same sync of {count} again"),
            again,
            "ms",
            again_floor,
            Reach::RatioAtMost(3.0),
        ),
        Row::relative(
            format!("the same sync of {count} again, by COPY + compare"),
            again,
            "ms",
            with_copy,
            Reach::Anywhere,
        ),
    ])
}

/// The first catalogue, on a new installation for each run, because tables are small only once.
pub(super) async fn measure_first(settings: &StackSettings, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let count = effort.of(FIRST);
    let (catalogue, rows) = (Catalogue::made_up(count), made_up(count));
    let (mut figures, mut floors) = (Vec::new(), Vec::new());
    for _ in 0..effort.runs {
        let stack = Stack::start(settings).await?;
        let (bare, site) = (Site::on(&stack, "sync floor").await?, Site::on(&stack, "sync").await?);
        sync(&site, &Catalogue::made_up(TRIED), |changed| changed == TRIED as u64).await?;
        let mut psql = Psql::connect(&stack).await?;
        psql.settle().await?;
        figures.push(sync(&site, &catalogue, |changed| changed == (count - TRIED) as u64).await?);
        psql.run("CREATE TEMPORARY TABLE given (sku text NOT NULL, name text NOT NULL)").await?;
        psql.settle().await?;
        let started = Instant::now();
        psql.copy("COPY given FROM STDIN", &rows).await?;
        psql.run(&insert(&bare)).await?;
        floors.push(milliseconds(started));
    }
    let floor = Floor::median(floors, NEW);
    Ok(vec![Row::relative(
        format!("first product sync of {count}, tables analysed with {TRIED}"),
        median(figures),
        "ms",
        floor,
        Reach::RatioAtMost(3.0),
    )])
}

/// The time from the request to the end of the job, in milliseconds.
async fn sync(site: &Site, catalogue: &Catalogue, expected: impl Fn(u64) -> bool) -> anyhow::Result<f64> {
    let body = catalogue.body(site.eshop);
    let started = Instant::now();
    let job = site.api.sync_products(body).await?;
    ended(site, job, expected).await?;
    Ok(milliseconds(started))
}

/// Waits for the end of a sync, which must be what was expected.
pub(super) async fn ended(site: &Site, job: Job, expected: impl Fn(u64) -> bool) -> anyhow::Result<()> {
    let job = site.api.job_ended(job.id, HUNG).await?;
    ensure!(
        job.state == JobState::Succeeded && expected(job.progress.changed),
        "the sync is not what it was to be: {job:?}"
    );
    Ok(())
}

/// The same in SQL: products with their defaults in the e-shop, and audit rows with their initial fields.
fn insert(site: &Site) -> String {
    let (organisation, eshop) = (site.organisation, site.eshop);
    format!(
        "WITH made AS (
             INSERT INTO product (id, organisation_id, product_sku, internal_sku, name, reference_numbers,
                 packaging_type, imei_check_required, work_around_sn_in, work_around_ean_sticker,
                 work_around_warranty_inf, work_around_lot, active, active_acceptance, type)
             SELECT uuid_v7(), '{organisation}', sku, sku, name, '{{}}', 'A', false, false, false, false, false, true,
                 1, 'physical'
             FROM given ORDER BY sku
             RETURNING *
         ), sold AS (
             INSERT INTO product_eshop (product_id, eshop_id) SELECT id, '{eshop}' FROM made
         )
         INSERT INTO audit (id, actor_type, actor_name, action, entity_type, entity_id, organisation_id, changes)
         SELECT uuid_v7(), 'user', 'floor', 'product.sync', 'product', id, '{organisation}',
                jsonb_build_object('eshops', jsonb_build_array(null, jsonb_build_array('{eshop}')),
                    'productSku', jsonb_build_array(null, product_sku),
                    'internalSku', jsonb_build_array(null, internal_sku), 'name', jsonb_build_array(null, name),
                    'packagingType', jsonb_build_array(null, packaging_type),
                    'imeiCheckRequired', jsonb_build_array(null, imei_check_required),
                    'workAroundSnIn', jsonb_build_array(null, work_around_sn_in),
                    'workAroundEanSticker', jsonb_build_array(null, work_around_ean_sticker),
                    'workAroundWarrantyInf', jsonb_build_array(null, work_around_warranty_inf),
                    'workAroundLot', jsonb_build_array(null, work_around_lot),
                    'active', jsonb_build_array(null, active), 'type', jsonb_build_array(null, type))
         FROM made"
    )
}

/// The comparison in SQL: names, and the assignment to the e-shop. It finds no differences.
fn compare(organisation: Uuid, eshop: Uuid) -> String {
    format!(
        "SELECT g.sku FROM given g
         LEFT JOIN product p ON p.organisation_id = '{organisation}' AND p.product_sku = g.sku
         LEFT JOIN product_eshop e ON e.product_id = p.id AND e.eshop_id = '{eshop}'
         WHERE p.name IS DISTINCT FROM g.name OR e.product_id IS NULL"
    )
}
