//! The search for jobs.

use axum::response::Response;
use chrono::{DateTime, Utc};
use longshore_http::extract::{Failure, permit};
use longshore_shared::job::kind::{JobKind, JobState};
use longshore_shared::job::search::{self, Filter, Line, Page, Place, WINDOW};
use longshore_shared::kernel::problem::Problem;
use maud::{Markup, html};

use crate::form::Asked;
use crate::layout::Section;
use crate::piece::{
    choice, empty, eshop, field, job_state, none, organisation, pager, progress, time, took, waits,
};
use crate::visit::Visit;

/// All states, in the order in which operators look for them.
const STATES: [JobState; 7] = [
    JobState::Failed,
    JobState::Running,
    JobState::Retrying,
    JobState::Queued,
    JobState::Receiving,
    JobState::Succeeded,
    JobState::Cancelled,
];

/// `GET /console/job`.
pub(crate) async fn show(visit: Visit<permit::ReadJobs>) -> Result<Response, Failure> {
    let wanted = wanted(&visit.asked)?;
    let found = search::search(visit.db(), visit.scope(), &wanted).await?;
    let content = html! {
        h1 { "Jobs" }
        (form(&visit.asked))
        (table(&found, visit.now()))
        (pages(&visit.asked, &found))
    };
    Ok(visit.page(Section::Jobs, "Jobs", &content))
}

fn wanted(asked: &Asked) -> Result<Filter, Problem> {
    Ok(Filter {
        organisation: asked.id("organisation")?,
        eshop: asked.id("eshop")?,
        kind: asked.among("kind", |word| word.parse().ok())?,
        state: asked.among("state", |word| word.parse().ok())?,
        entity: asked.id("entity")?,
        error: asked.text("error")?,
        since: asked.moment("since")?,
        until: asked.moment("until")?,
        after: asked.among("after", |text| text.parse::<Place>().ok())?,
    })
}

fn form(asked: &Asked) -> Markup {
    let more = ["organisation", "eshop", "entity", "since", "until"];
    let is_narrow = more.iter().any(|name| asked.get(name).is_some());
    html! {
        form.search method="get" action="/console/job" role="search" {
            (choice("state", "State", "any state", STATES.map(JobState::as_str), asked.get("state")))
            (choice("kind", "Kind", "any kind", JobKind::WORDS, asked.get("kind")))
            (field("error", "Error contains", "search", asked.get("error")))
            button.primary type="submit" { "Search" }
            a.button href="/console/job" { "Clear" }
            details open[is_narrow] {
                summary { "More" }
                div {
                    (field("organisation", "Organisation (id)", "text", asked.get("organisation")))
                    (field("eshop", "E-shop (id)", "text", asked.get("eshop")))
                    (field("entity", "Changed entity (id)", "text", asked.get("entity")))
                    (field("since", "Since (UTC)", "datetime-local", asked.get("since")))
                    (field("until", "Before (UTC)", "datetime-local", asked.get("until")))
                }
            }
        }
    }
}

fn table(found: &Page, now: DateTime<Utc>) -> Markup {
    if found.jobs.is_empty() {
        return empty("No job matches.", "Remove a filter, or search an earlier time.");
    }
    html! {
        div.scroll tabindex="0" role="region" aria-label="Jobs, table" {
            table.list.stack {
                thead { tr {
                    th { "Job" } th { "State" } th { "Error or reason for waiting" } th { "Progress" } th { "Accepted" } th.number { "Ran" }
                    th { "E-shop" } th { "Requested by" }
                } }
                tbody { @for job in &found.jobs { (row(job, now)) } }
            }
        }
    }
}

fn row(job: &Line, now: DateTime<Utc>) -> Markup {
    html! {
        tr {
            td { a href={"/console/job/" (job.id)} { strong { (job.kind) } } }
            td { (job_state(job.state, job.total, job.failed)) }
            td.text.clip title=[job.error.as_deref()] {
                @match (&job.error, &job.waits_for) {
                    (Some(error), _) => span { (error) },
                    (None, Some(waiting)) => span { (waits(waiting, None, now)) },
                    (None, None) => {},
                }
            }
            td { (progress(job.done, job.total, job.failed)) }
            td data-label="Accepted" { (time(job.created_at, now)) }
            td.number data-label="Ran" { (took(job.started_at, job.finished_at)) }
            td.name data-label="E-shop" { (whose(job)) }
            td.name data-label="Requested by" { (job.actor) }
        }
    }
}

/// The e-shop of a job, or its organisation.
fn whose(job: &Line) -> Markup {
    match (job.eshop_id, &job.eshop, job.organisation_id, &job.organisation, job.organisations) {
        (Some(id), Some(name), ..) => eshop(id, name),
        (_, _, Some(id), Some(name), _) => organisation(id, name),
        (.., Some(several)) => html! { (several) " organisations" },
        _ => none(),
    }
}

fn pages(asked: &Asked, found: &Page) -> Markup {
    let first = asked.get("after").map(|_| asked.address("/console/job", &["after"], &[]));
    let next =
        found.next.map(|place| asked.address("/console/job", &["after"], &[("after", &place.to_string())]));
    let window = found.cut_short.then_some(WINDOW);
    pager(found.jobs.len(), first.as_deref(), next.as_deref(), window)
}
