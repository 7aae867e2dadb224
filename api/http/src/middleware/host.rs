//! Checks that a request of HTTP/1.1 names exactly one host (RFC 9112, section 3.2). If it named two, a proxy
//! and the service might use different ones, which an attacker could exploit.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, Version};
use longshore_kernel::problem::{INVALID_HEADER, Problem};

use crate::extract::Failure;

/// Refuses a request without exactly one valid host.
pub async fn layer(request: Request, next: Next) -> Response {
    match fault(request.version(), request.headers()) {
        None => next.run(request).await,
        Some(detail) => Failure::from(Problem::new(&INVALID_HEADER, detail)).into_response(),
    }
}

/// HTTP/1.0 may omit the header, and HTTP/2 has its own field for it.
fn fault(version: Version, headers: &HeaderMap) -> Option<&'static str> {
    let mut hosts = headers.get_all(HOST).into_iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if version == Version::HTTP_11 => Some("an HTTP/1.1 request must have a Host header"),
        (Some(_), Some(_)) => Some("a request must have only one Host header"),
        // an empty one means that the target has no authority
        (Some(host), None) if !host.is_empty() && !is_host(host.as_bytes()) => {
            Some("the Host header must be a host, optionally with a port")
        }
        _ => None,
    }
}

fn is_host(value: &[u8]) -> bool {
    Authority::try_from(value).is_ok_and(|authority| !authority.as_str().contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_one_host_if_its_version_requires_it() {
        let fault = |version, hosts: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(HOST, host.parse().unwrap());
            }
            fault(version, &headers).is_some()
        };
        for hosts in [&["longshore.example"][..], &["10.0.0.1:8080"], &["[::1]:8080"], &[""]] {
            assert!(!fault(Version::HTTP_11, hosts), "{hosts:?}");
        }
        for hosts in
            [&[][..], &["a.example", "a.example"], &["a.example, b.example"], &["a b"], &["user@a.example"]]
        {
            assert!(fault(Version::HTTP_11, hosts), "{hosts:?}");
        }
        assert!(!fault(Version::HTTP_10, &[]) && !fault(Version::HTTP_2, &[]));
        assert!(fault(Version::HTTP_10, &["a.example", "b.example"]));
    }
}
