//! Readers of events: the list, and where one of them is.

pub(crate) mod edit;

use axum::response::Response;
use chrono::{DateTime, TimeDelta, Utc};
use longshore_domain::list::fields::event_reader::EVENT_READER;
use longshore_domain::webhook::reader::rate;
use longshore_http::extract::{Failure, Id, permit};
use longshore_kernel::access::Permission;
use longshore_kernel::ids::{EshopId, EventReaderId, OrganisationId};
use longshore_kernel::problem::Problem;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};

use super::choice;
use crate::form::Asked;
use crate::layout::Section;
use crate::listed::{self, Listed, Related};
use crate::piece::{
    self, Tone, badge, empty, full_time, moment_or_none, none, organisation, source, time_or_none, took,
};
use crate::visit::Visit;

pub(crate) const HERE: &str = "/console/reader";

/// What pages show of a reader.
const SELECT: [&str; 13] = [
    "id",
    "organisation",
    "eshop",
    "name",
    "event",
    "events",
    "criteria",
    "select",
    "starting",
    "positionAt",
    "readTo",
    "readAt",
    "createdAt",
];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Reader {
    id: EventReaderId,
    organisation: Related<OrganisationId>,
    eshop: Option<Related<EshopId>>,
    name: String,
    event: Option<String>,
    events: Vec<String>,
    criteria: Option<Value>,
    select: Option<Vec<String>>,
    starting: bool,
    position_at: Option<DateTime<Utc>>,
    read_to: Option<DateTime<Utc>>,
    read_at: Option<DateTime<Utc>>,
    created_at: DateTime<Utc>,
}

impl Reader {
    /// A link to the e-shop or the organisation whose events it reads.
    fn whose(&self) -> Markup {
        let eshop = self.eshop.as_ref();
        let name = eshop.map_or(&self.organisation.name, |eshop| &eshop.name);
        source(eshop.map(|eshop| eshop.id), self.organisation.id, name.as_deref().unwrap_or("–"))
    }

    /// At the end of the events, it is noted once a minute how far one has read.
    fn is_behind(&self, now: DateTime<Utc>) -> bool {
        self.read_to.is_some_and(|at| now - at > TimeDelta::minutes(2))
    }

    fn event(&self) -> String {
        self.event.clone().unwrap_or_else(|| self.events.join(", "))
    }
}

/// `GET /console/reader`.
pub(crate) async fn list(visit: Visit<permit::ReadReaders>) -> Result<Response, Failure> {
    let wanted = listed::wanted(&visit.asked, &EVENT_READER, &SELECT, &json!({}))?;
    let found: Listed<Reader> = Listed::find(&visit, &wanted).await?;
    let content = html! {
        p.trail { a href="/console/webhook" { "Webhooks" } " / readers" }
        h1 { "Readers" }
        p.muted { "Programs that cannot be called read events by them. One that nobody has read for 30 days is removed." }
        (table(&found.results, visit.now()))
        (found.pages(&visit, HERE))
    };
    Ok(visit.page(Section::Webhooks, "Readers", &content))
}

/// Those that match; nothing where the visitor may not use readers. An organisation has fewer than a page.
pub(crate) async fn of<P>(visit: &Visit<P>, criteria: &Value) -> Result<Option<Vec<Reader>>, Problem> {
    if !visit.can(Permission::ReadReaders) {
        return Ok(None);
    }
    let wanted = listed::wanted(&Asked::default(), &EVENT_READER, &SELECT, criteria)?;
    Ok(Some(Listed::find(visit, &wanted).await?.results))
}

async fn find<P>(visit: &Visit<P>, id: EventReaderId) -> Result<Reader, Problem> {
    let found = of(visit, &json!({"id": {"eq": id}})).await?;
    found.into_iter().flatten().next().ok_or_else(|| Problem::not_found(EVENT_READER.name))
}

/// The readers of an e-shop, or those of an organisation itself: `page` is its own.
pub(crate) fn section(visit: &Visit<permit::Read>, page: &str, title: &str, readers: &[Reader]) -> Markup {
    html! {
        section aria-labelledby="readers-title" {
            header.title {
                h2 #readers-title { (title) }
                @if visit.can(Permission::WriteReaders) { a.button href={(page) "/reader"} { "New reader" } }
            }
            (table(readers, visit.now()))
        }
    }
}

fn table(readers: &[Reader], now: DateTime<Utc>) -> Markup {
    if readers.is_empty() {
        return empty("No reader.", "A program that cannot be called reads events by one.");
    }
    html! {
        div.scroll tabindex="0" role="region" aria-label="Readers, table" {
            table.list.stack {
                thead { tr { th { "Name" } th { "E-shop" } th { "Event" } th { "Read up to" } th { "Last read" } } }
                tbody { @for reader in readers { (row(reader, now)) } }
            }
        }
    }
}

fn row(reader: &Reader, now: DateTime<Utc>) -> Markup {
    html! {
        tr {
            td.name {
                a href={(HERE) "/" (reader.id)} { (reader.name) }
                @if reader.starting { " " (badge(Tone::Busy, "starting")) }
            }
            td.name data-label="E-shop" { (reader.whose()) }
            td.text data-label="Event" { code { (reader.event()) } }
            td data-label="Read up to" { (moment_or_none(reader.read_to, now)) }
            td data-label="Last read" { (moment_or_none(reader.read_at, now)) }
        }
    }
}

/// `GET /console/reader/{id}`.
pub(crate) async fn show(
    Id(id): Id<EventReaderId>,
    visit: Visit<permit::ReadReaders>,
) -> Result<Response, Failure> {
    let found = find(&visit, id).await?;
    let rate = rate(visit.db(), id).await?;
    let now = visit.now();
    let content = html! {
        p.trail { a href="/console/webhook" { "Webhooks" } " / " a href=(HERE) { "Readers" } " / " (found.whose()) }
        header.title {
            h1 { (found.name) }
            (state(&found, now))
            @if visit.can(Permission::WriteReaders) {
                div.buttons {
                    a.button href={(HERE) "/" (id) "/edit"} { "Edit" }
                    a.button.danger href={(HERE) "/" (id) "/delete"} data-ask="" { "Delete" }
                }
            }
        }
        dl.facts {
            div { dt { "Lag" } dd { @match found.read_to {
                Some(at) if found.is_behind(now) => (took(Some(at), Some(now))),
                Some(_) => "none",
                None => (none()),
            } } }
            div { dt { "Rate" } dd { (format!("{rate:.1}")) " events/s" } }
            div { dt { "Last read" } dd { (time_or_none(found.read_at, now)) } }
        }
        dl.details {
            div { dt { "Read up to" } dd { (full_or_none(found.read_to, now)) } }
            div { dt { "Stored position" } dd { (full_or_none(found.position_at, now)) } }
            (choice::details(&found.event(), found.criteria.as_ref(), found.select.as_deref()))
            div { dt { "E-shop" } dd {
                (found.whose())
                @if let (Some(_), Some(name)) = (&found.eshop, &found.organisation.name) { ", " (organisation(found.organisation.id, name)) }
            } }
            div { dt { "Created" } dd { (full_time(found.created_at, now)) } }
            div { dt { "Id" } dd { (piece::id(id)) } }
        }
    };
    Ok(visit.page(Section::Webhooks, &format!("Reader {}", found.name), &content))
}

fn state(found: &Reader, now: DateTime<Utc>) -> Markup {
    if found.starting {
        badge(Tone::Busy, "starting")
    } else if found.read_to.is_none() {
        badge(Tone::Quiet, "never read")
    } else if found.is_behind(now) {
        // it may read once an hour: that is nobody's concern
        badge(Tone::Busy, "behind")
    } else {
        badge(Tone::Good, "up to date")
    }
}

fn full_or_none(at: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Markup {
    at.map_or_else(none, |at| full_time(at, now))
}
