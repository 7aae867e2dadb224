//! Ports for server processes, which cannot be given a listener, only a number.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// The range of ports: below those that the system gives to outgoing connections, one of which could take the
/// port before its server starts or while it restarts.
const FIRST: u32 = 20_000;
const COUNT: u32 = 12_000;

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
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "every port is taken"))
}
