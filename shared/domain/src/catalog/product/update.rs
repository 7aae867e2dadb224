//! Updating a product: one read, rules in memory, one statement; both statements are shared with the updates of the same
//! moment ([`together`](super::together)).
//!
//! The statement is guarded by the version that was read. An update that was overtaken reads again; after some attempts it
//! locks the product first, so that it ends under any contention. An update of its e-shops, its children, or of whether it
//! may be a child locks it at once, together with those children: then they cannot change between look-up and write, and
//! the common statement stays short. An update of the SKU, which only the database can finally refuse, has its own
//! statement, so that no other update fails with it.

use serde_json::Value;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use super::read::find;
use super::record::{Product, ProductFields, ProductType, diff};
use super::references::{References, leaves_physical, look_up};
use super::rules::{Body, read_update, violation};
use super::together::Batcher;
use super::write::{Stamp, Write, write};
use super::{ENTITY, location};
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::database::Pool;
use longshore_kernel::problem::{CONFLICT, Problem, with_found};
use longshore_kernel::services::Services;
use longshore_kernel::sqlstate::{is_contention, is_locked, is_refused_value};

/// How often an update is tried without a lock.
const OPTIMISTIC_ATTEMPTS: usize = 3;

/// How often it is tried with one: a deadlock with a bulk change may still undo it.
const LOCKED_ATTEMPTS: usize = 3;

/// What an update asks the database by; most have nothing to ask.
enum Asking<'c> {
    /// Any connection.
    Any(&'c Pool),
    /// The one that has locked the product.
    By(&'c mut PgConnection),
}

/// What an update comes to, by what was read.
enum Plan {
    /// Nothing is to be written.
    Nothing(Box<Product>),
    /// This is.
    Write(Box<Planned>),
    /// A concurrent change came first.
    Overtaken,
}

/// A write, and what goes with it.
struct Planned {
    write: Write,
    /// It gets other e-shops or children.
    relinked: bool,
    /// It is read again under a lock, and has a statement of its own.
    alone: bool,
}

/// Changes the given fields of a product, and answers with the record. `precondition` judges the version that the change starts
/// from (`If-Match`).
///
/// A connector of one e-shop cannot attach or detach others, nor detach its own: `eshops`, where it gives them, must
/// contain its own and may contain those that are attached; those it leaves out stay attached.
pub async fn update(
    services: &Services,
    together: &Batcher,
    context: &Context,
    id: Uuid,
    body: Value,
    precondition: impl Fn(i64) -> Result<(), Problem>,
) -> Result<Answer, Problem> {
    let update = Update { context, body: read_update(body), precondition };
    for _ in 0..OPTIMISTIC_ATTEMPTS {
        let Some(current) = together.find(services, context.scope(), id).await? else {
            return Err(Problem::not_found(ENTITY));
        };
        let planned = match update.plan(Asking::Any(&services.db.main), current).await? {
            Plan::Nothing(product) => return answer(&product),
            Plan::Overtaken => continue,
            Plan::Write(planned) => planned,
        };
        if planned.alone {
            break;
        }
        let product = planned.write.product.clone();
        match together.write(services, planned.write).await {
            Ok(Some(stamp)) => return answer(&stamped(product, stamp)),
            Ok(None) => {}
            Err(problem) if problem.is_away() => return Err(problem),
            // executed alone, the error belongs to the right update
            Err(_) => break,
        }
    }
    for _ in 0..LOCKED_ATTEMPTS {
        let mut change = Change::begin(services).await?;
        match lock(change.connection(), id, &update.body.fields).await {
            Ok(()) => {}
            // a request that has waited for the row has waited long enough
            Err(error) if is_contention(&error) && !is_locked(&error) => continue,
            Err(error) => return Err(error.into()),
        }
        let Some(current) = find(&mut *change.connection(), context.scope(), id).await? else {
            return Err(Problem::not_found(ENTITY));
        };
        let product = match update.plan(Asking::By(change.connection()), current).await? {
            Plan::Nothing(product) => Some(*product),
            Plan::Overtaken => None,
            Plan::Write(planned) => write_locked(&mut change, *planned).await?,
        };
        if let Some(product) = product {
            change.commit().await?;
            return answer(&product);
        }
    }
    Err(Problem::new(&CONFLICT, "a record that the product refers to is being changed; try again"))
}

/// Writes a locked product; nothing if a record that it refers to was changed concurrently.
async fn write_locked(change: &mut Change<'_>, planned: Planned) -> Result<Option<Product>, Problem> {
    let written = async {
        let written = write(change.connection(), std::slice::from_ref(&planned.write)).await?;
        let stamp = written.done.into_iter().next().flatten();
        if stamp.is_some() && planned.relinked {
            relink(change.connection(), &planned.write.product).await?;
        }
        Ok(stamp.map(|stamp| (stamp, written.lanes)))
    };
    match written.await {
        Ok(Some((stamp, lanes))) => {
            change.note_lanes(lanes);
            Ok(Some(stamped(planned.write.product, stamp)))
        }
        Ok(None) => Ok(None),
        // something has changed since it was looked up: the next look-up finds what
        Err(error) if is_refused_value(&error) || is_contention(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The product as it is since it was written.
fn stamped(product: Product, Stamp { version, changed_at }: Stamp) -> Product {
    Product { changed_at, version, ..product }
}

fn answer(product: &Product) -> Result<Answer, Problem> {
    Ok(Answer::updated(location(product.id), product.version, product.json()?))
}

/// Locks the product and its future children, and waits for concurrent changes of their type. In the order of ids, as every
/// bulk statement does.
///
/// A product that may stop being physical is also locked against the creation of stocks: these lock only its key, so that
/// other changes of a product do not wait for stock syncs.
async fn lock(connection: &mut PgConnection, id: Uuid, given: &ProductFields) -> Result<(), sqlx::Error> {
    let children = given.children_products.iter().flat_map(|c| c.iter()).map(|c| c.product_id);
    let ids: Vec<Uuid> = children.chain([id]).collect();
    if given.kind.is_some_and(|kind| kind != ProductType::Physical) {
        return sqlx::query!(
            "SELECT FROM product
             WHERE id = ANY($1)
               AND organisation_id IS NOT DISTINCT FROM (SELECT organisation_id FROM product WHERE id = $2)
             ORDER BY id FOR UPDATE",
            &ids,
            id,
        )
        .execute(connection)
        .await
        .map(|_| ());
    }
    sqlx::query!(
        "SELECT FROM product
         WHERE id = ANY($1)
           AND organisation_id IS NOT DISTINCT FROM (SELECT organisation_id FROM product WHERE id = $2)
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
    body: Body,
    precondition: P,
}

impl<P: Fn(i64) -> Result<(), Problem>> Update<'_, P> {
    /// Judges what was given of a product that was read.
    async fn plan(&self, mut asking: Asking<'_>, current: Product) -> Result<Plan, Problem> {
        (self.precondition)(current.version)?;
        let given = self.judged(&mut asking, &current).await?;
        let changes = diff(&current, &given);
        let takes_number = given.active.is_some();
        let mut product = current.clone();
        given.write_to(&mut product);
        if changes.is_empty() {
            let fresh = !takes_number
                || match asking {
                    Asking::Any(pool) => accept(pool, &current).await?,
                    Asking::By(connection) => accept(connection, &current).await?,
                };
            return Ok(if fresh { Plan::Nothing(Box::new(product)) } else { Plan::Overtaken });
        }
        let relinked =
            product.eshops != current.eshops || product.children_products != current.children_products;
        let alone =
            leaves_physical(&current, &product) || relinked || product.product_sku != current.product_sku;
        // an e-shop that loses the product still hears that it did
        let detached = current.eshops.iter().filter(|id| !product.eshops.contains(id));
        let heard = product.eshops.iter().chain(detached).copied().collect();
        let origin = self.context.origin.clone();
        let write = Write { product, version: current.version, changes, heard, takes_number, origin };
        Ok(Plan::Write(Box::new(Planned { write, relinked, alone })))
    }

    /// The given fields as they may be written, or everything that is wrong with them.
    async fn judged(&self, asking: &mut Asking<'_>, current: &Product) -> Result<ProductFields, Problem> {
        let mut given = self.body.fields.clone();
        let mut found = Vec::new();
        if self.body.organisation.is_some_and(|id| id != current.organisation) {
            found.push(violation("organisation", "not_allowed", "cannot be changed"));
        }
        let mut merged = current.clone();
        given.clone().write_to(&mut merged);
        found.extend(self.body.bundle_rule(&merged));
        let wanted = References::of_body(Some(current), &merged);
        if !wanted.is_empty() {
            let (organisation, eshop) = (current.organisation, self.context.scope().eshop());
            let referents = match asking {
                Asking::Any(pool) => look_up(*pool, organisation, eshop, &[&wanted]).await?,
                Asking::By(connection) => look_up(&mut **connection, organisation, eshop, &[&wanted]).await?,
            };
            found.extend(wanted.judge(&referents));
        }
        if let (Some(own), Some(eshops)) = (self.context.scope().eshop(), &mut given.eshops) {
            if !eshops.contains(&own.get()) && !self.body.refuses("eshops") {
                found.push(violation("eshops", "required", "must contain the e-shop of the token"));
            }
            eshops.clone_from(&current.eshops);
        }
        if !self.body.echo.is_empty() {
            found.extend(self.body.echo.judge(&current.json()?)?);
        }
        Problem::refuse(with_found(self.body.violations.clone(), found))?;
        if let Some(eshops) = &mut given.eshops {
            eshops.sort_unstable();
            eshops.dedup();
        }
        Ok(given)
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
async fn accept(executor: impl PgExecutor<'_>, current: &Product) -> Result<bool, sqlx::Error> {
    let written = sqlx::query!(
        "UPDATE product SET active_acceptance = number
         FROM (SELECT nextval('acceptance') AS number OFFSET 0) AS accepted
         WHERE id = $1 AND version = $2 AND active_acceptance < number",
        current.id,
        current.version,
    )
    .execute(executor)
    .await?;
    Ok(written.rows_affected() == 1)
}
