//! The syncs of each e-shop.

use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};
use http::StatusCode;
use longshore_http::extract::{Failure, permit};
use longshore_shared::job::sync_run::{self, COUNTED, Filter, PAGE, Run};
use longshore_shared::kernel::access::Permission;
use longshore_shared::kernel::ids::EshopId;
use longshore_shared::kernel::problem::Problem;
use maud::{Markup, html};

use super::form::{Asked, Refused};
use super::layout::Section;
use super::piece::{
    Tone, badge, checked, empty, eshop, job_state, none, number, pager, rows, size, time, time_or_none, took,
    up_to,
};
use super::visit::Visit;

const HERE: &str = "/console/sync";
/// The value of `state` for e-shops whose partner fails.
const FAILING: &str = "failing";

/// `GET /console/sync`.
pub(super) async fn show(visit: Visit<permit::ReadJobs>) -> Result<Response, Failure> {
    let asked = &visit.asked;
    let (wanted, refused) = Refused::of(wanted(asked))?;
    let (runs, failing) = tokio::try_join!(
        async {
            if refused.is_empty() {
                sync_run::page(visit.db(), visit.scope(), &wanted).await
            } else {
                Ok(Vec::new())
            }
        },
        sync_run::failing(visit.db(), visit.scope()),
    )?;
    let mut eshops: Vec<EshopId> = runs.iter().map(|run| run.eshop).collect();
    eshops.dedup();
    let size = wanted.size.unwrap_or(PAGE);
    let is_more = eshops.len() > size;
    eshops.truncate(size);
    let last = eshops.last().copied().filter(|_| is_more);
    let shown: Vec<_> = runs.iter().filter(|run| eshops.contains(&run.eshop)).collect();
    let first = asked.get("after").map(|_| asked.address(HERE, &["after"], &[]));
    let next = last.map(|id| asked.address(HERE, &["after"], &[("after", &id.to_string())]));
    let content = html! {
        header.title {
            h1 { "Syncs by e-shop" }
            @if visit.can(Permission::ReadSettings) { div.buttons { a.button href="/console/schedule" { "Schedules" } } }
        }
        p.muted { "Latest and next sync of every e-shop." }
        nav.switch aria-label="By state" {
            a href=(asked.address(HERE, &["state", "after"], &[])) aria-current=[(!wanted.failing).then_some("true")] { "All" }
            a href=(asked.address(HERE, &["state", "after"], &[("state", FAILING)])) aria-current=[wanted.failing.then_some("true")] {
                "Failing " (up_to(failing, COUNTED))
            }
        }
        form.search method="get" action=(HERE) role="search" {
            @if wanted.failing { input type="hidden" name="state" value=(FAILING); }
            (checked(asked, &refused, "name", "Name of the e-shop", "search"))
            (rows(asked, &refused))
            button.primary type="submit" { "Search" }
            a.button href=(HERE) { "Clear" }
        }
        (table(&shown, visit.now()))
        (pager(eshops.len(), first.as_deref(), next.as_deref(), None))
    };
    let page = visit.page(Section::Syncs, "Syncs", &content);
    Ok(if refused.is_empty() { page } else { (StatusCode::BAD_REQUEST, page).into_response() })
}

fn wanted(asked: &Asked) -> Result<Filter, Problem> {
    Ok(Filter {
        named: asked.text("name")?,
        only: None,
        failing: asked.among("state", |word| (word == FAILING).then_some(()))?.is_some(),
        after: asked.id("after")?,
        size: size(asked)?,
    })
}

pub(super) fn table(runs: &[&Run], now: DateTime<Utc>) -> Markup {
    if runs.is_empty() {
        return empty("No e-shop matches.", "Try another name. E-shops are created with the API.");
    }
    html! {
        div.scroll tabindex="0" role="region" aria-label="Syncs, table" {
            table.list.stack {
                thead { tr {
                    th { "E-shop" } th { "Sync" } th { "State" } th { "Partner" } th { "Last run" } th { "Next run" }
                    th.number { "Refused" } th.number { "Items" } th.number { "Changed" } th.number { "Took" }
                } }
                tbody { @for run in runs { (row(run, now)) } }
            }
        }
    }
}

fn row(run: &Run, now: DateTime<Utc>) -> Markup {
    let count = |number: Option<i32>| number.map_or_else(none, |n| html! { (self::number(n)) });
    let refused = run.failed.unwrap_or(0);
    html! {
        tr {
            td.name {
                strong { (eshop(run.eshop, &run.name)) } " " span.muted { (run.organisation) }
                @if !run.active { " " (badge(Tone::Quiet, "inactive")) }
            }
            @match (&run.kind, run.job) {
                (Some(kind), Some(job)) => td { a href={"/console/job/" (job)} { (kind) } },
                (Some(kind), None) => td { (kind) " " span.muted { "no recent run" } },
                _ => td { span.muted { "no recent run" } },
            }
            td { @match run.state { Some(state) => (job_state(state, run.total.unwrap_or(0), refused)), None => (none()) } }
            td.text { @if let Some(error) = &run.error { span.refused { (error) } } }
            td data-label="Last run" { (time_or_none(run.created_at, now)) }
            td data-label="Next run" { (next(run, now)) }
            td.number data-label="Refused" { @if refused > 0 { span.refused { (number(refused)) } } @else { (count(run.failed)) } }
            td.number data-label="Items" { (count(run.total)) }
            td.number data-label="Changed" { (count(run.changed)) }
            td.number data-label="Took" { (took(run.created_at, run.finished_at)) }
        }
    }
}

/// When the next sync runs: by its schedule, or on demand.
fn next(run: &Run, now: DateTime<Utc>) -> Markup {
    match run.next_run_at {
        Some(at) if at <= now => html! { "due" },
        Some(at) => time(at, now),
        None => html! { span.muted { "on demand" } },
    }
}
