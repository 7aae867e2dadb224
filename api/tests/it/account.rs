//! Accounts and tokens (`docs/reference/accounts.md#tokens`).

use std::time::{Duration, Instant};

use axum::body::Body;
use http::{Method, Request};
use longshore_kernel::access::Role;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;

use crate::support::{Api, Reply};

mod access;
mod admin;
mod bulk;
mod business_user;
mod eshop;
mod login;
mod organisation;
mod own;
mod revocation;
mod second_factor;
mod session;
mod token;

pub(crate) const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

/// The time limit for conditions.
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) const PASSWORD: &str = "correct horse";

/// The service, a second tenant, and a pool of the owner's role, with which tests read and change tables.
pub(crate) struct World {
    pub(crate) api: Api,
    pub(crate) other: Tenant,
    /// A token of the role `admin` in the first tenant's organisation.
    pub(crate) admin: String,
    pub(crate) owner: PgPool,
}

impl World {
    pub(crate) async fn new(options: &PgConnectOptions) -> Self {
        let owner = PgPool::connect_with(options.clone()).await.unwrap();
        let api = Api::new(options).await;
        let other = Tenant::create(&api.services, "Other").await.unwrap();
        let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
        Self { api, other, admin, owner }
    }

    /// Creates an admin as a superadmin; returns the record.
    pub(crate) async fn create_admin(&self, name: &str, members: Value) -> Value {
        let body = admin_body(name, members);
        self.api.post(&self.api.superadmin, "/api/admin", body).await.expect(201).json()
    }

    /// The same; returns its id.
    pub(crate) async fn add_admin(&self, name: &str, members: Value) -> String {
        id(&self.create_admin(name, members).await)
    }

    /// Creates a business user of the first tenant with the password; returns its id.
    pub(crate) async fn add_user(&self, name: &str) -> String {
        let body = user_body(name, self.api.tenant.organisation.to_string());
        id(&self.api.post(&self.api.superadmin, "/api/business-user", body).await.expect(201).json())
    }

    /// Sends a login.
    pub(crate) async fn try_login(&self, door: &str, login: &str, password: &str) -> Reply {
        let body = json!({"login": login, "password": password});
        let request = Request::post(format!("/api/login/{door}"))
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()));
        self.api.send(request.unwrap()).await
    }

    /// Logs an admin in; returns the token.
    pub(crate) async fn login(&self, name: &str) -> String {
        let reply = self.try_login("admin", &email(name), PASSWORD).await.expect(200).json();
        reply["token"].as_str().unwrap().to_owned()
    }

    /// Waits until a request has this status: a process caches tokens for seconds.
    pub(crate) async fn until(&self, token: &str, method: Method, path: &str, status: u16) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let reply = self.api.call_with(token, method.clone(), path, Value::Null, &[]).await;
            if reply.status.as_u16() == status {
                return;
            }
            assert!(Instant::now() < deadline, "{path} still answers {}: {}", reply.status, reply.text);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The result of a counting query.
    pub(crate) async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.owner).await.unwrap()
    }

    /// The audit records of an entity, oldest first, as `action` and `changes`.
    pub(crate) async fn audit(&self, entity: &str) -> Vec<(String, Value)> {
        sqlx::query_as("SELECT action, changes FROM audit WHERE entity_id = $1::uuid ORDER BY id")
            .bind(entity)
            .fetch_all(&self.owner)
            .await
            .unwrap()
    }
}

pub(crate) fn id(record: &Value) -> String {
    record["id"].as_str().unwrap().to_owned()
}

pub(crate) fn email(name: &str) -> String {
    format!("{name}@example.com")
}

/// The required members of a new admin, and further ones.
pub(crate) fn admin_body(name: &str, members: Value) -> Value {
    let mut body = json!({"email": email(name), "firstName": name, "lastName": "Admin", "role": "admin"});
    let Value::Object(members) = members else { panic!("members are an object: {members}") };
    for (name, value) in members {
        body[name] = value;
    }
    body
}

/// The members of a new business user.
pub(crate) fn user_body(name: &str, organisation: String) -> Value {
    let mut body = json!({"email": email(name), "firstName": name, "lastName": "User", "password": PASSWORD});
    body["organisation"] = organisation.into();
    body
}
