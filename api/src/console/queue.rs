//! The queues: how each stands, and what an operator wishes of it.

use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::response::Response;
use futures::FutureExt as _;
use futures::future::join_all;
use http::request::Parts as Head;
use longshore_shared::account::access::Permission;
use longshore_shared::job::queue::control::{self, MAX_CONCURRENCY, Shown};
use longshore_shared::job::queue::{Queue, Verdict};
use longshore_shared::platform::activity::{self, Span};
use longshore_shared::platform::problem::Problem;
use longshore_shared::webhook::lane::backlog::{self, Backlog};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::layout::Section;
use super::live::{self, Parts};
use super::piece::{Tone, badge, none, number, seconds};
use super::visit::{Act, Done, Question, Visit, done};
use crate::extract::{Failure, Segment, permit};

/// How long Redis may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Minutes that a rate is taken over.
const RATE_MINUTES: u8 = 5;

/// `GET /console/queue`.
pub(super) async fn show(visit: Visit<permit::ReadQueues>) -> Result<Response, Failure> {
    let parts = parts(&visit).await?;
    let content = html! {
        h1 { "Queues" }
        p.muted { "What waits for a worker, and what each queue may do at once. Postgres keeps what is recorded, whatever Redis loses." }
        div.cards { @for (id, part) in &parts { div #(id) { (part) } } }
    };
    Ok(visit.live_page(Section::Queues, "Queues", "/console/queue/live", &content))
}

/// `GET /console/queue/live`.
pub(super) async fn follow(visit: Visit<permit::ReadQueues>) -> Response {
    live::stream(visit, |visit| parts(visit).boxed())
}

/// Each queue is a part of its own: what somebody fills in for one holds up no other.
async fn parts(visit: &Visit<permit::ReadQueues>) -> Result<Parts, Problem> {
    let aside =
        Queue::ALL.map(|queue| tokio::time::timeout(PATIENCE, visit.services().queues.put_aside(queue)));
    let ((queues, _), rates, aside) =
        tokio::try_join!(standing(visit), rates(visit), join_all(aside).map(Ok))?;
    let parts = queues.iter().enumerate().map(|(place, queue)| {
        let aside = aside.get(place).and_then(|asked| asked.as_ref().ok()?.as_ref().ok()).copied();
        (format!("card-{}", queue.name).into(), card(visit, queue, rates, aside))
    });
    Ok(parts.collect())
}

/// How all queues stand, and what is due of deliveries. Of the lanes, Postgres knows what Redis may have lost.
pub(super) async fn standing<P>(visit: &Visit<P>) -> Result<(Vec<Shown>, Backlog), Problem> {
    let (mut queues, due) = tokio::try_join!(control::standing(visit.services()), backlog::read(visit.db()))?;
    for queue in queues.iter_mut().filter(|queue| queue.name == Queue::Lane.name()) {
        queue.recorded.open = Some(due.lanes);
    }
    Ok((queues, due))
}

/// What got done a minute lately: jobs, and calls to destinations.
async fn rates(visit: &Visit<permit::ReadQueues>) -> Result<[f64; 2], Problem> {
    let course = activity::read(&visit.db().lists, Span::Hour).await?;
    let rate = |points: &[activity::Point]| {
        // the minute that is not over yet says too little
        let lately = points.iter().rev().skip(1).take(usize::from(RATE_MINUTES));
        let count: i64 = lately.map(|point| point.good + point.bad).sum();
        f64::from(i32::try_from(count).unwrap_or(i32::MAX)) / f64::from(RATE_MINUTES)
    };
    Ok([rate(&course.jobs), rate(&course.deliveries)])
}

/// What of it a queue does.
fn rate_of(queue: &str, [jobs, calls]: [f64; 2]) -> Markup {
    if queue == Queue::Chunk.name() {
        html! { (format!("{jobs:.1}")) " jobs/min" }
    } else if queue == Queue::Lane.name() {
        html! { (format!("{calls:.1}")) " calls/min" }
    } else {
        none()
    }
}

fn card(visit: &Visit<permit::ReadQueues>, queue: &Shown, rates: [f64; 2], aside: Option<u64>) -> Markup {
    let may = visit.can(Permission::ManageQueues);
    let path = format!("/console/queue/{}", queue.name);
    let (tone, word, sentence) = in_words(queue);
    html! {
        section.card aria-labelledby={"queue-" (queue.name)} {
            header {
                h2 id={"queue-" (queue.name)} { (queue.name) }
                (badge(tone, word))
                @if queue.paused && queue.verdict() != Verdict::Paused { (badge(Tone::Warn, "paused")) }
            }
            p { (sentence) }
            p.muted { (purpose(queue.name)) }
            dl.facts {
                div { dt { "Depth" } dd { (known(queue.depth)) } }
                div { dt { "In flight" } dd { (known(queue.in_flight)) } }
                div { dt { "Oldest" } dd { @match queue.oldest_seconds { Some(age) => (seconds(age)), None => (none()) } } }
                div { dt { "Workers" } dd { (known(queue.workers)) } }
                div { dt { "Rate" } dd { (rate_of(queue.name, rates)) } }
                div { dt { "Recorded, open" } dd { @match queue.recorded.open { Some(open) => (number(open)), None => (none()) } } }
                div { dt { "Leased" } dd { (number(queue.recorded.running)) } }
                div { dt { "Put aside" } dd { (known(aside)) } }
                div { dt { "Concurrency" } dd { @match queue.concurrency {
                    Some(wished) => { (wished) " a worker" }, None => "as started"
                } } }
            }
            @if may {
                div.buttons {
                    @if queue.paused {
                        a.button.primary id={"resume-" (queue.name)} href={(path) "/resume"} data-ask="" { "Resume" span.hidden { " the queue " (queue.name) } }
                    } @else {
                        a.button id={"pause-" (queue.name)} href={(path) "/pause"} data-ask="" { "Pause" span.hidden { " the queue " (queue.name) } }
                    }
                    form.inline method="get" action={(path) "/concurrency"} data-ask="" {
                        label for={"to-" (queue.name)} { "Concurrency" }
                        input id={"to-" (queue.name)} type="number" name="to" min="1" max=(MAX_CONCURRENCY)
                            value=[queue.concurrency] placeholder="as started";
                        button id={"change-" (queue.name)} type="submit" { "Change" span.hidden { " the concurrency of the queue " (queue.name) } }
                    }
                }
            } @else {
                p.muted { "A superadmin may pause it and change its concurrency." }
            }
        }
    }
}

fn known(count: Option<u64>) -> Markup {
    count.map_or_else(
        || html! { span.muted { "unknown" } },
        |count| html! { (number(i64::try_from(count).unwrap_or(i64::MAX))) },
    )
}

fn purpose(queue: &str) -> &'static str {
    match queue {
        "chunk" => "Pieces of bulk changes and syncs.",
        "lane" => "Webhooks that have something due.",
        "partner" => "Pieces of syncs that call a partner.",
        "upkeep" => "What must happen every minute.",
        _ => "",
    }
}

/// The verdict on a queue: how serious, in a word, in a sentence.
pub(super) fn in_words(queue: &Shown) -> (Tone, &'static str, String) {
    let backlog = number(i64::try_from(queue.backlog()).unwrap_or(i64::MAX));
    let workers = queue.workers.unwrap_or(0);
    let workers = if workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") };
    match queue.verdict() {
        Verdict::Away => (
            Tone::Bad,
            "Redis away",
            "Redis cannot be reached. What becomes due waits in Postgres, and goes on when Redis is back."
                .to_owned(),
        ),
        Verdict::Unattended => {
            (Tone::Bad, "no worker", format!("A backlog and no worker: {backlog} open. Start a worker."))
        }
        Verdict::Deserted => {
            (Tone::Warn, "no worker", "Nothing waits, but no worker is there to take it.".to_owned())
        }
        Verdict::Paused => {
            (Tone::Warn, "paused", format!("Paused by an operator: {backlog} open, nothing is begun."))
        }
        Verdict::Working => {
            (Tone::Busy, "working", format!("Being worked off by {workers}: {backlog} open."))
        }
        Verdict::Waiting => (
            Tone::Warn,
            "waiting",
            format!("{backlog} open, and {workers} take nothing of it. Look at their logs."),
        ),
        Verdict::Idle => (Tone::Good, "idle", format!("Nothing to do for {workers}.")),
    }
}

const BACK: &str = "/console/queue";

/// `GET /console/queue/{name}/pause`.
pub(super) async fn ask_pause(visit: Visit<permit::ManageQueues>, Name(name): Name) -> Response {
    visit.ask(
        Section::Queues,
        &Question {
            title: &format!("Pause the queue {name}?"),
            explanation: html! { p { "What runs goes on to its end. Nothing new is begun, by any worker, until somebody resumes it; what becomes due is kept." } },
            button: "Pause the queue",
            is_grave: false,
            action: &format!("/console/queue/{name}/pause"),
            back: BACK,
            fields: html! {},
        },
    )
}

/// `POST /console/queue/{name}/pause`.
pub(super) async fn pause(Name(name): Name, act: Act<permit::ManageQueues>) -> Result<Response, Failure> {
    control::set_paused(act.visit.services(), &act.visit.may, name, true).await?;
    Ok(done(BACK, Done::Paused, None))
}

/// `GET /console/queue/{name}/resume`.
pub(super) async fn ask_resume(visit: Visit<permit::ManageQueues>, Name(name): Name) -> Response {
    visit.ask(
        Section::Queues,
        &Question {
            title: &format!("Resume the queue {name}?"),
            explanation: html! { p { "Workers take what has gathered meanwhile, as much at once as they may." } },
            button: "Resume the queue",
            is_grave: false,
            action: &format!("/console/queue/{name}/resume"),
            back: BACK,
            fields: html! {},
        },
    )
}

/// `POST /console/queue/{name}/resume`.
pub(super) async fn resume(Name(name): Name, act: Act<permit::ManageQueues>) -> Result<Response, Failure> {
    control::set_paused(act.visit.services(), &act.visit.may, name, false).await?;
    Ok(done(BACK, Done::Resumed, None))
}

/// `GET /console/queue/{name}/concurrency?to=`.
pub(super) async fn ask_concurrency(
    visit: Visit<permit::ManageQueues>,
    Name(name): Name,
) -> Result<Response, Failure> {
    let to = wished(visit.asked.get("to"))?;
    let explanation = html! {
        @if let Some(to) = to {
            p { "Each worker runs up to " strong { (to) } " of this queue at once, from within a second or two on." }
        } @else {
            p { "Each worker runs as many at once as it was started with." }
        }
    };
    Ok(visit.ask(
        Section::Queues,
        &Question {
            title: &format!("Change the concurrency of the queue {name}?"),
            explanation,
            button: "Change it",
            is_grave: false,
            action: &format!("/console/queue/{name}/concurrency"),
            back: BACK,
            fields: html! { input type="hidden" name="to" value=[to]; },
        },
    ))
}

/// `POST /console/queue/{name}/concurrency`.
pub(super) async fn set_concurrency(
    Name(name): Name,
    act: Act<permit::ManageQueues>,
) -> Result<Response, Failure> {
    let to = wished(act.form.get("to"))?.map_or(Value::Null, Value::from);
    control::update(act.visit.services(), &act.visit.may, name, json!({"concurrency": to})).await?;
    Ok(done(BACK, Done::Concurrency, None))
}

/// A wish for a concurrency; none: what workers were started with.
fn wished(text: Option<&str>) -> Result<Option<u16>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let number = text.parse().ok().filter(|number| (1..=MAX_CONCURRENCY).contains(number));
    let message = || format!("must be from 1 to {MAX_CONCURRENCY}");
    number.map(Some).ok_or_else(|| Problem::violation("concurrency", "out_of_range", message()))
}

/// A queue that there is, named in the path.
#[derive(Debug)]
pub(super) struct Name(&'static str);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Head, state: &S) -> Result<Self, Failure> {
        let Segment(name) = Segment::from_request_parts(parts, state).await?;
        Ok(Self(Queue::from_name(&name).ok_or_else(|| Problem::not_found("queue"))?.name()))
    }
}
