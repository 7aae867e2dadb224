//! Operations for those who run the service or read this document: public, and outside `/api`.

use longshore_kernel::problem;
use serde_json::json;

use super::job::redis;
use super::operation::{JSON, Operation, operation};
use super::schema::{any_integer, any_object, any_text, array_of, exactly, named, object, one_of};
use super::serve;
use super::shared::problem_code;
use crate::routes::{health, index, problem as problems};

/// The operations of this module.
pub(super) fn operations() -> Vec<Operation> {
    let readiness = redis(
        object()
            .about("Whether the process is ready, and the state of its dependencies.")
            .required("status", one_of(&["ready", "unavailable"]))
            .required("postgres", one_of(&["up", "down"])),
    );
    let well = json!({"usedBytes": 1_363_149, "maxBytes": 67_108_864});
    let explanation = object()
        .required("type", any_text())
        .required("code", problem_code())
        .required("status", any_integer())
        .required("title", any_text())
        .required("explanation", any_text());
    let gone = &problem::GONE;
    let page = json!({
        "type": "/problems/gone", "code": gone.code, "status": gone.status, "title": gone.title,
        "explanation": gone.explanation,
    });
    vec![
        operation(health::live, "Checks that the process is alive").answers(
            200,
            "The process is alive.",
            object().required("status", exactly("ok")).called("Liveness"),
            Some(json!({"status": "ok"})),
        ),
        operation(health::ready, "Checks whether the process is ready")
            .says("The process is not ready without Postgres. A missing or full Redis does not fail requests; `redis` reports it.")
            .schema("Readiness", readiness)
            .answers(
                200,
                "The process is ready.",
                named("Readiness"),
                Some(json!({"status": "ready", "postgres": "up", "redis": "up", "redisReason": null, "redisMemory": well})),
            )
            .answers(
                503,
                "The process is not ready.",
                named("Readiness"),
                Some(json!({
                    "status": "unavailable", "postgres": "down", "redis": "up", "redisReason": null, "redisMemory": well,
                })),
            ),
        operation(health::get_metrics, "Returns metrics for Prometheus")
            .says("Metrics of this process, and metrics of the whole service from the database. `Accept` is ignored.")
            .answers_as(200, "Metrics.", "application/openmetrics-text", any_text(), None)
            .refuses(&[500]),
        operation(index::show_index, "Says where everything is")
            .says("A browser, which accepts `text/html`, is led to the console (303).")
            .answers(
                200,
                "The paths of the documentation, of this document, of the explanations of errors and of the console.",
                object()
                    .required("documentation", any_text())
                    .required("document", any_text())
                    .required("problems", any_text())
                    .required("console", any_text())
                    .called("Index"),
                Some(json!({
                    "documentation": "/docs", "document": "/openapi.json", "problems": "/problems", "console": "/console",
                })),
            ),
        operation(problems::list_problems, "Explains every error")
            .says("A browser, which accepts `text/html`, is led to the chapter about errors (303).")
            .schema("ProblemExplanation", explanation)
            .answers(
                200,
                "All errors, by status.",
                object().required("results", array_of(named("ProblemExplanation"))).called("ProblemExplanations"),
                Some(json!({"results": [page]})),
            ),
        operation(problems::describe_problem, "Explains an error")
            .answers(200, "When the error happens, and what the caller can do.", named("ProblemExplanation"), Some(page))
            .refuses(&[404]),
        operation(serve::get_openapi, "Returns this document")
            .answers_as(200, "The document has the OpenAPI 3.1 format.", JSON, any_object(), None)
            .known(),
        operation(serve::show_docs, "Shows the documentation").answers_as(
            200,
            "A page without external resources.",
            "text/html",
            any_text(),
            None,
        )
        .known(),
        operation(serve::show_docs_file, "Shows a chapter, an operation or a schema")
            .answers_as(200, "A page, or a file that all pages use.", "text/html", any_text(), None)
            .or_as(200, "text/css", any_text())
            .or_as(200, "text/javascript", any_text())
            .or_as(200, "image/svg+xml", any_text())
            .or_as(200, JSON, array_of(array_of(any_text())))
            .known()
            .refuses(&[404]),
    ]
}
