//! An upgrade under load, and the roll-back after it, as `docs/upgrades.md` describes them. The programs
//! are found by a link, and each process that ends is started again: so to replace one is to end it, as under systemd.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use longshore_testkit::process::signal;
use longshore_testkit::stack::Service;
use sqlx::Executor as _;
use tokio::process::Command;

use super::check::{self, Course};
use super::company::Company;
use super::crew::{Role, connect, program};
use super::report::Check;
use super::site::{Site, migrate};

/// MiB for Postgres.
const ROOM: u64 = 1024;

/// How long the load goes on; all steps are done meanwhile.
const LOAD: Duration = Duration::from_secs(90);

/// How much of that is before the first step.
const BEFORE: Duration = Duration::from_secs(5);

/// How long a process may take to end its running work, and a little more.
const REPLACED_WITHIN: Duration = Duration::from_secs(40);

/// The interval of checking that.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The programs of two versions, each in a folder.
#[derive(Debug, Clone, Copy)]
pub struct Versions<'r> {
    /// The one that runs.
    pub old: &'r Path,
    /// The one that it is upgraded to.
    pub new: &'r Path,
}

/// Upgrades and rolls back under load, and upgrades a dump of the old version, if there is one. It tells each step with its seconds.
///
/// # Errors
/// If the run itself fails; violations are in what it returns.
pub async fn run(
    versions: Versions<'_>,
    dump: Option<&Path>,
    seed: u64,
    tell: impl Fn(String) + Sync,
) -> anyhow::Result<Vec<Check>> {
    let folder = tempfile::tempdir()?;
    let link = folder.path().join("programs");
    symlink(versions.old, &link)?;
    let site = Site::start(ROOM, link.clone()).await?;
    let upgrade = Upgrade { versions, site: &site, link, folder: folder.path(), tell };
    let outcome = Box::pin(upgrade.run(dump, seed)).await;
    outcome.with_context(|| format!("seed {seed}\n{}", site.ends_of_logs()))
}

struct Upgrade<'r, T> {
    versions: Versions<'r>,
    site: &'r Site,
    /// Where the processes find their programs.
    link: PathBuf,
    folder: &'r Path,
    tell: T,
}

impl<T: Fn(String) + Sync> Upgrade<'_, T> {
    async fn run(&self, dump: Option<&Path>, seed: u64) -> anyhow::Result<Vec<Check>> {
        let Versions { old, new } = self.versions;
        self.step("demo data of the old version", self.seed()).await?;
        let upgrade = async {
            // it is safe to run it twice
            let migration = self.newest();
            self.step("migrated", async {
                migrate(&migration).await?;
                migrate(&migration).await
            })
            .await?;
            self.step("workers replaced", self.replace(new, Role::Worker)).await?;
            self.step("api replaced", self.replace(new, Role::Api)).await
        };
        let (company, mut checks) = Box::pin(self.under_load("upgrade", seed, upgrade)).await?;
        let roll_back = async {
            self.step("api rolled back", self.replace(old, Role::Api)).await?;
            self.step("workers rolled back", self.replace(old, Role::Worker)).await
        };
        checks.extend(Box::pin(self.under_load("roll-back", seed + 1, roll_back)).await?.1);
        // its partners are called by the clock until here
        drop(company);
        if let Some(dump) = dump {
            self.step("dump restored and migrated", self.restore(dump)).await?;
        }
        Ok(checks)
    }

    async fn step(&self, name: &str, done: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
        let began = Instant::now();
        done.await.with_context(|| name.to_owned())?;
        (self.tell)(format!("{:7.1} s  {name}", began.elapsed().as_secs_f64()));
        Ok(())
    }

    async fn seed(&self) -> anyhow::Result<()> {
        let metrics = format!("{}/metrics", self.site.workers[0].base_url);
        let mut seed = self.site.service.command("longshore-demo");
        seed.arg("seed").arg("--env-file").arg(self.folder.join("env"));
        seed.args(["--base-url", &self.site.apis[0].base_url, "--worker-metrics-url", &metrics]);
        succeed(&mut seed).await
    }

    /// Takes the steps while all take part, waits until no work is left, and checks what was promised.
    async fn under_load(
        &self,
        name: &str,
        seed: u64,
        steps: impl Future<Output = anyhow::Result<()>>,
    ) -> anyhow::Result<(Company, Vec<Check>)> {
        let Self { site, tell, .. } = self;
        let company = Company::open(site, false).await?;
        let minder = company.minder(site)?;
        let (began, redis_bytes) = (Instant::now(), check::redis_bytes(site).await?);
        let until = began + LOAD;
        let steps = async {
            tokio::time::sleep(BEFORE).await;
            steps.await?;
            ensure!(Instant::now() < until, "the steps took longer than the load");
            Ok(())
        };
        tokio::try_join!(company.play(&minder, seed, until), steps)?;
        let rest = company.rest(site, &minder).await?;
        tell(format!("{:7.1} s  {name}: until no work was left", rest.after));
        let (emptied, stalls, last_test) = (Vec::new(), Vec::new(), rest.last_test);
        let course =
            Course { began, redis_bytes, emptied, stalls, last_test, to_postgres: Some(&site.to_postgres) };
        let mut checks = company.checks(site, &minder, &course, rest).await?;
        let played = company.played(site, &minder).await?;
        drop(minder);
        tell(format!("{played}"));
        checks.push(doctor(&self.newest()).await?);
        for check in &mut checks {
            check.name.insert_str(0, &format!("{name}: "));
            tell(check.to_string().trim_end().to_owned());
        }
        Ok((company, checks))
    }

    /// The newest programs: what a database needs, they alone know.
    fn newest(&self) -> Service {
        Service { programs: self.versions.new.to_owned(), ..self.site.service.clone() }
    }

    /// Replaces the processes of a role by those of a version, one after the other.
    async fn replace(&self, version: &Path, role: Role) -> anyhow::Result<()> {
        let other = self.folder.join("other");
        symlink(version, &other)?;
        fs::rename(other, &self.link)?;
        for member in self.site.of(role) {
            let before = member.pid().with_context(|| format!("{} is not running", member.name))?;
            signal("TERM", &[before]).await?;
            let replaced = async {
                loop {
                    match member.pid() {
                        Some(pid) if pid != before => return pid,
                        _ => tokio::time::sleep(LOOK_AGAIN).await,
                    }
                }
            };
            let replaced = tokio::time::timeout(REPLACED_WITHIN, replaced).await;
            let pid = replaced.with_context(|| format!("{} does not end", member.name))?;
            self.site.be_ready().await?;
            let runs = fs::read_link(format!("/proc/{pid}/exe"))?;
            ensure!(
                runs == version.canonicalize()?.join(program(role).1),
                "{} runs {}",
                member.name,
                runs.display()
            );
        }
        Ok(())
    }

    /// Restores a dump as the page says of backups, and upgrades it.
    async fn restore(&self, dump: &Path) -> anyhow::Result<()> {
        connect(self.site).await?.execute("CREATE DATABASE restored TEMPLATE template0").await?;
        let mut url = self.site.postgres.url.clone();
        url.set_path("restored");
        let mut restore = Command::new("pg_restore");
        succeed(restore.args(["--exit-on-error", "--no-owner", "--dbname", url.as_str()]).arg(dump)).await?;
        let mut service = self.newest();
        service.environment.push(("DATABASE_URL", url.to_string()));
        migrate(&service).await?;
        // what was dumped in the first second of a service says nothing of where it was
        succeed(service.command("longshore-api").args(["restored", "--since", "2026-01-01"])).await?;
        let found = doctor(&service).await?;
        ensure!(found.holds(), "{found}");
        Ok(())
    }
}

/// What `doctor` finds, but for the settings, which are those of one machine.
async fn doctor(service: &Service) -> anyhow::Result<Check> {
    let said = service.command("longshore-api").arg("doctor").output().await?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let faults = said.lines().filter(|line| !line.starts_with("ok") && !line.contains(" settings "));
    let faults = faults.map(str::to_owned).collect();
    Ok(Check::new("doctor finds nothing", said.lines().count() as u64, faults))
}

async fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let ended = command.output().await?;
    ensure!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    Ok(())
}
