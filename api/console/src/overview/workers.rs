//! The workers and their work, also those that died lately.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use futures::future::join_all;
use longshore_domain::job::inspection;
use longshore_domain::webhook::health;
use longshore_http::extract::permit;
use longshore_kernel::ids::{JobId, WebhookId};
use longshore_kernel::problem::Problem;
use longshore_kernel::queue::{Beat, Queue, Reader, Worker, grouped};
use maud::{Markup, html};

use super::PATIENCE;
use crate::piece::{Tone, badge, empty, none, number, plain, seconds, time};
use crate::visit::Visit;
use crate::worker;

/// Names of the ids on the queues, as far as the visitor may see them.
struct Known {
    jobs: HashMap<JobId, String>,
    webhooks: HashMap<WebhookId, String>,
}

pub(super) async fn read(visit: &Visit<permit::ReadQueues>) -> Result<Markup, Problem> {
    let asked =
        Queue::ALL.map(|queue| tokio::time::timeout(PATIENCE, visit.services().queues.readers(queue)));
    let readers: Vec<_> = join_all(asked).await.into_iter().map(|read| read.ok()?.ok()).collect();
    if readers.iter().any(Option::is_none) {
        return Ok(draw(&empty(
            "Redis is away.",
            "The list of workers is not available until Redis is back.",
        )));
    }
    let readers: Vec<Reader> = readers.into_iter().flatten().flatten().collect();
    let entries =
        || readers.iter().flat_map(|reader| reader.first.iter().map(move |entry| (reader.queue, entry)));
    let jobs: Vec<JobId> = entries().filter_map(|(_, entry)| chunk(entry)).map(|(job, _)| job).collect();
    let webhooks: Vec<WebhookId> = entries()
        .filter(|(queue, _)| *queue == Queue::Lane)
        .filter_map(|(_, entry)| WebhookId::parse(entry))
        .collect();
    let (jobs, webhooks) = tokio::try_join!(
        inspection::kinds(visit.db(), visit.scope(), &jobs),
        health::destinations(visit.db(), visit.scope(), &webhooks),
    )?;
    let known = Known { jobs: jobs.into_iter().collect(), webhooks: webhooks.into_iter().collect() };
    let workers = grouped(readers);
    let names: Vec<&str> = workers.iter().map(|worker| worker.name.as_str()).collect();
    let beats = tokio::time::timeout(PATIENCE, visit.services().queues.beats(&names)).await;
    let beats = beats.ok().and_then(Result::ok).unwrap_or_default();
    if workers.is_empty() {
        return Ok(draw(&empty(
            "No workers.",
            "Start a worker. Without one, no jobs are executed and no webhooks are sent.",
        )));
    }
    let beats = beats.into_iter().chain(std::iter::repeat(None));
    let workers: Vec<_> = workers.iter().zip(beats).collect();
    Ok(draw(&table(visit, &workers, &known)))
}

fn draw(content: &Markup) -> Markup {
    html! {
        section aria-labelledby="workers-title" {
            h2 #workers-title { "Workers" }
            (content)
        }
    }
}

fn table<P>(visit: &Visit<P>, workers: &[(&Worker, Option<Beat>)], known: &Known) -> Markup {
    let sees_all = visit.scope().organisations().is_none();
    html! {
        div.scroll tabindex="0" role="region" aria-label="Workers, table" {
            table {
                thead { tr { th { "Process" } th { "State" } th.number { "Memory" } @for queue in Queue::ALL { th { (queue.name()) } } } }
                tbody {
                    @for (worker, beat) in workers {
                        tr {
                            td { @if sees_all { a href=(worker::address(&worker.name)) { code { (worker.name) } } } @else { code { (worker.name) } } }
                            td { (standing(worker, beat.as_ref(), visit.now())) }
                            td.number { @match beat.as_ref().and_then(|beat| beat.memory) { Some(bytes) => (megabytes(bytes)), None => (none()) } }
                            @for queue in Queue::ALL {
                                td { (runs(worker.readers.iter().filter(|reader| reader.queue == queue), known)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Whether a worker lives, since when, and its version where that is not the one of this page.
fn standing(worker: &Worker, beat: Option<&Beat>, now: DateTime<Utc>) -> Markup {
    html! {
        @if worker.is_gone() {
            (badge(Tone::Warn, "gone")) " for " (seconds(worker.silent().as_secs_f64()))
        } @else {
            (badge(Tone::Good, "alive"))
        }
        @if let Some(beat) = beat {
            " " span.muted { "started " (time(beat.since, now)) }
            @if beat.version != env!("CARGO_PKG_VERSION") { " " (badge(Tone::Warn, &beat.version)) }
        }
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", number(i64::try_from(bytes / 1_000_000).unwrap_or(i64::MAX)))
}

fn runs<'r>(readers: impl Iterator<Item = &'r Reader>, known: &Known) -> Markup {
    let mut total = 0;
    let mut shown = 0;
    let mut entries = Vec::new();
    for reader in readers {
        total += reader.holds;
        shown += u64::try_from(reader.first.len()).unwrap_or(0);
        entries.extend(reader.first.iter().map(|entry| entry_in_words(reader.queue, entry, known)));
    }
    if total == 0 {
        return none();
    }
    html! {
        ul.runs {
            @for entry in &entries { li { (entry) } }
            @if total > shown { li.muted { "and " (total - shown) " more" } }
        }
    }
}

fn entry_in_words(queue: Queue, entry: &str, known: &Known) -> Markup {
    let foreign = |what: &str| html! { span.muted { (what) " of another organisation" } };
    if let Some((job, number)) = chunk(entry) {
        known.jobs.get(&job).map_or_else(
            || foreign("a job"),
            |kind| html! { a href={"/console/job/" (job)} { (plain(kind)) } " #" (number) },
        )
    } else if queue == Queue::Lane
        && let Some(webhook) = WebhookId::parse(entry)
    {
        known.webhooks.get(&webhook).map_or_else(
            || foreign("a webhook"),
            |destination| html! { a href={"/console/webhook/" (webhook)} { (host(destination)) } },
        )
    } else {
        html! { (entry) }
    }
}

/// The job and the number in the name of a chunk.
fn chunk(entry: &str) -> Option<(JobId, &str)> {
    let (job, number) = entry.split_once(':')?;
    Some((JobId::parse(job)?, number))
}

/// The host of a destination, since the rest is long.
pub(crate) fn host(destination: &str) -> &str {
    let rest = destination.split_once("://").map_or(destination, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or(rest)
}
