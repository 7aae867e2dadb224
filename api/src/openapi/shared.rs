//! Parts that many operations share: errors, headers, parameters, the security scheme, the page of a list, the ids of a bulk.

use std::collections::BTreeMap;

use longshore_domain::job::acceptance;
use longshore_http::extract::arriving::CODINGS;
use longshore_kernel::input::Rule as _;
use longshore_kernel::problem::{self, Kind};
use serde_json::{Value, json};
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::path::{ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::ComponentsBuilder;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, HeaderBuilder, Ref, RefOr, Required, Response, ResponseBuilder};

use super::example::PRODUCT;
use super::record;
use super::schema::{
    AMOUNT, ID, Said, Says, VERSION, about, accepted, amount_schema, any_integer, any_text, array_of,
    boolean, exactly, id, identifier, named, object, one_of, or_null, pattern, schema_called, text,
};

/// Name of the one security scheme.
pub(super) const SCHEME: &str = "accessToken";

/// The statuses that depend on the state of a record. Any operation may refuse a request with the others: they are the `default` of
/// each.
const OF_RECORDS: [u16; 5] = [304, 409, 410, 412, 422];

/// The name of the response with a status: that of its member of an operation's responses, and that of the shared response.
pub(super) fn name(status: u16) -> String {
    if OF_RECORDS.contains(&status) { status.to_string() } else { "default".to_owned() }
}

/// Declares all shared parts.
pub(super) fn declare(mut components: ComponentsBuilder) -> ComponentsBuilder {
    components = components
        .security_scheme(
            SCHEME,
            SecurityScheme::Http(
                HttpBuilder::new()
                    .scheme(HttpAuthScheme::Bearer)
                    .bearer_format("lsh_…")
                    .description(Some(
                        "`Authorization: Bearer lsh_…`. Each operation names the roles that may call it.",
                    ))
                    .build(),
            ),
        )
        .schema(ID, identifier())
        .schema(
            VERSION,
            about(any_integer(), "Increases with each visible change of the record. It is also the `ETag`."),
        )
        .schema(AMOUNT, amount_schema())
        .schema("Problem", problem_schema())
        .schema("Violation", violation_schema())
        .schema("Paging", paging());
    for (name, schema) in record::list_schemas() {
        components = components.schema(name, schema);
    }
    for (name, header, description) in HEADERS {
        let header = HeaderBuilder::new().description(Some(*description)).schema(Some(header())).build();
        components = components.header(*name, RefOr::T(header));
    }
    for (key, name, schema, description) in PARAMETERS {
        let parameter = ParameterBuilder::new()
            .name(*name)
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some(*description))
            .schema(Some(schema()))
            .build();
        components = components.parameter(*key, RefOr::T(parameter));
    }
    for (key, name, description) in WEBHOOK_HEADERS {
        let parameter = ParameterBuilder::new()
            .name(*name)
            .parameter_in(ParameterIn::Header)
            .required(Required::True)
            .description(Some(*description))
            .schema(Some(any_text()))
            .build();
        components = components.parameter(*key, RefOr::T(parameter));
    }
    components = components.parameter(
        ID,
        RefOr::T(
            ParameterBuilder::new()
                .name("id")
                .parameter_in(ParameterIn::Path)
                .required(Required::True)
                .schema(Some(id()))
                .build(),
        ),
    );
    let mut by_name: BTreeMap<String, Vec<&Kind>> = BTreeMap::new();
    for kind in problem::ALL {
        by_name.entry(name(kind.status)).or_default().push(kind);
    }
    for (name, kinds) in by_name {
        components = components.response(name, refusal(&kinds));
    }
    components.response(name(304), unchanged())
}

/// Headers of an answer with a version.
pub(super) const OF_A_VERSION: &[&str] = &["ETag"];

/// The answer to a caller that already has the version.
fn unchanged() -> Response {
    let response = ResponseBuilder::new().description("The caller already has this version.");
    OF_A_VERSION.iter().fold(response, |response, name| response.header_ref(*name, header(name))).build()
}

/// Headers of answers.
const HEADERS: &[(&str, Says, &str)] = &[
    ("Location", any_text, "Path of the record or job."),
    (
        "ETag",
        || pattern(3..=68, "^(W/)?\"[0-9a-f]+\"$"),
        "The version of the response, for `If-Match` and `If-None-Match`. For a record it is its `version` in quotes. Weak (`W/`) if the response is compressed.",
    ),
    ("X-Request-Id", request_id, "The id of the request in the service's log."),
    ("Retry-After", any_integer, "Seconds to wait before the next attempt."),
    ("Preference-Applied", any_text, "The preference in `Prefer` that was applied."),
    ("WWW-Authenticate", || exactly("Bearer"), "How to authenticate."),
    ("Accept-Encoding", || exactly(CODINGS), "The supported codings, if the coding of the body was refused."),
];

/// Headers of requests: the key, the name, the schema, the purpose.
const PARAMETERS: &[(&str, &str, Says, &str)] = &[
    (
        "IdempotencyKey",
        "Idempotency-Key",
        || pattern(1..=255, "^[!#-~]+$"),
        "Makes it safe to repeat the request: for 24 hours, the same key returns the first response, then with `Idempotent-Replayed: true`.",
    ),
    (
        "Prefer",
        "Prefer",
        || pattern(1..=64, "^(respond-async|wait=[0-9]{1,9})$"),
        "`respond-async` returns at once; `wait=n` waits up to n seconds (at most 60) for the job to end (RFC 7240).",
    ),
    (
        "IfMatch",
        "If-Match",
        || pattern(1..=64, "^(\\*|(W/)?\"[0-9a-f]+\")$"),
        "The `ETag` of the version to change. If the record has another version, the request is refused with 412.",
    ),
    (
        "IfNoneMatch",
        "If-None-Match",
        || pattern(1..=80, "^(\\*|(W/)?\"[0-9a-f]+\")$"),
        "The `ETag` that the caller has. If it is current, the response is 304 without a body.",
    ),
];

/// Headers of a call: the key, the name, the purpose.
pub(super) const WEBHOOK_HEADERS: &[(&str, &str, &str)] = &[
    ("WebhookId", "webhook-id", "The id of the event. It is the same on every retry."),
    ("WebhookTimestamp", "webhook-timestamp", "When the call was sent, in Unix seconds."),
    ("WebhookSignature", "webhook-signature", "`v1,` and the signature, for every valid secret."),
];

fn request_id() -> Said {
    pattern(1..=64, "^[A-Za-z0-9._:-]+$")
}

/// Page of a list.
fn paging() -> Said {
    object()
        .about("The position of the page in the list.")
        .required("returned", about(any_integer(), "Records on this page."))
        .required("from", about(any_integer(), "Position of the first record on the page."))
        .required("to", about(any_integer(), "Position after the last record on the page."))
        .required("total", about(or_null(any_integer()), "All matching records."))
        .optional("totalAtLeast", about(boolean(), "There are more than `total`."))
        .required("next", about(or_null(any_text()), "The `after` of the next page; null at the end."))
        .into()
}

/// The ids of a bulk; duplicates are ignored.
pub(super) fn ids() -> Said {
    accepted(&acceptance::ids().schema())
}

fn violation_schema() -> Said {
    object()
        .about("One violated rule of one field.")
        .required(
            "propertyPath",
            about(any_text(), "Path of the field in the body, such as `items[0].quantity`."),
        )
        .required("message", about(any_text(), "What is wrong, for people."))
        .required("code", about(any_text(), "What is wrong, for programs."))
        .required(
            "parameters",
            object()
                .about("Values for your own messages.")
                .required(
                    "{{ value }}",
                    about(
                        any_text(),
                        "The refused value as text, at most 100 characters. `***` for a secret, `array` or `object` for those types, and empty if there is no value.",
                    ),
                )
                .optional(
                    "{{ id }}",
                    about(id(), "With `already_taken`: the id of the record that has the value, if the caller may see it."),
                )
                .optional("{{ count }}", about(any_text(), "With `count_differs`: how many match."))
                .called("ViolationParameters"),
        )
        .into()
}

/// The codes of errors.
pub(super) fn problem_code() -> Said {
    let codes: Vec<_> = problem::ALL.iter().map(|kind| kind.code).collect();
    schema_called(one_of(&codes), "ProblemCode")
}

fn problem_schema() -> Said {
    object()
        .about("The format of all errors (RFC 9457).")
        .required("type", about(any_text(), "The page that explains the code: `/problems/{code}`."))
        .required("title", about(any_text(), "A short title of the code."))
        .required("status", about(any_integer(), "The HTTP status."))
        .required("detail", about(any_text(), "What is wrong with this request."))
        .required("code", about(problem_code(), "What is wrong, for programs."))
        .required("requestId", about(text(0..=64), "The id of the request in the service's log."))
        .required("message", about(any_text(), "The same as `detail`."))
        .required("violations", array_of(named("Violation")))
        .into()
}

/// The headers of refusals with a status.
const OF_REFUSALS: [(u16, &str); 4] =
    [(401, "WWW-Authenticate"), (415, "Accept-Encoding"), (429, "Retry-After"), (503, "Retry-After")];

/// These refusals, with an example for each status.
fn refusal(kinds: &[&Kind]) -> Response {
    let lines = kinds.iter().map(|kind| format!("{} `{}`: {}", kind.status, kind.code, kind.explanation));
    let by_status: BTreeMap<u16, &Kind> = kinds.iter().rev().map(|kind| (kind.status, *kind)).collect();
    let examples = by_status.values().map(|kind| {
        let example = ExampleBuilder::new().value(Some(example(kind))).build();
        (kind.code, RefOr::T(example))
    });
    let content = ContentBuilder::new().schema(Some(named("Problem"))).examples_from_iter(examples).build();
    let response = ResponseBuilder::new()
        .description(lines.collect::<Vec<_>>().join("\n\n"))
        .content("application/problem+json", content)
        .header_ref("X-Request-Id", header("X-Request-Id"));
    let headers = OF_REFUSALS.iter().filter(|(status, _)| by_status.contains_key(status));
    headers.fold(response, |response, (_, name)| response.header_ref(*name, header(name))).build()
}

fn header(name: &str) -> Ref {
    Ref::new(format!("#/components/headers/{name}"))
}

fn example(kind: &Kind) -> Value {
    let violations = match kind.code {
        "invalid_data" => json!([
            {"propertyPath": "items[0].quantity", "message": "must be between 1 and 1000000", "code": "out_of_range",
             "parameters": {"{{ value }}": "0"}},
            {"propertyPath": "productSku", "message": "belongs to another product of the organisation",
             "code": "already_taken", "parameters": {"{{ value }}": "MUG-1", "{{ id }}": PRODUCT}},
        ]),
        _ => json!([]),
    };
    let detail = match kind.code {
        "invalid_data" => "items[0].quantity must be between 1 and 1000000, and 1 more",
        _ => kind.title,
    };
    json!({
        "type": format!("/problems/{}", kind.code),
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
        "code": kind.code,
        "requestId": "0192a1b2-7000-7000-8000-00000000000e",
        "message": detail,
        "violations": violations,
    })
}
