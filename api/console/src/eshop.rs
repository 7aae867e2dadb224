//! An e-shop: what is wrong, its partner, its syncs, its webhooks and readers, its jobs and its orders.

pub(super) mod setting;
pub(super) mod wrong;

use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};
use futures::FutureExt as _;
use http::StatusCode;
use longshore_domain::attention::Line;
use longshore_domain::job::connection::{self as tests, Test};
use longshore_domain::job::kind::JobKind;
use longshore_domain::job::search::{self as jobs, Line as Job};
use longshore_domain::job::sync_run;
use longshore_domain::webhook::health::{self, Line as Webhook};
use longshore_http::extract::{Failure, Id, permit};
use longshore_kernel::access::{Permission, Scope};
use longshore_kernel::database::Database;
use longshore_kernel::ids::EshopId;
use longshore_kernel::problem::Problem;
use longshore_operate as operate;
use longshore_operate::attention;
use longshore_operate::course::Narrow;
use longshore_operate::eshop::{self, Eshop, Last, Run, Setting};
use longshore_operate::order::attention::{Silent, silent_of};
use longshore_operate::order::search::{self as orders, Line as Order};
use longshore_operate::timeline::{Timeline, Wanted, of_eshop};
use maud::{Markup, html};
use serde_json::json;

use super::form::Refused;
use super::layout::Section;
use super::live::{self, Parts};
use super::piece::{
    self, Tone, Toned as _, badge, empty, full_time, job_state, none, number, plain, state, time,
    time_or_none,
};
use super::visit::Visit;
use super::webhook::list as webhooks;
use super::webhook::reader::{self, Reader};
use super::{course, sync, timeline};

/// Syncs of a kind that are shown as ticks.
const TICKS: usize = 30;
/// Jobs and orders that are shown; their lists have the rest.
const SHOWN: usize = 8;

/// What the page shows; what the visitor may not read is missing.
struct Found {
    eshop: Eshop,
    setting: Option<Setting>,
    test: Option<Test>,
    runs: Vec<Run>,
    /// What needs attention in it.
    lines: Vec<Line>,
    /// Warehouses of its organisation.
    silent: Vec<Silent>,
    syncs: Vec<sync_run::Run>,
    jobs: Vec<Job>,
    orders: Vec<Order>,
    webhooks: Option<Vec<Webhook>>,
    readers: Option<Vec<Reader>>,
    last: Option<Last>,
    succeeded_at: Option<DateTime<Utc>>,
    past: Narrow,
    timeline: Timeline,
}

/// `GET /console/eshop/{id}`.
pub(super) async fn show(Id(id): Id<EshopId>, visit: Visit<permit::Read>) -> Result<Response, Failure> {
    let (wanted, refused) = Refused::of(timeline::wanted(&visit))?;
    let found = read(&visit, id, &wanted).await?;
    let (now, here) = (visit.now(), format!("/console/eshop/{id}"));
    let content = html! {
        (standing(&visit, &found, now))
        (wrong::draw(&visit, &found))
        @if visit.can(Permission::ReadSettings) { div #connected { (setting::draw(&visit, id, found.setting.as_ref(), found.test.as_ref(), now)) } }
        @if visit.can(Permission::ReadJobs) { (syncs(&visit, &found, now)) }
        @if let Some(webhooks) = &found.webhooks { (self::webhooks(&visit, id, webhooks)) }
        @if let Some(readers) = &found.readers { (reader::section(&visit, &here, "Readers", readers)) }
        @if visit.can(Permission::ReadJobs) { (jobs_of(id, &found.jobs, now)) }
        (orders_of(id, &found.orders, now))
        (activity(&visit, id, &found))
        (timeline::draw(&visit.asked, &refused, &here, id.get(), &found.timeline, now))
        (course::script())
    };
    let is_testing = found.test.as_ref().is_some_and(|test| !test.state.is_ended());
    let page = if is_testing {
        visit.live_page(Section::Syncs, &found.eshop.name, &format!("{here}/live"), &content)
    } else {
        visit.page(Section::Syncs, &found.eshop.name, &content)
    };
    Ok(if refused.is_empty() { page } else { (StatusCode::BAD_REQUEST, page).into_response() })
}

/// `GET /console/eshop/{id}/live`: of the page, the setting with the test of its connection.
pub(super) async fn follow(Id(id): Id<EshopId>, mut visit: Visit<permit::ReadSettings>) -> Response {
    visit.subject = Some(id.get());
    live::stream(visit, |visit| refreshed(visit).boxed())
}

async fn refreshed(visit: &Visit<permit::ReadSettings>) -> Result<Parts, Problem> {
    let id = visit.subject.ok_or_else(|| Problem::not_found("e-shop"))?.into();
    eshop::find(visit.db(), visit.scope(), id).await?.ok_or_else(|| Problem::not_found("e-shop"))?;
    let (setting, test) = connected(visit.db(), id).await?;
    Ok(vec![("connected".into(), setting::draw(visit, id, setting.as_ref(), test.as_ref(), visit.now()))])
}

/// The setting of an e-shop, and the last test of its connection.
async fn connected(db: &Database, id: EshopId) -> Result<(Option<Setting>, Option<Test>), Problem> {
    let of = id.to_string();
    tokio::try_join!(eshop::setting(db, id), tests::last(db, JobKind::IntegrationTest, &of))
}

async fn read(visit: &Visit<permit::Read>, id: EshopId, wanted: &Wanted) -> Result<Found, Problem> {
    let (db, scope) = (visit.db(), visit.scope());
    let eshop = eshop::find(db, scope, id).await?.ok_or_else(|| Problem::not_found("e-shop"))?;
    let [settings, jobs, webhooks, systems] = [
        Permission::ReadSettings,
        Permission::ReadJobs,
        Permission::ReadWebhooks,
        Permission::ReadWmsSettings,
    ]
    .map(|may| visit.can(may));
    let of_jobs = jobs::Filter { eshop: Some(id), ..jobs::Filter::default() };
    let of_syncs = sync_run::Filter { only: Some(id), ..sync_run::Filter::default() };
    let of_orders = orders::Filter { eshop: Some(id), ..orders::Filter::default() };
    let of_webhooks = health::Filter { source: Some(id.get()), ..health::Filter::default() };
    let of_readers = json!({"eshop": {"eq": id}});
    let itself = Scope::Eshop { organisation: eshop.organisation_id, eshop: id };
    let span = course::span(&visit.asked)?;
    let (
        (setting, test),
        runs,
        lines,
        silent,
        syncs,
        jobs,
        orders,
        webhooks,
        readers,
        last,
        succeeded_at,
        past,
        timeline,
    ) = tokio::try_join!(
        async { if settings { connected(db, id).await } else { Ok((None, None)) } },
        async { if jobs { eshop::runs(db, id).await } else { Ok(Vec::new()) } },
        attention::within(visit.services(), scope, &itself),
        async { if systems { silent_of(db, scope, eshop.organisation_id).await } else { Ok(Vec::new()) } },
        async { if jobs { sync_run::page(db, scope, &of_syncs).await } else { Ok(Vec::new()) } },
        async { if jobs { Ok(jobs::search(db, scope, &of_jobs).await?.jobs) } else { Ok(Vec::new()) } },
        async { Ok(orders::search(db, scope, &of_orders).await?.orders) },
        async { if webhooks { health::page(db, scope, &of_webhooks).await.map(Some) } else { Ok(None) } },
        reader::of(visit, &of_readers),
        async { if webhooks { eshop::last(db, id).await } else { Ok(None) } },
        async { if webhooks { eshop::last_success(db, id).await } else { Ok(None) } },
        operate::course::of_eshop(db, eshop.organisation_id, id, span),
        of_eshop(db, scope, eshop.organisation_id, id, wanted),
    )?;
    Ok(Found {
        eshop,
        setting,
        test,
        runs,
        lines,
        silent,
        syncs,
        jobs,
        orders,
        webhooks,
        readers,
        last,
        succeeded_at,
        past,
        timeline,
    })
}

/// The charts of what the visitor may see.
fn activity(visit: &Visit<permit::Read>, id: EshopId, found: &Found) -> Markup {
    let here = format!("/console/eshop/{id}");
    let list = format!("/console/job?eshop={id}");
    let jobs = visit.can(Permission::ReadJobs).then_some(list.as_str());
    let webhooks = visit.can(Permission::ReadWebhooks);
    if jobs.is_none() && !webhooks {
        return html! {};
    }
    course::of_eshop(&visit.asked, &here, id, &found.past, jobs, webhooks)
}

fn standing(visit: &Visit<permit::Read>, found: &Found, now: DateTime<Utc>) -> Markup {
    let eshop = &found.eshop;
    html! {
        header.title {
            h1 { (eshop.name) }
            @if eshop.active { (badge(Tone::Good, "active")) } @else { (badge(Tone::Quiet, "inactive")) }
            div.buttons {
                a.button href={"/console/order?eshop=" (eshop.id)} { "Orders" }
                a.button href={"/console/product?eshop=" (eshop.id)} { "Products" }
                @if visit.can(Permission::ReadJobs) { a.button href={"/console/job?eshop=" (eshop.id)} { "Jobs" } }
                @if visit.can(Permission::ReadWebhooks) { a.button href={"/console/delivery?eshop=" (eshop.id)} { "Deliveries" } }
                @if visit.can(Permission::ReadAudit) { a.button href={"/console/audit?entity=" (eshop.id)} { "Audit" } }
            }
        }
        dl.facts {
            @if let Some(webhooks) = &found.webhooks {
                div { dt { "Webhooks" } dd { (webhooks.len()) } }
                div { dt { "Last event" } dd { @match &found.last {
                    Some(last) => a href={"/console/delivery/" (last.delivery)} { (time(last.at, now)) },
                    None => (none()),
                } } }
                div { dt { "Last delivered" } dd { (time_or_none(found.succeeded_at, now)) } }
            }
            @if visit.can(Permission::ReadJobs) {
                div { dt { "Last job" } dd { (time_or_none(found.jobs.first().map(|job| job.created_at), now)) } }
            }
            div { dt { "Last order" } dd { (time_or_none(found.orders.first().map(|order| order.created_at), now)) } }
        }
        @if let Some(last) = &found.last {
            p.muted { "The last event was " code { (last.event) } ", " (last.state.toned().0) ". Events are recorded while a webhook listens." }
        }
        dl.details {
            div { dt { "Organisation" } dd { (piece::organisation(eshop.organisation_id, &eshop.organisation)) } }
            div { dt { "Warehouse" } dd { @match &eshop.default_warehouse { Some(name) => (name), None => (none()) } } }
            div { dt { "Id" } dd { (piece::id(eshop.id)) } }
            div { dt { "Created" } dd { (full_time(eshop.created_at, now)) } }
        }
    }
}

fn syncs(visit: &Visit<permit::Read>, found: &Found, now: DateTime<Utc>) -> Markup {
    let of_a_kind: Vec<&[Run]> = found.runs.chunk_by(|one, other| one.kind == other.kind).collect();
    let syncs: Vec<_> = found.syncs.iter().filter(|run| run.kind.is_some()).collect();
    html! {
        section aria-labelledby="syncs-title" {
            header.title {
                h2 #syncs-title { "Syncs" }
                @if visit.can(Permission::WriteJobs) { a.button href={"/console/import?eshop=" (found.eshop.id)} { "Import" } }
            }
            @if syncs.is_empty() {
                (empty("No recent sync.", "A sync starts when the e-shop pushes a catalogue, by the clock of the setting, or on demand."))
            } @else {
                (sync::table(&syncs, None, now))
            }
            @for runs in of_a_kind { (history(runs)) }
        }
    }
}

/// The last syncs of a kind as ticks, the oldest first.
fn history(runs: &[Run]) -> Markup {
    let Some(kind) = runs.first().map(|run| run.kind.as_str()) else { return html! {} };
    let runs = &runs[..runs.len().min(TICKS)];
    html! {
        p.ticks {
            span.muted { "The last " (runs.len()) " of " (plain(kind)) " " }
            @for run in runs.iter().rev() {
                a.tick.(run.state.toned().1.class()) href={"/console/job/" (run.id)} title={(run.state) ", " (piece::stamp(run.created_at))} {
                    span.hidden { (run.state) " " (piece::stamp(run.created_at)) }
                }
            }
        }
    }
}

fn webhooks(visit: &Visit<permit::Read>, id: EshopId, webhooks: &[Webhook]) -> Markup {
    let more = html! {
        @if visit.can(Permission::WriteWebhooks) && !webhooks.is_empty() { a.button href={"/console/replay?hours=24&eshop=" (id)} { "Replay" } }
        @if webhooks.len() > health::PAGE { a.button href={"/console/webhook?eshop=" (id)} { "All" } }
    };
    webhooks::section(visit, &format!("/console/eshop/{id}"), "Webhooks", webhooks, &more)
}

fn jobs_of(id: EshopId, jobs: &[Job], now: DateTime<Utc>) -> Markup {
    html! {
        section aria-labelledby="jobs-title" {
            header.title { h2 #jobs-title { "Newest jobs" } a.button href={"/console/job?eshop=" (id)} { "All jobs" } }
            @if jobs.is_empty() {
                (empty("No jobs.", "Syncs and bulk operations of the e-shop are listed here."))
            } @else {
                div.scroll tabindex="0" role="region" aria-label="Jobs, table" {
                    table.list.stack {
                        thead { tr { th { "Job" } th { "State" } th { "Error, or what it waits for" } th.number { "Items" } th { "Accepted" } } }
                        tbody {
                            @for job in jobs.iter().take(SHOWN) {
                                tr {
                                    td.name { a href={"/console/job/" (job.id)} { (plain(&job.kind)) } }
                                    td { (job_state(job.state, job.total, job.failed, job.withheld)) }
                                    td.text {
                                        @if let Some(error) = &job.error { (error) }
                                        @else if let Some(waits) = &job.waits_for { (piece::waits(waits, None, now)) }
                                    }
                                    td.number data-label="Items" { (number(job.total)) }
                                    td data-label="Accepted" { (time(job.created_at, now)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn orders_of(id: EshopId, orders: &[Order], now: DateTime<Utc>) -> Markup {
    html! {
        section aria-labelledby="orders-title" {
            header.title { h2 #orders-title { "Newest orders" } a.button href={"/console/order?eshop=" (id)} { "All orders" } }
            @if orders.is_empty() {
                (empty("No orders.", "Orders of the e-shop are listed here."))
            } @else {
                div.scroll tabindex="0" role="region" aria-label="Orders, table" {
                    table.list.stack {
                        thead { tr { th { "Order" } th { "Status" } th { "Waits for, or error" } th { "Since" } th.number { "Pieces" } } }
                        tbody {
                            @for order in orders.iter().take(SHOWN) {
                                tr {
                                    td.name { a href={"/console/order/" (order.id)} { strong { (order.number) } } }
                                    td { (state(order.status)) }
                                    td.text { (order.waits_for.as_deref().or(order.error.as_deref()).unwrap_or_default()) }
                                    td data-label="Since" { (time(order.status_since, now)) }
                                    td.number data-label="Pieces" { (number(order.pieces)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
