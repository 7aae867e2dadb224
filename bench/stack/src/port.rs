//! Ports for server processes, which cannot be given a listener, only a number.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// The range of ports: below those that the system gives to outgoing connections, one of which could take the
/// port before its server starts or while it restarts.
const FIRST: u32 = 20_000;
const COUNT: u32 = 12_000;

/// Attempts to start a server: another process may take its port first.
const ATTEMPTS: u32 = 3;

/// A loopback port without a listener, which this process has not returned before.
///
/// # Errors
/// When there is none.
pub fn free_port() -> io::Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // processes that search at the same time begin at different positions
    let begin = std::process::id().wrapping_mul(997);
    for _ in 0..COUNT {
        let place = begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
        let port = u16::try_from(FIRST + place).map_err(io::Error::other)?;
        if is_free(port) {
            return Ok(port);
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "every port is taken"))
}

/// Whether a server can listen on a loopback port.
#[must_use]
pub fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Starts a server on a free port, and on another one if that fails.
///
/// # Errors
/// The last error of the server.
pub fn on_free_port<T>(mut start: impl FnMut(u16) -> anyhow::Result<T>) -> anyhow::Result<(T, u16)> {
    let mut attempt = 1;
    loop {
        let port = free_port()?;
        match start(port) {
            Ok(server) => return Ok((server, port)),
            Err(error) if attempt == ATTEMPTS => return Err(error),
            Err(_) => attempt += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_fails_gets_another_port() {
        let mut tried = Vec::new();
        let ((), port) = on_free_port(|port| {
            tried.push(port);
            anyhow::ensure!(tried.len() == 3, "taken");
            Ok(())
        })
        .unwrap();

        assert_eq!((tried.len(), tried.last()), (3, Some(&port)));
        tried.dedup();
        assert_eq!(tried.len(), 3, "{tried:?}");
        assert!(on_free_port(|_| anyhow::bail!("never")).map(|((), port)| port).is_err());
    }
}
