//! Acknowledging and muting a line, and ending that.

use axum::response::Response;
use chrono::SecondsFormat;
use longshore_domain::attention::Line;
use longshore_http::extract::{Failure, Id, permit};
use longshore_kernel::answer::Answer;
use longshore_kernel::problem::{NOT_FOUND, Problem};
use longshore_operate::attention::{self, ACKNOWLEDGED_DAYS, REASON_LENGTH, SPANS};
use maud::{Markup, html};
use serde_json::{Value, json};
use uuid::Uuid;

use super::Page;
use crate::form::Asked;
use crate::layout::Section;
use crate::piece::{badge, options, worded};
use crate::visit::{Act, Done, Question, Visit, done};

type Asking = Visit<permit::WriteAttention>;
type Acting = Act<permit::WriteAttention>;

fn path(id: Uuid, action: &str) -> String {
    format!("{}/{id}/{action}", super::HERE)
}

async fn find(visit: &Asking, id: Uuid) -> Result<Line, Problem> {
    attention::find(visit.services(), visit.scope(), id).await
}

/// The page that a confirmation leads back to, and the field that remembers it.
fn back(asked: &Asked) -> (&'static str, Markup) {
    let (word, address) = Page::of(asked).row();
    (address, html! { input type="hidden" name="from" value=(word); })
}

/// The page that a confirmation came from, after it was answered.
fn answered(page: Page, answer: Result<Answer, Problem>, done_so: Done) -> Result<Response, Failure> {
    match answer {
        Ok(_) => Ok(done(page.row().1, done_so, None)),
        Err(problem) => over(page, problem),
    }
}

/// The same page with word that the line is over, where that is the problem.
fn over(page: Page, problem: Problem) -> Result<Response, Failure> {
    if problem.kind() == &NOT_FOUND {
        Ok(done(page.row().1, Done::LineOver, None))
    } else {
        Err(problem.into())
    }
}

fn line_in_words(line: &Line) -> Markup {
    html! { p { (badge(super::tone(line.severity), line.word)) " " (line.sentence) } }
}

/// `GET /console/attention/{id}/acknowledge`.
pub(crate) async fn ask_acknowledge(Id(id): Id, visit: Asking) -> Result<Response, Failure> {
    let line = match find(&visit, id).await {
        Ok(line) => line,
        Err(problem) => return over(Page::of(&visit.asked), problem),
    };
    let (back, from) = back(&visit.asked);
    let cause = line.cause.map(|cause| cause.to_rfc3339_opts(SecondsFormat::Micros, false));
    let explanation = html! {
        (line_in_words(&line))
        p.muted { "The line moves below the others, with your name. It comes back when something new happens, and after " (ACKNOWLEDGED_DAYS) " days." }
    };
    let fields = html! {
        (from)
        input type="hidden" name="cause" value=[cause];
        (worded(&visit.asked, &visit.refused, "note", "Note", REASON_LENGTH))
    };
    Ok(visit.ask_for(
        Section::Overview,
        &Question {
            title: "Acknowledge?",
            explanation,
            button: "Acknowledge",
            is_grave: false,
            action: &path(id, "acknowledge"),
            back,
            fields,
        },
        &["note"],
    ))
}

/// `POST /console/attention/{id}/acknowledge`.
pub(crate) async fn acknowledge(Id(id): Id, act: Acting) -> Result<Response, Failure> {
    let cause = act.form.get("cause").map_or(Value::Null, Value::from);
    let body = json!({"cause": cause, "note": act.form.text("note")?});
    let answer = attention::acknowledge(act.visit.services(), &act.visit.may, id, Some(body)).await;
    answered(Page::of(&act.form), answer, Done::Acknowledged)
}

/// `GET /console/attention/{id}/mute`.
pub(crate) async fn ask_mute(Id(id): Id, visit: Asking) -> Result<Response, Failure> {
    let line = match find(&visit, id).await {
        Ok(line) => line,
        Err(problem) => return over(Page::of(&visit.asked), problem),
    };
    let (back, from) = back(&visit.asked);
    let explanation = html! {
        (line_in_words(&line))
        p.muted { "The line moves to the muted ones for that time, even if something new happens." }
    };
    let fields = html! {
        (from)
        (options(&visit.asked, &visit.refused, "for", "For", SPANS.iter().map(|(word, _)| (*word, span_in_words(word)))))
        (worded(&visit.asked, &visit.refused, "reason", "Reason", REASON_LENGTH))
    };
    Ok(visit.ask_for(
        Section::Overview,
        &Question {
            title: "Mute?",
            explanation,
            button: "Mute",
            is_grave: false,
            action: &path(id, "mute"),
            back,
            fields,
        },
        &["for", "reason"],
    ))
}

fn span_in_words(span: &str) -> &str {
    match span {
        "1h" => "1 hour",
        "8h" => "8 hours",
        "24h" => "24 hours",
        "7d" => "7 days",
        other => other,
    }
}

/// `POST /console/attention/{id}/mute`.
pub(crate) async fn mute(Id(id): Id, act: Acting) -> Result<Response, Failure> {
    let mut body = serde_json::Map::new();
    for name in ["for", "reason"] {
        if let Some(text) = act.form.text(name)? {
            body.insert(name.to_owned(), Value::from(text));
        }
    }
    let answer = attention::mute(act.visit.services(), &act.visit.may, id, Value::Object(body)).await;
    answered(Page::of(&act.form), answer, Done::Muted)
}

/// `GET /console/attention/{id}/end`.
pub(crate) async fn ask_end(Id(id): Id, visit: Asking) -> Result<Response, Failure> {
    let (back, from) = back(&visit.asked);
    let silence = attention::said(visit.services(), visit.scope(), id).await?;
    let explanation = html! {
        p { (silence.sentence) }
        (super::said(&silence, visit.now()))
        p.muted { "The line is shown with the others as long as it is there." }
    };
    Ok(visit.ask(
        Section::Overview,
        &Question {
            title: "End it?",
            explanation,
            button: "End",
            is_grave: false,
            action: &path(id, "end"),
            back,
            fields: from,
        },
    ))
}

/// `POST /console/attention/{id}/end`.
pub(crate) async fn end(Id(id): Id, act: Acting) -> Result<Response, Failure> {
    attention::end(act.visit.services(), &act.visit.may, id).await?;
    Ok(done(Page::of(&act.form).row().1, Done::SilenceEnded, None))
}
