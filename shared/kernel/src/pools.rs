//! The pools of a process, and the settings that the sessions of each need.
//!
//! Without a pooler, a session begins with its settings. At a pooler, a session of Postgres serves many processes, so each pool has a
//! database of its own there, whose sessions have them ([`pooler`](super::pooler)).

use sqlx::postgres::PgConnectOptions;

use super::config::DatabaseSettings;

/// Settings by their names, as `current_setting` spells their values.
type Settings = &'static [(&'static str, &'static str)];

/// Connections of [`LEASES`]: a renewal takes less than a millisecond, so a thousand lanes need one of them.
pub const LEASE_CONNECTIONS: u32 = 4;

/// A pool.
#[derive(Debug)]
pub struct Kind {
    /// Its name, in which that of its database at a pooler ends.
    pub name: &'static str,
    connections: fn(&DatabaseSettings) -> u32,
    takes_role: bool,
    settings: &'static [Settings],
}

/// Dates and times are read as text in places.
const ZONE: Settings = &[("TimeZone", "UTC")];

const SERVICE: Settings = &[
    // Compiling a plan takes longer than any statement here; and the setting against scans, below, gives the few
    // necessary scans a cost at which Postgres would compile every time.
    ("jit", "off"),
    // a session whose process stalls must not hold its locks for ever
    ("idle_in_transaction_session_timeout", "1min"),
];

/// A generic plan for queries by key: planning a partitioned look-up costs more than running it.
/// And never a scan of a whole table, or of all that an index has for an organisation, where one key serves: a plan
/// made while a table was empty or tiny is kept while it fills, and would then read all of it for every row.
const BY_KEY: Settings = &[
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    // nothing here is so large that several processes should read it
    ("max_parallel_workers_per_gather", "0"),
];

const BY_VALUES: Settings = &[("plan_cache_mode", "force_custom_plan")];

/// How long a request waits for a row that is locked, so that it does not occupy a connection.
const ROW_PATIENCE: Settings = &[("lock_timeout", "2s")];

/// Changes and look-ups by key of a process that serves requests.
pub static REQUESTS: Kind = Kind {
    name: "requests",
    connections: |settings| settings.database_connections,
    takes_role: true,
    settings: &[ZONE, SERVICE, BY_KEY, &[("statement_timeout", "2min")], ROW_PATIENCE],
};

/// Those of a process that does what was accepted, and waits for its rows.
pub static WORK: Kind = Kind {
    name: "work",
    connections: |settings| settings.database_connections,
    takes_role: true,
    settings: &[ZONE, SERVICE, BY_KEY, &[("statement_timeout", "2min")]],
};

/// Pages of lists, and their counts.
pub static LISTS: Kind = Kind {
    name: "lists",
    connections: |settings| settings.database_list_connections,
    takes_role: true,
    settings: &[ZONE, SERVICE, BY_VALUES, &[("statement_timeout", "5s")], ROW_PATIENCE],
};

/// Unlimited lists. One lives as long as its reader reads; the writer of the answer has the time-out.
pub static STREAMS: Kind = Kind {
    name: "streams",
    connections: |settings| settings.database_stream_connections,
    takes_role: true,
    settings: &[ZONE, SERVICE, BY_VALUES, &[("statement_timeout", "0")], ROW_PATIENCE],
};

/// Renewals of leases. One that takes as long as a lease comes too late. It does not wait for the disk: if a crash of Postgres undoes it,
/// the lease ends a moment earlier.
pub static LEASES: Kind = Kind {
    name: "leases",
    connections: |_| LEASE_CONNECTIONS,
    takes_role: true,
    settings: &[ZONE, SERVICE, BY_KEY, &[("statement_timeout", "3s"), ("synchronous_commit", "off")]],
};

/// Checks of Postgres, by the right of the login.
pub static PROBE: Kind = Kind {
    name: "probe",
    connections: |_| 1,
    takes_role: false,
    settings: &[ZONE, &[("statement_timeout", "2s")]],
};

/// All of them.
pub static ALL: [&Kind; 6] = [&REQUESTS, &WORK, &LISTS, &STREAMS, &LEASES, &PROBE];

/// Connections that a process opens at most.
#[must_use]
pub fn most_connections(settings: &DatabaseSettings) -> u32 {
    let of_a_worker = [&WORK, &LISTS, &STREAMS, &LEASES, &PROBE];
    of_a_worker.iter().map(|kind| kind.connections(settings)).sum()
}

impl Kind {
    /// Connections that a process opens at most for it.
    #[must_use]
    pub fn connections(&self, settings: &DatabaseSettings) -> u32 {
        (self.connections)(settings)
    }

    /// The settings of its sessions, of which `role` is one.
    #[must_use]
    pub fn settings(&self, role: &str) -> Vec<(&'static str, String)> {
        let role = self.takes_role.then(|| ("role", role.to_owned()));
        let others =
            self.settings.iter().copied().flatten().map(|(name, value)| (*name, (*value).to_owned()));
        role.into_iter().chain(others).collect()
    }

    /// The name of its database at a pooler, of the database that a URL names.
    #[must_use]
    pub fn database(&self, options: &PgConnectOptions) -> String {
        let database = options.get_database().unwrap_or_else(|| options.get_username());
        format!("{database}_{}", self.name)
    }

    /// For a session of its own, which begins with its settings.
    pub(super) fn direct(&self, options: &PgConnectOptions, role: &str) -> PgConnectOptions {
        options.clone().options(self.settings(role))
    }

    /// For sessions of a pooler, which refuses settings at the start of a session.
    #[must_use]
    pub fn pooled(&self, options: &PgConnectOptions) -> PgConnectOptions {
        options.clone().database(&self.database(options)).extra_float_digits(None)
    }
}
