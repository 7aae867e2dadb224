//! Lists without a limit (decisions, section 1): every match, from one snapshot, in constant memory.
//!
//! A cursor in a read-only transaction gives the rows in batches. Whoever drops the stream ends the transaction: nothing
//! has to be read to its end. How long a reader may take is for the caller to say; Postgres itself ends a transaction
//! that nobody fetches from for a minute.

use sqlx::PgTransaction;

use super::{HEAD, Request, Statement, refused, tail};
use crate::account::access::Scope;
use crate::platform::problem::{Problem, UNAVAILABLE};
use crate::platform::services::Services;

/// Rows that are fetched at once; the statement that does it is `FETCH`.
const BATCH: usize = 250;
const FETCH: &str = "FETCH 250 FROM listed";

/// The pieces of an answer of any length.
#[derive(Debug)]
pub struct Stream {
    tx: PgTransaction<'static>,
    scope: Scope,
    request: Request,
    statement: Statement,
    returned: i64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    First,
    More,
    End,
}

impl Stream {
    /// Begins it: from now on, the answer is what the database holds at this moment.
    pub(super) async fn open(services: &Services, scope: Scope, request: Request) -> Result<Self, Problem> {
        let statement = Statement::new(&scope, &request)?;
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";
        let mut tx = services.db.streams.begin_with(begin).await.map_err(|error| match error {
            sqlx::Error::PoolTimedOut => {
                Problem::new(&UNAVAILABLE, "as many unlimited lists as may run at once are running")
                    .retry_after(std::time::Duration::from_secs(5))
            }
            error => error.into(),
        })?;
        let (sql, arguments) = statement.unbounded(request.offset)?;
        let mut declare = super::Sql::default();
        declare.push("DECLARE listed NO SCROLL CURSOR FOR ").piece(&sql);
        // not kept: the columns of a cursor are another matter each time
        let declare = sqlx::query_with(declare.finish(), arguments).persistent(false);
        declare.execute(&mut *tx).await.map_err(refused)?;
        Ok(Self { tx, scope, request, statement, returned: 0, state: State::First })
    }

    /// The next piece; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<String>, Problem> {
        let mut piece = match self.state {
            State::First => HEAD.to_owned(),
            State::More => String::new(),
            State::End => return Ok(None),
        };
        let found = sqlx::query(FETCH).persistent(false).fetch_all(&mut *self.tx).await.map_err(refused)?;
        let mut rows = self.statement.shape.read(&found)?;
        self.statement.shape.expand(&mut self.tx, &self.scope, &mut rows).await?;
        for (position, row) in rows.iter().enumerate() {
            if position > 0 || self.state == State::More {
                piece.push(',');
            }
            piece.push_str(&row.json);
        }
        self.returned += super::count(&rows);
        self.state = State::More;
        if rows.len() < BATCH {
            let total = self.statement.total(&mut self.tx, &self.request, self.returned).await?;
            piece.push_str(&tail(self.returned, self.request.offset, total));
            self.state = State::End;
        }
        Ok(Some(piece))
    }
}
