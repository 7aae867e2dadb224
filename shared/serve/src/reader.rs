//! What a connection reads and writes: heads are read within their limits, and writing fails after a while without progress.

use std::future::Future as _;
use std::io::{self, IoSlice, Read as _, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use super::requests::Requests;
use super::room::End;

/// Bytes that are read of a head at once: fewer than the HTTP library has a buffer for, because it doubles that when a read fills it.
const HEAD_READ: usize = 8 * 1024 - 1;

/// The answer to a client that cannot be served now, before its request is known.
const BUSY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// A connection is probed after this long without traffic …
const SILENCE: Duration = Duration::from_mins(1);

/// … and then at this interval, a few times, to find out whether the other end still exists.
const PROBE_EVERY: Duration = Duration::from_secs(15);

/// A stream whose reads of heads are counted, and whose writes fail if its other end stops reading.
#[derive(Debug)]
pub(super) struct Read<S> {
    stream: S,
    patience: Duration,
    requests: Requests,
    /// Set while nothing can be written.
    waits: Option<Pin<Box<Sleep>>>,
}

/// Makes the kernel detect that the other end is gone; sent data may also stay unacknowledged for
/// [`SILENCE`].
pub(super) fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(SILENCE).with_interval(PROBE_EVERY))?;
    socket.set_tcp_user_timeout(Some(SILENCE))
}

/// Answers a connection that gets no place.
pub(super) fn refuse(stream: &TcpStream) {
    let socket = SockRef::from(stream);
    let _ = (&*socket).write(BUSY);
    // the kernel resets a connection that is closed with data to read, and the answer may be lost with it
    let _ = (&*socket).read(&mut [0; HEAD_READ]);
}

impl<S> Read<S> {
    pub(super) fn new(stream: S, patience: Duration, requests: Requests) -> Self {
        Self { stream, patience, requests, waits: None }
    }

    /// Returns the result of a write, or an error if no write succeeds in time.
    fn judge<T>(&mut self, context: &mut Context<'_>, wrote: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            self.waits = None;
            return wrote;
        }
        let until = Instant::now() + self.patience;
        let waits = self.waits.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        ready!(waits.as_mut().poll(context));
        self.requests.fail(End::Unread);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Read<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.requests.expects_head() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let most = buffer.remaining().min(HEAD_READ);
        let mut piece = ReadBuf::new(buffer.initialize_unfilled_to(most));
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut piece))?;
        let read = piece.filled().len();
        buffer.advance(read);
        Poll::Ready(self.requests.read(read).map_err(|refusal| {
            let _ = Pin::new(&mut self.stream).poll_write(context, BUSY);
            self.requests.fail(End::Memory);
            io::Error::new(io::ErrorKind::OutOfMemory, refusal)
        }))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Read<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.judge(context, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use longshore_kernel::metrics::Metrics;
    use longshore_kernel::share::{Ledger, Who};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    use super::*;
    use crate::room::Room;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn read(stream: DuplexStream) -> Read<DuplexStream> {
        let place = Room::new(1, 1, Metrics::new()).enter(None).unwrap();
        Read::new(stream, PATIENCE, Requests::new(place, Ledger::new("bytes", 1, 1), Who::default()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_reads_a_little_now_and_then_keeps_its_connection() {
        let (ours, mut theirs) = tokio::io::duplex(10);
        let mut ours = read(ours);
        let write = tokio::spawn(async move { ours.write_all(&[7; 100]).await });
        for _ in 0..100 {
            tokio::time::sleep(PATIENCE.saturating_sub(Duration::from_secs(1))).await;
            assert_eq!(theirs.read_u8().await.unwrap(), 7);
        }
        write.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_reads_nothing_loses_its_connection() {
        let (ours, _theirs) = tokio::io::duplex(10);
        let mut ours = read(ours);
        let began = Instant::now();
        let error = ours.write_all(&[7; 100]).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::TimedOut, PATIENCE));
    }
}
