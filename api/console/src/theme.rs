//! The theme of the pages: that of the system, or the one that the visitor chose. The browser keeps the choice in a cookie; it says
//! nothing about the visitor, and the service stores nothing.

use http::HeaderMap;

use super::cookie;

/// Name of the cookie.
const NAME: &str = "longshore_theme";
/// Seconds for which the browser keeps it: a year.
const LIFE: u32 = 31_536_000;

/// A theme.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Theme {
    #[default]
    System,
    Light,
    Dark,
}

impl Theme {
    /// Each with its word and its name.
    pub(super) const ALL: [(Self, &'static str, &'static str); 3] =
        [(Self::System, "system", "System"), (Self::Light, "light", "Light"), (Self::Dark, "dark", "Dark")];

    /// The one of a word.
    pub(super) fn of(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, _)| *known == word).map(|(theme, ..)| *theme)
    }

    /// The one that a browser sends.
    pub(super) fn chosen(headers: &HeaderMap) -> Self {
        cookie::read(headers, NAME).and_then(Self::of).unwrap_or_default()
    }

    /// Its word, where it is not that of the system.
    pub(super) fn forced(self) -> Option<&'static str> {
        let row = Self::ALL.iter().find(|(theme, ..)| *theme == self && self != Self::System);
        row.map(|(_, word, _)| *word)
    }

    /// The cookie by which the browser keeps it; that of the system ends what was chosen.
    pub(super) fn kept(self) -> String {
        let (word, life) = self.forced().map_or(("", 0), |word| (word, LIFE));
        format!("{NAME}={word}; Path=/console; Max-Age={life}; HttpOnly; SameSite=Strict")
    }
}
