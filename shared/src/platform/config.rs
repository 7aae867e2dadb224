//! Settings: read once, by flag or environment, each with its meaning, default and range.
//!
//! The binaries flatten these groups into their own command line. This is the one home of the environment; no other
//! place reads a variable.

use std::net::SocketAddr;

use clap::{Args, ValueEnum};
use ipnet::IpNet;
use secrecy::SecretString;
use url::Url;

/// Where Postgres is, and how many connections a process may open.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Postgres")]
pub struct DatabaseSettings {
    /// URL of the database: `postgres://user:password@host:port/name`.
    #[arg(
        long,
        env = "DATABASE_URL",
        hide_env_values = true,
        default_value = "postgres://localhost/longshore"
    )]
    pub database_url: String,
    /// Role that the service takes on after it has logged in. The login must be a member of it; it owns nothing.
    #[arg(long, env = "LONGSHORE_DATABASE_ROLE", default_value = "longshore_service")]
    pub database_role: String,
    /// Connections for changes and look-ups.
    #[arg(long, env = "LONGSHORE_DATABASE_CONNECTIONS", default_value_t = 32, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub database_connections: u32,
    /// Connections for pages of lists.
    #[arg(long, env = "LONGSHORE_DATABASE_LIST_CONNECTIONS", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub database_list_connections: u32,
    /// Connections for unlimited lists: as many of them run at once.
    #[arg(long, env = "LONGSHORE_DATABASE_STREAM_CONNECTIONS", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub database_stream_connections: u32,
}

/// Where Redis is.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Redis")]
pub struct RedisSettings {
    /// URL of Redis: `redis://` or `rediss://`. It must run with `maxmemory-policy noeviction`.
    #[arg(long, env = "REDIS_URL", hide_env_values = true, default_value = "redis://127.0.0.1:6379")]
    pub redis_url: String,
    /// Prefix of every key, for several installations on one Redis.
    #[arg(long, env = "LONGSHORE_QUEUE_PREFIX", default_value = "longshore:")]
    pub queue_prefix: String,
}

/// The key that seals secrets at rest.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Secrets")]
pub struct VaultSettings {
    /// Keys that seal secrets at rest, as `<key id>:<base64 of 32 bytes>`, separated by commas. The first seals; the
    /// others only open what was sealed before.
    #[arg(long, env = "LONGSHORE_ENCRYPTION_KEY", hide_env_values = true, required = true)]
    pub encryption_key: SecretString,
}

/// What outbound calls may reach.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Outbound calls")]
pub struct OutboundSettings {
    /// Lets webhook destinations be `http` instead of `https`.
    #[arg(long, env = "LONGSHORE_WEBHOOK_ALLOW_HTTP", default_value_t = false)]
    pub webhook_allow_http: bool,
    /// Subnets that destinations may be in although they are private, loopback or link-local; separated by commas.
    #[arg(long, env = "LONGSHORE_WEBHOOK_ALLOW_SUBNETS", value_delimiter = ',')]
    pub webhook_allow_subnets: Vec<IpNet>,
}

/// Where images lie.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Object store")]
pub struct ObjectStoreSettings {
    /// Where the bytes of images lie: a folder that api and worker share, or `s3://bucket`, optionally with `/prefix`.
    #[arg(long, env = "LONGSHORE_OBJECT_STORE", default_value = "objects")]
    pub object_store: String,
    /// URL of an S3 service other than Amazon's.
    #[arg(long, env = "LONGSHORE_S3_ENDPOINT", value_parser = super::objects::endpoint)]
    pub s3_endpoint: Option<Url>,
    /// Region of the bucket.
    #[arg(long, env = "LONGSHORE_S3_REGION", default_value = "us-east-1")]
    pub s3_region: String,
    /// Access key; without it, the credentials of the machine's or the container's role are used.
    #[arg(long, env = "LONGSHORE_S3_ACCESS_KEY_ID", requires = "s3_secret_access_key")]
    pub s3_access_key_id: Option<String>,
    /// Its secret.
    #[arg(
        long,
        env = "LONGSHORE_S3_SECRET_ACCESS_KEY",
        hide_env_values = true,
        requires = "s3_access_key_id"
    )]
    pub s3_secret_access_key: Option<SecretString>,
}

/// How the process logs.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Logs")]
pub struct LogSettings {
    /// What is logged: directives as in `info,longshore_worker=debug`.
    #[arg(long, env = "LONGSHORE_LOG", default_value = "info")]
    pub log: String,
    /// How a line looks.
    #[arg(long, env = "LONGSHORE_LOG_FORMAT", value_enum, default_value_t = LogFormat::Auto)]
    pub log_format: LogFormat,
}

/// Where traces go.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Traces")]
pub struct TraceSettings {
    /// URL of a collector that takes OTLP over HTTP, as in `http://collector:4318`; spans go to `/v1/traces` below it.
    /// Without it no traces are taken.
    #[arg(long, env = "LONGSHORE_OTLP_ENDPOINT", value_parser = super::objects::endpoint)]
    pub otlp_endpoint: Option<Url>,
    /// Headers for the collector, as `name=value`, separated by commas.
    #[arg(long, env = "LONGSHORE_OTLP_HEADERS", hide_env_values = true)]
    pub otlp_headers: Option<SecretString>,
    /// Share of the traces beginning here that are taken, 0 to 1. What a caller has decided for its own (`traceparent`)
    /// holds.
    #[arg(long, env = "LONGSHORE_TRACE_SHARE", default_value_t = 1.0, value_parser = super::trace::share)]
    pub trace_share: f64,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Pretty on a terminal, JSON elsewhere.
    Auto,
    /// For eyes.
    Pretty,
    /// One JSON object a line.
    Json,
}

/// Where a process listens.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Listening")]
pub struct ListenSettings {
    /// Address and port of the HTTP interface.
    #[arg(long, env = "LONGSHORE_BIND", default_value = "127.0.0.1:8080")]
    pub bind: SocketAddr,
    /// Subnets of the operator's own proxies, which are believed in `X-Forwarded-For` whom they speak for; separated by
    /// commas. Without it, attempts to log in through a proxy count as its own.
    #[arg(long, env = "LONGSHORE_TRUSTED_PROXIES", value_delimiter = ',')]
    pub trusted_proxies: Vec<IpNet>,
}

/// What one caller may take of the HTTP interface.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Limits")]
pub struct LimitSettings {
    /// Requests a second that a token may make on average, over all processes together; 0: any number.
    #[arg(long, env = "LONGSHORE_RATE_LIMIT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub rate_limit: u32,
    /// Requests that a token may make at once before its average counts.
    #[arg(long, env = "LONGSHORE_RATE_LIMIT_BURST", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rate_limit_burst: u32,
    /// Milliseconds that Redis may take to count a request; past them, it goes through uncounted.
    #[arg(long, env = "LONGSHORE_RATE_LIMIT_PATIENCE_MS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub rate_limit_patience_ms: u64,
    /// Streams (uploads line by line, lists without a limit, progress of jobs) that a token may have open in one process;
    /// 0: any number.
    #[arg(long, env = "LONGSHORE_TOKEN_STREAMS", default_value_t = 16, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub token_streams: u32,
    /// Seconds within which a request must be answered. Streams are not bound by it, only by the stalls of the next one.
    #[arg(long, env = "LONGSHORE_REQUEST_SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(61..=3_600))]
    pub request_seconds: u64,
    /// Seconds for which a client may send next to nothing of a body.
    #[arg(long, env = "LONGSHORE_BODY_STALL_SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub body_stall_seconds: u64,
    /// Seconds within which a client must have sent its headers.
    #[arg(long, env = "LONGSHORE_HEADER_SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub header_seconds: u64,
}
