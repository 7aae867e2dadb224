//! Standard output.

use std::io::{self, Stdout, Write};

/// Standard output for a command that ends by itself. A reader that has closed it, such as `head`, wants no more text, but the command
/// goes on, so that its exit status shows how it ended.
pub(super) fn stdout() -> Output {
    Output(io::stdout())
}

/// See [`stdout`].
#[derive(Debug)]
pub(super) struct Output(Stdout);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        unless_closed(self.0.write(bytes), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        unless_closed(self.0.flush(), ())
    }
}

fn unless_closed<T>(written: io::Result<T>, all: T) -> io::Result<T> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(all),
        written => written,
    }
}
