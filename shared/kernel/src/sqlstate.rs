//! What the errors of Postgres mean.

use sqlx::error::DatabaseError;
use sqlx::postgres::{PgDatabaseError, PgSeverity};

use super::share;

/// Whether the error says that Postgres is away (down, starting, stopping) or short of something (room, memory,
/// connections), rather than that it refused what was asked: the same will be done a little later.
#[must_use]
pub fn is_unreachable(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::Protocol(_) => true,
        sqlx::Error::AnyDriverError(_) => share::refusal(error).is_some(),
        // 08 connection, 53 resources (53100 a full disk), 57P01-03 shutdown and start-up, 58030 a disk that fails, 25006 a
        // standby, 25P03 an idle session that Postgres ended
        sqlx::Error::Database(e) => e.code().is_some_and(|c| {
            c.starts_with("08")
                || c.starts_with("53")
                || matches!(c.as_ref(), "57P01" | "57P02" | "57P03" | "58030" | "25006" | "25P03")
                // XX an internal error, 28 a refused login, 3D000 and 55000 a database that does not exist or accepts no
                // connections: as during a restore, a failover, or a change of the password
                || (c.starts_with("XX") || c.starts_with("28") || matches!(c.as_ref(), "3D000" | "55000"))
                    && ends_the_session(e.as_ref())
        }),
        _ => false,
    }
}

/// Whether the error ended the session, or prevented it: an internal error of Postgres then counts as an outage. On a full
/// disk, after a crash, it accepts no session, because it cannot write its catalogue cache (XX000).
fn ends_the_session(error: &dyn DatabaseError) -> bool {
    error
        .try_downcast_ref::<PgDatabaseError>()
        .is_some_and(|error| matches!(error.severity(), PgSeverity::Fatal | PgSeverity::Panic))
}

/// A change that the service itself finds to have lost a race: what it locked is not what it had prepared for. Its transaction is
/// rolled back and run again, as where Postgres finds it.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Overtaken(pub &'static str);

impl From<Overtaken> for sqlx::Error {
    fn from(overtaken: Overtaken) -> Self {
        Self::AnyDriverError(Box::new(overtaken))
    }
}

/// Whether the statement lost a race that it wins when it is simply run again: deadlock (40P01), serialisation (40001), or,
/// where the operator limits how long a lock is waited for, one that was not there in time (55P03); or one that the service
/// found ([`Overtaken`]).
#[must_use]
pub fn is_contention(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(e) => matches!(e.code().as_deref(), Some("40P01" | "40001" | "55P03")),
        sqlx::Error::AnyDriverError(e) => e.is::<Overtaken>(),
        _ => false,
    }
}

/// Whether the statement was cancelled (57014): by an operator, or since it took too long.
#[must_use]
pub fn is_cancelled(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Database(e) if e.code().as_deref() == Some("57014"))
}

/// Whether a lock was not there in time (55P03).
#[must_use]
pub fn is_locked(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Database(e) if e.code().as_deref() == Some("55P03"))
}

/// Whether the statement asks for what is not there, or for what the role may not do (class 42): the schema is not, or not yet, that of
/// this version.
#[must_use]
pub fn is_of_schema(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Database(e) if e.code().is_some_and(|c| c.starts_with("42")))
}

/// Whether nothing can be written (25006): on a standby, or since an operator wants it so.
#[must_use]
pub fn is_read_only(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Database(e) if e.code().as_deref() == Some("25006"))
}

/// Whether Postgres refused a value: a constraint (class 23), a value out of range or malformed (class 22). Running the
/// statement again changes nothing; leaving the value out does.
#[must_use]
pub fn is_refused_value(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Database(e) if e.code().is_some_and(|c| c.starts_with("23") || c.starts_with("22")))
}

/// Whether the error is one of a record, and not of the statement: without that record, the statement succeeds. Postgres refuses
/// a value of it ([`is_refused_value`]), or a trigger does (P0); it is too large (54) or damaged (XX); or it cannot be read here.
#[must_use]
pub fn is_of_a_record(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(e) if !is_unreachable(error) => {
            e.code().is_some_and(|c| ["22", "23", "54", "P0", "XX"].iter().any(|class| c.starts_with(class)))
        }
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::Encode(_) => true,
        _ => false,
    }
}

/// Whether a number came out larger than its column holds (22003).
#[must_use]
pub fn is_out_of_range(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Database(e) if e.code().as_deref() == Some("22003"))
}

/// The constraint that refused the statement, if one did.
#[must_use]
pub fn violated_constraint(error: &sqlx::Error) -> Option<&str> {
    match error {
        sqlx::Error::Database(e) => e.constraint(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use sqlx::{Connection as _, PgConnection};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// What comes of connecting to a Postgres that greets with this.
    async fn greeted(severity: &str, code: &str) -> sqlx::Error {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("postgres://u@{}/d?sslmode=disable", listener.local_addr().unwrap());
        let fields = format!("S{severity}\0V{severity}\0C{code}\0Mno\0\0");
        let greeting = async {
            let (mut client, _) = listener.accept().await.unwrap();
            let length = client.read_u32().await.unwrap();
            let mut start_up = vec![0; usize::try_from(length).unwrap() - 4];
            client.read_exact(&mut start_up).await.unwrap();
            client.write_u8(b'E').await.unwrap();
            client.write_u32(u32::try_from(fields.len()).unwrap() + 4).await.unwrap();
            client.write_all(fields.as_bytes()).await.unwrap();
        };
        let (connected, ()) = tokio::join!(PgConnection::connect(&url), greeting);
        connected.unwrap_err()
    }

    #[test]
    fn a_race_that_the_service_finds_is_run_again_like_one_that_postgres_finds() {
        let error = sqlx::Error::from(Overtaken("the order was edited"));
        assert!(is_contention(&error) && !is_locked(&error) && !is_unreachable(&error));
    }

    #[tokio::test]
    async fn a_postgres_that_begins_no_session_is_away_and_one_that_refuses_a_statement_is_not() {
        for (severity, code, is_away) in [
            ("FATAL", "57P03", true),
            ("FATAL", "53300", true),
            // a full disk: "could not write init file"
            ("FATAL", "XX000", true),
            ("PANIC", "XX001", true),
            ("ERROR", "XX000", false),
            // a changed password, a missing role, a missing database, a database that accepts no connections
            ("FATAL", "28P01", true),
            ("FATAL", "28000", true),
            ("FATAL", "3D000", true),
            ("FATAL", "55000", true),
            ("ERROR", "28000", false),
            ("ERROR", "3D000", false),
            ("ERROR", "55000", false),
            ("FATAL", "42501", false),
        ] {
            assert_eq!(is_unreachable(&greeted(severity, code).await), is_away, "{severity} {code}");
        }
    }
}
