//! Wms, by how the hand-over of each is.

use std::collections::HashMap;

use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};
use http::StatusCode;
use longshore_http::extract::{Failure, permit};
use longshore_kernel::ids::WmsId;
use longshore_kernel::problem::Problem;
use longshore_operate::order::attention::WAITING;
use longshore_operate::wms::{self, Course, Filter, PAGE, Refused, Wms};
use maud::{Markup, html};

use super::lag;
use crate::form::{Asked, Refused as Wrong};
use crate::layout::Section;
use crate::piece::{checked, empty, number, options, organisation, pager, state, time, up_to};
use crate::visit::Visit;

const HERE: &str = "/console/wms";

/// Reasons of refusals that a line names.
const NAMED: usize = 2;

/// `GET /console/wms`.
pub(crate) async fn show(visit: Visit<permit::ReadWmsSettings>) -> Result<Response, Failure> {
    let asked = &visit.asked;
    let (wanted, wrong) = Wrong::of(wanted(asked))?;
    let mut found =
        if wrong.is_empty() { wms::page(visit.db(), visit.scope(), &wanted).await? } else { Vec::new() };
    let is_more = found.len() > PAGE;
    found.truncate(PAGE);
    let ids: Vec<WmsId> = found.iter().map(|wms| wms.id).collect();
    let mut reasons: HashMap<WmsId, Vec<Refused>> = HashMap::new();
    for reason in wms::refused(visit.db(), &ids).await? {
        reasons.entry(reason.wms).or_default().push(reason);
    }
    let first = asked.get("after").map(|_| asked.address(HERE, &["after"], &[]));
    let last = found.last().map(|wms| wms.id.to_string()).filter(|_| is_more);
    let next = last.map(|id| asked.address(HERE, &["after"], &[("after", &id)]));
    let states = [("", "any state")].into_iter().chain(Course::WORDS.iter().map(|word| (*word, *word)));
    let content = html! {
        header.title {
            h1 { "Warehouses" }
            div.buttons { a.button href="/console/preference" { "Carrier preferences" } }
        }
        p.muted { "Each wms, and how orders are handed over to the system of its warehouse." }
        form.search method="get" action=(HERE) role="search" {
            (checked(asked, &wrong, "text", "Wms, organisation or address", "search"))
            (options(asked, &wrong, "state", "State", states))
            button.primary type="submit" { "Search" }
            a.button href=(HERE) { "Clear" }
        }
        (table(&found, &reasons, visit.now()))
        (pager(found.len(), first.as_deref(), next.as_deref(), None))
    };
    let page = visit.page(Section::Warehouses, "Warehouses", &content);
    Ok(if wrong.is_empty() { page } else { (StatusCode::BAD_REQUEST, page).into_response() })
}

fn wanted(asked: &Asked) -> Result<Filter, Problem> {
    Ok(Filter {
        course: asked.among("state", |word| word.parse().ok())?,
        text: asked.text("text")?,
        after: asked.id("after")?,
    })
}

fn table(found: &[Wms], reasons: &HashMap<WmsId, Vec<Refused>>, now: DateTime<Utc>) -> Markup {
    if found.is_empty() {
        return empty("No wms matches.", "Wms are created with the API.");
    }
    html! {
        div.scroll tabindex="0" role="region" aria-label="Warehouses, table" {
            table.list.stack {
                thead { tr {
                    th { "Wms" } th { "State" } th { "Why" } th.number { "Waiting" } th { "Lag" } th { "Refused" }
                    th.number { "Cancels unanswered" } th { "Organisation" }
                } }
                tbody { @for wms in found { (row(wms, reasons.get(&wms.id).map_or(&[], Vec::as_slice), now)) } }
            }
        }
    }
}

fn row(wms: &Wms, reasons: &[Refused], now: DateTime<Utc>) -> Markup {
    html! {
        tr {
            td.name { a href={(HERE) "/" (wms.id)} { strong { (wms.name) } } }
            td { (state(wms.course)) }
            td.text { (why(wms, now)) }
            td.number data-label="Waiting" { (up_to(wms.pending + wms.called, WAITING)) }
            td data-label="Lag" { (lag(wms, now)) }
            td.text data-label="Refused" {
                @for (place, reason) in reasons.iter().take(NAMED).enumerate() {
                    @if place > 0 { ", " }
                    (number(reason.orders)) " " code { (reason.code) }
                }
                @if reasons.len() > NAMED { " and " (reasons.len() - NAMED) " more reasons" }
            }
            td.number data-label="Cancels unanswered" {
                @match wms.first_unanswered {
                    Some(first) => a href={"/console/order/" (first)} { (up_to(wms.unanswered, WAITING)) },
                    None => "0",
                }
            }
            td.name data-label="Organisation" { (organisation(wms.organisation_id, &wms.organisation)) }
        }
    }
}

fn why(wms: &Wms, now: DateTime<Utc>) -> Markup {
    html! {
        @match (wms.course, wms.failing_since) {
            (Course::Failing, Some(since)) => {
                "Failing since " (time(since, now))
                @if let Some(error) = &wms.error { ": " (error) }
                @if let Some(probe) = wms.probe_at.filter(|probe| *probe > now) { "; next probe " (time(probe, now)) }
                @if wms.paused { "; paused" }
            },
            _ => @match wms.held_until.filter(|until| *until > now && wms.course == Course::Healthy) {
                Some(until) => { "It asked to be left alone; called again " (time(until, now)) },
                None => @if wms.called > 0 && !wms.course.is_called() { (up_to(wms.called, WAITING)) " are handed over and go on by hand" },
            },
        }
    }
}
