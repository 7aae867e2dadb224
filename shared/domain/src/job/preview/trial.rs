//! A chunk of a dry run, tried. What it would have changed is read from its audit before that is taken back: so whatever is recorded
//! is shown, and a kind of job needs nothing of its own to be tried. What is written then is the end of the chunk, what was found, and
//! what each item was [compared] with.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::KEPT;
use crate::job::chunk::{Claim, Compared};
use crate::job::compared;
use crate::job::execution;
use crate::job::item_error::{ItemError, clean};
use crate::job::kind::JobKind;
use crate::job::outcome::{Fate, Outcome};
use crate::job::payload;
use crate::job::row;
use crate::list::fields::expedition::ExpeditionStatus;
use crate::list::fields::preview::Would;
use longshore_kernel::change::Change;
use longshore_kernel::hold::Hold;
use longshore_kernel::ids::{self, JobId};

/// A chunk that is tried.
#[derive(Debug)]
pub struct Trial {
    compared: Compared,
    /// Deliveries that this transaction, or those before it on the connection, wrote.
    deliveries_before: i64,
    /// Whether there is room for its items.
    is_listed: bool,
}

impl Trial {
    /// Notes what the items of a chunk are compared with; from here on, the transaction only tries.
    ///
    /// # Errors
    /// Those of the database; items that cannot be read.
    pub async fn begin(change: &mut Change<'_>, claim: &Claim) -> Result<Self, Fate> {
        let compared = compared::look(change.connection(), claim).await?;
        let before = sqlx::query!(
            r#"SELECT pg_stat_get_xact_tuples_inserted('delivery'::regclass) AS "deliveries!", (preview ->> 'rows')::bigint AS rows
               FROM job WHERE id = $1"#,
            claim.job.get(),
        )
        .fetch_one(change.connection())
        .await?;
        change.try_out().await?;
        let is_listed = before.rows.is_none_or(|rows| rows < KEPT);
        Ok(Self { compared, deliveries_before: before.deliveries, is_listed })
    }

    /// Takes back what was tried, and ends the chunk with what was found.
    ///
    /// # Errors
    /// Those of the database; items that cannot be read.
    pub async fn end(self, change: &mut Change<'_>, claim: &Claim, outcome: Outcome) -> Result<Hold, Fate> {
        let Outcome { count, errors } = outcome;
        let effects = effects(change.connection(), claim, self.is_listed).await?;
        change.take_back().await?;
        let found = Found::of(claim, effects, &errors, self.is_listed)?;
        let claim = Claim { compared: Some(self.compared), ..claim.clone() };
        // what takes long comes before the row of the job is locked: its other chunks wait for that
        keep(change.connection(), claim.job, &found.items).await?;
        let held = execution::complete(change, &claim, count, &errors).await?;
        found.record(change.connection(), claim.job, self.deliveries_before).await?;
        Ok(held)
    }
}

/// What became of a record, by the audit.
struct Effect {
    id: Uuid,
    key: Option<String>,
    changes: Map<String, Value>,
}

impl Effect {
    fn change(&self, field: &str) -> Option<(&Value, &Value)> {
        let change = self.changes.get(field)?.as_array()?;
        Some((change.first()?, change.get(1)?))
    }

    /// Whether it created the record.
    fn is_creation(&self) -> bool {
        let was_nothing =
            |field| self.change(field).is_some_and(|(old, new)| old.is_null() && !new.is_null());
        ["productSku", "quantity", "orderNumber"].into_iter().any(was_nothing)
    }

    /// The status before and after.
    fn statuses(&self) -> (Option<ExpeditionStatus>, Option<ExpeditionStatus>) {
        let status = |value: &Value| value.as_str()?.parse().ok();
        self.change("status").map_or((None, None), |(old, new)| (status(old), status(new)))
    }

    /// Adds what came later of the same record.
    fn add(&mut self, later: Self) {
        for (field, change) in later.changes {
            match (self.changes.get_mut(&field).and_then(Value::as_array_mut), change) {
                (Some(before), Value::Array(mut change)) if before.len() == 2 && change.len() == 2 => {
                    before[1] = change.remove(1);
                }
                (_, change) => {
                    self.changes.insert(field, change);
                }
            }
        }
    }
}

/// What the execution of a chunk has changed, of the records that its kind is about: read from the audit, in its order.
/// What is not listed is only counted: of that, no more is read than is needed.
async fn effects(connection: &mut PgConnection, claim: &Claim, is_listed: bool) -> Result<Vec<Effect>, Fate> {
    let entity = match claim.kind {
        Ok(JobKind::ProductSync | JobKind::ProductActivate | JobKind::ProductDeactivate) => "product",
        Ok(JobKind::StockSync) => "product_stock",
        Ok(JobKind::WebhookRedeliver) => "delivery",
        _ => "expedition",
    };
    let found = sqlx::query!(
        r#"SELECT a.entity_id AS "id!",
                  CASE WHEN $3 THEN a.changes
                       ELSE jsonb_build_object('active', a.changes -> 'active', 'status', a.changes -> 'status', 'quantity',
                           a.changes -> 'quantity', 'productSku', a.changes -> 'productSku', 'orderNumber',
                           a.changes -> 'orderNumber') END AS "changes!: Value",
                  CASE WHEN NOT $3 THEN NULL
                      WHEN a.entity_type = 'product' THEN (SELECT product_sku FROM product WHERE id = a.entity_id)
                      WHEN a.entity_type = 'expedition' THEN (SELECT order_number FROM expedition_detail WHERE id = a.entity_id)
                      WHEN a.entity_type = 'product_stock' THEN (
                          SELECT p.product_sku FROM product_stock s JOIN product p ON p.id = s.product_id WHERE s.id = a.entity_id)
                  END AS key
           -- in the order that only the index by jobs has: by its id alone, all of the audit may be read
           FROM audit a WHERE a.job_id BETWEEN $1 AND $1 AND a.entity_type = $2 ORDER BY a.job_id, a.id"#,
        claim.origin.job as Option<JobId>,
        entity,
        is_listed,
    )
    .fetch_all(connection)
    .await?;
    Ok(found
        .into_iter()
        .map(|found| {
            let changes = if let Value::Object(changes) = found.changes { changes } else { Map::new() };
            Effect { id: found.id, key: found.key, changes }
        })
        .collect())
}

/// What a chunk found.
#[derive(Default)]
struct Found {
    sums: HashMap<&'static str, i64>,
    items: Vec<Item>,
}

/// What would become of an item.
struct Item {
    index: i32,
    line: Option<i64>,
    key: Option<String>,
    would: Would,
    id: Option<Uuid>,
    changes: Option<Value>,
    refusal: Option<(&'static str, String)>,
}

impl Found {
    /// What became of the records, counted, and of each item, if these are listed.
    fn of(claim: &Claim, effects: Vec<Effect>, errors: &[ItemError], is_listed: bool) -> Result<Self, Fate> {
        let mut found = Self::default();
        let records: Vec<(Would, Effect)> =
            put_together(effects).into_iter().map(|record| (found.count(&record), record)).collect();
        let refused: Vec<&ItemError> = errors.iter().filter(|error| !error.notice).collect();
        if !is_listed || records.is_empty() && refused.is_empty() {
            return Ok(found);
        }
        let indexes: HashSet<i32> = refused.iter().map(|error| error.index).collect();
        let keys: Vec<Option<String>> = if claim.has_rows() {
            row::keys(claim)?
        } else {
            let ids: Vec<Uuid> = payload::unpack_ids(&claim.payload)?;
            ids.iter().map(|id| Some(id.to_string())).collect()
        };
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        for (place, key) in keys.iter().enumerate() {
            if let Some(key) = key.as_deref().filter(|_| !indexes.contains(&claim.index(place))) {
                places.entry(key).or_default().push(place);
            }
        }
        for (would, record) in records {
            let named = if claim.has_rows() { record.key.clone() } else { Some(record.id.to_string()) };
            let of = named.as_deref().and_then(|name| places.get(name));
            // of several rows of an order, the last says what becomes of it
            let Some(place) = of.and_then(|places| places.last()) else { continue };
            let id = (!record.is_creation()).then_some(record.id);
            found.items.push(Item {
                index: claim.index(*place),
                line: claim.lines.of(*place),
                key: named,
                would,
                id,
                changes: Some(Value::Object(record.changes)),
                refusal: None,
            });
        }
        found.items.extend(refused.into_iter().map(|error| Item {
            index: error.index,
            line: error.line,
            key: error.key.clone(),
            would: Would::Refuse,
            id: None,
            changes: None,
            refusal: Some((error.code, error.message.clone())),
        }));
        found.items.sort_by_key(|item| item.index);
        Ok(found)
    }

    /// Counts a record, and says what becomes of it.
    fn count(&mut self, record: &Effect) -> Would {
        let mut add = |name| *self.sums.entry(name).or_default() += 1;
        let is_creation = record.is_creation();
        add(if is_creation { "created" } else { "updated" });
        if record.change("active").is_some_and(|(old, new)| *old == json!(true) && *new == json!(false)) {
            add("deactivated");
        }
        let quantity = record.change("quantity").and_then(|(old, new)| Some((old.as_i64()?, new.as_i64()?)));
        if quantity.is_some_and(|(old, new)| old > 0 && new == 0) {
            add("zeroed");
        }
        let (was, is) = record.statuses();
        match is {
            Some(ExpeditionStatus::Canceled | ExpeditionStatus::WaitingForCancel) => Would::Cancel,
            Some(status) if status.is_booked() && !was.is_some_and(ExpeditionStatus::is_booked) => {
                add("booked");
                Would::Book
            }
            Some(status) if status.is_waiting() && !was.is_some_and(ExpeditionStatus::is_waiting) => {
                add("waiting");
                Would::Wait
            }
            _ if is_creation => Would::Create,
            _ => Would::Update,
        }
    }

    /// Adds it to what the other chunks found, and forgets those of its items that the dry run has no room for.
    async fn record(mut self, tx: &mut PgConnection, job: JobId, deliveries_before: i64) -> Result<(), Fate> {
        let rows = i64::try_from(self.items.len()).unwrap_or(i64::MAX);
        self.sums.insert("rows", rows);
        let sums = self.sums.into_iter().map(|(name, sum)| (name.to_owned(), json!(sum))).collect();
        // what was taken back is counted, too
        let with_these = sqlx::query_scalar!(
            r#"UPDATE job
               SET preview = (SELECT jsonb_object_agg(s.name, s.value::bigint + coalesce((found.sums ->> s.name)::bigint, 0))
                              FROM jsonb_each_text(preview) AS s (name, value))
               FROM (SELECT $2::jsonb || jsonb_build_object('deliveries',
                                pg_stat_get_xact_tuples_inserted('delivery'::regclass) - $3::bigint)) AS found (sums)
               WHERE id = $1 RETURNING (preview ->> 'rows')::bigint AS "rows!""#,
            job.get(),
            Value::Object(sums),
            deliveries_before,
        )
        .fetch_one(&mut *tx)
        .await?;
        let room = usize::try_from(KEPT - (with_these - rows)).unwrap_or(0);
        let surplus: Vec<i32> = self.items.iter().skip(room).map(|item| item.index).collect();
        if !surplus.is_empty() {
            sqlx::query!(
                "DELETE FROM job_preview_row WHERE job_id = $1 AND index = ANY ($2)",
                job.get(),
                &surplus
            )
            .execute(tx)
            .await?;
        }
        Ok(())
    }
}

/// One effect of each record, in their order.
fn put_together(effects: Vec<Effect>) -> Vec<Effect> {
    let mut records: Vec<Effect> = Vec::with_capacity(effects.len());
    let mut places: HashMap<Uuid, usize> = HashMap::with_capacity(effects.len());
    for effect in effects {
        if let Some(record) = places.get(&effect.id).and_then(|place| records.get_mut(*place)) {
            record.add(effect);
        } else {
            places.insert(effect.id, records.len());
            records.push(effect);
        }
    }
    records
}

async fn keep(tx: &mut PgConnection, job: JobId, items: &[Item]) -> Result<(), sqlx::Error> {
    if items.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = items.iter().map(|item| item.id.unwrap_or_else(ids::random_id)).collect();
    sqlx::query!(
        "INSERT INTO job_preview_row (job_id, index, line, key, would, id, exists, changes, code, message)
         SELECT $1, * FROM unnest($2::int[], $3::bigint[], $4::text[], $5::text[], $6::uuid[], $7::boolean[], $8::jsonb[], $9::text[],
             $10::text[])
         ON CONFLICT DO NOTHING",
        job.get(),
        &items.iter().map(|item| item.index).collect::<Vec<_>>(),
        &items.iter().map(|item| item.line).collect::<Vec<_>>() as &[Option<i64>],
        &items.iter().map(|item| item.key.as_deref().map(clean)).collect::<Vec<_>>() as &[Option<String>],
        &items.iter().map(|item| item.would.as_str()).collect::<Vec<_>>() as &[&str],
        &ids,
        &items.iter().map(|item| item.id.is_some()).collect::<Vec<_>>(),
        &items.iter().map(|item| item.changes.clone()).collect::<Vec<_>>() as &[Option<Value>],
        &items.iter().map(|item| item.refusal.as_ref().map(|(code, _)| *code)).collect::<Vec<_>>() as &[Option<&str>],
        &items.iter().map(|item| item.refusal.as_ref().map(|(_, message)| clean(message))).collect::<Vec<_>>()
            as &[Option<String>],
    )
    .execute(tx)
    .await?;
    Ok(())
}
