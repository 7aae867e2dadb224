//! `up` and what belongs to it: `down`, `reset`, `psql`, `logs`, and the supervisor of api and worker.
//!
//! `up` starts Postgres and Redis, which run until `down`, and the supervisor, a process of its own that restarts api and
//! worker whenever they end. Each has a pid file, by which `down` finds it.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use longshore_stack::environment::{Environment, OWNER_DATABASE_URL, PROGRAMS};
use longshore_stack::port;
use longshore_stack::postgres::{self, Cluster};
use longshore_stack::process::{self, Kept, Signal, Watch, alive, end_of, pid_in};
use longshore_stack::redis;
use nix::unistd::setsid;

use crate::place::{DEV, Place, random};
use crate::run::{self, LOOK_AGAIN, step};
use crate::scratch::psql as sql;

/// The argument, and so the word in the command line, of the supervisor.
const SUPERVISE: &str = "__supervise";

/// How long api and worker may take to end their running work; they take 30 s at most themselves.
const STOP: Duration = Duration::from_secs(35);

/// How long they may take to be ready.
const READY: Duration = Duration::from_mins(1);

/// The pauses before a restart: the first one, doubled whenever a process ends soon, up to the last one.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LAST_PAUSE: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_secs(10);

/// Creates the roles of the service. It is no superuser and owns nothing, as in production.
const ROLES: &str = r"\getenv password SERVICE_PASSWORD
SELECT 'CREATE DATABASE longshore' WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'longshore') \gexec
SELECT format('CREATE ROLE %I', name) FROM unnest('{longshore_service,longshore_app}'::text[]) AS name
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) \gexec
ALTER ROLE longshore_app LOGIN PASSWORD :'password';
GRANT longshore_service TO longshore_app;
";

fn supervisor(place: &Place) -> Option<u32> {
    pid_in(&place.dev.join("up.pid"), SUPERVISE)
}

/// Fails unless `up` has started the service here.
pub(crate) fn need_running(place: &Place) -> anyhow::Result<()> {
    supervisor(place).map(drop).context("nothing is running here; start it with ./dev up --detach")
}

/// Stops everything when it is dropped, unless it is disarmed.
struct DownAtLast<'p>(Option<&'p Place>);

impl Drop for DownAtLast<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.0
            && let Err(error) = stop(place)
        {
            eprintln!("./dev: {error:#}");
        }
    }
}

pub(crate) fn up(place: &Place, detach: bool) -> anyhow::Result<()> {
    fs::create_dir_all(&place.logs)?;
    // One `up` at a time: the second one finds the first.
    let lock = File::create(place.dev.join("up.lock"))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => bail!("another ./dev up is starting here; see its terminal"),
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    if let Some(pid) = supervisor(place) {
        println!("Longshore is running already (supervisor {pid}):");
        return show_running(place, "./dev down");
    }
    // What a killed supervisor left.
    stop(place)?;
    check_ports(place)?;

    step("Building (the first time takes minutes)");
    run::run(&mut place.build(DEV))?;

    // From here on, what was started is stopped again unless everything is.
    let mut guard = DownAtLast(Some(place));
    let servers = start_servers(place)?;
    let settings = settings(place, &servers)?;

    step("Migrating the database");
    let mut migrate = run::command(place.program(DEV, "longshore-api"));
    run::run(migrate.arg("migrate").envs(&settings).env("DATABASE_URL", &servers.database_as_owner))?;

    step("Starting api and worker");
    let mut supervise = Command::new("/proc/self/exe");
    supervise.arg0("xtask").arg(SUPERVISE).envs(&settings).stdin(Stdio::null());
    if detach {
        let log = OpenOptions::new().create(true).append(true).open(place.logs.join("supervisor.log"))?;
        supervise.stdout(log.try_clone()?).stderr(log);
    }
    let mut supervisor = supervise.spawn().context("the supervisor")?;
    for (name, port) in [("api", place.ports.api), ("worker", place.ports.worker)] {
        wait_ready(place, name, port, supervisor.id())?;
    }

    step("Creating demo data");
    let file = place.env_file();
    let mut environment = Environment::read(&file)?;
    for (name, value) in &settings {
        environment.set(name, value);
    }
    environment.set(OWNER_DATABASE_URL, &servers.database_as_owner);
    // A build in a shell that sources the file reads `.sqlx`, not this database.
    environment.set("SQLX_OFFLINE", &true);
    environment.set(PROGRAMS, &place.program(DEV, "").display());
    environment.write(&file)?;
    let mut seed = run::command(place.program(DEV, "longshore-demo"));
    seed.arg("seed").arg("--env-file").arg(&file).args(["--base-url", &place.base_url()]);
    let metrics = format!("http://127.0.0.1:{}/metrics", place.ports.worker);
    run::run(seed.args(["--worker-metrics-url", &metrics]).envs(&settings))?;
    drop(lock);

    step("Longshore is ready");
    if detach {
        guard.0 = None;
        return show_running(place, "./dev down");
    }
    show_running(place, "Ctrl-C")?;
    while matches!(supervisor.try_wait(), Ok(None)) {
        run::check()?;
        thread::park_timeout(LOOK_AGAIN);
    }
    Ok(())
}

fn check_ports(place: &Place) -> anyhow::Result<()> {
    let ports = &place.ports;
    let own = [
        (Some(ports.api), "the api", "LONGSHORE_DEV_API_PORT"),
        (Some(ports.worker), "the worker", "LONGSHORE_DEV_WORKER_PORT"),
        (place.database_url.is_none().then_some(ports.postgres), "Postgres", "LONGSHORE_DEV_PG_PORT"),
        (place.redis_url.is_none().then_some(ports.redis), "Redis", "LONGSHORE_DEV_REDIS_PORT"),
    ];
    for (port, what, setting) in own {
        if let Some(port) = port
            && !port::is_free(port)
        {
            bail!("port {port} of {what} is taken; choose another one with {setting}");
        }
    }
    Ok(())
}

/// The URLs of the servers.
struct Servers {
    database: String,
    /// The same with the login that migrates.
    database_as_owner: String,
    redis: String,
}

/// Starts Postgres and Redis, unless the caller gave others; they run until `down`.
fn start_servers(place: &Place) -> anyhow::Result<Servers> {
    let data = place.data()?;
    let (database, database_as_owner) = if let Some(url) = &place.database_url {
        (url.clone(), url.clone())
    } else {
        let port = place.ports.postgres;
        step(&format!("Starting Postgres on port {port}"));
        let password = kept_secret(place, "postgres-password", new_password)?;
        let cluster = Cluster::in_folder(data.join("postgres"))?;
        if !cluster.exists() {
            cluster.create(Some(&password))?;
        }
        cluster.start(port, &[("max_connections", "200")])?.detach();
        let service_password = kept_secret(place, "postgres-service-password", new_password)?;
        let owner = format!("postgres://{}@127.0.0.1:{port}/postgres", postgres::OWNER);
        let mut roles = sql(&owner, &[]);
        roles.env("PGPASSWORD", &password).env("SERVICE_PASSWORD", &service_password);
        let mut roles = roles.stdin(Stdio::piped()).spawn().context("psql")?;
        roles.stdin.take().context("psql")?.write_all(ROLES.as_bytes())?;
        let made = roles.wait()?;
        run::check()?;
        if !made.success() {
            bail!("the roles of Postgres cannot be created");
        }
        let url =
            |user: &str, password: &str| format!("postgres://{user}:{password}@127.0.0.1:{port}/longshore");
        (url("longshore_app", &service_password), url(postgres::OWNER, &password))
    };
    let redis = if let Some(url) = &place.redis_url {
        url.clone()
    } else {
        let port = place.ports.redis;
        step(&format!("Starting Redis on port {port}"));
        let password = kept_secret(place, "redis-password", new_password)?;
        let server = redis::Server::configure(&data.join("redis"), port, &[("requirepass", &password)])?;
        server.start()?.detach();
        format!("redis://default:{password}@127.0.0.1:{port}")
    };
    Ok(Servers { database, database_as_owner, redis })
}

/// The settings of the service. Those for destinations are for development only: on this machine, without TLS.
fn settings(place: &Place, servers: &Servers) -> anyhow::Result<BTreeMap<&'static str, String>> {
    let key =
        kept_secret(place, "encryption-key", || Ok(format!("dev:{}", STANDARD.encode(random::<32>()?))))?;
    let given = |name: &str, default: String| crate::place::setting(name).unwrap_or(default);
    Ok(BTreeMap::from([
        ("DATABASE_URL", servers.database.clone()),
        ("REDIS_URL", servers.redis.clone()),
        ("LONGSHORE_BIND", format!("127.0.0.1:{}", place.ports.api)),
        ("LONGSHORE_WORKER_BIND", format!("127.0.0.1:{}", place.ports.worker)),
        ("LONGSHORE_ENCRYPTION_KEY", key),
        (
            "LONGSHORE_OBJECT_STORE",
            given("LONGSHORE_OBJECT_STORE", place.dev.join("objects").display().to_string()),
        ),
        ("LONGSHORE_WEBHOOK_ALLOW_HTTP", "true".to_owned()),
        ("LONGSHORE_WEBHOOK_ALLOW_SUBNETS", "127.0.0.0/8,::1/128".to_owned()),
        // There is no load balancer.
        ("LONGSHORE_DRAIN_SECONDS", given("LONGSHORE_DRAIN_SECONDS", "0".to_owned())),
        // A developer is one caller; LONGSHORE_RATE_LIMIT=100 shows the limit at work.
        ("LONGSHORE_RATE_LIMIT", given("LONGSHORE_RATE_LIMIT", "0".to_owned())),
    ]))
}

fn new_password() -> anyhow::Result<String> {
    Ok(URL_SAFE.encode(random::<24>()?))
}

/// A secret that was created once and is kept until `reset`.
fn kept_secret(
    place: &Place,
    name: &str,
    create: impl FnOnce() -> anyhow::Result<String>,
) -> anyhow::Result<String> {
    let file = place.dev.join(name);
    let kept = fs::read_to_string(&file).unwrap_or_default();
    if !kept.trim().is_empty() {
        return Ok(kept.trim().to_owned());
    }
    let secret = create()?;
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file)?;
    writeln!(file, "{secret}")?;
    Ok(secret)
}

fn wait_ready(place: &Place, name: &str, port: u16, supervisor: u32) -> anyhow::Result<()> {
    let until = Instant::now() + READY;
    while !is_ready(port) {
        run::check()?;
        if !alive(supervisor) {
            bail!("the service was stopped while it started");
        }
        if Instant::now() >= until {
            let log = place.logs.join(format!("{name}.log"));
            bail!("the {name} is not ready after a minute; {} ends:\n{}", log.display(), end_of(&log));
        }
        thread::park_timeout(LOOK_AGAIN);
    }
    Ok(())
}

/// Whether the process at a port says that it is ready.
fn is_ready(port: u16) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"GET /health/ready HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
        let mut status = [0; b"HTTP/1.1 200".len()];
        stream.read_exact(&mut status)?;
        Ok(&status == b"HTTP/1.1 200")
    };
    ask().unwrap_or(false)
}

/// Keeps the pid file of a process, and says when it ends.
struct Report {
    name: &'static str,
    file: PathBuf,
    log: PathBuf,
    pause: Duration,
}

impl Watch for Report {
    fn started(&mut self, pid: u32) {
        if let Err(error) = fs::write(&self.file, format!("{pid}\n")) {
            eprintln!("./dev: {}: {error}", self.file.display());
        }
    }

    fn ended(&mut self, how: &dyn Display, lived: Duration) -> Duration {
        self.pause = next_pause(self.pause, lived);
        let Self { name, log, pause, .. } = self;
        println!(
            "{} {name} ended ({how}) and starts again in {pause:?}; see {}",
            run::time("%T"),
            log.display()
        );
        self.pause
    }
}

/// The pause before a restart, from the one before.
fn next_pause(before: Duration, lived: Duration) -> Duration {
    if lived >= SOON { FIRST_PAUSE } else { (before * 2).clamp(FIRST_PAUSE, LAST_PAUSE) }
}

/// Runs api and worker until a signal arrives.
pub(crate) fn supervise(place: &Place) -> anyhow::Result<()> {
    // Out of the terminal's session: Ctrl-C is for `up`, which then stops everything in order.
    setsid().context("this is started by ./dev up")?;
    let pid_file = place.dev.join("up.pid");
    fs::write(&pid_file, format!("{}\n", std::process::id()))?;
    let programs = [("api", "longshore-api", &["serve"][..]), ("worker", "longshore-worker", &[])];
    let kept = programs.map(|(name, program, arguments)| {
        let (log, file) = (place.logs.join(format!("{name}.log")), place.dev.join(format!("{name}.pid")));
        let report = Report { name, file, log: log.clone(), pause: Duration::ZERO };
        let program = place.program(DEV, program);
        let command = move || {
            // With the settings of the service, which are those of this process.
            let mut command = Command::new(&program);
            command.args(arguments);
            command
        };
        Kept::start_watched(command, log, report)
    });
    let [api, worker] = kept;
    let kept = [api?, worker?];
    let stopped = run::wait();
    thread::scope(|scope| {
        for process in kept {
            scope.spawn(|| process.end(STOP));
        }
    });
    for name in ["api.pid", "worker.pid", "up.pid"] {
        _ = fs::remove_file(place.dev.join(name));
    }
    stopped
}

/// Ends the process of a pid file, if it contains the word.
fn end(file: &Path, word: &str, patience: Duration) {
    if let Some(pid) = pid_in(file, word)
        && !process::end(pid, Signal::SIGTERM, patience)
    {
        eprintln!("{word} ({pid}) did not stop within {patience:?} and was killed");
    }
    _ = fs::remove_file(file);
}

fn stop(place: &Place) -> anyhow::Result<()> {
    let data = place.data()?;
    // The supervisor first: it would restart what is stopped before it.
    end(&place.dev.join("up.pid"), SUPERVISE, STOP + Duration::from_secs(5));
    end(&place.dev.join("api.pid"), "longshore-api", STOP);
    end(&place.dev.join("worker.pid"), "longshore-worker", STOP);
    redis::stop_in(&data.join("redis"));
    postgres::stop_in(&data.join("postgres"));
    Ok(())
}

pub(crate) fn down(place: &Place) -> anyhow::Result<()> {
    stop(place)?;
    println!("Longshore is down.");
    Ok(())
}

pub(crate) fn reset(place: &Place) -> anyhow::Result<()> {
    down(place)?;
    let data = place.data()?;
    let dev = [
        "env",
        "encryption-key",
        "postgres-password",
        "postgres-service-password",
        "redis-password",
        "objects",
        "log",
    ];
    for path in dev
        .map(|name| place.dev.join(name))
        .into_iter()
        .chain(["postgres", "redis"].map(|name| data.join(name)))
    {
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        match removed {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| path.display().to_string());
            }
            _ => {}
        }
    }
    if data != place.dev {
        // It stays while it has a scratch folder of another run.
        _ = fs::remove_dir(data);
    }
    if place.database_url.is_some() {
        eprintln!("The database of DATABASE_URL was not touched.");
    }
    println!("Its data is deleted.");
    Ok(())
}

fn show_running(place: &Place, stop: &str) -> anyhow::Result<()> {
    let environment = Environment::read(&place.env_file())?;
    let value = |name| environment.need(name);
    println!(
        "
  Console            {}
                     log in as {} with password {}
  API documentation  {}/docs

  Everything else (programs, settings, tokens, ids) is in .dev/env:  . .dev/env
  Logs: ./dev logs   Proof: ./dev demo   Stop: {stop}",
        value("CONSOLE_URL")?,
        value("ADMIN_LOGIN")?,
        value("ADMIN_PASSWORD")?,
        value("BASE_URL")?,
    );
    Ok(())
}

pub(crate) fn psql(place: &Place, arguments: &[&str]) -> anyhow::Result<()> {
    let environment = Environment::read(&place.env_file())?;
    run::replace(Command::new("psql").arg(environment.need("DATABASE_URL")?).args(arguments))
}

pub(crate) fn logs(place: &Place, names: &[&str]) -> anyhow::Result<()> {
    let data = place.data()?;
    let all = [
        ("api", place.logs.join("api.log")),
        ("worker", place.logs.join("worker.log")),
        ("postgres", data.join("postgres/postgres.log")),
        ("redis", data.join("redis/redis.log")),
    ];
    let chosen: Vec<&PathBuf> = match names {
        [] => all.iter().map(|(_, file)| file).collect(),
        [name] => all.iter().filter(|(known, _)| known == name).map(|(_, file)| file).collect(),
        _ => Vec::new(),
    };
    if chosen.is_empty() {
        bail!("logs takes api, worker, postgres or redis");
    }
    run::replace(Command::new("tail").args(["-n", "50", "-F"]).args(chosen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_while_a_process_ends_soon_and_begin_anew_after_a_long_life() {
        let mut pause = Duration::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            pause = next_pause(pause, Duration::from_secs(1));
            pauses.push(pause.as_millis());
        }
        assert_eq!(pauses, [200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]);
        assert_eq!(next_pause(pause, SOON), FIRST_PAUSE);
    }
}
