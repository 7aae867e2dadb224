//! The clients of whoever stands outside: HTTP as partners, operators and load speak it, Redis as one who breaks it does.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult};

/// How long Redis may take. Nothing of the service is measured by it: a machine may be busy with something else.
const REDIS_PATIENCE: Duration = Duration::from_secs(20);

/// A client that speaks to this machine only through loopback, so without proxy; connections are kept and
/// reused. A request has a minute.
///
/// # Errors
/// When the client's own set-up fails.
pub fn outside() -> reqwest::Result<reqwest::Client> {
    // The client is built with TLS support and asks for a provider even where it only speaks plain HTTP.
    // An error says that one is installed already.
    _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .tcp_nodelay(true)
        .timeout(Duration::from_mins(1))
        // sooner than a server that closes idle connections, which would race with the next request
        .pool_idle_timeout(Duration::from_secs(5))
        .build()
}

/// A connection to a Redis, for as long as a busy machine may need.
///
/// # Errors
/// When the URL is none, or nobody answers there.
pub async fn redis(url: &str) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(REDIS_PATIENCE))
        .set_response_timeout(Some(REDIS_PATIENCE));
    redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await
}
