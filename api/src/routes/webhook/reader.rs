//! `/api/event-reader`: events for who cannot be called.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{FromRequestParts, State};
use axum::response::{IntoResponse as _, Response};
use futures::stream;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use longshore_domain::list;
use longshore_domain::list::fields::event_reader::EVENT_READER;
use longshore_domain::list::fields::expedition::EXPEDITION;
use longshore_domain::list::fields::product::PRODUCT;
use longshore_domain::list::fields::stock::PRODUCT_STOCK;
use longshore_domain::list::resource::Resource;
use longshore_domain::webhook::reader::{self, feed};
use longshore_http::app::App;
use longshore_http::extract::accept;
use longshore_http::extract::lines::NDJSON;
use longshore_http::extract::{Failure, Id, IfMatch, JsonBody, ListRequest, May, Once, permit, query, wait};
use longshore_kernel::access::Scope;
use longshore_kernel::ids::EventReaderId;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;
use longshore_kernel::share::{self, Asker};
use tokio::sync::watch;

use crate::routes::{list as lists, view};

/// What a first load may be of.
pub const SNAPSHOTS: [&str; 3] = ["products", "stocks", "orders"];

/// `POST /api/event-reader`.
pub async fn create_event_reader(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteReaders>,
    once: Once,
    body: JsonBody,
) -> Result<Response, Failure> {
    view::once(&once, &services, may.0, &body.hash, async |context| {
        reader::create(&services, context, body.value).await
    })
    .await
}

/// `POST /api/event-reader/list`.
pub async fn list_event_readers(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadReaders>,
    asked: ListRequest,
) -> Result<Response, Failure> {
    lists::answer(&services, &EVENT_READER, may.scope(), asked).await
}

/// `GET /api/event-reader/{id}`.
pub async fn get_event_reader(
    State(app): State<App>,
    may: May<permit::ReadReaders>,
    Id(id): Id<EventReaderId>,
) -> Result<Response, Failure> {
    Ok(view::record(&app, &EVENT_READER, may.scope(), id).await?)
}

/// `PUT /api/event-reader/{id}`: changes the given fields.
pub async fn update_event_reader(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteReaders>,
    Id(id): Id<EventReaderId>,
    if_match: IfMatch,
    body: JsonBody,
) -> Result<Response, Failure> {
    let check = |version| if_match.check(version);
    Ok(view::answer(&reader::update(&services, &may, id, body.value, check).await?)?)
}

/// `DELETE /api/event-reader/{id}`.
pub async fn delete_event_reader(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteReaders>,
    Id(id): Id<EventReaderId>,
) -> Result<Response, Failure> {
    Ok(view::answer(&reader::delete(&services, &may, id).await?)?)
}

/// `PUT /api/event-reader/{id}/position`: where reading without `after` goes on.
pub async fn set_reader_position(
    State(services): State<Arc<Services>>,
    may: May<permit::WriteReaders>,
    Id(id): Id<EventReaderId>,
    body: JsonBody,
) -> Result<Response, Failure> {
    Ok(view::answer(&reader::set_position(&services, &may, id, body.value).await?)?)
}

/// How long a client of a feed without end waits to hear where to read on. With the time of a look, that is every five seconds at least.
const SIGN_OF_LIFE: Duration = Duration::from_secs(3);

/// `?after=&limit=&wait=`, and whether the feed has no end.
#[derive(Debug)]
pub struct Asked {
    events: feed::Asked,
    wait: Duration,
}

impl<S: Send + Sync> FromRequestParts<S> for Asked {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let are_lines = accept::prefers(&parts.headers, NDJSON);
        let events = feed::Asked { after: None, limit: feed::USUAL, are_lines };
        let mut asked = Self { events, wait: Duration::ZERO };
        query::each(&parts.uri, &["after", "limit", "wait"], |name, value| {
            match name {
                "after" => asked.events.after = Some(value.to_owned()),
                "limit" => {
                    asked.events.limit = query::integer("limit", value, 1, feed::MOST, "")?;
                }
                _ => asked.wait = wait::seconds(value)?,
            }
            Ok(())
        })?;
        Ok(asked)
    }
}

/// `GET /api/event-reader/{id}/events`: what comes next, at once or when something comes; as lines without an end, where the client
/// prefers that.
pub async fn read_events(
    State(app): State<App>,
    may: May<permit::ReadReaders>,
    Id(id): Id<EventReaderId>,
    Asked { events, wait }: Asked,
) -> Result<Response, Failure> {
    let are_lines = events.are_lines;
    let asker = Asker::current().unwrap_or_default();
    let mut feed = Feed { app, scope: may.scope().clone(), id, asked: events, news: None, asker };
    if !are_lines {
        return Ok(view::json(feed.next(wait).await?.json));
    }
    let first = feed.next(Duration::ZERO).await?;
    // what goes wrong later is told to who opens it again
    let lines = stream::unfold((feed, Some(first.json)), async |(mut feed, first)| {
        let lines = match first {
            Some(first) => first,
            None if feed.app.closing.is_cancelled() => return None,
            None => feed.next(SIGN_OF_LIFE).await.ok()?.json,
        };
        Some((Ok::<_, Infallible>(lines), (feed, None)))
    });
    Ok(([(CONTENT_TYPE, HeaderValue::from_static(NDJSON))], Body::from_stream(lines)).into_response())
}

/// Who reads on and on.
struct Feed {
    app: App,
    scope: Scope,
    id: EventReaderId,
    asked: feed::Asked,
    news: Option<watch::Receiver<reader::Come>>,
    /// Each look has its share like the request that opened it.
    asker: Asker,
}

impl Feed {
    /// What comes next, waited for.
    async fn next(&mut self, wait: Duration) -> Result<feed::Page, Problem> {
        let until = Instant::now() + wait;
        loop {
            let read = feed::read(&self.app.services, &self.scope, self.id, &self.asked);
            let page = share::as_asker(self.asker.clone(), read).await?;
            self.asked.after = Some(page.next.clone());
            let left = until.saturating_duration_since(Instant::now());
            // one that is not at its end goes on from there: nothing of what was looked at met the criteria
            if page.events > 0 || left.is_zero() || !page.is_end {
                return Ok(page);
            }
            let app = &self.app;
            let news = self.news.get_or_insert_with(|| app.events.follow(page.organisation));
            let changed = tokio::time::timeout(left, app.closing.run_until_cancelled(news.changed())).await;
            if !matches!(changed, Ok(Some(Ok(())))) {
                return Ok(page);
            }
        }
    }
}

/// `?of=`.
#[derive(Debug)]
pub struct Of(&'static Resource);

impl<S: Send + Sync> FromRequestParts<S> for Of {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let mut of = None;
        query::each(&parts.uri, &["of"], |_, value| {
            of = Some(match value {
                "products" => &PRODUCT,
                "stocks" => &PRODUCT_STOCK,
                "orders" => &EXPEDITION,
                _ => {
                    let message = format!("must be one of {}", SNAPSHOTS.join(", "));
                    return Err(Problem::violation("of", "not_allowed", message));
                }
            });
            Ok(())
        })?;
        let required = || Problem::violation("of", "required", "is required");
        Ok(Self(of.ok_or_else(required)?))
    }
}

/// `GET /api/event-reader/{id}/snapshot`: the records, a line each, and behind them where to read on.
pub async fn read_snapshot(
    State(services): State<Arc<Services>>,
    may: May<permit::ReadReaders>,
    Id(id): Id<EventReaderId>,
    Of(resource): Of,
) -> Result<Response, Failure> {
    // first the place, then the snapshot: what comes between the two is told once more
    let (next, organisation, eshop) = reader::here(&services, may.scope(), id).await?;
    let scope = match eshop {
        Some(eshop) => Scope::Eshop { organisation, eshop },
        None => Scope::Organisations([organisation].into()),
    };
    let listed = list::lines(&services, resource, scope, next, lists::READER_TIMEOUT).await?;
    let mut answer = lists::sent(listed);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(NDJSON));
    Ok(answer)
}
