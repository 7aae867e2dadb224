//! Wms: the list, and how the system of one is called.

pub(super) mod control;
pub(super) mod edit;
pub(super) mod list;

use axum::response::Response;
use chrono::{DateTime, Utc};
use futures::FutureExt as _;
use longshore_domain::job::connection::{self as tests, Test};
use longshore_domain::job::kind::JobKind;
use longshore_http::extract::{Failure, Id, permit};
use longshore_kernel::access::Permission;
use longshore_kernel::ids::WmsId;
use longshore_kernel::problem::Problem;
use longshore_operate::order::attention::WAITING;
use longshore_operate::wms::{self, CALLS, Call, Course, Former, LostOrder, Refused, Wms};
use maud::{Markup, html};

use super::connection;
use super::layout::Section;
use super::live::{self, Parts};
use super::piece::{
    self, Tone, badge, counted, empty, full_time, none, number, organisation, state, time, time_or_none,
    up_to,
};
use super::secret::former;
use super::visit::Visit;

/// Why no warehouse is called.
pub(super) const SET_BACK: &str =
    "Postgres was set back: nothing is handed over until longshore-api restored has run.";

type Watching = Visit<permit::ReadWmsSettings>;

/// What the page shows.
struct Found {
    wms: Wms,
    test: Option<Test>,
    refused: Vec<Refused>,
    lost: Vec<LostOrder>,
    waiting: Vec<Call>,
    calls: Vec<Call>,
    former: Former,
}

/// `GET /console/wms/{id}`.
pub(super) async fn show(Id(id): Id<WmsId>, visit: Watching) -> Result<Response, Failure> {
    let found = read(&visit, id).await?;
    let mut content = html! { p.trail { a href="/console/wms" { "Warehouses" } " / " (organisation(found.wms.organisation_id, &found.wms.organisation)) } };
    for (id, part) in parts_of(&visit, &found) {
        content = html! { (content) div #(id) { (part) } };
    }
    let live = format!("/console/wms/{id}/live");
    Ok(visit.live_page(Section::Warehouses, &found.wms.name, &live, &content))
}

/// `GET /console/wms/{id}/live`.
pub(super) async fn follow(Id(id): Id<WmsId>, mut visit: Watching) -> Response {
    visit.subject = Some(id.get());
    live::stream(visit, |visit| refreshed(visit).boxed())
}

async fn refreshed(visit: &Watching) -> Result<Parts, Problem> {
    let id = visit.subject.ok_or_else(|| Problem::not_found("wms"))?;
    Ok(parts_of(visit, &read(visit, id.into()).await?))
}

/// A wms, if the visitor may see it.
async fn find<P>(visit: &Visit<P>, id: WmsId) -> Result<Wms, Problem> {
    wms::find(visit.db(), visit.scope(), id).await?.ok_or_else(|| Problem::not_found("wms"))
}

async fn read(visit: &Watching, id: WmsId) -> Result<Found, Problem> {
    let wms = find(visit, id).await?;
    let (of, only) = (id.to_string(), [id]);
    let (test, refused, lost, waiting, calls, former) = tokio::try_join!(
        tests::last(visit.db(), JobKind::WmsTest, &of),
        wms::refused(visit.db(), &only),
        wms::lost_orders(visit.db(), visit.scope(), id),
        wms::waiting(visit.db(), id),
        wms::last_calls(visit.db(), id),
        wms::former(visit.db(), id),
    )?;
    Ok(Found { wms, test, refused, lost, waiting, calls, former })
}

fn parts_of(visit: &Watching, found: &Found) -> Parts {
    let now = visit.now();
    vec![
        ("standing".into(), standing(visit, found, now)),
        ("lost".into(), lost(visit, &found.lost, now)),
        ("refused".into(), refused(&found.refused, now)),
        ("waits".into(), waiting(found, now)),
        ("calls".into(), last_calls(&found.calls, now)),
    ]
}

fn standing(visit: &Watching, found: &Found, now: DateTime<Utc>) -> Markup {
    let wms = &found.wms;
    html! {
        header.title {
            h1 { (wms.name) }
            (state(wms.course))
            (buttons(visit, wms))
        }
        p { (in_words(wms, now)) }
        @if let (Some(error), Some(at)) = (&wms.error, wms.error_at) {
            p.error {
                strong { "Last failure: " } (error) ", " (time(at, now))
                @if let (Some(order), Some(name)) = (wms.error_order, &wms.error_order_number) {
                    ", of order " a href={"/console/order/" (order)} { (name) }
                }
            }
        }
        @if wms.is_connected() { (connection::draw(found.test.as_ref(), now)) }
        dl.facts {
            div { dt { "Lag" } dd { (lag(wms, now)) } }
            div { dt { "Due" } dd { a href="#waiting-title" { (up_to(wms.pending, WAITING)) } } }
            div { dt { "Called, not settled" } dd { a href="#waiting-title" { (up_to(wms.called, WAITING)) } } }
            div { dt { "Refused" } dd { a href="#reasons-title" { (number(found.refused.iter().map(|reason| reason.orders).sum::<i64>())) } } }
            div { dt { "Cancels unanswered" } dd { @match wms.first_unanswered {
                Some(first) => a href={"/console/order/" (first)} { (up_to(wms.unanswered, WAITING)) },
                None => "0",
            } } }
        }
        dl.details {
            div { dt { "Organisation" } dd { (organisation(wms.organisation_id, &wms.organisation)) } }
            div { dt { "Address" } dd { @match &wms.base_url { Some(url) => code { (url) }, None => (none()) } } }
            @if let Some(most) = wms.max_in_flight { div { dt { "Calls at once" } dd { (number(most)) } } }
            @if wms.is_connected() {
                div { dt { "Lane" } dd { (lane(wms, now)) } }
                div { dt { "Breaker" } dd { (breaker(wms, now)) } }
            }
            @if let Some(until) = found.former.until { div { dt { "Rotated" } dd { (former(found.former.secrets, until, now)) } } }
            @if let Some(at) = wms.changed_at { div { dt { "Stored" } dd { (full_time(at, now)) } } }
            div { dt { "Id" } dd { (piece::id(wms.id)) } }
        }
    }
}

fn buttons(visit: &Watching, wms: &Wms) -> Markup {
    let path = format!("/console/wms/{}", wms.id);
    html! {
        div.buttons {
            @if visit.can(Permission::WriteWmsSettings) {
                @if wms.is_connected() {
                    a.button href={(path) "/test"} data-ask="" { "Test" }
                    @if wms.paused {
                        a.button.primary href={(path) "/resume"} data-ask="" { "Resume" }
                    } @else {
                        a.button href={(path) "/pause"} data-ask="" { "Pause" }
                    }
                    a.button href={(path) "/edit"} { "Edit" }
                    a.button href={(path) "/rotate"} data-ask="" { "Rotate secret" }
                    a.button.danger href={(path) "/delete"} data-ask="" { "Delete setting" }
                } @else {
                    a.button.primary href={(path) "/edit"} { "Connect" }
                }
            }
            @if visit.can(Permission::ReadAudit) { a.button href={"/console/audit?entity=" (wms.id)} { "Audit" } }
        }
    }
}

/// How it is, in a sentence.
fn in_words(wms: &Wms, now: DateTime<Utc>) -> Markup {
    let by_hand = match wms.called {
        0 => String::new(),
        many if many >= WAITING => {
            format!(" {} orders are handed over and go on by hand.", up_to(many, WAITING))
        }
        many => {
            let (are, go) = if many == 1 { ("is", "goes") } else { ("are", "go") };
            format!(" {} {are} handed over and {go} on by hand.", counted(many, "order", "orders"))
        }
    };
    html! {
        @match wms.course {
            Course::ByHand => { strong { "It has no setting: orders go on by hand." } (by_hand) },
            Course::Inactive => { strong { "Its setting is switched off: orders go on by hand." } (by_hand) },
            Course::Paused => strong { "Its calls are paused. Orders become due, and wait." },
            Course::Failing => {
                strong { "Its system fails." }
                @if let Some(since) = wms.failing_since { " " span.muted { "Since " (full_time(since, now)) "." } }
                @if wms.paused { " Its calls are paused." }
            },
            Course::Healthy if wms.set_back => {
                strong { (SET_BACK) }
            },
            Course::Healthy => @match wms.held_until.filter(|until| *until > now) {
                Some(until) => { strong { "Its system asked to be left alone." } " It is called again " (time(until, now)) "." },
                None => strong { "Orders are handed over to its system." },
            },
        }
    }
}

/// For how long the oldest order waits for a call or its answer.
fn lag(wms: &Wms, now: DateTime<Utc>) -> Markup {
    match wms.waiting_since.filter(|_| wms.course.is_called()) {
        Some(since) => html! { (piece::seconds((now - since).as_seconds_f64().max(0.0))) },
        None => none(),
    }
}

fn lane(wms: &Wms, now: DateTime<Utc>) -> Markup {
    let is_held = [wms.probe_at, wms.held_until].into_iter().flatten().any(|until| until > now);
    html! {
        @if wms.leased {
            (badge(Tone::Busy, "served")) " by a worker"
        } @else if wms.course == Course::Inactive {
            (badge(Tone::Quiet, "off"))
        } @else if wms.paused {
            (badge(Tone::Warn, "paused")) " by an operator"
        } @else if wms.pending + wms.called == 0 {
            (badge(Tone::Quiet, "at rest"))
        } @else if wms.set_back {
            (badge(Tone::Bad, "set back")) " until longshore-api restored has run"
        } @else if is_held {
            (badge(Tone::Warn, "held")) " until the next call may be made"
        } @else {
            (badge(Tone::Quiet, "open"))
        }
    }
}

/// The state of the breaker, with the next probe.
fn breaker(wms: &Wms, now: DateTime<Utc>) -> Markup {
    let Some(since) = wms.failing_since else { return badge(Tone::Good, "closed") };
    let failures = counted(i64::from(wms.failures), "failure", "failures");
    html! {
        @match wms.probe_at {
            None => { (badge(Tone::Warn, "closed")) " " (failures) " in a row since " (time(since, now)) },
            Some(probe) => {
                (badge(Tone::Warn, "open")) " " (failures) " in a row; one probe at a time, next " (time(probe, now))
                ", " (number(wms.probes)) " failed"
            },
        }
    }
}

fn refused(reasons: &[Refused], now: DateTime<Utc>) -> Markup {
    html! {
        section aria-labelledby="reasons-title" {
            h2 #reasons-title { "Refused by the warehouse, by reason" }
            @if reasons.is_empty() {
                (empty("Nothing is refused.", "Orders that the warehouse refused are listed here until they are sent again."))
            } @else {
                div.scroll tabindex="0" role="region" aria-label="Refused orders, table" {
                    table.stack {
                        thead { tr { th { "Reason" } th { "Says" } th.number { "Orders" } th { "First" } } }
                        tbody {
                            @for reason in reasons {
                                tr {
                                    td.name { code { (reason.code) } " " (reason.path) }
                                    td.text { (reason.message) }
                                    td.number data-label="Orders" { (number(reason.orders)) }
                                    td data-label="First" { a href={"/console/order/" (reason.first)} { (reason.first_number) } ", " (time(reason.since, now)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Orders that only the warehouse has: nothing is shown where there is none, which is usual.
fn lost(visit: &Watching, orders: &[LostOrder], now: DateTime<Utc>) -> Markup {
    let is_part = i64::try_from(orders.len()).is_ok_and(|shown| shown >= CALLS);
    html! {
        @if !orders.is_empty() {
            section aria-labelledby="lost-title" {
                h2 #lost-title { "Reported, and not here since Postgres was set back" @if is_part { " " span.muted { "the last " (orders.len()) } } }
                div.scroll tabindex="0" role="region" aria-label="Lost orders, table" {
                    table.stack {
                        thead { tr { th { "Order" } th.number { "Number" } th { "Last report" } th { "First" } th { "Last" } th {} } }
                        tbody {
                            @for order in orders {
                                tr {
                                    td.name { code { (order.expedition) } }
                                    td.number data-label="Number" { @match order.number { Some(number) => (number), None => (none()) } }
                                    td.text { code { (order.report) } }
                                    td data-label="First" { (time(order.first, now)) }
                                    td data-label="Last" { (time(order.last, now)) }
                                    td { @if visit.can(Permission::WriteWmsSettings) {
                                        a.button href={"/console/lost-order/" (order.id) "/dismiss"} data-ask="" { "Dismiss" }
                                    } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Orders that wait for a call or its answer.
fn waiting(found: &Found, now: DateTime<Utc>) -> Markup {
    let is_part =
        i64::try_from(found.waiting.len()).is_ok_and(|shown| shown < found.wms.pending + found.wms.called);
    html! {
        section aria-labelledby="waiting-title" {
            h2 #waiting-title { "Waiting for the warehouse" @if is_part { " " span.muted { "the next " (found.waiting.len()) } } }
            @if found.waiting.is_empty() {
                (empty("No order waits.", "Orders that wait for a call, or for the answer to one, are listed here."))
            } @else {
                (table("Waiting orders, table", &found.waiting, now))
            }
        }
    }
}

fn last_calls(calls: &[Call], now: DateTime<Utc>) -> Markup {
    html! {
        section aria-labelledby="calls-title" {
            h2 #calls-title { "Last calls" }
            @if calls.is_empty() {
                (empty("No recent calls.", "What the last calls of the warehouse came to is listed here."))
            } @else {
                (table("Last calls, table", calls, now))
            }
        }
    }
}

fn table(label: &str, calls: &[Call], now: DateTime<Utc>) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(label) {
            table.list.stack {
                thead { tr { th { "Order" } th { "Hand-over" } th { "Error" } th { "Since" } th.number { "Calls" } th { "Next" } th { "The warehouse calls it" } } }
                tbody { @for call in calls { (row(call, now)) } }
            }
        }
    }
}

fn row(call: &Call, now: DateTime<Utc>) -> Markup {
    html! {
        tr {
            td.name { a href={"/console/order/" (call.order)} { strong { (call.order_number) } } " " span.muted { "number " (call.number) } }
            td { (state(call.state)) }
            td.text { @if let Some(error) = &call.error { span.refused { (error) } } }
            td data-label="Since" { (time(call.since, now)) }
            td.number data-label="Calls" { (number(call.attempts)) }
            td data-label="Next" { @match call.next_attempt_at {
                Some(at) if at <= now => "due",
                at => (time_or_none(at, now)),
            } }
            td.name data-label="The warehouse calls it" { @match &call.wms_internal_id { Some(id) => (id), None => (none()) } }
        }
    }
}
