//! The syncs that the clock starts, what is due first in front, with what can be done about each.

use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};
use http::StatusCode;
use longshore_http::extract::{Failure, permit};
use longshore_kernel::access::Permission;
use longshore_kernel::problem::Problem;
use longshore_operate::schedule::{self, Filter, Page, Schedule};
use maud::{Markup, html};

use super::form::{Asked, Refused};
use super::layout::Section;
use super::piece::{
    Tone, Way, badge, checked, empty, eshop, job_state, none, number, pager_to, plain, time, time_or_none,
};
use super::visit::Visit;

const HERE: &str = "/console/schedule";
/// The values of `state`, with whether the clock starts them.
const STATES: [(&str, &str, bool); 2] = [("running", "By the clock", true), ("paused", "Paused", false)];

/// `GET /console/schedule`.
pub(super) async fn show(visit: Visit<permit::ReadSettings>) -> Result<Response, Failure> {
    let asked = &visit.asked;
    let (wanted, refused) = Refused::of(wanted(asked))?;
    let found = if refused.is_empty() {
        schedule::page(visit.db(), visit.scope(), &wanted).await?
    } else {
        Page::default()
    };
    let first = asked.get("after").map(|_| asked.address(HERE, &["after"], &[]));
    let next = found.next.map(|place| asked.address(HERE, &["after"], &[("after", &place.to_string())]));
    let content = html! {
        p.trail { a href="/console/sync" { "Syncs" } " / schedules" }
        h1 { "Schedules" }
        p.muted { "Syncs that start by the clock, the next one first. The interval varies by up to a twentieth, so that they do not all start at once." }
        nav.switch aria-label="By state" {
            a href=(asked.address(HERE, &["state", "after"], &[])) aria-current=[wanted.runs.is_none().then_some("true")] { "All" }
            @for (word, name, runs) in STATES {
                a href=(asked.address(HERE, &["state", "after"], &[("state", word)])) aria-current=[(wanted.runs == Some(runs)).then_some("true")] { (name) }
            }
        }
        form.search method="get" action=(HERE) role="search" aria-label="Schedules" {
            @if let Some(state) = asked.get("state") { input type="hidden" name="state" value=(state); }
            (checked(asked, &refused, "text", "E-shop or organisation", "search"))
            button.primary type="submit" { "Search" }
            a.button href=(HERE) { "Clear" }
        }
        (table(&visit, &found.schedules))
        (pager_to(Way::Newer, found.schedules.len(), first.as_deref(), next.as_deref(), None))
    };
    let page = visit.page(Section::Syncs, "Schedules", &content);
    Ok(if refused.is_empty() { page } else { (StatusCode::BAD_REQUEST, page).into_response() })
}

fn wanted(asked: &Asked) -> Result<Filter, Problem> {
    Ok(Filter {
        text: asked.text("text")?,
        runs: asked.among("state", |word| {
            STATES.iter().find(|(known, ..)| *known == word).map(|(.., runs)| *runs)
        })?,
        after: asked.among("after", |text| text.parse().ok())?,
    })
}

fn table(visit: &Visit<permit::ReadSettings>, schedules: &[Schedule]) -> Markup {
    if schedules.is_empty() {
        return empty(
            "No schedule matches.",
            "The integration setting of an e-shop says whether its products are fetched and its stocks sent by the clock.",
        );
    }
    html! {
        div.scroll tabindex="0" role="region" aria-label="Schedules, table" {
            table.list.stack {
                thead { tr {
                    th { "E-shop" } th { "Sync" } th { "Next run" } th.number { "Every" } th { "Last run" } th { "Partner" }
                    th { span.hidden { "Change" } }
                } }
                tbody { @for schedule in schedules { (row(visit, schedule, visit.now())) } }
            }
        }
    }
}

fn row(visit: &Visit<permit::ReadSettings>, schedule: &Schedule, now: DateTime<Utc>) -> Markup {
    let path = format!("/console/eshop/{}", schedule.eshop_id);
    let of = || html! { span.hidden { " " (plain(&schedule.kind)) " of " (schedule.eshop) } };
    html! {
        tr {
            td.name { strong { (eshop(schedule.eshop_id, &schedule.eshop)) } " " span.muted { (schedule.organisation) } }
            td { (plain(&schedule.kind)) }
            td data-label="Next run" { (next(schedule, now)) }
            td.number data-label="Every" { (number(schedule.minutes)) " min" }
            td data-label="Last run" {
                @match (schedule.last, schedule.state) {
                    (Some(job), Some(state)) => {
                        a href={"/console/job/" (job)} { (time_or_none(schedule.last_at, now)) } " "
                        (job_state(state, schedule.total.unwrap_or(0), schedule.failed.unwrap_or(0), schedule.withheld.unwrap_or(0)))
                    },
                    _ => (none()),
                }
            }
            td.text data-label="Partner" {
                (schedule.integration)
                @if let Some(error) = &schedule.error { ": " span.refused { (error) } }
            }
            td {
                div.buttons {
                    @if schedule.active && visit.can(Permission::WriteJobs) {
                        a.button href={(path) "/sync"} data-ask="" { "Run now" (of()) }
                    }
                    @if visit.can(Permission::WriteSettings) {
                        @if schedule.active {
                            a.button href={(path) "/pause"} data-ask="" { "Pause" (of()) }
                        } @else {
                            a.button.primary href={(path) "/resume"} data-ask="" { "Resume" (of()) }
                        }
                        a.button href={(path) "/setting"} { "Edit" (of()) }
                    }
                }
            }
        }
    }
}

/// When the next run is due; a paused one is not started even then.
fn next(schedule: &Schedule, now: DateTime<Utc>) -> Markup {
    html! {
        @if !schedule.active { (badge(Tone::Warn, "paused")) }
        @else if !schedule.runs { (badge(Tone::Quiet, "e-shop inactive")) }
        @else if let Some(at) = schedule.next_run_at {
            @if at <= now { "due, " }
            (time(at, now))
        } @else { (none()) }
    }
}
