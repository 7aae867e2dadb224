//! A site with products, stocks and a carrier, and the bodies of orders.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::ensure;
use longshore_testkit::stack::Stack;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::measure::floor::Psql;
use longshore_demo::api::{Job, JobState};
use longshore_demo::catalogue::Catalogue;
use longshore_demo::site::{Site, operator_of};

/// A job that takes longer hangs.
pub(super) const HUNG: Duration = Duration::from_mins(10);

/// A site that orders can be placed on.
pub(super) struct Depot {
    pub(super) site: Site,
    pub(super) carrier: Uuid,
    /// Its products, by their number.
    pub(super) products: Vec<Uuid>,
}

/// An item: the number of a product, and how many pieces.
pub(super) type Wanted = (usize, i64);

impl Depot {
    /// A site with products that have this many pieces each.
    pub(super) async fn on(stack: &Stack, name: &str, products: usize, pieces: i64) -> anyhow::Result<Self> {
        let site = Site::on(stack, name).await?;
        let mut psql = Psql::connect(stack).await?;
        let carrier = operator_of(stack).await?.create_carrier(site.organisation).await?;
        let job = site.api.sync_products(Catalogue::made_up(products).body(site.eshop)).await?;
        succeeded(&site.api.job_ended(job.id, HUNG).await?, products)?;
        let of = site.organisation;
        let ids =
            format!("SELECT array_agg(id ORDER BY product_sku) FROM product WHERE organisation_id = '{of}'");
        let depot = Self { products: psql.ask(&ids).await?, site, carrier };
        depot.count(0..products, pieces).await?;
        psql.settle().await?;
        Ok(depot)
    }

    /// Counts stocks; waits until the counts are taken.
    pub(super) async fn count(
        &self,
        products: impl ExactSizeIterator<Item = usize>,
        pieces: i64,
    ) -> anyhow::Result<()> {
        let job = self.begin_count(products, pieces).await?;
        let job = self.site.api.job_ended(job.id, HUNG).await?;
        ensure!(job.state == JobState::Succeeded, "the counts are not taken: {job:?}");
        Ok(())
    }

    /// Counts stocks; returns the job.
    pub(super) async fn begin_count(
        &self,
        products: impl Iterator<Item = usize>,
        pieces: i64,
    ) -> anyhow::Result<Job> {
        let mut body = json!({"eshop": self.site.eshop, "warehouseId": self.site.warehouse}).to_string();
        for n in products {
            // writing to a string cannot fail
            _ = write!(body, "\n{{\"productSku\":\"MU-{n:07}\",\"quantity\":{pieces}}}");
        }
        self.site.api.sync_stocks(body).await
    }

    /// The row of an order, as imports have it.
    pub(super) fn row(&self, number: &str, items: &[Wanted]) -> Value {
        let items: Vec<_> = items
            .iter()
            .map(|(n, quantity)| json!({"productSku": format!("MU-{n:07}"), "quantity": quantity, "productValue": "12.5"}))
            .collect();
        json!({
            "orderNumber": number, "externalId": format!("shop-{number}"), "value": 37.4, "currency": "EUR",
            "carrier": self.carrier, "deliveryMethod": "standard", "billingFirstName": "Ada", "billingLastName": "Byron",
            "billingStreet": "Quay Street", "billingHouseNr": "12b", "billingZip": "BS1 4QA", "billingCity": "Bristol",
            "billingCountry": "GB", "billingEmail": "ada@example.com", "billingPhone": "+44 117 496 0000",
            "eshopOrderDate": "2026-11-01T08:26:00+00:00", "note": "Please ring twice", "ref1": "basket 7",
            "items": items,
        })
    }

    /// The body of a create that is sent at once.
    pub(super) fn body(&self, number: &str, items: &[Wanted]) -> String {
        let mut body = self.row(number, items);
        body["eshop"] = json!(self.site.eshop);
        body["send"] = json!(true);
        body.to_string()
    }

    /// Creates and sends an order.
    pub(super) async fn place(&self, number: &str, items: &[Wanted]) -> anyhow::Result<()> {
        self.site.api.place_order(&self.body(number, items)).await
    }

    /// The body of an import that sends what is new.
    pub(super) fn import(&self, rows: impl Iterator<Item = Value>) -> String {
        let mut body = json!({"eshop": self.site.eshop, "send": true}).to_string();
        for row in rows {
            _ = write!(body, "\n{row}");
        }
        body
    }

    /// Imports orders; waits for the end of the job.
    pub(super) async fn imported(&self, body: String, changed: usize) -> anyhow::Result<()> {
        let job = self.site.api.import_orders(body).await?;
        succeeded(&self.site.api.job_ended(job.id, HUNG).await?, changed)
    }

    /// How many of its orders have a status.
    pub(super) async fn count_of(&self, psql: &mut Psql, status: &str) -> anyhow::Result<i64> {
        let of = self.site.organisation;
        psql.ask(&format!(
            "SELECT count(*) FROM expedition WHERE organisation_id = '{of}' AND status = '{status}'"
        ))
        .await
    }

    /// Waits until this many of its orders have a status.
    pub(super) async fn until(&self, psql: &mut Psql, status: &str, count: usize) -> anyhow::Result<()> {
        let wait = async {
            while self.count_of(psql, status).await? != i64::try_from(count)? {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(HUNG, wait).await?
    }

    /// Waits until none of its stocks is marked.
    pub(super) async fn until_unmarked(&self, psql: &mut Psql) -> anyhow::Result<()> {
        let marked = format!(
            "SELECT EXISTS (SELECT FROM product_stock WHERE warehouse_id = '{}' AND marked_at IS NOT NULL)",
            self.site.warehouse
        );
        let wait = async {
            while psql.ask::<bool>(&marked).await? {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(HUNG, wait).await?
    }

    /// Removes its orders, and gives each stock this many pieces, behind the back of the service.
    pub(super) async fn empty(&self, psql: &mut Psql, pieces: i64) -> anyhow::Result<()> {
        let (of, warehouse) = (self.site.organisation, self.site.warehouse);
        psql.run(&format!(
            "DELETE FROM expedition WHERE organisation_id = '{of}';
             UPDATE product_stock SET held = 0, missing = 0, quantity = {pieces} WHERE warehouse_id = '{warehouse}';
             UPDATE product_stock SET marked_at = NULL WHERE warehouse_id = '{warehouse}' AND marked_at IS NOT NULL"
        ))
        .await?;
        psql.settle().await
    }
}

/// The items of the nth order: 2.3 on average, of different products, as of people who do not know of each other.
pub(super) fn items(n: usize, products: usize) -> Vec<Wanted> {
    let count = [1, 1, 2, 2, 2, 2, 3, 3, 3, 4][n % 10];
    (0..count).map(|item| ((n * 7_919 + item * 104_729) % products, 1)).collect()
}

pub(super) fn succeeded(job: &Job, changed: usize) -> anyhow::Result<()> {
    let is_done = job.state == JobState::Succeeded && job.progress.changed == changed as u64;
    ensure!(is_done, "the job is not what it was to be: {job:?}");
    Ok(())
}
