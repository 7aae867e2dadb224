//! What a guarded sync would destroy (`docs/reference/syncs.md#guard`): kept aside while its other rows are executed, and then
//! executed, too, if the [guard](super::guard) allows so much; else withheld, until a person releases it.
//!
//! A row destroys by what it finds: it switches off a product that is on, cancels an order that is open, or sets a stock from
//! above 0 to 0. The records of such rows are locked, in the order of their ids, before the chunk is executed. What else they say
//! is executed with the chunk. A row that is kept aside is counted when it is decided.
//!
//! Whoever gives the same field of the same record later drops what is kept of it: other syncs and commands remove it
//! ([`drop_given`], [`drop_commanded`]), and of a product the view `withheld` sees by its acceptance number that it was given. What
//! two syncs of an e-shop in a row say is true: the second one executes it. A row that is refused says nothing.

pub mod decision;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::chunk::{Claim, Duplicate};
use super::compared;
use super::entry::to_i32;
use super::guard::{GUARD, Guard, Limit};
use super::item_error::ItemError;
use super::kind::JobKind;
use super::outcome::{Fate, Outcome};
use super::payload::{self, Rows};
use super::row::form::Form;
use longshore_kernel::change::Change;
use longshore_kernel::ids::{EshopId, ExpeditionId, JobId, OrganisationId};
use longshore_kernel::problem::Problem;

/// Days that what is withheld can be released.
pub const KEPT_DAYS: i32 = 7;

/// What of a row may destroy, without taking it apart.
#[derive(Deserialize)]
struct Asked<'r> {
    #[serde(borrow, default, rename = "productSku")]
    product_sku: Option<Cow<'r, str>>,
    #[serde(borrow, default, rename = "orderNumber")]
    order_number: Option<Cow<'r, str>>,
    #[serde(default)]
    active: Option<Value>,
    #[serde(default)]
    cancel: Option<Value>,
    #[serde(default)]
    quantity: Option<Value>,
}

/// What kind of thing a sync may destroy.
#[derive(Clone, Copy)]
struct Danger {
    /// The field that its rows give.
    field: &'static str,
    /// Whether a row gives the field, and whether that may destroy.
    asks: fn(&Asked<'_>) -> Option<bool>,
    /// What the field becomes.
    becomes: fn() -> Value,
    /// The row with nothing but that, of a kind whose rows say more; others are kept as they came.
    reduced: Option<fn(&Asked<'_>) -> Value>,
}

impl Danger {
    fn of(kind: JobKind) -> Option<Self> {
        Some(match kind {
            JobKind::ProductSync => Self {
                field: "active",
                asks: |row| row.active.as_ref()?.as_bool().map(|active| !active),
                becomes: || json!(false),
                reduced: Some(|row| json!({"productSku": row.product_sku, "active": false})),
            },
            JobKind::StockSync => Self {
                field: "quantity",
                asks: |row| row.quantity.as_ref()?.as_f64().map(|quantity| quantity <= 0.0),
                becomes: || json!(0),
                reduced: None,
            },
            JobKind::ExpeditionSync => Self {
                field: "status",
                // any row of an order says that it is, or that it is not
                asks: |row| Some(row.cancel.as_ref().and_then(Value::as_bool) == Some(true)),
                becomes: || json!("canceled"),
                reduced: None,
            },
            _ => return None,
        })
    }
}

impl Claim {
    /// What the guard of its job allows, where that has one; a dry run has none.
    fn guard(&self) -> Option<Limit> {
        let guard = Guard::deserialize(self.parameters.get(GUARD)?).ok()?;
        guard.of(*self.kind.as_ref().ok()?).filter(|_| !self.is_dry_run)
    }

    /// The same of this chunk: one that was decided has none.
    fn limit(&self) -> Option<Limit> {
        self.guard().filter(|_| !self.is_decided)
    }
}

/// A row that is kept aside.
struct Kept {
    position: usize,
    record: Uuid,
    key: Option<String>,
    changes: Value,
    payload: Vec<u8>,
}

/// A chunk, divided: what is executed first, and what of the rows that are kept aside is executed, too.
pub struct Divided {
    danger: Danger,
    /// The records whose field the rows give, each with the index of its row, if anything is kept of others.
    given: Vec<(i32, Uuid)>,
    kept: Vec<Kept>,
    /// The chunk without these rows.
    pub rest: Claim,
    /// These rows without what would destroy, where there is something else in them.
    pub harmless: Option<Claim>,
    /// The rows as they came, by their index.
    whole: HashMap<i32, Bytes>,
}

/// Before a chunk of a sync: finds out of which records its rows give the field, and if it is guarded, divides it.
///
/// # Errors
/// Those of the database; rows that cannot be read.
pub async fn divide(change: &mut Change<'_>, claim: &Claim) -> Result<Option<Divided>, Fate> {
    let Some(danger) = claim.kind.as_ref().ok().and_then(|kind| Danger::of(*kind)) else { return Ok(None) };
    let limit = claim.limit();
    let is_any = any(change.connection(), claim, danger.field).await?;
    if limit.is_none() && !is_any {
        return Ok(None);
    }
    let form = Form::of(claim);
    let rows = payload::unpack_rows(&claim.payload)?;
    let bodies: Vec<Bytes> = rows.iter().map(|row| form.read(row.clone()).1).collect();
    let asked: Vec<Option<Asked<'_>>> = bodies.iter().map(|body| serde_json::from_slice(body).ok()).collect();
    // positions of rows that give the field, and whether they may destroy
    let giving: HashMap<usize, bool> = asked
        .iter()
        .enumerate()
        .filter_map(|(position, row)| Some((position, (danger.asks)(row.as_ref()?)?)))
        .collect();
    let may_destroy = giving.values().any(|may| *may);
    if giving.is_empty() || !(is_any || may_destroy) {
        return Ok(None);
    }
    let found: Vec<(usize, Uuid)> = compared::found(change.connection(), claim).await?;
    let (mut given, mut confirmed) = (Vec::new(), HashSet::new());
    if is_any {
        given = found.iter().filter(|(at, _)| giving.contains_key(at)).copied().collect();
        confirmed = confirmed_by(change.connection(), claim, danger.field, &given).await?;
    }
    let given = given.into_iter().map(|(at, id)| (claim.index(at), id)).collect();
    // the first row of each record: any other is refused, in this chunk or as one of an earlier chunk
    let mut first: HashMap<Uuid, usize> = HashMap::new();
    for (position, id) in &found {
        first.entry(*id).and_modify(|first| *first = (*position).min(*first)).or_insert(*position);
    }
    let is_duplicate = |at: usize| claim.duplicates.iter().any(|of| usize::try_from(of.position) == Ok(at));
    let mut suspects: Vec<Uuid> = first
        .iter()
        .filter(|(id, at)| giving.get(at) == Some(&true) && !confirmed.contains(id) && !is_duplicate(**at))
        .map(|(id, _)| *id)
        .collect();
    if limit.is_none() {
        suspects.clear();
    }
    suspects.sort_unstable();
    let mut kept = Vec::new();
    if !suspects.is_empty() {
        change.make_whole();
        for (record, before) in destroyed(change.connection(), claim, &suspects).await? {
            let Some((position, row)) =
                first.get(&record).and_then(|at| Some((*at, asked.get(*at)?.as_ref()?)))
            else {
                continue;
            };
            let key = row.product_sku.as_ref().or(row.order_number.as_ref());
            kept.push(Kept {
                position,
                record,
                key: key.map(|key| key.clone().into_owned()),
                changes: json!({danger.field: [before, (danger.becomes)()]}),
                payload: danger
                    .reduced
                    .map_or_else(|| rows[position].to_vec(), |reduced| reduced(row).to_string().into_bytes()),
            });
        }
    }
    if kept.is_empty() {
        let (rest, whole) = (claim.clone(), HashMap::new());
        return Ok(Some(Divided { danger, given, kept, rest, harmless: None, whole }));
    }
    let mut positions: Vec<usize> = kept.iter().map(|kept| kept.position).collect();
    positions.sort_unstable();
    let whole = positions.iter().map(|at| (claim.index(*at), bodies[*at].clone())).collect();
    let harmless = if danger.reduced.is_some() {
        let others: Vec<usize> =
            (0..rows.len()).filter(|position| positions.binary_search(position).is_err()).collect();
        let mut harmless = compared::without(claim, &others)?;
        harmless.payload = without_field(&rows, &bodies, &positions, danger.field);
        Some(harmless)
    } else {
        None
    };
    let doubled = found.iter().filter(|(at, id)| {
        first.get(id).is_some_and(|first| first != at && positions.binary_search(first).is_ok())
            && !is_duplicate(*at)
    });
    let mut marked = claim.clone();
    for (at, id) in doubled {
        let line_of_first = first.get(id).and_then(|first| claim.lines.of(*first));
        marked.duplicates.push(Duplicate { position: to_i32(*at)?, line_of_first });
    }
    let rest = compared::without(&marked, &positions)?;
    Ok(Some(Divided { danger, given, kept, rest, harmless, whole }))
}

/// The rows at these positions without a field, packed.
fn without_field(rows: &[Bytes], bodies: &[Bytes], positions: &[usize], field: &str) -> Vec<u8> {
    let mut packed = Rows::default();
    for position in positions {
        let (row, body) = (&rows[*position], &bodies[*position]);
        let Ok(Value::Object(mut members)) = serde_json::from_slice(body) else {
            packed.push(row);
            continue;
        };
        members.remove(field);
        // what is stored before the row stays
        let mut text = row[..row.len() - body.len()].to_vec();
        text.extend_from_slice(Value::Object(members).to_string().as_bytes());
        packed.push(&text);
    }
    packed.take()
}

impl Divided {
    /// Keeps the rows aside that were not refused, in the transaction of the chunk; what it came to without them.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn keep(
        self,
        change: &mut Change<'_>,
        claim: &Claim,
        rest: Outcome,
        harmless: Outcome,
    ) -> Result<Outcome, Fate> {
        let Outcome { mut count, mut errors } = rest;
        let mut refused: HashSet<i32> =
            errors.iter().filter(|error| !error.notice).map(|error| error.index).collect();
        for error in harmless.errors {
            let payload = self.whole.get(&error.index).map(|body| body.to_vec()).unwrap_or_default();
            if !error.notice {
                refused.insert(error.index);
                count.failed += 1;
            }
            errors.push(ItemError { payload, ..error });
        }
        let kept: Vec<&Kept> =
            self.kept.iter().filter(|kept| !refused.contains(&claim.index(kept.position))).collect();
        sqlx::query!(
            "INSERT INTO job_withheld (job_id, index, line, key, entity_id, organisation_id, field, changes, acceptance, payload)
             SELECT $1, k.index, k.line, k.key, k.entity, $7, $8, k.changes, $10, k.payload
             FROM unnest($2::int[], $3::bigint[], $4::text[], $5::uuid[], $6::bytea[], $9::jsonb[])
                  AS k (index, line, key, entity, payload, changes)
             ON CONFLICT DO NOTHING",
            claim.job.get(),
            &kept.iter().map(|kept| claim.index(kept.position)).collect::<Vec<_>>(),
            &kept.iter().map(|kept| claim.lines.of(kept.position)).collect::<Vec<_>>() as &[Option<i64>],
            &kept.iter().map(|kept| kept.key.clone()).collect::<Vec<_>>() as &[Option<String>],
            &kept.iter().map(|kept| kept.record).collect::<Vec<_>>(),
            &kept.iter().map(|kept| kept.payload.clone()).collect::<Vec<_>>(),
            claim.organisation as Option<OrganisationId>,
            self.danger.field,
            &kept.iter().map(|kept| kept.changes.clone()).collect::<Vec<_>>(),
            claim.acceptance,
        )
        .execute(change.connection())
        .await?;
        let given: Vec<Uuid> =
            self.given.into_iter().filter(|(index, _)| !refused.contains(index)).map(|(_, id)| id).collect();
        drop_given(change.connection(), claim, self.danger.field, &given).await?;
        Ok(Outcome { count, errors })
    }
}

/// Whether anything of a field is kept for the organisation of a chunk.
async fn any(connection: &mut PgConnection, claim: &Claim, field: &str) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM job_withheld WHERE organisation_id = $1 AND field = $2) AS "any!""#,
        claim.organisation as Option<OrganisationId>,
        field,
    )
    .fetch_one(connection)
    .await
}

/// Those of some records of which an earlier job of the e-shop keeps the field; they are locked, so that no release takes them.
async fn confirmed_by(
    connection: &mut PgConnection,
    claim: &Claim,
    field: &str,
    given: &[(usize, Uuid)],
) -> Result<HashSet<Uuid>, sqlx::Error> {
    let found = sqlx::query_scalar!(
        "SELECT w.entity_id FROM job_withheld w JOIN job j ON j.id = w.job_id
         WHERE w.entity_id = ANY ($1) AND w.field = $2 AND w.job_id <> $3 AND w.acceptance < $4 AND j.eshop_id = $5
         ORDER BY w.job_id, w.index FOR UPDATE OF w",
        &given.iter().map(|(_, id)| *id).collect::<Vec<_>>(),
        field,
        claim.job.get(),
        claim.acceptance,
        claim.eshop as Option<EshopId>,
    )
    .fetch_all(connection)
    .await?;
    Ok(found.into_iter().collect())
}

/// Drops what earlier jobs keep of a field of records that a chunk has given.
async fn drop_given(
    connection: &mut PgConnection,
    claim: &Claim,
    field: &str,
    records: &[Uuid],
) -> Result<(), sqlx::Error> {
    if records.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "DELETE FROM job_withheld WHERE entity_id = ANY ($1) AND field = $2 AND job_id <> $3 AND acceptance < $4",
        records,
        field,
        claim.job.get(),
        claim.acceptance,
    )
    .execute(connection)
    .await
    .map(|_| ())
}

/// Forgets what a job withholds; returns whether there was anything.
pub(super) async fn forget(connection: &mut PgConnection, jobs: &[JobId]) -> Result<bool, sqlx::Error> {
    let gone = sqlx::query!("DELETE FROM job_withheld WHERE job_id = ANY ($1)", jobs as &[JobId])
        .execute(connection)
        .await?;
    Ok(gone.rows_affected() > 0)
}

/// Drops what is kept of orders whose status a command has given, whether it changed or not.
pub(crate) async fn drop_commanded(
    connection: &mut PgConnection,
    orders: &[ExpeditionId],
) -> Result<(), sqlx::Error> {
    sqlx::query!("DELETE FROM job_withheld WHERE entity_id = ANY ($1)", orders as &[ExpeditionId])
        .execute(connection)
        .await
        .map(|_| ())
}

/// Those of some records that a chunk would destroy, each with its field as it is; they are locked.
async fn destroyed(
    connection: &mut PgConnection,
    claim: &Claim,
    records: &[Uuid],
) -> Result<Vec<(Uuid, Value)>, sqlx::Error> {
    Ok(match claim.kind {
        Ok(JobKind::ProductSync) => {
            let found = sqlx::query_scalar!(
                "SELECT id FROM product WHERE id = ANY ($1) AND active AND active_acceptance < $2 ORDER BY id FOR UPDATE",
                records,
                claim.acceptance,
            );
            found.fetch_all(connection).await?.into_iter().map(|id| (id, json!(true))).collect()
        }
        Ok(JobKind::StockSync) => {
            let found = sqlx::query!(
                "SELECT id, quantity FROM product_stock WHERE id = ANY ($1) AND quantity > 0 ORDER BY id FOR UPDATE",
                records
            );
            let found = found.fetch_all(connection).await?.into_iter();
            found.map(|stock| (stock.id, json!(stock.quantity))).collect()
        }
        _ => {
            let found = sqlx::query!(
                // what has left cannot be cancelled: its row is refused
                "SELECT id, status FROM expedition WHERE id = ANY ($1) AND can_be_cancelled(status) ORDER BY id FOR UPDATE",
                records
            );
            let found = found.fetch_all(connection).await?.into_iter();
            found.map(|order| (order.id, json!(order.status))).collect()
        }
    })
}

/// Removes up to `limit` rows that can no longer be released; returns how many.
///
/// # Errors
/// Those of the database.
pub async fn expire(db: &sqlx::PgPool, limit: i64) -> Result<u64, Problem> {
    let gone = sqlx::query!(
        "DELETE FROM job_withheld WHERE (job_id, index) IN (
             SELECT job_id, index FROM job_withheld WHERE kept_at < now() - make_interval(days => $1) ORDER BY kept_at LIMIT $2)",
        KEPT_DAYS,
        limit,
    )
    .execute(db)
    .await?;
    Ok(gone.rows_affected())
}
