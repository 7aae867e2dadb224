//! `POST /api/partner-integration/wms/sync/news` (`docs/reference/orders.md#news`). The test does the jobs, like a worker.

use crate::product::MIGRATIONS;
use http::Method;
use longshore_domain::expedition::news::{self, Reporter, read_row};
use longshore_domain::job::chunk::{self, Claimed};
use longshore_domain::job::execution;
use longshore_domain::job::kind::TakeNews;
use longshore_domain::job::outcome::Outcome;
use longshore_domain::job::row::ReadRows;
use longshore_kernel::access::Role;
use longshore_kernel::change::Change;
use longshore_kernel::clock::Clock;
use longshore_kernel::hold::Hold;
use longshore_kernel::ids::{JobId, OrganisationId};
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::World;
use crate::support::Reply;
use crate::support::strangers;

const PATH: &str = "/api/partner-integration/wms/sync/news";

/// Does a job of news to its end.
async fn work(world: &World, job: JobId) {
    let services = &world.api.services;
    for number in 0.. {
        let Claimed::Now(claim) = chunk::claim(&services.db.main, job, number, false).await.unwrap() else {
            return;
        };
        let (TakeNews { wms }, organisation): (_, OrganisationId) = claim.job::<TakeNews>().unwrap();
        let now = services.clock.now();
        let rows = ReadRows::read(&claim, |row| read_row(row, now)).unwrap();
        let mut change = Change::begin(services).await.unwrap();
        let reporter = Reporter { origin: &claim.origin, organisation, wms, at: now };
        let applied = news::apply(&mut change, reporter, &rows.good).await.unwrap();
        let Outcome { count, errors } = rows.outcome(applied.changed, applied.refused);
        let held = execution::complete(&mut change, &claim, count, &errors).await.unwrap();
        assert_eq!(held, Hold::Kept, "no other worker runs here");
        change.commit().await.unwrap();
    }
}

/// Waits for the job of a request, and does it.
async fn work_when_accepted(world: &World) {
    world.until("SELECT count(*) FROM job WHERE state = 'queued'", 1).await;
    let job = sqlx::query_scalar("SELECT id FROM job WHERE state = 'queued'").fetch_one(&world.owner).await;
    work(world, job.unwrap()).await;
}

async fn post(world: &World, token: &str, body: &Value, headers: &[(&str, &str)]) -> Reply {
    world.api.call_with(token, Method::POST, PATH, body.clone(), headers).await
}

fn of(world: &World, news: &[Value]) -> Value {
    json!({"wms": world.api.tenant.wms, "news": news})
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_few_reports_are_done_within_the_request_and_say_what_was_refused(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let order = world.at("awaiting_processing", "1").await;
    let token = world.api.tenant.token(&world.api.services, Role::Warehouse).await.unwrap();
    let body = of(
        &world,
        &[
            json!({"id": "1", "expedition": order["id"], "status": "take_out"}),
            json!({"id": "2", "eshop": world.api.tenant.eshop, "orderNumber": "none", "status": "take_out"}),
        ],
    );
    let key = [("idempotency-key", "k1")];
    let (reply, ()) = tokio::join!(post(&world, &token, &body, &key), work_when_accepted(&world));
    let job = reply.expect(200).json();
    assert_eq!(
        (&job["kind"], &job["state"], &job["eshop"]),
        (&json!("expedition.news"), &json!("succeeded"), &Value::Null)
    );
    assert_eq!(
        job["progress"],
        json!({"total": 2, "done": 2, "changed": 1, "unchanged": 0, "failed": 1, "withheld": 0})
    );
    let errors = job["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 1);
    assert_eq!(
        (&errors[0]["index"], &errors[0]["key"], &errors[0]["code"]),
        (&json!(1), &json!("2"), &json!("unknown_expedition"))
    );
    assert_eq!(world.read(&order).await["status"], "take_out");
    // the same request shows the job again; the program cannot read it otherwise
    let again = post(&world, &token, &body, &key).await.expect(200).json();
    assert_eq!((&again["id"], &again["errors"]), (&job["id"], &job["errors"]));
    let location = format!("/api/job/{}", job["id"].as_str().unwrap());
    world.api.get(&token, &location).await.expect(403);
    world.api.get(&world.api.user, &location).await.expect(200);
}

#[test]
fn an_empty_text_of_a_report_is_null() {
    let parcel = json!({"extPackageNumber": "P-1", "extCarrierTrackingNumber": "", "trackingUrl": ""});
    let item = json!({"productSku": "mug", "product": "", "expedited": 1, "lot": ""});
    let report = json!({
        "id": "1", "expedition": Uuid::nil(), "eshop": "", "orderNumber": "", "number": "", "at": "",
        "status": "waiting_for_the_carrier", "cancel": "", "wmsInternalId": "", "items": [item], "parcels": [parcel],
    });
    let read = format!("{:?}", read_row(report, Clock::system().now()).unwrap());
    for field in ["carrier_tracking_number", "tracking_url", "internal_id", "lot", "number", "at", "cancel"] {
        assert!(read.contains(&format!("{field}: None")), "{field}: {read}");
    }
}

#[tokio::test]
async fn many_reports_are_answered_at_once_and_shown_by_the_same_key() {
    let world = World::new(&strangers().await).await;
    let order = world.at("awaiting_processing", "1").await;
    let token = world.api.tenant.token(&world.api.services, Role::Warehouse).await.unwrap();
    let reports: Vec<Value> = (0..101)
        .map(|n| json!({"id": n.to_string(), "expedition": order["id"], "status": "take_out"}))
        .collect();
    let lines: Vec<String> = std::iter::once(json!({"wms": world.api.tenant.wms}))
        .chain(reports)
        .map(|line| line.to_string())
        .collect();
    let send = async || {
        let request = http::Request::post(PATH)
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/x-ndjson")
            .header("idempotency-key", "k2");
        world.api.send(request.body(lines.join("\n").into()).unwrap()).await
    };
    let job = send().await.expect(202).json();
    assert_eq!(
        (&job["state"], &job["progress"]["total"], &job["errors"]),
        (&json!("queued"), &json!(101), &json!([]))
    );
    work(&world, job["id"].as_str().unwrap().parse().unwrap()).await;
    let done = send().await.expect(200).json();
    assert_eq!((&done["id"], &done["progress"]["changed"]), (&job["id"], &json!(101)));
    // a few, without waiting
    let few = of(&world, &[json!({"id": "few", "expedition": order["id"]})]);
    post(&world, &token, &few, &[("prefer", "respond-async")]).await.expect(202);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_program_reports_for_its_own_wms_only(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    let order = world.at("awaiting_processing", "1").await;
    let async_ = [("prefer", "respond-async")];
    let report = of(&world, &[json!({"id": "1", "expedition": order["id"], "status": "take_out"})]);
    for token in [&api.viewer, &api.user, &api.connector] {
        post(&world, token, &report, &async_).await.expect(403);
    }
    let stranger = Tenant::create(&api.services, "Other").await.unwrap();
    for role in [Role::Admin, Role::Warehouse] {
        let own = api.tenant.token(&api.services, role).await.unwrap();
        let foreign = stranger.token(&api.services, role).await.unwrap();
        let refused = post(&world, &foreign, &report, &async_).await.expect(400);
        assert_eq!(refused.violations(), ["wms unknown_reference"]);
        let accepted = post(&world, &own, &report, &async_).await.expect(202).json();
        work(&world, accepted["id"].as_str().unwrap().parse().unwrap()).await;
        // a foreign order is unknown in one's own wms
        let body = json!({"wms": stranger.wms, "news": [{"id": "9", "expedition": order["id"], "status": "delivered"}]});
        let (reply, ()) = tokio::join!(post(&world, &foreign, &body, &[]), work_when_accepted(&world));
        assert_eq!(reply.expect(200).json()["errors"][0]["code"], "unknown_expedition");
    }
    // of the same organisation
    let wms = json!({"organisation": api.tenant.organisation, "name": "Second", "distributionCenter": api.tenant.organisation,
                     "storeKey": "S", "internalId": "2"});
    let second = api.post(&api.superadmin, "/api/wms", wms).await.expect(201).json()["id"].clone();
    let own = api.tenant.token(&api.services, Role::Warehouse).await.unwrap();
    let refused = post(&world, &own, &json!({"wms": second, "news": []}), &async_).await.expect(400);
    assert_eq!(refused.violations(), ["wms unknown_reference"]);
}

#[tokio::test]
async fn a_request_that_is_no_news_is_refused() {
    let world = World::new(&strangers().await).await;
    let token = &world.api.superadmin;
    let wms = world.api.tenant.wms;
    for (body, violation) in [
        (json!({"news": []}), "wms required"),
        (json!({"wms": wms}), "news required"),
        (json!({"wms": wms, "news": {}}), "news wrong_type"),
        (json!({"wms": "mine", "news": []}), "wms invalid_id"),
        (json!({"wms": wms, "eshop": world.api.tenant.eshop, "news": []}), "eshop unknown_field"),
    ] {
        assert_eq!(post(&world, token, &body, &[]).await.expect(400).violations(), [violation], "{body}");
    }
    let headless = r#"{"id":"1","status":"take_out"}"#;
    let request = http::Request::post(PATH)
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/x-ndjson");
    let reply = world.api.send(request.body(headless.into()).unwrap()).await.expect(400).json();
    let message =
        reply["violations"].as_array().unwrap().iter().find(|v| v["propertyPath"] == "wms").unwrap();
    assert!(message["message"].as_str().unwrap().contains("{\"wms\": …}"), "{reply}");
}
