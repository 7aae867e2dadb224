//! The test of a connection: the last one with its result, and the confirmation of another.

use chrono::{DateTime, Utc};
use longshore_domain::job::connection::Test;
use longshore_domain::job::kind::JobState;
use maud::{Markup, html};

use super::piece::{Tone, badge, milliseconds, sentence, state, time};

/// The last test of a connection.
pub(super) fn draw(test: Option<&Test>, now: DateTime<Utc>) -> Markup {
    html! {
        p.connection {
            strong { "Connection" } " "
            @match test {
                None => span.muted { "was not tested yet." },
                Some(test) => (tested(test, now)),
            }
        }
    }
}

fn tested(test: &Test, now: DateTime<Utc>) -> Markup {
    html! {
        @match (test.works, &test.message, test.state) {
            (Some(works), Some(message), _) => {
                @if works { (badge(Tone::Good, "works")) } @else { (badge(Tone::Bad, "does not work")) }
                " " (sentence(message)) ". "
                @if let Some(ms) = test.took_ms { span.muted { "It took " (milliseconds(f64::from(ms))) ". " } }
            },
            (.., JobState::Failed) => {
                (badge(Tone::Bad, "not tested")) " " (sentence(test.error.as_deref().unwrap_or("the test failed"))) ". "
            },
            (.., JobState::Cancelled) => { (badge(Tone::Quiet, "not tested")) " The test was cancelled. " },
            (.., other) => {
                (state(other)) " A worker tests it. The result is shown here. "
                @if let Some(error) = &test.error { (sentence(error)) ". " }
            },
        }
        span.muted { "Tested " (time(test.created_at, now)) " by " (test.actor) ", " a href={"/console/job/" (test.job)} { "job" } "." }
    }
}

/// What a test does, for its confirmation.
pub(super) const EXPLANATION: &str = "A worker makes one call with the stored address and credentials. It changes nothing, and its result is shown on the page.";
