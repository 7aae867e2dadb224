//! Resolves names to addresses, without those that must not be called.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::Name;
use longshore_kernel::address::Guard;
use tower::{BoxError, Service};

/// All addresses of a name are internal.
#[derive(Debug, thiserror::Error)]
#[error("all addresses of this name are private and must not be called")]
pub(super) struct Forbidden;

/// Looks up the addresses of a name.
type LookUp = dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync;

/// Asks the system's resolver and checks the addresses at the moment of connecting. The client connects only
/// to addresses from here, so a name that resolves differently later is checked again.
#[derive(Clone)]
pub(super) struct GuardedResolver {
    guard: Guard,
    look_up: Arc<LookUp>,
}

impl GuardedResolver {
    pub(super) fn new(guard: Guard) -> Self {
        Self::asking(guard, |name| {
            // the port of the URL replaces this one
            Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.collect()) })
        })
    }

    fn asking(
        guard: Guard,
        look_up: impl Fn(String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync + 'static,
    ) -> Self {
        Self { guard, look_up: Arc::new(look_up) }
    }
}

impl fmt::Debug for GuardedResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GuardedResolver").field(&self.guard).finish()
    }
}

impl Service<Name> for GuardedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (guard, look_up) = (self.guard.clone(), Arc::clone(&self.look_up));
        Box::pin(async move {
            let all = look_up(name.as_str().to_owned()).await?;
            let found_any = !all.is_empty();
            let permitted: Vec<_> = all.into_iter().filter(|a| guard.permits(a.ip())).collect();
            if found_any && permitted.is_empty() {
                return Err(Forbidden.into());
            }
            Ok(permitted.into_iter())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn the_addresses_of_a_name_are_checked_at_each_connection() {
        let says = Mutex::new(vec![
            vec!["127.0.0.1:0"],
            vec!["[::ffff:169.254.169.254]:0", "10.0.0.1:0", "168.63.129.16:0", "[2002:a83f:8110::1]:0"],
            vec!["10.0.0.1:0", "93.184.216.34:0", "[fd00::1]:0"],
            vec!["93.184.216.34:0"],
        ]);
        let mut resolver = GuardedResolver::asking(Guard::new(&[]), move |_| {
            let now = says.lock().unwrap().pop().unwrap();
            Box::pin(async move { Ok(now.into_iter().map(|a| a.parse().unwrap()).collect()) })
        });
        let public: SocketAddr = "93.184.216.34:0".parse().unwrap();
        for _ in 0..2 {
            let addresses: Vec<_> =
                resolver.call("shop.example".parse().unwrap()).await.ok().unwrap().collect();
            assert_eq!(addresses, [public]);
        }
        for _ in 0..2 {
            let error = resolver.call("shop.example".parse().unwrap()).await.err().unwrap();
            assert!(error.is::<Forbidden>());
        }
    }
}
