//! Updating a product: one read, rules in memory, one statement.
//!
//! The statement is guarded by the version that was read. Whoever was overtaken reads again; after some attempts the
//! product is locked first, so that an update ends however many want it. What also changes its e-shops, its children or
//! whether it may be a child locks it at once, together with those children: then nobody can make them something else
//! between look-up and write, and the statement of the common case stays a short one.

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::create::{refuse, refused};
use super::record::{
    Category, FieldChange, Product, ProductFields, ProductType, changes_json, diff, event_data, find,
};
use super::references::{References, judge, look_up};
use super::rules::{Body, read_update, violation};
use super::{ENTITY, EVENT, location};
use crate::platform::answer::Answer;
use crate::platform::change::{Change, Recorded, hand_over};
use crate::platform::context::Context;
use crate::platform::database::is_contention;
use crate::platform::problem::{CONFLICT, Problem};
use crate::platform::services::Services;
use crate::record_change;

/// How often an update is tried without a lock.
const OPTIMISTIC_ATTEMPTS: usize = 3;

/// How often it is tried with one: a deadlock with a bulk change may still undo it.
const LOCKED_ATTEMPTS: usize = 3;

/// What became of one attempt.
enum Outcome {
    /// The product as it is now.
    Done(Box<Product>, Recorded),
    /// It, or what it is to refer to, changed since it was read.
    Overtaken,
    /// It must be locked before it is read.
    MustLock,
}

/// Changes the given fields of a product: 200 with the record. `precondition` judges the version that the change starts
/// from (`If-Match`).
///
/// A connector of one e-shop cannot attach or detach others, nor detach its own: `eshops`, where it gives them, must
/// contain its own and may contain those that are attached; those it leaves out stay attached.
pub async fn update(
    services: &Services,
    context: &Context,
    id: Uuid,
    body: Value,
    precondition: impl Fn(DateTime<Utc>) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    let update = Update { context, id, body: read_update(body), precondition };
    for _ in 0..OPTIMISTIC_ATTEMPTS {
        let mut connection = services.db.main.acquire().await?;
        match update.attempt(&mut connection, false).await? {
            Outcome::Done(product, recorded) => {
                hand_over(services, recorded.lanes);
                return answer(&product);
            }
            Outcome::Overtaken => {}
            Outcome::MustLock => break,
        }
    }
    for _ in 0..LOCKED_ATTEMPTS {
        let mut change = Change::begin(services).await?;
        match lock(change.connection(), id, &update.body.fields).await {
            Ok(()) => {}
            Err(error) if is_contention(&error) => continue,
            Err(error) => return Err(error.into()),
        }
        if let Outcome::Done(product, recorded) = update.attempt(change.connection(), true).await? {
            change.note(recorded);
            change.commit().await?;
            return answer(&product);
        }
    }
    Err(Problem::new(&CONFLICT, "what the product refers to is being changed; try again"))
}

fn answer(product: &Product) -> Result<Answer, Problem> {
    Ok(Answer::updated(location(product.id), product.changed_at, product.json()?))
}

/// Keeps everybody else from changing the product and what is to be its children, and waits for those who are making one
/// of them something else. In the order of ids, as every bulk statement does.
async fn lock(connection: &mut PgConnection, id: Uuid, given: &ProductFields) -> Result<(), sqlx::Error> {
    let children = given.children_products.iter().flat_map(|c| c.iter()).map(|c| c.product_id);
    let ids: Vec<Uuid> = children.chain([id]).collect();
    sqlx::query!(
        "SELECT FROM product
         WHERE id = ANY($1) AND organisation_id = (SELECT organisation_id FROM product WHERE id = $2)
         ORDER BY id FOR NO KEY UPDATE",
        &ids,
        id,
    )
    .execute(connection)
    .await
    .map(|_| ())
}

struct Update<'u, P> {
    context: &'u Context,
    id: Uuid,
    body: Body,
    precondition: P,
}

impl<P: Fn(DateTime<Utc>) -> Result<(), Problem>> Update<'_, P> {
    async fn attempt(&self, connection: &mut PgConnection, is_locked: bool) -> Result<Outcome, Problem> {
        let Some(current) = find(&mut *connection, self.context.scope(), self.id).await? else {
            return Err(Problem::not_found(ENTITY));
        };
        (self.precondition)(current.changed_at)?;
        let given = self.judged(connection, &current).await?;
        let changes = diff(&current, &given);
        let takes_number = given.active.is_some();
        let needs_lock = leaves_physical(&current, &given);
        let mut product = current.clone();
        given.write_to(&mut product);
        if changes.is_empty() {
            let fresh = !takes_number || accept(connection, &current).await?;
            return Ok(if fresh {
                Outcome::Done(Box::new(product), Recorded::default())
            } else {
                Outcome::Overtaken
            });
        }
        let relinked =
            product.eshops != current.eshops || product.children_products != current.children_products;
        if (needs_lock || relinked) && !is_locked {
            return Ok(Outcome::MustLock);
        }
        product.changed_at = current.read_at.max(current.changed_at + TimeDelta::microseconds(1));
        let written = async {
            let recorded = self.write(&mut *connection, &current, &product, &changes, takes_number).await?;
            if recorded.changed == 1 && relinked {
                relink(connection, &product).await?;
            }
            Ok(recorded)
        };
        match written.await {
            Ok(recorded) if recorded.changed == 1 => Ok(Outcome::Done(Box::new(product), recorded)),
            Ok(_) => Ok(Outcome::Overtaken),
            Err(error) => refused(error).map(|()| Outcome::Overtaken),
        }
    }

    /// The given fields as they may be written, or everything that is wrong with them.
    async fn judged(
        &self,
        connection: &mut PgConnection,
        current: &Product,
    ) -> Result<ProductFields, Problem> {
        let mut given = self.body.fields.clone();
        let mut violations = self.body.violations.clone();
        if self.body.organisation.is_some_and(|id| id != current.organisation) {
            violations.push(violation("organisation", "not_allowed", "cannot be changed"));
        }
        let mut merged = current.clone();
        given.clone().write_to(&mut merged);
        violations.extend(self.body.bundle_rule(&merged));
        let wanted = References {
            organisation: current.organisation,
            product: Some(current.id),
            eshops: given
                .eshops
                .iter()
                .flatten()
                .copied()
                .filter(|id| !current.eshops.contains(id))
                .collect(),
            children: new_children(current, &given),
            packaging_type: given.packaging_type.as_deref().filter(|code| *code != current.packaging_type),
            product_sku: given.product_sku.as_deref().filter(|sku| *sku != current.product_sku),
            leaves_physical: leaves_physical(current, &given),
        };
        let mut is_taken = false;
        if !wanted.is_empty() {
            let found = look_up(&mut *connection, self.context.scope(), &wanted).await?;
            violations.extend(judge(&given, &wanted, &found));
            is_taken = found.is_taken;
        }
        if let (Some(own), Some(eshops)) = (self.context.scope().eshop(), &mut given.eshops) {
            if !eshops.contains(&own) {
                violations.push(violation("eshops", "required", "must contain the e-shop of the token"));
            }
            eshops.clone_from(&current.eshops);
        }
        refuse(violations, is_taken)?;
        if let Some(eshops) = &mut given.eshops {
            eshops.sort_unstable();
            eshops.dedup();
        }
        Ok(given)
    }

    /// Writes the product over the version that was read; nothing when that is no longer the last one. Its e-shops and
    /// children are for [`relink`].
    async fn write(
        &self,
        connection: &mut PgConnection,
        current: &Product,
        product: &Product,
        changes: &[FieldChange],
        takes_number: bool,
    ) -> Result<Recorded, sqlx::Error> {
        let data = event_data(product.id, product.organisation, &product.product_sku, changes);
        // an e-shop that loses the product still hears that it did
        let detached = current.eshops.iter().filter(|id| !product.eshops.contains(id));
        let heard: Vec<Uuid> = product.eshops.iter().chain(detached).copied().collect();
        record_change!(
            connection,
            self.context.origin,
            "product.update",
            ENTITY,
            EVENT,
            "WITH accepted AS MATERIALIZED (
                 SELECT CASE WHEN $12 THEN nextval('acceptance') END AS number
             ), written AS (
                 UPDATE product
                 SET product_sku = $13, internal_sku = $14, product_group = $15, name = $16, description = $17,
                     weight = $18, height = $19, width = $20, length = $21, reference_numbers = $22,
                     packaging_type = $23, imei_check_required = $24, work_around_sn_in = $25,
                     work_around_ean_sticker = $26, work_around_warranty_inf = $27, work_around_lot = $28,
                     active = $29, active_acceptance = coalesce(number, active_acceptance), country_of_origin = $30,
                     hs_code = $31, type = $32, category = $33, changed_at = $11
                 FROM accepted
                 WHERE id = $9 AND changed_at = $10 AND (number IS NULL OR active_acceptance < number)
                 RETURNING id, organisation_id
             ), changed AS (
                 SELECT id AS entity, organisation_id AS organisation, $34::uuid[] AS eshops, $36::jsonb AS changes,
                        $35::jsonb AS data
                 FROM written
             )",
            product.id,
            current.changed_at,
            product.changed_at,
            takes_number,
            product.product_sku,
            product.internal_sku,
            product.product_group as Option<Uuid>,
            product.name,
            product.description.as_deref() as Option<&str>,
            product.weight as Option<i32>,
            product.height as Option<i32>,
            product.width as Option<i32>,
            product.length as Option<i32>,
            &product.reference_numbers,
            product.packaging_type,
            product.imei_check_required,
            product.work_around_sn_in,
            product.work_around_ean_sticker,
            product.work_around_warranty_inf,
            product.work_around_lot,
            product.active,
            product.country_of_origin.as_deref() as Option<&str>,
            product.hs_code.as_deref() as Option<&str>,
            product.kind.as_str(),
            product.category.map(Category::as_str) as Option<&str>,
            &heard,
            data,
            changes_json(changes),
        )
        .await
    }
}

/// Gives the product its e-shops and children; it is locked, and so are they.
async fn relink(connection: &mut PgConnection, product: &Product) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "WITH detached AS (
             DELETE FROM product_eshop WHERE product_id = $1 AND eshop_id <> ALL($2)
         )
         INSERT INTO product_eshop (product_id, eshop_id) SELECT $1, unnest($2::uuid[])
         ON CONFLICT DO NOTHING",
        product.id,
        &product.eshops,
    )
    .execute(&mut *connection)
    .await?;
    let children: Vec<Uuid> = product.children_products.iter().map(|c| c.product_id).collect();
    let quantities: Vec<i32> = product.children_products.iter().map(|c| c.quantity).collect();
    sqlx::query!(
        "WITH dropped AS (
             DELETE FROM product_child WHERE bundle_id = $1 AND product_id <> ALL($2)
         )
         INSERT INTO product_child (bundle_id, product_id, quantity, position)
         SELECT $1, c.* FROM unnest($2::uuid[], $3::integer[]) WITH ORDINALITY AS c (id, quantity, position)
         ON CONFLICT (bundle_id, product_id)
         DO UPDATE SET quantity = excluded.quantity, position = excluded.position",
        product.id,
        &children,
        &quantities,
    )
    .execute(connection)
    .await
    .map(|_| ())
}

/// Takes an acceptance number for a product that is as it should be; whether it is still the one that was read.
async fn accept(connection: &mut PgConnection, current: &Product) -> Result<bool, sqlx::Error> {
    let written = sqlx::query!(
        "UPDATE product SET active_acceptance = number
         FROM (SELECT nextval('acceptance') AS number OFFSET 0) AS accepted
         WHERE id = $1 AND changed_at = $2 AND active_acceptance < number",
        current.id,
        current.changed_at,
    )
    .execute(connection)
    .await?;
    Ok(written.rows_affected() == 1)
}

/// Whether a product that may be a child would stop being one that can.
fn leaves_physical(current: &Product, given: &ProductFields) -> bool {
    current.kind == ProductType::Physical && given.kind.is_some_and(|kind| kind != ProductType::Physical)
}

fn new_children(current: &Product, given: &ProductFields) -> Vec<Uuid> {
    let known = |id| current.children_products.iter().any(|c| c.product_id == id);
    let given = given.children_products.iter().flat_map(|c| c.iter());
    given.map(|c| c.product_id).filter(|id| !known(*id)).collect()
}
