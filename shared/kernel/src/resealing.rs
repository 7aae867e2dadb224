//! Tables with sealed columns, as a rotation of the keys needs them (`docs/security.md#changing-the-key`).
//!
//! [`sealed_table!`](crate::sealed_table) says of a table which columns are sealed and for which place. `examine` tries to open
//! them; `reseal` seals with the newest key what an older one sealed, in batches of a transaction each, so it is safe to interrupt.

use std::collections::BTreeSet;

use futures::future::BoxFuture;
use sqlx::PgPool;
use uuid::Uuid;

use crate::crypto::{Vault, VaultError};
use crate::problem::Problem;

/// Keys of records that one transaction goes over. Several records of one key are never divided.
pub const BATCH: i64 = 500;

/// Tries to open everything in a table.
pub type Examine = for<'a> fn(&'a PgPool, &'a Vault, &'a mut Opened) -> BoxFuture<'a, Result<(), Problem>>;

/// Seals what an older key sealed, of the records whose key follows an id; nothing where there is none. A record with an
/// unreadable part stays as it is.
pub type Reseal = for<'a> fn(&'a PgPool, &'a Vault, Uuid) -> BoxFuture<'a, Result<Option<Resealed>, Problem>>;

/// A table with sealed columns.
#[derive(Clone, Copy)]
pub struct SealedTable {
    /// Tries to open everything in it.
    pub examine: Examine,
    /// Seals a batch.
    pub reseal: Reseal,
}

/// What a batch came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resealed {
    /// The key of the last record: the next batch begins after it.
    pub last: Uuid,
    /// Records that the newest key seals now.
    pub resealed: u64,
    /// Records that no configured key opens; they stay as they are.
    pub unreadable: u64,
}

/// What the configured keys open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Everything sealed.
    pub sealed: u64,
    /// What an older key than the newest seals.
    pub older: u64,
    /// What none of the keys opens.
    pub unreadable: u64,
    /// Ids of the keys that it would take.
    pub missing: BTreeSet<String>,
}

/// A record: its key, and the one or two columns that are sealed.
#[doc(hidden)]
#[derive(Debug)]
pub struct SealedRow {
    pub id: Uuid,
    pub first: Vec<u8>,
    pub second: Option<Vec<u8>>,
}

/// What to store of a batch: a record is known by its key and by what its first column was.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Anew {
    pub ids: Vec<Uuid>,
    pub were: Vec<Vec<u8>>,
    pub firsts: Vec<Vec<u8>>,
    pub seconds: Vec<Option<Vec<u8>>>,
}

impl Opened {
    /// Tries to open a record; `places` are those of its columns.
    #[doc(hidden)]
    pub fn look(&mut self, vault: &Vault, row: &SealedRow, places: &[String]) {
        for (place, sealed) in places.iter().zip([Some(&row.first), row.second.as_ref()]) {
            let Some(sealed) = sealed else { continue };
            self.sealed += 1;
            match vault.open(place, sealed) {
                Ok(_) => self.older += u64::from(!sealed.starts_with(&vault.mark())),
                Err(error) => {
                    self.unreadable += 1;
                    if let VaultError::UnknownKey(id) = error {
                        self.missing.insert(id);
                    }
                }
            }
        }
    }
}

impl SealedRow {
    fn resealed(&self, vault: &Vault, places: &[String]) -> Result<(Vec<u8>, Option<Vec<u8>>), VaultError> {
        let mut columns = [Some(&self.first), self.second.as_ref()].into_iter().zip(places);
        let mut next =
            || columns.next().and_then(|(sealed, place)| Some(vault.reseal(place, sealed?))).transpose();
        Ok((next()?.ok_or(VaultError::Corrupted)?, next()?))
    }
}

/// Seals each record of a batch. Calls `unreadable` for each that cannot be opened. Nothing for an empty batch.
#[doc(hidden)]
pub fn seal_anew(
    vault: &Vault,
    rows: Vec<SealedRow>,
    places: impl Fn(Uuid) -> Vec<String>,
    unreadable: impl Fn(Uuid, VaultError),
) -> Option<(Anew, Resealed)> {
    let mut done = Resealed { last: rows.last()?.id, resealed: 0, unreadable: 0 };
    let mut anew = Anew::default();
    for row in rows {
        match row.resealed(vault, &places(row.id)) {
            Ok((first, second)) => {
                done.resealed += 1;
                anew.ids.push(row.id);
                anew.were.push(row.first);
                anew.firsts.push(first);
                anew.seconds.push(second);
            }
            Err(error) => {
                done.unreadable += 1;
                unreadable(row.id, error);
            }
        }
    }
    Some((anew, done))
}

/// A [`SealedTable`]: its name, its key (several records may have one), and each sealed column with the function that gives the
/// place of a key in the vault. The second column may be null. The last line logs a record that cannot be opened. With `examined`,
/// only records for which it is true are examined.
///
/// ```ignore
/// sealed_table!("webhook", "id", [
///     "secret" => secret_place,
///     "authentication" => authentication_place,
/// ], |id, error| tracing::warn!(webhook.id = %id, %error, "the stored secrets of a webhook cannot be read"))
/// ```
#[macro_export]
macro_rules! sealed_table {
    ($table:literal $(examined $examined:literal)?, $key:literal, [$first:literal => $first_place:path $(, $second:literal => $second_place:path)? $(,)?],
     $unreadable:expr) => {
        $crate::resealing::SealedTable {
            examine: |db, vault, opened| {
                ::std::boxed::Box::pin(async move {
                    use ::futures::TryStreamExt as _;
                    let mut rows = sqlx::query_as!(
                        $crate::resealing::SealedRow,
                        "SELECT " + $key + r#" AS "id!", "# + $first + r#" AS "first!", (ARRAY["# + $first
                            $(+ ", " + $second)? + r#"])[2] AS second FROM "# + $table $(+ " WHERE " + $examined)?
                    )
                    .fetch(db);
                    while let Some(row) = rows.try_next().await? {
                        let places = [$first_place(row.id.into()) $(, $second_place(row.id.into()))?];
                        opened.look(vault, &row, &places);
                    }
                    Ok(())
                })
            },
            reseal: |db, vault, after| {
                ::std::boxed::Box::pin(async move {
                    let mut tx = $crate::database::begin(db).await?;
                    let rows = sqlx::query_as!(
                        $crate::resealing::SealedRow,
                        "SELECT " + $key + r#" AS "id!", "# + $first + r#" AS "first!", (ARRAY["# + $first
                            $(+ ", " + $second)? + "])[2] AS second FROM " + $table + " WHERE " + $key + " > $1 AND (substr("
                            + $first + ", 1, length($2::bytea)) <> $2"
                            $(+ " OR substr(" + $second + ", 1, length($2::bytea)) <> $2")?
                            + ") ORDER BY " + $key + " FETCH FIRST ($3) ROWS WITH TIES FOR NO KEY UPDATE",
                        after,
                        &vault.mark(),
                        $crate::resealing::BATCH,
                    )
                    .fetch_all(&mut *tx)
                    .await?;
                    let sealed = $crate::resealing::seal_anew(
                        vault,
                        rows,
                        |id| vec![$first_place(id.into()) $(, $second_place(id.into()))?],
                        $unreadable,
                    );
                    let Some((anew, done)) = sealed else { return Ok(None) };
                    sqlx::query!(
                        "UPDATE " + $table + " t SET " + $first + " = n.first" $(+ ", " + $second + " = n.second")?
                            + " FROM unnest($1::uuid[], $2::bytea[], $3::bytea[], $4::bytea[]) AS n (id, was, first, second)
                               WHERE t." + $key + " = n.id AND t." + $first + " = n.was",
                        &anew.ids,
                        &anew.were,
                        &anew.firsts,
                        &anew.seconds as &[Option<Vec<u8>>],
                    )
                    .execute(&mut *tx)
                    .await?;
                    tx.commit().await?;
                    Ok(Some(done))
                })
            },
        }
    };
}
