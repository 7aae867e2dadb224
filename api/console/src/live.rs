//! Keeping an open page up to date: parts of it are sent again when they have changed, as server-sent events.
//!
//! Each look that succeeds is told (`parts`), though nothing may have changed: what hears of none for some seconds is not up
//! to date, and the script says so, whether it is the service, the way to it, or Postgres that is away. A stream that ends
//! because its time is over says so too (`end`), so that every other end is a failure.

use std::borrow::Cow;
use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::future::BoxFuture;
use futures::stream;
use longshore_shared::platform::problem::Problem;
use longshore_shared::platform::share::{self, Asker};
use maud::Markup;
use serde_json::{Map, Value};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::visit::Visit;

/// How often a page is looked at anew.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long one stream lives. The page opens the next by itself; so a process that is asked to stop waits no longer than
/// this for open pages.
const LIFE: Duration = Duration::from_secs(20);
/// How often a silent stream says that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Parts of a page, by the `id` of their element.
pub(super) type Parts = Vec<(Cow<'static, str>, Markup)>;

/// Renders the parts of a page as they are now.
pub(super) type Render<P> = for<'v> fn(&'v Visit<P>) -> BoxFuture<'v, Result<Parts, Problem>>;

struct Following<P> {
    visit: Visit<P>,
    asker: Asker,
    render: Render<P>,
    ticks: Interval,
    until: Instant,
    is_over: bool,
    last: Vec<(Cow<'static, str>, String)>,
}

/// Sends the parts that have changed since they were sent last, at each look; ends when the login does.
pub(super) fn stream<P: 'static>(visit: Visit<P>, render: Render<P>) -> Response {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let until = Instant::now() + LIFE;
    // each look asks for its share, as the request does that begins the stream
    let asker = Asker::current().unwrap_or_default();
    let following = Following { visit, asker, render, ticks, until, is_over: false, last: Vec::new() };
    let events = stream::unfold(following, |mut following| async move {
        if following.is_over {
            return None;
        }
        loop {
            following.ticks.tick().await;
            if Instant::now() >= following.until {
                following.is_over = true;
                return Some((Ok::<_, Infallible>(Event::default().event("end").data("over")), following));
            }
            let app = &following.visit.app;
            let asker = &following.asker;
            share::as_asker(asker.clone(), app.tokens.authenticate(&following.visit.token)).await.ok()?;
            // what cannot be read now may be in two seconds; a page that hears nothing says how old it is
            let rendered = (following.render)(&following.visit);
            let Ok(parts) = share::as_asker(asker.clone(), rendered).await else { continue };
            let parts: Vec<_> = parts.into_iter().map(|(id, markup)| (id, markup.into_string())).collect();
            let changed: Map<String, Value> = parts
                .iter()
                .filter(|part| !following.last.contains(part))
                .map(|(id, html)| (id.to_string(), Value::from(html.as_str())))
                .collect();
            following.last = parts;
            let event = Event::default().event("parts").data(Value::Object(changed).to_string());
            return Some((Ok(event), following));
        }
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}
