//! The audit: who changed what, and when.

use axum::response::Response;
use chrono::{DateTime, Utc};
use longshore_http::extract::{Failure, permit};
use longshore_shared::account::audit::search::{self, Filter, Line, Page, WINDOW};
use longshore_shared::kernel::problem::Problem;
use maud::{Markup, html};

use super::form::Asked;
use super::layout::Section;
use super::piece::{empty, field, fields, json, none, pager, time};
use super::visit::Visit;

const HERE: &str = "/console/audit";

/// `GET /console/audit`.
pub(super) async fn show(visit: Visit<permit::ReadAudit>) -> Result<Response, Failure> {
    let found = search::search(visit.db(), visit.scope(), &wanted(&visit.asked)?).await?;
    let asked = &visit.asked;
    let first = asked.get("after").map(|_| asked.address(HERE, &["after"], &[]));
    let next = found.next.map(|id| asked.address(HERE, &["after"], &[("after", &id.to_string())]));
    let window = found.cut_short.then_some(WINDOW);
    let content = html! {
        h1 { "Audit" }
        (form(asked))
        (table(&found, visit.now()))
        (pager(found.records.len(), first.as_deref(), next.as_deref(), window))
    };
    Ok(visit.page(Section::Audit, "Audit", &content))
}

fn wanted(asked: &Asked) -> Result<Filter, Problem> {
    Ok(Filter {
        organisation: asked.id("organisation")?,
        entity: asked.id("entity")?,
        action: asked.text("action")?,
        actor: asked.text("actor")?,
        request: asked.text("request")?,
        since: asked.moment("since")?,
        until: asked.moment("until")?,
        after: asked.id("after")?,
    })
}

fn form(asked: &Asked) -> Markup {
    let is_narrow =
        ["organisation", "request", "since", "until"].iter().any(|name| asked.get(name).is_some());
    html! {
        form.search method="get" action=(HERE) role="search" {
            (field("action", "Action begins with", "search", asked.get("action")))
            (field("actor", "Who", "search", asked.get("actor")))
            (field("entity", "Entity (id)", "text", asked.get("entity")))
            button.primary type="submit" { "Search" }
            a.button href=(HERE) { "Clear" }
            details open[is_narrow] {
                summary { "More" }
                div {
                    (field("organisation", "Organisation (id)", "text", asked.get("organisation")))
                    (field("request", "Request (id)", "text", asked.get("request")))
                    (field("since", "Since (UTC)", "datetime-local", asked.get("since")))
                    (field("until", "Before (UTC)", "datetime-local", asked.get("until")))
                }
            }
        }
    }
}

fn table(found: &Page, now: DateTime<Utc>) -> Markup {
    if found.records.is_empty() {
        return empty("No record matches.", "Remove a filter, or search an earlier time.");
    }
    html! {
        div.scroll tabindex="0" role="region" aria-label="Audit records, table" {
            table.list.stack {
                thead { tr { th { "When" } th { "Who" } th { "Action" } th { "Changes" } th { "Entity" } th { "Organisation" } } }
                tbody { @for record in &found.records { (row(record, now)) } }
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
            td.text {
                details {
                    summary { (fields(&record.changes)) }
                    (json(&record.changes))
                    @if let Some(request) = &record.request_id { p.muted { "Request " a href={(HERE) "?request=" (request)} { code { (request) } } } }
                    @if let Some(job) = record.job { p.muted { "Job " a href={"/console/job/" (job)} { code { (job) } } } }
                }
            }
            td.name data-label="Entity" { a href={(HERE) "?entity=" (record.entity)} { (record.entity_type) } " " code.id { (record.entity) } }
            td.name data-label="Organisation" { @match &record.organisation { Some(name) => (name), None => (none()) } }
        }
    }
}
