//! The periods until now that one click chooses: `hours=6` in the address of a list, or of a replay.

use chrono::{DateTime, TimeDelta, Utc};
use longshore_kernel::problem::Problem;
use maud::{Markup, html};

use super::form::Asked;

/// The name of the choice in an address.
pub(super) const FIELD: &str = "hours";

/// The values of the choice, hours, and their names.
const PERIODS: [(&str, i64, &str); 4] = [
    ("1", 1, "Last hour"),
    ("6", 6, "Last 6 hours"),
    ("24", 24, "Last 24 hours"),
    ("168", 168, "Last 7 days"),
];

/// When the chosen period begins.
pub(super) fn since(asked: &Asked, now: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, Problem> {
    asked.among(FIELD, |chosen| {
        let (_, hours, _) = PERIODS.iter().find(|(word, ..)| *word == chosen)?;
        Some(now - TimeDelta::hours(*hours))
    })
}

/// When a search begins: at the moment that was written down, or with the chosen period.
pub(super) fn or_since(asked: &Asked, now: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, Problem> {
    let chosen = since(asked, now)?;
    Ok(asked.moment("since")?.or(chosen))
}

/// A search that stays as it is while time goes on: the moment at which the chosen period begins is written down.
pub(super) fn fixed(asked: &Asked, now: DateTime<Utc>) -> Result<Asked, Problem> {
    let since = or_since(asked, now)?.map(|since| since.format("%Y-%m-%dT%H:%M:%S").to_string());
    let others = asked.0.iter().filter(|(name, _)| name != FIELD && name != "since").cloned();
    Ok(Asked(others.chain(since.map(|since| ("since".to_owned(), since))).collect()))
}

/// The choice; the rest of the search is kept, but not `without`.
pub(super) fn choice(asked: &Asked, here: &str, without: &[&str]) -> Markup {
    let without: Vec<&str> = without.iter().copied().chain(["since", "until", FIELD]).collect();
    // a period that was written down comes before
    let chosen = asked.get(FIELD).filter(|_| asked.get("since").is_none());
    html! {
        nav.switch aria-label="Period until now" {
            @for (word, _, name) in PERIODS {
                a href=(asked.address(here, &without, &[(FIELD, word)])) aria-current=[(chosen == Some(word)).then_some("true")] { (name) }
            }
        }
    }
}
