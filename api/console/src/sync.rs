//! The syncs of each e-shop, those whose partner fails first.

use axum::response::Response;
use chrono::{DateTime, Utc};
use futures::FutureExt as _;
use longshore_domain::job::sync_run::{self, COUNTED, Filter, PAGE, Run};
use longshore_http::extract::{Failure, permit};
use longshore_kernel::access::Permission;
use longshore_kernel::ids::EshopId;
use longshore_kernel::problem::Problem;
use maud::{Markup, html};

use super::form::{Asked, OF_PAGE, Refused};
use super::layout::Section;
use super::live::{self, Part, Parts, part};
use super::piece::{
    Tone, Way, badge, checked, counted, empty, eshop, job_state, moment_or_none, none, number, options,
    pager_to, plain, rows, size, sorting, time, took, unreadable, up_to,
};
use super::refresh;
use super::visit::Visit;

const HERE: &str = "/console/sync";
/// The value of `state` for e-shops whose partner fails.
const FAILING: &str = "failing";

/// The orders of the list.
const SORTS: [(&str, &str); 2] = [("", "failing first"), (BY_NAME, "by name")];
/// The value of `sort` for the order by name.
const BY_NAME: &str = "name";

/// `GET /console/sync`.
pub(super) async fn show(visit: Visit<permit::ReadJobs>) -> Result<Response, Failure> {
    let asked = &visit.asked;
    let (wanted, refused) = Refused::of(wanted(asked))?;
    let [states, list] = parts(&visit, refused.is_empty().then_some(&wanted)).await?;
    let content = html! {
        header.title {
            h1 { "Syncs by e-shop" }
            @if visit.can(Permission::ReadSettings) { div.buttons { a.button href="/console/schedule" { "Schedules" } } }
            (refresh::choice(asked, HERE))
        }
        p.muted { "Latest and next sync of every e-shop." }
        (part(&states))
        form.search method="get" action=(HERE) role="search" {
            @if wanted.failing { input type="hidden" name="state" value=(FAILING); }
            (checked(asked, &refused, "name", "Name of the e-shop", "search"))
            (options(asked, &refused, "sort", "Order", SORTS))
            (rows(asked, &refused))
            button.primary type="submit" { "Search" }
            a.button href=(HERE) { "Clear" }
        }
        (part(&list))
    };
    Ok(visit.list_page(Section::Syncs, "Syncs", HERE, &refused, &content))
}

/// `GET /console/sync/live`.
pub(super) async fn follow(visit: Visit<permit::ReadJobs>) -> Response {
    live::stream(visit, |visit| refreshed(visit).boxed())
}

async fn refreshed(visit: &Visit<permit::ReadJobs>) -> Result<Parts, Problem> {
    let wanted = wanted(&visit.asked)?;
    Ok(parts(visit, Some(&wanted)).await?.into())
}

/// How many e-shops fail, and the syncs of those that are wanted.
async fn parts(visit: &Visit<permit::ReadJobs>, wanted: Option<&Filter>) -> Result<[Part; 2], Problem> {
    let (db, scope, asked) = (visit.db(), visit.scope(), &visit.asked);
    let (runs, failing) = tokio::try_join!(
        async {
            match wanted {
                Some(wanted) => Ok(Some(sync_run::page(db, scope, wanted).await?)),
                None => Ok(None),
            }
        },
        sync_run::failing(db, scope),
    )?;
    let list = match (&runs, wanted) {
        (Some(runs), Some(wanted)) => list(visit, wanted, runs),
        _ => unreadable(),
    };
    let only_failing = wanted.is_some_and(|wanted| wanted.failing);
    let without: Vec<&str> = OF_PAGE.into_iter().chain(["state"]).collect();
    let states = html! {
        nav.switch aria-label="By state" {
            a href=(asked.address(HERE, &without, &[])) aria-current=[(!only_failing).then_some("true")] { "All" }
            a href=(asked.address(HERE, &without, &[("state", FAILING)])) aria-current=[only_failing.then_some("true")] {
                "Failing " (up_to(failing, COUNTED))
            }
        }
    };
    Ok([("states".into(), states), ("list".into(), list)])
}

fn list(visit: &Visit<permit::ReadJobs>, wanted: &Filter, runs: &[Run]) -> Markup {
    let asked = &visit.asked;
    let mut eshops: Vec<EshopId> = runs.iter().map(|run| run.eshop).collect();
    eshops.dedup();
    let size = wanted.size.unwrap_or(PAGE);
    let is_more = eshops.len() > size;
    eshops.truncate(size);
    let last = eshops.last().copied().filter(|_| is_more);
    let shown: Vec<_> = runs.iter().filter(|run| eshops.contains(&run.eshop)).collect();
    let count = counted(i64::try_from(eshops.len()).unwrap_or(i64::MAX), "e-shop", "e-shops");
    let first = asked.get("after").map(|_| asked.address(HERE, &OF_PAGE, &[]));
    let next = last.map(|id| asked.address(HERE, &OF_PAGE, &[("after", &id.to_string())]));
    html! {
        (table(&shown, Some(asked), visit.now()))
        (pager_to(Way::Further, count, first.as_deref(), next.as_deref(), None))
    }
}

fn wanted(asked: &Asked) -> Result<Filter, Problem> {
    Ok(Filter {
        named: asked.text("name")?,
        only: None,
        failing: asked.among("state", |word| (word == FAILING).then_some(()))?.is_some(),
        after: asked.id("after")?,
        by_name: asked.among("sort", |word| (word == BY_NAME).then_some(()))?.is_some(),
        size: size(asked)?,
    })
}

/// The syncs; sorted by the heads of columns on the page of the list.
pub(super) fn table(runs: &[&Run], sorted: Option<&Asked>, now: DateTime<Utc>) -> Markup {
    let head = |label: &str, order: (&str, bool)| {
        let plain = || html! { th { (label) } };
        sorted.map_or_else(plain, |asked| sorting(asked, HERE, label, &[order]))
    };
    if runs.is_empty() {
        return empty("No e-shop matches.", "Try another name. E-shops are created with the API.");
    }
    html! {
        div.scroll tabindex="0" role="region" aria-label="Syncs, table" {
            table.list.stack {
                thead { tr {
                    (head("E-shop", (BY_NAME, true))) th { "Sync" } th { "State" } (head("Error", ("", true))) th { "Last run" } th { "Next run" }
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
                (Some(kind), Some(job)) => td { a href={"/console/job/" (job)} { (plain(kind)) } @if !run.calls_partner { " " span.muted { "pushed" } } },
                (Some(kind), None) => td { (plain(kind)) " " span.muted { "no recent run" } },
                _ => td { span.muted { "no recent run" } },
            }
            td { @match run.state { Some(state) => (job_state(state, run.total.unwrap_or(0), refused, run.withheld.unwrap_or(0))), None => (none()) } }
            td.text { @if let Some(error) = &run.error { span.refused { (error) } } }
            td data-label="Last run" { (moment_or_none(run.created_at, now)) }
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
        None if run.calls_partner || run.kind.is_none() => html! { span.muted { "on demand" } },
        None => none(),
    }
}
