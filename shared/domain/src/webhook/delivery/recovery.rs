//! Recovering a webhook: a [`replay`] of one webhook, of everything that has not succeeded since a time. It has an
//! operation and a kind of job of its own; counting and sending are those of a replay.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Deliveries;
use super::replay::{self, Criteria};
use super::resending::{Audited, COUNTED, Cursor, Sort, Walk, in_i32};
use crate::job::chunk::Claim;
use crate::job::kind::{Job, JobKind, Unusable};
use crate::job::outcome::Fate;
use crate::job::walking::{self, Step};
use crate::webhook::subscription::stored;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::ids::{DeliveryId, WebhookId};
use longshore_kernel::input::{Reader, Rule, object, timestamp};
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;

/// Sends again what did not succeed at a webhook.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recover {
    /// What was made until then, and ended since.
    pub deliveries: Deliveries,
}

impl Job for Recover {
    const KIND: JobKind = JobKind::WebhookRecover;
    type Owner = ();
}

/// Recovers a webhook (`POST /api/eshop-webhook/{id}/recover {"since"}`), by a job.
pub async fn recover(
    services: &Services,
    context: &Context,
    id: WebhookId,
    body: Value,
) -> Result<Answer, Problem> {
    let since = Reader::read(body, self::body())?;
    let criteria = Criteria { webhooks: vec![id], since, ..Criteria::default() };
    let known = replay::matching(&services.db, context.scope(), &criteria, COUNTED).await?;
    let mut change = Change::begin(services).await?;
    let webhook = stored::lock(&mut change, context.scope(), id).await?;
    let deliveries =
        Deliveries { ended_since: Some(since), ..Deliveries::made_by_now(&mut change, id).await? };
    let owner = (webhook.organisation, webhook.eshop);
    let known = in_i32(replay::sum(&known).total);
    walking::accept(change, context, &Recover { deliveries }, owner, known).await
}

/// The body of a recovery: since when.
pub fn body() -> impl Rule<Out = DateTime<Utc>> {
    object(|object| object.required("since", timestamp()))
}

/// A cursor as the steps of a recovery store it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Stored {
    /// Among those that wait, behind this one.
    Waiting { made_at: DateTime<Utc>, id: DeliveryId },
    /// Among those that have ended, behind this one.
    Ended { at: DateTime<Utc>, id: DeliveryId },
}

impl From<Cursor> for Stored {
    fn from(Cursor { sort, at, id }: Cursor) -> Self {
        match sort {
            Sort::Waiting => Self::Waiting { made_at: at, id },
            Sort::Failed | Sort::Late | Sort::Prompt => Self::Ended { at, id },
        }
    }
}

impl From<Stored> for Cursor {
    fn from(stored: Stored) -> Self {
        match stored {
            Stored::Waiting { made_at, id } => Self { sort: Sort::Waiting, at: made_at, id },
            Stored::Ended { at, id } => Self { sort: Sort::Failed, at, id },
        }
    }
}

/// Takes one step of a recovery.
pub async fn step(
    change: &mut Change<'_>,
    claim: &Claim,
    Recover { deliveries: about }: &Recover,
) -> Result<Step, Fate> {
    let cursor = if claim.payload.is_empty() {
        None
    } else {
        let stored: Stored =
            serde_json::from_slice(&claim.payload).map_err(|error| Unusable::parameters(claim, error))?;
        Some(stored.into())
    };
    let audited = Audited { action: "webhook.recover", since: "recoveredSince", until: None };
    let walk = Walk { about, delivered: false, audited };
    let taken = walk.step(change, claim, cursor).await?;
    let (step, next) = taken.ok_or_else(|| Fate::Discard("the webhook was deleted".to_owned()))?;
    let next = next.map(|cursor| serde_json::to_vec(&Stored::from(cursor))).transpose();
    Ok(Step { next: next.map_err(|error| Fate::Discard(error.to_string()))?, ..step })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_step_that_the_version_before_stored_is_read() {
        let (at, id) = ("2026-11-25T20:00:00.123456Z", "0192f1a0-0000-7000-8000-000000000000");
        for (stored, sort) in [
            (json!({"Waiting": {"made_at": at, "id": id}}), Sort::Waiting),
            (json!({"Ended": {"at": at, "id": id}}), Sort::Failed),
        ] {
            let cursor = Cursor::from(serde_json::from_value::<Stored>(stored.clone()).unwrap());
            assert_eq!(cursor.sort, sort);
            assert_eq!(serde_json::to_value(Stored::from(cursor)).unwrap(), stored);
        }
    }
}
