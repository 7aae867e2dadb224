//! Keeps an open page up to date: sends changed parts, and the counts of every page, as server-sent events.
//!
//! Each successful look is reported (`parts`), even if nothing has changed. A page that gets no such event
//! for some seconds is not up to date, and the script says so, whether the service, the network or Postgres
//! is the cause. A stream that reaches its time limit says so (`end`), and so does each when the process stops; every other end is a
//! failure. A page that is read less often than streams last opens the next one when its time has come.

use std::borrow::Cow;
use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::future::BoxFuture;
use futures::stream;
use longshore_kernel::problem::Problem;
use longshore_kernel::share::{self, Asker};
use maud::{Markup, html};
use serde_json::{Map, Value};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::visit::Visit;
use super::{counts, refresh};

/// How often a page is rendered again, if its address does not say that.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long one stream lasts. The page opens the next one itself.
const LIFE: Duration = Duration::from_secs(20);
/// How often a silent stream sends a sign of life.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// A part of a page, with the `id` of its element.
pub(super) type Part = (Cow<'static, str>, Markup);
/// Parts of a page.
pub(super) type Parts = Vec<Part>;

/// A part in its page.
pub(super) fn part((id, content): &Part) -> Markup {
    html! { div #(id) { (content) } }
}

/// Renders the current parts of a page.
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

impl<P> Following<P> {
    /// Waits for the next look. True if the stream has to end instead.
    async fn ends_before_look(&mut self) -> bool {
        tokio::select! {
            biased;
            () = self.visit.app.closing.cancelled() => true,
            () = tokio::time::sleep_until(self.until) => true,
            _ = self.ticks.tick() => false,
        }
    }
}

/// Sends the parts that have changed since the last look, and ends with the session.
pub(super) fn stream<P: 'static>(visit: Visit<P>, render: Render<P>) -> Response {
    let mut ticks = tokio::time::interval(refresh::every(&visit.asked).unwrap_or(LOOK_EVERY));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let until = Instant::now() + LIFE;
    // each look gets its share like the request that opened the stream
    let asker = Asker::current().unwrap_or_default();
    let following = Following { visit, asker, render, ticks, until, is_over: false, last: Vec::new() };
    let events = stream::unfold(following, |mut following| async move {
        if following.is_over {
            return None;
        }
        loop {
            if following.ends_before_look().await {
                following.is_over = true;
                return Some((Ok::<_, Infallible>(Event::default().event("end").data("over")), following));
            }
            let app = &following.visit.app;
            let asker = &following.asker;
            share::as_asker(asker.clone(), app.tokens.authenticate(&following.visit.token)).await.ok()?;
            // reading may succeed two seconds later; meanwhile the page shows how old it is
            let rendered = (following.render)(&following.visit);
            let Ok(mut parts) = share::as_asker(asker.clone(), rendered).await else { continue };
            let counted = counts::read(app, &following.visit.may.caller);
            parts.push((counts::ID.into(), share::as_asker(asker.clone(), counted).await));
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
