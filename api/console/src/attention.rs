//! What needs attention: the part of the overview, a page with all of it, acknowledging and muting.

pub(super) mod control;
mod off;

use std::collections::HashMap;

use axum::response::Response;
use chrono::{DateTime, Utc};
use longshore_domain::attention::{Kind, Line, Mode, Severity, Silence};
use longshore_http::extract::{Failure, permit};
use longshore_kernel::access::Permission;
use longshore_operate::attention::{Attention, SwitchedOff};
use longshore_operate::snapshots::Snapshots;
use maud::{Markup, html};
use uuid::Uuid;

use super::address;
use super::form::Asked;
use super::layout::Section;
use super::piece::{Tone, badge, empty, time};
use super::visit::Visit;

const HERE: &str = "/console/attention";

/// A page with lines, to which the confirmations lead back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Overview,
    All,
    Orders,
}

impl Page {
    /// The pages, each with its word in an address.
    const ALL: [(Self, &'static str, &'static str); 3] = [
        (Self::Overview, "overview", "/console"),
        (Self::All, "all", HERE),
        (Self::Orders, "orders", "/console/order/attention"),
    ];

    fn row(self) -> (&'static str, &'static str) {
        let row = Self::ALL.iter().find(|(page, ..)| *page == self);
        row.map_or(("overview", "/console"), |(_, word, address)| (*word, *address))
    }

    /// The page that a confirmation came from.
    fn of(asked: &Asked) -> Self {
        let word = asked.get("from");
        Self::ALL.iter().find(|(_, known, _)| word == Some(*known)).map_or(Self::Overview, |(page, ..)| *page)
    }
}

/// Lines of one kind, each about one destination, warehouse, e-shop or job, that the overview shows.
const OF_A_KIND: usize = 5;

/// `GET /console/attention`.
pub(super) async fn show(visit: Visit<permit::ReadQueues>) -> Result<Response, Failure> {
    let (look, found) = visit.app.kept::<Snapshots>().attention(visit.services(), visit.scope()).await?;
    let content = html! {
        p.trail { a href="/console" { "Overview" } }
        h1 { "Needs attention" }
        (parts(&visit, &found, Page::All))
        (off::all(&look.off, visit.now()))
    };
    Ok(visit.page(Section::Overview, "Needs attention", &content))
}

/// The part of the overview.
pub(super) fn draw(visit: &Visit<permit::ReadQueues>, found: &Attention, off: &[SwitchedOff]) -> Markup {
    html! {
        section.attention aria-labelledby="attention-title" {
            h2 #attention-title { "Needs attention" }
            (parts(visit, found, Page::Overview))
            (off::some(off, visit.now()))
        }
    }
}

/// The part of the page of orders.
pub(super) fn of_orders<P>(visit: &Visit<P>, found: &Attention) -> Markup {
    html! { section aria-label="What to acknowledge or mute" { (parts(visit, found, Page::Orders)) } }
}

/// What is new, what was acknowledged, and what is muted.
fn parts<P>(visit: &Visit<P>, found: &Attention, page: Page) -> Markup {
    let of_a_kind = if page == Page::Overview { OF_A_KIND } else { usize::MAX };
    let of = |mode: Option<Mode>| {
        let is_of = move |line: &&Line| line.silence.as_ref().map(|silence| silence.mode) == mode;
        found.lines.iter().filter(is_of).collect::<Vec<_>>()
    };
    let (shown, more) = first_of_each_kind(of(None), of_a_kind);
    let (seen, muted) = (of(Some(Mode::Acknowledged)), of(Some(Mode::Muted)));
    let now = visit.now();
    html! {
        div.attention {
            @if shown.is_empty() {
                (empty("No new problems.", "Problems are listed here, the most severe first."))
            } @else {
                ul { @for line in shown { (row(visit, line, page, now)) } }
            }
            @if more > 0 { p { a href=(HERE) { (more) " more" } } }
            @if !seen.is_empty() {
                (title(page, "acknowledged-title", "Acknowledged"))
                ul.quiet aria-labelledby="acknowledged-title" { @for line in seen { (row(visit, line, page, now)) } }
            }
            @if !muted.is_empty() || !found.absent.is_empty() {
                (title(page, "muted-title", "Muted"))
                ul.quiet aria-labelledby="muted-title" {
                    @for line in muted { (row(visit, line, page, now)) }
                    @for silence in &found.absent { (absent(visit, silence, page, now)) }
                }
            }
        }
    }
}

/// The title of a group of lines, which are a section of the overview and elsewhere a page of their own.
fn title(page: Page, id: &str, text: &str) -> Markup {
    match page {
        Page::Overview => html! { h3 id=(id) { (text) } },
        Page::All | Page::Orders => html! { h2 id=(id) { (text) } },
    }
}

/// The first lines of each kind that can have many, and how many are left out.
fn first_of_each_kind(lines: Vec<&Line>, of_a_kind: usize) -> (Vec<&Line>, usize) {
    let mut seen: HashMap<Kind, usize> = HashMap::new();
    let all = lines.len();
    let is_first = |line: &&Line| {
        let seen = seen.entry(line.kind).or_default();
        *seen += 1;
        !line.kind.is_of_one() || *seen <= of_a_kind
    };
    let shown: Vec<_> = lines.into_iter().filter(is_first).collect();
    let more = all - shown.len();
    (shown, more)
}

pub(super) fn tone(severity: Severity) -> Tone {
    match severity {
        Severity::Critical => Tone::Bad,
        Severity::Warning => Tone::Warn,
    }
}

fn row<P>(visit: &Visit<P>, line: &Line, page: Page, now: DateTime<Utc>) -> Markup {
    let may = visit.can(Permission::WriteAttention) && line.is_of(visit.scope());
    let address = |action: &str| address(line.id, action, page);
    let tone = if line.silence.is_some() { Tone::Quiet } else { tone(line.severity) };
    html! {
        li {
            a href=(address::of(&line.page)) { (badge(tone, line.word)) span { (line.sentence) } }
            @if let Some(silence) = &line.silence { (said(silence, now)) }
            @if may {
                div.buttons {
                    @if line.silence.is_some() {
                        a.button href=(address("end")) data-ask="" { "End" span.hidden { " " (line.sentence) } }
                    } @else {
                        a.button href=(address("acknowledge")) data-ask="" { "Acknowledge" span.hidden { " " (line.sentence) } }
                        a.button href=(address("mute")) data-ask="" { "Mute" span.hidden { " " (line.sentence) } }
                    }
                }
            }
        }
    }
}

/// The confirmation of an action with a line; it leads back to where it was asked for.
fn address(line: Uuid, action: &str, page: Page) -> String {
    match page {
        Page::Overview => format!("{HERE}/{line}/{action}"),
        _ => format!("{HERE}/{line}/{action}?from={}", page.row().0),
    }
}

/// A mute of a line that is not there now.
fn absent<P>(visit: &Visit<P>, silence: &Silence, page: Page, now: DateTime<Utc>) -> Markup {
    let is_own = silence.organisation.is_some() || visit.scope().organisations().is_none();
    html! {
        li {
            p { (badge(Tone::Quiet, "not there now")) span { (silence.sentence) } }
            (said(silence, now))
            @if visit.can(Permission::WriteAttention) && is_own {
                div.buttons { a.button href=(address(silence.line, "end", page)) data-ask="" { "End" span.hidden { " " (silence.sentence) } } }
            }
        }
    }
}

/// An acknowledgement or a mute in words.
pub(super) fn said(silence: &Silence, now: DateTime<Utc>) -> Markup {
    html! {
        p.muted.said-by {
            @match silence.mode {
                Mode::Acknowledged => { (silence.by) " has seen it " (time(silence.at, now)) },
                Mode::Muted => { "muted by " (silence.by) " " (time(silence.at, now)) ", ends " (time(silence.until, now)) },
            }
            @match &silence.reason { Some(reason) => { ": " (reason) }, None => "." }
        }
    }
}
