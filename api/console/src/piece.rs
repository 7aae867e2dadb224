//! Parts of pages: badges, times, figures, paging, empty states.

use std::fmt::Display;

use chrono::{DateTime, SecondsFormat, Utc};
use longshore_shared::job::chunk::ChunkState;
use longshore_shared::job::kind::JobState;
use longshore_shared::job::waiting::{Ahead, WaitsFor};
use longshore_shared::kernel::figure::whole_seconds;
pub(super) use longshore_shared::kernel::figure::{counted, milliseconds, number, seconds, stamp, up_to};
use longshore_shared::kernel::ids::{EshopId, JobId, OrganisationId};
use longshore_shared::kernel::problem::Problem;
use longshore_shared::list::fields::expedition::{ExpeditionStatus, HandoverState};
use longshore_shared::list::fields::job::{JobOutcome, outcome};
use longshore_shared::operate::wms::Course;
use longshore_shared::webhook::delivery::DeliveryState;
use longshore_shared::webhook::health::Health;
use maud::{Markup, html};
use serde_json::Value;
use uuid::Uuid;

use super::form::{Asked, OF_PAGE, Refused};

/// A severity; its word carries the meaning, its colour only emphasises it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Good,
    Busy,
    Warn,
    Bad,
    Quiet,
}

impl Tone {
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Busy => "busy",
            Self::Warn => "warn",
            Self::Bad => "bad",
            Self::Quiet => "quiet",
        }
    }
}

/// A word in the colour of its tone.
pub(super) fn badge(tone: Tone, word: &str) -> Markup {
    html! { span.badge.(tone.class()) { (word) } }
}

/// A state that has a tone.
pub(super) trait Toned: Copy {
    /// Its word and its tone.
    fn toned(self) -> (&'static str, Tone);
}

impl Toned for JobState {
    fn toned(self) -> (&'static str, Tone) {
        let tone = match self {
            Self::Succeeded => Tone::Good,
            Self::Running | Self::Receiving => Tone::Busy,
            Self::Retrying => Tone::Warn,
            Self::Failed => Tone::Bad,
            Self::Queued | Self::Cancelled => Tone::Quiet,
        };
        (self.as_str(), tone)
    }
}

impl Toned for ExpeditionStatus {
    fn toned(self) -> (&'static str, Tone) {
        let tone = match self {
            Self::ProbablyDelivered | Self::Delivered => Tone::Good,
            Self::AwaitingProcessing
            | Self::TakeOut
            | Self::Completion
            | Self::WaitingForTheCarrier
            | Self::CarrierPickedUp
            | Self::ReadyToTakeover => Tone::Busy,
            Self::AwaitingReservation | Self::WaitingForGoods | Self::StockOk | Self::WaitingForCancel => {
                Tone::Warn
            }
            Self::Incorrect => Tone::Bad,
            Self::OnHold | Self::Canceled => Tone::Quiet,
        };
        (self.as_str(), tone)
    }
}

impl Toned for ChunkState {
    fn toned(self) -> (&'static str, Tone) {
        let tone = match self {
            Self::Succeeded => Tone::Good,
            Self::Running => Tone::Busy,
            Self::Failed => Tone::Bad,
            Self::Queued | Self::Cancelled => Tone::Quiet,
        };
        (self.as_str(), tone)
    }
}

impl Toned for DeliveryState {
    fn toned(self) -> (&'static str, Tone) {
        let tone = match self {
            Self::Delivered => Tone::Good,
            Self::Exhausted => Tone::Bad,
            Self::Pending | Self::Cancelled => Tone::Quiet,
        };
        (self.as_str(), tone)
    }
}

impl Toned for Health {
    fn toned(self) -> (&'static str, Tone) {
        let tone = match self {
            Self::Healthy => Tone::Good,
            Self::Failing => Tone::Warn,
            Self::Disabled => Tone::Bad,
            Self::Inactive => Tone::Quiet,
        };
        (self.as_str(), tone)
    }
}

impl Toned for Course {
    fn toned(self) -> (&'static str, Tone) {
        let tone = match self {
            Self::Healthy => Tone::Good,
            Self::Paused => Tone::Warn,
            Self::Failing => Tone::Bad,
            Self::Inactive | Self::ByHand => Tone::Quiet,
        };
        (if self == Self::ByHand { "by hand" } else { self.as_str() }, tone)
    }
}

impl Toned for HandoverState {
    fn toned(self) -> (&'static str, Tone) {
        let tone = match self {
            Self::Accepted => Tone::Good,
            Self::Sending | Self::Withdrawing => Tone::Busy,
            Self::Refused => Tone::Bad,
            Self::Pending | Self::Withdrawn => Tone::Quiet,
        };
        (self.as_str(), tone)
    }
}

/// The state of a job, a chunk, a delivery, a webhook, an order, its hand-over, or a wms.
pub(super) fn state(state: impl Toned) -> Markup {
    let (word, tone) = state.toned();
    badge(tone, word)
}

/// The state of a job, including refused items if it has succeeded.
pub(super) fn job_state(of: JobState, total: i32, failed: i32) -> Markup {
    match outcome(of, total, failed) {
        Some(JobOutcome::Partial) => badge(Tone::Warn, "partly refused"),
        Some(JobOutcome::Nothing) => badge(Tone::Bad, "all refused"),
        Some(JobOutcome::Complete) | None => state(of),
    }
}

/// What a job waits for; `ahead` has details of the job before it, if they are known.
pub(super) fn waits(waits: &WaitsFor, ahead: Option<&Ahead>, now: DateTime<Utc>) -> Markup {
    let since = html! { span.muted { " since " (time(waits.since, now)) } };
    match (waits.reason.as_str(), waits.job) {
        ("partner", _) => html! { "Waiting for the partner" (since) },
        ("turn", _) => html! { "Waiting for its turn: the organisation uses its share of the queue" (since) },
        ("paused", _) => {
            html! { "Waiting for a queue that is " a href="/console/queue" { "paused" } (since) }
        }
        (_, Some(job)) => html! {
            "Waiting for job " a href={"/console/job/" (job)} { code { (short(job)) } }
            @if let Some(ahead) = ahead {
                " (" (ahead.kind) ")"
                @if let Some(eshop) = &ahead.eshop { " of " (eshop) }
                @if let Some(begun) = ahead.started_at { ", running for " (took(Some(begun), Some(now))) ";" }
            }
            (since)
        },
        (reason, None) => html! { "Waits: " (reason) (since) },
    }
}

/// The page of a thing: the address where its kind has one, else that of its audit.
pub(super) fn page_of(entity_type: &str, id: Uuid) -> String {
    match entity_type {
        "product" | "eshop" | "organisation" | "webhook" | "job" | "delivery" => {
            format!("/console/{entity_type}/{id}")
        }
        "expedition" => format!("/console/order/{id}"),
        // the search leads from a stock to its product, from a setting to its e-shop, and to the lists that have the others
        "product_stock" | "integration_setting" | "carrier_preference" | "access_token" => {
            format!("/console/find?q={id}")
        }
        "wms" | "wms_setting" => format!("/console/wms/{id}"),
        _ => format!("/console/audit?entity={id}"),
    }
}

/// A link to an e-shop.
pub(super) fn eshop(id: EshopId, name: &str) -> Markup {
    html! { a href={"/console/eshop/" (id)} { (name) } }
}

/// A link to an organisation.
pub(super) fn organisation(id: OrganisationId, name: &str) -> Markup {
    html! { a href={"/console/organisation/" (id)} { (name) } }
}

/// An id for people: its end, since ids of the same moment begin alike. All of it is there to be read out, selected and copied;
/// the style sheet cuts it.
pub(super) fn id(id: impl Display) -> Markup {
    html! {
        span.id {
            code title=(id) { bdi { (id) } }
            button.copy type="button" data-copy=(id) hidden aria-label={"Copy " (id)} { "copy" }
        }
    }
}

/// A short form of an id: its last characters, since ids of the same moment begin alike.
fn short(id: JobId) -> String {
    let id = id.to_string();
    format!("…{}", id.get(id.len() - 8..).unwrap_or_default())
}

/// How long ago a moment was, with the full time as a tooltip.
pub(super) fn time(at: DateTime<Utc>, now: DateTime<Utc>) -> Markup {
    let full = at.to_rfc3339_opts(SecondsFormat::Millis, true);
    html! { time datetime=(full) title=(stamp(at)) { (distance(at, now)) } }
}

/// A full time, with how long ago it was. Where the visitor prefers the local time, the script writes it.
pub(super) fn full_time(at: DateTime<Utc>, now: DateTime<Utc>) -> Markup {
    html! {
        time data-full="" datetime=(at.to_rfc3339_opts(SecondsFormat::Millis, true)) { (stamp(at)) }
        " " span.muted { (distance(at, now)) }
    }
}

/// How long ago a moment was, and when, for lists.
pub(super) fn moment(at: DateTime<Utc>, now: DateTime<Utc>) -> Markup {
    let full = at.to_rfc3339_opts(SecondsFormat::Millis, true);
    let short = if (now - at).num_hours().abs() < 12 { "%H:%M:%S" } else { "%m-%d %H:%M" };
    html! {
        span.moment {
            (time(at, now))
            time.muted data-short="" datetime=(full) { (at.format(short)) }
        }
    }
}

/// The same of an optional moment.
pub(super) fn moment_or_none(at: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Markup {
    at.map_or_else(none, |at| moment(at, now))
}

/// An optional moment.
pub(super) fn time_or_none(at: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Markup {
    match at {
        Some(at) => time(at, now),
        None => none(),
    }
}

/// Shown for a missing value.
pub(super) fn none() -> Markup {
    html! { span.muted { "–" } }
}

fn distance(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let seconds = (now - at).num_seconds();
    if seconds.abs() < 2 {
        "now".to_owned()
    } else if seconds > 0 {
        format!("{} ago", whole_seconds(seconds))
    } else {
        format!("in {}", whole_seconds(-seconds))
    }
}

/// A duration between two moments.
pub(super) fn took(from: Option<DateTime<Utc>>, to: Option<DateTime<Utc>>) -> Markup {
    match (from, to) {
        (Some(from), Some(to)) => {
            let ms = (to - from).num_milliseconds().max(0);
            html! { (milliseconds(f64::from(i32::try_from(ms).unwrap_or(i32::MAX)))) }
        }
        _ => none(),
    }
}

/// The progress of a job: successful and refused items.
pub(super) fn progress(done: i32, total: i32, failed: i32) -> Markup {
    let words =
        format!("{} of {} items done, {} of them refused", number(done), number(total), number(failed));
    let share = |items: i32| f64::from(items.max(0)) / f64::from(total.max(1)) * 100.0;
    let (good, bad) = (share(done - failed), share(failed));
    html! {
        span.progress {
            svg.meter viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label=(words) {
                rect.good width=(format!("{good:.1}")) height="6" {}
                rect.bad x=(format!("{good:.1}")) width=(format!("{bad:.1}")) height="6" {}
            }
            span { (number(done)) "/" (number(total)) }
            @if failed > 0 { span.refused { (number(failed)) " refused" } }
        }
    }
}

/// A text with a capital first letter.
pub(super) fn sentence(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}

/// Names of changed fields that are listed.
const NAMES: usize = 4;

/// The names of the changed fields of an audit record.
pub(super) fn fields(changes: &Value) -> String {
    let names: Vec<_> =
        changes.as_object().into_iter().flat_map(|changes| changes.keys().map(String::as_str)).collect();
    match names.len() {
        0 => "no other field".to_owned(),
        1..=NAMES => names.join(", "),
        all => format!("{} and {} more", names[..NAMES].join(", "), all - NAMES),
    }
}

/// Indented JSON.
pub(super) fn json(value: &Value) -> Markup {
    html! { pre tabindex="0" { code { (format!("{value:#}")) } } }
}

/// An empty list: what it means, and what to do.
pub(super) fn empty(title: &str, advice: &str) -> Markup {
    html! { div.empty { p { strong { (title) } } p.muted { (advice) } } }
}

/// Shown instead of a list, if its search cannot be read.
pub(super) fn unreadable() -> Markup {
    empty("The search cannot be read.", "Correct the marked field.")
}

/// Where the next page of a list leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Older,
    Newer,
    /// In an order that is not that of time.
    Further,
}

/// The word of the order of a list by time that is not the usual one.
pub(super) const OLDEST: &str = "oldest";
/// The orders of a list by time.
pub(super) const ORDERS: [(&str, &str); 2] = [("", "newest first"), (OLDEST, "oldest first")];

/// Whether a list by time begins with the oldest record.
pub(super) fn is_oldest_first(asked: &Asked) -> Result<bool, Problem> {
    Ok(asked.among("sort", |word| (word == OLDEST).then_some(()))?.is_some())
}

impl Way {
    /// The way of a list by time.
    pub(super) fn of(asked: &Asked) -> Self {
        if asked.get("sort") == Some(OLDEST) { Self::Newer } else { Self::Older }
    }
}

/// The links below a page of a list of the newest records.
pub(super) fn pager(shown: usize, first: Option<&str>, next: Option<&str>, cut_short: Option<i64>) -> Markup {
    pager_to(Way::Older, shown, first, next, cut_short)
}

/// The links below a page of a list.
pub(super) fn pager_to(
    way: Way,
    shown: usize,
    first: Option<&str>,
    next: Option<&str>,
    cut_short: Option<i64>,
) -> Markup {
    let (begin, edge, further) = match way {
        Way::Older => ("Newest", "newest", "Older"),
        Way::Newer => ("Oldest", "oldest", "Newer"),
        Way::Further => ("First", "first", "Next"),
    };
    html! {
        nav.pager aria-label="Pages of the list" {
            span.muted {
                "On this page: " (shown) "."
                @if let Some(window) = cut_short {
                    " Searched the " (edge) " " (number(window)) " records."
                }
            }
            @if let Some(first) = first { a.button href=(first) { (begin) } }
            @if let Some(next) = next {
                a.button href=(next) rel="next" {
                    @if cut_short.is_some() { "Search " (further.to_lowercase()) } @else { (further) }
                }
            }
        }
    }
}

/// The numbers of rows that a page of a list may have, besides the usual one.
const SIZES: [(&str, &str); 4] = [("", "50"), ("25", "25"), ("100", "100"), ("200", "200")];

/// The most of them.
pub(super) const LONGEST: usize = 200;

/// How many rows a page is to have.
pub(super) fn size(asked: &Asked) -> Result<Option<usize>, Problem> {
    let known = |word: &str| SIZES.iter().find(|(known, _)| *known == word)?.0.parse().ok();
    asked.among("size", known)
}

/// The choice of that.
pub(super) fn rows(asked: &Asked, refused: &Refused) -> Markup {
    options(asked, refused, "size", "Rows", SIZES)
}

/// The values of a field with how many records have each, as links to the list: the rest of the search is kept, except what
/// belongs to one page of it.
pub(super) fn tabs(
    asked: &Asked,
    path: &str,
    of_page: &[&str],
    field: &str,
    label: &str,
    all: &str,
    values: &[(&str, String)],
) -> Markup {
    let without: Vec<&str> = of_page.iter().copied().chain([field]).collect();
    let chosen = asked.get(field);
    html! {
        nav.switch aria-label=(label) {
            a href=(asked.address(path, &without, &[])) aria-current=[chosen.is_none().then_some("true")] { "all " (all) }
            @for (value, count) in values {
                a href=(asked.address(path, &without, &[(field, *value)])) aria-current=[(chosen == Some(*value)).then_some("true")] {
                    (value) " " (count)
                }
            }
        }
    }
}

/// The head of a column that sorts a list: the orders by it, each with its word in an address and whether it ascends. A click leads
/// to the next of them.
pub(super) fn sorting(asked: &Asked, path: &str, label: &str, orders: &[(&str, bool)]) -> Markup {
    let chosen = asked.get("sort").unwrap_or_default();
    let place = orders.iter().position(|(word, _)| *word == chosen);
    let next = place.map_or(0, |place| (place + 1) % orders.len());
    let word = orders.get(next).map_or("", |(word, _)| *word);
    let without: Vec<&str> = OF_PAGE.into_iter().chain(["sort"]).collect();
    let with = [("sort", word)];
    let address = asked.address(path, &without, if word.is_empty() { &[] } else { &with });
    let is_ascending = place.and_then(|place| orders.get(place)).map(|(_, is_ascending)| *is_ascending);
    let sort = is_ascending.map(|is_ascending| if is_ascending { "ascending" } else { "descending" });
    html! { th aria-sort=[sort] { a.sort href=(address) { (label) } } }
}

/// The check box of a row of a list.
pub(super) fn select(name: &str, id: impl Display, what: &str) -> Markup {
    html! { input.select type="checkbox" name=(name) value=(id) aria-label={"Select " (what) " " (id)}; " " }
}

/// A field of a search form with what was asked, and with what is wrong with that.
pub(super) fn checked(asked: &Asked, refused: &Refused, name: &str, label: &str, kind: &str) -> Markup {
    // by default browsers offer minutes, but a minute may contain tens of thousands of deliveries
    let step = (kind == "datetime-local").then_some("1");
    let wrong = refused.message(name);
    html! {
        label { (label)
            input type=(kind) name=(name) value=[asked.get(name)] step=[step] autocomplete="off" spellcheck="false"
                aria-invalid=[wrong.map(|_| "true")] aria-describedby=[wrong.map(|_| format!("wrong-{name}"))];
            @if let Some(wrong) = wrong { span.wrong id={"wrong-" (name)} { (sentence(wrong)) "." } }
        }
    }
}

/// A check box of a form.
pub(super) fn switch(asked: &Asked, name: &str, label: &str) -> Markup {
    html! {
        label.switch-box { input type="checkbox" name=(name) value="true" checked[asked.get(name) == Some("true")]; (label) }
    }
}

/// A drop-down list of a form with what was asked, and with what is wrong with that.
pub(super) fn options<'w>(
    asked: &Asked,
    refused: &Refused,
    name: &str,
    label: &str,
    words: impl IntoIterator<Item = (&'w str, &'w str)>,
) -> Markup {
    let wrong = refused.message(name);
    html! {
        label { (label)
            select name=(name) aria-invalid=[wrong.map(|_| "true")] aria-describedby=[wrong.map(|_| format!("wrong-{name}"))] {
                @for (word, text) in words { option value=(word) selected[asked.get(name).unwrap_or_default() == word] { (text) } }
            }
            @if let Some(wrong) = wrong { span.wrong id={"wrong-" (name)} { (sentence(wrong)) "." } }
        }
    }
}

/// How long ago an attempt began.
pub(super) fn attempt_time(attempt: &Value, now: DateTime<Utc>) -> Markup {
    attempted_at(attempt).map_or_else(none, |at| time(at, now))
}

/// When an attempt began.
pub(super) fn attempted_at(attempt: &Value) -> Option<DateTime<Utc>> {
    attempt["at"].as_str()?.parse().ok()
}

/// The status that answered an attempt.
pub(super) fn status(attempt: &Value) -> Markup {
    match attempt["status"].as_i64() {
        Some(status @ 200..300) => badge(Tone::Good, &status.to_string()),
        Some(status) => badge(Tone::Bad, &status.to_string()),
        None => badge(Tone::Bad, "none"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_begins_with_a_capital_letter() {
        assert_eq!(["the form", "élan", "7 fields", ""].map(sentence), ["The form", "Élan", "7 fields", ""]);
    }

    #[test]
    fn the_head_of_a_column_leads_to_its_next_order() {
        let orders = [("", false), ("oldest", true)];
        let head = |sort: &str| {
            let asked = Asked::of(vec![
                ("state", "failed".to_owned()),
                ("after", "7".to_owned()),
                ("sort", sort.to_owned()),
            ]);
            sorting(&asked, "/list", "Made", &orders).into_string()
        };
        let link =
            |query: &str| format!("<a class=\"sort\" href=\"/list?state=failed{query}\">Made</a></th>");
        assert_eq!(head(""), format!("<th aria-sort=\"descending\">{}", link("&amp;sort=oldest")));
        assert_eq!(head("oldest"), format!("<th aria-sort=\"ascending\">{}", link("")));
        assert_eq!(head("name"), format!("<th>{}", link("")));
    }

    #[test]
    fn any_name_is_shown_as_text() {
        let badge = badge(Tone::Quiet, "<script>alert('x')</script>\" onload=\"");
        assert!(!badge.0.contains("<script") && !badge.0.contains("\" onload"), "{}", badge.0);
    }
}
