//! The HTTP client of whoever stands outside: partners, operators, load.

use std::time::Duration;

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
        .build()
}
