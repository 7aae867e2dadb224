//! The theme of the pages: that of the system, or the one that the visitor chose. The browser keeps the choice in a cookie; it says
//! nothing about the visitor, and the service stores nothing.

use axum::response::{IntoResponse as _, Redirect, Response};
use http::header::SET_COOKIE;
use http::{HeaderMap, HeaderValue};
use longshore_http::extract::{Failure, permit};
use longshore_shared::kernel::problem::Problem;
use maud::{Markup, html};

use super::form::FORM_TOKEN;
use super::layout::Chrome;
use super::session;
use super::visit::Act;

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
    const ALL: [(Self, &'static str, &'static str); 3] =
        [(Self::System, "system", "System"), (Self::Light, "light", "Light"), (Self::Dark, "dark", "Dark")];

    fn of(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, _)| *known == word).map(|(theme, ..)| *theme)
    }

    /// The one that a browser sends.
    pub(super) fn chosen(headers: &HeaderMap) -> Self {
        session::cookie(headers, NAME).and_then(Self::of).unwrap_or_default()
    }

    /// Its word, where it is not that of the system.
    pub(super) fn forced(self) -> Option<&'static str> {
        let row = Self::ALL.iter().find(|(theme, ..)| *theme == self && self != Self::System);
        row.map(|(_, word, _)| *word)
    }
}

/// The choice, in the footer.
pub(super) fn choice(chrome: &Chrome<'_>) -> Markup {
    html! {
        form.theme method="post" action="/console/theme" aria-label="Theme" {
            input type="hidden" name=(FORM_TOKEN) value=(chrome.form_token);
            input type="hidden" name="back" value=(chrome.here);
            @for (theme, word, name) in Theme::ALL {
                button.plain type="submit" name="to" value=(word) aria-pressed=[(theme == chrome.theme).then_some("true")] { (name) }
            }
        }
    }
}

/// `POST /console/theme`: the page that it came from, in the theme.
pub(super) async fn set(act: Act<permit::Read>) -> Result<Response, Failure> {
    let unknown = || Problem::violation("to", "invalid_value", "is not one of the options");
    let (theme, word, _) = act
        .form
        .get("to")
        .and_then(Theme::of)
        .and_then(|wanted| Theme::ALL.into_iter().find(|(theme, ..)| *theme == wanted))
        .ok_or_else(unknown)?;
    let back = act.form.get("back").filter(|back| session::is_ours(back)).unwrap_or("/console");
    let life = if theme == Theme::System { 0 } else { LIFE };
    let cookie = format!("{NAME}={word}; Path=/console; Max-Age={life}; HttpOnly; SameSite=Strict");
    let mut set = HeaderMap::new();
    set.insert(SET_COOKIE, HeaderValue::try_from(cookie).map_err(Problem::internal)?);
    Ok((set, Redirect::to(back)).into_response())
}
