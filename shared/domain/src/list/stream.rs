//! Lists that are sent while they are read: from one snapshot, in constant memory.
//!
//! A separate task reads the rows with a cursor in a read-only transaction, and passes them on in pieces of a number of
//! *bytes*: a record may have a few hundred, or more than half a megabyte. At most two pieces are read ahead of the client;
//! if it is slower than that, Postgres waits. Rows with related ones in them are fetched a few at a time, as many as make a
//! piece.
//!
//! Dropping the stream, or leaving a piece unread for too long, ends the transaction: a list need not be read to its end.
//! Postgres itself ends a transaction without a fetch for a minute.

use std::time::Duration;

use futures::TryStreamExt as _;
use sqlx::PgConnection;
use tokio::sync::mpsc;
use tracing::Instrument as _;

use super::nested::Row;
use super::statement::End;
use super::{GATHERED, Request, Sql, Statement, refused};
use longshore_kernel::access::Scope;
use longshore_kernel::database::{Pool, Transaction};
use longshore_kernel::problem::Problem;

/// Bytes of a piece, but of the first; the last record of a piece may go past them.
const PIECE: usize = 256 * 1024;

/// Pieces that wait for the reader.
const AHEAD: usize = 2;

/// Rows that are fetched at once, where they are small.
const BATCH: usize = 256;

/// Rows that are fetched at once, of those that others are put into.
const NESTED_BATCH: usize = 64;

/// How long the rows of a batch may take: to be found, and to be sent to a reader that takes its time.
const BATCH_PATIENCE: &str = "SET LOCAL statement_timeout = '60s'";

/// How long the count may take. Without nested loops it takes as long as there are rows, whatever Postgres expects (`read` in `list`).
const COUNT_PATIENCE: &str = "SET LOCAL statement_timeout = '5s'; SET LOCAL enable_nestloop = off";

/// The answer, in pieces.
#[derive(Debug)]
pub struct Stream(mpsc::Receiver<Result<Piece, Problem>>);

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// More follows.
    More(String),
    /// The last.
    Last(String),
}

impl Stream {
    /// Begins it: from now on, the answer is what the database holds at this moment.
    pub(super) async fn open(
        pool: &Pool,
        scope: Scope,
        request: Request,
        patience: Duration,
    ) -> Result<Self, Problem> {
        let statement = Statement::new(&scope, &request)?;
        let mut tx = pool.transaction(Some("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")).await?;
        let (sql, arguments) = statement.for_cursor(request.one_more(), request.offset)?;
        let mut declare = Sql::default();
        declare.push("DECLARE listed NO SCROLL CURSOR FOR ").piece(&sql);
        // not kept: the columns of a cursor are another matter each time
        let declare = sqlx::query_with(declare.finish(), arguments).persistent(false);
        declare.execute(&mut *tx).await.map_err(refused)?;
        let (sender, receiver) = mpsc::channel(AHEAD);
        let end = End::of(&request);
        let source = Source { tx, scope, request, statement, end };
        tokio::spawn(produce(source, sender, patience).in_current_span());
        Ok(Self(receiver))
    }

    /// The next piece; `None` where the list breaks off, or after its last.
    ///
    /// # Errors
    /// What the database failed with; nothing comes after it.
    pub async fn next(&mut self) -> Result<Option<Piece>, Problem> {
        self.0.recv().await.transpose()
    }
}

/// Why no more is sent.
enum Broken {
    /// The database failed.
    Failed(Problem),
    /// The reader is gone.
    Gone,
    /// The reader does not read.
    Stalled,
}

impl From<Problem> for Broken {
    fn from(problem: Problem) -> Self {
        Self::Failed(refused(problem))
    }
}

impl From<sqlx::Error> for Broken {
    fn from(error: sqlx::Error) -> Self {
        Self::Failed(refused(error))
    }
}

/// Reads and passes on, until that is no longer possible.
async fn produce(mut source: Source, sender: mpsc::Sender<Result<Piece, Problem>>, patience: Duration) {
    let mut piece = String::new();
    source.request.begin(&mut piece);
    let mut writer = Writer { piece, size: GATHERED, returned: 0, sent: 0, sender: sender.clone(), patience };
    let ended = tokio::select! {
        ended = source.write(&mut writer) => ended,
        // also while Postgres looks for the next row
        () = sender.closed() => Err(Broken::Gone),
    };
    match ended {
        Ok(()) | Err(Broken::Gone) => {}
        Err(Broken::Stalled) => {
            tracing::info!(
                list.timeout_ms = patience.as_millis(),
                "a list was cut off: the client stopped reading"
            );
        }
        Err(Broken::Failed(problem)) => {
            // the handler reports it, if it is still there; otherwise it is logged here
            if writer.size != GATHERED {
                tracing::error!(error = %problem, cause = ?problem.cause(), "a list was cut off");
            }
            let _ = sender.try_send(Err(problem));
        }
    }
}

/// Where the rows come from.
struct Source {
    tx: Transaction,
    scope: Scope,
    request: Request,
    statement: Statement,
    end: End,
}

impl Source {
    async fn write(&mut self, writer: &mut Writer) -> Result<(), Broken> {
        // the first row alone: to find and to sort takes as long as a statement may
        let mut batch = 1;
        loop {
            let (before, began) = (writer.sent, writer.returned);
            let found = if self.statement.shape.is_plain() {
                self.plain(batch, writer).await?
            } else {
                self.nested(batch, writer).await?
            };
            if found < batch {
                break;
            }
            if began == 0 {
                sqlx::raw_sql(BATCH_PATIENCE).execute(&mut *self.tx).await?;
            }
            let most = if self.statement.shape.is_plain() { BATCH } else { NESTED_BATCH };
            let average = writer.sent.saturating_sub(before).max(1).div_ceil(found);
            batch = (PIECE / average).clamp(1, most.min(16 * batch));
        }
        sqlx::raw_sql(COUNT_PATIENCE).execute(&mut *self.tx).await?;
        let (request, returned) = (&self.request, writer.returned);
        let total = self.statement.total(&mut self.tx, request, returned, &self.end).await?;
        let next = self.end.next(request, returned);
        request.end(&mut writer.piece, returned, total, next.as_deref());
        writer.end().await
    }

    /// Rows that go to the reader while they come.
    async fn plain(&mut self, batch: usize, writer: &mut Writer) -> Result<usize, Broken> {
        let mut rows = sqlx::query(fetch(batch)).persistent(false).fetch(&mut *self.tx);
        let mut found = 0;
        while let Some(row) = rows.try_next().await? {
            found += 1;
            if self.end.takes(&row)? {
                writer.row(&self.request, &self.statement.shape.read(&row)?).await?;
            }
        }
        Ok(found)
    }

    /// Rows that others are put into.
    async fn nested(&mut self, batch: usize, writer: &mut Writer) -> Result<usize, Broken> {
        let connection: &mut PgConnection = &mut self.tx;
        let found = sqlx::query(fetch(batch)).persistent(false).fetch_all(&mut *connection).await?;
        let shape = &self.statement.shape;
        let mut rows = Vec::with_capacity(found.len());
        for row in &found {
            if self.end.takes(row)? {
                rows.push(shape.read(row)?);
            }
        }
        shape.expand(connection, &self.scope, &mut rows).await?;
        for row in &rows {
            writer.row(&self.request, row).await?;
        }
        Ok(found.len())
    }
}

fn fetch(rows: usize) -> sqlx::SqlStr {
    let mut sql = Sql::default();
    sql.push("FETCH ").number(rows).push(" FROM listed");
    sql.finish()
}

/// Puts rows together to pieces.
struct Writer {
    piece: String,
    /// Bytes that the piece is to have.
    size: usize,
    returned: i64,
    /// Bytes of the rows so far.
    sent: usize,
    sender: mpsc::Sender<Result<Piece, Problem>>,
    patience: Duration,
}

impl Writer {
    async fn row(&mut self, request: &Request, row: &Row) -> Result<(), Broken> {
        request.push(&mut self.piece, self.returned == 0, &row.json)?;
        self.returned += 1;
        self.sent += row.json.len();
        if self.piece.len() < self.size {
            return Ok(());
        }
        self.size = PIECE;
        let piece = std::mem::take(&mut self.piece);
        self.send(Piece::More(piece)).await
    }

    async fn end(&mut self) -> Result<(), Broken> {
        let piece = std::mem::take(&mut self.piece);
        self.send(Piece::Last(piece)).await
    }

    async fn send(&self, piece: Piece) -> Result<(), Broken> {
        match tokio::time::timeout(self.patience, self.sender.send(Ok(piece))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Broken::Gone),
            Err(_) => Err(Broken::Stalled),
        }
    }
}
