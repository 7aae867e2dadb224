//! A change, its audit record, its event and its deliveries: one statement.
//!
//! Every change of the service goes through [`record_change!`](crate::record_change), single or in bulk, from a request
//! or from a job. The caller brings common table expressions that change rows and end in one named `changed`; the macro
//! appends what belongs to every change, so that no path can forget it:
//!
//! - an **audit record** for each row (`docs/reference/accounts.md#audit`);
//! - an **event** for each row that some webhook of its e-shops or of its organisation listens to, and whose criteria it meets, or
//!   that some reader of them hears of, under the same id (none listening: none);
//! - a **delivery** for each such webhook. That of an inactive webhook is kept and not sent
//!   (`docs/reference/webhooks.md#disabling`).
//!
//! `changed` has these columns:
//!
//! | column | type | meaning |
//! | --- | --- | --- |
//! | `entity` | uuid | the record |
//! | `organisation` | uuid | whose it is (null: the service's own) |
//! | `eshops` | uuid[] | e-shops whose webhooks get its event (null: it is none) |
//! | `changes` | jsonb | `{field: [old, new]}`, secrets as `"***"` |
//! | `data` | jsonb | `data` of the event, built by the `…_data` of its resource |
//! | `version` | bigint | the record's, as the change has left it: `RETURNING version` |
//! | `at` | timestamptz | its moment: `RETURNING changed_at` |
//! | `concerned` | uuid[] | e-shops that the event is about, where others hear of it, too |
//! | `seen_by` | uuid[] | e-shops whose connectors may see the record, where others hear of it, too |
//!
//! The last two may be missing, and so may `version` and `at` if the record has none: then the time of the change is the time at which it is
//! recorded.
//!
//! # Order
//!
//! A statement that changes what a record shows says `version = version + 1`; a trigger makes that one higher than what is
//! there once the row is locked, and sets `changed_at` with it (`raise_version`). Both grow with every change of the record,
//! whenever the transactions began. Everything that is recorded for a change has this time: `at` of the audit record and of the
//! event, the place of each delivery in its lane, and their ids, which are derived from it. So everything is in the order of the
//! record's versions, whether it is sorted by time or by id.
//!
//! The statement answers [`Recorded`]: what became due with it, as [`Hint`]s. Its own parameters come first: those of the caller start at `$9`. For rows that come
//! of several requests, each with an origin, [`record_changes!`](crate::record_changes) does the same.
//!
//! [`Change`] is the transaction around one or several such statements: it collects due ids, records the idempotent answer,
//! commits, and only then puts the ids on the queues. A change of one statement without a stored answer needs no transaction
//! besides the statement.

use std::time::Duration;

use chrono::{DateTime, Utc};
use futures::future::BoxFuture;
use sqlx::PgConnection;
use uuid::Uuid;

use super::answer::Answer;
use super::database::Transaction;
use super::idempotency::{self, KeyClaim};
use super::metrics::OrderCounts;
use super::pool;
use super::problem::Problem;
use super::quota::{Kind, Quotas};
use super::services::Services;
use crate::ids::OrganisationId;
use crate::queue::{Hint, Queue};

/// What a recorded change amounts to.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// Rows changed.
    pub changed: i64,
    /// The time of Postgres at which they were.
    pub at: DateTime<Utc>,
    /// What is due now, of active webhooks.
    pub lanes: Vec<Hint>,
}

/// What recorded changes of several origins amount to.
#[derive(Clone, Debug, Default)]
pub struct RecordedEach {
    /// Whose changes were made: places among the origins, from 1.
    pub origins: Vec<i64>,
    /// The version that each record has since; 0 where it has none.
    pub versions: Vec<i64>,
    /// The moment of each change, by the clock of Postgres.
    pub moments: Vec<DateTime<Utc>>,
    /// What is due now, of active webhooks.
    pub lanes: Vec<Hint>,
}

/// What recorded changes of several kinds amount to.
#[derive(Clone, Debug, Default)]
pub struct RecordedRows {
    /// The records whose changes are audited.
    pub entities: Vec<Uuid>,
    /// The version that each of them has since.
    pub versions: Vec<i64>,
    /// What is due now, of active webhooks.
    pub lanes: Vec<Hint>,
}

/// A type of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventType {
    /// What webhooks subscribe to, and `type` of the body.
    pub name: &'static str,
    /// When it happens.
    pub when: &'static str,
    /// Whether `status` and `orderNumber` are at the top level of its body.
    pub status: bool,
    /// Whether it may concern several e-shops: a webhook of the organisation is told `eshops` instead of `eshop`.
    pub shared: bool,
}

/// The name of an event, for [`record_change!`] and [`record_changes!`].
#[doc(hidden)]
#[must_use]
pub fn name_of(event: Option<EventType>) -> Option<&'static str> {
    event.map(|event| event.name)
}

/// Runs `WITH <ctes>` followed by the audit, events and deliveries of its `changed` rows; see the [module](self).
///
/// `record_change!(connection, origin, action, entity type, type of its event or `None`, "ctes" + …, parameters from $9 …)`
#[macro_export]
macro_rules! record_change {
    ($connection:expr, $origin:expr, $action:expr, $entity:expr, $event:expr, $first:literal $(+ $ctes:literal)* $(, $parameter:expr)* $(,)?) => {
        $crate::recorded!(
            $crate::change::Recorded, r#"count(*) AS "changed!", now() AS "at!""#, $connection, [$first $(+ $ctes)*],
            actor: "$1, $2, $3", request_id: "($4::text[])[1]", traceparent: "($4::text[])[2]", job: "$5",
            action: "$6", kind: "$7", event: "$8", audited: "",
            $origin.actor.kind,
            $origin.actor.id,
            $origin.actor.name,
            &[$origin.request_id.as_deref(), $origin.traceparent.as_deref()] as &[Option<&str>],
            $origin.job as Option<$crate::ids::JobId>,
            $action as &str,
            $entity as &str,
            $crate::change::name_of($event) as Option<&str>
            $(, $parameter)*
        )
    };
}

/// The same for rows that each have an origin: `changed` has one more column, `origin`, its place in a slice of
/// [`&Origin`](super::context::Origin), from 1; the answer is [`RecordedEach`].
///
/// `record_changes!(connection, origins, action, entity type, type of its event or `None`, "ctes" + …, parameters from $9 …)`
#[macro_export]
macro_rules! record_changes {
    ($connection:expr, $origins:expr, $action:expr, $entity:expr, $event:expr, $first:literal $(+ $ctes:literal)* $(, $parameter:expr)* $(,)?) => {
        $crate::recorded!(
            $crate::change::RecordedEach, r#"coalesce(array_agg(origin), '{}') AS "origins!",
               coalesce(array_agg(coalesce(became, 0)), '{}') AS "versions!", coalesce(array_agg(moment), '{}') AS "moments!""#, $connection, [$first $(+ $ctes)*],
            actor: "($1::text[])[origin], ($2::uuid[])[origin], ($3::text[])[origin]",
            request_id: "($4::text[])[2 * origin - 1]", traceparent: "($4::text[])[2 * origin]",
            job: "($5::uuid[])[origin]", action: "$6", kind: "$7", event: "$8", audited: "",
            &$origins.iter().map(|o| o.actor.kind.as_str()).collect::<Vec<_>>() as &[&str],
            &$origins.iter().map(|o| o.actor.id).collect::<Vec<_>>() as &[Option<uuid::Uuid>],
            &$origins.iter().map(|o| o.actor.name.as_str()).collect::<Vec<_>>() as &[&str],
            &$origins.iter().flat_map(|o| [o.request_id.as_deref(), o.traceparent.as_deref()]).collect::<Vec<_>>()
                as &[Option<&str>],
            &$origins.iter().map(|o| o.job).collect::<Vec<_>>() as &[Option<$crate::ids::JobId>],
            $action as &str,
            $entity as &str,
            $crate::change::name_of($event) as Option<&str>
            $(, $parameter)*
        )
    };
}

/// The same for rows of several kinds: `changed` has three more columns, `action`, `kind` (the entity type) and `event`; null
/// means what the macro is given; a row without `changes` is an event, and no audit record.
///
/// `record_each!(connection, origins, action, entity type, type of its event or `None`, "ctes" + …, parameters from $9 …)`
#[macro_export]
macro_rules! record_each {
    ($connection:expr, $origins:expr, $action:expr, $entity:expr, $event:expr, $first:literal $(+ $ctes:literal)* $(, $parameter:expr)* $(,)?) => {
        $crate::recorded!(
            $crate::change::RecordedRows, r#"coalesce(array_agg(entity) FILTER (WHERE changes IS NOT NULL), '{}') AS "entities!",
               coalesce(array_agg(became) FILTER (WHERE changes IS NOT NULL), '{}') AS "versions!""#, $connection, [$first $(+ $ctes)*],
            actor: "($1::text[])[origin], ($2::uuid[])[origin], ($3::text[])[origin]",
            request_id: "($4::text[])[2 * origin - 1]", traceparent: "($4::text[])[2 * origin]",
            job: "($5::uuid[])[origin]",
            action: "coalesce(action, $6)", kind: "coalesce(kind, $7)", event: "coalesce(recorded.event, $8)",
            audited: "WHERE changes IS NOT NULL",
            &$origins.iter().map(|o| o.actor.kind.as_str()).collect::<Vec<_>>() as &[&str],
            &$origins.iter().map(|o| o.actor.id).collect::<Vec<_>>() as &[Option<uuid::Uuid>],
            &$origins.iter().map(|o| o.actor.name.as_str()).collect::<Vec<_>>() as &[&str],
            &$origins.iter().flat_map(|o| [o.request_id.as_deref(), o.traceparent.as_deref()]).collect::<Vec<_>>()
                as &[Option<&str>],
            &$origins.iter().map(|o| o.job).collect::<Vec<_>>() as &[Option<$crate::ids::JobId>],
            $action as &str,
            $entity as &str,
            $crate::change::name_of($event) as Option<&str>
            $(, $parameter)*
        )
    };
}

/// What [`record_change!`], [`record_changes!`] and [`record_each!`] have in common.
// The webhooks of a row are found with the row, by one index look-up: the numbers of changed rows and of webhooks are
// unknown when the statement is planned, and a join of the two may be planned as a full product.
#[doc(hidden)]
#[macro_export]
macro_rules! recorded {
    ($recorded:ty, $changed:literal, $connection:expr, [$first:literal $(+ $ctes:literal)*], actor: $actor:literal, request_id: $request_id:literal,
     traceparent: $traceparent:literal, job: $job:literal, action: $action:literal, kind: $kind:literal, event: $event:literal,
     audited: $audited:literal $(, $parameter:expr)* $(,)?) => {
        sqlx::query_as!(
            $recorded,
            $first
            $(+ $ctes)*
            + r#",
            change AS MATERIALIZED (
                SELECT uuid_v7_at(recorded.moment) AS id, recorded.*, listening.*
                FROM (SELECT NULL::bigint AS version, clock_timestamp() AS at, NULL::uuid[] AS concerned,
                             NULL::uuid[] AS seen_by) AS otherwise
                -- a name that `changed` does not have means the column of `otherwise`; what is built is built once, and not for
                -- each webhook whose criteria look at it
                CROSS JOIN LATERAL (SELECT changed.*, version AS became, at AS moment, CASE WHEN NOT seen_by @> eshops THEN seen_by END AS scope,
                                            coalesce(concerned, array_remove(eshops, NULL)) AS concerns FROM changed OFFSET 0) AS recorded
                CROSS JOIN LATERAL (
                    SELECT array_agg(w.id) AS webhooks, array_agg(w.eshop_id) AS shops, array_agg(w.active) AS awake,
                           array_agg(CASE WHEN NOT w.ordered AND w.batch_events IS NULL THEN w.changed_at END) AS versions,
                           array_agg(w.batch_wait) AS waits
                    FROM webhook w WHERE "# + $event + r#"::text IS NOT NULL AND recorded.eshops IS NOT NULL AND w.source_id = ANY (recorded.eshops || recorded.organisation) AND "# + $event + r#" = ANY (w.events)
                    AND (NOT w.bound OR scope IS NULL OR w.eshop_id = ANY (scope))
                    -- what takes time is to make JSON, so what is not in `data` is made only where it is asked for
                    AND (w.matches IS NULL OR jsonb_path_match(data, w.matches,
                             CASE WHEN w.criteria ?| '{type,eshop}' THEN jsonb_build_object('type', "# + $event + r#",
                                 'eshop', nullif(recorded.concerns, '{}')) ELSE '{}' END, true))
                ) listening
            ),
            audited AS (
                INSERT INTO audit (id, at, actor_type, actor_id, actor_name, action, entity_type, entity_id,
                                   organisation_id, changes, request_id, job_id)
                SELECT id, moment, "# + $actor + ", " + $action + ", " + $kind + ", entity, organisation, changes, " + $request_id + ", " + $job + r#"
                FROM change "# + $audited + r#"
            ),
            events AS (
                INSERT INTO event (id, at, type, organisation_id, entity_type, entity_id, data, eshops, seen_by, request_id, traceparent)
                SELECT id, moment, "# + $event + ", organisation, " + $kind + r#", entity,
                       CASE WHEN became IS NULL THEN data ELSE data || jsonb_build_object('version', became) END,
                       recorded.concerns, scope, "# + $request_id + ", " + $traceparent + r#"
                FROM change AS recorded
                WHERE webhooks IS NOT NULL OR EXISTS (
                    SELECT FROM event_reader r
                    WHERE recorded.eshops IS NOT NULL AND "# + $event + r#" = ANY (r.events) AND r.source_id = ANY (recorded.eshops || recorded.organisation))
            ),
            -- deliveries, each with a `Notice` where they are few; an ordered lane takes none, and one that sends batches
            told AS MATERIALIZED (
                SELECT delivery, id, moment, webhook, shop, is_awake, wait,
                       CASE WHEN is_awake AND webhook_version IS NOT NULL AND (SELECT sum(cardinality(webhooks)) FROM change) <= 64
                                 AND pg_column_size(data) <= 16384 THEN json_build_object(
                           'delivery', delivery, 'webhookVersion', webhook_version, 'event', id, 'type', "# + $event + r#",
                           'entity', entity, 'at', moment,
                           'data', (CASE WHEN became IS NULL THEN data ELSE data || jsonb_build_object('version', became) END)::text,
                           'eshops', CASE WHEN shop IS NULL THEN recorded.concerns[:100] END,
                           'requestId', "# + $request_id + r#", 'traceparent', "# + $traceparent + r#")::text END AS notice
                FROM (
                    SELECT change.*, uuid_v7_at(moment) AS delivery, listener.*
                    FROM change CROSS JOIN LATERAL unnest(webhooks, shops, awake, versions, waits)
                        AS listener (webhook, shop, is_awake, webhook_version, wait)
                ) AS recorded
            ),
            due AS (
                INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at, created_at)
                -- due at once, also where the clock has been set back; or when its batch must be sent
                SELECT delivery, webhook, shop, id, least(moment, clock_timestamp()) + wait, moment FROM told
            )
            SELECT "# + $changed + r#",
                   ARRAY(SELECT (webhook, notice) FROM (SELECT DISTINCT webhook, notice FROM told WHERE is_awake) AS woken) AS "lanes!: _"
            FROM change"#
            $(, $parameter)*
        )
        .fetch_one($connection)
    };
}

/// The transaction of a use-case.
#[derive(Debug)]
pub struct Change<'s> {
    services: &'s Services,
    held: Held,
    is_whole: bool,
    lanes: Vec<Hint>,
    turns: Vec<(Queue, Uuid, HandOver)>,
    ended: Vec<EndedJob>,
    orders: OrderCounts,
}

/// What a change is written by.
#[derive(Debug)]
enum Held {
    /// All of it is done, or nothing.
    Transaction(Transaction),
    /// Each statement separately.
    Connection(pool::Held),
}

/// Looks for what a share has due on a queue, and hands it over.
pub type HandOver = fn(&Services, Queue, Uuid) -> BoxFuture<'_, ()>;

/// A job that came to its end in a transaction.
#[derive(Clone, Copy, Debug)]
pub struct EndedJob {
    /// Its kind.
    pub kind: &'static str,
    /// `succeeded`, `failed` or `cancelled`.
    pub outcome: &'static str,
    /// Since its acceptance.
    pub took: Duration,
}

impl<'s> Change<'s> {
    /// Begins it.
    pub async fn begin(services: &'s Services) -> Result<Self, Problem> {
        Self::begin_with(services, None).await
    }

    /// Begins it for several requests that are served together: it waits for a lock for a tenth of a second at most, since each
    /// of them waits with the one that is locked out.
    pub async fn begin_together(services: &'s Services) -> Result<Self, Problem> {
        Self::begin_with(services, Some(pool::BEGIN_BRIEF)).await
    }

    async fn begin_with(services: &'s Services, statement: Option<&'static str>) -> Result<Self, Problem> {
        let tx = services.db.main.transaction(statement).await?;
        Ok(Self::holding(services, Held::Transaction(tx)))
    }

    /// Begins a change that writes by a single statement. That is all of it, unless there is an answer to record with it:
    /// without one there is no transaction around the statement, which is two ways to Postgres less.
    pub async fn begin_single(services: &'s Services, claim: Option<KeyClaim>) -> Result<Self, Problem> {
        if claim.is_some() {
            return Self::begin(services).await;
        }
        let connection = services.db.main.acquire().await?;
        Ok(Self::holding(services, Held::Connection(connection)))
    }

    fn holding(services: &'s Services, held: Held) -> Self {
        Self {
            services,
            held,
            is_whole: false,
            lanes: Vec::new(),
            turns: Vec::new(),
            ended: Vec::new(),
            orders: OrderCounts::default(),
        }
    }

    /// How much of a kind organisations may have.
    #[must_use]
    pub fn quotas(&self) -> &'s Quotas {
        &self.services.quotas
    }

    /// Refuses one more of a kind where its organisation has as many as it may.
    ///
    /// # Errors
    /// `quota_reached`; those of the database.
    pub async fn must_have_room(&mut self, organisation: OrganisationId, kind: Kind) -> Result<(), Problem> {
        self.quotas().must_have_room(self.connection(), organisation, kind, 1).await
    }

    /// The same of so many bytes of an object.
    ///
    /// # Errors
    /// `quota_reached`; those of the database.
    pub async fn must_have_room_for(
        &mut self,
        organisation: OrganisationId,
        bytes: usize,
    ) -> Result<(), Problem> {
        self.quotas().must_have_room(self.connection(), organisation, Kind::ObjectBytes, bytes).await
    }

    /// Its connection.
    pub fn connection(&mut self) -> &mut PgConnection {
        match &mut self.held {
            Held::Transaction(tx) => tx,
            Held::Connection(connection) => connection,
        }
    }

    /// Has all that it needs written by itself, and nothing in a transaction beside it: it holds locks from its beginning, or is
    /// taken back.
    pub fn make_whole(&mut self) {
        self.is_whole = true;
    }

    /// Whether it is so.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// From here on it is only tried: [`take_back`](Self::take_back) ends that.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn try_out(&mut self) -> Result<(), sqlx::Error> {
        self.make_whole();
        sqlx::raw_sql("SAVEPOINT tried").execute(self.connection()).await.map(|_| ())
    }

    /// Takes back what was tried: nothing of it is written, handed over or counted.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn take_back(&mut self) -> Result<(), sqlx::Error> {
        self.lanes.clear();
        self.turns.clear();
        self.ended.clear();
        self.orders = OrderCounts::default();
        sqlx::raw_sql("ROLLBACK TO SAVEPOINT tried").execute(self.connection()).await.map(|_| ())
    }

    /// What it is made with.
    #[must_use]
    pub fn services(&self) -> &'s Services {
        self.services
    }

    /// Remembers the lanes that a recorded change made due; returns how many rows changed.
    pub fn note(&mut self, recorded: Recorded) -> i64 {
        self.note_lanes(recorded.lanes);
        recorded.changed
    }

    /// Remembers lanes that are due; what is committed by its statement is handed over at once.
    pub fn note_lanes(&mut self, lanes: impl IntoIterator<Item = impl Into<Hint>>) {
        let lanes = lanes.into_iter().map(Into::into);
        if let Held::Connection(_) = self.held {
            hand_over(self.services, lanes.collect());
            return;
        }
        for lane in lanes {
            if lane.notice().is_some() || !self.lanes.contains(&lane) {
                self.lanes.push(lane);
            }
        }
    }

    /// Counts orders that it placed or moved, once it is committed.
    pub fn note_orders(&mut self, orders: OrderCounts) {
        self.orders += orders;
    }

    /// Remembers that chunks of a share may be due on a queue, and the look-up to run after the commit.
    pub fn note_turn(&mut self, queue: Queue, share: Uuid, hand_over: HandOver) {
        if !self.turns.iter().any(|(of, whose, _)| (*of, *whose) == (queue, share)) {
            self.turns.push((queue, share, hand_over));
        }
    }

    /// Remembers a job that ends with the transaction, to be counted when that is sure.
    pub fn note_end(&mut self, ended: EndedJob) {
        self.ended.push(ended);
    }

    /// Commits, then hands what is due to the queues.
    pub async fn commit(self) -> Result<(), Problem> {
        match self.held {
            Held::Transaction(tx) => tx.commit().await?,
            Held::Connection(_) => {}
        }
        for job in self.ended {
            self.services.metrics.job_ended(job.kind, job.outcome, job.took);
        }
        self.services.metrics.orders_moved(self.orders);
        hand_over(self.services, self.lanes);
        for (queue, share, hand_over) in self.turns {
            hand_over(self.services, queue, share).await;
        }
        Ok(())
    }

    /// Records the answer under the claimed idempotency key, if there is one, then commits.
    pub async fn answer(self, claim: Option<KeyClaim>, answer: Answer) -> Result<Answer, Problem> {
        let claimed: Vec<_> = claim.map(|claim| (claim, &answer)).into_iter().collect();
        self.answer_each(&claimed).await?;
        Ok(answer)
    }

    /// The same for a change of several requests.
    pub async fn answer_each(mut self, claimed: &[(KeyClaim, &Answer)]) -> Result<(), Problem> {
        if !claimed.is_empty() {
            idempotency::answer(self.connection(), claimed, None).await?;
        }
        self.commit().await
    }
}

/// After a commit: hands what is due to the queue, or to those who hold the lanes.
pub fn hand_over(services: &Services, lanes: Vec<Hint>) {
    services.db.committed.notify_one();
    services.queues.hand_over_hints(&services.vault, lanes);
}
