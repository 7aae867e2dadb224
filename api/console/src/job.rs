//! Jobs: the search, and the details of one job.

pub(super) mod bulk;
pub(super) mod control;
pub(super) mod file;
pub(super) mod list;

use std::collections::BTreeMap;

use axum::response::Response;
use chrono::{DateTime, Utc};
use futures::FutureExt as _;
use longshore_domain::job::chunk::ChunkState;
use longshore_domain::job::inspection::{self, Chunk, ERRORS, Inspection, Job, Wanted};
use longshore_domain::job::item_error::{Group, KEPT};
use longshore_domain::job::kind::JobState;
use longshore_domain::list::fields::job::outcome;
use longshore_domain::webhook::delivery::outcome::{SentAgain, sentence};
use longshore_http::extract::{Failure, Id, permit};
use longshore_kernel::access::Permission;
use longshore_kernel::answer::Answer;
use longshore_kernel::ids::{EshopId, JobId, OrganisationId};
use longshore_kernel::problem::Problem;
use maud::{Markup, html};
use serde_json::Value;
use uuid::Uuid;

use super::form::{Asked, OF_ACTION, OF_PAGE};
use super::json;
use super::layout::Section;
use super::live::{self, Parts};
use super::piece::{
    self, Way, empty, full_time, job_state, milliseconds, none, number, pager_to, plain, progress, state,
    time, took, waits,
};
use super::timeline::only_change;
use super::visit::Visit;

/// Behind which item what a dry run would do is shown, in an address.
const BEYOND: &str = "beyond";
/// The group of the refused items that are shown, in an address.
const GROUP: &str = "group";

/// `GET /console/job/{id}`.
pub(super) async fn show(Id(id): Id<JobId>, visit: Visit<permit::ReadJobs>) -> Result<Response, Failure> {
    let found = find(&visit, id).await?;
    let now = visit.now();
    let mut content = html! {
        p.trail { a href="/console/job" { "Jobs" } " / " (name(&found.job)) }
    };
    for (id, part) in parts_of(&visit, &found, now) {
        content = html! { (content) div #(id) { (part) } };
    }
    let content = html! { (content) (payload(&found)) };
    let live = visit.asked.address(&format!("/console/job/{id}/live"), &OF_ACTION, &[]);
    let title = format!("{} {}", name(&found.job), id);
    Ok(if found.job.ended() {
        visit.page(Section::Jobs, &title, &content)
    } else {
        visit.live_page(Section::Jobs, &title, &live, &content)
    })
}

/// The page of a job that was just accepted.
pub(super) fn page(accepted: &Answer) -> Result<String, Problem> {
    let job =
        accepted.job.ok_or_else(|| Problem::internal("the response does not contain the accepted job"))?;
    Ok(format!("/console/job/{job}"))
}

async fn find(visit: &Visit<permit::ReadJobs>, id: JobId) -> Result<Inspection, Problem> {
    let asked = &visit.asked;
    let after = asked.among("after", |text| text.parse().ok())?;
    let beyond = asked.among(BEYOND, |text| text.parse().ok())?;
    let wanted = Wanted { group: asked.text(GROUP)?, after, beyond };
    let found = inspection::inspect(visit.db(), visit.scope(), id, &wanted).await?;
    found.ok_or_else(|| Problem::not_found("job"))
}

/// `GET /console/job/{id}/live`.
pub(super) async fn follow(Id(id): Id<JobId>, mut visit: Visit<permit::ReadJobs>) -> Response {
    visit.subject = Some(id.get());
    live::stream(visit, |visit| refreshed(visit).boxed())
}

async fn refreshed(visit: &Visit<permit::ReadJobs>) -> Result<Parts, Problem> {
    let id = visit.subject.ok_or_else(|| Problem::not_found("job"))?;
    let found = find(visit, id.into()).await?;
    Ok(parts_of(visit, &found, visit.now()))
}

fn parts_of(visit: &Visit<permit::ReadJobs>, found: &Inspection, now: DateTime<Utc>) -> Parts {
    let (may, releases) = (visit.can(Permission::WriteJobs), visit.can(Permission::ReleaseWithheld));
    vec![
        ("standing".into(), standing(found, may, releases, now)),
        ("previewed".into(), previewed(&visit.asked, found)),
        ("groups".into(), groups(&visit.asked, found)),
        ("timeline".into(), timeline(found, now)),
        ("attempts".into(), attempts(found, now)),
        ("refused".into(), refused(&visit.asked, found)),
    ]
}

/// What it does.
fn name(job: &Job) -> String {
    match &job.preview_of {
        Some(of) => format!("dry run of {}", plain(of)),
        None => plain(&job.kind),
    }
}

fn standing(found: &Inspection, may: bool, releases: bool, now: DateTime<Utc>) -> Markup {
    let job = &found.job;
    let path = format!("/console/job/{}", job.id);
    let end = job.finished_at.or(Some(now));
    html! {
        header.title {
            h1 { (name(job)) }
            (job_state(job.state, job.total, job.failed, job.withheld))
            @if may {
                div.buttons {
                    @if job.preview_of.is_some() && job.ended() {
                        @if job.is_applicable { a.button.primary href={(path) "/apply"} data-ask="" { "Apply" } }
                    } @else if job.ended() {
                        @if releases && !found.previewed.is_empty() {
                            a.button.danger href={(path) "/release"} data-ask="" { "Release what is withheld" }
                        }
                        @if job.state == JobState::Failed {
                            a.button.primary href={(path) "/retry"} data-ask="" { "Retry" }
                        } @else if job.state == JobState::Succeeded && job.failed > 0 && job.connection_works.is_none() {
                            // rows that are wrong are refused again
                            a.button href={(path) "/retry"} data-ask="" { "Retry refused items" }
                        }
                    } @else {
                        a.button.danger href={(path) "/cancel"} data-ask="" { "Cancel" }
                    }
                }
            }
        }
        div.large { (progress(job.done, job.total, job.failed)) }
        @if let Some(waiting) = &job.waits_for {
            p { (waits(waiting, found.ahead.as_ref(), now)) "." }
        }
        @if let Some(outcome) = sent_again(job) {
            p { strong { (outcome) } @if !job.ended() { " So far." } }
        }
        @if let (Some(works), Some(message), Some(ms)) = (job.connection_works, &job.connection_message, job.connection_ms) {
            p {
                strong { @if works { "The connection works: " } @else { "The connection does not work: " } }
                (message) ". " span.muted { "The call took " (milliseconds(f64::from(ms))) "." }
            }
        }
        @if let Some(found) = &job.preview { (sums(job, found)) }
        @if !found.previewed.is_empty() && job.withheld > 0 {
            p.error {
                strong { (number(job.withheld)) " rows are withheld" } ": the guard of the sync did not let them switch off, cancel or set to 0 so much. "
                "A sync that says the same once more, or a release, executes them; after seven days they are forgotten."
            }
        }
        @if let Some(error) = &job.error {
            p.error { strong { "Error: " } (error) }
        }
        dl.facts {
            @if let Some(outcome) = outcome(job.state, job.total, job.failed, job.withheld) {
                div { dt { "Outcome" } dd { (outcome) } }
            }
            div { dt { "Changed" } dd { (number(job.changed)) } }
            div { dt { "Unchanged" } dd { (number(job.unchanged)) } }
            div { dt { "Refused" } dd { (number(job.failed)) } }
            div { dt { "Attempts" } dd { (number(job.attempts)) } }
            div { dt { "Run time" } dd { (run_time(found, now)) } }
            div { dt { "Waiting time" } dd { (took(Some(job.created_at), job.started_at.or(end))) } }
        }
        dl.details {
            div { dt { "Organisation" } dd { (organisation(job)) } }
            div { dt { "E-shop" } dd { (link("eshop", job.eshop_id.map(EshopId::get), job.eshop.as_deref())) } }
            div { dt { "Requested by" } dd { (job.actor_name) " " span.muted { (job.actor_type) } } }
            div { dt { "Request" } dd { @match &job.request_id { Some(id) => a href={"/console/audit?request=" (id)} { code { (id) } }, None => (none()) } } }
            div { dt { "Trace" } dd { @match job.trace_id() { Some(id) => (piece::id(id)), None => (none()) } } }
            div { dt { "Id" } dd { (piece::id(job.id)) } }
            div { dt { "Acceptance" } dd { @match job.acceptance.filter(|_| job.preview_of.is_none()) { Some(number) => code { (number) }, None => (none()) } } }
        }
    }
}

/// What a dry run found so far, and what becomes of it.
fn sums(job: &Job, found: &BTreeMap<String, i64>) -> Markup {
    const NAMES: [(&str, &str); 7] = [
        ("created", "To create"),
        ("updated", "To change"),
        ("deactivated", "To switch off"),
        ("zeroed", "To set to 0"),
        ("booked", "To book, at most"),
        ("waiting", "To wait, at most"),
        ("deliveries", "Deliveries"),
    ];
    let sum = |name: &str| found.get(name).copied().unwrap_or_default();
    html! {
        p {
            "Nothing was changed: a dry run finds out what the job itself would do. "
            @if let Some(by) = job.applied_by {
                a href={"/console/job/" (by)} { "This job" } " applied it."
            } @else if job.is_applicable {
                "It can be applied within an hour of its end."
            } @else if job.ended() {
                "It can no longer be applied: send the request again."
            }
        }
        dl.facts {
            @for (name, label) in NAMES { div { dt { (label) } dd { (number(sum(name))) } } }
        }
    }
}

/// What a dry run would do, item by item.
fn previewed(asked: &Asked, found: &Inspection) -> Markup {
    let here = format!("/console/job/{}", found.job.id);
    if found.previewed.is_empty() {
        return html! {};
    }
    let others: Vec<&str> = OF_PAGE.into_iter().chain([BEYOND]).collect();
    let address = |beyond: &[(&str, &str)]| asked.address(&here, &others, beyond) + "#previewed";
    let (shown, pager) = items(asked, &found.previewed, |item| item.index, BEYOND, address);
    html! {
        section aria-labelledby="previewed-title" {
            h2 #previewed-title { @if found.job.withheld > 0 { "What is withheld " } @else { "What it would do " } span.muted { "the first " (number(KEPT)) " items" } }
            div.scroll tabindex="0" role="region" aria-label="What it would do, table" {
                table {
                    thead { tr { th.number { "Item" } th.number { "Line" } th { "Key" } th { "Would" } th { "Changes" } } }
                    tbody {
                        @for item in shown {
                            tr {
                                td.number { (number(item.index)) }
                                td.number { (item.line.map_or_else(|| "–".to_owned(), number)) }
                                td { code { (item.key.as_deref().unwrap_or("–")) } }
                                td { (item.would) }
                                td.text { @match &item.changes { Some(changes) => (effect(changes)), None => (none()) } }
                            }
                        }
                    }
                }
            }
            (pager)
        }
    }
}

/// The items of a page, of one more than it has, and the links to the first page and to the next, which begins behind the position that
/// its parameter `name` says.
fn items<'f, T>(
    asked: &Asked,
    found: &'f [T],
    index: impl Fn(&T) -> i32,
    name: &str,
    address: impl Fn(&[(&str, &str)]) -> String,
) -> (&'f [T], Markup) {
    let shown = found.get(..ERRORS).unwrap_or(found);
    let last = shown.last().filter(|_| found.len() > ERRORS).map(|last| index(last).to_string());
    let next = last.map(|last| address(&[(name, &last)]));
    let first = asked.get(name).map(|_| address(&[]));
    (shown, pager_to(Way::Further, shown.len(), first.as_deref(), next.as_deref(), None))
}

/// What would change: of one field what it was and what it would be, of several their names, which unfold.
fn effect(changes: &Value) -> Markup {
    html! {
        @match only_change(changes) {
            Some((field, [from, to])) => { (field) " " (from) " → " (to) },
            None => details { summary { (piece::fields(changes)) } (piece::json(changes)) },
        }
    }
}

/// How long the last attempt took, or has taken until now; with all attempts and the waits between them, where there are any.
fn run_time(found: &Inspection, now: DateTime<Utc>) -> Markup {
    let job = &found.job;
    // while one chunk waits for its next attempt, others may run
    let runs =
        job.state == JobState::Running || found.chunks.iter().any(|chunk| chunk.state == ChunkState::Running);
    let until = job.finished_at.or(runs.then_some(now));
    let waited = until.is_none() || job.started_at < job.attempt_started_at;
    html! {
        (took(job.attempt_started_at, until))
        @if job.started_at.is_some() && waited {
            " " span.muted { (took(job.started_at, job.finished_at.or(Some(now)))) " since its first start" }
        }
    }
}

fn sent_again(job: &Job) -> Option<String> {
    let [released, resent, left] = [job.released, job.resent, job.unchanged].map(i64::from);
    sentence(&job.kind, SentAgain { released, resent, left })
}

fn organisation(job: &Job) -> Markup {
    match job.organisations {
        Some(several) => html! { (number(several)) " organisations" },
        None => {
            link("organisation", job.organisation_id.map(OrganisationId::get), job.organisation.as_deref())
        }
    }
}

fn link(name: &str, id: Option<Uuid>, text: Option<&str>) -> Markup {
    match (id, text) {
        (Some(id), Some(text)) => html! { a href={"/console/" (name) "/" (id)} { (text) } },
        (Some(id), None) => html! { code { (id) } },
        _ => none(),
    }
}

/// The history, newest first.
fn timeline(found: &Inspection, now: DateTime<Utc>) -> Markup {
    let job = &found.job;
    let mut moments: Vec<(DateTime<Utc>, String, Option<&str>)> =
        found.deeds.iter().map(|deed| (deed.at, deed.action.clone(), Some(deed.actor.as_str()))).collect();
    moments.push((job.created_at, "accepted".to_owned(), Some(&job.actor_name)));
    moments.extend(job.started_at.map(|at| (at, "first chunk started".to_owned(), None)));
    moments.extend(job.finished_at.map(|at| (at, job.state.to_string(), None)));
    if !job.ended() {
        moments.push((job.moved_on_at, "last progress".to_owned(), None));
    }
    moments.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
    html! {
        section aria-labelledby="timeline-title" {
            h2 #timeline-title { "Timeline" }
            ol.timeline {
                @for (at, what, who) in &moments {
                    li { (full_time(*at, now)) " " strong { (what) } @if let Some(who) = who { " by " (who) } }
                }
            }
        }
    }
}

fn attempts(found: &Inspection, now: DateTime<Utc>) -> Markup {
    let shown = found.chunks.len();
    let all = usize::try_from(found.chunk_count).unwrap_or(usize::MAX);
    html! {
        section aria-labelledby="attempts-title" {
            h2 #attempts-title { "Attempts " span.muted { "by chunk, newest first" } }
            @if found.chunks.is_empty() {
                (empty("No chunks yet.", "The service is still receiving the items."))
            } @else {
                @if shown < all { p.muted { "The " (shown) " of " (number(found.chunk_count)) " most recently changed chunks." } }
                div.scroll tabindex="0" role="region" aria-label="Attempts, table" {
                    table.stack {
                        thead { tr {
                            th { "Chunk" } th { "State" } th { "Error" } th { "Next" } th.number { "Attempts" } th.number { "Items" }
                            th { "Started" } th.number { "Took" }
                        } }
                        tbody { @for chunk in &found.chunks { (attempt(chunk, now)) } }
                    }
                }
            }
        }
    }
}

fn attempt(chunk: &Chunk, now: DateTime<Utc>) -> Markup {
    let waits = chunk.state == ChunkState::Queued && chunk.attempts > 0;
    html! {
        tr {
            td { "#" (chunk.number) }
            td { (state(chunk.state)) }
            td.text { (chunk.error.as_deref().unwrap_or_default()) }
            td data-label="Next" { @if waits { (time(chunk.next_attempt_at, now)) } @else { (none()) } }
            td.number data-label="Attempts" { (chunk.attempts) @if chunk.crashes > 0 { " " span.refused { (chunk.crashes) " crashed" } } }
            td.number data-label="Items" { (number(chunk.items)) }
            td data-label="Started" { (piece::time_or_none(chunk.started_at, now)) }
            td.number data-label="Took" { (took(chunk.started_at, chunk.finished_at)) }
        }
    }
}

/// The refused items of a page.
fn refused(asked: &Asked, found: &Inspection) -> Markup {
    let job = &found.job;
    let here = format!("/console/job/{}", job.id);
    if found.groups.is_empty() {
        return html! {};
    }
    let address = |after: &[(&str, &str)]| asked.address(&here, &OF_PAGE, after) + "#refused";
    let (shown, pager) = items(asked, &found.refused, |item| item.index, "after", address);
    html! {
        section aria-labelledby="refused-title" {
            header.title {
                h2 #refused-title { "Refused items" }
                a.button href={(here) "/errors.csv"} download="" { "Download all reasons (CSV)" }
            }
            @if job.failed > KEPT { p.muted { "The first " (number(KEPT)) " of " (number(job.failed)) " are kept." } }
            @if asked.get(GROUP).is_some() { p { a href={(asked.address(&here, &of_group(), &[])) "#refused"} { "All reasons" } } }
            div.scroll tabindex="0" role="region" aria-label="Refused items, table" {
                table {
                    thead { tr { th.number { "Item" } th.number { "Line" } th { "Key" } th { "Reason" } th { "Value" } } }
                    tbody {
                        @for item in shown {
                            tr {
                                td.number { (number(item.index)) }
                                td.number { (item.line.map_or_else(|| "–".to_owned(), number)) }
                                td { code { (item.key.as_deref().unwrap_or("–")) } }
                                td.text { (item.message) }
                                td.text { @match &item.value { Some(value) => code { (value) }, None => (none()) } }
                            }
                        }
                    }
                }
            }
            (pager)
        }
    }
}

/// Parameters that another group has others of.
fn of_group() -> Vec<&'static str> {
    OF_PAGE.into_iter().chain([GROUP]).collect()
}

/// Why items were refused: each reason leads to its items.
fn groups(asked: &Asked, found: &Inspection) -> Markup {
    if found.groups.is_empty() {
        return html! {};
    }
    let here = format!("/console/job/{}", found.job.id);
    let chosen = asked.get(GROUP);
    let address = |group: &Group| asked.address(&here, &of_group(), &[(GROUP, &group.name)]) + "#refused";
    html! {
        section aria-labelledby="groups-title" {
            header.title {
                h2 #groups-title { "Why items were refused" }
                @if found.job.failed > 0 { a.button href={(here) "/refused"} download="" { "Download refused rows" } }
            }
            div.scroll tabindex="0" role="region" aria-label="Reasons, table" {
                table {
                    thead { tr { th.number { "Items" } th { "Code" } th { "Field" } th { "Example" } } }
                    tbody {
                        @for group in &found.groups {
                            tr {
                                td.number { (number(group.count)) }
                                td { code { (group.code) } }
                                td { @match &group.field { Some(field) => code { (field) }, None => (none()) } }
                                td.text {
                                    a href=(address(group)) aria-current=[(chosen == Some(group.name.as_str())).then_some("true")] {
                                        (group.example.message)
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn payload(found: &Inspection) -> Markup {
    html! {
        section aria-labelledby="payload-title" {
            h2 #payload-title { "Payload" }
            details { summary { "Parameters" } (json::draw(&found.job.parameters)) }
            @match &found.payload {
                Some(payload) => details {
                    summary { "Items of chunk " (payload.chunk) ": the first " (payload.first.len()) " of " (payload.count) }
                    button.copy type="button" data-copy-of="pre" hidden { "copy" }
                    pre tabindex="0" { code { @for item in &payload.first { (item) "\n" } } }
                },
                None => p.muted { "Items are removed after they are executed." },
            }
        }
    }
}
