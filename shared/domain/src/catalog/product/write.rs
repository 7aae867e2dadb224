//! Writing products over the versions that were read, many by one statement.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use super::columns::{Columns, array, record_products};
use super::record::{FieldChange, Product};
use longshore_kernel::context::Origin;
use longshore_kernel::queue::Hint;
use longshore_kernel::record_changes;

/// A product as it is to be.
#[derive(Debug)]
pub(super) struct Write {
    /// With its new fields.
    pub(super) product: Product,
    /// The version that was read.
    pub(super) version: i64,
    /// The differences, for the audit and the webhooks.
    pub(super) changes: Vec<FieldChange>,
    /// The e-shops that hear of it.
    pub(super) heard: Vec<Uuid>,
    /// It says what `active` is, and takes an acceptance number.
    pub(super) takes_number: bool,
    /// The origin of the change.
    pub(super) origin: Origin,
}

/// What a product that was written is from then on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    pub(super) version: i64,
    pub(super) changed_at: DateTime<Utc>,
}

/// What became of several.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// The new version of each product; none where nothing was written.
    pub(super) done: Vec<Option<Stamp>>,
    /// Active webhooks that have something due now.
    pub(super) lanes: Vec<Hint>,
}

/// Writes products, each over the version that was read. Skips products with a newer version, and products that are locked
/// by a concurrent change, without waiting. Their e-shops and children stay as they are.
pub(super) async fn write(connection: &mut PgConnection, writes: &[Write]) -> Result<Written, sqlx::Error> {
    // rows are locked in the order of their keys, as by every bulk statement
    let mut order: Vec<usize> = (0..writes.len()).collect();
    order.sort_unstable_by_key(|place| writes[*place].product.id);
    let sorted: Vec<&Write> = order.iter().map(|place| &writes[*place]).collect();
    let mut columns = Columns::default();
    let (mut versions, mut decided) = (Vec::new(), Vec::new());
    let mut heard: Vec<String> = Vec::new();
    for write in &sorted {
        columns.push(&write.product, &write.changes);
        versions.push(write.version);
        decided.push(write.takes_number);
        heard.push(array(write.heard.iter().map(Uuid::to_string)));
    }
    let origins: Vec<&Origin> = sorted.iter().map(|write| &write.origin).collect();
    let recorded = record_products!(
        record_changes,
        connection,
        origins,
        "product.update",
        columns,
        [
            "WITH locked AS MATERIALIZED (
                 SELECT g.*, CASE WHEN decided THEN nextval('acceptance') END AS number
                 FROM ROWS FROM (" arrays ", unnest($33::bigint[], $34::boolean[], $35::text[])) WITH ORDINALITY
                     AS g (" names ", changes, data, read_version, decided, heard, origin)
                 CROSS JOIN LATERAL (
                     SELECT FROM product WHERE product.id = g.id AND product.version = g.read_version
                     FOR NO KEY UPDATE SKIP LOCKED
                 ) p
             ), written AS (
                 UPDATE product p
                 SET " set ", active_acceptance = coalesce(g.number, p.active_acceptance), version = p.version + 1
                 FROM locked g
                 -- each by its key, as in a sync
                 WHERE p.id = ANY (ARRAY[g.id])
                   AND (g.number IS NULL OR p.active_acceptance < g.number)
                 RETURNING p.id, p.version, p.changed_at, p.organisation_id, g.heard, g.changes, g.data, g.origin
             ), changed AS (
                 SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation,
                        heard::uuid[] AS eshops, changes::jsonb AS changes,
                        data::jsonb AS data, origin
                 FROM written
             )"
        ],
        &versions,
        &decided,
        &heard,
    )
    .await?;
    let mut done = vec![None; writes.len()];
    for ((origin, version), changed_at) in
        recorded.origins.into_iter().zip(recorded.versions).zip(recorded.moments)
    {
        let place = usize::try_from(origin - 1).ok().and_then(|n| order.get(n));
        if let Some(done) = place.and_then(|place| done.get_mut(*place)) {
            *done = Some(Stamp { version, changed_at });
        }
    }
    Ok(Written { done, lanes: recorded.lanes })
}
