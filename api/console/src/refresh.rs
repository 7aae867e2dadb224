//! The refresh of lists: with `refresh=5` in its address, a list is read again every five seconds, by the stream of
//! [`live`](super::live), and without script by the browser.

use std::time::Duration;

use maud::{Markup, html};

use super::form::{Asked, OF_ACTION};

/// The name of the choice in an address.
const FIELD: &str = "refresh";

/// The values of the choice, seconds, and their names.
const CHOICES: [(&str, u64, &str); 3] = [("", 0, "off"), ("5", 5, "5 s"), ("30", 30, "30 s")];

/// How often a page is read again; nothing: it is not, or as often as others are.
pub(super) fn every(asked: &Asked) -> Option<Duration> {
    let chosen = asked.get(FIELD)?;
    let (_, seconds, _) = CHOICES.iter().find(|(word, ..)| *word == chosen)?;
    Some(Duration::from_secs(*seconds))
}

/// The choice, on the page of a list.
pub(super) fn choice(asked: &Asked, here: &str) -> Markup {
    let chosen = every(asked).unwrap_or_default().as_secs();
    let address = |word: &str| {
        let with = [(FIELD, word)];
        let without: Vec<&str> = OF_ACTION.into_iter().chain([FIELD]).collect();
        asked.address(here, &without, if word.is_empty() { &[] } else { &with })
    };
    html! {
        nav.switch.refresh aria-label="Refresh of the list" {
            span.muted aria-hidden="true" { "Refresh" }
            @for (word, seconds, name) in CHOICES {
                a href=(address(word)) aria-current=[(seconds == chosen).then_some("true")] { (name) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_chosen_refreshes_a_page() {
        let asked = |value: &str| Asked::of(vec![(FIELD, value.to_owned())]);
        assert_eq!(every(&asked("5")), Some(Duration::from_secs(5)));
        assert_eq!(every(&asked("30")), Some(Duration::from_secs(30)));
        for other in ["", "0", "1", "off", "-5"] {
            assert_eq!(every(&asked(other)), None, "{other}");
        }
        assert_eq!(every(&Asked::default()), None);
    }
}
