//! Clients outside the service: HTTP for partners, operators and load, Redis for tests that break it.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult};

/// How long Redis may take. It affects no measurement: the machine may be busy with something else.
const REDIS_PATIENCE: Duration = Duration::from_secs(20);

/// A client for this machine only, so without proxy; connections are kept and reused. A request may take a
/// minute.
///
/// # Errors
/// When the client's own set-up fails.
pub fn outside() -> reqwest::Result<reqwest::Client> {
    // The client is built with TLS support and requires a provider even for plain HTTP. An error means that
    // one is already installed.
    _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .tcp_nodelay(true)
        .timeout(Duration::from_mins(1))
        // earlier than a server that closes idle connections, which would race with the next request
        .pool_idle_timeout(Duration::from_secs(5))
        .build()
}

/// A connection to a Redis, with time limits for a busy machine.
///
/// # Errors
/// When the URL is invalid, or nothing answers there.
pub async fn redis(url: &str) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(REDIS_PATIENCE))
        .set_response_timeout(Some(REDIS_PATIENCE));
    redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await
}
