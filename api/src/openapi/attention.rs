//! What needs attention, acknowledgements and mutes.

use longshore_domain::attention::{Kind, Mode, Severity};
use longshore_operate::attention::{self, ACKNOWLEDGED_DAYS, What};
use serde_json::json;

use super::example::{ATTENTION, CHANGED, ORGANISATION};
use super::operation::{Operation, operation};
use super::schema::{
    Shape, any_integer, any_text, array_of, body_of, boolean, id, named, object, one_of, or_null, timestamp,
};
use crate::routes::attention as handlers;

/// The operations of this module.
pub(super) fn operations() -> Vec<Operation> {
    let said = json!({
        "line": ATTENTION, "mode": "acknowledged", "sentence": SENTENCE, "by": "jana@harbour.example", "at": CHANGED,
        "until": "2026-03-02T12:30:00.654321+00:00", "reason": "they are moving their servers",
    });
    let line = json!({
        "id": ATTENTION, "kind": "destination", "severity": "critical", "organisation": ORGANISATION, "sentence": SENTENCE,
        "page": "/console/webhook/0192a1b2-7000-7000-8000-000000000007", "cause": CHANGED, "silence": said,
    });
    let off = json!({
        "kind": "webhook", "count": 1, "atLeast": false, "page": "/console/webhook?health=inactive",
        "things": [{
            "name": "https://shop.example/events (Harbour shop)", "page": "/console/webhook/0192a1b2-7000-7000-8000-000000000007",
            "organisation": ORGANISATION, "waiting": {"count": 27, "atLeast": false}, "by": "jana@harbour.example", "at": CHANGED,
        }],
    });
    let to_acknowledge = body_of(&attention::body_to_acknowledge())
        .about("What was seen of a line; the body may be absent.")
        .explain(&[
            (
                "cause",
                "The `cause` of the line that was seen. The line is shown again if its cause is later. Absent: the current one.",
            ),
            ("note", "What others should know."),
        ]);
    let to_mute =
        body_of(&attention::body_to_mute()).about("For how long a line is hidden, and why.").explain(&[
            ("for", "How long the line is hidden: an hour, eight hours, a day or a week."),
            ("reason", "Why; shown with the mute."),
        ]);
    let answers = |operation: Operation| {
        operation
            .schema("Silence", silence())
            .answers(200, "The acknowledgement or the mute.", named("Silence"), Some(said.clone()))
            .refuses(&[409])
    };
    let lasts = format!(
        "The line stays in the list with its `silence`. It counts as new again when its `cause` moves on, and after {ACKNOWLEDGED_DAYS} days. Replaces an acknowledgement or a mute of the line."
    );
    vec![
        operation(handlers::list_attention, "Lists what needs attention")
            .says("Each line is read from what it is about, the worst first. An `id` is the same for as long as the line is about the same thing.")
            .schema("AttentionLine", line_schema())
            .schema("Silence", silence())
            .schema("SwitchedOff", switched_off())
            .schema("SwitchedOffThing", thing())
            .schema("Count", super::activity::counted())
            .schema(
                "Attention",
                object()
                    .about("What needs attention now.")
                    .required("lines", array_of(named("AttentionLine")))
                    .required("absent", array_of(named("Silence")))
                    .required("switchedOff", array_of(named("SwitchedOff")))
                    .explain(&[
                        ("lines", "The lines, the worst first."),
                        ("absent", "Mutes of lines that are not there now."),
                        ("switchedOff", "What people switched off, by kind. Nothing is wrong with it, so it has no line."),
                    ]),
            )
            .answers(
                200,
                "What needs attention now.",
                named("Attention"),
                Some(json!({"lines": [line], "absent": [], "switchedOff": [off]})),
            ),
        answers(operation(handlers::acknowledge_attention, "Acknowledges a line").says(&lasts).body(
            "LineToAcknowledge",
            to_acknowledge,
            json!({"cause": CHANGED, "note": "they are moving their servers"}),
        )),
        answers(
            operation(handlers::mute_attention, "Mutes a line")
                .says("Hides the line for a time, even if something new happens. Replaces an acknowledgement or a mute of the line.")
                .body("LineToMute", to_mute, json!({"for": "8h", "reason": "maintenance of the warehouse until the evening"})),
        ),
        operation(handlers::end_silence, "Ends an acknowledgement or a mute")
            .says("The line does not have to be there.")
            .done(),
    ]
}

const SENTENCE: &str = "shop.example (Harbour shop): 503 for 6 min, 27 waiting.";

fn line_schema() -> Shape {
    object()
        .about("Something that needs attention.")
        .required("id", id())
        .required("kind", one_of(&Kind::WORDS))
        .required("severity", one_of(&Severity::WORDS))
        .required("organisation", or_null(id()))
        .required("sentence", any_text())
        .required("page", any_text())
        .required("cause", or_null(timestamp()))
        .required("silence", or_null(named("Silence")))
        .explain(&[
            ("organisation", "Whose it is; null for a line about the service, and for a sum over what the caller can see."),
            ("sentence", "What is wrong, for people."),
            ("page", "The page of the console that shows it."),
            (
                "cause",
                "A moment that moves on when something new happens: a destination fails again, one more job failed. Null if only the end of the line can be seen.",
            ),
            ("silence", "The acknowledgement or the mute of the line; null if there is none, or its cause has moved on."),
        ])
}

fn switched_off() -> Shape {
    object()
        .about("What of a kind is switched off.")
        .required("kind", one_of(&What::WORDS))
        .required("count", any_integer())
        .required("atLeast", boolean())
        .required("page", any_text())
        .required("things", array_of(named("SwitchedOffThing")))
        .explain(&[
            ("count", "How many there are."),
            ("atLeast", "Whether counting stopped there: there may be more."),
            ("page", "The list of the console that has them."),
            ("things", "Up to 20 of them: those that were changed last, the last one first."),
        ])
}

fn thing() -> Shape {
    object()
        .about("A queue, an integration setting, a warehouse system or a webhook that is switched off.")
        .required("name", any_text())
        .required("page", any_text())
        .required("organisation", or_null(id()))
        .required("waiting", or_null(named("Count")))
        .required("by", or_null(any_text()))
        .required("at", or_null(timestamp()))
        .explain(&[
            ("name", "What it is, for people."),
            ("page", "The page of the console that shows it."),
            ("organisation", "Whose it is; null for a queue."),
            ("waiting", "The deliveries that wait for a webhook; null for everything else."),
            ("by", "Who switched it off; null if the audit does not go back so far."),
            ("at", "When."),
        ])
}

fn silence() -> Shape {
    object()
        .about("An acknowledgement or a mute of a line.")
        .required("line", id())
        .required("mode", one_of(&Mode::WORDS))
        .required("sentence", any_text())
        .required("by", any_text())
        .required("at", timestamp())
        .required("until", timestamp())
        .required("reason", or_null(any_text()))
        .explain(&[
            ("line", "The id of the line."),
            ("sentence", "What the line said then."),
            ("by", "Who acknowledged or muted the line."),
            ("at", "When."),
            ("until", "When it ends."),
            ("reason", "The note, or the reason of the mute."),
        ])
}
