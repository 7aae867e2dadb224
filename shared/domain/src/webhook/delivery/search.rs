//! Searching the deliveries of one webhook, and looking at one of them. What waits and what has ended are two tables, and two
//! lists: each has its own order, by its own index.

use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use super::redelivery::{Redeliver, send_again};
use super::{Deliveries, DeliveryState};
use crate::job::chunk::Claim;
use crate::job::kind::Within;
use crate::job::outcome::Fate;
use crate::job::walking::{self, Step};
use crate::webhook::event::{self, Event};
use crate::webhook::subscription::stored;
use longshore_kernel::access::Scope;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{DeliveryId, EshopId, EventId, OrganisationId, TokenId, WebhookId};
use longshore_kernel::problem::{CONFLICT, Problem};
use longshore_kernel::services::Services;

/// Deliveries a page.
pub const PAGE: usize = 50;
/// Ended deliveries that one page looks at.
pub const WINDOW: i64 = 10_000;

/// What is wanted of what has ended.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// In this state.
    pub state: Option<DeliveryState>,
    /// Of this type of event.
    pub event: Option<String>,
    /// About this entity.
    pub entity: Option<Uuid>,
    /// Ended at this moment or later.
    pub since: Option<DateTime<Utc>>,
    /// Ended before this moment.
    pub until: Option<DateTime<Utc>>,
    /// Older than this one.
    pub after: Option<DeliveryId>,
    /// Deliveries a page; nothing: [`PAGE`].
    pub size: Option<usize>,
}

impl Filter {
    /// Those of these deliveries that are wanted.
    fn of(&self, all: &Deliveries) -> Deliveries {
        Deliveries {
            ended_since: self.since,
            ended_before: self.until,
            state: self.state,
            event: self.event.clone(),
            entity: self.entity,
            ..*all
        }
    }
}

/// A delivery as a list shows it.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its id.
    pub id: DeliveryId,
    /// Its state: `pending`, or how it ended.
    pub state: DeliveryState,
    /// Type of its event.
    pub event: Option<String>,
    /// Entity of its event.
    pub entity: Option<Uuid>,
    /// What people call that: a SKU, or the number of an order.
    pub name: Option<String>,
    /// Calls so far.
    pub attempt_count: i16,
    /// The last call.
    pub last: Option<Value>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it is due, where it waits.
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
}

/// Waiting deliveries: those that are due next, at most [`PAGE`]. The caller must have access to the webhook.
pub async fn waiting(db: &Database, webhook: WebhookId) -> Result<Vec<Line>, Problem> {
    let found = sqlx::query_as!(
        Line,
        r#"SELECT d.id, 'pending' AS "state!: DeliveryState", e.type AS "event?", e.entity_id AS "entity?",
                  coalesce(e.data ->> 'productSku', e.data ->> 'orderNumber') AS name, d.attempt_count,
                  d.attempts -> -1 AS last, d.created_at, d.next_attempt_at AS "next_attempt_at?",
                  NULL::timestamptz AS finished_at
           FROM (SELECT * FROM delivery WHERE webhook_id = $1 ORDER BY next_attempt_at, id LIMIT $2) AS d
           LEFT JOIN LATERAL (SELECT type, entity_id, data FROM event WHERE event.id = d.event_id OFFSET 0) AS e ON true
           ORDER BY d.next_attempt_at, d.id"#,
        webhook.get(),
        i64::try_from(PAGE).map_err(Problem::internal)?,
    )
    .fetch_all(&db.main)
    .await?;
    Ok(found)
}

/// What was found of what has ended.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The deliveries, newest first, as many as a page has.
    pub deliveries: Vec<Line>,
    /// Where the next page begins, if there may be more.
    pub next: Option<DeliveryId>,
    /// As many were looked at as one search may, and fewer than a page of them matched.
    pub cut_short: bool,
}

/// Ended deliveries, newest first, in the order of the webhook's own index. The caller must have access to the webhook.
pub async fn ended(db: &Database, webhook: WebhookId, wanted: &Filter) -> Result<Page, Problem> {
    let size = wanted.size.unwrap_or(PAGE);
    let mut deliveries = sqlx::query_as!(
        Line,
        r#"SELECT h.id AS "id!", h.state AS "state!: DeliveryState", h.event_type AS event, h.entity_id AS entity,
                  (SELECT coalesce(e.data ->> 'productSku', e.data ->> 'orderNumber')
                   FROM event e WHERE e.id = h.event_id) AS name,
                  h.attempt_count AS "attempt_count!", h.attempts -> -1 AS last, h.created_at AS "created_at!",
                  NULL::timestamptz AS next_attempt_at, h.finished_at
           FROM (SELECT * FROM delivery_history
                 WHERE webhook_id = ANY (ARRAY[$1::uuid]) AND id < coalesce($2::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
                 ORDER BY webhook_id DESC, id DESC LIMIT (SELECT $3::bigint)) AS h
           WHERE ($4::text IS NULL OR h.state = $4) AND ($5::text IS NULL OR h.event_type = $5)
             AND ($6::uuid IS NULL OR h.entity_id = $6) AND ($7::timestamptz IS NULL OR h.finished_at >= $7)
             AND ($8::timestamptz IS NULL OR h.finished_at < $8)
           ORDER BY h.webhook_id DESC, h.id DESC LIMIT $9"#,
        webhook.get(),
        wanted.after as Option<DeliveryId>,
        WINDOW,
        wanted.state.map(DeliveryState::as_str),
        wanted.event.as_deref(),
        wanted.entity,
        wanted.since,
        wanted.until,
        i64::try_from(size + 1).map_err(Problem::internal)?,
    )
    .fetch_all(&db.main)
    .await?;
    if deliveries.len() > size {
        deliveries.truncate(size);
        let next = deliveries.last().map(|delivery| delivery.id);
        return Ok(Page { deliveries, next, cut_short: false });
    }
    let next = sqlx::query_scalar!(
        r#"SELECT id AS "id: DeliveryId" FROM delivery_history
           WHERE webhook_id = ANY (ARRAY[$1::uuid]) AND id < coalesce($2::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
           ORDER BY webhook_id DESC, id DESC LIMIT 1 OFFSET (SELECT $3::bigint)"#,
        webhook.get(),
        wanted.after as Option<DeliveryId>,
        WINDOW - 1,
    )
    .fetch_optional(&db.main)
    .await?;
    Ok(Page { deliveries, cut_short: next.is_some(), next })
}

/// Ended deliveries of a webhook that are counted: the newest, and the newest of those that did not succeed. The query names it as a
/// number.
pub const OF_STATES: i64 = 1_000;

/// How many deliveries of a webhook have ended in each state.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// The newest that were looked at, up to [`OF_STATES`].
    pub newest: i64,
    /// Of these, those that were delivered.
    pub delivered: i64,
    /// Those that were exhausted, among the newest that did not succeed.
    pub exhausted: i64,
    /// Those that were cancelled, among the same.
    pub cancelled: i64,
}

impl Counts {
    /// Those that did not succeed, up to [`OF_STATES`].
    #[must_use]
    pub fn unsuccessful(&self) -> i64 {
        self.exhausted + self.cancelled
    }

    /// Those in a state; of those that were delivered, the ones among the newest.
    #[must_use]
    pub fn of(&self, state: DeliveryState) -> i64 {
        match state {
            DeliveryState::Pending => 0,
            DeliveryState::Delivered => self.delivered,
            DeliveryState::Exhausted => self.exhausted,
            DeliveryState::Cancelled => self.cancelled,
        }
    }
}

/// A delivery with what was sent and what was answered.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Its id.
    pub id: DeliveryId,
    /// Its webhook.
    pub webhook_id: WebhookId,
    /// Where that goes; nothing where it was deleted.
    pub destination: Option<String>,
    /// Its event: the `webhook-id` header.
    pub event_id: EventId,
    /// Type of its event.
    pub event: Option<String>,
    /// What kind of thing the event is about.
    pub entity_type: Option<String>,
    /// The thing itself.
    pub entity: Option<Uuid>,
    /// What people call that: a SKU, or the number of an order.
    pub name: Option<String>,
    /// When the event happened.
    pub event_at: Option<DateTime<Utc>>,
    /// JSON of the `data` of the event; nothing where it is no longer kept.
    pub data: Option<String>,
    /// The e-shops that the event concerns.
    pub eshops: Option<Vec<Uuid>>,
    /// Whether its webhook is one of the organisation.
    pub of_organisation: bool,
    /// The members of it that the webhook is sent; nothing: all.
    pub selected: Option<Vec<String>>,
    /// Its state.
    pub state: DeliveryState,
    /// Its calls: `[{number, at, durationMs, status, error, response}]`.
    pub attempts: Value,
    /// The one that it repeats.
    pub redelivery_of: Option<DeliveryId>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it is due, where it waits.
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
}

impl Delivery {
    /// Whether its event is a test.
    #[must_use]
    pub fn is_test(&self) -> bool {
        self.entity.is_some_and(|entity| event::is_test(self.webhook_id, entity))
    }

    /// The body, byte by byte as an attempt sends and signs it now; nothing where the event is no longer kept.
    #[must_use]
    pub fn body(&self) -> Option<Bytes> {
        let mut event = Event {
            id: self.event_id,
            kind: self.event.clone()?,
            entity: self.entity?,
            is_test: self.is_test(),
            at: self.event_at?,
            data: self.data.clone()?,
            eshops: self.eshops.clone(),
            ..Event::default()
        };
        event.narrow(self.of_organisation, self.selected.as_deref());
        Some(event.body())
    }
}

/// The delivery of that id, if it is in the scope.
pub async fn find(db: &Database, scope: &Scope, id: DeliveryId) -> Result<Option<Delivery>, Problem> {
    let found = sqlx::query_as!(
        Delivery,
        r#"SELECT d.id AS "id!", d.webhook_id AS "webhook_id!", w.destination AS "destination?", d.event_id AS "event_id!",
                  coalesce(e.type, d.event_type) AS event, e.entity_type AS "entity_type?",
                  coalesce(e.entity_id, d.entity_id) AS entity, 
                  coalesce(e.data ->> 'productSku', e.data ->> 'orderNumber') AS name,
                  e.at AS "event_at?", e.data::text AS "data?", e.eshops AS "eshops?",
                  d.eshop_id IS NULL AS "of_organisation!", w.selected, d.state AS "state!: DeliveryState",
                  d.attempts AS "attempts!", d.redelivery_of AS "redelivery_of: DeliveryId", d.created_at AS "created_at!", d.next_attempt_at, d.finished_at
           FROM (
               SELECT id, webhook_id, eshop_id, NULL::uuid AS organisation_id, event_id, NULL AS event_type,
                      NULL::uuid AS entity_id, 'pending' AS state, attempts, redelivery_of, created_at, next_attempt_at,
                      NULL::timestamptz AS finished_at
               FROM delivery WHERE id = $1
               UNION ALL
               SELECT id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id, state, attempts,
                      redelivery_of, created_at, NULL, finished_at
               FROM delivery_history WHERE id = $1
           ) d
           LEFT JOIN webhook w ON w.id = d.webhook_id
           LEFT JOIN event e ON e.id = d.event_id
           WHERE in_scope($2, coalesce(d.organisation_id, w.organisation_id))
             AND in_eshop($3, d.eshop_id) AND in_hands($4, w.made_by)"#,
        id.get(),
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        scope.maker() as Option<TokenId>,
    )
    .fetch_optional(&db.main)
    .await?;
    Ok(found)
}

/// Matching deliveries that are counted beforehand.
pub const COUNTED: i64 = 10_000;

/// What one step of a redelivery looks at, and what it sends again at most. The queries name them as numbers, as those of a
/// recovery do.
const LOOKED_AT: i64 = 10_000;
const STEP: i64 = 2_000;

/// How many ended deliveries match, counted up to [`COUNTED`] among those that one search may look at.
pub async fn count_matching(db: &Database, webhook: WebhookId, wanted: &Filter) -> Result<i64, Problem> {
    let count = sqlx::query_scalar!(
        r#"SELECT count(DISTINCT h.event_id) AS "count!"
           FROM (SELECT event_id FROM delivery_history
                 WHERE webhook_id = $1 AND ($2::text IS NULL OR state = $2) AND ($3::text IS NULL OR event_type = $3)
                   AND ($4::uuid IS NULL OR entity_id = $4) AND ($5::timestamptz IS NULL OR finished_at >= $5)
                   AND ($6::timestamptz IS NULL OR finished_at < $6)
                 ORDER BY id DESC LIMIT 10000) AS h
           WHERE EXISTS (SELECT FROM event e WHERE e.id = h.event_id)"#,
        webhook.get(),
        wanted.state.map(DeliveryState::as_str),
        wanted.event.as_deref(),
        wanted.entity,
        wanted.since,
        wanted.until,
    )
    .fetch_one(&db.lists)
    .await?;
    Ok(count)
}

/// Sends everything again that matches, by a job: one new delivery of each event.
pub async fn redeliver_matching(
    services: &Services,
    context: &Context,
    webhook: WebhookId,
    wanted: &Filter,
) -> Result<Answer, Problem> {
    let known = count_matching(&services.db, webhook, wanted).await?;
    if known == 0 {
        return Err(Problem::new(&CONFLICT, "no matching delivery can be sent again"));
    }
    let mut change = Change::begin(services).await?;
    let found = stored::lock(&mut change, context.scope(), webhook).await?;
    let about = wanted.of(&Deliveries::made_by_now(&mut change, webhook).await?);
    let job =
        Redeliver { within: Within::new(context.scope(), &[found.organisation]), deliveries: Some(about) };
    let known = i32::try_from(known).unwrap_or(i32::MAX);
    walking::accept(change, context, &job, (found.organisation, found.eshop), known).await
}

/// Takes one step of it: from the oldest to the newest, the last delivery of each event.
pub async fn step(change: &mut Change<'_>, claim: &Claim, about: &Deliveries) -> Result<Step, Fate> {
    let after = if claim.payload.is_empty() {
        DeliveryId::nil()
    } else {
        DeliveryId::from_slice(&claim.payload).map_err(|error| Fate::Discard(error.to_string()))?
    };
    // a concurrent recovery waits here, and then sees the pending deliveries
    sqlx::query!("SELECT id FROM webhook WHERE id = $1 FOR UPDATE", about.webhook.get())
        .fetch_optional(change.connection())
        .await?
        .ok_or_else(|| Fate::Discard("the webhook was deleted".to_owned()))?;
    let batch = sqlx::query!(
        r#"WITH looked_at AS MATERIALIZED (
               SELECT id, event_id, state, event_type, entity_id, finished_at, created_at FROM delivery_history
               WHERE webhook_id = $1 AND id > $2 ORDER BY id LIMIT 10000
           ), matching AS MATERIALIZED (
               SELECT h.id, h.event_id FROM looked_at h
               WHERE ($3::text IS NULL OR h.state = $3) AND ($4::text IS NULL OR h.event_type = $4)
                 AND ($5::uuid IS NULL OR h.entity_id = $5) AND ($6::timestamptz IS NULL OR h.finished_at >= $6)
                 AND ($7::timestamptz IS NULL OR h.finished_at < $7) AND h.created_at <= $8
               ORDER BY h.id LIMIT 2000
           )
           SELECT ARRAY(
                      -- each looked up by its key, as in a recovery
                      SELECT m.id FROM matching m
                      CROSS JOIN LATERAL (SELECT FROM event e WHERE e.id = m.event_id OFFSET 0) kept
                      LEFT JOIN LATERAL (
                          SELECT true AS matches FROM delivery_history d
                          WHERE d.webhook_id = $1 AND d.event_id = m.event_id AND d.redelivery_of IS NOT NULL AND d.id > m.id
                            AND ($3::text IS NULL OR d.state = $3) AND ($6::timestamptz IS NULL OR d.finished_at >= $6)
                            AND ($7::timestamptz IS NULL OR d.finished_at < $7) AND d.created_at <= $8 LIMIT 1
                      ) later ON true
                      WHERE later.matches IS NULL ORDER BY m.id
                  ) AS "ids!: Vec<DeliveryId>",
                  (SELECT count(*) FROM matching) AS "matching!", (SELECT count(*) FROM looked_at) AS "looked_at!",
                  (SELECT id FROM matching ORDER BY id DESC LIMIT 1) AS last_matching,
                  (SELECT id FROM looked_at ORDER BY id DESC LIMIT 1) AS last"#,
        about.webhook.get(),
        after.get(),
        about.state.map(DeliveryState::as_str),
        about.event.as_deref(),
        about.entity,
        about.ended_since,
        about.ended_before,
        about.made_by,
    )
    .fetch_one(change.connection())
    .await?;
    let resent = send_again(change, &claim.origin, &batch.ids).await?;
    let last = match () {
        () if batch.matching == STEP => batch.last_matching,
        () if batch.looked_at == LOOKED_AT => batch.last,
        () => None,
    };
    let [found, resent] = [batch.ids.len(), resent].map(|count| i32::try_from(count).unwrap_or(i32::MAX));
    Ok(Step { found, resent, next: last.map(|id| id.as_bytes().to_vec()), ..Step::default() })
}
