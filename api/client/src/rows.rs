//! Bodies that are streamed: rows of a sync, one JSON object a line.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use tokio::sync::mpsc;

use crate::error::Error;

/// Bytes that are read and sent at once.
const PIECE: usize = 64 * 1024;

/// Pieces that are read ahead of the connection.
const AHEAD: usize = 2;

/// Rows to send as NDJSON, one JSON object a line, or as CSV, of any length. They are read piece by piece while they are
/// sent, and never held as a whole.
pub struct Rows {
    header: Bytes,
    source: Source,
    is_csv: bool,
    is_dry_run: bool,
    guard: Vec<(&'static str, String)>,
    /// How a file of CSV is read, as members of a query.
    reading: Vec<(&'static str, String)>,
    through: Arc<Through>,
    progress: Arc<dyn Fn(u64) + Send + Sync>,
}

type Through = dyn Fn(Box<dyn Read + Send>) -> Box<dyn Read + Send> + Send + Sync;

enum Source {
    /// It can be sent again.
    Bytes(Bytes),
    /// A regular file, which can be read again.
    File { path: PathBuf, size: u64 },
    /// It can be read once: from then on there is `None`.
    Once(Mutex<Option<Box<dyn Read + Send>>>),
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match &self.source {
            Source::Bytes(bytes) => format!("{} bytes", bytes.len()),
            Source::File { path, .. } => path.display().to_string(),
            Source::Once(_) => "a reader".to_owned(),
        };
        f.debug_struct("Rows").field("source", &source).finish_non_exhaustive()
    }
}

impl Rows {
    /// The rows in a file, which are CSV if its name ends with `.csv`. A call that sends them may be repeated, unless the file is a pipe.
    ///
    /// # Errors
    /// [`Error::Rows`] when the file does not exist or cannot be opened.
    pub fn from_file(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        let named = |error: io::Error| {
            Error::Rows(io::Error::new(error.kind(), format!("{}: {error}", path.display())))
        };
        let metadata = std::fs::metadata(&path).map_err(named)?;
        let is_csv = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
        let rows = if metadata.is_file() {
            let size = metadata.len();
            Self::new(Source::File { path, size })
        } else {
            // a pipe can be read only once
            Self::from_reader(File::open(&path).map_err(named)?)
        };
        Ok(Self { is_csv, ..rows })
    }

    /// The rows of a reader, such as standard input. A call that sends them is not repeated, because they can
    /// be read only once. The reader may block: it is read on a thread of its own.
    #[must_use]
    pub fn from_reader(reader: impl Read + Send + 'static) -> Self {
        Self::new(Source::Once(Mutex::new(Some(Box::new(reader)))))
    }

    /// Rows in memory.
    #[must_use]
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Self {
        Self::new(Source::Bytes(bytes.into()))
    }

    fn new(source: Source) -> Self {
        Self {
            header: Bytes::new(),
            source,
            is_csv: false,
            is_dry_run: false,
            guard: Vec::new(),
            reading: Vec::new(),
            through: Arc::new(|rows| rows),
            progress: Arc::new(|_| {}),
        }
    }

    /// Calls this with the number of bytes of rows that were read so far. A call that is repeated begins at 0
    /// again.
    #[must_use]
    pub fn on_progress(mut self, progress: impl Fn(u64) + Send + Sync + 'static) -> Self {
        self.progress = Arc::new(progress);
        self
    }

    /// Says that they are only tried: their job is a `preview`, which [`Client::apply_job`](crate::Client::apply_job) applies.
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.is_dry_run = true;
        self
    }

    /// Says the character set of CSV that is not UTF-8, such as `windows-1250`.
    #[must_use]
    pub fn charset(mut self, name: impl Into<String>) -> Self {
        self.reading.push(("charset", name.into()));
        self
    }

    /// Says what is between two cells of CSV, where the service is not to find it by the first line.
    #[must_use]
    pub fn delimiter(mut self, delimiter: char) -> Self {
        self.reading.push(("delimiter", if delimiter == '\t' { "tab".to_owned() } else { delimiter.into() }));
        self
    }

    /// Sends what this makes of the rows, each time that they are read.
    #[must_use]
    pub fn through(
        mut self,
        change: impl Fn(Box<dyn Read + Send>) -> Box<dyn Read + Send> + Send + Sync + 'static,
    ) -> Self {
        self.through = Arc::new(change);
        self
    }

    /// The number of bytes, if it is known.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        match &self.source {
            Source::Bytes(bytes) => u64::try_from(bytes.len()).ok(),
            Source::File { size, .. } => Some(*size),
            Source::Once(_) => None,
        }
    }

    /// Sends this line before the rows: the header of a sync.
    pub(crate) fn with_header(mut self, header: impl fmt::Display) -> Self {
        self.header = format!("{header}\n").into();
        self
    }

    /// Whether they are CSV.
    #[must_use]
    pub fn is_csv(&self) -> bool {
        self.is_csv
    }

    /// Guards their sync: more than this, a number of rows or a percentage such as `20%`, is withheld. `of` is `maxDeactivated`,
    /// `maxCancelled` or `maxZeroed`.
    #[must_use]
    pub fn guard(mut self, of: &'static str, limit: impl Into<String>) -> Self {
        self.guard.push((of, limit.into()));
        self
    }

    pub(crate) fn guards(&self) -> &[(&'static str, String)] {
        &self.guard
    }

    pub(crate) fn is_dry_run(&self) -> bool {
        self.is_dry_run
    }

    /// Of CSV, how it is read.
    pub(crate) fn csv(&self) -> Option<&[(&'static str, String)]> {
        self.is_csv.then_some(&self.reading)
    }

    pub(crate) fn is_repeatable(&self) -> bool {
        !matches!(self.source, Source::Once(_))
    }

    /// A body of the rows, and a place for the error that ends it.
    pub(crate) fn open(&self) -> Result<(reqwest::Body, Failed), Error> {
        let reader: Box<dyn Read + Send> = match &self.source {
            Source::Bytes(bytes) => Box::new(io::Cursor::new(bytes.clone())),
            Source::File { path, .. } => {
                let named =
                    |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
                Box::new(File::open(path).map_err(named)?)
            }
            Source::Once(reader) => {
                let reader = reader.lock().unwrap_or_else(PoisonError::into_inner).take();
                reader.ok_or_else(|| io::Error::other("they were already sent, and can be read only once"))?
            }
        };
        let reader = (self.through)(reader);
        let (pieces, stream) = mpsc::channel(AHEAD);
        let failed = Failed::default();
        (self.progress)(0);
        let (header, progress, noted) = (self.header.clone(), Arc::clone(&self.progress), failed.clone());
        // Not a task of the runtime, which would wait for a read that blocks before it ends.
        std::thread::Builder::new()
            .name("rows".to_owned())
            .spawn(move || read(reader, header, &pieces, progress.as_ref(), &noted))?;
        Ok((reqwest::Body::wrap_stream(Pieces(stream)), failed))
    }
}

/// Reads to the end, or until the receiver is gone.
fn read(
    mut reader: Box<dyn Read + Send>,
    header: Bytes,
    pieces: &mpsc::Sender<io::Result<Bytes>>,
    progress: &(dyn Fn(u64) + Send + Sync),
    failed: &Failed,
) {
    if !header.is_empty() && pieces.blocking_send(Ok(header)).is_err() {
        return;
    }
    let mut sent = 0;
    loop {
        let mut piece = vec![0; PIECE];
        match reader.read(&mut piece) {
            Ok(0) => return,
            Ok(length) => {
                piece.truncate(length);
                if pieces.blocking_send(Ok(piece.into())).is_err() {
                    return;
                }
                sent += u64::try_from(length).unwrap_or(0);
                progress(sent);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                let cut = io::Error::new(error.kind(), "the rows cannot be read");
                failed.note(error);
                // the connection is closed before the body ends, so the service keeps nothing
                let _ = pieces.blocking_send(Err(cut));
                return;
            }
        }
    }
}

/// The error that ended a body before its end.
#[derive(Clone, Default)]
pub(crate) struct Failed(Arc<Mutex<Option<io::Error>>>);

impl Failed {
    fn note(&self, error: io::Error) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    pub(crate) fn taken(&self) -> Option<io::Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

struct Pieces(mpsc::Receiver<io::Result<Bytes>>);

impl Stream for Pieces {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}
