//! BaseLinker (`docs/reference/syncs.md#baselinker`): makes the calls.
//! `longshore_domain::partner::baselinker` reads their answers.
//!
//! Before each call it checks whether the token is blocked (Postgres) and whether a slot is free (Redis). It
//! waits for a slot only briefly; for a longer wait it returns, and the job waits without holding up others.

mod call;
mod cursor;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use http::HeaderValue;
use longshore_domain::partner::baselinker::answer::{self, Listed};
use longshore_domain::partner::baselinker::product::{self, Product};
use longshore_domain::partner::baselinker::window::Window;
use longshore_domain::partner::baselinker::{ENDPOINT, STOCKS_PER_CALL, TokenHash};
use longshore_domain::partner::setting::Setting;
use longshore_kernel::authentication::Authentication;
use longshore_kernel::services::Services;
use serde_json::{Value, json};
use url::Url;

use self::call::{ANSWER_BYTES, Refused, Urgency};
use self::cursor::Cursor;
use super::{
    Abilities, Item, ItemPage, ItemPages, Page, Pages, Partner, PartnerError, Place, ROWS_PER_PAGE, Rate,
    Row, Start, StockCount, Taken, Tools,
};
use crate::outbound::Client;

/// The name of the partner in messages for an operator.
const NAME: &str = "BaseLinker";

/// Products whose data one call requests.
const DATA_PER_CALL: usize = 500;

/// A BaseLinker account, identified by its token.
pub struct Baselinker {
    client: Client,
    services: Arc<Services>,
    window: Window,
    endpoint: Url,
    token: HeaderValue,
    hash: TokenHash,
}

impl std::fmt::Debug for Baselinker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Baselinker").field("token", &self.hash).finish_non_exhaustive()
    }
}

/// Opens the account of a setting.
///
/// # Errors
/// [`PartnerError::Permanent`] if the setting has no usable token or address.
pub fn open(tools: &Tools, setting: &Setting) -> Result<Box<dyn Partner>, PartnerError> {
    let unusable = |what: &str| PartnerError::Permanent(format!("the integration setting has {what}"));
    let Authentication::Bearer { token } = &setting.credentials else { return Err(unusable("no token")) };
    let mut header = HeaderValue::try_from(token.as_str())
        .map_err(|_| unusable("a token that cannot be sent in a header"))?;
    header.set_sensitive(true);
    let endpoint = setting.wanted.base_url.as_deref().unwrap_or(ENDPOINT);
    Ok(Box::new(Baselinker {
        client: tools.client.clone(),
        services: Arc::clone(&tools.services),
        window: tools.baselinker.clone(),
        endpoint: endpoint.parse().map_err(|_| unusable("an invalid baseUrl"))?,
        token: header,
        hash: TokenHash::of(token),
    }))
}

impl Baselinker {
    /// A page of the product list.
    async fn list(&self, urgency: Urgency, inventory: &str, page: u32) -> Result<answer::Page, PartnerError> {
        let parameters = json!({"inventory_id": number_or_text(inventory), "page": page});
        self.ask(urgency, "getInventoryProductsList", &parameters, answer::products_list).await.map_err(
            |refused| {
                refused.or(|| {
                    PartnerError::Permanent(format!(
                        "a page of {NAME}'s list has more than {ANSWER_BYTES} bytes"
                    ))
                })
            },
        )
    }

    /// The rows of a page of the list, from the data of its products in as many calls as necessary.
    async fn rows(&self, inventory: &str, listed: answer::Page) -> Result<Vec<Row>, PartnerError> {
        let mut rows = Vec::with_capacity(listed.products.len());
        let mut wanted: Vec<Listed> = Vec::with_capacity(listed.products.len());
        for product in listed.products {
            match product {
                // a variant comes with its main product
                Ok(listed) if listed.is_variant => {}
                Ok(listed) => wanted.push(listed),
                Err(broken) => rows.push(refused_row(broken.key, broken.message)),
            }
        }
        // a stack with the first part on top, which keeps the order of the list
        let mut parts: Vec<&[Listed]> = wanted.chunks(DATA_PER_CALL).rev().collect();
        while let Some(part) = parts.pop() {
            let ids: Vec<u64> = part.iter().map(|listed| listed.id).collect();
            let parameters = json!({"inventory_id": number_or_text(inventory), "products": ids});
            let read = |body: &[u8]| {
                let products = answer::products_data(body)?;
                Ok(products.into_iter().map(|(key, raw)| (product::read(&key, raw), key)).collect::<Vec<_>>())
            };
            match self.ask(Urgency::Catalogue, "getInventoryProductsData", &parameters, read).await {
                Ok(products) => rows.extend(rows_of(part, products)),
                Err(Refused::TooLong) if part.len() > 1 => {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([second, first]);
                }
                Err(Refused::TooLong) => {
                    let message = format!("its data has more than {ANSWER_BYTES} bytes");
                    rows.extend(
                        part.iter().map(|listed| refused_row(listed.id.to_string(), message.clone())),
                    );
                }
                Err(Refused::By(error)) => return Err(error),
            }
        }
        Ok(rows)
    }

    /// A complete page of a catalogue, and where the next page begins, if there is one.
    async fn page(&self, inventory: &str, at: Cursor) -> Result<(Vec<Row>, Option<Cursor>), PartnerError> {
        let listed = self.list(Urgency::Catalogue, inventory, at.page).await?;
        let after = at.after(&listed)?;
        let mut rows = self.rows(inventory, listed).await?;
        rows.drain(..at.skip.min(rows.len()));
        Ok((rows, after))
    }

    /// The next rows, at most one page of them: a page of products has more rows if they have variants.
    async fn step<'p>(&'p self, inventory: &'p str, mut reading: Reading) -> Step<(Page, Reading)> {
        let (at, mut rows, after) = if let Some(rest) = reading.rest.take() {
            rest
        } else {
            let Some(at) = reading.next.take() else { return Ok(None) };
            let (rows, after) = self.page(inventory, at).await?;
            (at, rows, after)
        };
        let later = rows.split_off(rows.len().min(ROWS_PER_PAGE));
        let cursor = if later.is_empty() {
            reading.next = after;
            // the page after the last is empty
            after.unwrap_or(Cursor { page: at.page + 1, skip: 0, before: None })
        } else {
            let at = Cursor { skip: at.skip + rows.len(), ..at };
            reading.rest = Some((at, later, after));
            at
        };
        Ok(Some((Page { rows, cursor: Some(cursor.to_string()), ..Page::default() }, reading)))
    }

    async fn items_from(&self, inventory: &str, at: Option<Cursor>) -> Step<(ItemPage, Option<Cursor>)> {
        let Some(at) = at else { return Ok(None) };
        let listed = self.list(Urgency::Stocks, inventory, at.page).await?;
        let after = at.after(&listed)?;
        let items = listed.products.into_iter().flatten();
        let items = items.map(|listed| Item {
            item: listed.id.to_string(),
            product_sku: listed.sku,
            stock: listed.stock.into_iter().collect(),
        });
        let next = after.map(|after| after.to_string());
        Ok(Some((ItemPage { items: items.collect(), next }, after)))
    }

    async fn update(&self, place: &Place, counts: &[StockCount]) -> Result<Taken, PartnerError> {
        let Some(inventory) = &place.inventory else {
            let sentence = format!("the integration setting has no inventory of {NAME} to send stocks to");
            return Err(PartnerError::Permanent(sentence));
        };
        let mut taken = Taken::default();
        let mut positions = HashMap::with_capacity(counts.len());
        let mut products = serde_json::Map::with_capacity(counts.len());
        for (position, count) in counts.iter().enumerate() {
            match count.item.as_deref().and_then(|item| item.parse::<u64>().ok()) {
                Some(item) => {
                    positions.insert(item, position);
                    products.insert(item.to_string(), json!({place.warehouse.as_str(): count.quantity}));
                }
                None => taken.refused.push((position, format!("{NAME} knows no such product"))),
            }
        }
        if products.is_empty() {
            return Ok(taken);
        }
        let sent = products.len();
        let parameters = json!({"inventory_id": number_or_text(inventory), "products": products});
        let updated = self
            .ask(Urgency::Stocks, "updateInventoryProductsStock", &parameters, answer::updated)
            .await
            .map_err(|refused| {
                refused.or(|| PartnerError::transient(format!("the response of {NAME} is too large")))
            })?;
        let warned = updated.warnings.into_iter();
        taken.refused.extend(warned.filter_map(|(item, why)| Some((*positions.get(&item)?, why))));
        if let Some(remark) = updated.remarks.first() {
            // it names no product: the nightly comparison finds the quantity that was not accepted
            tracing::warn!(
                partner.sent = sent,
                partner.taken = updated.counter,
                remark,
                "BaseLinker returned warnings about stocks"
            );
        }
        Ok(taken)
    }
}

impl Partner for Baselinker {
    fn abilities(&self) -> Abilities {
        let limit = self.window.limit();
        Abilities {
            products: true,
            // stocks are sent to it and not read from it: this service is the source of truth
            stocks: false,
            stocks_per_call: STOCKS_PER_CALL,
            rate: Some(Rate { requests: limit.requests, within: limit.window }),
            lists_items: true,
        }
    }

    fn products<'p>(&'p self, inventory: &'p str, start: Start<'p>) -> Pages<'p> {
        let next = start.cursor.and_then(Cursor::parse).unwrap_or_default();
        let reading = Reading { next: Some(next), rest: None };
        stream::try_unfold(reading, move |reading| self.step(inventory, reading)).boxed()
    }

    fn stocks<'p>(&'p self, _warehouse: &'p str, _start: Start<'p>) -> Pages<'p> {
        let sentence = format!("stocks are sent to {NAME}, not read from it");
        stream::once(async { Err(PartnerError::Permanent(sentence)) }).boxed()
    }

    fn items<'p>(&'p self, inventory: &'p str, cursor: Option<&'p str>) -> ItemPages<'p> {
        let next = cursor.and_then(Cursor::parse).unwrap_or_default();
        stream::try_unfold(Some(next), move |at| self.items_from(inventory, at)).boxed()
    }

    fn send_stocks<'p>(
        &'p self,
        place: &'p Place,
        counts: &'p [StockCount],
    ) -> BoxFuture<'p, Result<Taken, PartnerError>> {
        self.update(place, counts).boxed()
    }
}

/// The result of a step of a stream.
type Step<T> = Result<Option<T>, PartnerError>;

/// The progress of reading a catalogue.
struct Reading {
    /// The next page to fetch.
    next: Option<Cursor>,
    /// The remaining rows of a fetched page: where they begin, the rows, and the page after it.
    rest: Option<(Cursor, Vec<Row>, Option<Cursor>)>,
}

/// The rows of the requested products; a listed product without data was deleted meanwhile.
fn rows_of(asked: &[Listed], answers: Vec<(Vec<answer::Item<Product>>, String)>) -> Vec<Row> {
    let mut answers: HashMap<String, Vec<answer::Item<Product>>> =
        answers.into_iter().map(|(products, key)| (key, products)).collect();
    let row = |product: answer::Item<Product>| match product {
        Ok(product) => Row::made(product.row).of_item(product.id.to_string()).noticing(product.notes),
        Err(broken) => refused_row(broken.key, broken.message),
    };
    let mut rows = Vec::with_capacity(asked.len());
    for listed in asked {
        match answers.remove(&listed.id.to_string()) {
            Some(products) => rows.extend(products.into_iter().map(row)),
            None => rows.push(refused_row(
                listed.id.to_string(),
                format!("was deleted at {NAME} while it was read ({})", listed.sku),
            )),
        }
    }
    rows
}

fn refused_row(key: String, message: String) -> Row {
    Row::refused(message, Bytes::new()).of_item(key)
}

/// Inventory ids are numbers; any other id is sent as text.
fn number_or_text(id: &str) -> Value {
    id.parse::<u64>().map_or_else(|_| id.into(), Into::into)
}
