//! Traces as a collector receives them: spans of the api and the worker are connected.

use std::collections::HashMap;
use std::time::Duration;

use longshore_kernel::access::Role;
use longshore_testkit::receiver::{Answer, Receiver, Seen};
use longshore_testkit::stack::{Stack, StackSettings};
use longshore_testkit::world::Tenant;
use longshore_testkit::{client, services};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::{Value, json};

/// Long enough for a loaded machine; no test waits it out.
const SOON: Duration = Duration::from_mins(2);

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";
/// The name of the span of the request.
const REQUEST: &str = "POST /api/partner-integration/eshop/sync/products";

/// A span that the collector received.
#[derive(Debug)]
struct Reported {
    service: String,
    name: String,
    id: String,
    parent: String,
    attributes: HashMap<String, String>,
}

fn text(value: Option<AnyValue>) -> String {
    match value {
        Some(AnyValue::StringValue(text)) => text,
        Some(AnyValue::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    }
}

/// The received spans of our trace.
fn spans_of(seen: &Seen) -> Vec<Reported> {
    let mut all = Vec::new();
    for receipt in &seen.receipts {
        let request = ExportTraceServiceRequest::decode(receipt.body.clone()).unwrap();
        for resource in request.resource_spans {
            let attributes = resource.resource.unwrap_or_default().attributes;
            let service = attributes
                .into_iter()
                .find(|a| a.key == "service.name")
                .map(|a| text(a.value.and_then(|v| v.value)))
                .unwrap_or_default();
            let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            all.extend(
                spans.filter(|span| hex::encode(&span.trace_id) == TRACE).map(|span| span_of(&service, span)),
            );
        }
    }
    all
}

fn span_of(service: &str, span: Span) -> Reported {
    Reported {
        service: service.to_owned(),
        name: span.name,
        id: hex::encode(&span.span_id),
        parent: hex::encode(&span.parent_span_id),
        attributes: span
            .attributes
            .into_iter()
            .map(|a| (a.key, text(a.value.and_then(|v| v.value))))
            .collect(),
    }
}

#[tokio::test]
async fn a_request_its_job_its_chunk_and_its_deliveries_share_one_trace_and_one_request_id() {
    let (collector, shop) = (Receiver::start().await.unwrap(), Receiver::start().await.unwrap());
    collector.answer_all(Answer::Status(200));
    // the first delivery is retried, so that its failure is in the log
    shop.answer("/hook", Answer::Sequence(vec![Answer::Status(500), Answer::Status(204)]));
    let further = vec![
        ("LONGSHORE_OTLP_ENDPOINT", collector.url("/otlp")),
        ("LONGSHORE_OTLP_HEADERS", "x-tenant=t1".to_owned()),
        // no traces of the service itself, only the one that the caller began
        ("LONGSHORE_TRACE_SHARE", "0".to_owned()),
        ("LONGSHORE_LOG", "info,longshore=debug".to_owned()),
    ];
    let stack = Stack::start_with(&StackSettings::from_environment().unwrap(), further).await.unwrap();
    let services = services::for_test(&stack.database_url.as_str().parse().unwrap()).unwrap();
    let tenant = Tenant::create(&services, "Traced").await.unwrap();
    let token = tenant.token(&services, Role::User).await.unwrap();
    let http = client::outside().unwrap();
    let post = |path: &str| http.post(format!("{}{path}", stack.base_url)).bearer_auth(&token);
    let hook = json!({"eshop": tenant.eshop, "event": "product_change", "destination": shop.url("/hook")})
        .to_string();
    let made = post("/api/eshop-webhook").header("content-type", "application/json").body(hook);
    assert_eq!(made.send().await.unwrap().status(), 201);

    let rows = format!(
        "{}\n{}\n{}\n",
        json!({"eshop": tenant.eshop}),
        json!({"productSku": "T-1", "name": "Traced mug"}),
        json!({"productSku": "T-2", "name": "Traced cup"})
    );
    let accepted = post("/api/partner-integration/eshop/sync/products")
        .header("content-type", "application/x-ndjson")
        .header("traceparent", format!("00-{TRACE}-{CALLER}-01"))
        .header("x-request-id", "traced-1")
        .body(rows)
        .send()
        .await
        .unwrap();
    assert_eq!(accepted.status(), 200);

    // three calls: one of the two deliveries is attempted twice, five seconds apart
    let arrived = shop.wait_for(3, SOON).await;
    arrived.unwrap_or_else(|error| panic!("{error}\n{}", stack.ends_of_logs()));
    // the api and the worker export their spans at different times
    let whole = |seen: &Seen| {
        let spans = spans_of(seen);
        let count = |name: &str| spans.iter().filter(|span| span.name == name).count();
        count("delivery") >= 3 && ["job", "chunk", REQUEST].into_iter().all(|name| count(name) >= 1)
    };
    let collected = collector.wait_until(SOON, whole).await;
    collected.unwrap_or_else(|error| panic!("{error}\n{}", stack.ends_of_logs()));

    let receipts = collector.receipts();
    assert!(receipts.iter().all(|r| r.path == "/otlp/v1/traces" && r.header("x-tenant") == Some("t1")));
    let spans = spans_of(&Seen { receipts, ..Seen::default() });
    let one = |name: &str| {
        let mut found = spans.iter().filter(|span| span.name == name);
        let first = found.next().unwrap_or_else(|| panic!("no {name} in {spans:#?}"));
        assert!(found.next().is_none(), "{spans:#?}");
        first
    };
    let request = one(REQUEST);
    let (job, chunk) = (one("job"), one("chunk"));
    assert_eq!((request.parent.as_str(), request.service.as_str()), (CALLER, "longshore-api"));
    assert_eq!(request.attributes["http.response.status_code"], "200");
    assert_eq!((&job.parent, job.service.as_str()), (&request.id, "longshore-api"));
    assert_eq!((&chunk.parent, chunk.service.as_str()), (&job.id, "longshore-worker"));
    assert_eq!(chunk.attributes["job.id"], job.attributes["job.id"]);
    let deliveries: Vec<_> = spans.iter().filter(|span| span.name == "delivery").collect();
    assert!(deliveries.iter().all(|delivery| delivery.parent == chunk.id), "{spans:#?}");
    for span in [request, chunk].into_iter().chain(deliveries.iter().copied()) {
        assert_eq!(span.attributes["request.id"], "traced-1", "{span:?}");
    }
    // the destination gets the span of the call
    let mut sent: Vec<_> = deliveries.iter().map(|d| format!("00-{TRACE}-{}-01", d.id)).collect();
    let mut got: Vec<_> =
        shop.receipts().iter().map(|r| r.header("traceparent").unwrap().to_owned()).collect();
    sent.sort_unstable();
    got.sort_unstable();
    assert_eq!(sent, got);
    // there are no other traces
    assert!(collector.receipts().iter().all(|receipt| {
        let request = ExportTraceServiceRequest::decode(receipt.body.clone()).unwrap();
        let spans = request.resource_spans.into_iter().flat_map(|r| r.scope_spans).flat_map(|s| s.spans);
        spans.into_iter().all(|span| hex::encode(&span.trace_id) == TRACE)
    }));

    let lines: Vec<Value> =
        stack.logs().unwrap().iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of_request = |message: &str| {
        lines.iter().any(|line| {
            let id = line.get("request.id").or_else(|| line["span"].get("request.id"));
            line["message"] == message && id.is_some_and(|id| id == "traced-1")
        })
    };
    for message in ["request answered", "an attempt failed"] {
        assert!(of_request(message), "{message}\n{}", stack.ends_of_logs());
    }
}
