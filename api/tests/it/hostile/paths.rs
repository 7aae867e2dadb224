//! Paths whose percent-encoding is not valid UTF-8.

use http::Method;
use serde_json::Value;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::MIGRATIONS;
use crate::console::Browser;
use crate::support::Api;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_segment_that_is_not_utf_8_is_neither_an_identifier_nor_a_name(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let id = Uuid::nil();
    for (method, path, status, code, named) in [
        (Method::GET, "/api/product/%ff".to_owned(), 400, "invalid_id", "id "),
        (Method::GET, "/api/carrier/%c3%28".to_owned(), 400, "invalid_id", "id "),
        (Method::PUT, "/api/admin/%ff/organisation/%ff".to_owned(), 400, "invalid_id", "id "),
        (Method::PUT, format!("/api/admin/{id}/organisation/%ff"), 400, "invalid_id", "organisation "),
        (Method::GET, format!("/api/product/{id}/%ff"), 400, "invalid_id", "image "),
        (
            Method::PUT,
            "/api/product/%ff/service/inbound_localisation_check".to_owned(),
            400,
            "invalid_id",
            "id ",
        ),
        (Method::PUT, format!("/api/product/{id}/service/%ff"), 404, "not_found", "service "),
        (Method::GET, "/api/carrier/code/%ff".to_owned(), 404, "not_found", "code "),
        (Method::PUT, "/api/queue/%ff".to_owned(), 404, "not_found", "name "),
        (Method::PUT, "/api/queue/%ed%a0%80/pause".to_owned(), 404, "not_found", "name "),
        (Method::GET, "/problems/%ff".to_owned(), 404, "not_found", "code "),
        (Method::GET, "/docs/%ff".to_owned(), 404, "not_found", "file "),
    ] {
        let reply = api.call_with(&api.superadmin, method, &path, Value::Null, &[]).await;
        assert_eq!(reply.status.as_u16(), status, "{path}: {}", reply.text);
        assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{path}");
        let problem = reply.json();
        assert_eq!(problem["code"], code, "{path}");
        assert!(problem["detail"].as_str().unwrap().contains(named), "{path}: {problem}");
    }
    // a caller without permission gets the same answer as for any other path
    api.get("", "/api/product/%ff").await.expect(401);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_console_has_no_page_with_such_a_name(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    let browser = Browser::new(&api, &api.superadmin);
    for (path, status) in [
        ("/console/job/%ff", 400),
        ("/console/webhook/%ff", 400),
        ("/console/reader/%ff", 400),
        ("/console/delivery/%ff", 400),
        ("/console/queue/%ff/pause", 404),
        ("/console/failure/%ff/retry", 404),
        ("/console/asset/%ff", 404),
        ("/console/%ff", 404),
    ] {
        browser.open(path).await.expect(status);
    }
    api.get("", "/console/asset/%ff").await.expect(404);
}
