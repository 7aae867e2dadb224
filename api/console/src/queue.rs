//! The queues: their state, and what an operator wants of them.

use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;
use futures::future::join_all;
use http::StatusCode;
use http::request::Parts as Head;
use longshore_domain::job::kind::JobKind;
use longshore_domain::standing::queue::REASON_LENGTH;
use longshore_domain::standing::{self, Shown, Verdict, queue as queues};
use longshore_http::extract::{Failure, Segment, permit};
use longshore_kernel::access::Permission;
use longshore_kernel::activity::{self, Course, Span};
use longshore_kernel::problem::Problem;
use longshore_kernel::queue::Queue;
use longshore_kernel::queue::control::MAX_CONCURRENCY;
use longshore_operate as operate;
use longshore_operate::course::Kinds;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::chart::spark;
use super::form::{Asked, Refused};
use super::layout::Section;
use super::live::{self, Parts};
use super::piece::{Tone, badge, checked, none, number, seconds, worded};
use super::visit::{Act, Done, Question, Visit, done};
use super::{course, kind};

/// How long Redis may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Minutes over which rates are averaged.
const RATE_MINUTES: u8 = 5;

/// `GET /console/queue`.
pub(super) async fn show(visit: Visit<permit::ReadQueues>) -> Result<Response, Failure> {
    let parts = parts(&visit).await?;
    let content = html! {
        h1 { "Queues" }
        p.muted {
            "Waiting work and the concurrency of each queue. All work is recorded in Postgres and survives the loss of Redis."
            @if visit.scope().organisations().is_none() { " What each worker did is on the page of " a href="/console/worker" { "workers" } "." }
        }
        div.cards { @for (id, part) in &parts { div #(id) { (part) } } }
    };
    Ok(visit.live_page(Section::Queues, "Queues", "/console/queue/live", &content))
}

/// `GET /console/queue/{name}`: one of them, with its course.
pub(super) async fn show_one(
    Name(name): Name,
    visit: Visit<permit::ReadQueues>,
) -> Result<Response, Failure> {
    let here = format!("/console/queue/{name}");
    let span = course::span(&visit.asked)?;
    let (db, scope) = (visit.db(), visit.scope());
    let (parts, past, kinds) =
        tokio::try_join!(parts(&visit), operate::course::read(db, scope, span), async {
            let is_of_jobs = name == Queue::Chunk.name();
            if is_of_jobs { operate::course::by_kind(db, scope, span).await.map(Some) } else { Ok(None) }
        })?;
    let own = format!("card-{name}");
    let content = html! {
        p.trail { a href=(BACK) { "Queues" } }
        h1.hidden { "Queue " (name) }
        @for (id, part) in parts.iter().filter(|(id, _)| *id == own) { div #(id) { (part) } }
        @match &kinds {
            Some(kinds) => (of_jobs(&visit.asked, &here, &past, kinds)),
            None => (charts(&visit, name, &here, &past)),
        }
        (course::script())
    };
    let title = format!("Queue {name}");
    Ok(visit.live_page(Section::Queues, &title, "/console/queue/live", &content))
}

/// What a queue did. Calls of partners and warehouses, and the upkeep, are counted for the whole service only.
fn charts(visit: &Visit<permit::ReadQueues>, name: &str, here: &str, past: &Course) -> Markup {
    let asked = &visit.asked;
    let (points, titles) = match Queue::from_name(name) {
        Some(Queue::Lane) => return course::of_deliveries(asked, here, past),
        Some(Queue::Partner) => (&past.partners, ["Turns at partners", "Duration of turns"]),
        Some(Queue::Handover) => (&past.handovers, ["Calls of warehouses", "Duration of calls"]),
        Some(Queue::Upkeep) => (&past.upkeep, ["Tasks", "Duration of tasks"]),
        Some(Queue::Chunk) | None => return html! {},
    };
    if visit.scope().organisations().is_some() {
        return html! { p.muted { "This queue is counted for the whole service, and shown to those who see all organisations." } };
    }
    course::of_runs(asked, here, past, points, titles)
}

/// The charts of jobs, of all kinds or of one, and what each kind did.
fn of_jobs(asked: &Asked, here: &str, past: &Course, kinds: &Kinds) -> Markup {
    let chosen: Option<JobKind> = asked.get("kind").and_then(|word| word.parse().ok());
    html! {
        @match chosen {
            Some(_) => (kind::part(asked, here, kinds, chosen)),
            None => (course::of_jobs(asked, here, past)),
        }
        (kind::table(asked, here, kinds, chosen))
    }
}

/// `GET /console/queue/live`.
pub(super) async fn follow(visit: Visit<permit::ReadQueues>) -> Response {
    live::stream(visit, |visit| parts(visit).boxed())
}

/// A separate part for each queue, so that a form being filled in does not keep the other queues from being
/// updated.
async fn parts(visit: &Visit<permit::ReadQueues>) -> Result<Parts, Problem> {
    let aside =
        Queue::ALL.map(|queue| tokio::time::timeout(PATIENCE, visit.services().queues.put_aside(queue)));
    let (standing, rates, aside) =
        tokio::try_join!(standing::read(visit.services()), rates(visit), join_all(aside).map(Ok))?;
    let parts = standing.queues.iter().enumerate().map(|(place, queue)| {
        let aside = aside.get(place).and_then(|asked| asked.as_ref().ok()?.as_ref().ok()).copied();
        (format!("card-{}", queue.wish.queue).into(), card(visit, queue, &rates, aside))
    });
    Ok(parts.collect())
}

/// What a queue did lately.
struct Rate {
    queue: Queue,
    per_minute: f64,
    unit: &'static str,
    /// By the minute, over the last hour.
    course: Vec<Option<f64>>,
}

/// What each queue did lately.
async fn rates(visit: &Visit<permit::ReadQueues>) -> Result<[Rate; 5], Problem> {
    let course = activity::read(&visit.db().lists, Span::Hour).await?;
    let rate = |queue: Queue, unit: &'static str, points: &[activity::Point]| {
        let all = |point: &activity::Point| point.good + point.bad;
        // the current minute is not complete
        let count: i64 = points.iter().rev().skip(1).take(usize::from(RATE_MINUTES)).map(all).sum();
        let per_minute = f64::from(i32::try_from(count).unwrap_or(i32::MAX)) / f64::from(RATE_MINUTES);
        let course = points.iter().map(|point| Some(course::float(all(point)))).collect();
        Rate { queue, per_minute, unit, course }
    };
    Ok([
        rate(Queue::Chunk, "jobs/min", &course.jobs),
        rate(Queue::Lane, "calls/min", &course.deliveries),
        rate(Queue::Partner, "turns/min", &course.partners),
        rate(Queue::Handover, "calls/min", &course.handovers),
        rate(Queue::Upkeep, "tasks/min", &course.upkeep),
    ])
}

fn card(visit: &Visit<permit::ReadQueues>, queue: &Shown, rates: &[Rate], aside: Option<u64>) -> Markup {
    let may = visit.can(Permission::ManageQueues);
    let wish = &queue.wish;
    let name = wish.queue.name();
    let path = format!("/console/queue/{name}");
    let (tone, word, sentence) = in_words(queue);
    let rate = rates.iter().find(|rate| rate.queue == wish.queue);
    html! {
        section.card aria-labelledby={"queue-" (name)} {
            header {
                h2 id={"queue-" (name)} { a href=(path) { (title(wish.queue)) } " " code.muted { (name) } }
                (badge(tone, word))
                @if wish.paused && queue.verdict() != Verdict::Paused { (badge(Tone::Warn, "paused")) }
            }
            p { (sentence) }
            @if wish.paused && queue.verdict() != Verdict::Paused { p { (queue.pause_in_words()) } }
            p.muted { (purpose(wish.queue)) }
            @if let Some(rate) = rate { (spark("good", &rate.course)) }
            dl.facts {
                div { dt { "Open" } dd { (known(Some(queue.backlog()))) } }
                div { dt { "Running" } dd { (known(queue.in_flight.max(u64::try_from(queue.recorded.running).ok()))) } }
                div { dt { "Oldest" } dd { @match queue.oldest_seconds { Some(age) => (seconds(age)), None => (none()) } } }
                div { dt { "Rate" } dd { @match rate {
                    Some(rate) => { (format!("{:.1}", rate.per_minute)) " " (rate.unit) },
                    None => (none()),
                } } }
            }
            details {
                summary { "More" span.hidden { " of the queue " (name) } }
                dl.details {
                    div { dt { "In Redis" } dd { (known(queue.depth)) ", in flight " (known(queue.in_flight)) ", put aside " (known(aside)) } }
                    div { dt { "In Postgres" } dd {
                        "open " @match queue.recorded.open { Some(open) => (number(open)), None => (none()) }
                        ", due " @match queue.recorded.due { Some(due) => (number(due)), None => (none()) }
                        ", leased " (number(queue.recorded.running))
                    } }
                    div { dt { "Workers" } dd { (known(queue.workers)) } }
                    div { dt { "Concurrency" } dd { @match wish.concurrency { Some(wished) => { (wished) " per worker" }, None => "default" } } }
                }
            }
            @if may {
                div.buttons {
                    @if wish.paused {
                        a.button.primary id={"resume-" (name)} href={(path) "/resume"} data-ask="" { "Resume" span.hidden { " the queue " (name) } }
                    } @else {
                        a.button id={"pause-" (name)} href={(path) "/pause"} data-ask="" { "Pause" span.hidden { " the queue " (name) } }
                    }
                    form.inline method="get" action={(path) "/concurrency"} data-ask="" {
                        label for={"to-" (name)} { "Concurrency" }
                        input id={"to-" (name)} type="number" name="to" min="1" max=(MAX_CONCURRENCY)
                            value=[wish.concurrency] placeholder="default";
                        button id={"change-" (name)} type="submit" { "Change" span.hidden { " the concurrency of the queue " (name) } }
                    }
                }
            } @else {
                p.muted { "Only superadmins can pause the queue or change its concurrency." }
            }
        }
    }
}

/// What people call a queue.
pub(super) fn title(queue: Queue) -> &'static str {
    match queue {
        Queue::Chunk => "Jobs",
        Queue::Partner => "Partner calls",
        Queue::Lane => "Webhooks",
        Queue::Handover => "Hand-overs",
        Queue::Upkeep => "Upkeep",
    }
}

fn known(count: Option<u64>) -> Markup {
    count.map_or_else(
        || html! { span.muted { "unknown" } },
        |count| html! { (number(i64::try_from(count).unwrap_or(i64::MAX))) },
    )
}

fn purpose(queue: Queue) -> &'static str {
    match queue {
        Queue::Chunk => "Chunks of bulk operations and syncs.",
        Queue::Lane => "Webhooks with due deliveries.",
        Queue::Partner => "Calls to partners for syncs.",
        Queue::Handover => "Systems of warehouses with orders to hand over.",
        Queue::Upkeep => {
            "Periodic work (retention, schedules, charts). A pause stops all of it and ends automatically after an hour."
        }
    }
}

/// The state of a queue: its severity, a word, and a sentence.
pub(super) fn in_words(queue: &Shown) -> (Tone, &'static str, String) {
    let tone = match queue.verdict() {
        Verdict::Away | Verdict::Refused | Verdict::Unattended => Tone::Bad,
        Verdict::Deserted | Verdict::Paused | Verdict::Waiting => Tone::Warn,
        Verdict::Working => Tone::Busy,
        Verdict::NotDue => Tone::Quiet,
        Verdict::Idle => Tone::Good,
    };
    (tone, queue.word(), queue.sentence())
}

const BACK: &str = "/console/queue";

/// `GET /console/queue/{name}/pause`.
pub(super) async fn ask_pause(visit: Visit<permit::ManageQueues>, Name(name): Name) -> Response {
    let explanation = if name == Queue::Upkeep.name() {
        html! {
            p { "Periodic work stops for the whole service for at most one hour. Then the queue resumes automatically." }
            p { "During the pause, no scheduled sync starts, no old data is removed (jobs, deliveries, audit records, idempotency keys, expired logins, deleted images), and no new partitions are created." }
            p { "The backlog charts will have a permanent gap." }
        }
    } else {
        html! { p { "Running work continues. No worker starts new work of this queue until it is resumed. Due work is kept." } }
    };
    visit.ask_for(
        Section::Queues,
        &Question {
            title: &format!("Pause the queue {name}?"),
            explanation,
            button: "Pause the queue",
            is_grave: false,
            action: &format!("/console/queue/{name}/pause"),
            back: BACK,
            fields: worded(
                &visit.asked,
                &visit.refused,
                "reason",
                "Reason, which the queue and the audit show",
                REASON_LENGTH,
            ),
        },
        &["reason"],
    )
}

/// `POST /console/queue/{name}/pause`.
pub(super) async fn pause(Name(name): Name, act: Act<permit::ManageQueues>) -> Result<Response, Failure> {
    let reason = act.form.text("reason")?;
    let body = json!({"reason": reason});
    queues::pause(act.visit.services(), &act.visit.may, name, Some(body)).await?;
    Ok(done(BACK, Done::Paused, None))
}

/// `GET /console/queue/{name}/resume`.
pub(super) async fn ask_resume(visit: Visit<permit::ManageQueues>, Name(name): Name) -> Response {
    visit.ask(
        Section::Queues,
        &Question {
            title: &format!("Resume the queue {name}?"),
            explanation: html! { p { "Workers start the waiting work, up to their concurrency." } },
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
    queues::resume(act.visit.services(), &act.visit.may, name).await?;
    Ok(done(BACK, Done::Resumed, None))
}

/// `GET /console/queue/{name}/concurrency?to=`: a number that is refused can be corrected here.
pub(super) async fn ask_concurrency(
    mut visit: Visit<permit::ManageQueues>,
    Name(name): Name,
) -> Result<Response, Failure> {
    let is_sent = !visit.refused.is_empty();
    let (to, wrong) = Refused::of(wished(visit.asked.get("to")))?;
    if !is_sent {
        visit.refused = wrong;
    }
    let is_refused = !visit.refused.is_empty();
    let explanation = html! {
        @if is_refused {
            p { "Each worker runs this many entries of the queue at once. Without a number, it uses the concurrency that it was started with." }
        } @else if let Some(to) = to {
            p { "Each worker runs up to " strong { (to) } " of this queue at once. The change takes effect within two seconds." }
        } @else {
            p { "Each worker uses the concurrency that it was started with." }
        }
    };
    let fields = html! {
        @if is_refused { (checked(&visit.asked, &visit.refused, "to", "Concurrency", "number")) }
        @else { input type="hidden" name="to" value=[to]; }
    };
    let page = visit.ask_for(
        Section::Queues,
        &Question {
            title: &format!("Change the concurrency of the queue {name}?"),
            explanation,
            button: "Change",
            is_grave: false,
            action: &format!("/console/queue/{name}/concurrency"),
            back: BACK,
            fields,
        },
        &["to"],
    );
    Ok(if is_refused && !is_sent { (StatusCode::BAD_REQUEST, page).into_response() } else { page })
}

/// `POST /console/queue/{name}/concurrency`.
pub(super) async fn set_concurrency(
    Name(name): Name,
    act: Act<permit::ManageQueues>,
) -> Result<Response, Failure> {
    let to = wished(act.form.get("to"))?.map_or(Value::Null, Value::from);
    queues::update(act.visit.services(), &act.visit.may, name, json!({"concurrency": to})).await?;
    Ok(done(BACK, Done::Concurrency, None))
}

/// The wanted concurrency; `None` is the value that workers were started with.
fn wished(text: Option<&str>) -> Result<Option<u16>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let number = text.parse().ok().filter(|number| (1..=MAX_CONCURRENCY).contains(number));
    let message = || format!("must be between 1 and {MAX_CONCURRENCY}");
    number.map(Some).ok_or_else(|| Problem::violation("to", "out_of_range", message()))
}

/// An existing queue, named in the path.
#[derive(Debug)]
pub(super) struct Name(&'static str);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Head, state: &S) -> Result<Self, Failure> {
        let Segment(name) = Segment::from_request_parts(parts, state).await?;
        Ok(Self(Queue::from_name(&name).ok_or_else(|| Problem::not_found("queue"))?.name()))
    }
}
