//! The calls of a WMS as Longshore makes them: `PUT /expedition/{id}` and `DELETE /expedition/{id}?number=n`, each with JSON.

use http::Method;
use serde_json::Value;
use url::form_urlencoded;
use uuid::Uuid;

use super::mischief::On;
use crate::receiver::Receipt;

/// A call that could be read.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) expedition: Uuid,
    pub(super) number: u64,
    /// The order of a hand-over; `None` for a withdrawal.
    pub(super) order: Option<Value>,
}

impl Call {
    /// Reads a call; the error says what is wrong with it.
    pub(super) fn of(receipt: &Receipt) -> Result<Self, String> {
        let expedition = expedition_of(&receipt.path)
            .ok_or_else(|| format!("{} is not …/expedition/{{id}}", receipt.path))?;
        if receipt.method == Method::DELETE {
            let query = receipt.query.as_deref().unwrap_or_default();
            let number = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "number");
            let number = number.and_then(|(_, number)| number.parse().ok()).filter(|number| *number > 0);
            let number = number.ok_or("the query has no number")?;
            let body = receipt.json().map_err(|error| format!("the body is not JSON: {error}"))?;
            if body["number"].as_u64() != Some(number) {
                return Err("the number of the body is not that of the query".to_owned());
            }
            return Ok(Self { expedition, number, order: None });
        }
        if receipt.method != Method::PUT {
            return Err(format!("there is no {}", receipt.method));
        }
        let order = receipt.json().map_err(|error| format!("the body is not JSON: {error}"))?;
        let number = order["number"].as_u64().filter(|number| *number > 0).ok_or("the body has no number")?;
        if order["id"].as_str() != Some(expedition.to_string().as_str()) {
            return Err("the id of the body is not that of the path".to_owned());
        }
        let key = format!("{expedition}.{number}");
        for name in ["idempotency-key", "webhook-id"] {
            if receipt.header(name) != Some(key.as_str()) {
                return Err(format!("{name} is {:?} instead of {key}", receipt.header(name)));
            }
        }
        Ok(Self { expedition, number, order: Some(order) })
    }

    /// The order that a `GET` asks about: Longshore asks about one that does not exist, to test the connection.
    pub(super) fn asks_about(receipt: &Receipt) -> Option<Uuid> {
        if receipt.method == Method::GET { expedition_of(&receipt.path) } else { None }
    }

    pub(super) fn is_met_by(&self, on: On) -> bool {
        match on {
            On::Any => true,
            On::Put => self.order.is_some(),
            On::Delete => self.order.is_none(),
            On::Order(expedition) => expedition == self.expedition,
        }
    }
}

/// The id at the end of a path, however it begins.
fn expedition_of(path: &str) -> Option<Uuid> {
    let (before, id) = path.rsplit_once('/')?;
    before.ends_with("/expedition").then(|| Uuid::try_parse(id).ok())?
}
