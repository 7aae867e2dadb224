//! Reading one product, compared with a bare handler with the same query.

use longshore_testkit::stack::Stack;

use super::load::{self, runs};
use super::{Effort, Floor, Reach, Row, median};
use crate::bare;
use longshore_demo::api::Api;
use longshore_demo::site::Site;

/// Requests of a run.
const REQUESTS: usize = 30_000;

/// Connections that send the requests.
const CONNECTIONS: usize = 32;

/// Different products to read.
const PRODUCTS: usize = 10_000;

pub(super) async fn measure(stack: &Stack, site: &Site, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let (bare, _process) =
        bare::start(stack, &["look-up", "--organisation", &site.organisation.to_string()]).await?;
    let bare = Api::new(&bare, "none")?;
    let mut products = site.api.products(site.organisation).await?;
    products.truncate(PRODUCTS);
    let requests = effort.of(REQUESTS);
    let reads = async |api: &Api| {
        load::rate(requests, CONNECTIONS, |n| api.get_product(products[n % products.len()])).await
    };
    let (mut ours, mut floors) = (Vec::new(), Vec::new());
    for run in runs(effort) {
        let floor = reads(&bare).await?;
        let figure = reads(&site.api).await?;
        if run > 0 {
            floors.push(floor);
            ours.push(figure);
        }
    }
    let is = "a bare axum handler with the same query on the same kind of pool";
    let floor = Floor::median(floors, is);
    let what = format!("GET of a product, {CONNECTIONS} connections");
    Ok(vec![Row::relative(what, median(ours), "1/s", floor, Reach::RatioAtLeast(0.8))])
}
