//! The first page: whether the service is well, what needs somebody now, what it has been doing, and who does it.

mod attention;
mod course;
mod workers;

use std::time::{Duration, Instant};

use axum::response::Response;
use futures::FutureExt as _;
use longshore_shared::platform::activity::{self, Span};
use longshore_shared::platform::database::Database;
use longshore_shared::platform::problem::Problem;
use maud::{Markup, html};

use super::layout::Section;
use super::live::{self, Parts};
use super::piece::{Tone, badge, milliseconds, number};
use super::queue::{self, in_words};
use super::visit::Visit;
use crate::extract::{Failure, permit};

/// How long a part may take to answer before it counts as away.
const PATIENCE: Duration = Duration::from_secs(2);

/// `GET /console`.
pub(super) async fn show(visit: Visit<permit::ReadQueues>) -> Result<Response, Failure> {
    let mut content = html! { h1.hidden { "Overview" } };
    for (id, part) in parts(&visit).await? {
        content = html! { (content) div #(id) { (part) } };
    }
    let live = match span(&visit) {
        Span::Hour => "/console/live",
        Span::Day => "/console/live?span=day",
    };
    Ok(visit.live_page(Section::Overview, "Overview", live, &content))
}

/// `GET /console/live`.
pub(super) async fn follow(visit: Visit<permit::ReadQueues>) -> Response {
    live::stream(visit, |visit| parts(visit).boxed())
}

/// What span of time the charts show.
fn span(visit: &Visit<permit::ReadQueues>) -> Span {
    if visit.asked.get("span") == Some("day") { Span::Day } else { Span::Hour }
}

async fn parts(visit: &Visit<permit::ReadQueues>) -> Result<Parts, Problem> {
    let (queues, due) = queue::standing(visit).await?;
    let (health, attention, course, workers) = tokio::try_join!(
        async { Ok(health(visit).await) },
        attention::read(visit, &queues, due),
        activity::read(&visit.db().lists, span(visit)),
        workers::read(visit),
    )?;
    let standing = html! {
        div.strip {
            @for queue in &queues {
                @let (tone, word, sentence) = in_words(queue);
                a.tile id={"tile-" (queue.name)} href="/console/queue" {
                    span.name { (queue.name) } (badge(tone, word))
                    span.muted { (sentence) }
                }
            }
            (health)
        }
    };
    Ok(vec![
        ("standing".into(), standing),
        ("attention".into(), attention),
        ("course".into(), course::draw(&course)),
        ("workers".into(), workers),
    ])
}

/// Whether Postgres and Redis answer, and how fast.
async fn health(visit: &Visit<permit::ReadQueues>) -> Markup {
    let started = Instant::now();
    let (postgres, redis) = tokio::join!(
        async {
            let ping = tokio::time::timeout(PATIENCE, visit.db().ping()).await;
            matches!(ping, Ok(Ok(()))).then(|| started.elapsed())
        },
        async { visit.services().queues.ping(PATIENCE).await.then(|| started.elapsed()) },
    );
    html! {
        (tile("Postgres", postgres, &connections(visit.db())))
        (tile("Redis", redis, "Carries what is due to whoever is free."))
    }
}

fn tile(name: &str, answered: Option<Duration>, more: &str) -> Markup {
    html! {
        div.tile {
            span.name { (name) }
            @match answered {
                Some(took) => (badge(Tone::Good, if took < Duration::from_millis(50) { "up" } else { "up, slow" })),
                None => (badge(Tone::Bad, "away")),
            }
            span.muted {
                @if let Some(took) = answered && took >= Duration::from_millis(50) { "Answers in " (milliseconds(took.as_secs_f64() * 1e3)) ". " }
                (more)
            }
        }
    }
}

fn connections(db: &Database) -> String {
    let open = db.main.size() + db.lists.size() + db.streams.size();
    let bound = [&db.main, &db.lists, &db.streams]
        .map(|pool| pool.options().get_max_connections())
        .iter()
        .sum::<u32>();
    format!("This process holds {} of its {} connections.", number(open), number(bound))
}
