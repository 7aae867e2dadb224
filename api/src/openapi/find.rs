//! The search for anything.

use longshore_operate::find::{self, Kind, SHOWN};
use serde_json::json;

use super::example::EXPEDITION;
use super::operation::{Operation, operation};
use super::schema::{Shape, any_text, array_of, body_of, id, named, object, one_of, or_null};
use crate::routes::find as handlers;

/// The operations of this module.
pub(super) fn operations() -> Vec<Operation> {
    let wanted = body_of(&find::body())
        .about("What is looked for.")
        .explain(&[("text", "A name, a number, an address or an id. Blanks around it are ignored.")]);
    vec![
        operation(handlers::find_anything, "Finds anything by what people call it")
            .says(&format!(
                "The search of the console: orders by number, external id and tracking number; products by SKU and the beginning of the name; webhooks by destination; jobs by request; deliveries by `webhook-id`; all by id, and what has a name by that. At most {SHOWN} of a kind."
            ))
            .body("TextToFind", wanted, json!({"text": "2026-0117"}))
            .schema("Hit", hit())
            .schema(
                "Hits",
                object()
                    .about("What was found.")
                    .required("results", array_of(named("Hit")))
                    .required("more", array_of(one_of(&Kind::WORDS)))
                    .explain(&[("results", "The hits, kind by kind."), ("more", "The kinds that have more hits than are returned.")]),
            )
            .answers(
                200,
                "The hits.",
                named("Hits"),
                Some(json!({
                    "results": [{"kind": "order", "id": EXPEDITION, "name": "2026-0117", "of": "Harbour shop"}],
                    "more": [],
                })),
            ),
    ]
}

fn hit() -> Shape {
    object()
        .about("Something that was found.")
        .required("kind", one_of(&Kind::WORDS))
        .required("id", id())
        .required("name", any_text())
        .required("of", or_null(any_text()))
        .explain(&[
            ("kind", "What it is. `order` is an expedition, `request` an audited request, `entity` another audited record."),
            ("id", "Its id. Of `request`, the id of its newest audit record."),
            ("name", "What people call it: a number, a name, an address."),
            ("of", "Where it belongs, such as the name of its e-shop."),
        ])
}
