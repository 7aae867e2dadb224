//! Postgres: whether it is the one we need, and has what we need.

use std::borrow::Cow;

use sqlx::error::DatabaseError;
use sqlx::migrate::{Migrate as _, MigrateError};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection};

use super::{Finding, PATIENCE, Verdict, reason};
use crate::platform::clock::Clock;
use crate::platform::config::DatabaseSettings;
use crate::platform::database::MIGRATIONS;

/// The oldest Postgres that the tests run on.
const OLDEST: i32 = 150_000;

/// Where sqlx keeps what it has applied.
const APPLIED: &str = "_sqlx_migrations";

const CONNECTION: &str = "postgres.connection";
const VERSION: &str = "postgres.version";
const STANDBY: &str = "postgres.primary";
const DURABILITY: &str = "postgres.durability";
const CONNECTIONS: &str = "postgres.connections";
const ROLE: &str = "postgres.role";
const GRANTS: &str = "postgres.grants";
const MIGRATED: &str = "postgres.migrations";
const CLOCK: &str = "postgres.clock";

pub(super) async fn examine(settings: &DatabaseSettings, clock: &Clock) -> Vec<Finding> {
    let unreachable = |found: String| {
        vec![Finding::fail(CONNECTION, found, "check DATABASE_URL, and that Postgres runs and lets us in")]
    };
    let options = match settings.database_url.parse::<PgConnectOptions>() {
        Ok(options) => options.application_name("longshore-doctor"),
        Err(error) => return unreachable(reason(&error)),
    };
    match tokio::time::timeout(PATIENCE, look(&options, settings, clock)).await {
        Ok(Ok(findings)) => findings,
        Ok(Err(error)) => unreachable(reason(&error)),
        Err(_) => unreachable(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

/// Whether the tables are there and may be read.
pub(super) fn usable(findings: &[Finding]) -> bool {
    let needed = [CONNECTION, ROLE, GRANTS, MIGRATED];
    !findings.iter().any(|finding| finding.verdict == Verdict::Fail && needed.contains(&finding.check))
}

async fn look(
    options: &PgConnectOptions,
    settings: &DatabaseSettings,
    clock: &Clock,
) -> Result<Vec<Finding>, sqlx::Error> {
    let mut connection = PgConnection::connect_with(options).await?;
    let mut findings =
        vec![Finding::ok(CONNECTION, format!("{}:{}", options.get_host(), options.get_port()))];
    findings.extend(server(&mut connection, settings).await?);
    let roles = role(&mut connection, &settings.database_role).await?;
    let has_role = roles.iter().all(|f| f.verdict == Verdict::Ok);
    findings.extend(roles);
    if has_role {
        findings.push(grants(&mut connection, &settings.database_role).await?);
    }
    findings.push(migrations(&mut connection).await?);
    findings.push(time(&mut connection, clock).await?);
    connection.close().await?;
    Ok(findings)
}

async fn server(
    connection: &mut PgConnection,
    settings: &DatabaseSettings,
) -> Result<Vec<Finding>, sqlx::Error> {
    let server = sqlx::query!(
        r#"SELECT current_setting('server_version') AS "version!",
                  current_setting('server_version_num')::int AS "number!",
                  pg_is_in_recovery() AS "standby!",
                  current_setting('max_connections')::int
                      - current_setting('superuser_reserved_connections')::int AS "room!",
                  ARRAY(SELECT name || ' = ' || setting FROM pg_settings
                        WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off'
                        ORDER BY name) AS "off!""#
    )
    .fetch_one(connection)
    .await?;
    let standby = if server.standby {
        Finding::fail(STANDBY, "this is a standby: it takes no changes", "let DATABASE_URL name the primary")
    } else {
        Finding::ok(STANDBY, "takes changes")
    };
    let durability = if server.off.is_empty() {
        Finding::ok(DURABILITY, "what is committed is on disk")
    } else {
        Finding::warn(
            DURABILITY,
            format!("{}: a crash loses what was promised", server.off.join(", ")),
            "switch it on in postgresql.conf",
        )
    };
    Ok(vec![version(&server.version, server.number), standby, durability, room(settings, server.room)])
}

fn version(version: &str, number: i32) -> Finding {
    if number < OLDEST {
        let remedy = format!("upgrade to Postgres {} or newer", OLDEST / 10_000);
        Finding::fail(VERSION, format!("{version} is older than what this is tested with"), remedy)
    } else {
        Finding::ok(VERSION, version)
    }
}

/// Whether the server has room for the connections of one api and one worker.
fn room(settings: &DatabaseSettings, room: i32) -> Finding {
    let ours = settings.database_connections
        + settings.database_list_connections
        + settings.database_stream_connections;
    let ours = i32::try_from(ours).unwrap_or(i32::MAX);
    let found = format!("{room} at once; a process of ours opens up to {ours}");
    let remedy = "raise max_connections, lower LONGSHORE_DATABASE_CONNECTIONS, or put a pooler (in session mode) between";
    match room {
        room if room < ours => Finding::fail(CONNECTIONS, found, remedy),
        room if room < ours.saturating_mul(2) => {
            Finding::warn(CONNECTIONS, format!("{found}: not enough for an api and a worker"), remedy)
        }
        _ => Finding::ok(CONNECTIONS, found),
    }
}

async fn role(connection: &mut PgConnection, role: &str) -> Result<Vec<Finding>, sqlx::Error> {
    let found = sqlx::query!(
        r#"SELECT rolsuper AS "superuser!", pg_has_role(current_user, oid, 'MEMBER') AS "member!",
                  current_user::text AS "login!"
           FROM pg_roles WHERE rolname = $1::text"#,
        role,
    )
    .fetch_optional(connection)
    .await?;
    Ok(vec![match found {
        None => Finding::fail(
            ROLE,
            format!("there is no role {role:?}"),
            "run longshore-api migrate as a login that may create roles, or set LONGSHORE_DATABASE_ROLE",
        ),
        Some(found) if found.superuser => Finding::fail(
            ROLE,
            format!("{role:?} is a superuser: nothing keeps it from altering the audit"),
            format!("ALTER ROLE {role:?} NOSUPERUSER"),
        ),
        Some(found) if !found.member => Finding::fail(
            ROLE,
            format!("the login {:?} is no member of {role:?}", found.login),
            format!("GRANT {role:?} TO {:?}", found.login),
        ),
        Some(found) => Finding::ok(ROLE, format!("{:?} may become {role:?}", found.login)),
    }])
}

async fn grants(connection: &mut PgConnection, role: &str) -> Result<Finding, sqlx::Error> {
    let found = sqlx::query!(
        r#"SELECT ARRAY(SELECT c.relname::text FROM pg_class c
                        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
                          AND NOT c.relispartition AND c.relname <> $2
                          AND NOT has_table_privilege($1::text::name, c.oid, 'SELECT')
                        ORDER BY 1) AS "unreadable!",
                  coalesce(has_table_privilege($1::text::name, to_regclass('public.audit'), 'UPDATE, DELETE, TRUNCATE'),
                           false) AS "audit_is_open!""#,
        role,
        APPLIED,
    )
    .fetch_one(connection)
    .await?;
    Ok(if found.audit_is_open {
        Finding::fail(
            GRANTS,
            format!("{role:?} may alter the audit"),
            format!("REVOKE UPDATE, DELETE, TRUNCATE ON audit FROM {role:?}"),
        )
    } else if found.unreadable.is_empty() {
        Finding::ok(GRANTS, "every table may be used, and the audit only added to")
    } else {
        let tables = found.unreadable.join(", ");
        let remedy = format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO {role:?}");
        Finding::fail(GRANTS, format!("{role:?} may not read {tables}"), remedy)
    })
}

async fn migrations(connection: &mut PgConnection) -> Result<Finding, sqlx::Error> {
    let applied = match connection.list_applied_migrations(APPLIED).await {
        Ok(applied) => applied,
        Err(MigrateError::Execute(error)) => return not_told(error),
        Err(error) => return Ok(Finding::fail(MIGRATED, reason(&error), "run longshore-api migrate")),
    };
    if let Ok(Some(dirty)) = connection.dirty_version(APPLIED).await {
        return Ok(Finding::fail(
            MIGRATED,
            format!("migration {dirty} broke off half-way"),
            "see what it has done, undo it, delete its row from _sqlx_migrations, and migrate again",
        ));
    }
    let missing: Vec<i64> =
        MIGRATIONS.iter().map(|m| m.version).filter(|v| applied.iter().all(|a| a.version != *v)).collect();
    let other = MIGRATIONS
        .iter()
        .find(|m| applied.iter().any(|a| a.version == m.version && a.checksum != m.checksum))
        .map(|m| m.version);
    let newer = applied.iter().filter(|a| !MIGRATIONS.version_exists(a.version)).count();
    Ok(if let Some(first) = missing.first() {
        Finding::fail(
            MIGRATED,
            format!("{} are missing, from {first} on", missing.len()),
            "run longshore-api migrate",
        )
    } else if let Some(other) = other {
        Finding::fail(
            MIGRATED,
            format!("migration {other} is not the one that was applied"),
            "run the version of Longshore that this database belongs to",
        )
    } else if newer > 0 {
        Finding::warn(
            MIGRATED,
            format!("the database has {newer} more than this version knows"),
            "upgrade this process, too",
        )
    } else {
        Finding::ok(MIGRATED, format!("all {} are applied", applied.len()))
    })
}

/// Why the list of migrations cannot be read.
fn not_told(error: sqlx::Error) -> Result<Finding, sqlx::Error> {
    let code = error.as_database_error().and_then(DatabaseError::code).map(Cow::into_owned);
    match code.as_deref() {
        // undefined_table
        Some("42P01") => {
            Ok(Finding::fail(MIGRATED, "none was ever applied to this database", "run longshore-api migrate"))
        }
        // insufficient_privilege
        Some("42501") => Ok(Finding::warn(
            MIGRATED,
            "this login may not see which are applied",
            "run the doctor as the login that migrates",
        )),
        _ => Err(error),
    }
}

async fn time(connection: &mut PgConnection, clock: &Clock) -> Result<Finding, sqlx::Error> {
    let before = clock.now();
    let theirs =
        sqlx::query_scalar!(r#"SELECT clock_timestamp() AS "now!""#).fetch_one(&mut *connection).await?;
    let after = clock.now();
    Ok(Finding::clocks(CLOCK, before + (after - before) / 2, theirs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(connections: u32) -> DatabaseSettings {
        DatabaseSettings {
            database_url: String::new(),
            database_role: String::new(),
            database_connections: connections,
            database_list_connections: 8,
            database_stream_connections: 4,
        }
    }

    #[test]
    fn versions_older_than_the_tests_are_refused() {
        assert_eq!(version("14.12", 140_012).verdict, Verdict::Fail);
        assert_eq!(version("15.0", 150_000).verdict, Verdict::Ok);
        assert_eq!(version("17.2", 170_002).verdict, Verdict::Ok);
    }

    #[test]
    fn a_server_must_have_room_for_an_api_and_a_worker() {
        assert_eq!(room(&settings(32), 43).verdict, Verdict::Fail);
        assert_eq!(room(&settings(32), 44).verdict, Verdict::Warn);
        assert_eq!(room(&settings(32), 87).verdict, Verdict::Warn);
        assert_eq!(room(&settings(32), 88).verdict, Verdict::Ok);
    }
}
