//! An organisation: its e-shops, those whose partner or webhook fails first, and what happened in it.

use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};
use http::StatusCode;
use longshore_domain::webhook::health::{self, Line};
use longshore_http::extract::{Failure, Id, permit};
use longshore_kernel::access::{Permission, Scope};
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::problem::Problem;
use longshore_operate::attention;
use longshore_operate::organisation::{self, COUNTED, ESHOPS, Eshop, Organisation};
use longshore_operate::timeline::of_organisation;
use maud::{Markup, html};
use serde_json::json;

use super::eshop::wrong::{Wrong, list, narrowed, sees};
use super::form::Refused;
use super::layout::Section;
use super::piece::{self, Tone, badge, empty, full_time, none, number, time, up_to};
use super::visit::Visit;
use super::webhook::reader;
use super::{timeline, webhook};

/// `GET /console/organisation/{id}`.
pub(super) async fn show(
    Id(id): Id<OrganisationId>,
    visit: Visit<permit::Read>,
) -> Result<Response, Failure> {
    let (db, scope) = (visit.db(), visit.scope());
    let (wanted, refused) = Refused::of(timeline::wanted(&visit))?;
    let found = organisation::find(db, scope, id).await?.ok_or_else(|| Problem::not_found("organisation"))?;
    let itself = match scope.eshop() {
        Some(eshop) => Scope::Eshop { organisation: id, eshop },
        None => Scope::Organisations([id].into()),
    };
    let of_all = health::Filter { source: Some(id.get()), ..health::Filter::default() };
    let of_readers = json!({"organisation": {"eq": id}, "eshop": {"null": true}});
    let can_read = visit.can(Permission::ReadWebhooks);
    let (eshops, lines, past, webhooks, readers) = tokio::try_join!(
        organisation::eshops(db, scope, id),
        attention::within(visit.services(), scope, &itself),
        of_organisation(db, scope, id, &wanted),
        async { if can_read { health::page(db, scope, &of_all).await.map(Some) } else { Ok(None) } },
        reader::of(&visit, &of_readers),
    )?;
    let shown = lines.iter().filter(|line| sees(&visit, line.kind));
    let wrong: Vec<_> =
        shown.map(|line| Wrong::of_line(line, narrowed(&line.page, "organisation", id.get()))).collect();
    let (now, here) = (visit.now(), format!("/console/organisation/{id}"));
    let content = html! {
        (standing(&visit, &found, &eshops, webhooks.as_deref(), now))
        @if !wrong.is_empty() { (list(&wrong, "", now)) }
        (table(&eshops, can_read, now))
        @if let Some(webhooks) = &webhooks { (webhook::list::section(&visit, &here, "Webhooks of the organisation", webhooks, &html! {})) }
        @if let Some(readers) = &readers { (reader::section(&visit, &here, "Readers of the organisation", readers)) }
        (timeline::draw(&visit.asked, &refused, &here, id.get(), &past, now))
    };
    let page = visit.page(Section::Syncs, &found.name, &content);
    Ok(if refused.is_empty() { page } else { (StatusCode::BAD_REQUEST, page).into_response() })
}

fn standing(
    visit: &Visit<permit::Read>,
    found: &Organisation,
    eshops: &[Eshop],
    of_all: Option<&[Line]>,
    now: DateTime<Utc>,
) -> Markup {
    let webhooks = of_all.is_some();
    let unwell = eshops.iter().filter(|eshop| is_unwell(eshop, webhooks)).count();
    html! {
        header.title {
            h1 { (found.name) }
            @if found.active { (badge(Tone::Good, "active")) } @else { (badge(Tone::Quiet, "inactive")) }
            div.buttons {
                @if visit.can(Permission::ReadJobs) { a.button href={"/console/job?organisation=" (found.id)} { "Jobs" } }
                a.button href={"/console/product?organisation=" (found.id)} { "Products" }
                a.button href={"/console/preference?organisation=" (found.id)} { "Carrier preferences" }
                @if visit.can(Permission::ManageTokens) { a.button href={"/console/token?organisation=" (found.id)} { "Access tokens" } }
                @if visit.can(Permission::ReadAudit) { a.button href={"/console/audit?organisation=" (found.id)} { "Audit" } }
            }
        }
        dl.facts {
            div { dt { "E-shops" } dd { (up_to(i64::try_from(eshops.len().min(ESHOPS)).unwrap_or(i64::MAX), i64::try_from(ESHOPS).unwrap_or(i64::MAX))) } }
            div { dt { "E-shops whose partner or webhook fails" } dd { (unwell) } }
            @if visit.can(Permission::ReadJobs) { div { dt { "Jobs open" } dd { (up_to(found.open_jobs, COUNTED)) } } }
            @if let Some(of_all) = of_all { div { dt { "Webhooks" } dd { (number(eshops.iter().map(|eshop| eshop.webhooks).sum::<i64>() + i64::try_from(of_all.len()).unwrap_or_default())) } } }
        }
        dl.details {
            div { dt { "Code" } dd { @match &found.code { Some(code) => (code), None => (none()) } } }
            div { dt { "Country" } dd { (found.country) } }
            div { dt { "Warehouses" } dd { @if found.warehouses.is_empty() { (none()) } @else { (found.warehouses.join(", ")) } } }
            div { dt { "Id" } dd { (piece::id(found.id)) } }
            div { dt { "Created" } dd { (full_time(found.created_at, now)) } }
        }
    }
}

/// Whether something is wrong in an e-shop, as far as the visitor may see it.
fn is_unwell(eshop: &Eshop, webhooks: bool) -> bool {
    eshop.error.is_some() || (webhooks && (eshop.failing > 0 || eshop.disabled > 0))
}

fn table(eshops: &[Eshop], webhooks: bool, now: DateTime<Utc>) -> Markup {
    html! {
        section aria-labelledby="eshops-title" {
            h2 #eshops-title { "E-shops " span.muted { "those whose partner or webhook fails first" } }
            @if eshops.is_empty() {
                (empty("No e-shops.", "E-shops are created with the API."))
            } @else {
                @if eshops.len() > ESHOPS { p.muted { "The first " (ESHOPS) "." } }
                div.scroll tabindex="0" role="region" aria-label="E-shops, table" {
                    table.list.stack {
                        thead { tr {
                            th { "E-shop" } th { "Partner" } th { "Error" }
                            @if webhooks { th.number { "Webhooks" } th.number { "Failing" } th.number { "Disabled" } }
                        } }
                        tbody { @for eshop in eshops.iter().take(ESHOPS) { (row(eshop, webhooks, now)) } }
                    }
                }
            }
        }
    }
}

fn row(eshop: &Eshop, webhooks: bool, now: DateTime<Utc>) -> Markup {
    html! {
        tr {
            td.name { strong { (piece::eshop(eshop.id, &eshop.name)) } @if !eshop.active { " " (badge(Tone::Quiet, "inactive")) } }
            td data-label="Partner" { @match &eshop.integration { Some(name) => (name), None => (none()) } }
            td.text { @if let Some(error) = &eshop.error { span.refused { (error) } @if let Some(at) = eshop.error_at { ", " (time(at, now)) } } }
            @if webhooks {
                td.number data-label="Webhooks" { (number(eshop.webhooks)) }
                td.number data-label="Failing" { @if eshop.failing > 0 { span.refused { (number(eshop.failing)) } } @else { "0" } }
                td.number data-label="Disabled" { @if eshop.disabled > 0 { span.refused { (number(eshop.disabled)) } } @else { "0" } }
            }
        }
    }
}
