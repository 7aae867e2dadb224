//! `prepare`: describes the queries that are checked at compile time, in `.sqlx`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context as _, bail};

use crate::place::Place;
use crate::run;
use crate::scratch::Scratch;

/// Folders without packages of the workspace.
const OTHER: [&str; 3] = ["target", "node_modules", "fuzz"];

pub(crate) fn prepare(place: &Place) -> anyhow::Result<()> {
    let (kept, fresh) = (place.root.join(".sqlx"), place.root.join(".sqlx.new"));
    let scratch = Scratch::of_tests(place, &[("fsync", "off")])?;
    scratch.migrate(place)?;
    _ = fs::remove_dir_all(&fresh);
    if let Err(error) = describe(place, &scratch, &fresh, "check", &[]) {
        _ = fs::remove_dir_all(&fresh);
        return Err(error.context("the queries could not be described"));
    }
    _ = fs::remove_dir_all(&kept);
    fs::rename(fresh, &kept)?;
    println!("{} queries described in .sqlx", fs::read_dir(kept)?.count());
    Ok(())
}

/// Writes the descriptions of all queries to a folder, from a migrated database.
fn describe(
    place: &Place,
    scratch: &Scratch,
    folder: &Path,
    command: &str,
    flags: &[&str],
) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    // The queries are described while the compiler runs, so it has to run.
    let _touched = Touched::all(roots(&place.root)?)?;
    // All of the workspace, as clippy checks it: some packages alone would ask for other features, and so for all of the
    // dependencies once more.
    let mut check = place.cargo(&[command, "--locked", "--workspace", "--all-targets"]);
    check.args(flags).env("DATABASE_URL", &scratch.database_url).env("SQLX_OFFLINE", "false");
    run::run(check.env("SQLX_OFFLINE_DIR", folder))
}

/// Runs clippy, and compares `.sqlx` with the queries in the code.
pub(crate) fn check(place: &Place, scratch: &Scratch) -> anyhow::Result<()> {
    let (kept, fresh) = (place.root.join(".sqlx"), scratch.folder.path().join("sqlx"));
    describe(place, scratch, &fresh, "clippy", &["--", "-D", "warnings"])?;
    // In a checkout without queries, git has no folder.
    fs::create_dir_all(&kept)?;
    if run::run(run::command("diff").arg("-rq").arg(&kept).arg(&fresh)).is_err() {
        run::check()?;
        bail!(".sqlx is not what the code says; ./dev prepare writes it anew");
    }
    Ok(())
}

/// The files at which the compiler begins, of all packages that use sqlx: their queries may come from macros of another
/// package.
fn roots(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut roots = Vec::new();
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
    if manifest.lines().any(|line| line.starts_with("sqlx")) && manifest.contains("[package]") {
        for root in ["src/lib.rs", "src/main.rs", "tests/it/main.rs"] {
            roots.extend(Some(folder.join(root)).filter(|root| root.exists()));
        }
        roots.extend(entries(&folder.join("tests"))?.into_iter().filter(|path| path.is_file()));
    }
    for path in entries(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && !name.starts_with('.') && !OTHER.contains(&name.as_ref()) {
            roots.extend(self::roots(&path)?);
        }
    }
    Ok(roots)
}

fn entries(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}

/// Files that look changed. Dropping this gives them their times back: every later build would compile them again.
struct Touched(Vec<(PathBuf, SystemTime)>);

impl Touched {
    fn all(files: Vec<PathBuf>) -> anyhow::Result<Self> {
        let mut touched = Self(Vec::new());
        for file in files {
            let before = fs::metadata(&file)?.modified()?;
            set_time(&file, SystemTime::now())?;
            touched.0.push((file, before));
        }
        Ok(touched)
    }
}

impl Drop for Touched {
    fn drop(&mut self) {
        for (file, before) in &self.0 {
            if let Err(error) = set_time(file, *before) {
                eprintln!("./dev: {error:#}");
            }
        }
    }
}

fn set_time(file: &Path, time: SystemTime) -> anyhow::Result<()> {
    let opened = File::options().append(true).open(file).with_context(|| file.display().to_string())?;
    Ok(opened.set_modified(time)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roots_of_packages_with_queries_are_found_wherever_they_are() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let found = roots(root).unwrap();

        let mut with_queries = Vec::new();
        queries(root, &mut with_queries);
        assert!(with_queries.len() > 10, "{with_queries:?}");
        for file in with_queries {
            let package = file.ancestors().find(|folder| folder.join("Cargo.toml").exists()).unwrap();
            assert!(found.iter().any(|root| root.starts_with(package)), "{}", file.display());
        }
        assert!(
            !found.iter().any(|root| root.starts_with(concat!(env!("CARGO_MANIFEST_DIR"), "/"))),
            "{found:?}"
        );
    }

    /// The files with checked queries.
    fn queries(folder: &Path, found: &mut Vec<PathBuf>) {
        for path in entries(folder).unwrap() {
            let name = path.file_name().unwrap().to_string_lossy();
            if path.is_dir() && !name.starts_with('.') && !OTHER.contains(&name.as_ref()) {
                queries(&path, found);
            } else if name.ends_with(".rs") {
                let text = fs::read_to_string(&path).unwrap();
                let checked = ["query", "query_as", "query_scalar"];
                if checked.iter().any(|name| text.contains(&format!("sqlx::{name}!("))) {
                    found.push(path);
                }
            }
        }
    }

    #[test]
    fn touched_files_get_their_times_back() {
        let file = std::env::temp_dir().join(format!("longshore-touched-{}", std::process::id()));
        fs::write(&file, "").unwrap();
        let long_ago = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        set_time(&file, long_ago).unwrap();
        let time = || fs::metadata(&file).unwrap().modified().unwrap();

        let touched = Touched::all(vec![file.clone()]).unwrap();
        assert_ne!(time(), long_ago);
        drop(touched);
        assert_eq!(time(), long_ago);
        fs::remove_file(file).unwrap();
    }
}
