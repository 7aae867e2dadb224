//! The answers of the fake BaseLinker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State as Extract;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, Method, StatusCode, Uri};
use serde_json::{Map, Value, json};
use url::form_urlencoded;

use super::{Account, Asked, Goods, INVENTORY, Inner, Mischief, State};

/// Products per page of its list.
const PAGE: usize = 1_000;

/// How long it blocks a token above the limit.
const BLOCK: Duration = Duration::from_mins(10);

pub(super) async fn answer(Extract(state): Extract<Arc<State>>, headers: HeaderMap, body: Bytes) -> Response {
    let token = headers.get("x-bltoken").and_then(|token| token.to_str().ok()).unwrap_or_default();
    let form: Vec<(String, String)> = form_urlencoded::parse(&body).into_owned().collect();
    let field = |name: &str| form.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let method = field("method").unwrap_or_default();
    let parameters =
        field("parameters").and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null);
    let (reply, mischief) = {
        let mut inner = state.inner();
        let now = Instant::now();
        let mischief = inner.mischief_for(&method);
        let admitted = inner.admit(state.limit, token, now);
        inner.asked.push(Asked {
            method: method.clone(),
            parameters: parameters.clone(),
            token: token.to_owned(),
            at: now,
            spoiled: admitted.is_err() || mischief.as_ref().is_some_and(|how| *how != Mischief::None),
        });
        let reply = match admitted {
            Ok(()) => inner.tell(&method, &parameters, mischief.as_ref()),
            Err(refusal) => refusal,
        };
        (reply, mischief)
    };
    state.came.send_modify(|count| *count += 1);
    send(&reply, mischief).await
}

/// Records requests to other paths.
pub(super) async fn stray(Extract(state): Extract<Arc<State>>, method: Method, uri: Uri) -> StatusCode {
    state.inner().strayed.push(format!("{method} {uri}"));
    StatusCode::NOT_FOUND
}

async fn send(reply: &Value, mischief: Option<Mischief>) -> Response {
    let text = reply.to_string();
    let (status, kind, body) = match mischief {
        Some(Mischief::Status(status)) => (status, "text/html", "<html>an error page</html>".to_owned()),
        Some(Mischief::WebPage) => (200, "text/html", "<!DOCTYPE html><html>we are down</html>".to_owned()),
        Some(Mischief::Refuse(code, message)) => {
            (200, "application/json", error(&code, &message).to_string())
        }
        Some(Mischief::Body(body)) => (200, "application/json", body),
        Some(Mischief::Silence) => std::future::pending().await,
        Some(Mischief::Redirect(to)) => {
            let mut response = response(307, "text/plain", Body::empty());
            if let Ok(to) = to.parse() {
                response.headers_mut().insert(LOCATION, to);
            }
            return response;
        }
        Some(Mischief::Cut) => {
            let half = Bytes::from(text.as_bytes()[..text.len() / 2].to_vec());
            let pieces = [Ok(half), Err(std::io::Error::other("cut"))];
            let mut response = response(200, "application/json", Body::from_stream(stream::iter(pieces)));
            response.headers_mut().insert(CONTENT_LENGTH, text.len().into());
            return response;
        }
        Some(
            Mischief::None
            | Mischief::PageBefore
            | Mischief::NoPage
            | Mischief::Without(_)
            | Mischief::WrongTypes,
        )
        | None => (200, "application/json", text),
    };
    response(status, kind, body.into())
}

fn response(status: u16, kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response
}

fn error(code: &str, message: &str) -> Value {
    json!({"status": "ERROR", "error_code": code, "error_message": message})
}

/// A map, empty ones as the real BaseLinker writes them.
fn map(members: Map<String, Value>) -> Value {
    if members.is_empty() { json!([]) } else { Value::Object(members) }
}

impl Inner {
    fn mischief_for(&mut self, method: &str) -> Option<Mischief> {
        let at = self.mischief.iter().position(|(wanted, _)| wanted.is_empty() || wanted == method);
        if let Some(at) = at {
            return self.mischief.remove(at).map(|(_, mischief)| mischief);
        }
        let (turns, turn) = &mut self.turns;
        let mischief = turns.get(*turn % turns.len().max(1)).cloned();
        *turn += 1;
        mischief
    }

    /// Counts a request, including refused ones, and refuses it if its token is unknown, blocked or above the
    /// limit.
    fn admit(&mut self, (most, window): (usize, Duration), token: &str, now: Instant) -> Result<(), Value> {
        match &mut self.revoke_after {
            Some(0) => self.tokens.clear(),
            Some(left) => *left -= 1,
            None => {}
        }
        let unknown = || error("ERROR_BAD_TOKEN", "Invalid user token");
        let Account { came, fullest, over, blocked } = self.tokens.get_mut(token).ok_or_else(unknown)?;
        while came.front().is_some_and(|first| now.duration_since(*first) >= window) {
            came.pop_front();
        }
        came.push_back(now);
        *fullest = came.len().max(*fullest);
        if came.len() > most {
            over.push((now, came.len()));
        }
        if let Some((until, said)) = blocked
            && *until > now
        {
            return Err(error("ERROR_BLOCKED_TOKEN", said));
        }
        *blocked = None;
        if came.len() > most {
            let said = format!("Query limit exceeded, token blocked for {} seconds", BLOCK.as_secs());
            *blocked = Some((now + BLOCK, said.clone()));
            return Err(error("ERROR_BLOCKED_TOKEN", &said));
        }
        Ok(())
    }

    fn tell(&mut self, method: &str, parameters: &Value, mischief: Option<&Mischief>) -> Value {
        let of_inventory = || match &parameters["inventory_id"] {
            Value::Number(id) if id.to_string() == INVENTORY => Ok(()),
            Value::Number(_) => Err(error("ERROR_INVENTORY_ID", "Unknown inventory")),
            _ => Err(error("ERROR_INVENTORY_ID", "inventory_id must be a number")),
        };
        match method {
            "getInventories" => json!({"status": "SUCCESS", "inventories": [
                {"inventory_id": 307, "name": "Default", "warehouses": ["bl_206"], "is_default": true}]}),
            "getInventoryWarehouses" => json!({"status": "SUCCESS", "warehouses": [
                {"warehouse_type": "bl", "warehouse_id": 206, "name": "Default", "stock_edition": true}]}),
            "getInventoryProductsList" => {
                of_inventory().map_or_else(|e| e, |()| self.list(parameters, mischief))
            }
            "getInventoryProductsData" => {
                of_inventory().map_or_else(|e| e, |()| self.data(parameters, mischief))
            }
            "updateInventoryProductsStock" => of_inventory().map_or_else(|e| e, |()| self.update(parameters)),
            other => error("ERROR_UNKNOWN_METHOD", &format!("An unknown method has been used: {other}")),
        }
    }

    fn list(&self, parameters: &Value, mischief: Option<&Mischief>) -> Value {
        let mut page = parameters["page"].as_u64().and_then(|page| usize::try_from(page).ok()).unwrap_or(1);
        if mischief == Some(&Mischief::PageBefore) {
            page = page.saturating_sub(1).max(1);
        }
        let mut products = Map::new();
        if mischief != Some(&Mischief::NoPage) {
            for (id, goods) in self.goods.iter().skip((page - 1) * PAGE).take(PAGE) {
                let listed = json!({"id": id, "ean": "", "sku": goods.sku, "name": goods.name, "prices": {"105": 20.99},
                    "stock": goods.stock});
                products.insert(id.to_string(), listed);
            }
        }
        if mischief == Some(&Mischief::WrongTypes) {
            for product in products.values_mut().step_by(2) {
                *product = json!("wrong");
            }
        }
        json!({"status": "SUCCESS", "products": map(products)})
    }

    fn data(&self, parameters: &Value, mischief: Option<&Mischief>) -> Value {
        let asked = parameters["products"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut products = Map::new();
        for id in asked.iter().filter_map(Value::as_u64) {
            let gone = mischief == Some(&Mischief::Without(id));
            if let Some(goods) = self.goods.get(&id).filter(|_| !gone) {
                products.insert(id.to_string(), data_of(goods));
            }
        }
        if mischief == Some(&Mischief::WrongTypes) {
            for product in products.values_mut().step_by(2) {
                product["weight"] = json!({"kg": 1});
            }
        }
        json!({"status": "SUCCESS", "products": map(products)})
    }

    fn update(&mut self, parameters: &Value) -> Value {
        let Some(products) = parameters["products"].as_object() else {
            return error("ERROR_PARAMS", "products must be a map");
        };
        if products.len() > PAGE {
            return error("ERROR_PARAMS", "at most 1000 products");
        }
        let (mut counter, mut warnings) = (0, Map::new());
        for (id, stocks) in products {
            let number: u64 = id.parse().unwrap_or(0);
            let warning = self.warnings.get(&number).cloned();
            match (warning, self.goods.get_mut(&number)) {
                (Some(warning), _) => {
                    warnings.insert(id.clone(), json!(warning));
                }
                (None, None) => {
                    warnings.insert(id.clone(), json!("There is no such product"));
                }
                (None, Some(goods)) => {
                    let stocks = stocks.as_object().into_iter().flatten();
                    goods
                        .stock
                        .extend(stocks.filter_map(|(at, pieces)| Some((at.clone(), pieces.as_i64()?))));
                    counter += 1;
                }
            }
        }
        json!({"status": "SUCCESS", "counter": counter, "warnings": map(warnings)})
    }
}

fn data_of(goods: &Goods) -> Value {
    let mut data = json!({"is_bundle": false, "sku": goods.sku, "ean": "", "weight": 0, "height": 0, "width": 0,
        "length": 0, "stock": goods.stock, "text_fields": {"name": goods.name, "description": "<p>Long.</p>"},
        "images": [], "links": [], "variants": []});
    if let (Some(data), Some(said)) = (data.as_object_mut(), goods.data.as_object()) {
        data.extend(said.clone());
    }
    data
}
