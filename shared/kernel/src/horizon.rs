//! What holds back vacuum.
//!
//! An open transaction, a prepared one, or an unused replication slot keeps an old snapshot: rows that were deleted since
//! then stay in the tables. Queries of the live queues do not read them, but all others do, and they fill the disk.

use sqlx::PgExecutor;

use super::problem::Problem;

/// From so many seconds on, it is worth a look. A backup takes as long as it takes.
pub const LONG: f64 = 600.0;

/// From this number of transactions on, it is reported, even if its age is unknown.
pub const MANY: i64 = 10_000_000;

/// A session, slot or transaction that holds it back.
#[derive(Clone, Debug, PartialEq)]
pub struct Holder {
    /// `session`, `prepared transaction` or `replication slot`.
    pub kind: String,
    /// The session's `application_name` and process id, the name of the transaction or of the slot.
    pub name: String,
    /// Its login, where it has one.
    pub login: Option<String>,
    /// For how many seconds; unknown for a slot.
    pub seconds: Option<f64>,
    /// How many transactions have begun since.
    pub transactions: i64,
}

impl Holder {
    /// Whether that is worth a look.
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.seconds.is_some_and(|seconds| seconds >= LONG) || self.transactions >= MANY
    }
}

/// What holds it back most, and how many sessions are not visible.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Horizon {
    /// The worst first.
    pub holders: Vec<Holder>,
    /// Sessions of other logins, whose details this login may not see, because it is not a member of `pg_read_all_stats`.
    pub hidden: i64,
}

impl Horizon {
    /// For how many seconds the oldest has been holding it back, as far as that is known.
    #[must_use]
    pub fn oldest_seconds(&self) -> f64 {
        self.holders.iter().filter_map(|holder| holder.seconds).fold(0.0, f64::max)
    }
}

/// Looks at the sessions of this database, at prepared transactions and at replication slots.
pub async fn look<'c>(connection: impl PgExecutor<'c>) -> Result<Horizon, Problem> {
    let rows = sqlx::query!(
        r#"WITH holder AS (
               SELECT 'session' AS kind, concat_ws(', ', nullif(application_name, ''), 'process ' || pid) AS name,
                      usename::text AS login, extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds,
                      greatest(age(backend_xmin), age(backend_xid))::bigint AS transactions
               FROM pg_stat_activity
               WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND pid <> pg_backend_pid()
                 AND (datname = current_database() OR datname IS NULL)
               UNION ALL
               SELECT 'prepared transaction', gid, owner::text,
                      extract(epoch FROM clock_timestamp() - prepared)::float8, age(transaction)::bigint
               FROM pg_prepared_xacts WHERE database = current_database()
               UNION ALL
               SELECT 'replication slot', slot_name::text, NULL, NULL,
                      greatest(age(xmin), age(catalog_xmin))::bigint
               FROM pg_replication_slots WHERE xmin IS NOT NULL OR catalog_xmin IS NOT NULL
           ), hidden AS (
               SELECT count(*) AS n FROM pg_stat_activity
               WHERE query = '<insufficient privilege>' AND datname = current_database()
           )
           SELECT holder.kind, holder.name, holder.login, holder.seconds, holder.transactions, hidden.n AS "hidden!"
           FROM hidden LEFT JOIN holder ON true
           ORDER BY holder.transactions DESC NULLS LAST, holder.seconds DESC NULLS LAST LIMIT 5"#
    )
    .fetch_all(connection)
    .await?;
    let hidden = rows.first().map_or(0, |row| row.hidden);
    let holders = rows.into_iter().filter_map(|row| {
        let (kind, name) = (row.kind?, row.name?);
        Some(Holder { kind, name, login: row.login, seconds: row.seconds, transactions: row.transactions? })
    });
    Ok(Horizon { holders: holders.collect(), hidden })
}
