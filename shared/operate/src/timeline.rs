//! What happened to a thing, newest first, from everything that records it: the audit, the jobs in it, the deliveries with their
//! answers, the movements of stock, and what warehouses reported.
//!
//! Each source is read by the index of its entity, at most [`SHOWN`] entries of it. Where a source has more, the timeline ends at
//! the last one read of it, so that it is complete as far as it goes.

use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use longshore_domain::webhook::delivery::DeliveryState;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::{DeliveryId, EshopId, ExpeditionId, JobId, OrganisationId, WebhookId};
use longshore_kernel::problem::Problem;

/// Entries that are shown.
pub const SHOWN: usize = 100;
/// Waiting deliveries of a webhook among which those of the thing are looked for: the next ones.
const WAITING: i64 = 500;
/// Records of each order of a product that are read: the newest.
const OF_AN_ORDER: i64 = 20;

/// What a timeline is about.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The thing, and what is a part of it.
    pub entities: Vec<Uuid>,
    /// Orders whose changes of status belong to it.
    pub orders: Vec<Uuid>,
    /// The product whose stock is moved.
    pub product: Option<Uuid>,
    /// The order that moves stock, and that its warehouse reports about.
    pub expedition: Option<ExpeditionId>,
    /// E-shops whose webhooks are sent events of it.
    pub eshops: Vec<EshopId>,
    /// Whether the audit is read.
    pub audit: bool,
    /// Whether the deliveries are read.
    pub deliveries: bool,
    /// At this moment or later.
    pub since: Option<DateTime<Utc>>,
    /// Before this moment.
    pub until: Option<DateTime<Utc>>,
}

/// What of a timeline is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// Whether the caller may read the audit.
    pub audit: bool,
    /// Whether the caller may read deliveries.
    pub deliveries: bool,
    /// At this moment or later.
    pub since: Option<DateTime<Utc>>,
    /// Before this moment.
    pub until: Option<DateTime<Utc>>,
}

/// What happened, newest first.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// The entries, at most [`SHOWN`].
    pub entries: Vec<Entry>,
    /// Where the next older ones begin, if there may be more.
    pub older: Option<DateTime<Utc>>,
}

/// An entry.
#[derive(Clone, Debug)]
pub enum Entry {
    /// Someone changed it.
    Record(Record),
    /// Pieces came or went.
    Movement(Movement),
    /// An e-shop was sent an event of it.
    Delivery(Delivery),
    /// A warehouse reported about it.
    News(News),
}

/// A change in the audit.
#[derive(Clone, Debug)]
pub struct Record {
    /// When.
    pub at: DateTime<Utc>,
    /// What was done.
    pub action: String,
    /// To what kind of thing.
    pub entity_type: String,
    /// To which.
    pub entity: Uuid,
    /// Number of the order, where it is one.
    pub order: Option<String>,
    /// Kind of the actor.
    pub actor_type: String,
    /// Name of the actor.
    pub actor: String,
    /// What changed: `{field: [old, new]}`.
    pub changes: Value,
    /// The request.
    pub request_id: Option<String>,
    /// The job.
    pub job: Option<JobId>,
    /// What that does, while it is kept.
    pub job_kind: Option<String>,
}

/// A movement of stock.
#[derive(Clone, Debug)]
pub struct Movement {
    /// When.
    pub at: DateTime<Utc>,
    /// Why.
    pub kind: String,
    /// What was added to the pieces that are there.
    pub quantity: i32,
    /// What was added to the pieces on their way.
    pub incoming: i32,
    /// Name of the warehouse.
    pub warehouse: Option<String>,
    /// Name of the wms.
    pub wms: Option<String>,
    /// SKU of the product.
    pub sku: Option<String>,
    /// What the organisation calls the stock advice.
    pub advice: Option<String>,
    /// The order.
    pub expedition: Option<ExpeditionId>,
    /// Its number.
    pub order: Option<String>,
    /// Who reported it.
    pub actor: String,
}

/// News of a warehouse.
#[derive(Clone, Debug)]
pub struct News {
    /// When it came.
    pub at: DateTime<Utc>,
    /// What the warehouse calls it.
    pub id: String,
    /// Name of the wms; absent where it is gone.
    pub wms: Option<String>,
    /// Whether it says that an order was packed which should not have been.
    pub contradicts: bool,
}

/// A delivery of an event.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// When it was made.
    pub at: DateTime<Utc>,
    /// Its id.
    pub id: DeliveryId,
    /// Type of its event.
    pub event: String,
    /// Its webhook.
    pub webhook: WebhookId,
    /// Where that goes; absent where it was deleted.
    pub destination: Option<String>,
    /// Its state.
    pub state: DeliveryState,
    /// Calls so far.
    pub attempts: i16,
    /// The last call.
    pub last: Option<Value>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
}

impl Entry {
    /// When it happened.
    #[must_use]
    pub fn at(&self) -> DateTime<Utc> {
        match self {
            Self::Record(record) => record.at,
            Self::Movement(movement) => movement.at,
            Self::Delivery(delivery) => delivery.at,
            Self::News(news) => news.at,
        }
    }
}

impl Timeline {
    /// Leaves of changes what became of the status, and why.
    pub fn only_statuses(&mut self) {
        for entry in &mut self.entries {
            if let Entry::Record(record) = entry {
                let kept = ["status", "reason"].map(|name| (name, record.changes.get(name).cloned()));
                let kept = kept.into_iter().filter_map(|(name, change)| Some((name.to_owned(), change?)));
                record.changes = Value::Object(kept.collect());
                (record.request_id, record.job) = (None, None);
            }
        }
    }
}

/// Reads it. The caller must have access to the thing; the scope bounds what is read of it.
pub async fn read(db: &Database, scope: &Scope, about: &About) -> Result<Timeline, Problem> {
    let (records, movements, deliveries, news) = tokio::try_join!(
        async { if about.audit { records(db, scope, about).await } else { Ok(Vec::new()) } },
        movements(db, scope, about),
        async { if about.deliveries { deliveries(db, scope, about).await } else { Ok(Vec::new()) } },
        news(db, about),
    )?;
    let records = records.into_iter().map(Entry::Record).collect();
    let movements = movements.into_iter().map(Entry::Movement).collect();
    let deliveries = deliveries.into_iter().map(Entry::Delivery).collect();
    let news = news.into_iter().map(Entry::News).collect();
    Ok(merged([records, movements, deliveries, news]))
}

/// One list of all, down to the last entry of those that are cut.
fn merged(sources: [Vec<Entry>; 4]) -> Timeline {
    let end = |source: &Vec<Entry>| source.get(SHOWN - 1).map(Entry::at);
    let mut older = sources.iter().filter_map(end).max();
    let mut entries: Vec<Entry> = sources.into_iter().flatten().collect();
    entries.retain(|entry| older.is_none_or(|end| entry.at() >= end));
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.at()));
    if entries.len() > SHOWN {
        entries.truncate(SHOWN);
        older = entries.last().map(Entry::at);
    }
    Timeline { entries, older }
}

async fn records(db: &Database, scope: &Scope, about: &About) -> Result<Vec<Record>, Problem> {
    let found = sqlx::query_as!(
        Record,
        r#"SELECT a.at AS "at!", a.action AS "action!", a.entity_type AS "entity_type!", a.entity_id AS "entity!",
                  CASE WHEN a.entity_type = 'expedition'
                       THEN (SELECT order_number FROM expedition_detail d WHERE d.id = a.entity_id) END AS order,
                  a.actor_type AS "actor_type!", a.actor_name AS "actor!", a.changes AS "changes!", a.request_id,
                  a.job_id AS "job: JobId", (SELECT kind FROM job j WHERE j.id = a.job_id) AS job_kind
           FROM (SELECT r.* FROM unnest($2::uuid[]) AS e (id) CROSS JOIN LATERAL (
                     SELECT * FROM audit
                     WHERE entity_id = e.id AND in_scope($1, organisation_id)
                       AND ($4::timestamptz IS NULL OR id >= uuid_v7_floor($4))
                       AND ($5::timestamptz IS NULL OR id < uuid_v7_floor($5))
                     ORDER BY id DESC LIMIT $6
                 ) AS r
                 UNION ALL
                 SELECT r.* FROM unnest($3::uuid[]) AS e (id) CROSS JOIN LATERAL (
                     SELECT * FROM audit
                     WHERE entity_id = e.id AND in_scope($1, organisation_id)
                       AND ($4::timestamptz IS NULL OR id >= uuid_v7_floor($4))
                       AND ($5::timestamptz IS NULL OR id < uuid_v7_floor($5))
                     ORDER BY id DESC LIMIT $7
                 ) AS r WHERE r.changes ? 'status') AS a
           ORDER BY a.id DESC LIMIT $6"#,
        scope.organisations() as Option<&[OrganisationId]>,
        &about.entities,
        &about.orders,
        about.since,
        about.until,
        i64::try_from(SHOWN).map_err(Problem::internal)?,
        OF_AN_ORDER,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

async fn movements(db: &Database, scope: &Scope, about: &About) -> Result<Vec<Movement>, Problem> {
    if about.product.is_none() && about.expedition.is_none() {
        return Ok(Vec::new());
    }
    let found = sqlx::query_as!(
        Movement,
        r#"SELECT m.at AS "at!", m.kind AS "kind!", m.quantity AS "quantity!", m.incoming AS "incoming!",
                  (SELECT name FROM warehouse w WHERE w.id = m.warehouse_id) AS warehouse,
                  (SELECT name FROM wms w WHERE w.id = m.wms_id) AS wms,
                  (SELECT product_sku FROM product p WHERE p.id = m.product_id) AS sku,
                  (SELECT internal_id FROM stock_advice a WHERE a.id = m.stock_advice_id) AS advice,
                  m.expedition_id AS "expedition: ExpeditionId",
                  (SELECT order_number FROM expedition_detail d WHERE d.id = m.expedition_id) AS order, m.actor_name AS "actor!"
           FROM (
               (SELECT * FROM stock_movement m
                WHERE m.product_id = $2 AND in_scope($1, m.organisation_id)
                  AND ($3::timestamptz IS NULL OR m.id >= uuid_v7_floor($3))
                  AND ($4::timestamptz IS NULL OR m.id < uuid_v7_floor($4))
                ORDER BY m.id DESC LIMIT $5)
               UNION ALL
               (SELECT * FROM stock_movement m
                WHERE m.expedition_id = $6 AND in_scope($1, m.organisation_id)
                  AND ($3::timestamptz IS NULL OR m.id >= uuid_v7_floor($3))
                  AND ($4::timestamptz IS NULL OR m.id < uuid_v7_floor($4))
                ORDER BY m.id DESC LIMIT $5)
           ) AS m
           ORDER BY m.id DESC LIMIT $5"#,
        scope.organisations() as Option<&[OrganisationId]>,
        about.product,
        about.since,
        about.until,
        i64::try_from(SHOWN).map_err(Problem::internal)?,
        about.expedition as Option<ExpeditionId>,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// What its warehouses reported about an order.
async fn news(db: &Database, about: &About) -> Result<Vec<News>, Problem> {
    let Some(order) = about.expedition else { return Ok(Vec::new()) };
    let found = sqlx::query_as!(
        News,
        r#"SELECT n.received_at AS at, n.id, (SELECT name FROM wms w WHERE w.id = n.wms_id) AS wms,
                  EXISTS (SELECT FROM wms_contradiction c
                          WHERE c.expedition_id = n.expedition_id AND c.wms_id = n.wms_id AND c.news_id = n.id) AS "contradicts!"
           FROM wms_news n
           WHERE n.expedition_id = $1 AND ($2::timestamptz IS NULL OR n.received_at >= $2)
             AND ($3::timestamptz IS NULL OR n.received_at < $3)
           ORDER BY n.received_at DESC LIMIT $4"#,
        order.get(),
        about.since,
        about.until,
        i64::try_from(SHOWN).map_err(Problem::internal)?,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// What has ended, by the index of entities; what waits, among the next deliveries of each webhook of the e-shops.
async fn deliveries(db: &Database, scope: &Scope, about: &About) -> Result<Vec<Delivery>, Problem> {
    let found = sqlx::query_as!(
        Delivery,
        r#"SELECT d.created_at AS "at!", d.id AS "id!", d.event AS "event!", d.webhook_id AS "webhook!",
                  w.destination AS "destination?", d.state AS "state!: DeliveryState", d.attempt_count AS "attempts!", d.last,
                  d.finished_at
           FROM (
               SELECT h.* FROM unnest($3::uuid[]) AS e (id) CROSS JOIN LATERAL (
                   SELECT id, event_type AS event, webhook_id, state, attempt_count, attempts -> -1 AS last, created_at, finished_at
                   FROM delivery_history
                   WHERE entity_id = e.id AND in_scope($1, organisation_id) AND in_eshop($2, eshop_id)
                     AND ($5::timestamptz IS NULL OR id >= uuid_v7_floor($5))
                     AND ($6::timestamptz IS NULL OR id < uuid_v7_floor($6))
                   ORDER BY id DESC LIMIT $7
               ) AS h
               UNION ALL
               SELECT d.id, v.type, d.webhook_id, 'pending', d.attempt_count, d.attempts -> -1, d.created_at, NULL
               FROM webhook w CROSS JOIN LATERAL (
                   SELECT * FROM delivery d WHERE d.webhook_id = w.id ORDER BY d.next_attempt_at, d.id LIMIT $8
               ) AS d
               -- each by its key, although all of them may be believed to be few
               CROSS JOIN LATERAL (SELECT type, entity_id FROM event WHERE id = d.event_id OFFSET 0) AS v
               WHERE w.eshop_id = ANY ($4) AND in_scope($1, w.organisation_id) AND in_eshop($2, w.eshop_id)
                 AND v.entity_id = ANY ($3) AND ($5::timestamptz IS NULL OR d.created_at >= $5)
                 AND ($6::timestamptz IS NULL OR d.created_at < $6)
           ) AS d LEFT JOIN webhook w ON w.id = d.webhook_id
           ORDER BY d.id DESC LIMIT $7"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        &about.entities,
        &about.eshops as &[EshopId],
        about.since,
        about.until,
        i64::try_from(SHOWN).map_err(Problem::internal)?,
        WAITING,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(seconds: i64) -> Entry {
        Entry::Movement(Movement {
            at: DateTime::from_timestamp(seconds, 0).unwrap(),
            kind: "counted".to_owned(),
            quantity: 1,
            incoming: 0,
            warehouse: None,
            wms: None,
            sku: None,
            advice: None,
            expedition: None,
            order: None,
            actor: "somebody".to_owned(),
        })
    }

    fn source(seconds: impl Iterator<Item = i64>) -> Vec<Entry> {
        let mut entries: Vec<_> = seconds.map(moved).collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.at()));
        entries
    }

    #[test]
    fn a_timeline_ends_where_the_first_of_its_sources_is_cut() {
        // one source was cut at 901; an entry of 900 of another would stand before records that were not read
        let shown = i64::try_from(SHOWN).unwrap();
        let timeline = merged([
            source(1_001 - shown..=1_000),
            source([950, 900, 5].into_iter()),
            Vec::new(),
            Vec::new(),
        ]);
        assert_eq!(timeline.entries.len(), SHOWN);
        assert_eq!(timeline.older, timeline.entries.last().map(Entry::at));
        assert!(timeline.entries.iter().all(|entry| entry.at().timestamp() >= 901));
        assert!(timeline.entries.iter().any(|entry| entry.at().timestamp() == 950));

        let complete = merged([source([3, 1].into_iter()), source([2].into_iter()), Vec::new(), Vec::new()]);
        let order: Vec<_> = complete.entries.iter().map(|entry| entry.at().timestamp()).collect();
        assert_eq!((order, complete.older), (vec![3, 2, 1], None));
    }
}
