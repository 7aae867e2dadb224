//! Settings: read once, by flag or environment, each with its meaning, default and range.
//!
//! The binaries flatten these groups into their own command line. This is the one home of the environment; no other
//! place reads a variable.
//!
//! A secret (whose value `--help` hides) may also be in a file, which a variable of its name with `_FILE` names: as
//! containers and service managers provide. See [`parse`].

use std::ffi::OsString;
use std::net::SocketAddr;

use clap::error::ErrorKind;
use clap::{Args, Command, Parser, ValueEnum};
use ipnet::IpNet;
use secrecy::SecretString;
use url::Url;

use super::origin::Origins;

/// Reads the command line of a program, its environment, and the files that hold its secrets; ends the process where one of them
/// is not understood.
#[must_use]
pub fn parse<P: Parser>() -> P {
    let variable = |name: &str| std::env::var_os(name);
    let command = secrets_from_files(P::command(), &variable).unwrap_or_else(|error| error.exit());
    P::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
}

/// Makes the content of its file, without the end of its last line, the default of each secret that has one.
///
/// # Errors
/// A file cannot be read, or the secret is given twice.
fn secrets_from_files(
    command: Command,
    variable: &impl Fn(&str) -> Option<OsString>,
) -> Result<Command, clap::Error> {
    let mut held = Vec::new();
    for argument in command.get_arguments().filter(|argument| argument.is_hide_env_values_set()) {
        let Some(name) = argument.get_env().and_then(|name| name.to_str()) else { continue };
        let file_name = format!("{name}_FILE");
        let Some(file) = variable(&file_name) else { continue };
        let refuse = |kind, message: String| command.clone().error(kind, message);
        if variable(name).is_some() {
            let message = format!("{name} and {file_name} are both set; remove one of them");
            return Err(refuse(ErrorKind::ArgumentConflict, message));
        }
        let content = std::fs::read_to_string(&file).map_err(|error| {
            refuse(ErrorKind::Io, format!("cannot read the file that {file_name} names: {error}"))
        })?;
        held.push((argument.get_id().clone(), content.trim_end_matches(['\r', '\n']).to_owned()));
    }
    let mut command = held.into_iter().fold(command, |command, (id, secret)| {
        command
            .mut_arg(id, |argument| argument.default_value(secret).hide_default_value(true).required(false))
    });
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    for name in names {
        let mut read = Ok(());
        command = command.mut_subcommand(name, |sub| {
            secrets_from_files(sub.clone(), variable).unwrap_or_else(|error| {
                read = Err(error);
                sub
            })
        });
        read?;
    }
    Ok(command)
}

/// Where Postgres is, and how many connections a process may open.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Postgres")]
pub struct DatabaseSettings {
    /// URL of the database: `postgres://user:password@host:port/name`. Of several hosts, separated by commas, the one that
    /// takes writes is used.
    #[arg(
        long,
        env = "DATABASE_URL",
        hide_env_values = true,
        default_value = "postgres://localhost/longshore"
    )]
    pub database_url: String,
    /// Role that the service uses after login. The login must be a member of it. The role owns nothing.
    #[arg(long, env = "LONGSHORE_DATABASE_ROLE", default_value = "longshore_service")]
    pub database_role: String,
    /// Whether `DATABASE_URL` names a pooler, PgBouncer, which has the file that `longshore-api pooler` prints.
    #[arg(long, env = "LONGSHORE_DATABASE_POOLED", default_value_t = false)]
    pub database_pooled: bool,
    /// Connections for changes and look-ups.
    #[arg(long, env = "LONGSHORE_DATABASE_CONNECTIONS", default_value_t = 32, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub database_connections: u32,
    /// Connections for pages of lists.
    #[arg(long, env = "LONGSHORE_DATABASE_LIST_CONNECTIONS", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub database_list_connections: u32,
    /// Connections for lists without a limit, which is also the number of such lists at once.
    #[arg(long, env = "LONGSHORE_DATABASE_STREAM_CONNECTIONS", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub database_stream_connections: u32,
    /// Seconds for which a request waits until a standby has what it wrote, where Postgres has a synchronous one.
    #[arg(long, env = "LONGSHORE_COMMIT_SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub commit_seconds: u64,
}

/// Where Redis is.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Redis")]
pub struct RedisSettings {
    /// URL of Redis: `redis://` or `rediss://`, or with Sentinels `redis+sentinel://a,b,c/name`. It must run with
    /// `maxmemory-policy noeviction`.
    #[arg(long, env = "REDIS_URL", hide_env_values = true, default_value = "redis://127.0.0.1:6379")]
    pub redis_url: String,
    /// Prefix of every key, for several installations on one Redis.
    #[arg(long, env = "LONGSHORE_QUEUE_PREFIX", default_value = "longshore:")]
    pub queue_prefix: String,
}

/// The keys that encrypt secrets at rest.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Secrets")]
pub struct VaultSettings {
    /// Keys that encrypt secrets at rest, as `<key id>:<base64 of 32 bytes>`, separated by commas. The first key encrypts;
    /// the others only decrypt older secrets.
    #[arg(long, env = "LONGSHORE_ENCRYPTION_KEY", hide_env_values = true, required = true)]
    pub encryption_key: SecretString,
}

/// Restrictions of outbound calls.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Outbound calls")]
pub struct OutboundSettings {
    /// Allows webhook destinations with `http` instead of `https`.
    #[arg(long, env = "LONGSHORE_WEBHOOK_ALLOW_HTTP", default_value_t = false)]
    pub webhook_allow_http: bool,
    /// Private, loopback or link-local subnets that destinations may be in, separated by commas.
    #[arg(long, env = "LONGSHORE_WEBHOOK_ALLOW_SUBNETS", value_delimiter = ',')]
    pub webhook_allow_subnets: Vec<IpNet>,
    /// Webhooks that an e-shop may have, and as many of its own an organisation. Each change is sent to all of them.
    #[arg(long, env = "LONGSHORE_WEBHOOKS_PER_ESHOP", default_value_t = OutboundSettings::default().webhooks_per_eshop, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub webhooks_per_eshop: u16,
}

impl Default for OutboundSettings {
    fn default() -> Self {
        Self { webhook_allow_http: false, webhook_allow_subnets: Vec::new(), webhooks_per_eshop: 16 }
    }
}

/// The store of images and invoices.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Object store")]
pub struct ObjectStoreSettings {
    /// Where images and invoices are stored: a folder that api and worker share, or `s3://bucket`, optionally with `/prefix`.
    #[arg(long, env = "LONGSHORE_OBJECT_STORE", default_value = "objects")]
    pub object_store: String,
    /// URL of an S3 service other than Amazon's.
    #[arg(long, env = "LONGSHORE_S3_ENDPOINT", value_parser = endpoint)]
    pub s3_endpoint: Option<Url>,
    /// Region of the bucket.
    #[arg(long, env = "LONGSHORE_S3_REGION", default_value = "us-east-1")]
    pub s3_region: String,
    /// Access key. Without it, the role of the machine, container or service account is used.
    #[arg(long, env = "LONGSHORE_S3_ACCESS_KEY_ID", requires = "s3_secret_access_key")]
    pub s3_access_key_id: Option<String>,
    /// Secret of the access key.
    #[arg(
        long,
        env = "LONGSHORE_S3_SECRET_ACCESS_KEY",
        hide_env_values = true,
        requires = "s3_access_key_id"
    )]
    pub s3_secret_access_key: Option<SecretString>,
    /// Used without a key.
    #[command(flatten)]
    pub role: BucketRole,
}

/// What a platform tells a container about its role, by the names that AWS gave it.
#[derive(Args, Clone, Debug, Default)]
pub struct BucketRole {
    /// The role of a service account.
    #[arg(long, env = "AWS_ROLE_ARN", hide = true)]
    pub aws_role_arn: Option<String>,
    /// Its token.
    #[arg(long, env = "AWS_WEB_IDENTITY_TOKEN_FILE", hide = true)]
    pub aws_web_identity_token_file: Option<String>,
    /// Where a container of ECS gets its keys.
    #[arg(long, env = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", hide = true)]
    pub aws_container_credentials_relative_uri: Option<String>,
    /// Where a pod of EKS gets its keys.
    #[arg(long, env = "AWS_CONTAINER_CREDENTIALS_FULL_URI", hide = true)]
    pub aws_container_credentials_full_uri: Option<String>,
    /// Its token.
    #[arg(long, env = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", hide = true)]
    pub aws_container_authorization_token_file: Option<String>,
}

/// How the process logs.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Logs")]
pub struct LogSettings {
    /// What to log: directives such as `info,longshore_worker=debug`.
    #[arg(long, env = "LONGSHORE_LOG", default_value = "info")]
    pub log: String,
    /// Format of a log line.
    #[arg(long, env = "LONGSHORE_LOG_FORMAT", value_enum, default_value_t = LogFormat::Auto)]
    pub log_format: LogFormat,
}

/// The collector of traces.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Traces")]
pub struct TraceSettings {
    /// URL of a collector that accepts OTLP over HTTP, such as `http://collector:4318`. Spans are sent to `/v1/traces`
    /// below it. Without it, no traces are recorded.
    #[arg(long, env = "LONGSHORE_OTLP_ENDPOINT", value_parser = endpoint)]
    pub otlp_endpoint: Option<Url>,
    /// Headers for the collector, as `name=value`, separated by commas.
    #[arg(long, env = "LONGSHORE_OTLP_HEADERS", hide_env_values = true)]
    pub otlp_headers: Option<SecretString>,
    /// Share of new traces that are sampled, 0 to 1. The `traceparent` of a caller decides for its own trace.
    #[arg(long, env = "LONGSHORE_TRACE_SHARE", default_value_t = 1.0, value_parser = share)]
    pub trace_share: f64,
}

/// Format of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Pretty on a terminal, JSON elsewhere.
    Auto,
    /// For people.
    Pretty,
    /// One JSON object per line.
    Json,
}

/// The address of the process.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Listening")]
pub struct ListenSettings {
    /// Address and port of the HTTP interface.
    #[arg(long, env = "LONGSHORE_BIND", default_value = "127.0.0.1:8080")]
    pub bind: SocketAddr,
    /// Subnets of the operator's proxies, separated by commas. Their `X-Forwarded-For` is trusted. Without it, logins
    /// through a proxy all count as one address.
    #[arg(long, env = "LONGSHORE_TRUSTED_PROXIES", value_delimiter = ',')]
    pub trusted_proxies: Vec<IpNet>,
    /// Origins whose pages may call the API from a browser (CORS), such as `https://app.example`, separated by commas; `*`
    /// means any. The console is never open to them.
    #[arg(long, env = "LONGSHORE_CORS_ORIGINS", default_value = "", hide_default_value = true, value_parser = super::origin::origins)]
    pub cors_origins: Origins,
    /// Seconds for which the process keeps serving after SIGTERM while `/health/ready` answers 503. Choose more than a load
    /// balancer needs to notice.
    #[arg(long, env = "LONGSHORE_DRAIN_SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=300))]
    pub drain_seconds: u64,
}

/// Requirements of accounts.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Access")]
pub struct AccessSettings {
    /// Requires a second factor for admins and superadmins. An account without one can only set one up after login.
    #[arg(long, env = "LONGSHORE_REQUIRE_SECOND_FACTOR", default_value_t = false)]
    pub require_second_factor: bool,
}

/// Limits of one caller.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Limits")]
pub struct LimitSettings {
    /// Requests per second that an account may make on average, over all processes; 0 means no limit.
    #[arg(long, env = "LONGSHORE_RATE_LIMIT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub rate_limit: u32,
    /// Requests that an account may make at once before the average applies.
    #[arg(long, env = "LONGSHORE_RATE_LIMIT_BURST", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rate_limit_burst: u32,
    /// Milliseconds that Redis may take to count a request. After that, the process counts it itself.
    #[arg(long, env = "LONGSHORE_RATE_LIMIT_PATIENCE_MS", default_value_t = 75, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub rate_limit_patience_ms: u64,
    /// Streams (uploads line by line, lists without a limit, progress of jobs) that an account may have open in one
    /// process; 0 means no limit.
    #[arg(long, env = "LONGSHORE_TOKEN_STREAMS", default_value_t = 16, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub token_streams: u32,
    /// Unfinished jobs that an organisation may have.
    #[arg(long, env = "LONGSHORE_UNFINISHED_JOBS", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub unfinished_jobs: u32,
    /// Seconds within which a request must be answered. Streams are exempt.
    #[arg(long, env = "LONGSHORE_REQUEST_SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(61..=3_600))]
    pub request_seconds: u64,
    /// Seconds for which a client may send almost no data of a body.
    #[arg(long, env = "LONGSHORE_BODY_STALL_SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub body_stall_seconds: u64,
    /// Connections of clients that a process has open at once.
    #[arg(long, env = "LONGSHORE_CONNECTIONS", default_value_t = 4_096, value_parser = clap::value_parser!(u32).range(64..=1_000_000))]
    pub connections: u32,
    /// Connections that an address may have open at once; an address of IPv6 counts as its /64. Trusted proxies are exempt.
    #[arg(long, env = "LONGSHORE_ADDRESS_CONNECTIONS", default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub address_connections: u32,
    /// Seconds within which a client must send its headers.
    #[arg(long, env = "LONGSHORE_HEADER_SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub header_seconds: u64,
    /// MiB that all decompressed request bodies, and heads of more than 8 KiB, may use together in one process. One organisation may
    /// use half of what is free.
    #[arg(long, env = "LONGSHORE_BODY_MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(64..=100_000))]
    pub body_mib: u32,
    /// MiB that all unread responses may use together in one process.
    #[arg(long, env = "LONGSHORE_ANSWER_MIB", default_value_t = 16, value_parser = clap::value_parser!(u32).range(16..=100_000))]
    pub answer_mib: u32,
}

/// Quotas of an organisation.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Quotas")]
pub struct QuotaSettings {
    /// E-shops that an organisation may have.
    #[arg(long, env = "LONGSHORE_QUOTA_ESHOPS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub quota_eshops: u64,
    /// Warehouses that an organisation may have.
    #[arg(long, env = "LONGSHORE_QUOTA_WAREHOUSES", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub quota_warehouses: u64,
    /// Wms that an organisation may have.
    #[arg(long, env = "LONGSHORE_QUOTA_WMS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub quota_wms: u64,
    /// Products that an organisation may have.
    #[arg(long, env = "LONGSHORE_QUOTA_PRODUCTS", default_value_t = 5_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub quota_products: u64,
    /// Orders that an organisation may have.
    #[arg(long, env = "LONGSHORE_QUOTA_EXPEDITIONS", default_value_t = 50_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub quota_expeditions: u64,
    /// Images of products that an organisation may have.
    #[arg(long, env = "LONGSHORE_QUOTA_IMAGES", default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub quota_images: u64,
    /// Bytes of images and invoices that an organisation may have.
    #[arg(long, env = "LONGSHORE_QUOTA_OBJECT_BYTES", default_value_t = 1_000_000_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000_000))]
    pub quota_object_bytes: u64,
    /// Suppliers that an organisation may have.
    #[arg(long, env = "LONGSHORE_QUOTA_SUPPLIERS", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub quota_suppliers: u64,
    /// Carrier preferences that an organisation may have.
    #[arg(long, env = "LONGSHORE_QUOTA_CARRIER_PREFERENCES", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub quota_carrier_preferences: u64,
    /// Stock advices that an organisation may have.
    #[arg(long, env = "LONGSHORE_QUOTA_STOCK_ADVICES", default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub quota_stock_advices: u64,
    /// Webhooks that an organisation may have.
    #[arg(long, env = "LONGSHORE_QUOTA_WEBHOOKS", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub quota_webhooks: u64,
    /// Business users that an organisation may have.
    #[arg(long, env = "LONGSHORE_QUOTA_BUSINESS_USERS", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub quota_business_users: u64,
    /// Access tokens that an organisation may have, without revoked ones.
    #[arg(long, env = "LONGSHORE_QUOTA_ACCESS_TOKENS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub quota_access_tokens: u64,
}

/// Reads an endpoint: an absolute `http` or `https` URL.
pub fn endpoint(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    if matches!(url.scheme(), "http" | "https") {
        Ok(url)
    } else {
        Err("must be an http or https URL".into())
    }
}

/// Reads a share, 0 to 1.
fn share(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| "must be 0 to 1".to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use clap::{CommandFactory as _, FromArgMatches as _};
    use secrecy::ExposeSecret as _;

    use super::*;

    /// Settings that are not in the environment of a test run, which clap reads itself.
    #[derive(Debug, Parser)]
    enum Cli {
        Seal(Box<VaultSettings>),
        Trace(Box<TraceSettings>),
    }

    fn read(arguments: &[&str], variables: &[(&str, &str)]) -> Result<Cli, clap::Error> {
        let variables: HashMap<_, _> = variables.iter().copied().collect();
        let command = secrets_from_files(Cli::command(), &|name| variables.get(name).map(OsString::from))?;
        let matches = command.try_get_matches_from([&["longshore"], arguments].concat())?;
        Cli::from_arg_matches(&matches)
    }

    #[test]
    fn a_secret_may_be_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, "k=v, \r\n").unwrap();
        let named = [("LONGSHORE_OTLP_HEADERS_FILE", file.to_str().unwrap())];
        let headers = |arguments: &[&str]| match read(arguments, &named).unwrap() {
            Cli::Trace(settings) => settings.otlp_headers.unwrap().expose_secret().to_owned(),
            Cli::Seal(_) => panic!(),
        };
        assert_eq!(headers(&["trace"]), "k=v, ");
        assert_eq!(headers(&["trace", "--otlp-headers", "a=b"]), "a=b");
        // one that must be given
        let named = [("LONGSHORE_ENCRYPTION_KEY_FILE", file.to_str().unwrap())];
        let Cli::Seal(settings) = read(&["seal"], &named).unwrap() else { panic!() };
        assert_eq!(settings.encryption_key.expose_secret(), "k=v, ");
        let help = read(&["seal", "--help"], &named).unwrap_err();
        assert!(!help.to_string().contains("k=v"), "{help}");
    }

    #[test]
    fn a_file_that_is_not_there_and_a_secret_that_is_given_twice_are_refused() {
        let missing = [("LONGSHORE_OTLP_HEADERS_FILE", "/nowhere/secret")];
        let refused = read(&["trace"], &missing).unwrap_err().to_string();
        assert!(refused.contains("LONGSHORE_OTLP_HEADERS_FILE"), "{refused}");
        let twice = [missing[0], ("LONGSHORE_OTLP_HEADERS", "k=v")];
        assert!(read(&["trace"], &twice).unwrap_err().to_string().contains("both set"));
        // what is no secret has no file
        let plain = [("LONGSHORE_TRACE_SHARE_FILE", "/nowhere/secret")];
        assert!(read(&["trace"], &plain).is_ok());
    }

    #[test]
    fn a_share_is_between_nothing_and_all() {
        assert_eq!(share("0.25"), Ok(0.25));
        for text in ["-0.1", "1.1", "NaN", "", "all"] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
