//! The first page: the health of the service, current problems, recent activity, and the workers.

mod figures;
mod workers;

use std::time::{Duration, Instant};

use axum::response::Response;
use futures::FutureExt as _;
use longshore_http::extract::{Failure, permit};
use longshore_kernel::activity::Span;
use longshore_kernel::database::Database;
use longshore_kernel::problem::Problem;
use longshore_kernel::queue::{RedisHealth, RedisState};
use longshore_operate as operate;
use longshore_operate::snapshots::Snapshots;
use maud::{Markup, html};

use super::layout::Section;
use super::live::{self, Parts};
use super::piece::{Tone, badge, milliseconds, number};
use super::queue::{in_words, title};
use super::visit::Visit;
use super::{attention, course};

/// How long a part may take to answer before it counts as unavailable.
const PATIENCE: Duration = Duration::from_secs(2);

/// `GET /console`.
pub(super) async fn show(visit: Visit<permit::ReadQueues>) -> Result<Response, Failure> {
    let mut content = html! { h1.hidden { "Overview" } };
    for (id, part) in parts(&visit).await? {
        content = html! { (content) div #(id) { (part) } };
    }
    let content = html! { (content) (course::script()) };
    let live = match course::span(&visit.asked)? {
        Span::Hour => "/console/live".to_owned(),
        other => format!("/console/live?span={other}"),
    };
    Ok(visit.live_page(Section::Overview, "Overview", &live, &content))
}

/// `GET /console/live`.
pub(super) async fn follow(visit: Visit<permit::ReadQueues>) -> Response {
    live::stream(visit, |visit| parts(visit).boxed())
}

async fn parts(visit: &Visit<permit::ReadQueues>) -> Result<Parts, Problem> {
    let (db, scope) = (visit.db(), visit.scope());
    let snapshots = visit.app.kept::<Snapshots>();
    let found = snapshots.attention(visit.services(), scope);
    let postgres = async { Ok(postgres(db).await) };
    let span = course::span(&visit.asked)?;
    let past = async {
        match span {
            Span::Hour => Ok(None),
            other => operate::course::read(db, scope, other).await.map(Some),
        }
    };
    let lately = operate::course::read(db, scope, Span::Hour);
    let ((look, attention), postgres, lately, past, workers) =
        tokio::try_join!(found, postgres, lately, past, workers::read(visit))?;
    let past = past.as_ref().unwrap_or(&lately);
    let standing = html! {
        div.strip {
            @for queue in &look.standing.queues {
                @let (tone, word, sentence) = in_words(queue);
                a.tile id={"tile-" (queue.wish.queue)} href={"/console/queue/" (queue.wish.queue)} {
                    span.name { (title(queue.wish.queue)) " " code.muted { (queue.wish.queue) } } (badge(tone, word))
                    span.muted { (sentence) }
                }
            }
        }
        // whether they answer, and how fast
        div.strip {
            (postgres)
            (tile("Redis", redis_in_a_word(&look.standing.redis), &redis_in_words(&look.standing.redis)))
        }
    };
    Ok(vec![
        ("attention".into(), attention::draw(visit, &attention, &look.off)),
        ("figures".into(), figures::draw(&lately)),
        ("standing".into(), standing),
        ("workers".into(), workers),
        ("course".into(), course::draw(&visit.asked, past, scope.organisations().is_none())),
    ])
}

/// An answer that takes this long is slow.
const SLOW: Duration = Duration::from_millis(50);

/// Whether Postgres answers, and how fast.
async fn postgres(db: &Database) -> Markup {
    let started = Instant::now();
    let ping = tokio::time::timeout(PATIENCE, db.ping()).await;
    let took = started.elapsed();
    let answers = matches!(ping, Ok(Ok(())));
    let state = if answers { up(took) } else { (Tone::Bad, "away") };
    let more = if answers && took >= SLOW {
        format!("Answers in {}. {}", milliseconds(took.as_secs_f64() * 1e3), connections(db))
    } else {
        connections(db)
    };
    tile("Postgres", state, &more)
}

fn up(took: Duration) -> (Tone, &'static str) {
    (Tone::Good, if took < SLOW { "up" } else { "up, slow" })
}

fn redis_in_a_word(redis: &RedisHealth) -> (Tone, &'static str) {
    match redis.state {
        RedisState::Unreachable => (Tone::Bad, "away"),
        RedisState::RefusesWrites => (Tone::Bad, "refuses writes"),
        RedisState::Up if redis.memory.is_some_and(|memory| memory.is_nearly_full()) => {
            (Tone::Warn, "nearly full")
        }
        RedisState::Up => up(redis.took),
    }
}

/// The purpose, memory and speed of Redis, and why it cannot be used.
fn redis_in_words(redis: &RedisHealth) -> String {
    let mut words = "Queue transport".to_owned();
    if let Some(memory) = redis.memory {
        words = format!("{words} · {}", memory.in_words());
    }
    if redis.is_reachable() {
        words = format!("{words} · {:.1} ms", redis.took.as_secs_f64() * 1e3);
    }
    if let Some(error) = redis.error.as_ref().filter(|_| redis.is_reachable()) {
        words = format!("{words}. {error}");
    }
    words
}

fn tile(name: &str, (tone, word): (Tone, &str), more: &str) -> Markup {
    html! {
        div.tile id={"tile-" (name.to_lowercase())} {
            span.name { (name) }
            (badge(tone, word))
            span.muted { (more) }
        }
    }
}

fn connections(db: &Database) -> String {
    let open = db.main.size() + db.lists.size() + db.streams.size();
    let bound = [&db.main, &db.lists, &db.streams]
        .map(|pool| pool.options().get_max_connections())
        .iter()
        .sum::<u32>();
    format!("{} of {} connections open in this process.", number(open), number(bound))
}
