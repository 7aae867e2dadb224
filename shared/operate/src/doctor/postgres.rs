//! Postgres: its version, settings, role, grants and migrations.

use std::borrow::Cow;

use futures::future::join_all;
use sqlx::error::DatabaseError;
use sqlx::migrate::{Migrate as _, MigrateError};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection};

use super::{Finding, PATIENCE, Verdict, reason};
use longshore_kernel::clock::Clock;
use longshore_kernel::config::DatabaseSettings;
use longshore_kernel::database::Database;
use longshore_kernel::horizon::{self, Horizon};
use longshore_kernel::migration::{self, APPLIED, FUNCTIONS, MIGRATIONS};
use longshore_kernel::pooler::{self, Examined};
use longshore_kernel::pools::{self, Kind, most_connections};
use longshore_kernel::postgres_server::{PostgresServer, Role};
use longshore_kernel::set_back;

/// The oldest Postgres that the tests run on.
const OLDEST: i32 = 150_000;

/// Connections of a server in addition to those of an api and a worker, for its operator.
const SPARE: i32 = 10;

/// The role of the service, of which the login that migrates is a member. The first migration creates and grants it where it may.
const SERVICE: &str = "longshore_service";

const CONNECTION: &str = "postgres.connection";
const VERSION: &str = "postgres.version";
const HOSTS: &str = "postgres.hosts";
const POOLER: &str = "postgres.pooler";
const STANDBY: &str = "postgres.primary";
const DURABILITY: &str = "postgres.durability";
const CONNECTIONS: &str = "postgres.connections";
const ROLE: &str = "postgres.role";
const GRANTS: &str = "postgres.grants";
const MIGRATED: &str = "postgres.migrations";
const LOGIN: &str = "postgres.login";
const CLOCK: &str = "postgres.clock";
const VACUUM: &str = "postgres.vacuum";
const LETTERS: &str = "postgres.letters";
const SET_BACK: &str = "postgres.set_back";

pub(super) async fn examine(settings: &DatabaseSettings, clock: &Clock) -> Vec<Finding> {
    let unreachable = |found: String| {
        vec![Finding::fail(
            CONNECTION,
            found,
            "check DATABASE_URL, and that Postgres runs and lets us in: psql \"$DATABASE_URL\" -c 'SELECT 1'",
        )]
    };
    let server = match PostgresServer::of(settings) {
        Ok(server) => server,
        Err(error) => return unreachable(reason(&error)),
    };
    let examined = async {
        let options = server.find().await?.application_name("longshore-doctor");
        let poolers = if settings.database_pooled {
            join_all(pools::ALL.map(|kind| pooler(&options, kind, settings))).await
        } else {
            Vec::new()
        };
        if poolers.iter().any(|finding| finding.verdict == Verdict::Fail) {
            return Ok(poolers);
        }
        let options = if settings.database_pooled { pools::PROBE.pooled(&options) } else { options };
        let mut findings = look(&options, settings, clock).await?;
        findings.splice(1..1, poolers);
        if server.is_chosen() {
            findings.insert(1, hosts(&server).await);
        }
        Ok::<_, sqlx::Error>(findings)
    };
    match tokio::time::timeout(PATIENCE, examined).await {
        Ok(Ok(findings)) => findings,
        Ok(Err(error)) => unreachable(reason(&error)),
        Err(_) => unreachable(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

/// What each of several hosts is.
async fn hosts(server: &PostgresServer) -> Finding {
    let roles = server.roles().await;
    let said = server.describe(&roles);
    if roles.iter().any(|role| matches!(role, Role::Away(_))) {
        Finding::warn(HOSTS, said, "start the host that cannot be asked, or take it out of DATABASE_URL")
    } else {
        Finding::ok(HOSTS, said)
    }
}

/// Whether a pooler keeps what a pool needs.
async fn pooler(options: &PgConnectOptions, kind: &'static Kind, settings: &DatabaseSettings) -> Finding {
    let pool = kind.name;
    let remedy = "include in pgbouncer.ini what longshore-api pooler prints, and restart PgBouncer";
    match pooler::examine(&kind.pooled(options), kind, &settings.database_role).await {
        Ok(Examined::Kept) => {
            Finding::ok(POOLER, format!("the pool {pool} keeps settings and prepared statements"))
        }
        Ok(Examined::OneSession) => Finding::warn(
            POOLER,
            format!(
                "the pool {pool} keeps settings; prepared statements could not be tried in a second session of Postgres"
            ),
            remedy,
        ),
        Ok(Examined::Lost(lost)) => Finding::fail(POOLER, lost.to_string(), remedy),
        Err(error) => {
            let remedy = format!("{remedy}; and check DATABASE_URL, which names it");
            Finding::fail(POOLER, format!("the pool {pool}: {}", reason(&error)), remedy)
        }
    }
}

/// Whether the tables are there and may be read.
pub(super) fn usable(findings: &[Finding]) -> bool {
    let needed = [CONNECTION, POOLER, ROLE, GRANTS, MIGRATED];
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
    let migrated = migrations(&mut connection).await?;
    let prepared = if migrated.verdict == Verdict::Fail { may_migrate(&mut connection).await? } else { None };
    findings.push(migrated);
    findings.extend(prepared);
    findings.extend(mighty(&mut connection).await?);
    findings.push(time(&mut connection, clock).await?);
    // if the server does not report it, the other findings are still reported
    if let Ok(horizon) = horizon::look(&mut connection).await {
        findings.push(vacuum(&horizon));
    }
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
                  ARRAY(SELECT name FROM pg_settings
                        WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off'
                        ORDER BY name) AS "off!",
                  (SELECT d.datctype IN ('C', 'POSIX') FROM pg_database d
                   WHERE d.datname = current_database() AND d.datlocprovider = 'c') IS TRUE AS "is_ascii!""#
    )
    .fetch_one(connection)
    .await?;
    let standby = if server.standby {
        Finding::fail(
            STANDBY,
            "this is a standby: it accepts no changes",
            "point DATABASE_URL at the primary",
        )
    } else {
        Finding::ok(STANDBY, "accepts changes")
    };
    let durability = if server.off.is_empty() {
        Finding::ok(DURABILITY, "committed data is on disk")
    } else {
        let on: Vec<_> =
            server.off.iter().map(|setting| format!("ALTER SYSTEM SET {setting} = on")).collect();
        let on: Vec<_> = on.iter().map(String::as_str).chain(["SELECT pg_reload_conf()"]).collect();
        Finding::warn(
            DURABILITY,
            format!("{} = off: a crash loses committed data", server.off.join(", ")),
            format!("{}; if the database or a role overrides the setting, RESET it there", by_superuser(&on)),
        )
    };
    let letters = letters(server.is_ascii);
    Ok(vec![
        version(&server.version, server.number),
        standby,
        durability,
        letters,
        room(settings, server.room),
    ])
}

/// `like` is to find "Č" by "č", which the locale of the database decides.
fn letters(is_ascii: bool) -> Finding {
    if is_ascii {
        let found = "the locale of the database is C: searches tell upper from lower case outside of ASCII";
        let repair =
            "dump, and restore into a database that is made with TEMPLATE template0 LOCALE 'C.UTF-8'";
        return Finding::warn(LETTERS, found, repair);
    }
    Finding::ok(LETTERS, "upper and lower case are known for all letters")
}

fn version(version: &str, number: i32) -> Finding {
    if number < OLDEST {
        let remedy = format!("upgrade to Postgres {} or newer", OLDEST / 10_000);
        Finding::fail(VERSION, format!("{version} is older than the tested versions"), remedy)
    } else {
        Finding::ok(VERSION, version)
    }
}

/// Whether the server has room for the connections of one api and one worker, or those of a pooler.
fn room(settings: &DatabaseSettings, room: i32) -> Finding {
    if settings.database_pooled {
        let most = i32::try_from(pooler::most_sessions(settings)).unwrap_or(i32::MAX);
        let found = format!("{room} available; the pooler opens up to {most}, if its file is as printed");
        let raised = format!("ALTER SYSTEM SET max_connections = {}", most.saturating_add(SPARE));
        let remedy = format!("{}, and restart Postgres; or lower pool_size there", by_superuser(&[&raised]));
        return if room < most {
            Finding::warn(CONNECTIONS, found, remedy)
        } else {
            Finding::ok(CONNECTIONS, found)
        };
    }
    let ours = i32::try_from(most_connections(settings)).unwrap_or(i32::MAX);
    let found = format!("{room} available; each process opens up to {ours}");
    let raised =
        format!("ALTER SYSTEM SET max_connections = {}", ours.saturating_mul(2).saturating_add(SPARE));
    let remedy = format!(
        "{}, and restart Postgres; or lower LONGSHORE_DATABASE_CONNECTIONS",
        by_superuser(&[&raised])
    );
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
        None if role == SERVICE => Finding::fail(
            ROLE,
            format!("there is no role {role:?}"),
            "run longshore-api migrate, which creates it",
        ),
        None => Finding::fail(
            ROLE,
            format!("there is no role {role:?}"),
            format!(
                "remove LONGSHORE_DATABASE_ROLE: the migrations create {SERVICE} and grant it the rights"
            ),
        ),
        Some(found) if found.superuser => Finding::fail(
            ROLE,
            format!("{role:?} is a superuser: it can alter the audit"),
            by_superuser(&[&format!("ALTER ROLE {role:?} NOSUPERUSER")]),
        ),
        Some(found) if !found.member => Finding::fail(
            ROLE,
            format!("the login {:?} is not a member of {role:?}", found.login),
            by_superuser(&[&format!("GRANT {role:?} TO {:?}", found.login)]),
        ),
        Some(found) => Finding::ok(ROLE, format!("{:?} is a member of {role:?}", found.login)),
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
            by_owner(&format!("REVOKE UPDATE, DELETE, TRUNCATE ON audit FROM {role:?}")),
        )
    } else if found.unreadable.is_empty() {
        Finding::ok(GRANTS, "all tables are accessible; the audit is append-only")
    } else {
        let tables = found.unreadable.join(", ");
        let remedy = by_owner(&format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO {role:?}"));
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
            format!("migration {dirty} was interrupted"),
            format!(
                "check what it changed and undo it; then {}, and run longshore-api migrate",
                by_owner(&format!("DELETE FROM {APPLIED} WHERE version = {dirty}"))
            ),
        ));
    }
    if migration::is_before_the_release(&MIGRATIONS, &applied) {
        return Ok(Finding::fail(
            MIGRATED,
            "the database was created before the first release",
            migration::MAKE_A_NEW_ONE,
        ));
    }
    let missing: Vec<i64> =
        MIGRATIONS.iter().map(|m| m.version).filter(|v| applied.iter().all(|a| a.version != *v)).collect();
    let other = MIGRATIONS
        .iter()
        .find(|m| applied.iter().any(|a| a.version == m.version && a.checksum != m.checksum))
        .map(|m| m.version);
    let newer = applied.iter().filter(|a| !MIGRATIONS.version_exists(a.version)).count();
    if let Some(first) = missing.first() {
        return Ok(Finding::fail(
            MIGRATED,
            format!("{} are missing, starting with {first}", missing.len()),
            "run longshore-api migrate",
        ));
    }
    let functions = migration::to_apply(FUNCTIONS, connection).await?;
    Ok(if let Some(other) = other {
        Finding::fail(
            MIGRATED,
            format!("migration {other} differs from the one that was applied"),
            "run the version of Longshore that this database belongs to",
        )
    } else if newer > 0 {
        Finding::warn(
            MIGRATED,
            format!("the database has {newer} that this version does not know"),
            "upgrade this process too",
        )
    } else if let [(first, _), ..] = functions[..] {
        Finding::fail(
            MIGRATED,
            format!("{} functions have another text, starting with {first}", functions.len()),
            "run longshore-api migrate",
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
            Ok(Finding::fail(MIGRATED, "none has been applied to this database", "run longshore-api migrate"))
        }
        // insufficient_privilege
        Some("42501") => Ok(Finding::warn(
            MIGRATED,
            "this login has no right to see which are applied",
            "run the doctor as the login that migrates",
        )),
        _ => Err(error),
    }
}

/// Whether this login has the rights for the first migration, reported only before that migration. Another login may be the
/// one that migrates: it is only a warning.
async fn may_migrate(connection: &mut PgConnection) -> Result<Option<Finding>, sqlx::Error> {
    let found = sqlx::query!(
        r#"SELECT current_user::text AS "login!",
                  EXISTS (SELECT FROM pg_roles WHERE rolname = $1::text) AS "is_there!",
                  rolsuper OR rolcreaterole AS "creates!",
                  rolsuper
                      OR (rolcreaterole AND current_setting('server_version_num')::int < 160000)
                      OR coalesce((SELECT pg_has_role(current_user, oid, 'MEMBER')
                                   FROM pg_roles WHERE rolname = $1::text), rolcreaterole) AS "joins!",
                  to_regprocedure('public.uuid_v7()') IS NULL AS "is_first!"
           FROM pg_roles WHERE rolname = current_user"#,
        SERVICE,
    )
    .fetch_one(connection)
    .await?;
    let login = &found.login;
    let mut lacks = Vec::new();
    let mut remedies = Vec::new();
    if !found.is_there && !found.creates {
        lacks.push(format!("the role {SERVICE:?}"));
        remedies.push(format!("CREATE ROLE {SERVICE:?} NOLOGIN"));
    }
    if !found.joins {
        lacks.push(format!("membership of {SERVICE:?}"));
        remedies.push(format!("GRANT {SERVICE:?} TO {login:?}"));
    }
    if !found.is_first || lacks.is_empty() {
        return Ok(None);
    }
    let remedies: Vec<_> = remedies.iter().map(String::as_str).collect();
    Ok(Some(Finding::warn(
        LOGIN,
        format!("the login {login:?} cannot migrate: the first migration needs {}", lacks.join(" and ")),
        format!("{}; or run longshore-api migrate as another login", by_superuser(&remedies)),
    )))
}

/// The logins of this database that may create roles, on a server where that means to be granted any role: this one, and the owners.
async fn mighty(connection: &mut PgConnection) -> Result<Option<Finding>, sqlx::Error> {
    let logins = sqlx::query_scalar!(
        r#"SELECT rolname::text AS "login!" FROM pg_roles
           WHERE rolcreaterole AND NOT rolsuper AND current_setting('server_version_num')::int < 160000
             AND (rolname = current_user
                  OR oid = (SELECT datdba FROM pg_database WHERE datname = current_database())
                  OR oid = (SELECT relowner FROM pg_class WHERE oid = to_regclass('public.audit')))
           ORDER BY 1"#,
    )
    .fetch_all(connection)
    .await?;
    let Some(first) = logins.first() else { return Ok(None) };
    let remedies: Vec<_> = logins.iter().map(|login| format!("ALTER ROLE {login:?} NOCREATEROLE")).collect();
    let remedies: Vec<_> = remedies.iter().map(String::as_str).collect();
    Ok(Some(Finding::warn(
        LOGIN,
        format!(
            "the login {first:?} has CREATEROLE, by which it may grant itself pg_execute_server_program, and needs none"
        ),
        by_superuser(&remedies),
    )))
}

/// Whether Postgres was set back, which its connection has compared, and that is not mended.
pub(super) async fn examine_set_back(database: &Database) -> Finding {
    match set_back::pending(&database.main).await {
        Ok(None) => Finding::ok(SET_BACK, "no restore or failover has lost what outsiders know"),
        Ok(Some(found)) => Finding::fail(
            SET_BACK,
            format!(
                "Postgres was set back: what was committed since {} may be lost, and nothing is handed over to warehouses",
                found.since.format("%Y-%m-%d %H:%M:%S UTC")
            ),
            "as the login that migrates, run longshore-api restored (docs/backup.md#after-a-restore)",
        ),
        Err(error) => Finding::fail(SET_BACK, reason(&error), "see the error"),
    }
}

/// A command for the superuser of the server, however it logs in.
fn by_superuser(statements: &[&str]) -> String {
    let statements: Vec<_> = statements.iter().map(|statement| format!("-c '{statement}'")).collect();
    format!("as a superuser of Postgres, psql {}", statements.join(" "))
}

/// A command for the owner of the tables.
fn by_owner(statement: &str) -> String {
    format!("as the login that migrates, psql \"$DATABASE_URL\" -c '{statement}'")
}

/// What holds back vacuum.
fn vacuum(horizon: &Horizon) -> Finding {
    if let Some(worst) = horizon.holders.iter().find(|holder| holder.is_long()) {
        let login = worst.login.as_deref().map(|login| format!(" of {login}")).unwrap_or_default();
        let since = worst.seconds.map(|s| format!(" for {} min", (s / 60.0).round())).unwrap_or_default();
        let found = format!(
            "held back{since} by {} transactions: {} {}{login}",
            worst.transactions, worst.kind, worst.name
        );
        let remedy = match worst.kind.as_str() {
            "session" => "let it end, or end it: SELECT pg_terminate_backend(<its process>)",
            "replication slot" => {
                "reconnect its standby, or drop it: SELECT pg_drop_replication_slot('<its name>')"
            }
            _ => "COMMIT PREPARED or ROLLBACK PREPARED it",
        };
        return Finding::warn(VACUUM, found, remedy);
    }
    let hidden = match horizon.hidden {
        0 => String::new(),
        n => format!(
            "; this login cannot see {n} sessions of other logins (to see them, GRANT pg_read_all_stats)"
        ),
    };
    Finding::ok(VACUUM, format!("nothing holds it back for long{hidden}"))
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
            database_pooled: false,
            database_connections: connections,
            database_list_connections: 8,
            database_stream_connections: 4,
            commit_seconds: 5,
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
        assert_eq!(room(&settings(32), 48).verdict, Verdict::Fail);
        assert_eq!(room(&settings(32), 49).verdict, Verdict::Warn);
        assert_eq!(room(&settings(32), 97).verdict, Verdict::Warn);
        assert_eq!(room(&settings(32), 98).verdict, Verdict::Ok);
    }
}
