//! Operations that will end (`docs/reference/compatibility.md#deprecation`): their answers say so, their calls are counted, and who
//! calls them is recorded once a day.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use chrono::{DateTime, Months, NaiveDate, NaiveTime, Utc};
use http::header::LINK;
use http::{HeaderName, HeaderValue, Method};
use longshore_kernel::seldom::Seldom;
use uuid::Uuid;

use crate::app::App;
use crate::extract::RequestId;
use crate::extract::may::bearer;

/// Since when it is deprecated (RFC 9745).
pub const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");
/// When it ends (RFC 8594).
pub const SUNSET: HeaderName = HeaderName::from_static("sunset");

/// How long an operation stays after it was deprecated.
const STAYS: Months = Months::new(12);
/// How often the calls of an account are recorded.
const RECORDED_EVERY: Duration = Duration::from_hours(24);

/// Since when an operation is deprecated, and what to use instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deprecation {
    since: NaiveDate,
    /// What to use instead, as in ``"`PUT /api/product/{id}`"``.
    pub instead: &'static str,
}

impl Deprecation {
    /// Since a day, as in `2027-01-31`.
    ///
    /// # Panics
    /// It is no day. The table of URLs is made when the program starts.
    #[must_use]
    pub const fn since(year: i32, month: u32, day: u32, instead: &'static str) -> Self {
        match NaiveDate::from_ymd_opt(year, month, day) {
            Some(since) => Self { since, instead },
            None => panic!("a deprecation has no such day"),
        }
    }

    /// The day since which it is deprecated.
    #[must_use]
    pub fn begun(self) -> NaiveDate {
        self.since
    }

    /// The day on which it ends.
    #[must_use]
    pub fn sunset(self) -> NaiveDate {
        self.since + STAYS
    }
}

/// An operation that will end.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Its method.
    pub method: Method,
    /// The pattern of its path.
    pub path: &'static str,
    /// The address of the page that describes it.
    pub page: String,
    /// When it ends.
    pub deprecation: Deprecation,
}

/// The operations that will end, and when the calls of an account to one of them were recorded last.
#[derive(Clone, Debug)]
pub struct Old {
    operations: Arc<[Operation]>,
    /// By the account and the number of the operation.
    recorded: Arc<Seldom<(Uuid, usize)>>,
}

impl Old {
    /// These operations; nothing if there are none.
    #[must_use]
    pub fn of(operations: Vec<Operation>) -> Option<Self> {
        let recorded = Arc::new(Seldom::new(RECORDED_EVERY));
        (!operations.is_empty()).then(|| Self { operations: operations.into(), recorded })
    }

    fn find(&self, request: &Request) -> Option<(usize, &Operation)> {
        let path = request.extensions().get::<MatchedPath>()?.as_str();
        // whatever can be read has HEAD, too
        let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
        self.operations.iter().enumerate().find(|(_, old)| old.path == path && old.method == method)
    }

    /// Records who calls, unless that was done in the last day.
    async fn note(&self, app: &App, token: &str, request: Option<RequestId>, number: usize, old: &Operation) {
        // without a valid token, the operation refuses the request itself
        let Ok(caller) = app.tokens.authenticate(token).await else { return };
        if let Some(before) = self.recorded.say((caller.account(), number)) {
            let operation = format!("{} {}", old.method, old.path);
            let (sunset, request) = (old.deprecation.sunset(), request.map(|id| id.0.to_string()));
            app.services.refusals.deprecated(&caller, before + 1, &operation, sunset, request.as_deref());
        }
    }
}

/// Adds the headers, and notes the call.
pub async fn layer(State((app, old)): State<(App, Old)>, request: Request, next: Next) -> Response {
    let Some((number, found)) = old.find(&request) else { return next.run(request).await };
    app.services.metrics.deprecated_requested(found.path, found.method.as_str());
    // the request itself cannot be held while the token is looked up
    let id = request.extensions().get::<RequestId>().cloned();
    if let Some(token) = bearer(request.headers()).map(str::to_owned) {
        old.note(&app, &token, id, number, found).await;
    }
    let mut response = next.run(request).await;
    let Operation { deprecation, page, .. } = found;
    let headers = [
        (DEPRECATION, format!("@{}", midnight(deprecation.since).timestamp())),
        (SUNSET, midnight(deprecation.sunset()).format("%a, %d %b %Y %H:%M:%S GMT").to_string()),
        (LINK, format!("<{page}>; rel=\"deprecation\"; type=\"text/html\"")),
    ];
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().append(name, value);
        }
    }
    response
}

fn midnight(day: NaiveDate) -> DateTime<Utc> {
    day.and_time(NaiveTime::MIN).and_utc()
}
