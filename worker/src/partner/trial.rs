//! A test of the connection to a partner: it reads the beginning of what a sync would read, and records nothing
//! (`docs/reference/syncs.md#connection-test`).

use futures::StreamExt as _;
use longshore_domain::partner::setting::Setting;
use longshore_kernel::figure::counted;

use super::{Abilities, PartnerError, Row, Start, Tools, open};

/// Reads the first page, of the list where the partner has one, else of the products, or of the stocks of a setting that maps warehouses
/// only. Returns what came, in a sentence for an operator.
pub async fn test(tools: &Tools, setting: &Setting) -> Result<String, PartnerError> {
    let partner = open(tools, setting)?;
    let wanted = &setting.wanted;
    let inventory = wanted.inventories.first().map_or("", |inventory| inventory.inventory_id.as_str());
    let Abilities { products, lists_items, .. } = partner.abilities();
    if lists_items {
        let page = partner.items(inventory, None).next().await.transpose()?.unwrap_or_default();
        return Ok(said(page.items.len(), "product", "products", inventory));
    }
    let reads_stocks_only =
        !wanted.product_sync.enabled && wanted.inventories.is_empty() && !wanted.warehouses.is_empty();
    if products && !reads_stocks_only {
        let page =
            partner.products(inventory, Start::default()).next().await.transpose()?.unwrap_or_default();
        readable(&page.rows)?;
        return Ok(said(page.rows.len(), "product", "products", inventory));
    }
    let warehouse = wanted.warehouses.first().map_or("", |warehouse| warehouse.warehouse_id.as_str());
    let page = partner.stocks(warehouse, Start::default()).next().await.transpose()?.unwrap_or_default();
    readable(&page.rows)?;
    Ok(said(page.rows.len(), "stock", "stocks", warehouse))
}

/// What answers with rows that all are none is not the partner: a page of a web site, for example.
fn readable(rows: &[Row]) -> Result<(), PartnerError> {
    let is_odd = |row: &Row| row.product_sku.is_none();
    match rows.first() {
        Some(_) if rows.iter().all(is_odd) => Err(PartnerError::Permanent(format!(
            "the address answers, but none of its first {} has a productSku: check baseUrl in the integration setting",
            counted(i64::try_from(rows.len()).unwrap_or(i64::MAX), "row", "rows")
        ))),
        _ => Ok(()),
    }
}

fn said(count: usize, one: &str, many: &str, of: &str) -> String {
    let came = counted(i64::try_from(count).unwrap_or(i64::MAX), one, many);
    let of = if of.is_empty() { String::new() } else { format!(" of {of}") };
    format!("the partner answers: its first page{of} has {came}")
}
