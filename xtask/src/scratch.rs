//! Postgres and Redis of one run, on free ports. They are removed with their data however the run ends: by a destructor,
//! or, if it was killed, by the next run.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use longshore_stack::port::on_free_port;
use longshore_stack::postgres::{self, Cluster};
use longshore_stack::process::{Process, command_line};
use longshore_stack::redis;
use nix::sys::statvfs::statvfs;

use crate::place::{Place, random};
use crate::run;

/// A folder of this process, which the user that runs Postgres can reach; removed with the servers in it.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

/// What tests may need of a file system in memory, in bytes.
const ROOM_OF_TESTS: u64 = 8 << 30;

/// The names of folders; the id of their process follows.
const PREFIX: &str = "scratch-";

/// The word in the command line of a process that has one.
const OWNER: &str = "xtask";

impl Folder {
    /// Makes one in the folder for data.
    pub(crate) fn create(data: &Path) -> anyhow::Result<Self> {
        sweep(data)?;
        let unique = u32::from_ne_bytes(random()?);
        let folder = data.join(format!("{PREFIX}{}-{unique:08x}", std::process::id()));
        fs::create_dir(&folder)?;
        fs::set_permissions(&folder, Permissions::from_mode(0o711))?;
        Ok(Self(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Removes the folders of runs that were killed.
fn sweep(data: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(data)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(owner) = name.strip_prefix(PREFIX) else { continue };
        let pid = owner.split('-').next().and_then(|pid| pid.parse().ok());
        if !pid.is_some_and(|pid| command_line(pid).contains(OWNER)) {
            remove(&entry.path());
        }
    }
    Ok(())
}

/// Stops what runs in a folder, and removes it.
fn remove(folder: &Path) {
    redis::stop_in(&folder.join("redis"));
    // the standby before the server that it follows
    for cluster in ["standby", "postgres"] {
        postgres::stop_in(&folder.join(cluster));
    }
    // the disks of a chaos run that was killed
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let disk = entry.path().join("postgres");
        if disk.is_dir() && run::succeeds(Command::new("mountpoint").arg(&disk)) {
            run::succeeds(Command::new("umount").arg("--lazy").arg(&disk));
        }
    }
    if let Err(error) = fs::remove_dir_all(folder) {
        eprintln!("./dev: {} cannot be removed: {error}", folder.display());
    }
}

/// Postgres and Redis, both without passwords; dropping this removes them.
#[derive(Debug)]
pub(crate) struct Scratch {
    // dropped in this order
    _redis: Process,
    _postgres: Stopped,
    pub(crate) folder: Folder,
    pub(crate) database_url: String,
    pub(crate) redis_url: String,
    pub(crate) postgres_port: u16,
}

/// A server that is stopped in order, so that it removes its shared memory.
#[derive(Debug)]
struct Stopped(Cluster, Option<Process>);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.stop();
        self.1 = None;
    }
}

impl Scratch {
    /// Starts both in the folder for data, with these settings of Postgres.
    pub(crate) fn start(data: &Path, settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        let folder = Folder::create(data)?;
        let cluster = Cluster::in_folder(folder.path().join("postgres"))?;
        cluster.create(None)?;
        let (server, postgres_port) = on_free_port(|port| cluster.start(port, settings))?;
        let postgres = Stopped(cluster, Some(server));
        let server = format!("postgres://{}@127.0.0.1:{postgres_port}", postgres::OWNER);
        run::run(&mut psql(&format!("{server}/postgres"), &["-c", "CREATE DATABASE longshore"]))?;
        let (redis, redis_port) =
            on_free_port(|port| redis::Server::configure(&folder.path().join("redis"), port, &[])?.start())?;
        Ok(Self {
            _redis: redis,
            _postgres: postgres,
            folder,
            database_url: format!("{server}/longshore"),
            redis_url: format!("redis://127.0.0.1:{redis_port}"),
            postgres_port,
        })
    }

    /// Starts both for tests: in memory, if that has room. Each test makes and removes a database of a thousand files, and on a
    /// disk that takes longer than most tests.
    pub(crate) fn of_tests(place: &Place, settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() {
            // what a run that was killed has left takes room
            sweep(&place.folder_in(memory)?)?;
        }
        let free = statvfs(memory).map_or(0, |disk| disk.blocks_available() * disk.fragment_size());
        let data = if free < ROOM_OF_TESTS { place.data() } else { place.folder_in(memory) };
        Self::start(&data?, settings)
    }

    /// The URL of a database of its Postgres.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://{}@127.0.0.1:{}/{database}", postgres::OWNER, self.postgres_port)
    }

    /// Applies the migrations of the checkout, and its functions. Only for what comes before a build: the service migrates by
    /// itself (`longshore-api migrate`).
    pub(crate) fn migrate(&self, place: &Place) -> anyhow::Result<()> {
        for folder in ["migrations", "migrations/functions"] {
            let mut files = fs::read_dir(place.root.join(folder))?
                .map(|entry| entry.map(|entry| entry.path()))
                .collect::<Result<Vec<_>, _>>()?;
            files.retain(|file| file.extension().is_some_and(|extension| extension == "sql"));
            files.sort();
            for file in files {
                let alone = fs::read_to_string(&file)?.starts_with("-- no-transaction");
                let mut apply = psql(&self.database_url, if alone { &[] } else { &["--single-transaction"] });
                run::run(apply.arg("-f").arg(file))?;
            }
        }
        Ok(())
    }
}

/// psql that stops at the first error.
pub(crate) fn psql(url: &str, arguments: &[&str]) -> Command {
    let mut psql = run::command("psql");
    psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url]).args(arguments);
    psql
}
