//! The audit: who changed what, and when. What people did comes first; what a job did to its items is one line.

use std::borrow::Cow;

use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};
use http::StatusCode;
use longshore_domain::account::audit::search::{self, Batch, Entry, Filter, Line, Page, WINDOW, Whose};
use longshore_http::extract::{Failure, permit};
use longshore_kernel::noun::noun;
use longshore_kernel::problem::Problem;
use longshore_operate::named::{self, Kind};
use maud::{Markup, html};

use super::address;
use super::form::{Asked, Refused};
use super::layout::Section;
use super::piece::{
    self, checked, counted, empty, eshop, fields, json, none, organisation, pager, plain, suggested, time,
    unreadable,
};
use super::visit::Visit;

const HERE: &str = "/console/audit";
/// What is shown with everything that was done.
const NARROW: [&str; 4] = ["entity", "request", "job", "by"];
/// The value of `whose` for everything.
const ALL: &str = "all";

/// `GET /console/audit`.
pub(super) async fn show(visit: Visit<permit::ReadAudit>) -> Result<Response, Failure> {
    let asked = &visit.asked;
    let (wanted, refused) = Refused::of(wanted(&visit).await)?;
    let (organisations, actors) = tokio::try_join!(
        named::suggestions(visit.db(), visit.scope(), Kind::Organisation),
        named::suggestions(visit.db(), visit.scope(), Kind::Actor),
    )?;
    let found = if refused.is_empty() {
        search::search(visit.db(), visit.scope(), &wanted).await?
    } else {
        Page::default()
    };
    let content = html! {
        h1 { "Audit" }
        (whose(asked, wanted.whose))
        (form(asked, &refused, &organisations, &actors))
        @if let Some(account) = wanted.by {
            p.muted { "What this account or token did. " a href={(HERE) "?entity=" (account)} { "What was done to it" } "." }
        }
        @if refused.is_empty() {
            (table(&found, wanted.whose, visit.now()))
            (pages(asked, &found))
            @if found.cut_short && wanted.actor.is_some() && is_wide(asked) { (people_only(asked)) }
        } @else {
            (unreadable())
        }
    };
    let page = visit.page(Section::Audit, "Audit", &content);
    Ok(if refused.is_empty() { page } else { (StatusCode::BAD_REQUEST, page).into_response() })
}

async fn wanted(visit: &Visit<permit::ReadAudit>) -> Result<Filter, Problem> {
    let asked = &visit.asked;
    let organisation = visit.named(asked, Kind::Organisation, "organisation").await?;
    let entity = visit.thing(asked, "entity").await?;
    let by = visit.named(asked, Kind::Actor, "by").await?;
    Ok(Filter {
        whose: if is_all(asked) { Whose::All } else { Whose::People },
        organisation,
        entity,
        action: asked.text("action")?,
        actor: asked.text("actor")?,
        by,
        request: asked.text("request")?,
        job: asked.id("job")?,
        since: asked.moment("since")?,
        until: asked.moment("until")?,
        after: asked.among("after", |text| text.parse().ok())?,
    })
}

/// Whether everything is asked for: a thing, a request, a job and an actor are shown with all that was done.
fn is_all(asked: &Asked) -> bool {
    asked.get("whose") == Some(ALL) || NARROW.iter().any(|name| asked.get(name).is_some())
}

/// Whether everything is asked for, and none of what [`NARROW`] has.
fn is_wide(asked: &Asked) -> bool {
    is_all(asked) && NARROW.iter().all(|name| asked.get(name).is_none())
}

/// Of everything, the name of the actor is compared record by record; of what people did, there are fewer.
fn people_only(asked: &Asked) -> Markup {
    let people = asked.address(HERE, &["whose", "after"], &[]);
    html! { p.muted { "This search also reads the records of programs, and ended at its limit: " a href=(people) { "search what people did" } "." } }
}

/// The toggle between people and everything.
fn whose(asked: &Asked, whose: Whose) -> Markup {
    let without: Vec<&str> = ["whose", "after"].into_iter().chain(NARROW).collect();
    let current = |this: Whose| (whose == this).then_some("true");
    html! {
        nav.switch aria-label="Whose records" {
            a href=(asked.address(HERE, &without, &[])) aria-current=[current(Whose::People)] { "People" }
            a href=(asked.address(HERE, &["whose", "after"], &[("whose", ALL)])) aria-current=[current(Whose::All)] { "Everything" }
        }
    }
}

fn form(asked: &Asked, refused: &Refused, organisations: &[String], actors: &[String]) -> Markup {
    let more = ["organisation", "since", "until"];
    let is_narrow = more.iter().chain(&NARROW).any(|name| asked.get(name).is_some());
    html! {
        form.search method="get" action=(HERE) role="search" aria-label="Audit" {
            @if asked.get("whose") == Some(ALL) { input type="hidden" name="whose" value=(ALL); }
            (checked(asked, refused, "action", "Action begins with", "search"))
            (checked(asked, refused, "actor", "Who", "search"))
            button.primary type="submit" { "Search" }
            a.button href=(HERE) { "Clear" }
            details open[is_narrow] {
                summary { "More" }
                div {
                    (checked(asked, refused, "since", "Since (UTC)", "datetime-local"))
                    (checked(asked, refused, "until", "Before (UTC)", "datetime-local"))
                    (checked(asked, refused, "entity", "Changed record (SKU, number, name or id)", "text"))
                    (suggested(asked, refused, "organisation", "Organisation (name or id)", organisations))
                    (checked(asked, refused, "request", "Request (id)", "text"))
                    (checked(asked, refused, "job", "Job (id)", "text"))
                    (suggested(asked, refused, "by", "Account or token (name or id)", actors))
                }
            }
        }
    }
}

fn table(found: &Page, whose: Whose, now: DateTime<Utc>) -> Markup {
    if found.entries.is_empty() {
        return match whose {
            Whose::People => empty(
                "No record of a person matches.",
                "Remove a filter, or show what programs did: Everything.",
            ),
            Whose::All => empty("No record matches.", "Remove a filter, or search an earlier time."),
        };
    }
    html! {
        div.scroll tabindex="0" role="region" aria-label="Audit records, table" {
            table.list.stack {
                thead { tr { th { "When" } th { "Who" } th { "Action" } th { "What" } th { "Changes" } th { "Organisation" } } }
                tbody {
                    @for entry in &found.entries {
                        @match entry {
                            Entry::Record(record) => (row(record, now)),
                            Entry::Job(job) => (batch(job, now)),
                        }
                    }
                }
            }
        }
    }
}

fn row(record: &Line, now: DateTime<Utc>) -> Markup {
    html! {
        tr {
            td { (time(record.at, now)) }
            td.name { (record.actor) " " span.muted { (record.actor_type) } }
            td { strong { (record.action) } }
            td.name data-label="What" {
                span.muted { (noun(&record.entity_type)) } " "
                @match &record.name {
                    Some(name) => a href=(address::of_record(&record.entity_type, record.entity)) { (name) },
                    None => (piece::id(record.entity)),
                }
            }
            td.text {
                details {
                    summary { (fields(&record.changes)) }
                    (json(&record.changes))
                    p.muted { a href={(HERE) "?entity=" (record.entity)} { "All records of it" } " " (piece::id(record.entity)) }
                    @if let Some(by) = record.actor_id { p.muted { a href={(HERE) "?by=" (by)} { "All records by " (record.actor) } " " (piece::id(by)) } }
                    @if let Some(request) = &record.request_id { p.muted { a href={(HERE) "?" (request_query(request))} { "Request" } " " (piece::id(request)) } }
                    @if let Some(job) = record.job { p.muted { a href={"/console/job/" (job)} { "Job" } " " (piece::id(job)) } }
                }
            }
            td.name data-label="Organisation" { @match (record.organisation_id, &record.organisation) {
                (Some(id), Some(name)) => (organisation(id, name)),
                _ => (none()),
            } }
        }
    }
}

fn request_query(request: &str) -> String {
    url::form_urlencoded::Serializer::new(String::new()).append_pair("request", request).finish()
}

/// The records of a job in one line.
fn batch(job: &Batch, now: DateTime<Utc>) -> Markup {
    let one = match job.kind.split('.').next() {
        Some(name @ ("product" | "stock" | "expedition")) => noun(name),
        _ => Cow::Borrowed("record"),
    };
    let many = format!("{one}s");
    html! {
        tr {
            td { (time(job.at, now)) }
            td.name { (job.actor) " " span.muted { (job.actor_type) } }
            td { strong { (plain(&job.kind)) } }
            td.name data-label="What" { a href={(HERE) "?job=" (job.id)} { (counted(i64::from(job.changed), &one, &many)) } }
            td.text { a href={"/console/job/" (job.id)} { "Job" } }
            td.name data-label="Organisation" { @match (job.eshop_id, &job.eshop, job.organisation_id, &job.organisation) {
                (Some(id), Some(name), ..) => (eshop(id, name)),
                (_, _, Some(id), Some(name)) => (organisation(id, name)),
                _ => (none()),
            } }
        }
    }
}

fn pages(asked: &Asked, found: &Page) -> Markup {
    let first = asked.get("after").map(|_| asked.address(HERE, &["after"], &[]));
    let next = found.next.map(|place| asked.address(HERE, &["after"], &[("after", &place.to_string())]));
    let window = found.cut_short.then_some(WINDOW);
    pager(found.entries.len(), first.as_deref(), next.as_deref(), window)
}
