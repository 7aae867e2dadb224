//! Objects: bytes too large for Postgres, in a local folder or in S3.
//!
//! Postgres and the store share no transaction, so a table keeps them together: `object_removal` names every object that
//! may have to be removed.
//!
//! - An upload is *announced* there, with a time that it must be done by; then the bytes are put; then the transaction that
//!   writes their record takes the announcement back ([`claim`]). A process that dies in between leaves the announcement.
//! - A deletion writes the name there in its own transaction ([`discard`]).
//!
//! The upkeep removes what is due ([`remove_due`]); removing twice does no harm. So no record is ever without its bytes,
//! and no bytes stay forever without a record. In a folder, that includes the file that a put writes before it gives it its
//! name.

use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ClientOptions, ObjectStore, ObjectStoreExt as _, RetryConfig};
use secrecy::ExposeSecret as _;
use sqlx::{PgConnection, PgPool};

use super::config::ObjectStoreSettings;
use super::problem::Problem;
use crate::hold::Hold;

/// How long an upload may take from its announcement to its record, in seconds: the bytes of a slower one are removed.
const UPLOAD_SECONDS: f64 = 3600.0;

/// How long the store may take to answer one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// How long one operation is tried again while the store fails.
const RETRY_FOR: Duration = Duration::from_secs(40);

/// Objects that one upkeep removes at most.
pub const REMOVED_AT_ONCE: i64 = 1_000;

/// Objects that are removed side by side.
const REMOVED_ABREAST: usize = 16;

/// The store cannot be set up as the settings say.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The setting is neither a folder nor `s3://bucket`.
    #[error("the object store must be a folder or s3://bucket, optionally with /prefix: {0:?}")]
    Malformed(String),
    /// The folder, or the client, is refused.
    #[error("the object store cannot be set up")]
    Refused(#[from] object_store::Error),
    /// The folder has no path that the store can have.
    #[error("the folder of the object store cannot be used")]
    Folder(#[from] object_store::path::Error),
    /// The current folder, which the setting is relative to, is gone.
    #[error("the folder of the object store cannot be found")]
    CurrentFolder(#[from] std::io::Error),
}

/// What follows the name of a file while a put writes it. Each object is put once, so there is one such file at most.
const UNFINISHED: &str = "#1";

/// The store; cheap to clone.
#[derive(Clone)]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
    /// Where it keeps its files, if it does.
    folder: Option<PathBuf>,
}

impl Objects {
    /// By the settings. Nothing is contacted or created yet: a folder comes to be with its first object.
    pub fn open(settings: &ObjectStoreSettings) -> Result<Self, SetupError> {
        let place = settings.object_store.as_str();
        match place.strip_prefix("s3://") {
            Some(bucket) => Self::bucket(settings, bucket),
            None if place.is_empty() || place.contains("://") => Err(SetupError::Malformed(place.to_owned())),
            None => Self::folder(std::path::Path::new(place)),
        }
    }

    /// In a local folder.
    pub fn folder(folder: &std::path::Path) -> Result<Self, SetupError> {
        let folder = std::path::absolute(folder)?;
        let files = LocalFileSystem::new().with_fsync(true);
        let store = PrefixStore::new(files, Path::from_absolute_path(&folder)?);
        Ok(Self { store: Arc::new(store), folder: Some(folder) })
    }

    fn bucket(settings: &ObjectStoreSettings, place: &str) -> Result<Self, SetupError> {
        // an error says that one is installed already
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
        if bucket.is_empty() {
            return Err(SetupError::Malformed(settings.object_store.clone()));
        }
        let plain = settings.s3_endpoint.as_ref().is_some_and(|url| url.scheme() == "http");
        let options = ClientOptions::new().with_allow_http(plain).with_timeout(REQUEST_TIMEOUT);
        let retry = RetryConfig { retry_timeout: RETRY_FOR, ..RetryConfig::default() };
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(bucket)
            .with_region(&settings.s3_region)
            .with_client_options(options)
            .with_retry(retry);
        if let Some(endpoint) = &settings.s3_endpoint {
            builder = builder.with_endpoint(endpoint.as_str().trim_end_matches('/'));
        }
        if let (Some(id), Some(key)) = (&settings.s3_access_key_id, &settings.s3_secret_access_key) {
            builder = builder.with_access_key_id(id).with_secret_access_key(key.expose_secret());
        }
        let role = &settings.role;
        for (key, value) in [
            (AmazonS3ConfigKey::RoleArn, &role.aws_role_arn),
            (AmazonS3ConfigKey::WebIdentityTokenFile, &role.aws_web_identity_token_file),
            (
                AmazonS3ConfigKey::ContainerCredentialsRelativeUri,
                &role.aws_container_credentials_relative_uri,
            ),
            (AmazonS3ConfigKey::ContainerCredentialsFullUri, &role.aws_container_credentials_full_uri),
            (
                AmazonS3ConfigKey::ContainerAuthorizationTokenFile,
                &role.aws_container_authorization_token_file,
            ),
        ] {
            if let Some(value) = value {
                builder = builder.with_config(key, value);
            }
        }
        let store = builder.build()?;
        let store: Arc<dyn ObjectStore> = if prefix.is_empty() {
            Arc::new(store)
        } else {
            Arc::new(PrefixStore::new(store, Path::parse(prefix)?))
        };
        Ok(Self { store, folder: None })
    }

    /// Puts an object: all of it or nothing is there afterwards.
    pub async fn put(&self, key: &str, bytes: Bytes) -> Result<(), Problem> {
        self.store.put(&Path::from(key), bytes.into()).await.map(|_| ()).map_err(Problem::internal)
    }

    /// The bytes of an object, as they come; nothing where there is no such object.
    pub async fn get(
        &self,
        key: &str,
    ) -> Result<Option<BoxStream<'static, Result<Bytes, object_store::Error>>>, Problem> {
        match self.store.get(&Path::from(key)).await {
            Ok(found) => Ok(Some(found.into_stream())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(Problem::internal(error)),
        }
    }

    /// Tries the store out: an object is put, read back and removed.
    pub async fn probe(&self) -> Result<(), object_store::Error> {
        let key = format!("doctor/{}", super::ids::new_id());
        let path = Path::from(key.as_str());
        self.store.put(&path, Bytes::from_static(b"probe").into()).await?;
        let read = self.store.get(&path).await?.bytes().await;
        self.remove(&key).await?;
        read.map(|_| ())
    }

    /// Removes an object, or finds it removed. The unfinished file goes first: a put that still runs then finds nothing that it
    /// could rename.
    async fn remove(&self, key: &str) -> Result<(), object_store::Error> {
        if let Some(folder) = &self.folder {
            match tokio::fs::remove_file(folder.join(format!("{key}{UNFINISHED}"))).await {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(object_store::Error::Generic { store: "folder", source: error.into() });
                }
                _ => {}
            }
        }
        match self.store.delete(&Path::from(key)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Objects({})", self.store)
    }
}

/// Announces an object that is about to be put: should no record of it follow in time, it is removed.
async fn announce(db: &PgPool, key: &str) -> Result<(), Problem> {
    sqlx::query!(
        "INSERT INTO object_removal (key, due_at) VALUES ($1, now() + make_interval(secs => $2))",
        key,
        UPLOAD_SECONDS,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Announces an object that `store` puts and records; if that fails, it is removed.
///
/// # Errors
/// Those of `store`, and of the database.
pub async fn storing<T>(
    db: &PgPool,
    key: &str,
    store: impl AsyncFnOnce() -> Result<T, Problem>,
) -> Result<T, Problem> {
    announce(db, key).await?;
    let stored = store().await;
    if stored.is_err() {
        // if this fails too, the announcement expires
        if let Err(error) = abandon(db, key).await {
            tracing::warn!(%error, "a failed upload was not aborted; it will expire");
        }
    }
    stored
}

/// Takes the announcement back, in the transaction that writes the record; it is lost when this comes too late: from then on the
/// object may be removed at any moment.
pub async fn claim(tx: &mut PgConnection, key: &str) -> Result<Hold, sqlx::Error> {
    let claimed =
        sqlx::query!("DELETE FROM object_removal WHERE key = $1 AND due_at > clock_timestamp()", key)
            .execute(tx)
            .await?;
    Ok(Hold::of_rows(claimed.rows_affected()))
}

/// Has an announced object removed at the next upkeep: no record follows.
async fn abandon(db: &PgPool, key: &str) -> Result<(), Problem> {
    sqlx::query!("UPDATE object_removal SET due_at = now() WHERE key = $1", key).execute(db).await?;
    Ok(())
}

/// Has an object removed, in the transaction that deletes its record.
pub async fn discard(tx: &mut PgConnection, key: &str) -> Result<(), sqlx::Error> {
    sqlx::query!("INSERT INTO object_removal (key, due_at) VALUES ($1, now())", key).execute(tx).await?;
    Ok(())
}

/// Removes objects that are due; returns how many. What the store does not remove now stays for the next time.
pub async fn remove_due(db: &PgPool, objects: &Objects) -> Result<u64, Problem> {
    // one whose record is being written at this moment is locked, and left alone; the others are too late for theirs
    let due = sqlx::query_scalar!(
        "SELECT key FROM object_removal WHERE due_at <= now() ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED",
        REMOVED_AT_ONCE,
    )
    .fetch_all(db)
    .await?;
    let removed: Vec<String> = futures::stream::iter(due)
        .map(async |key| match objects.remove(&key).await {
            Ok(()) => Some(key),
            Err(error) => {
                tracing::warn!(object.key = key, %error, "an object was not removed; trying again");
                None
            }
        })
        .buffer_unordered(REMOVED_ABREAST)
        .filter_map(std::future::ready)
        .collect()
        .await;
    let gone = sqlx::query!("DELETE FROM object_removal WHERE key = ANY($1)", &removed).execute(db).await?;
    Ok(gone.rows_affected())
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};
    use futures::TryStreamExt as _;

    use super::*;

    fn settings(arguments: &[&str]) -> ObjectStoreSettings {
        let command = ObjectStoreSettings::augment_args(Command::new("test"));
        let matches = command.try_get_matches_from(["test"].iter().chain(arguments)).unwrap();
        ObjectStoreSettings::from_arg_matches(&matches).unwrap()
    }

    async fn read(objects: &Objects, key: &str) -> Option<Vec<u8>> {
        let stream = objects.get(key).await.unwrap()?;
        Some(stream.try_collect::<Vec<_>>().await.unwrap().concat())
    }

    #[tokio::test]
    async fn a_folder_is_created_with_its_first_object() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("not there yet/objects");
        let objects = Objects::open(&settings(&["--object-store", place.to_str().unwrap()])).unwrap();
        assert!(!place.exists());
        assert_eq!(read(&objects, "image/1").await, None);
        objects.put("image/1", Bytes::from_static(b"bytes")).await.unwrap();
        assert_eq!(std::fs::read(place.join("image/1")).unwrap(), b"bytes");
        assert_eq!(read(&objects, "image/1").await.unwrap(), b"bytes");
        objects.remove("image/1").await.unwrap();
        objects.remove("image/1").await.unwrap();
        assert_eq!(read(&objects, "image/1").await, None);
    }

    #[tokio::test]
    async fn what_a_put_left_unfinished_is_removed_with_its_object() {
        let folder = tempfile::tempdir().unwrap();
        let unfinished = folder.path().join("image/1#1");
        std::fs::create_dir(folder.path().join("image")).unwrap();
        std::fs::write(&unfinished, b"by").unwrap();
        Objects::folder(folder.path()).unwrap().remove("image/1").await.unwrap();
        assert!(!unfinished.exists());
    }

    #[test]
    fn a_place_is_a_folder_or_a_bucket() {
        for place in ["", "s3://", "s3:///prefix", "gs://bucket", "file:///tmp"] {
            assert!(Objects::open(&settings(&["--object-store", place])).is_err(), "{place:?}");
        }
        for place in ["s3://bucket", "s3://bucket/some/prefix"] {
            assert!(Objects::open(&settings(&["--object-store", place])).is_ok(), "{place:?}");
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        let objects = Objects::open(&settings(&[
            "--object-store",
            "s3://bucket",
            "--s3-access-key-id",
            "id",
            "--s3-secret-access-key",
            "hush",
        ]));
        assert!(!format!("{:?}", objects.unwrap()).contains("hush"));
    }
}
