//! Ports for servers that are started as processes: they cannot be handed a listener, only a number.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// Where they are looked for: below the ports that a system gives to outgoing connections, of which one might take it
/// while its server is not there yet, or is being started again.
const FIRST: u32 = 20_000;
const COUNT: u32 = 12_000;

/// A port of the loopback that nobody listens on at this moment, and that this process was not told of before.
///
/// # Errors
/// When there is none.
pub fn free_port() -> io::Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // processes that look at the same time begin at different places
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
