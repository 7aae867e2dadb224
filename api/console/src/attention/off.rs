//! What people switched off: quiet, below everything that needs attention.

use chrono::{DateTime, Utc};
use longshore_kernel::figure::AtLeast;
use longshore_operate::attention::{SwitchedOff, Thing, What};
use maud::{Markup, html};

use super::{HERE, Page, title};
use crate::address;
use crate::piece::{Tone, badge, time};

/// Things of a kind that the overview names.
const ON_OVERVIEW: usize = 3;

/// All that is known, for the page with all lines.
pub(super) fn all(found: &[SwitchedOff], now: DateTime<Utc>) -> Markup {
    draw(found, Page::All, usize::MAX, |what| address::of(&what.page()), now)
}

/// The part of the overview; that page has the rest.
pub(super) fn some(found: &[SwitchedOff], now: DateTime<Utc>) -> Markup {
    draw(found, Page::Overview, ON_OVERVIEW, |_| HERE.to_owned(), now)
}

fn draw(
    found: &[SwitchedOff],
    page: Page,
    most: usize,
    rest: impl Fn(What) -> String,
    now: DateTime<Utc>,
) -> Markup {
    html! {
        @if !found.is_empty() {
            div.attention {
                (title(page, "switched-off-title", "Switched off by people"))
                ul.quiet aria-labelledby="switched-off-title" {
                    @for off in found {
                        @for thing in off.things.iter().take(most) { (row(off.what, thing, now)) }
                        @if let Some(more) = more(off, most) {
                            li { a href=(rest(off.what)) { span { "and " (more) } } }
                        }
                    }
                }
            }
        }
    }
}

fn row(what: What, thing: &Thing, now: DateTime<Utc>) -> Markup {
    let (word, of) = match what {
        What::Integration => ("paused", "Integration "),
        What::Warehouse => ("paused", "System of "),
        What::Webhook => ("inactive", "Webhook "),
    };
    html! {
        li {
            a href=(address::of(&thing.page)) {
                (badge(Tone::Quiet, word))
                span { (of) (thing.name) (waiting(thing.waiting)) "." }
            }
            @match (&thing.by, thing.at) {
                (Some(by), Some(at)) => p.muted.said-by { "Switched off by " (by) " " (time(at, now)) "." },
                _ => p.muted.said-by { "Switched off before the audit begins." },
            }
        }
    }
}

fn waiting(waiting: Option<AtLeast>) -> String {
    match waiting {
        Some(AtLeast { count: 1, is_more: false }) => ", 1 delivery waits".to_owned(),
        Some(waiting) if waiting.count > 0 => format!(", {} deliveries wait", waiting.in_words()),
        _ => String::new(),
    }
}

/// How many more there are than are named.
fn more(off: &SwitchedOff, most: usize) -> Option<String> {
    let named = i64::try_from(off.things.len().min(most)).unwrap_or(i64::MAX);
    let more = AtLeast { count: off.count.count - named, is_more: off.count.is_more };
    if more.count <= 0 {
        return None;
    }
    let (one, many) = match off.what {
        What::Integration => ("integration", "integrations"),
        What::Warehouse => ("warehouse system", "warehouse systems"),
        What::Webhook => ("webhook", "webhooks"),
    };
    Some(format!("{} more {}", more.in_words(), if more.count == 1 { one } else { many }))
}
