//! Limits how many bytes a connection may deliver without progress of an answer.
//!
//! An answer may be preceded by any number of interim ones (1xx), and by any number of bytes that belong to
//! none, and a client would read them until the deadline, at the speed of the line. So each connection has a
//! budget of bytes. Reading spends it; the head of an answer, and every piece of a body that is consumed,
//! renews it. The same holds for kept connections and for the streams of HTTP/2, which share the budget of
//! their connection: progress of one renews it for all.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that may come before the body of an answer. What the client reads ahead of a body must be less.
pub(super) const BEFORE_BODY: usize = 256 * 1024;

/// More than [`BEFORE_BODY`] bytes came.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the headers of the response exceed {} KiB", BEFORE_BODY / 1024)]
pub(super) struct Flooded;

/// The bytes that came over a connection since the last progress.
#[derive(Clone, Debug, Default)]
pub(super) struct Budget(Arc<AtomicUsize>);

impl Budget {
    /// Notes progress of an answer.
    pub(super) fn renew(&self) {
        self.0.store(0, Relaxed);
    }

    fn spend(&self, bytes: usize) -> io::Result<()> {
        if self.0.fetch_add(bytes, Relaxed).saturating_add(bytes) > BEFORE_BODY {
            return Err(io::Error::other(Flooded));
        }
        Ok(())
    }
}

/// A connection with a budget. Each of its answers has the [`Budget`] among its extensions.
#[derive(Debug)]
pub(super) struct Budgeted<S> {
    stream: S,
    budget: Budget,
}

impl<S> Budgeted<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, budget: Budget::default() }
    }
}

impl<S: Connection> Connection for Budgeted<S> {
    fn connected(&self) -> Connected {
        self.stream.connected().extra(self.budget.clone())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Budgeted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Poll::Ready(Ok(())) = polled {
            self.budget.spend(buffer.filled().len() - before)?;
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Budgeted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
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
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn bytes_without_progress_of_an_answer_are_bounded() {
        let flood = vec![b'x'; 2 * BEFORE_BODY];
        let mut stream = Budgeted::new(&flood[..]);
        let budget = stream.budget.clone();
        let mut read = vec![0; BEFORE_BODY];
        stream.read_exact(&mut read).await.unwrap();
        budget.renew();
        stream.read_exact(&mut read).await.unwrap();
        let mut stream = Budgeted::new(&flood[..]);
        stream.read_exact(&mut read).await.unwrap();
        let error = stream.read(&mut read).await.unwrap_err();
        assert!(error.get_ref().unwrap().is::<Flooded>());
    }
}
