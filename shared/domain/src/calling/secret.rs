//! The secret of a webhook or of a wms, and its rotation: a new secret, beside which the old one signs for a while.
//!
//! Once it is shown, every call that begins bears both signatures. A lease signs with the secrets that it has read, so a
//! rotation fences it off without taking it away (what is under way would be sent twice): it counts itself in the lane,
//! under the lane's lock. No lease is granted, and none renewed unchanged, to a worker that has read the previous secrets.
//! Then it waits until the holder of the lane has confirmed that it begins no more calls: at most a second if it is alive,
//! and the duration of a lease if it is not. A process that is suspended in between, and continues after its lease, begins
//! no calls: it can only send those that it was just signing when it was suspended.

use std::time::Duration;

use secrecy::ExposeSecret as _;
use serde_json::Value;
use sqlx::PgConnection;

use super::LEASE;
use super::signature;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::{Change, Recorded};
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::database::Database;
use longshore_kernel::problem::{CONFLICT, Problem};

/// How long a secret still signs after its rotation (`docs/reference/webhooks.md#secret-rotation`).
pub(crate) const OVERLAP: Duration = Duration::from_hours(24);

/// Secrets that may be rotated away within that time: each is one more signature on every call.
const FORMER_SECRETS: i64 = 8;

/// What has a secret that signs its calls, and a lane whose holder makes them. [`signing!`] implements it.
pub(crate) trait Signing: Copy {
    /// What its owner calls it.
    const NAME: &'static str;

    /// The place of its secrets in the vault.
    fn place(self) -> String;

    /// Counts the secrets that were rotated away and still sign.
    async fn former(self, connection: &mut PgConnection) -> Result<i64, sqlx::Error>;

    /// Stores a new secret, and audits that; the old one becomes a former one.
    async fn replace(
        self,
        connection: &mut PgConnection,
        origin: &Origin,
        sealed: &[u8],
    ) -> Result<Recorded, sqlx::Error>;

    /// Counts a rotation, or a deactivation, in the lane; returns the token of its holder.
    async fn fence(self, connection: &mut PgConnection) -> Result<Option<i64>, sqlx::Error>;

    /// Whether calls may still begin under the lease of this token.
    async fn begins(self, db: &Database, token: i64) -> Result<bool, sqlx::Error>;
}

/// Implements [`Signing`]: `signing!(WebhookId, "webhook", place, table, its key, former secrets, lane, the key of both)`.
macro_rules! signing {
    ($id:ty, $name:literal, $place:path, $table:literal, $key:literal, $former:literal, $lane:literal, $of:literal) => {
        impl $crate::calling::secret::Signing for $id {
            const NAME: &'static str = $name;

            fn place(self) -> String {
                $place(self)
            }

            async fn former(self, connection: &mut sqlx::PgConnection) -> Result<i64, sqlx::Error> {
                sqlx::query_scalar!(
                    r#"SELECT count(*) AS "former!" FROM "# + $former + " WHERE " + $of + " = $1 AND signs_until > now()",
                    self.get(),
                )
                .fetch_one(connection)
                .await
            }

            async fn replace(
                self,
                connection: &mut sqlx::PgConnection,
                origin: &longshore_kernel::context::Origin,
                sealed: &[u8],
            ) -> Result<longshore_kernel::change::Recorded, sqlx::Error> {
                longshore_kernel::record_change!(
                    connection,
                    origin,
                    concat!($table, ".rotate_secret"),
                    $table,
                    None,
                    "WITH expired AS (
                         DELETE FROM " + $former + " WHERE " + $of + " = $9 AND signs_until <= now()
                     ), former AS (
                         INSERT INTO " + $former + " (" + $of + ", secret, signs_until)
                         SELECT " + $key + ", secret, clock_timestamp() + make_interval(secs => $11)
                         FROM " + $table + " WHERE " + $key + " = $9
                     ), made AS (
                         UPDATE " + $table + " SET secret = $10, version = version + 1, rotations = rotations + 1
                         WHERE " + $key + " = $9
                         RETURNING " + $key + " AS id, version, changed_at, organisation_id
                     ), changed AS (
                         SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                                jsonb_build_object('secret', jsonb_build_array('***', '***')) AS changes, '{}'::jsonb AS data
                         FROM made
                     )",
                    self.get(),
                    sealed,
                    $crate::calling::secret::OVERLAP.as_secs_f64(),
                )
                .await
            }

            async fn fence(self, connection: &mut sqlx::PgConnection) -> Result<Option<i64>, sqlx::Error> {
                let lane = sqlx::query!(
                    "UPDATE " + $lane + " SET rotations = rotations + 1 WHERE " + $of
                        + r#" = $1 RETURNING token, leased_until >= clock_timestamp() AS "held!""#,
                    self.get(),
                )
                .fetch_optional(connection)
                .await?;
                Ok(lane.filter(|lane| lane.held).map(|lane| lane.token))
            }

            async fn begins(
                self,
                db: &longshore_kernel::database::Database,
                token: i64,
            ) -> Result<bool, sqlx::Error> {
                sqlx::query_scalar!(
                    "SELECT EXISTS (SELECT FROM " + $lane + " WHERE " + $of
                        + r#" = $1 AND token = $2 AND NOT ending AND leased_until >= now()) AS "begins!""#,
                    self.get(),
                    token,
                )
                .fetch_one(&db.main)
                .await
            }
        }
    };
}

pub(crate) use signing;

/// A secret that has just been made.
pub(crate) struct Rotated {
    secret: [u8; signature::SECRET_BYTES],
    /// The token of the lease that may still sign without it.
    pub(crate) held: Option<i64>,
}

/// Rotates the secret of what the caller has locked; the previous one also signs for [`OVERLAP`].
///
/// # Errors
/// With 409, if too many secrets still sign; those of the database.
pub(crate) async fn rotate<S: Signing>(
    change: &mut Change<'_>,
    context: &Context,
    of: S,
) -> Result<Rotated, Problem> {
    let former = of.former(change.connection()).await?;
    if former >= FORMER_SECRETS {
        let of = S::NAME;
        let detail =
            format!("{former} previous secrets of the {of} are still valid; wait until one has expired");
        return Err(Problem::new(&CONFLICT, detail));
    }
    let secret = signature::new_secret();
    let sealed = change.services().vault.seal(&of.place(), &secret).map_err(Problem::internal)?;
    let recorded = of.replace(change.connection(), &context.origin, &sealed).await?;
    change.note(recorded);
    let held = of.fence(change.connection()).await?;
    Ok(Rotated { secret, held })
}

impl Rotated {
    /// Commits, and returns the secret.
    pub(crate) async fn answer(
        &self,
        change: Change<'_>,
        context: &Context,
        stored: Answer,
    ) -> Result<Answer, Problem> {
        answer_with(change, context, stored, &self.secret).await
    }
}

/// Commits, and returns a secret, which is not recorded: a replayed answer does not contain it.
pub(crate) async fn answer_with(
    change: Change<'_>,
    context: &Context,
    stored: Answer,
    secret: &[u8],
) -> Result<Answer, Problem> {
    let body = stored.body.as_deref().unwrap_or("{}");
    let mut body: Value = serde_json::from_str(body).map_err(Problem::internal)?;
    let mut answer = change.answer(context.claim, stored).await?;
    body["secret"] = signature::shown(secret).expose_secret().into();
    answer.body = Some(body.to_string());
    Ok(answer)
}

/// How often a lease that is to end is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// Waits until no call can begin with what was read under this lease: its holder has confirmed that it begins no more
/// calls, has released it, or it has expired. The holder learns it from its next renewal, or cannot renew the lease: so this takes
/// at most [`LEASE`] after the commit of the change, even if Postgres is unavailable.
pub(crate) async fn until_ending(db: &Database, of: impl Signing, token: i64) {
    let waited = async {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        loop {
            looks.tick().await;
            if matches!(of.begins(db, token).await, Ok(false)) {
                return;
            }
        }
    };
    // in either case no call can begin now
    let _ = tokio::time::timeout(LEASE, waited).await;
}
