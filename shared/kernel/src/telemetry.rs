//! Logs: structured, one line readable alone. And traces, where a collector is set ([`trace`]).

use std::io::IsTerminal;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer as _};

use super::config::{LogFormat, LogSettings, TraceSettings};
use super::trace::{self, Traces};

/// Starts logging to standard error; call it once, first.
pub fn init(settings: &LogSettings) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&settings.log)?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if is_pretty(settings) {
        builder.with_target(false).finish().try_init()?;
    } else {
        builder
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .finish()
            .try_init()?;
    }
    Ok(())
}

/// Starts logging, and traces if a collector is configured. Call `end` of the returned value last.
pub fn start(
    log: &LogSettings,
    traces: &TraceSettings,
    service: &'static str,
) -> anyhow::Result<Option<Traces>> {
    let Some((traces, spans)) = trace::start(traces, service)? else {
        init(log)?;
        return Ok(None);
    };
    let filter = EnvFilter::try_new(&log.log)?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    // the filter is the log's own: a trace is whole, however little is logged
    let lines = if is_pretty(log) {
        lines.with_target(false).with_filter(filter).boxed()
    } else {
        lines
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .with_filter(filter)
            .boxed()
    };
    tracing_subscriber::registry().with(spans).with(lines).try_init()?;
    Ok(Some(traces))
}

fn is_pretty(settings: &LogSettings) -> bool {
    match settings.log_format {
        LogFormat::Pretty => true,
        LogFormat::Json => false,
        LogFormat::Auto => std::io::stderr().is_terminal(),
    }
}
