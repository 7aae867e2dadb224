//! The workers of a period: what each did, and the memory that it used.

use axum::response::Response;
use longshore_http::extract::{Failure, Segment, permit};
use longshore_kernel::problem::Problem;
use longshore_operate::course::{OfWorker, Runs, SHOWN, by_worker, of_worker};
use maud::{Markup, html};
use url::form_urlencoded::byte_serialize;

use super::chart::{Unit, spark};
use super::course::{self, float, megabytes};
use super::layout::Section;
use super::piece::{empty, number, time, up_to};
use super::visit::Visit;

const HERE: &str = "/console/worker";

/// The page of a worker.
pub(super) fn address(name: &str) -> String {
    // a path has no `+` for a space
    format!("{HERE}/{}", byte_serialize(name.as_bytes()).collect::<String>().replace('+', "%20"))
}

/// `GET /console/worker`.
pub(super) async fn show(visit: Visit<permit::ReadQueues>) -> Result<Response, Failure> {
    let asked = &visit.asked;
    let found = by_worker(visit.db(), visit.scope(), course::span(asked)?).await?;
    let sees_all = visit.scope().organisations().is_none();
    let rows = html! {
        @if !sees_all {
            p.muted { "Workers work for all organisations, and are shown to those who see all of them." }
        } @else if found.workers.is_empty() {
            (empty("No worker in this period.", "Start a worker, or choose a longer period."))
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Workers of the period, table" {
                table.stack {
                    thead { tr {
                        th { "Process" } th { "Ended jobs" } th.number { "Jobs" } th.number { "Failed" }
                        th { "Calls to destinations" } th.number { "Calls" } th.number { "Failed" }
                        th { "Memory" } th.number { "Most" } th { "Last seen" }
                    } }
                    tbody { @for worker in &found.workers { (row(&visit, worker)) } }
                }
            }
        }
    };
    let count = i64::try_from(found.workers.len()).map_err(Problem::internal)?;
    let title = html! { "Activity of " (up_to(count, SHOWN)) " workers" };
    let content = html! {
        p.trail { a href="/console/queue" { "Queues" } }
        h1 { "Workers" }
        p.muted { "The workers that were there in the period, the last ones first. The " a href="/console#workers-title" { "overview" } " shows what they do now." }
        (course::section(asked, HERE, found.steps.span, &title, &rows))
    };
    Ok(visit.page(Section::Queues, "Workers", &content))
}

fn row<P>(visit: &Visit<P>, worker: &OfWorker) -> Markup {
    let address = visit.asked.address(&address(&worker.name), &["done", "count"], &[]);
    let memory = megabytes(worker);
    let most = memory.iter().copied().flatten().reduce(f64::max);
    html! {
        tr {
            td { a href=(address) { code { (worker.name) } } }
            (done(&worker.jobs, "Jobs"))
            (done(&worker.calls, "Calls"))
            td.course { (spark("median", &memory)) }
            td.number data-label="Memory" { @if let Some(most) = most { (Unit::Megabytes.write(most)) } }
            td data-label="Last seen" { (time(worker.last, visit.now())) }
        }
    }
}

/// The course of runs, how many there were, and how many of them failed.
fn done(runs: &[Runs], name: &str) -> Markup {
    let (all, bad) =
        runs.iter().fold((0, 0), |(all, bad), step| (all + step.good + step.bad, bad + step.bad));
    let course: Vec<_> = runs.iter().map(|step| Some(float(step.good + step.bad))).collect();
    html! {
        td.course { (spark("good", &course)) }
        td.number data-label=(name) { (number(all)) }
        td.number.refused[bad > 0] data-label="Failed" { (number(bad)) }
    }
}

/// `GET /console/worker/{name}`.
pub(super) async fn show_one(
    Segment(name): Segment,
    visit: Visit<permit::ReadQueues>,
) -> Result<Response, Failure> {
    let asked = &visit.asked;
    let here = address(&name);
    let found = of_worker(visit.db(), visit.scope(), &name, course::span(asked)?).await?;
    let content = html! {
        p.trail { a href="/console/queue" { "Queues" } " / " a href=(HERE) { "Workers" } }
        h1.address { (name) }
        @for worker in &found.workers {
            p.muted { "Last seen " (time(worker.last, visit.now())) "." }
            (course::of_worker(asked, &here, &found, worker))
        }
        (course::script())
    };
    Ok(visit.page(Section::Queues, &format!("Worker {name}"), &content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_of_a_worker_has_a_page() {
        assert_eq!(address("host-7"), "/console/worker/host-7");
        assert_eq!(address("a b/c?d-7"), "/console/worker/a%20b%2Fc%3Fd-7");
    }
}
