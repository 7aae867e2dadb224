//! Every operation without a token, with a role that is not allowed, and with records of another
//! organisation.

use longshore_kernel::access::Role;
use longshore_testkit::world::Tenant;
use serde_json::Value;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::sample::{OF_LOGINS, Sample};
use crate::product::MIGRATIONS;

/// Operations without a token.
const PUBLIC: &[&str] = &[
    "describe_problem",
    "get_metrics",
    "get_openapi",
    "list_problems",
    "live",
    "login_admin",
    "login_user",
    "ready",
    "show_docs",
    "show_docs_file",
    "show_index",
];

#[sqlx::test(migrator = "MIGRATIONS")]
async fn every_operation_but_the_public_ones_asks_for_a_token(_: PgPoolOptions, options: PgConnectOptions) {
    let sample = Sample::new(&options).await;
    let mut public = Vec::new();
    for operation in sample.operations() {
        let place = format!("{} {}", operation.method, operation.path);
        if operation.roles.is_empty() {
            let reply = sample.call("", &operation, 0).await;
            assert!(!reply.status.is_client_error(), "{place}: {}", reply.text);
            public.push(operation.id);
        } else {
            let request = http::Request::builder().method(operation.method).uri(operation.path);
            let reply = sample.api.send(request.body(axum::body::Body::empty()).unwrap()).await;
            assert_eq!(reply.status.as_u16(), 401, "{place}: {}", reply.text);
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"), "{place}");
            assert_eq!(reply.json()["code"], "unauthenticated", "{place}");
        }
    }
    public.sort_unstable();
    assert_eq!(public, PUBLIC);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn no_change_ignores_if_match(_: PgPoolOptions, options: PgConnectOptions) {
    let sample = Sample::new(&options).await;
    let (mut supported, mut refused) = (0, 0);
    for operation in sample.operations().into_iter().filter(|o| o.method != http::Method::GET) {
        let request = http::Request::builder().method(operation.method).uri(operation.path);
        let request = request.header("if-match", "\"1\"");
        let reply = sample.api.send(request.body(axum::body::Body::empty()).unwrap()).await;
        if operation.answers.contains(&"412".to_owned()) {
            assert_eq!(reply.status.as_u16(), 401, "{}: {}", operation.id, reply.text);
            supported += 1;
        } else {
            assert_eq!(reply.expect(400).json()["code"], "invalid_header", "{}", operation.id);
            refused += 1;
        }
    }
    assert!(supported > 30 && refused > 30, "{supported} {refused}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn every_operation_refuses_the_roles_that_it_does_not_name(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let sample = Sample::new(&options).await;
    let tokens = sample.tokens().await;
    let mut refused = 0;
    for operation in sample.operations().into_iter().filter(|o| !o.roles.is_empty()) {
        for (role, token) in tokens.iter().filter(|(role, _)| !operation.roles.iter().any(|r| r == role)) {
            let reply = sample.call(token, &operation, 0).await;
            assert_eq!(reply.status.as_u16(), 403, "{} as {role}: {}", operation.id, reply.text);
            assert_eq!(reply.json()["code"], "forbidden", "{}", operation.id);
            assert!(operation.answers.contains(&"403".to_owned()), "{}", operation.id);
            refused += 1;
        }
    }
    assert!(refused > 20, "{refused}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn no_operation_reveals_or_changes_another_organisation(_: PgPoolOptions, options: PgConnectOptions) {
    let sample = Sample::new(&options).await;
    let stranger = Tenant::create(&sample.api.services, "Other").await.unwrap();
    let before = standing(&sample).await;
    for role in [Role::Admin, Role::User, Role::Connector, Role::Warehouse] {
        let token = stranger.token(&sample.api.services, role).await.unwrap();
        for operation in sample.operations() {
            if !operation.roles.iter().any(|name| name == role.as_str()) {
                continue;
            }
            for form in 0..operation.bodies.len().max(1) {
                let place = format!("{} {} as {}", operation.method, operation.path, role.as_str());
                let reply = sample.call(&token, &operation, form).await;
                // packaging options are visible to everyone
                if operation.names_record && operation.id != "get_packaging_option" {
                    assert_eq!(reply.status.as_u16(), 404, "{place}: {}", reply.text);
                    continue;
                }
                if OF_LOGINS.contains(&operation.id.as_str()) {
                    // the token is not that of a login
                    assert_eq!(reply.status.as_u16(), 403, "{place}: {}", reply.text);
                } else if reply.status.as_u16() == 400 {
                    assert!(reply.text.contains("unknown_reference"), "{place}: {}", reply.text);
                } else {
                    assert!(reply.status.is_success(), "{place}: {}", reply.text);
                }
                // except what the caller sent: the refused values, and the ids of jobs that were left
                let mut answer: Value = serde_json::from_str(&reply.text).unwrap_or_default();
                for job in answer.get_mut("left").and_then(Value::as_array_mut).into_iter().flatten() {
                    assert_eq!(job["code"], "not_found", "{place}");
                    job["id"].take();
                }
                let violations = answer.get_mut("violations").and_then(Value::as_array_mut);
                for violation in violations.into_iter().flatten() {
                    violation["parameters"]["{{ value }}"].take();
                }
                let answer = if answer.is_null() { reply.text.clone() } else { answer.to_string() };
                let leaked = sample.own_ids().find(|id| answer.contains(id.as_str()));
                assert_eq!(leaked, None, "{place}: {}", reply.text);
            }
        }
    }
    assert_eq!(standing(&sample).await, before);
}

/// Answers that say where they end.
const MOVES: &[&str] = &["follow_job", "read_events", "read_snapshot"];

/// Every record of the sample, as a caller with access to everything reads it.
async fn standing(sample: &Sample) -> Vec<String> {
    let mut found = Vec::new();
    for operation in sample.operations() {
        if operation.method == http::Method::GET
            && operation.names_record
            && !MOVES.contains(&operation.id.as_str())
        {
            found.push(sample.call(&sample.api.superadmin, &operation, 0).await.expect(200).text);
        }
    }
    assert!(found.len() > 4, "{found:?}");
    found
}
