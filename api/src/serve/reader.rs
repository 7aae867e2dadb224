//! A connection whose other end must read: writing fails after a while without progress.

use std::future::Future as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

/// A connection is probed after this long without traffic …
const SILENCE: Duration = Duration::from_mins(1);

/// … and then at this interval, a few times, to find out whether the other end still exists.
const PROBE_EVERY: Duration = Duration::from_secs(15);

/// A stream whose writes fail if its other end stops reading.
#[derive(Debug)]
pub(super) struct Read<S> {
    stream: S,
    patience: Duration,
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

impl<S> Read<S> {
    pub(super) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, waits: None }
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
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Read<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_reads_a_little_now_and_then_keeps_its_connection() {
        let (ours, mut theirs) = tokio::io::duplex(10);
        let mut ours = Read::new(ours, PATIENCE);
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
        let mut ours = Read::new(ours, PATIENCE);
        let began = Instant::now();
        let error = ours.write_all(&[7; 100]).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::TimedOut, PATIENCE));
    }
}
