//! Webhooks, unhealthy ones first.

use axum::response::Response;
use chrono::{DateTime, Utc};
use longshore_http::extract::{Failure, permit};
use longshore_shared::webhook::health::{self, COUNTED, Filter, Health, Line, PAGE};
use maud::{Markup, html};

use crate::layout::Section;
use crate::piece::{choice, empty, eshop, field, pager, state, time, up_to};
use crate::visit::Visit;
use crate::webhook::success;

const HERE: &str = "/console/webhook";

/// `GET /console/webhook`.
pub(crate) async fn show(visit: Visit<permit::ReadWebhooks>) -> Result<Response, Failure> {
    let asked = &visit.asked;
    let wanted = Filter {
        health: asked.among("health", |word| word.parse().ok())?,
        text: asked.text("text")?,
        eshop: asked.id("eshop")?,
        after: asked.id("after")?,
    };
    let (mut webhooks, attention) = tokio::try_join!(
        health::page(visit.db(), visit.scope(), &wanted),
        health::attention(visit.db(), visit.scope()),
    )?;
    let is_more = webhooks.len() > PAGE;
    webhooks.truncate(PAGE);
    let last = webhooks.last().map(|webhook| webhook.id).filter(|_| is_more);
    let first = asked.get("after").map(|_| asked.address(HERE, &["after"], &[]));
    let next = last.map(|id| asked.address(HERE, &["after"], &[("after", &id.to_string())]));
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
            (choice("health", "Health", "any health", Health::WORDS, asked.get("health")))
            (field("text", "Destination or e-shop", "search", asked.get("text")))
            (field("eshop", "E-shop (id)", "text", asked.get("eshop")))
            button.primary type="submit" { "Search" }
            a.button href=(HERE) { "Clear" }
        }
        (table(&webhooks, visit.now()))
        (pager(webhooks.len(), first.as_deref(), next.as_deref(), None))
    };
    Ok(visit.page(Section::Webhooks, "Webhooks", &content))
}

pub(crate) fn table(webhooks: &[Line], now: DateTime<Utc>) -> Markup {
    if webhooks.is_empty() {
        return empty("No webhook matches.", "E-shops create webhooks with the API.");
    }
    html! {
        div.scroll tabindex="0" role="region" aria-label="Webhooks, table" {
            table.list.stack {
                thead { tr { th { "Destination" } th { "Health" } th.number { "Success" } th { "Why" } th { "Event" } th { "E-shop" } } }
                tbody { @for webhook in webhooks { (row(webhook, now)) } }
            }
        }
    }
}

fn row(webhook: &Line, now: DateTime<Utc>) -> Markup {
    html! {
        tr {
            td.text { a href={(HERE) "/" (webhook.id)} { (webhook.destination) } }
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
