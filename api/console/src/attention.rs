//! What needs attention: the part of the overview, a page with all of it, acknowledging and muting.

pub(super) mod control;

use std::collections::HashMap;

use axum::response::Response;
use chrono::{DateTime, Utc};
use longshore_http::extract::{Failure, permit};
use longshore_shared::kernel::access::Permission;
use longshore_shared::operate::attention::{self, Attention, Kind, Line, Mode, Severity, Silence};
use longshore_shared::operate::standing;
use maud::{Markup, html};

use super::layout::Section;
use super::piece::{Tone, badge, empty, time};
use super::visit::Visit;

const HERE: &str = "/console/attention";

/// Lines of one kind, each about one destination, warehouse, e-shop or job, that the overview shows.
const OF_A_KIND: usize = 5;

/// `GET /console/attention`.
pub(super) async fn show(visit: Visit<permit::ReadQueues>) -> Result<Response, Failure> {
    let stands = standing::read(visit.services()).await?;
    let found = attention::read(visit.services(), visit.scope(), &stands).await?;
    let content = html! {
        p.trail { a href="/console" { "Overview" } }
        h1 { "Needs attention" }
        (parts(&visit, &found, usize::MAX))
    };
    Ok(visit.page(Section::Overview, "Needs attention", &content))
}

/// The part of the overview.
pub(super) fn draw(visit: &Visit<permit::ReadQueues>, found: &Attention) -> Markup {
    html! {
        section.attention aria-labelledby="attention-title" {
            h2 #attention-title { "Needs attention" }
            (parts(visit, found, OF_A_KIND))
        }
    }
}

/// What is new, what was acknowledged, and what is muted.
fn parts(visit: &Visit<permit::ReadQueues>, found: &Attention, of_a_kind: usize) -> Markup {
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
                ul { @for line in shown { (row(visit, line, now)) } }
            }
            @if more > 0 { p { a href=(HERE) { (more) " more" } } }
            @if !seen.is_empty() {
                h3 #acknowledged-title { "Acknowledged" }
                ul.quiet aria-labelledby="acknowledged-title" { @for line in seen { (row(visit, line, now)) } }
            }
            @if !muted.is_empty() || !found.absent.is_empty() {
                h3 #muted-title { "Muted" }
                ul.quiet aria-labelledby="muted-title" {
                    @for line in muted { (row(visit, line, now)) }
                    @for silence in &found.absent { (absent(visit, silence, now)) }
                }
            }
        }
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

fn row(visit: &Visit<permit::ReadQueues>, line: &Line, now: DateTime<Utc>) -> Markup {
    let may = visit.can(Permission::WriteAttention) && line.is_of(visit.scope());
    let path = format!("{HERE}/{}", line.id);
    let tone = if line.silence.is_some() { Tone::Quiet } else { tone(line.severity) };
    html! {
        li {
            a href=(line.page) { (badge(tone, line.word)) span { (line.sentence) } }
            @if let Some(silence) = &line.silence { (said(silence, now)) }
            @if may {
                div.buttons {
                    @if line.silence.is_some() {
                        a.button href={(path) "/end"} data-ask="" { "End" span.hidden { " " (line.sentence) } }
                    } @else {
                        a.button href={(path) "/acknowledge"} data-ask="" { "Acknowledge" span.hidden { " " (line.sentence) } }
                        a.button href={(path) "/mute"} data-ask="" { "Mute" span.hidden { " " (line.sentence) } }
                    }
                }
            }
        }
    }
}

/// A mute of a line that is not there now.
fn absent(visit: &Visit<permit::ReadQueues>, silence: &Silence, now: DateTime<Utc>) -> Markup {
    let is_own = silence.organisation.is_some() || visit.scope().organisations().is_none();
    html! {
        li {
            p { (badge(Tone::Quiet, "not there now")) span { (silence.sentence) } }
            (said(silence, now))
            @if visit.can(Permission::WriteAttention) && is_own {
                div.buttons { a.button href={(HERE) "/" (silence.line) "/end"} data-ask="" { "End" span.hidden { " " (silence.sentence) } } }
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
