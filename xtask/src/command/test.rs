//! `test`: everything that continuous integration checks.
//!
//! [`CHECKS`] are the checks in their order. Each runs even if an earlier one failed; what they share (a migrated
//! database, the programs of the service) is made when the first one needs it. Those that only talk to a service, each to its
//! own, run last and beside each other ([`Test::queue`]): they mostly wait.

mod debian;
mod image;
mod outside;
mod service;

use std::ffi::OsString;
use std::fs;
use std::mem;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};

use crate::command::run::run_chaos;
use crate::command::{self, prepare};
use crate::place::{DEV, Place, setting};
use crate::run::{self, step};
use crate::scratch::{Folder, Scratch};
use crate::tail;
use crate::tools;

/// A check, which fails only by a signal.
type Check = fn(&mut Test) -> anyhow::Result<()>;

/// A check that runs beside others.
type Queued = (String, Box<dyn FnOnce(&Test<'_>) -> anyhow::Result<()> + Send>);

/// How many of those run at once.
const ABREAST: usize = 3;

/// The checks, by the names that `--only` takes.
const CHECKS: [(&str, Check); 26] = [
    ("formatting", formatting),
    ("shell", shell),
    ("licences", licences),
    ("advisories", advisories),
    ("fuzz-lock", fuzz_lock),
    ("migrations", |test| test.need_migrations()),
    ("clippy", clippy),
    ("documentation", documentation),
    ("tests", tests),
    ("counts", counts),
    ("optimised", optimised),
    ("chaos", chaos),
    ("cluster", cluster),
    ("upgrade", upgrade),
    ("outside", outside::document),
    ("clients", outside::clients),
    ("console", outside::console),
    ("monitoring", outside::monitoring),
    ("pages", outside::pages),
    ("standby", service::standby),
    ("pooler", service::pooler),
    ("compose", service::compose),
    ("chart", outside::chart),
    ("units", service::units),
    ("debian", debian::packages),
    ("image", image::image),
];

/// What `--quick` runs.
const QUICK: [&str; 5] = ["formatting", "shell", "migrations", "clippy", "tests"];

/// Tests that run at once in a program. Most of the time they wait, for a lease or for a deadline; each has a dozen connections to
/// Postgres, and some have many more.
const TESTS_ABREAST: &str = "4";

/// Postgres for tests: they are not about durability, and use many connections at once.
const POSTGRES: [(&str, &str); 5] = [
    ("fsync", "off"),
    ("synchronous_commit", "off"),
    ("full_page_writes", "off"),
    ("max_connections", "400"),
    ("shared_buffers", "512MB"),
];

const CARGO_DENY: (&str, &str) = ("cargo-deny", "0.20.2");

/// A run, and what its checks share.
pub(crate) struct Test<'p> {
    place: &'p Place,
    /// A folder for pictures of the pages, if wanted.
    pictures: Option<PathBuf>,
    scratch: Option<Scratch>,
    /// Folders of installed tools, to be added to the path.
    tools: Vec<PathBuf>,
    done: Vec<&'static str>,
    /// Whether the check was asked for by its name.
    by_name: bool,
    queued: Mutex<Vec<Queued>>,
    report: Mutex<Report>,
}

/// What became of the checks.
#[derive(Debug, Default)]
struct Report {
    results: Vec<String>,
    /// The failed checks, each with its error and the last lines of its output.
    failed: Vec<(String, Vec<String>)>,
}

pub(crate) fn test(place: &Place, given: &[&str]) -> anyhow::Result<()> {
    let started = Instant::now();
    let (mut only, mut pictures) = (Vec::new(), None);
    let mut given = given.iter();
    while let Some(word) = given.next() {
        match *word {
            "--only" => only.push(*given.next().context("--only takes the name of a check")?),
            "--quick" => only.extend(QUICK),
            folder if !folder.starts_with('-') && pictures.is_none() => {
                pictures = Some(PathBuf::from(folder));
            }
            other => bail!("test does not take {other}"),
        }
    }
    let names = CHECKS.map(|(name, _)| name);
    if only == ["list"] {
        println!("{}", names.join("\n"));
        return Ok(());
    }
    if let Some(unknown) = only.iter().find(|name| !names.contains(name)) {
        bail!("there is no check {unknown}; there are {}", names.join(", "));
    }
    let (scratch, tools, done, queued) = (None, Vec::new(), Vec::new(), Mutex::default());
    let by_name = !only.is_empty();
    let mut test = Test { place, pictures, scratch, tools, done, by_name, queued, report: Mutex::default() };
    for (name, check) in CHECKS {
        if only.is_empty() || only.contains(&name) {
            check(&mut test)?;
        }
    }
    test.run_queued()?;
    step("Summary");
    let report = mem::take(&mut *lock(&test.report));
    for result in &report.results {
        println!("{result}");
    }
    for (failure, lines) in &report.failed {
        println!("\n{failure}; the last lines of it:\n{}", lines.join("\n"));
    }
    println!("\n{} s in all", started.elapsed().as_secs());
    ensure!(report.failed.is_empty(), "not every check passed");
    Ok(())
}

impl Test<'_> {
    /// Runs one check and remembers its result. Only a signal is an error.
    fn check(&self, name: &str, run: impl FnOnce(&Self) -> anyhow::Result<()>) -> anyhow::Result<()> {
        self.check_as(name, None, run)
    }

    /// The same with a name for each line that it prints.
    fn check_as(
        &self,
        name: &str,
        before: Option<&str>,
        run: impl FnOnce(&Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        step(name);
        let started = Instant::now();
        tail::begin(before);
        let ran = run(self);
        let lines = tail::end();
        run::check()?;
        let verdict = match ran {
            Ok(()) => "ok",
            Err(error) => {
                let failure = format!("{name}: {error:#}");
                eprintln!("{failure}");
                lock(&self.report).failed.push((failure, lines));
                "FAILED"
            }
        };
        lock(&self.report).results.push(format!("{verdict:<6} {:4} s  {name}", started.elapsed().as_secs()));
        Ok(())
    }

    /// Has a check run at the end, beside others.
    fn queue(&mut self, name: &str, run: impl FnOnce(&Test<'_>) -> anyhow::Result<()> + Send + 'static) {
        lock(&self.queued).push((name.to_owned(), Box::new(run)));
    }

    fn run_queued(&self) -> anyhow::Result<()> {
        let queued = Mutex::new(mem::take(&mut *lock(&self.queued)).into_iter());
        let next = || lock(&queued).next();
        let run = || -> anyhow::Result<()> {
            while let Some((name, run)) = next() {
                self.check_as(&name, Some(&name), run)?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let running: Vec<_> = (0..ABREAST).map(|_| scope.spawn(run)).collect();
            // a check does not panic: if one did, its thread would say so
            running.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
        })
    }

    fn skip(&self, name: &str, reason: &str) {
        eprintln!("\n!!! SKIPPED: {name}: {reason}");
        lock(&self.report).results.push(format!("skipped        {name} ({reason})"));
    }

    /// A check that was passed before, of the same files.
    fn unchanged(&self, name: &str) {
        println!("\n==> {name} is unchanged");
        lock(&self.report).results.push(format!("unchanged      {name}"));
    }

    /// Whether this is the first call with a name.
    fn first(&mut self, name: &'static str) -> bool {
        let first = !self.done.contains(&name);
        self.done.push(name);
        first
    }

    /// Postgres and Redis of this run.
    fn scratch(&mut self) -> anyhow::Result<&Scratch> {
        let scratch = match self.scratch.take() {
            Some(scratch) => scratch,
            None => Scratch::of_tests(self.place, &POSTGRES)?,
        };
        Ok(self.scratch.insert(scratch))
    }

    fn need_migrations(&mut self) -> anyhow::Result<()> {
        self.scratch()?;
        if self.first("migrations") {
            self.check("migrations", |test| test.started()?.migrate(test.place))?;
        }
        Ok(())
    }

    /// Builds the programs of the service, which tests find beside them, and starts the servers that they need.
    fn need_programs(&mut self) -> anyhow::Result<()> {
        self.scratch()?;
        if self.first("programs") {
            self.check("programs", |test| run::run(&mut test.place.build(DEV)))?;
        }
        Ok(())
    }

    fn started(&self) -> anyhow::Result<&Scratch> {
        self.scratch.as_ref().context("Postgres and Redis are not started")
    }

    /// The path on which programs find the installed tools.
    fn path(&self) -> anyhow::Result<OsString> {
        tools::path_with(&self.tools)
    }

    /// A program beside a service of its own.
    fn beside_service(&self) -> anyhow::Result<Command> {
        let mut with = self.place.command(self.place.program(DEV, "longshore-bench"));
        with.env("DATABASE_URL", &self.started()?.database_url).env("PATH", self.path()?);
        with.env("PYTHONDONTWRITEBYTECODE", "1").env("RUST_BACKTRACE", "0").args(["with", "--"]);
        Ok(with)
    }

    /// A script of `api/tests/outside` beside a service of its own.
    fn outside(&self, interpreter: impl AsRef<std::ffi::OsStr>, script: &str) -> anyhow::Result<Command> {
        let mut with = self.beside_service()?;
        with.arg(interpreter).arg(self.place.root.join("api/tests/outside").join(script));
        Ok(with)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn formatting(test: &mut Test) -> anyhow::Result<()> {
    test.check("formatting", |test| run::run(&mut test.place.cargo(&["fmt", "--all", "--check"])))
}

fn shell(test: &mut Test) -> anyhow::Result<()> {
    if !tools::have(&["shellcheck"]) {
        return Ok(());
    }
    test.check("shell scripts", |test| {
        let scripts = [
            "dev",
            ".ci/run",
            "xtask/rustc-without-llvm",
            "deploy/cluster/configure",
            "deploy/docker/backup",
            "deploy/docker/ready",
            "deploy/docker/secrets",
            "deploy/docker/roles.sh",
            "deploy/debian/postinst",
            "deploy/debian/prerm",
            "deploy/debian/postrm",
        ];
        run::run(test.place.command("shellcheck").args(scripts))
    })
}

fn cargo_deny(test: &Test, arguments: &[&str]) -> anyhow::Result<()> {
    let (name, version) = CARGO_DENY;
    let mut deny = test.place.cargo(&["deny"]);
    run::run(deny.args(arguments).env("PATH", tools::cargo_tool(name, version)?))
}

fn licences(test: &mut Test) -> anyhow::Result<()> {
    test.check("licences, bans, sources", |test| cargo_deny(test, &["check", "licenses", "bans", "sources"]))
}

fn advisories(test: &mut Test) -> anyhow::Result<()> {
    if cargo_deny(test, &["fetch", "db"]).is_err() {
        run::check()?;
        test.skip("advisories", "their database cannot be reached");
        return Ok(());
    }
    test.check("advisories", |test| cargo_deny(test, &["check", "--disable-fetch", "advisories"]))
}

/// `fuzz/Cargo.lock` against `fuzz/Cargo.toml` and its dependencies: a package of its own, which no other check covers.
/// Cargo asks the index for what it does not know, and downloads no package.
fn fuzz_lock(test: &mut Test) -> anyhow::Result<()> {
    let name = "fuzz/Cargo.lock";
    let update = ["update", "--workspace", "--locked", "--manifest-path", "fuzz/Cargo.toml"];
    let said = test.place.cargo(&update).output()?.stderr;
    let said = String::from_utf8_lossy(&said);
    if ["failed to download", "offline mode"].iter().any(|reason| said.contains(reason)) {
        test.skip(name, "the package index cannot be reached");
        return Ok(());
    }
    test.check(name, |test| run::run(&mut test.place.cargo(&update)))
}

/// One run of the compiler lints the code and describes its queries.
fn clippy(test: &mut Test) -> anyhow::Result<()> {
    test.need_migrations()?;
    test.check("clippy, the queries in .sqlx", |test| prepare::check(test.place, test.started()?))
}

fn documentation(test: &mut Test) -> anyhow::Result<()> {
    test.check("documentation", |test| {
        let doc = ["doc", "--locked", "--workspace", "--no-deps", "--document-private-items"];
        run::run(test.place.cargo(&doc).env("RUSTDOCFLAGS", "-D warnings"))
    })
}

fn tests(test: &mut Test) -> anyhow::Result<()> {
    match tools::s3() {
        Ok(folder) => test.tools.extend(folder),
        Err(error) => {
            run::check()?;
            eprintln!("{error:#}");
            let reason = "moto_server cannot be installed: it needs python3 with venv, and the package index";
            test.skip("tests against S3", reason);
        }
    }
    test.need_programs()?;
    test.check("tests", |test| {
        let scratch = test.started()?;
        // Each test has a database of its own, which Postgres copies from this one: to migrate each takes longer than most tests.
        let mut migrate = test.place.command(test.place.program(DEV, "longshore-api"));
        run::run(migrate.arg("migrate").env("DATABASE_URL", scratch.url("template1")))?;
        let mut tests = test.place.cargo(&["test", "--locked", "--workspace", "--no-fail-fast"]);
        tests.env("DATABASE_URL", &scratch.database_url).env("REDIS_URL", &scratch.redis_url);
        tests.env(
            "RUST_TEST_THREADS",
            setting("RUST_TEST_THREADS").unwrap_or_else(|| TESTS_ABREAST.to_owned()),
        );
        // Without backtraces, which would hide the message of a failed test.
        run::run(tests.env("PATH", test.path()?).env("RUST_BACKTRACE", "0"))
    })
}

/// Instructions of Postgres, which are the same at any load of the machine.
fn counts(test: &mut Test) -> anyhow::Result<()> {
    if !tools::ensure(&["valgrind"], &["valgrind"])? {
        test.skip("counts", "valgrind cannot be installed");
        return Ok(());
    }
    test.need_programs()?;
    test.check("counts", |test| {
        let folder = Folder::create(&test.place.data()?)?;
        let mut count = test.place.command(test.place.program(DEV, "longshore-bench"));
        count.env("REDIS_URL", &test.started()?.redis_url).args(["count", "--folder"]);
        run::run(count.arg(folder.path()))
    })
}

/// Compiles our crates as a release does, up to LLVM: the compiler may then refuse what every other check accepts (queries that
/// overflow its depth limit). It inlines only without incremental compilation. Dependencies are those of the tests.
fn optimised(test: &mut Test) -> anyhow::Result<()> {
    test.check("optimised code", |test| {
        let mut build = test.place.cargo(&["build", "--locked", "--workspace", "--lib"]);
        build.args([
            "--exclude",
            "longshore-bench",
            "--exclude",
            "longshore-demo",
            "--exclude",
            "longshore-testkit",
        ]);
        build.env("CARGO_PROFILE_DEV_OPT_LEVEL", "3").env("CARGO_INCREMENTAL", "0");
        run::run(build.env("RUSTC_WORKSPACE_WRAPPER", test.place.root.join("xtask/rustc-without-llvm")))
    })
}

/// A little more than a minute of faults; a failing run names its seed.
fn chaos(test: &mut Test) -> anyhow::Result<()> {
    test.need_programs()?;
    test.check("chaos", |test| run_chaos(test.place, DEV, &[]))
}

/// One fault of each kind, of several machines.
fn cluster(test: &mut Test) -> anyhow::Result<()> {
    let programs = ["patroni", "etcd", "haproxy", "nft", "redis-sentinel", "tini", "ip"];
    let packages = [
        "patroni",
        "etcd-server",
        "python3-etcd",
        "haproxy",
        "nftables",
        "redis-sentinel",
        "tini",
        "iproute2",
    ];
    let mut unshare = run::command("unshare");
    if !run::succeeds(unshare.args(["--net", "--mount", "--ipc", "--pid", "--fork", "true"])) {
        test.skip("cluster", "it needs root, and namespaces of its own");
        return Ok(());
    }
    if !tools::ensure(&programs, &packages)? {
        test.skip("cluster", "Patroni, etcd, HAProxy, nftables and Sentinel cannot be installed");
        return Ok(());
    }
    test.need_programs()?;
    test.check("cluster", |test| run_chaos(test.place, DEV, &["--cluster"]))
}

/// An upgrade of the newest release. What the database and its queries have in common with it cannot break that.
fn upgrade(test: &mut Test) -> anyhow::Result<()> {
    let (name, place) = ("an upgrade of the newest release", test.place);
    let releases = fs::read_dir(place.root.join("docs/releases")).into_iter().flatten();
    let mut kept: Vec<String> =
        releases.flatten().map(|release| release.file_name().to_string_lossy().into_owned()).collect();
    kept.retain(|version| {
        let tag = format!("refs/tags/{version}");
        run::succeeds(place.command("git").args(["rev-parse", "--verify", "--quiet", &tag]))
    });
    let number = |version: &String| version.split('.').map(str::parse).collect::<Result<Vec<u32>, _>>().ok();
    let Some(newest) = kept.into_iter().max_by_key(number) else {
        test.skip(name, "docs/releases has no version with a tag of its name");
        return Ok(());
    };
    let mut differs = place.command("git");
    if run::succeeds(differs.args(["diff", "--quiet", &newest, "--", "migrations", ".sqlx"])) {
        test.skip(name, &format!("migrations and queries are those of {newest}"));
        return Ok(());
    }
    test.check(name, |_| command::upgrade::upgrade(place, &newest, None))
}

/// Copies a folder.
fn copy(from: &std::path::Path, to: &std::path::Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    run::run(run::command("cp").arg("-rT").arg(from).arg(to))
}
