//! The service under test: its router over the database of one test, called without a socket.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::header::HOST;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use longshore_api::router;
use longshore_domain::job::chunk::{self, Claimed};
use longshore_domain::job::execution;
use longshore_domain::job::kind::Job as _;
use longshore_domain::job::outcome::Outcome;
use longshore_domain::job::walking;
use longshore_domain::webhook::delivery::recovery::{self, Recover};
use longshore_domain::webhook::delivery::redelivery::{self, Redeliver};
use longshore_domain::webhook::delivery::replay::{self, Replay};
use longshore_domain::webhook::delivery::search;
use longshore_http::app::App;
use longshore_kernel::access::Role;
use longshore_kernel::change::Change;
use longshore_kernel::hold::Hold;
use longshore_kernel::ids::JobId;
use longshore_kernel::migration::{self, FUNCTIONS, MIGRATIONS};
use longshore_kernel::services::Services;
use longshore_testkit::services;
use longshore_testkit::world::Tenant;
use serde_json::Value;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection};
use tokio::sync::OnceCell;
use tower::ServiceExt as _;

/// Runs a job that sends deliveries again to its end, like a worker.
pub async fn send_again(services: &Services, job: JobId) {
    // the numbers of several walks have gaps
    let next = "SELECT min(number) FROM job_chunk WHERE job_id = $1 AND state = 'queued'";
    while let Some(number) = sqlx::query_scalar(next).bind(job).fetch_one(&services.db.main).await.unwrap() {
        let Claimed::Now(claim) = chunk::claim(&services.db.main, job, number, false).await.unwrap() else {
            return;
        };
        let mut change = Change::begin(services).await.unwrap();
        let held = if claim.kind == Ok(Replay::KIND) {
            let (job, ()) = claim.job::<Replay>().unwrap();
            let step = replay::step(&mut change, &claim, &job).await.unwrap();
            walking::complete(&mut change, &claim, step).await
        } else if claim.kind == Ok(Recover::KIND) {
            let (job, ()) = claim.job::<Recover>().unwrap();
            let step = recovery::step(&mut change, &claim, &job).await.unwrap();
            walking::complete(&mut change, &claim, step).await
        } else {
            let (job, ()) = claim.job::<Redeliver>().unwrap();
            if let Some(matching) = &job.deliveries {
                let step = search::step(&mut change, &claim, matching).await.unwrap();
                walking::complete(&mut change, &claim, step).await
            } else {
                let done = redelivery::execute(&mut change, &claim, &job.within).await.unwrap();
                let Outcome { count, errors } = done;
                execution::complete(&mut change, &claim, count, &errors).await
            }
        };
        assert_eq!(held.unwrap(), Hold::Kept, "no other worker runs here");
        change.commit().await.unwrap();
    }
}

/// The database of the tests that need none of their own, for which it is made anew: each has an organisation of its own, among
/// those of the others.
pub async fn strangers() -> PgConnectOptions {
    static SHARED: OnceCell<PgConnectOptions> = OnceCell::const_new();
    SHARED.get_or_init(create_shared).await.clone()
}

async fn create_shared() -> PgConnectOptions {
    const NAME: &str = "longshore_strangers";
    let settings = services::database_settings().unwrap();
    let server: PgConnectOptions = settings.database_url.parse().unwrap();
    let mut connection = PgConnection::connect_with(&server).await.unwrap();
    for statement in
        ["DROP DATABASE IF EXISTS longshore_strangers WITH (FORCE)", "CREATE DATABASE longshore_strangers"]
    {
        sqlx::raw_sql(statement).execute(&mut connection).await.unwrap();
    }
    let shared = server.database(NAME);
    migration::migrate_by(&MIGRATIONS, FUNCTIONS, &shared, Duration::from_secs(30)).await.unwrap();
    shared
}

/// The service, with one tenant and a token of each role.
pub struct Api {
    pub app: App,
    pub router: Router,
    pub services: Services,
    pub tenant: Tenant,
    pub superadmin: String,
    pub user: String,
    pub connector: String,
    pub viewer: String,
}

/// What the message of a violation begins with: it continues the path, as in `name is required`.
const VERBS: &[&str] = &[
    "belongs", "cannot", "contains", "does", "has", "is", "makes", "matches", "may", "must", "names",
    "passes", "takes", "was",
];

/// A response.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub bytes: Vec<u8>,
    pub text: String,
}

impl Reply {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }

    /// A header as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|v| v.to_str().unwrap())
    }

    /// Asserts the status; shows the body if it differs.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self
    }

    /// Asserts a refusal whose messages continue their paths, and returns `path code` of each violation.
    #[track_caller]
    pub fn violations(&self) -> Vec<String> {
        let body = self.json();
        let text = |v: &Value| v.as_str().unwrap().to_owned();
        let list = body["violations"].as_array().unwrap();
        let code_of = |violation: &Value| {
            let [path, code, message] =
                ["propertyPath", "code", "message"].map(|member| text(&violation[member]));
            let verb = message.split(' ').next().unwrap();
            assert!(path.is_empty() || VERBS.contains(&verb), "`{path} {message}` is no sentence");
            format!("{path} {code}")
        };
        list.iter().map(code_of).collect()
    }
}

impl Api {
    pub async fn new(options: &PgConnectOptions) -> Self {
        Self::over(services::for_test(options).unwrap()).await
    }

    /// The same with given services.
    pub async fn over(services: Services) -> Self {
        Self::with(App::new(services)).await
    }

    /// The same with a given app and its limits.
    pub async fn with(app: App) -> Self {
        let services = (*app.services).clone();
        let tenant = Tenant::create(&services, "Gifts").await.unwrap();
        let mut tokens = Vec::new();
        for role in [Role::Superadmin, Role::User, Role::Connector, Role::Viewer] {
            tokens.push(tenant.token(&services, role).await.unwrap());
        }
        let [superadmin, user, connector, viewer] = tokens.try_into().unwrap();
        let router = router::build(app.clone());
        Self { app, router, services, tenant, superadmin, user, connector, viewer }
    }

    /// From now on, requests are sent to another app.
    pub fn serve(&mut self, app: App) {
        self.router = router::build(app.clone());
        self.app = app;
    }

    /// Sends a request.
    pub async fn send(&self, mut request: Request<Body>) -> Reply {
        // every client of HTTP/1.1 sends the host
        let host = HeaderValue::from_static("longshore.example");
        request.headers_mut().entry(HOST).or_insert(host);
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Reply { status: parts.status, headers: parts.headers, bytes: bytes.into(), text }
    }

    /// Sends JSON (no body for null) with a token and further headers.
    pub async fn call_with(
        &self,
        token: &str,
        method: Method,
        path: &str,
        body: Value,
        headers: &[(&str, &str)],
    ) -> Reply {
        let mut request =
            Request::builder().method(method).uri(path).header("authorization", format!("Bearer {token}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = if body.is_null() {
            Body::empty()
        } else {
            request = request.header("content-type", "application/json");
            Body::from(body.to_string())
        };
        self.send(request.body(body).unwrap()).await
    }

    pub async fn get(&self, token: &str, path: &str) -> Reply {
        self.call_with(token, Method::GET, path, Value::Null, &[]).await
    }

    pub async fn post(&self, token: &str, path: &str, body: Value) -> Reply {
        self.call_with(token, Method::POST, path, body, &[]).await
    }

    pub async fn put(&self, token: &str, path: &str, body: Value) -> Reply {
        self.call_with(token, Method::PUT, path, body, &[]).await
    }

    pub async fn delete(&self, token: &str, path: &str) -> Reply {
        self.call_with(token, Method::DELETE, path, Value::Null, &[]).await
    }
}
