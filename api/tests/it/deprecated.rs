//! Operations that are deprecated (`docs/reference/compatibility.md#deprecation`). None is unless the table of URLs says so; here, three
//! more are in it.

use std::future::IntoFuture as _;

use axum::Router;
use chrono::{Datelike as _, Days, Months, NaiveDate, NaiveTime};
use longshore_api::routes::{activity, attention};
use longshore_api::{router, urls};
use longshore_http::middleware::deprecated::Deprecation;
use longshore_kernel::access::Role;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::attention::find;
use crate::hostile::socket::head;
use crate::product::{MIGRATIONS, World};
use crate::support::Api;

const NEAR: &str = "/api/old-counts";
const FAR: &str = "/api/older-counts/{span}";

fn deprecated(since: NaiveDate) -> Deprecation {
    Deprecation::since(since.year(), since.month(), since.day(), "`GET /api/counts`")
}

/// The service with one operation that ends in a month, and one that was deprecated today.
fn router(api: &Api) -> (Router, Deprecation) {
    let today = api.services.clock.now().date_naive();
    let near = deprecated(today + Days::new(30) - Months::new(12));
    let table = urls::api().get(NEAR, activity::read_counts).deprecated(near);
    let table = table.post(NEAR, attention::list_attention).get(FAR, activity::read_job_activity);
    (router::of(api.app.clone(), table.deprecated(deprecated(today))), near)
}

/// The answer to a request without a body, over a socket.
async fn answer(port: u16, method: &str, path: &str, token: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(head(method, path, token, &[]).as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn serve(router: Router) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(axum::serve(listener, router).into_future());
    port
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn answers_of_a_deprecated_operation_say_since_when_and_until_when(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let (router, near) = router(&api);
    let port = serve(router).await;
    let since = near.begun().and_time(NaiveTime::MIN).and_utc().timestamp();
    let sunset = near.sunset().format("%a, %d %b %Y 00:00:00 GMT");
    let said = [
        format!("\r\ndeprecation: @{since}\r\n"),
        format!("\r\nsunset: {sunset}\r\n"),
        // the second operation of its handler
        "\r\nlink: </docs/read_counts_alias>; rel=\"deprecation\"; type=\"text/html\"\r\n".to_owned(),
    ];
    for (method, token, status) in [("GET", &*api.viewer, 200), ("HEAD", &*api.viewer, 200), ("GET", "", 401)]
    {
        let answer = answer(port, method, NEAR, token).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        for line in &said {
            assert!(answer.contains(line), "{line:?} is not in {answer}");
        }
    }
    // another method of the path, and another path
    for (method, path) in [("POST", NEAR), ("GET", "/api/counts")] {
        let answer = answer(port, method, path, &api.viewer).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        for name in ["deprecation:", "sunset:", "link:"] {
            assert!(!answer.contains(&format!("\r\n{name}")), "{answer}");
        }
    }
    let metrics = answer(port, "GET", "/metrics", "").await;
    let counted = format!("longshore_http_deprecated_requests_total{{route=\"{NEAR}\",method=\"GET\"}} 3");
    assert!(metrics.contains(&counted), "{metrics}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn who_calls_an_operation_that_ends_soon_has_a_record_and_a_line(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut world = World::new(&options).await;
    let (router, near) = router(&world.api);
    world.api.router = router;
    let api = &world.api;
    let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    assert_eq!(find(&world, &admin, "deprecated_operation").await, None);
    for _ in 0..3 {
        api.get(&admin, NEAR).await.expect(200);
        api.get(&admin, &FAR.replace("{span}", "hour")).await.expect(200);
    }
    api.services.refusals.write(&api.services.db.main).await.unwrap();

    let criteria = json!({"criteria": {"action": {"eq": "request.deprecated"}}});
    let records = api.post(&api.superadmin, "/api/audit", criteria).await.expect(200).json();
    assert_eq!(records["paging"]["total"], 1, "once a day: {records}");
    let record = &records["results"][0];
    assert_eq!(record["organisation"], json!(api.tenant.organisation));
    let (until, later) = (near.sunset(), deprecated(api.services.clock.now().date_naive()).sunset());
    assert_eq!(
        record["changes"]["deprecated"],
        json!([null, {format!("GET {NEAR}"): until, format!("GET {FAR}"): later}])
    );

    let line = find(&world, &admin, "deprecated_operation").await.unwrap();
    assert_eq!(
        (&line["severity"], &line["organisation"]),
        (&json!("warning"), &json!(api.tenant.organisation))
    );
    assert_eq!(line["page"], "/console/audit?whose=all&action=request.deprecated");
    let sentence = line["sentence"].as_str().unwrap();
    assert!(sentence.contains(&format!("still calls GET {NEAR}, which ends on {until}")), "{sentence}");
    let listed = api.get(&admin, "/api/attention").await.expect(200).text;
    assert!(!listed.contains(FAR), "it ends in a year: {listed}");
    // nobody has called for a week; audit records are never changed, so they have to be let
    let aged = "ALTER TABLE audit DISABLE TRIGGER USER;
        UPDATE audit SET id = uuid_v7_floor(now() - interval '8 days') WHERE action = 'request.deprecated'";
    sqlx::raw_sql(aged).execute(&world.owner).await.unwrap();
    assert_eq!(find(&world, &admin, "deprecated_operation").await, None);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_line_of_an_account_of_no_organisation_is_the_services(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut world = World::new(&options).await;
    world.api.router = router(&world.api).0;
    let api = &world.api;
    api.get(&api.superadmin, NEAR).await.expect(200);
    api.services.refusals.write(&api.services.db.main).await.unwrap();
    let line = find(&world, &api.superadmin, "deprecated_operation").await.unwrap();
    assert_eq!(line["organisation"], Value::Null);
    let path = crate::attention::path(&line, "mute");
    api.put(&api.superadmin, &path, json!({"for": "7d", "reason": "it is ours"})).await.expect(200);
    assert_eq!(
        find(&world, &api.superadmin, "deprecated_operation").await.unwrap()["silence"]["mode"],
        "muted"
    );
    let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    assert_eq!(find(&world, &admin, "deprecated_operation").await, None);
}
