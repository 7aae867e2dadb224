//! Profiles: where the service is and who calls, as `longshore login` keeps them in a file that only its owner can read.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::{env, fmt};

use anyhow::{Context as _, bail};
use longshore_client::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// The variable that names another file.
const FILE: &str = "LONGSHORE_PROFILES";

/// Where a service is, and who calls it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Profile {
    /// Base URL of the service.
    pub(super) url: String,
    /// Access token.
    pub(super) token: String,
    /// The account that logged in; none for an access token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) account: Option<String>,
    /// When the token ends, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<DateTime<Utc>>,
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile").field("url", &self.url).finish_non_exhaustive()
    }
}

type Profiles = BTreeMap<String, Profile>;

/// The profile of that name.
pub(super) fn find(name: &str) -> anyhow::Result<Option<Profile>> {
    // without a home there is no profile
    let Ok(file) = file() else { return Ok(None) };
    Ok(read(&file)?.remove(name))
}

/// Keeps a profile under that name, or removes it; returns the one before.
pub(super) fn keep(name: &str, profile: Option<Profile>) -> anyhow::Result<Option<Profile>> {
    let file = file()?;
    let folder = file.parent().context("the file of profiles needs a folder")?;
    create_folder(folder).with_context(|| folder.display().to_string())?;
    // two logins at once keep both profiles
    let lock = private(&file.with_extension("lock"))?;
    lock.lock()?;
    let mut profiles = read(&file)?;
    let before = match profile {
        Some(profile) => profiles.insert(name.to_owned(), profile),
        None => profiles.remove(name),
    };
    let next = file.with_extension("next");
    let mut written = private(&next)?;
    serde_json::to_writer_pretty(&mut written, &profiles)?;
    written.write_all(b"\n")?;
    written.sync_all()?;
    fs::rename(&next, &file).with_context(|| file.display().to_string())?;
    Ok(before)
}

fn file() -> anyhow::Result<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(file) = set(FILE) {
        return Ok(file);
    }
    let folder = set(if cfg!(windows) { "APPDATA" } else { "XDG_CONFIG_HOME" })
        .or_else(|| {
            env::home_dir().filter(|home| !home.as_os_str().is_empty()).map(|home| home.join(".config"))
        })
        .with_context(|| format!("there is no home folder for profiles; name a file in {FILE}"))?;
    Ok(folder.join("longshore").join("profiles.json"))
}

fn read(file: &Path) -> anyhow::Result<Profiles> {
    let name = || file.display().to_string();
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Profiles::new()),
        Err(error) => return Err(error).with_context(name),
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        if fs::metadata(file)?.permissions().mode() & 0o077 != 0 {
            bail!("{} has access tokens, and others can read it; run: chmod 600 {}", name(), name());
        }
    }
    serde_json::from_str(&text).with_context(name)
}

/// An empty file that only its owner can read.
fn private(path: &Path) -> anyhow::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).with_context(|| path.display().to_string())
}

fn create_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
