//! The file in which `./dev up` describes what it started: a line `KEY=value` each, readable by a shell.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;

/// The contents of the file.
#[derive(Debug, Default)]
pub(super) struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Reads the file; an absent one is empty.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Self::parse(&text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    fn parse(text: &str) -> Self {
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        Self(pairs.map(|(key, value)| (key.to_owned(), unquoted(value))).collect())
    }

    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    pub(super) fn need(&self, key: &str) -> anyhow::Result<&str> {
        self.get(key).with_context(|| format!("the environment file does not say {key}"))
    }

    pub(super) fn set(&mut self, key: &str, value: &impl ToString) {
        self.0.insert(key.to_owned(), value.to_string());
    }

    pub(super) fn forget(&mut self, key: &str) {
        self.0.remove(key);
    }

    /// Writes the file atomically, readable only by its owner, because it contains tokens.
    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let folder = path.parent().context("the environment file has no folder")?;
        // Temporary files are created with mode 0600.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        for (key, value) in &self.0 {
            writeln!(file, "{key}={}", quoted(value))?;
        }
        file.persist(path).with_context(|| path.display().to_string())?;
        Ok(())
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
    use super::*;

    #[test]
    fn a_written_file_reads_back_and_only_its_owner_may_read_it() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("env");
        let mut environment = Environment::read(&path).unwrap();
        environment.set("DATABASE_URL", &"postgres://a:b'c@h/d?x=1&y=2");
        environment.set("BASE_URL", &"http://127.0.0.1:8080");
        environment.write(&path).unwrap();

        let read = Environment::read(&path).unwrap();
        assert_eq!(read.need("DATABASE_URL").unwrap(), "postgres://a:b'c@h/d?x=1&y=2");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("BASE_URL=http://127.0.0.1:8080\n"), "{text}");
    }

    #[test]
    fn an_absent_key_is_named() {
        let error = Environment::default().need("BASE_URL").unwrap_err().to_string();
        assert!(error.contains("BASE_URL"), "{error}");
    }
}
