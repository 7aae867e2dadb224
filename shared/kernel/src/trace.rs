//! Traces: a request, its job, the chunks of that job and the resulting deliveries, as connected spans of one trace, sent
//! to a collector with OTLP over HTTP.
//!
//! Spans are those of `tracing`; [`begin`] makes one a part of a trace. What leaves the process takes the trace along as
//! W3C trace context (`traceparent`): in the row of a job, in that of an event, in the headers of a call. Where no collector
//! is set ([`start`] was not called) nothing of this costs more than the question [`is_on`], and a `traceparent` that a
//! caller sent is handed on all the same.
//!
//! ```text
//! request (server) ─▶ job (producer) ─▶ chunk (consumer) ─▶ delivery (client)
//!         └──────────────────────────────────────────────▶ delivery, of a single change
//! ```

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use opentelemetry::trace::{
    SpanContext, SpanId, Status, TraceContextExt as _, TraceFlags, TraceId, TraceState, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use secrecy::ExposeSecret as _;
use tokio::runtime::Handle;
use tracing::{Dispatch, Level, Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::registry::LookupSpan;

use super::config::TraceSettings;

/// The name of the header, and of the columns.
pub const TRACEPARENT: &str = "traceparent";

/// How long the collector may take for a batch; what it does not take is lost.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the last spans may take once the process ends.
const LAST: Duration = Duration::from_secs(5);

/// The bit of the flags that says that a trace is taken.
const SAMPLED: u8 = 1;

/// Marks that traces are recorded; it is found in the subscriber.
struct Taken;

impl<S: Subscriber> Layer<S> for Taken {}

/// Sends spans while it lives.
#[derive(Debug)]
pub struct Traces(SdkTracerProvider);

impl Traces {
    /// Sends what there is, and ends.
    pub async fn end(self) {
        // it waits for a separate thread that needs this runtime
        let ended = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(LAST)).await;
        if !matches!(ended, Ok(Ok(()))) {
            tracing::warn!("the last spans were not exported");
        }
    }
}

/// Begins to take traces, if the settings name a collector; the layers go into the subscriber. Must be called within a
/// tokio runtime.
pub fn start<S>(
    settings: &TraceSettings,
    service: &'static str,
) -> anyhow::Result<Option<(Traces, impl Layer<S> + Send + Sync + use<S>)>>
where
    S: Subscriber + for<'s> LookupSpan<'s> + Send + Sync,
{
    let Some(endpoint) = &settings.otlp_endpoint else { return Ok(None) };
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(Client::new()?)
        .with_endpoint(format!("{}/v1/traces", endpoint.as_str().trim_end_matches('/')))
        .with_headers(headers(settings)?)
        .with_timeout(PATIENCE)
        .build()
        .context("traces cannot be sent; check the settings")?;
    let resource = Resource::builder_empty()
        .with_service_name(service)
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .build();
    let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(settings.trace_share)));
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_sampler(sampler)
        .with_resource(resource)
        .build();
    // our own spans only: those of the libraries say nothing that ours do not
    let ours = filter_fn(|metadata| {
        metadata.is_span() && metadata.target().starts_with("longshore") && *metadata.level() <= Level::INFO
    });
    let spans = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("longshore"))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_filter(ours);
    Ok(Some((Traces(provider), spans.and_then(Taken.with_filter(LevelFilter::OFF)))))
}

fn headers(settings: &TraceSettings) -> anyhow::Result<HashMap<String, String>> {
    let given = settings.otlp_headers.as_ref().map_or("", |given| given.expose_secret());
    given
        .split(',')
        .filter(|header| !header.trim().is_empty())
        .map(|header| {
            let (name, value) =
                header.split_once('=').context("LONGSHORE_OTLP_HEADERS must be name=value, …")?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        })
        .collect()
}

/// Whether traces are taken.
#[must_use]
pub fn is_on() -> bool {
    tracing::dispatcher::get_default(Dispatch::is::<Taken>)
}

/// Makes a span a part of the trace that `parent` names, else of that of the span around it, else the first of a new one;
/// call it before the span is entered. The span says its `trace.id` where it has such a field.
pub fn begin(span: &Span, parent: Option<&str>) {
    if !is_on() {
        return;
    }
    if let Some(parent) = parent.and_then(read) {
        // refused only where the span is filtered away
        let _ = span.set_parent(Context::new().with_remote_span_context(parent));
    }
    let context = span.context();
    let context = context.span().span_context().clone();
    if context.is_valid() {
        span.record("trace.id", tracing::field::display(context.trace_id()));
    }
}

/// Says something of a span to the collector that the log need not say.
pub fn note(span: &Span, key: &'static str, value: impl Into<Value>) {
    span.set_attribute(key, value);
}

/// Marks a span as failed.
pub fn fail(span: &Span, why: impl Into<std::borrow::Cow<'static, str>>) {
    span.set_status(Status::error(why));
}

/// The context for continuing a span; nothing without traces.
#[must_use]
pub fn of(span: &Span) -> Option<String> {
    let context = span.context();
    let context = context.span().span_context().clone();
    context.is_valid().then(|| write(&context))
}

/// The same from the current span.
#[must_use]
pub fn current() -> Option<String> {
    if is_on() { of(&Span::current()) } else { None }
}

/// What a caller sent, where it is a trace context (W3C, version 00).
#[must_use]
pub fn checked(traceparent: &str) -> Option<String> {
    read(traceparent).map(|context| write(&context))
}

/// A context of the same trace, from a span that is known by its number only.
#[must_use]
pub fn child(traceparent: &str, span: u64) -> Option<String> {
    let parent = read(traceparent)?;
    let id = SpanId::from_bytes(span.max(1).to_be_bytes());
    Some(write(&SpanContext::new(parent.trace_id(), id, parent.trace_flags(), true, TraceState::NONE)))
}

fn write(context: &SpanContext) -> String {
    let flags = context.trace_flags().to_u8() & SAMPLED;
    format!("00-{}-{}-{flags:02x}", context.trace_id(), context.span_id())
}

fn read(traceparent: &str) -> Option<SpanContext> {
    let mut parts = traceparent.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    if version != "00" || !hex(trace, 32) || !hex(span, 16) || !hex(flags, 2) || parts.next().is_some() {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()? & SAMPLED);
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    Some(SpanContext::new(trace, span, flags, true, TraceState::NONE)).filter(SpanContext::is_valid)
}

/// Calls the collector. The exporter runs on a separate thread, the call on the runtime of the process.
struct Client {
    http: reqwest::Client,
    runtime: Handle,
    /// The last call came to nothing.
    failing: Arc<AtomicBool>,
}

impl Client {
    fn new() -> anyhow::Result<Self> {
        // an error says that one is installed already
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().timeout(PATIENCE).build()?;
        Ok(Self { http, runtime: Handle::current(), failing: Arc::default() })
    }

    async fn call(http: &reqwest::Client, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = http.execute(request.try_into()?).await?;
        let mut response = Response::builder().status(answer.status());
        if let Some(headers) = response.headers_mut() {
            *headers = answer.headers().clone();
        }
        Ok(response.body(answer.bytes().await?)?)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

impl HttpClient for Client {
    fn send_bytes<'c, 'f>(
        &'c self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'f>>
    where
        'c: 'f,
        Self: 'f,
    {
        let (http, failing) = (self.http.clone(), Arc::clone(&self.failing));
        let call = self.runtime.spawn(async move {
            let answer = Self::call(&http, request).await;
            let failed = !answer.as_ref().is_ok_and(|response| response.status().is_success());
            // said once: the next thousand batches fail for the same reason
            if failing.swap(failed, Ordering::Relaxed) != failed {
                let status = answer.as_ref().ok().map(|response| response.status().as_u16());
                if failed {
                    tracing::warn!(
                        status,
                        error = answer.as_ref().err().map(tracing::field::display),
                        "the collector does not accept traces"
                    );
                } else {
                    tracing::info!("the collector accepts traces again");
                }
            }
            answer
        });
        Box::pin(async move { call.await? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_trace_context_reads_back() {
        assert_eq!(checked(SENT).as_deref(), Some(SENT));
        let not_taken = SENT.replace("-01", "-00");
        assert_eq!(checked(&not_taken), Some(not_taken));
        // flags of later versions mean nothing to us
        assert_eq!(checked(&SENT.replace("-01", "-03")).as_deref(), Some(SENT));
    }

    #[test]
    fn an_invalid_trace_context_is_ignored() {
        for text in [
            "",
            "00",
            &SENT.to_uppercase(),
            &SENT.replace("00-", "01-"),
            &SENT[..SENT.len() - 1],
            &format!("{SENT}-x"),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333 -01",
        ] {
            assert_eq!(checked(text), None, "{text}");
        }
    }

    #[test]
    fn a_child_stays_in_the_trace_and_keeps_its_flags() {
        assert_eq!(
            child(SENT, 0x1f).as_deref(),
            Some("00-0af7651916cd43dd8448eb211c80319c-000000000000001f-01")
        );
        assert_eq!(child("nothing", 1), None);
    }

    #[test]
    fn without_a_collector_traces_are_off() {
        assert!(!is_on());
        assert_eq!(current(), None);
        let span = tracing::info_span!("request");
        begin(&span, Some(SENT));
        assert_eq!(of(&span), None);
    }
}
