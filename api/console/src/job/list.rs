//! The search for jobs, with how many are in each state.

use axum::response::Response;
use chrono::{DateTime, Utc};
use futures::FutureExt as _;
use longshore_domain::job::control::bulk::Deed;
use longshore_domain::job::kind::{JobKind, JobState};
use longshore_domain::job::search::{self, Counts, Cursor, Filter, Line, Page, WINDOW};
use longshore_http::extract::{Failure, permit};
use longshore_kernel::access::Permission;
use longshore_kernel::problem::Problem;
use longshore_operate::named::Kind;
use maud::{Markup, html};

use crate::form::{Asked, OF_PAGE, Refused};
use crate::layout::Section;
use crate::live::{self, Part, Parts, part};
use crate::piece::{
    OLDEST, ORDERS, Way, checked, empty, eshop, is_oldest_first, job_state, kept, moment, none, options,
    organisation, pager_to, plain, progress, rows, select, size, sorting, tabs, took, unreadable, waits,
};
use crate::visit::Visit;
use crate::{course, kind, period, refresh};

pub(super) const HERE: &str = "/console/job";

/// The fields that narrow the list.
pub(super) const FILTER: [&str; 9] =
    ["state", "kind", "error", "organisation", "eshop", "entity", "since", "until", period::FIELD];

/// The orders of the list by the time of the acceptance.
const BY_ACCEPTANCE: [(&str, bool); 2] = [("", false), (OLDEST, true)];

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
    let asked = &visit.asked;
    let (wanted, refused) = Refused::of(wanted(&visit, asked).await)?;
    let kinds = async {
        let span = course::span(asked)?;
        longshore_operate::course::by_kind(visit.db(), visit.scope(), span).await
    };
    let ([counts, list], kinds) =
        tokio::try_join!(parts(&visit, refused.is_empty().then_some(&wanted)), kinds)?;
    let content = html! {
        header.title {
            h1 { "Jobs" }
            @if visit.can(Permission::WriteJobs) { a.button href="/console/import" { "Import" } }
            (refresh::choice(asked, HERE))
        }
        (part(&counts))
        (period::choice(asked, HERE, &OF_PAGE))
        (form(asked, &refused))
        (part(&list))
        (kind::part(asked, HERE, &kinds, wanted.kind))
        (course::script())
    };
    Ok(visit.list_page(Section::Jobs, "Jobs", HERE, &refused, &content))
}

/// `GET /console/job/live`.
pub(crate) async fn follow(visit: Visit<permit::ReadJobs>) -> Response {
    live::stream(visit, |visit| refreshed(visit).boxed())
}

async fn refreshed(visit: &Visit<permit::ReadJobs>) -> Result<Parts, Problem> {
    let wanted = wanted(visit, &visit.asked).await?;
    Ok(parts(visit, Some(&wanted)).await?.into())
}

/// How many jobs are in each state, and those that are wanted.
async fn parts(visit: &Visit<permit::ReadJobs>, wanted: Option<&Filter>) -> Result<[Part; 2], Problem> {
    let (db, scope) = (visit.db(), visit.scope());
    let (counts, found) = tokio::try_join!(search::counts(db, scope), async {
        match wanted {
            Some(wanted) => Ok(Some(search::search(db, scope, wanted).await?)),
            None => Ok(None),
        }
    })?;
    let list = match &found {
        Some(found) => html! { (list(visit, found)) (pages(&visit.asked, found)) },
        None => unreadable(),
    };
    Ok([("states".into(), states(&visit.asked, &counts)), ("list".into(), list)])
}

/// The search that a form says.
pub(super) async fn wanted<P>(visit: &Visit<P>, asked: &Asked) -> Result<Filter, Problem> {
    let organisation = visit.named(asked, Kind::Organisation, "organisation").await?;
    let eshop = visit.named(asked, Kind::Eshop, "eshop").await?;
    Ok(Filter {
        organisation,
        eshop,
        kind: asked.among("kind", |word| word.parse().ok())?,
        state: asked.among("state", |word| word.parse().ok())?,
        entity: visit.thing(asked, "entity").await?,
        error: asked.text("error")?,
        since: period::or_since(asked, visit.now())?,
        until: asked.moment("until")?,
        after: asked.among("after", |text| text.parse::<Cursor>().ok())?,
        oldest: is_oldest_first(asked)?,
        size: size(asked)?,
    })
}

/// How many are in each state; each leads to its jobs.
fn states(asked: &Asked, counts: &Counts) -> Markup {
    let of = STATES.map(|state| (state.as_str(), counts.of(state).in_words()));
    tabs(asked, HERE, &OF_PAGE, "state", "Number of jobs", &counts.all().in_words(), &of)
}

fn form(asked: &Asked, refused: &Refused) -> Markup {
    let more = ["organisation", "eshop", "entity", "since", "until", "sort", "size"];
    let is_narrow = more.iter().any(|name| asked.get(name).is_some());
    let states = [("", "any state")].into_iter().chain(STATES.map(|state| (state.as_str(), state.as_str())));
    let words = JobKind::WORDS.map(|word| (word, plain(word)));
    let kinds = [("", "any kind")].into_iter().chain(words.iter().map(|(word, text)| (*word, text.as_str())));
    html! {
        form.search method="get" action=(HERE) role="search" {
            // a period that was chosen remains, unless the form has another
            @if let Some(hours) = asked.get(period::FIELD) { input type="hidden" name=(period::FIELD) value=(hours); }
            (options(asked, refused, "state", "State", states))
            (options(asked, refused, "kind", "Kind", kinds))
            (checked(asked, refused, "error", "Error contains", "search"))
            button.primary type="submit" { "Search" }
            a.button href=(HERE) { "Clear" }
            details open[is_narrow] {
                summary { "More" }
                div {
                    (checked(asked, refused, "organisation", "Organisation (name or id)", "text"))
                    (checked(asked, refused, "eshop", "E-shop (name or id)", "text"))
                    (checked(asked, refused, "entity", "Changed record (SKU, order number or id)", "text"))
                    (checked(asked, refused, "since", "Since (UTC)", "datetime-local"))
                    (checked(asked, refused, "until", "Before (UTC)", "datetime-local"))
                    (options(asked, refused, "sort", "Order", ORDERS))
                    (rows(asked, refused))
                }
            }
        }
    }
}

/// The jobs; where the visitor may, with check boxes and what can be done with those that are checked, or with all that match.
fn list(visit: &Visit<permit::ReadJobs>, found: &Page) -> Markup {
    let asked = &visit.asked;
    let state: Option<JobState> = asked.get("state").and_then(|word| word.parse().ok());
    let can = |deed: Deed| state.is_none_or(|state| deed.states().contains(&state));
    let (retry, cancel) = (can(Deed::Retry), can(Deed::Cancel));
    let may = visit.can(Permission::WriteJobs) && !found.jobs.is_empty() && (retry || cancel);
    let table = table(asked, found, may, visit.now());
    if !may {
        return table;
    }
    let all = |deed: &str| asked.address(&format!("{HERE}/{deed}"), &OF_PAGE, &[("all", "true")]);
    html! {
        form method="get" action={(HERE) "/retry"} data-ask="" {
            (kept(asked, &FILTER))
            (table)
            div.buttons {
                @if retry { button type="submit" { "Retry selected" } }
                @if cancel { button type="submit" formaction={(HERE) "/cancel"} { "Cancel selected" } }
                @if retry { a.button href=(all("retry")) data-ask="" { "Retry all that match" } }
                @if cancel { a.button href=(all("cancel")) data-ask="" { "Cancel all that match" } }
            }
        }
    }
}

fn table(asked: &Asked, found: &Page, choose: bool, now: DateTime<Utc>) -> Markup {
    if found.jobs.is_empty() {
        return empty("No job matches.", "Remove a filter, or search an earlier time.");
    }
    html! {
        div.scroll tabindex="0" role="region" aria-label="Jobs, table" {
            table.list.stack {
                thead { tr {
                    th { "Job" } th { "State" } th { "Error or reason for waiting" } th { "Progress" }
                    (sorting(asked, HERE, "Accepted", &BY_ACCEPTANCE)) th.number { "Ran" }
                    th { "E-shop" } th { "Requested by" }
                } }
                tbody { @for job in &found.jobs { (row(job, choose, now)) } }
            }
        }
    }
}

fn row(job: &Line, choose: bool, now: DateTime<Utc>) -> Markup {
    html! {
        tr {
            td {
                @if choose { (select("id", job.id, &plain(&job.kind))) }
                a href={(HERE) "/" (job.id)} { strong { (plain(&job.kind)) } }
            }
            td { (job_state(job.state, job.total, job.failed, job.withheld)) }
            td.text.clip title=[job.error.as_deref()] {
                @match (&job.error, &job.waits_for) {
                    (Some(error), _) => span { (error) },
                    (None, Some(waiting)) => span { (waits(waiting, None, now)) },
                    (None, None) => {},
                }
            }
            td { (progress(job.done, job.total, job.failed)) }
            td data-label="Accepted" { (moment(job.created_at, now)) }
            td.number data-label="Ran" { (took(job.attempt_started_at, job.finished_at)) }
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
    let first = asked.get("after").map(|_| asked.address(HERE, &OF_PAGE, &[]));
    let next = found.next.map(|place| asked.address(HERE, &OF_PAGE, &[("after", &place.to_string())]));
    let window = found.cut_short.then_some(WINDOW);
    pager_to(Way::of(asked), found.jobs.len(), first.as_deref(), next.as_deref(), window)
}
