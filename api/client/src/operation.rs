//! The operations that have a method of their own; [`Client::call`] reaches the others.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::call::Call;
use crate::client::Client;
use crate::list::{ListQuery, Page, Pages};
use crate::record::{
    CreatedDelivery, CreatedWebhook, Delivery, EventPage, Hits, ItemError, Job, Login, LostOrder, Queue,
    ReplayCount, Silence, Webhook, WebhookTried,
};
use crate::rows::Rows;

/// Where products are synced.
const SYNC_PRODUCTS: &str = "/api/partner-integration/eshop/sync/products";

/// Where stocks are synced.
const SYNC_STOCKS: &str = "/api/partner-integration/eshop/sync/product-stocks";

/// Where orders are imported.
const IMPORT_ORDERS: &str = "/api/partner-integration/eshop/sync/expeditions";

/// A webhook to create.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookToCreate {
    /// The events that it receives.
    #[serde(flatten)]
    pub choice: EventChoice,
    /// An `https` URL without credentials or fragment, of no private address.
    pub destination: String,
    /// Whether it sends; an inactive one keeps its deliveries.
    pub active: bool,
    /// How events are put together; nothing: a call for each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<WebhookBatch>,
    /// Calls that may begin in a second, 0.1 to 1,000; nothing: any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_per_second: Option<f64>,
}

/// Events of an e-shop, or of an organisation.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventChoice {
    /// The e-shop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eshop: Option<Uuid>,
    /// Instead of it, the organisation: all its e-shops, and itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organisation: Option<Uuid>,
    /// Their type, as in `product_change`; `*` for all that there are. Nothing: `events`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Several types, instead of `event`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// Conditions about the body, as those of lists; nothing: every event of the types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub criteria: Option<Value>,
    /// Members of `data` and of its `fields` that are sent; nothing: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub select: Option<Vec<String>>,
}

/// Events to try criteria with.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookToTry {
    /// What is tried.
    #[serde(flatten)]
    pub choice: EventChoice,
    /// Only events since then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<DateTime<Utc>>,
}

/// A new reader of events.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReaderToCreate {
    /// The events that it reads.
    #[serde(flatten)]
    pub choice: EventChoice,
    /// What people call it.
    pub name: String,
}

/// How the events of a webhook are put together.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookBatch {
    /// Events of a call at most, up to 500.
    pub max_events: u32,
    /// Milliseconds that the first event waits for others, up to 60,000.
    pub max_wait_ms: u32,
}

/// Which deliveries are replayed; one of `webhooks`, `eshop` and `host` is required.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replay {
    /// Only those of these webhooks, where there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub webhooks: Vec<Uuid>,
    /// Only those of this e-shop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eshop: Option<Uuid>,
    /// Only those to this host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Only those that ended at this moment or later.
    pub since: DateTime<Utc>,
    /// Only those that ended before this moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<DateTime<Utc>>,
    /// Those that succeeded as well.
    pub delivered: bool,
    /// Only those of this type of event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
}

impl Client {
    /// Sends rows of an e-shop, with this beside it in their header. That is no line of the file that they come from; of a file of
    /// CSV, it is the query.
    fn push(&self, path: &str, eshop: Uuid, beside: Option<(&'static str, Value)>, rows: Rows) -> Call<Job> {
        let mut header = json!({ "eshop": eshop });
        if let Some((name, value)) = beside {
            header[name] = value;
        }
        if rows.is_dry_run() {
            header["dryRun"] = json!(true);
        }
        for (of, limit) in rows.guards() {
            header["guard"][of] = json!(limit);
        }
        let Some(reading) = rows.csv() else {
            header["line"] = json!(0);
            return self.post(path).rows(rows.with_header(header));
        };
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let members = header.as_object().into_iter().flatten().flat_map(|(name, value)| match value {
            Value::Object(inner) => {
                inner.iter().map(|(of, value)| (format!("{name}.{of}"), text(value))).collect()
            }
            value => vec![(name.clone(), text(value))],
        });
        let members = members.chain(reading.iter().map(|(name, text)| ((*name).to_owned(), text.clone())));
        // only its query is of interest
        let url = reqwest::Url::parse_with_params("http://localhost/", members);
        let query = url.ok().and_then(|url| url.query().map(str::to_owned)).unwrap_or_default();
        self.post(format!("{path}?{query}")).header("content-type", "text/csv").rows(rows)
    }
}

/// Jobs.
impl Client {
    /// Lists jobs.
    pub fn jobs(&self, query: &ListQuery) -> Call<Page<Value>> {
        self.list("/api/job/list", query)
    }

    /// Why items of a job were refused, counted by code and field.
    pub fn item_error_groups(&self, job: Uuid) -> Call<Value> {
        self.post(format!("/api/job/{job}/error/group")).without_idempotency_key()
    }

    /// The refused rows of a job as they were sent; read it by [`Call::pieces`].
    pub fn refused_rows(&self, job: Uuid) -> Call<()> {
        self.get(format!("/api/job/{job}/refused")).header("accept", "*/*")
    }

    /// Reads a job.
    pub fn job(&self, id: Uuid) -> Call<Job> {
        self.get(format!("/api/job/{id}"))
    }

    /// Cancels a job; its completed chunks keep their effect. A job that has ended is refused (409).
    pub fn cancel_job(&self, id: Uuid) -> Call<Job> {
        self.put(format!("/api/job/cancel/{id}"))
    }

    /// Executes what failed in a job again: failed chunks and refused items. A job without them is refused
    /// (409).
    pub fn retry_job(&self, id: Uuid) -> Call<Job> {
        self.put(format!("/api/job/retry/{id}"))
    }

    /// Applies a dry run, once: a new job of the kind that was tried. `force` does not ask whether what it was compared with has
    /// changed since.
    pub fn apply_job(&self, id: Uuid, force: bool) -> Call<Job> {
        self.post(format!("/api/job/{id}/apply")).json(&json!({ "force": force }))
    }

    /// Executes what the guard of a sync has withheld, if that is `up_to` rows at most.
    pub fn release_job(&self, id: Uuid, up_to: u64) -> Call<Job> {
        self.post(format!("/api/job/{id}/release")).json(&json!({ "upTo": up_to }))
    }

    /// The refused items of a job, page by page; the service keeps the first 10,000.
    #[must_use]
    pub fn job_errors(&self, id: Uuid, query: ListQuery) -> Pages<ItemError> {
        self.pages(format!("/api/job/{id}/error/list"), query)
    }
}

/// Syncs and bulk operations. Each is a job, which [`Client::follow_job`] and [`Client::job_ended`] follow.
impl Client {
    /// Syncs products of an e-shop, one JSON object with a `productSku` a line, or a file of CSV. `inventory` is the partner's
    /// inventory, where it has several.
    pub fn sync_products(&self, eshop: Uuid, inventory: Option<&str>, rows: Rows) -> Call<Job> {
        self.push(SYNC_PRODUCTS, eshop, inventory.map(|inventory| ("inventoryId", json!(inventory))), rows)
    }

    /// Syncs stocks of an e-shop in a warehouse, one JSON object with `productSku` and `quantity` (pieces) a
    /// line, or a file of CSV. `warehouse` is its id, or the partner's id of it.
    pub fn sync_stocks(&self, eshop: Uuid, warehouse: &str, rows: Rows) -> Call<Job> {
        self.push(SYNC_STOCKS, eshop, Some(("warehouseId", json!(warehouse))), rows)
    }

    /// Makes a worker fetch the products of an e-shop from its partner.
    pub fn fetch_products(&self, eshop: Uuid, inventory: &str) -> Call<Job> {
        self.post(SYNC_PRODUCTS).json(&json!({ "eshop": eshop, "inventoryId": inventory }))
    }

    /// Activates or deactivates 1 to 100,000 products, by their ids. The answer is the job, finished unless it
    /// takes longer than 10 seconds; [`Call::respond_async`] does not wait.
    pub fn switch_products(&self, active: bool, products: &[Uuid]) -> Call<Job> {
        self.put(if active { "/api/product/activate" } else { "/api/product/deactivate" }).json(products)
    }
}

/// Orders, which the API calls expeditions.
impl Client {
    /// Lists orders.
    pub fn orders(&self, query: &ListQuery) -> Call<Page<Value>> {
        self.list("/api/expedition/list", query)
    }

    /// Reads an order.
    pub fn order(&self, id: Uuid) -> Call {
        self.get(format!("/api/expedition/{id}"))
    }

    /// Sends an order: it is checked and booked.
    pub fn send_order(&self, id: Uuid) -> Call {
        self.put(format!("/api/expedition/{id}/send"))
    }

    /// Cancels an order. One that the warehouse has begun with is refused (409).
    pub fn cancel_order(&self, id: Uuid, reason: Option<&str>) -> Call {
        self.put(format!("/api/expedition/{id}/cancel")).json(&json!({ "reason": reason }))
    }

    /// Imports orders of an e-shop, one JSON object with an `orderNumber` a line, or a file of CSV. `send` says whether new ones are sent, where
    /// their rows do not say it.
    pub fn import_orders(&self, eshop: Uuid, send: Option<bool>, rows: Rows) -> Call<Job> {
        self.push(IMPORT_ORDERS, eshop, send.map(|send| ("send", json!(send))), rows)
    }
}

/// Webhooks and their deliveries.
impl Client {
    /// Lists webhooks.
    pub fn webhooks(&self, query: &ListQuery) -> Call<Page<Value>> {
        self.list("/api/eshop-webhook/list", query)
    }

    /// Reads a webhook.
    pub fn webhook(&self, id: Uuid) -> Call<Webhook> {
        self.get(format!("/api/eshop-webhook/{id}"))
    }

    /// Creates a webhook.
    pub fn create_webhook(&self, webhook: &WebhookToCreate) -> Call<CreatedWebhook> {
        self.post("/api/eshop-webhook").json(webhook)
    }

    /// What a webhook would have been told of lately.
    pub fn try_webhook(&self, trial: &WebhookToTry) -> Call<WebhookTried> {
        self.post("/api/eshop-webhook/try").json(trial).without_idempotency_key()
    }

    /// Lists readers of events.
    pub fn event_readers(&self, query: &ListQuery) -> Call<Page<Value>> {
        self.list("/api/event-reader/list", query)
    }

    /// Creates a reader of events.
    pub fn create_event_reader(&self, reader: &ReaderToCreate) -> Call {
        self.post("/api/event-reader").json(reader)
    }

    /// Deletes a reader of events.
    pub fn delete_event_reader(&self, id: Uuid) -> Call<()> {
        self.delete(format!("/api/event-reader/{id}"))
    }

    /// Reads events after a cursor; without one, behind the stored position of the reader. It waits so many seconds for the first.
    pub fn events(&self, reader: Uuid, after: Option<&str>, limit: u32, wait: u64) -> Call<EventPage> {
        // a cursor has nothing that a URL would escape
        let after = after.map(|after| format!("&after={after}")).unwrap_or_default();
        self.get(format!("/api/event-reader/{reader}/events?limit={limit}&wait={wait}{after}"))
    }

    /// Stores where a reader is: reading without a cursor goes on there.
    pub fn store_position(&self, reader: Uuid, next: &str) -> Call<()> {
        self.put(format!("/api/event-reader/{reader}/position")).json(&json!({ "next": next }))
    }

    /// The records of a reader, one in a line, and last where to read on: `products`, `stocks` or `orders`.
    pub fn event_snapshot(&self, reader: Uuid, of: &str) -> Call {
        self.get(format!("/api/event-reader/{reader}/snapshot?of={of}"))
    }

    /// Activates a webhook, or deactivates it; an inactive one keeps its deliveries.
    pub fn switch_webhook(&self, id: Uuid, active: bool) -> Call<()> {
        self.put(format!("/api/eshop-webhook/{}/{id}", if active { "activate" } else { "deactivate" }))
    }

    /// Gives a webhook a new secret. The former one signs for another day.
    pub fn rotate_webhook_secret(&self, id: Uuid) -> Call<CreatedWebhook> {
        self.put(format!("/api/eshop-webhook/{id}/rotate-secret"))
    }

    /// Deletes a webhook.
    pub fn delete_webhook(&self, id: Uuid) -> Call<()> {
        self.delete(format!("/api/eshop-webhook/{id}"))
    }

    /// Sends a test to the destination of a webhook: an example of that event, or one of the type `test`. The answer names its
    /// delivery.
    pub fn test_webhook(&self, id: Uuid, event: Option<&str>) -> Call<CreatedDelivery> {
        let call = self.post(format!("/api/eshop-webhook/{id}/test"));
        match event {
            Some(event) => call.json(&json!({ "event": event })),
            None => call,
        }
    }

    /// Tests the connection to the partner of an e-shop.
    pub fn test_integration(&self, eshop: Uuid) -> Call<Job> {
        self.post(format!("/api/partner-integration/eshop-setting/{eshop}/test"))
    }

    /// Lists orders that only a warehouse has.
    pub fn lost_orders(&self, query: &ListQuery) -> Call<Page<LostOrder>> {
        self.list("/api/lost-order/list", query)
    }

    /// Dismisses one.
    pub fn dismiss_lost_order(&self, id: Uuid) -> Call<()> {
        self.delete(format!("/api/lost-order/{id}"))
    }

    /// Tests the connection to the system of a warehouse.
    pub fn test_wms(&self, wms: Uuid) -> Call<Job> {
        self.post(format!("/api/partner-integration/wms-setting/{wms}/test"))
    }

    /// Sends everything again that has not succeeded since then.
    pub fn recover_webhook(&self, id: Uuid, since: DateTime<Utc>) -> Call<Job> {
        let since = since.to_rfc3339_opts(SecondsFormat::Micros, true);
        self.post(format!("/api/eshop-webhook/{id}/recover")).json(&json!({ "since": since }))
    }

    /// Lists deliveries.
    pub fn deliveries(&self, query: &ListQuery) -> Call<Page<Delivery>> {
        self.list("/api/webhook-delivery/list", query)
    }

    /// Reads a delivery, with its attempts.
    pub fn delivery(&self, id: Uuid) -> Call<Delivery> {
        self.get(format!("/api/webhook-delivery/{id}"))
    }

    /// Reads the exact bytes that the attempts of a delivery send; [`Answer::body`](crate::Answer::body) has them.
    pub fn delivery_body(&self, id: Uuid) -> Call {
        self.get(format!("/api/webhook-delivery/{id}/body"))
    }

    /// Sends 1 to 100,000 deliveries again, by their ids.
    pub fn redeliver(&self, deliveries: &[Uuid]) -> Call<Job> {
        self.put("/api/webhook-delivery/redeliver").json(deliveries)
    }

    /// Counts what a replay would find.
    pub fn count_replay(&self, replay: &Replay) -> Call<ReplayCount> {
        self.post("/api/webhook-delivery/replay/count").json(replay).without_idempotency_key()
    }

    /// Sends deliveries of several webhooks again, by criteria.
    pub fn replay(&self, replay: &Replay) -> Call<Job> {
        self.post("/api/webhook-delivery/replay").json(replay)
    }
}

/// Finding.
impl Client {
    /// Finds anything by what people call it: a number, a name, an address, an id.
    pub fn find(&self, text: &str) -> Call<Hits> {
        self.post("/api/find").json(&json!({ "text": text })).without_idempotency_key()
    }
}

/// E-shops.
impl Client {
    /// Lists e-shops.
    pub fn eshops(&self, query: &ListQuery) -> Call<Page<Value>> {
        self.list("/api/eshop/list", query)
    }

    /// Reads an e-shop.
    pub fn eshop(&self, id: Uuid) -> Call {
        self.get(format!("/api/eshop/{id}"))
    }
}

/// Operation of the service.
impl Client {
    /// Reads the state of all queues.
    pub fn queues(&self) -> Call {
        self.get("/api/queue")
    }

    /// Pauses a queue, by its name.
    pub fn pause_queue(&self, name: &str, reason: Option<&str>) -> Call<Queue> {
        self.put(format!("/api/queue/{name}/pause")).json(&json!({"reason": reason}))
    }

    /// Resumes a queue, by its name.
    pub fn resume_queue(&self, name: &str) -> Call<Queue> {
        self.put(format!("/api/queue/{name}/resume"))
    }

    /// Reads what needs attention now.
    pub fn attention(&self) -> Call {
        self.get("/api/attention")
    }

    /// Acknowledges a line as it is now; it comes back when something new happens.
    pub fn acknowledge_attention(&self, line: Uuid, note: Option<&str>) -> Call<Silence> {
        self.put(format!("/api/attention/{line}/acknowledge")).json(&json!({ "note": note }))
    }

    /// Mutes a line for one of [`Silence::SPANS`].
    pub fn mute_attention(&self, line: Uuid, span: &str, reason: &str) -> Call<Silence> {
        self.put(format!("/api/attention/{line}/mute")).json(&json!({ "for": span, "reason": reason }))
    }

    /// Ends the acknowledgement or the mute of a line.
    pub fn end_attention_silence(&self, line: Uuid) -> Call<()> {
        self.delete(format!("/api/attention/{line}/silence"))
    }

    /// Lists audit records.
    pub fn audit(&self, query: &ListQuery) -> Call<Page<Value>> {
        self.list("/api/audit", query)
    }
}

/// Accounts.
impl Client {
    /// Logs an admin in, or with `is_admin` false a business user. `code` is that of the second factor.
    pub fn log_in(&self, is_admin: bool, login: &str, password: &str, code: Option<&str>) -> Call<Login> {
        let path = if is_admin { "/api/login/admin" } else { "/api/login/user" };
        let body = json!({ "login": login, "password": password, "code": code });
        self.post(path).json(&body).without_idempotency_key()
    }
}

/// Access tokens.
impl Client {
    /// Lists access tokens, without their values.
    pub fn access_tokens(&self, query: &ListQuery) -> Call<Page<Value>> {
        self.list("/api/access-token/list", query)
    }

    /// Revokes an access token.
    pub fn revoke_access_token(&self, id: Uuid) -> Call<()> {
        self.delete(format!("/api/access-token/{id}"))
    }
}
