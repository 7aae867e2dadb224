//! Names to addresses, those left out that must not be called.

use std::net::SocketAddr;

use longshore_shared::platform::address::Guard;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// A name has addresses of inside only.
#[derive(Debug, thiserror::Error)]
#[error("no address of this name may be called")]
pub(super) struct Forbidden;

/// Asks the system's resolver, and judges what it says at the moment of connecting.
#[derive(Debug)]
pub(super) struct GuardedResolver(Guard);

impl GuardedResolver {
    pub(super) fn new(guard: Guard) -> Self {
        Self(guard)
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.0.clone();
        Box::pin(async move {
            // the port of the URL takes the place of this one
            let all: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let found_any = !all.is_empty();
            let permitted: Vec<_> = all.into_iter().filter(|a| guard.permits(a.ip())).collect();
            if found_any && permitted.is_empty() {
                return Err(Forbidden.into());
            }
            Ok(Box::new(permitted.into_iter()) as Addrs)
        })
    }
}
