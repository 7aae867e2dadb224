//! The file in which `./dev up` describes what it started, for a shell that sources it: a line `export NAME=value` each. The
//! last line puts the programs on the path.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;

/// The folder of the programs.
pub const PROGRAMS: &str = "PROGRAMS";

/// The URL of the database with the login that owns and migrates it; `DATABASE_URL` has that of the service.
pub const OWNER_DATABASE_URL: &str = "OWNER_DATABASE_URL";

const PATH: &str = "PATH";

/// The contents of the file.
#[derive(Debug, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Reads the file; an absent one is empty.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        match fs::read_to_string(path) {
            Ok(text) => Ok(Self::parse(&text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    fn parse(text: &str) -> Self {
        let pairs =
            text.lines().filter_map(|line| line.strip_prefix("export ").unwrap_or(line).split_once('='));
        let pairs = pairs.filter(|(name, _)| *name != PATH);
        Self(pairs.map(|(name, value)| (name.to_owned(), unquoted(value))).collect())
    }

    /// A value.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All names and their values.
    pub fn pairs(&self) -> impl Iterator<Item = (&String, &String)> {
        self.0.iter()
    }

    /// A value that must be there.
    ///
    /// # Errors
    /// When it is absent.
    pub fn need(&self, name: &str) -> anyhow::Result<&str> {
        self.get(name).with_context(|| format!("the environment file has no {name}; ./dev up writes it"))
    }

    /// Sets a value.
    pub fn set(&mut self, name: &str, value: &impl Display) {
        self.0.insert(name.to_owned(), value.to_string());
    }

    /// Removes a value.
    pub fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Writes the file atomically, readable only by its owner, because it contains tokens.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let mut text = Vec::new();
        for (name, value) in &self.0 {
            writeln!(text, "export {name}={}", quoted(value))?;
        }
        if self.0.contains_key(PROGRAMS) {
            writeln!(text, "export {PATH}=\"${PROGRAMS}:${PATH}\"")?;
        }
        let new = path.with_extension("new");
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new);
        let written = file.and_then(|mut file| file.write_all(&text));
        written.and_then(|()| fs::rename(&new, path)).with_context(|| path.display().to_string())
    }
}

/// Quotes a value for a shell, if necessary.
fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/@,+=%".contains(c);
    if value.chars().all(plain) { value.to_owned() } else { format!("'{}'", value.replace('\'', r"'\''")) }
}

fn unquoted(value: &str) -> String {
    match value.strip_prefix('\'').and_then(|value| value.strip_suffix('\'')) {
        Some(inner) => inner.replace(r"'\''", "'"),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_that_sources_the_file_has_its_values_and_the_programs_and_only_its_owner_may_read_it() {
        let path = std::env::temp_dir().join(format!("longshore-environment-{}", std::process::id()));
        let url = "postgres://a:b'c@h/d?x=1&y=2";
        let mut environment = Environment::read(&path).unwrap();
        environment.set("DATABASE_URL", &url);
        environment.set("BASE_URL", &"http://127.0.0.1:8080");
        environment.set(PROGRAMS, &"/in a checkout/target/debug");
        environment.write(&path).unwrap();
        let read = Environment::read(&path).unwrap();
        read.write(&path).unwrap();

        assert_eq!(read.need("DATABASE_URL").unwrap(), url);
        assert_eq!(read.get(PATH), None);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let script =
            format!(". {}; sh -c 'echo \"$BASE_URL $DATABASE_URL\"'; echo \"$PATH\"", path.display());
        let shell = Command::new("sh").args(["-c", &script]).env(PATH, "/usr/bin:/bin").output().unwrap();
        let told = String::from_utf8(shell.stdout).unwrap();
        fs::remove_file(&path).unwrap();
        let expected = format!("http://127.0.0.1:8080 {url}\n/in a checkout/target/debug:/usr/bin:/bin\n");
        assert_eq!(told, expected);
    }

    #[test]
    fn an_absent_name_is_named() {
        let error = Environment::default().need("BASE_URL").unwrap_err().to_string();
        assert!(error.contains("BASE_URL"), "{error}");
    }
}
