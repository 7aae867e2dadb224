//! The operator console as a browser without script uses it.

mod access;
mod attention;
mod audit;
mod bulk;
mod charts;
mod counts;
mod deliveries;
mod find;
mod forms;
mod health;
mod import;
mod lists;
mod login;
mod orders;
mod overview;
mod plans;
mod preferences;
mod products;
mod readers;
mod refresh;
mod refusals;
mod repair;
mod replay;
mod schedules;
mod siblings;
mod syncs;
mod theme;
mod timelines;
mod warehouses;
mod webhooks;

use axum::body::Body;
use http::Request;
use http::request::Builder;
use longshore_operate::snapshots::Snapshots;
use longshore_testkit::world::Tenant;
use serde_json::Value;
use sqlx::postgres::PgConnectOptions;
use url::form_urlencoded;
use uuid::Uuid;

use crate::product::World;
use crate::support::{Api, Reply};

use longshore_kernel::ids::JobId;

pub(crate) use crate::product::MIGRATIONS;

/// A browser that is logged in with a token.
pub(crate) struct Browser<'a> {
    api: &'a Api,
    cookie: String,
}

impl<'a> Browser<'a> {
    pub(crate) fn new(api: &'a Api, token: &str) -> Self {
        Self { api, cookie: format!("longshore_console={token}") }
    }

    fn request(&self, method: &str, path: &str) -> Builder {
        Request::builder()
            .method(method)
            .uri(path)
            .header("host", "ops.example")
            .header("cookie", &self.cookie)
    }

    /// Opens a page.
    pub(crate) async fn open(&self, path: &str) -> Reply {
        self.api.send(self.request("GET", path).body(Body::empty()).unwrap()).await
    }

    /// The overview, as it is a second after any other page: so long it may show what that showed.
    pub(crate) async fn overview(&self) -> String {
        let (_, token) = self.cookie.split_once('=').unwrap();
        let caller = self.api.app.tokens.authenticate(token).await.unwrap();
        self.api.app.kept::<Snapshots>().outdate(&caller.scope);
        self.open("/console").await.expect(200).text
    }

    /// Sends a form like a page of the console, but without its token.
    pub(crate) async fn send_bare(&self, path: &str, fields: &[(&str, &str)]) -> Reply {
        self.send_from("same-origin", path, fields).await
    }

    /// Sends a form from a page of some site.
    pub(crate) async fn send_from(&self, site: &str, path: &str, fields: &[(&str, &str)]) -> Reply {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = self
            .request("POST", path)
            .header("sec-fetch-site", site)
            .header("content-type", "application/x-www-form-urlencoded");
        self.api.send(request.body(Body::from(body)).unwrap()).await
    }

    /// Opens the confirmation of an action, and sends its form with further fields.
    pub(crate) async fn act(&self, path: &str, fields: &[(&str, &str)]) -> Reply {
        let question = self.open(path).await.expect(200);
        let mut sent = hidden(&question.text);
        sent.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let sent: Vec<_> = sent.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let action = path.split('?').next().unwrap();
        assert!(question.text.contains(&format!("action=\"{action}\"")), "{}", question.text);
        self.send_bare(action, &sent).await
    }
}

/// The hidden fields of the confirmation on a page.
pub(crate) fn hidden(page: &str) -> Vec<(String, String)> {
    let question = page.split("data-question").nth(1).unwrap().split("</form>").next().unwrap();
    question
        .split("<input type=\"hidden\" name=\"")
        .skip(1)
        .map(|field| {
            let (name, rest) = field.split_once('"').unwrap();
            let value = rest.split_once("value=\"").map_or("", |(_, value)| value.split('"').next().unwrap());
            (name.to_owned(), value.to_owned())
        })
        .collect()
}

/// Inserts a job in a state.
pub(crate) async fn job(world: &World, tenant: &Tenant, state: &str, error: Option<&str>) -> JobId {
    let ended = matches!(state, "succeeded" | "failed" | "cancelled");
    let id: JobId = sqlx::query_scalar(
        "INSERT INTO job (id, kind, state, organisation_id, eshop_id, acceptance, total, done, changed, failed, chunks_open, error,
             actor_type, actor_name, request_id, finished_at)
         VALUES (uuid_v7(), 'product.sync', $1, $2, $3, nextval('acceptance'), 2, CASE WHEN $4 THEN 2 ELSE 0 END,
             CASE WHEN $4 AND $5::text IS NULL THEN 2 ELSE 0 END,
             CASE WHEN $4 AND $5::text IS NOT NULL THEN 2 ELSE 0 END, CASE WHEN $4 THEN 0 ELSE 1 END, $5, 'token', 'somebody',
             'request-7', CASE WHEN $4 THEN now() END)
         RETURNING id",
    )
    .bind(state)
    .bind(tenant.organisation)
    .bind(tenant.eshop)
    .bind(ended)
    .bind(error)
    .fetch_one(&world.owner)
    .await
    .unwrap_or_else(|error| panic!("{error}"));
    if error.is_some() {
        sqlx::query(
            "INSERT INTO job_chunk (job_id, number, state, item_count, first_index, attempts, failed, error, finished_at)
             VALUES ($1, 0, 'failed', 2, 0, 3, 2, $2, now())",
        )
        .bind(id)
        .bind(error)
        .execute(&world.owner)
        .await
        .unwrap();
    }
    id
}

/// The last audit record of an entity: its action and actor.
pub(crate) async fn audited(world: &World, entity: Uuid) -> Option<(String, String)> {
    sqlx::query_as("SELECT action, actor_name FROM audit WHERE entity_id = $1 ORDER BY id DESC LIMIT 1")
        .bind(entity)
        .fetch_optional(&world.owner)
        .await
        .unwrap()
}

/// Creates a webhook of the tenant; returns its id.
pub(crate) async fn webhook(api: &Api, destination: &str) -> Uuid {
    let body =
        serde_json::json!({"eshop": api.tenant.eshop, "event": "product_change", "destination": destination});
    let made: Value = api.post(&api.user, "/api/eshop-webhook", body).await.expect(201).json();
    made["id"].as_str().unwrap().parse().unwrap()
}

/// The address of the next page of a list.
pub(crate) fn next_page(page: &str) -> Option<String> {
    let (before, _) = page.split_once("\" rel=\"next\"")?;
    Some(before.rsplit("href=\"").next()?.replace("&amp;", "&"))
}

pub(crate) async fn world(options: &PgConnectOptions) -> World {
    World::new(options).await
}
