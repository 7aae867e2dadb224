//! The search for webhooks, the failing ones first.

use axum::response::Response;
use chrono::{DateTime, Utc};
use futures::FutureExt as _;
use longshore_domain::webhook::health::{self, COUNTED, Counts, Filter, Health, Line, PAGE, Sort};
use longshore_http::extract::{Failure, permit};
use longshore_kernel::access::Permission;
use longshore_kernel::ids::EshopId;
use longshore_kernel::problem::Problem;
use longshore_operate::named::Kind;
use maud::{Markup, html};

use super::reader;
use crate::form::{Asked, OF_PAGE, Refused};
use crate::layout::Section;
use crate::live::{self, Part, Parts, part};
use crate::piece::{
    OLDEST, Way, checked, counted, empty, moment, options, pager_to, rows, select, size, sorting, source,
    state, time, unreadable, until_asked, up_to,
};
use crate::refresh;
use crate::visit::Visit;
use crate::webhook::success;

const HERE: &str = "/console/webhook";

/// The orders of the list.
const SORTS: [(&str, Sort, &str); 3] = [
    ("", Sort::Health, "failing first"),
    ("newest", Sort::Newest, "newest first"),
    (OLDEST, Sort::Oldest, "oldest first"),
];

/// The orders by the column of the creation.
const BY_CREATION: [(&str, bool); 2] = [("newest", false), (OLDEST, true)];

/// `GET /console/webhook`.
pub(crate) async fn show(visit: Visit<permit::ReadWebhooks>) -> Result<Response, Failure> {
    let asked = &visit.asked;
    let (wanted, refused) = Refused::of(wanted(&visit).await)?;
    let [counts, list] = parts(&visit, refused.is_empty().then_some(&wanted)).await?;
    let healths = [("", "any health")].into_iter().chain(Health::WORDS.iter().map(|word| (*word, *word)));
    let content = html! {
        header.title {
            h1 { "Webhooks" }
            div.buttons { a.button href=(reader::HERE) { "Readers" } }
            (refresh::choice(asked, HERE))
        }
        (part(&counts))
        form.search method="get" action=(HERE) role="search" {
            (options(asked, &refused, "health", "Health", healths))
            (checked(asked, &refused, "text", "Destination or e-shop", "search"))
            (checked(asked, &refused, "eshop", "E-shop (name or id)", "text"))
            (options(asked, &refused, "sort", "Order", SORTS.map(|(word, _, name)| (word, name))))
            (rows(asked, &refused))
            button.primary type="submit" { "Search" }
            a.button href=(HERE) { "Clear" }
        }
        (part(&list))
    };
    Ok(visit.list_page(Section::Webhooks, "Webhooks", HERE, &refused, &content))
}

/// `GET /console/webhook/live`.
pub(crate) async fn follow(visit: Visit<permit::ReadWebhooks>) -> Response {
    live::stream(visit, |visit| refreshed(visit).boxed())
}

async fn refreshed(visit: &Visit<permit::ReadWebhooks>) -> Result<Parts, Problem> {
    let wanted = wanted(visit).await?;
    Ok(parts(visit, Some(&wanted)).await?.into())
}

/// How many webhooks are not well, and those that are wanted.
async fn parts(visit: &Visit<permit::ReadWebhooks>, wanted: Option<&Filter>) -> Result<[Part; 2], Problem> {
    let (db, scope) = (visit.db(), visit.scope());
    let (found, counts) = tokio::try_join!(
        async {
            match wanted {
                Some(wanted) => Ok(Some(health::page(db, scope, wanted).await?)),
                None => Ok(None),
            }
        },
        health::counts(db, scope),
    )?;
    let list = match (found, wanted) {
        (Some(found), Some(wanted)) => list(visit, wanted, found),
        _ => unreadable(),
    };
    let health = wanted.and_then(|wanted| wanted.health);
    Ok([("healths".into(), healths(&visit.asked, &counts, health)), ("list".into(), list)])
}

fn healths(asked: &Asked, counts: &Counts, chosen: Option<Health>) -> Markup {
    let disabled = format!("Disabled {}", up_to(counts.disabled, COUNTED));
    let failing = format!("Failing {}", up_to(counts.failing, COUNTED));
    let tabs = [
        (None, "All"),
        (Some(Health::Disabled), disabled.as_str()),
        (Some(Health::Failing), failing.as_str()),
        (Some(Health::Inactive), "Inactive"),
        (Some(Health::Healthy), "Healthy"),
    ];
    let without: Vec<&str> = OF_PAGE.into_iter().chain(["health"]).collect();
    let address = |health: Option<Health>| {
        let with = health.map(|health| ("health", health.as_str()));
        asked.address(HERE, &without, with.as_slice())
    };
    html! {
        nav.switch aria-label="By health" {
            @for (health, name) in tabs { a href=(address(health)) aria-current=[(chosen == health).then_some("true")] { (name) } }
        }
    }
}

fn list(visit: &Visit<permit::ReadWebhooks>, wanted: &Filter, mut webhooks: Vec<Line>) -> Markup {
    let asked = &visit.asked;
    let size = wanted.size.unwrap_or(PAGE);
    let is_more = webhooks.len() > size;
    webhooks.truncate(size);
    let last = webhooks.last().map(|webhook| webhook.id).filter(|_| is_more);
    let first = asked.get("after").map(|_| asked.address(HERE, &OF_PAGE, &[]));
    let next = last.map(|id| asked.address(HERE, &OF_PAGE, &[("after", &id.to_string())]));
    let may = visit.can(Permission::WriteWebhooks);
    html! {
        @if may && !webhooks.is_empty() {
            form method="get" action="/console/replay" {
                (table(&webhooks, Some(asked), true, visit.now()))
                div.buttons { button type="submit" name="hours" value="24" { "Replay selected" } }
            }
        } @else {
            (table(&webhooks, Some(asked), false, visit.now()))
        }
        (pager_to(way(wanted), webhooks.len(), first.as_deref(), next.as_deref(), None))
    }
}

fn way(wanted: &Filter) -> Way {
    match wanted.sort {
        Sort::Health => Way::Further,
        Sort::Newest => Way::Older,
        Sort::Oldest => Way::Newer,
    }
}

async fn wanted(visit: &Visit<permit::ReadWebhooks>) -> Result<Filter, Problem> {
    let asked = &visit.asked;
    let eshop = visit.named(asked, Kind::Eshop, "eshop").await?;
    let sort = |word: &str| SORTS.iter().find(|(known, ..)| *known == word).map(|(_, sort, _)| *sort);
    Ok(Filter {
        health: asked.among("health", |word| word.parse().ok())?,
        text: asked.text("text")?,
        source: eshop.map(EshopId::get),
        after: asked.id("after")?,
        sort: asked.among("sort", sort)?.unwrap_or_default(),
        size: size(asked)?,
    })
}

/// The webhooks of an e-shop, or those of an organisation itself: `page` is its own.
pub(crate) fn section(
    visit: &Visit<permit::Read>,
    page: &str,
    title: &str,
    webhooks: &[Line],
    more: &Markup,
) -> Markup {
    html! {
        section aria-labelledby="webhooks-title" {
            header.title {
                h2 #webhooks-title { (title) }
                @if visit.can(Permission::WriteWebhooks) { a.button href={(page) "/webhook"} { "New webhook" } }
                (more)
            }
            @if webhooks.is_empty() {
                (empty("No webhook of its own.", "Without any, changes are recorded, and no event is sent."))
            } @else {
                (table(webhooks, None, false, visit.now()))
            }
        }
    }
}

/// The webhooks, with check boxes where they are chosen for an action; sorted by the heads of columns on the page of the list.
pub(crate) fn table(webhooks: &[Line], sorted: Option<&Asked>, choose: bool, now: DateTime<Utc>) -> Markup {
    if webhooks.is_empty() {
        return empty("No webhook matches.", "E-shops create webhooks with the API.");
    }
    html! {
        div.scroll tabindex="0" role="region" aria-label="Webhooks, table" {
            table.list.stack {
                thead { tr {
                    th { "Destination" }
                    @match sorted { Some(asked) => (sorting(asked, HERE, "Health", &[("", true)])), None => th { "Health" } }
                    th.number { "Success" } th { "Why" } th { "Event" } th { "E-shop" }
                    @match sorted { Some(asked) => (sorting(asked, HERE, "Created", &BY_CREATION)), None => th { "Created" } }
                } }
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
            td.number data-label="Success" { (success(webhook.failures, webhook.calls, webhook.delivered)) }
            td.text {
                @if let Some(reason) = &webhook.disabled_reason {
                    (reason) @if let Some(at) = webhook.disabled_at { ", " (time(at, now)) }
                } @else if let Some(since) = webhook.failing_since {
                    (counted(i64::from(webhook.failures), "failure", "failures")) " in a row since " (time(since, now))
                    @match webhook.probe_at {
                        _ if !webhook.active => "; resets when it is activated",
                        Some(probe) if webhook.due => { "; next probe " (time(probe.max(webhook.held_until.unwrap_or(probe)), now)) },
                        Some(_) => "; next probe when a delivery is due",
                        None => @if let Some(until) = webhook.held_until { "; held" (until_asked(until, now)) },
                    }
                } @else if let Some(until) = webhook.held_until.filter(|_| webhook.active) {
                    "Held" (until_asked(until, now))
                }
            }
            td data-label="Event" { code { (webhook.event) } }
            td.name data-label="E-shop" { (source(webhook.eshop_id, webhook.organisation_id, &webhook.eshop)) @if webhook.eshop_id.is_some() { " " span.muted { (webhook.organisation) } } }
            td data-label="Created" { (moment(webhook.created_at, now)) }
        }
    }
}
