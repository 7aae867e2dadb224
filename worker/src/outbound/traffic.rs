//! Follows what comes over a connection, and limits how many bytes it may deliver without progress of an answer.
//!
//! An answer may be preceded by any number of interim ones (1xx), and by any number of bytes that belong to
//! none, and a client would read them until the deadline, at the speed of the line. So each connection has a
//! budget of bytes. Reading spends it; the head of an answer, and every piece of a body that is consumed,
//! renews it. The same holds for kept connections and for the streams of HTTP/2, which share the budget of
//! their connection: progress of one renews it for all.
//!
//! The [heads](super::head) of HTTP/1 are made readable on the way.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use http::{Extensions, StatusCode};
use hyper_util::client::legacy::connect::{CaptureConnection, Connected, Connection};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf, Take};

use super::head::Heads;

/// Bytes that may come before the body of an answer.
pub(super) const BEFORE_BODY: usize = 256 * 1024;

/// Bytes that are read at a time. The client reads two such pieces of a body before they are consumed, which must be less than the
/// budget.
pub(super) const PIECE: usize = 64 * 1024;

/// [`BEFORE_BODY`] bytes came, and the body of an answer did not begin.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the headers of the response exceed {} KiB", BEFORE_BODY / 1024)]
pub(super) struct Flooded;

/// What came over a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Traffic(Arc<Record>);

#[derive(Debug, Default)]
struct Record {
    /// Bytes since the last progress.
    spent: AtomicUsize,
    /// An answer came, of this call or an earlier one.
    answered: AtomicBool,
    /// HTTP/1: a byte came since the last request began.
    heard: AtomicBool,
    /// HTTP/1: the status of the answer to the last request; 0 before its line has arrived.
    status: AtomicU16,
    /// The other side closed the connection, or it broke.
    ended: AtomicBool,
}

impl Traffic {
    /// The traffic of the connection that a call was given, if it was given one.
    pub(super) fn of(connection: &CaptureConnection) -> Option<Self> {
        let mut extras = Extensions::new();
        connection.connection_metadata().as_ref()?.get_extras(&mut extras);
        extras.remove()
    }

    /// Notes progress of an answer.
    pub(super) fn renew(&self) {
        self.0.spent.store(0, Relaxed);
        self.0.answered.store(true, Relaxed);
    }

    /// The status of the answer, although the rest of its head cannot be read.
    pub(super) fn status(&self) -> Option<StatusCode> {
        StatusCode::from_u16(self.0.status.load(Relaxed)).ok()
    }

    /// Whether this was a kept connection that the other side gave up before it answered the last request.
    pub(super) fn was_given_up(&self) -> bool {
        self.0.answered.load(Relaxed) && self.0.ended.load(Relaxed) && !self.0.heard.load(Relaxed)
    }

    fn begin_request(&self) {
        self.0.heard.store(false, Relaxed);
        self.0.status.store(0, Relaxed);
    }

    fn note_end(&self) {
        self.0.ended.store(true, Relaxed);
    }

    fn spend(&self, bytes: usize) {
        self.0.spent.fetch_add(bytes, Relaxed);
    }

    fn is_spent(&self) -> bool {
        self.0.spent.load(Relaxed) >= BEFORE_BODY
    }
}

/// A connection that is followed. Each of its answers has the [`Traffic`] among its extensions.
#[derive(Debug)]
pub(super) struct Followed<S> {
    stream: Take<S>,
    traffic: Traffic,
    /// Absent with HTTP/2.
    heads: Option<Heads>,
    /// A request is written. The client flushes after the last byte of each, so the next byte that it writes begins another.
    is_written: bool,
}

impl<S: Connection + AsyncRead> Followed<S> {
    pub(super) fn new(stream: S) -> Self {
        let heads = (!stream.connected().is_negotiated_h2()).then(Heads::default);
        Self::over(stream, heads)
    }
}

impl<S: AsyncRead> Followed<S> {
    fn over(stream: S, heads: Option<Heads>) -> Self {
        Self { stream: stream.take(0), traffic: Traffic::default(), heads, is_written: false }
    }
}

impl<S> Followed<S> {
    fn note_write(&mut self) {
        if std::mem::take(&mut self.is_written)
            && let Some(heads) = &mut self.heads
        {
            *heads = Heads::default();
            self.traffic.begin_request();
        }
    }

    fn note_failure<T>(&self, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Err(_)) = &polled {
            self.traffic.note_end();
        }
        polled
    }
}

impl<S: Connection + AsyncRead> Connection for Followed<S> {
    fn connected(&self) -> Connected {
        self.stream.get_ref().connected().extra(self.traffic.clone())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Followed<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        // a piece may have nothing that is left
        loop {
            if this.traffic.is_spent() {
                return Poll::Ready(Err(io::Error::other(Flooded)));
            }
            this.stream.set_limit(PIECE as u64);
            let polled = Pin::new(&mut this.stream).poll_read(context, buffer);
            ready!(this.note_failure(polled))?;
            let came = buffer.filled().len() - before;
            if came == 0 {
                if buffer.remaining() > 0 {
                    this.traffic.note_end();
                }
                return Poll::Ready(Ok(()));
            }
            this.traffic.spend(came);
            let Some(heads) = this.heads.as_mut().filter(|heads| !heads.is_complete()) else {
                return Poll::Ready(Ok(()));
            };
            let left = heads.tidy(&mut buffer.filled_mut()[before..]);
            buffer.set_filled(before + left);
            this.traffic.0.heard.store(true, Relaxed);
            this.traffic.0.status.store(heads.status().map_or(0, |status| status.as_u16()), Relaxed);
            if heads.is_complete() {
                this.traffic.renew();
            }
            if left > 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Followed<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.note_write();
        let polled = Pin::new(this.stream.get_mut()).poll_write(context, bytes);
        this.note_failure(polled)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.note_write();
        let polled = Pin::new(this.stream.get_mut()).poll_write_vectored(context, pieces);
        this.note_failure(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.get_ref().is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.is_written = true;
        let polled = Pin::new(this.stream.get_mut()).poll_flush(context);
        this.note_failure(polled)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.get_mut().stream.get_mut()).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_without_progress_of_an_answer_are_bounded() {
        let flood = vec![b'x'; 2 * BEFORE_BODY];
        for heads in [None, Some(Heads::default())] {
            let mut stream = Followed::over(&flood[..], heads);
            let traffic = stream.traffic.clone();
            let mut read = vec![0; BEFORE_BODY];
            stream.read_exact(&mut read).await.unwrap();
            traffic.renew();
            stream.read_exact(&mut read).await.unwrap();
            let error = stream.read(&mut read).await.unwrap_err();
            assert!(error.get_ref().unwrap().is::<Flooded>());
        }
    }
}
