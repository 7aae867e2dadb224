//! Webhooks, unhealthy ones first.

use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};
use http::StatusCode;
use longshore_http::extract::{Failure, permit};
use longshore_shared::kernel::access::Permission;
use longshore_shared::kernel::problem::Problem;
use longshore_shared::operate::named;
use longshore_shared::webhook::health::{self, COUNTED, Filter, Health, Line, PAGE};
use maud::{Markup, html};

use crate::form::Refused;
use crate::layout::Section;
use crate::piece::{checked, empty, eshop, options, pager, rows, select, size, state, time, up_to};
use crate::visit::Visit;
use crate::webhook::success;

const HERE: &str = "/console/webhook";

/// `GET /console/webhook`.
pub(crate) async fn show(visit: Visit<permit::ReadWebhooks>) -> Result<Response, Failure> {
    let asked = &visit.asked;
    let (wanted, refused) = Refused::of(wanted(&visit).await)?;
    let (mut webhooks, attention) = tokio::try_join!(
        async {
            if refused.is_empty() {
                health::page(visit.db(), visit.scope(), &wanted).await
            } else {
                Ok(Vec::new())
            }
        },
        health::attention(visit.db(), visit.scope()),
    )?;
    let size = wanted.size.unwrap_or(PAGE);
    let is_more = webhooks.len() > size;
    webhooks.truncate(size);
    let last = webhooks.last().map(|webhook| webhook.id).filter(|_| is_more);
    let first = asked.get("after").map(|_| asked.address(HERE, &["after"], &[]));
    let next = last.map(|id| asked.address(HERE, &["after"], &[("after", &id.to_string())]));
    let may = visit.can(Permission::WriteWebhooks);
    let chosen = |health: Health| (wanted.health == Some(health)).then_some("true");
    let content = html! {
        h1 { "Webhooks" }
        nav.switch aria-label="By health" {
            a href=(HERE) aria-current=[wanted.health.is_none().then_some("true")] { "All" }
            a href={(HERE) "?health=disabled"} aria-current=[chosen(Health::Disabled)] { "Disabled " (up_to(attention.disabled, COUNTED)) }
            a href={(HERE) "?health=failing"} aria-current=[chosen(Health::Failing)] { "Failing " (up_to(attention.failing, COUNTED)) }
            a href={(HERE) "?health=inactive"} aria-current=[chosen(Health::Inactive)] { "Inactive" }
            a href={(HERE) "?health=healthy"} aria-current=[chosen(Health::Healthy)] { "Healthy" }
        }
        form.search method="get" action=(HERE) role="search" {
            (options(asked, &refused, "health", "Health", [("", "any health")].into_iter().chain(Health::WORDS.iter().map(|word| (*word, *word)))))
            (checked(asked, &refused, "text", "Destination or e-shop", "search"))
            (checked(asked, &refused, "eshop", "E-shop (name or id)", "text"))
            (rows(asked, &refused))
            button.primary type="submit" { "Search" }
            a.button href=(HERE) { "Clear" }
        }
        @if may && !webhooks.is_empty() {
            form method="get" action="/console/replay" {
                (table(&webhooks, true, visit.now()))
                div.buttons { button type="submit" name="hours" value="24" { "Replay selected" } }
            }
        } @else {
            (table(&webhooks, false, visit.now()))
        }
        (pager(webhooks.len(), first.as_deref(), next.as_deref(), None))
    };
    let page = visit.page(Section::Webhooks, "Webhooks", &content);
    Ok(if refused.is_empty() { page } else { (StatusCode::BAD_REQUEST, page).into_response() })
}

async fn wanted(visit: &Visit<permit::ReadWebhooks>) -> Result<Filter, Problem> {
    let asked = &visit.asked;
    let eshop = match asked.text("eshop")? {
        Some(text) => Some(named::eshop(visit.db(), visit.scope(), "eshop", &text).await?),
        None => None,
    };
    Ok(Filter {
        health: asked.among("health", |word| word.parse().ok())?,
        text: asked.text("text")?,
        eshop,
        after: asked.id("after")?,
        size: size(asked)?,
    })
}

/// The webhooks, with check boxes where they are chosen for an action.
pub(crate) fn table(webhooks: &[Line], choose: bool, now: DateTime<Utc>) -> Markup {
    if webhooks.is_empty() {
        return empty("No webhook matches.", "E-shops create webhooks with the API.");
    }
    html! {
        div.scroll tabindex="0" role="region" aria-label="Webhooks, table" {
            table.list.stack {
                thead { tr { th { "Destination" } th { "Health" } th.number { "Success" } th { "Why" } th { "Event" } th { "E-shop" } } }
                tbody { @for webhook in webhooks { (row(webhook, choose, now)) } }
            }
        }
    }
}

fn row(webhook: &Line, choose: bool, now: DateTime<Utc>) -> Markup {
    html! {
        tr {
            td.text {
                @if choose { (select("webhooks", webhook.id, &webhook.destination)) }
                a href={(HERE) "/" (webhook.id)} { (webhook.destination) }
            }
            td { (state(webhook.health())) }
            td.number data-label="Success" { (success(webhook.calls, webhook.delivered)) }
            td.text {
                @if let Some(reason) = &webhook.disabled_reason {
                    (reason) @if let Some(at) = webhook.disabled_at { ", " (time(at, now)) }
                } @else if let Some(since) = webhook.failing_since {
                    (webhook.failures) " failures in a row since " (time(since, now))
                    @match webhook.probe_at {
                        _ if !webhook.active => "; resets when it is activated",
                        Some(probe) if webhook.due => { "; next probe " (time(probe, now)) },
                        Some(_) => "; next probe when a delivery is due",
                        None => {},
                    }
                }
            }
            td data-label="Event" { code { (webhook.event) } }
            td.name data-label="E-shop" { (eshop(webhook.eshop_id, &webhook.eshop)) " " span.muted { (webhook.organisation) } }
        }
    }
}
