//! Taking over the products of a partner (`docs/reference/syncs.md#products`): matched by `productSku` in the organisation,
//! created when new, updated where a given field differs, attached to the e-shop. Nothing is switched off for being absent.
//!
//! Set-based: one statement reads what is stored under the SKUs of a chunk; what the rows would change is found in memory
//! by the same [`diff`] that a single update uses; what differs is locked by id, looked at again, and
//! written by one statement, then what is new is inserted by another. A row that changes nothing costs its share of the
//! first statement.

use std::borrow::Cow;
use std::collections::HashMap;

use chrono::DateTime;
use sqlx::PgConnection;
use uuid::Uuid;

use super::record::{FieldChange, Product, creation, diff};
use super::references::{References, look_up};
use super::rules::{SyncRow, bundle_rule, violation};
use crate::job::halving::{Statement, halve};
use crate::job::mark::Beside;
use longshore_kernel::change::{Change, Recorded};
use longshore_kernel::context::Origin;
use longshore_kernel::ids::{self, EshopId, OrganisationId};
use longshore_kernel::problem::{QUOTA_REACHED, Violation};
use longshore_kernel::quota::{Kind, Quotas};

mod read;
mod write;

use read::{by_id, by_sku, lock, lock_parts};
use write::confirm;

/// What the rows are for.
#[derive(Clone, Copy, Debug)]
pub struct Sync<'o> {
    /// The caller.
    pub origin: &'o Origin,
    /// Organisation of the e-shop.
    pub organisation: OrganisationId,
    /// The e-shop that the products are sold in.
    pub eshop: EshopId,
    /// Whether the caller is bound to that e-shop: products that are only in other e-shops are then not allowed.
    pub bound: bool,
    /// Number of its acceptance: a product that a later one has switched keeps its `active`.
    pub acceptance: i64,
    /// The syncs beside it.
    pub beside: Beside,
}

/// What came of the rows.
#[derive(Debug, Default)]
pub struct Applied {
    /// Products that were created or altered.
    pub changed: usize,
    /// Rows that were refused, by their position among those given.
    pub refused: Vec<(usize, Vec<Violation>)>,
}

/// Takes over rows; their SKUs are distinct.
pub async fn apply(
    change: &mut Change<'_>,
    sync: Sync<'_>,
    rows: &[SyncRow],
) -> Result<Applied, sqlx::Error> {
    let quoted = Quoted { sync, quotas: change.quotas() };
    let halved = halve(change.connection(), rows, &quoted).await?;
    let mut applied = Applied::default();
    for (part, (recorded, refused)) in halved.applied {
        applied.changed += usize::try_from(change.note(recorded)).unwrap_or(0);
        applied
            .refused
            .extend(refused.into_iter().map(|(position, violations)| (part.start + position, violations)));
    }
    for refused in halved.refused {
        applied.refused.push((refused.position, vec![violation("", refused.code, &refused.message)]));
    }
    Ok(applied)
}

/// What the rows are for, and how many products there may be.
struct Quoted<'q> {
    sync: Sync<'q>,
    quotas: &'q Quotas,
}

impl Quoted<'_> {
    /// Refuses the new products for which there is no room, the last ones.
    async fn keep_to_quota(&self, tx: &mut PgConnection, plan: &mut Plan) -> Result<(), sqlx::Error> {
        if plan.new.is_empty() {
            return Ok(());
        }
        let room = self.quotas.room(tx, self.sync.organisation, Kind::Product, plan.new.len()).await?;
        let over = plan.new.split_off(room);
        if !over.is_empty() {
            self.quotas.refused(Kind::Product, over.len());
            let refusal = || vec![violation("", QUOTA_REACHED.code, &self.quotas.sentence(Kind::Product))];
            plan.refused.extend(over.into_iter().map(|new| (new.position, refusal())));
        }
        Ok(())
    }
}

impl Statement<SyncRow> for Quoted<'_> {
    type Out = (Recorded, Vec<(usize, Vec<Violation>)>);

    async fn apply(&self, tx: &mut PgConnection, rows: &[SyncRow]) -> Result<Self::Out, sqlx::Error> {
        let sync = self.sync;
        let mut recorded = Recorded::default();
        let mut refused = Vec::new();
        let mut pending: Vec<usize> = (0..rows.len()).collect();
        let mut named = Vec::new();
        // a product that is created concurrently, between the look-up and the insert, is found by the next look-up
        while !pending.is_empty() {
            let skus: Vec<&str> =
                pending.iter().filter_map(|&p| rows.get(p)).map(|row| row.product_sku.as_str()).collect();
            let stored = by_sku(tx, sync.organisation, sync.eshop, &skus).await?;
            let mut plan = sync.plan(tx, rows, &pending, stored).await?;
            self.keep_to_quota(tx, &mut plan).await?;
            refused.extend(plan.refused);
            named.extend(plan.stored);
            let new: Vec<_> = plan.new.iter().map(|new| (new.product.id, new.position)).collect();
            let lost = sync.write(tx, plan.altered, plan.new, &mut recorded).await?;
            named.extend(new.into_iter().filter(|(_, position)| !lost.contains(position)));
            pending = lost;
        }
        if sync.beside.marks {
            named.retain(|(_, position)| refused.iter().all(|(refused, _)| refused != position));
            let given = named.into_iter().filter_map(|(product, position)| {
                rows.get(position).map(|row| (product, row.fields.names()))
            });
            sync.beside.mark(tx, given).await?;
        }
        Ok((recorded, refused))
    }

    async fn lock(&self, tx: &mut PgConnection, rows: &[SyncRow]) -> Result<(), sqlx::Error> {
        let sync = self.sync;
        let skus: Vec<&str> = rows.iter().map(|row| row.product_sku.as_str()).collect();
        let stored = by_sku(tx, sync.organisation, sync.eshop, &skus).await?;
        lock(tx, &sync.differing(rows, &stored)).await
    }
}

/// A stored product as a row would have it.
struct Altered {
    position: usize,
    product: Product,
    references: References,
    changes: Vec<FieldChange>,
    recomposed: bool,
    /// The row sets `active`, and no later change did.
    switched: bool,
}

/// A row's new product.
struct New {
    position: usize,
    product: Product,
    references: References,
    changes: Vec<FieldChange>,
}

#[derive(Default)]
struct Plan {
    /// Products that are there, each with the position of its row.
    stored: Vec<(Uuid, usize)>,
    altered: Vec<Altered>,
    new: Vec<New>,
    refused: Vec<(usize, Vec<Violation>)>,
}

impl Sync<'_> {
    /// The stored products that rows would change, by id.
    fn differing<'r>(
        &self,
        rows: impl IntoIterator<Item = &'r SyncRow>,
        stored: &HashMap<String, Product>,
    ) -> Vec<Uuid> {
        let differing = rows.into_iter().filter_map(|row| {
            let product = stored.get(&row.product_sku).filter(|product| self.may_change(product))?;
            (self.beside.marks || self.alters(product, row)).then_some(product.id)
        });
        let mut differing: Vec<Uuid> = differing.collect();
        differing.sort_unstable();
        differing
    }

    /// Finds what the rows would change. What differs is locked by id, and looked at again under the lock.
    async fn plan(
        &self,
        tx: &mut PgConnection,
        rows: &[SyncRow],
        pending: &[usize],
        mut stored: HashMap<String, Product>,
    ) -> Result<Plan, sqlx::Error> {
        let differing = self.differing(pending.iter().filter_map(|&position| rows.get(position)), &stored);
        if !differing.is_empty() {
            lock(tx, &differing).await?;
            // one may have got another SKU since
            stored.retain(|_, product| differing.binary_search(&product.id).is_err());
            stored.extend(by_id(tx, &differing).await?);
        }
        let later = self.beside.given_later(tx, &differing).await?;
        let mut plan = Plan::default();
        let mut confirmed = Vec::new();
        for &position in pending {
            let Some(row) = rows.get(position) else { continue };
            match stored.remove(&row.product_sku) {
                Some(product) if !self.may_change(&product) => {
                    let message = "belongs to a product outside the e-shop of the access token";
                    plan.refused.push((position, vec![violation("productSku", "not_allowed", message)]));
                }
                Some(product) => {
                    if row.fields.active.is_some() {
                        confirmed.push(product.id);
                    }
                    plan.stored.push((product.id, position));
                    let later = later.get(&product.id).map_or(&[][..], Vec::as_slice);
                    self.plan_altered(position, row, &product, later, &mut plan);
                }
                None => self.plan_new(position, row, &mut plan),
            }
        }
        if !confirmed.is_empty() {
            confirm(tx, self.acceptance, &confirmed).await?;
        }
        self.judge_references(tx, &mut plan).await?;
        Ok(plan)
    }

    fn may_change(&self, product: &Product) -> bool {
        !self.bound || product.eshops.contains(&self.eshop.get())
    }

    fn alters(&self, product: &Product, row: &SyncRow) -> bool {
        !product.eshops.contains(&self.eshop.get())
            || !diff(product, &self.given(product, row, &[]).fields).is_empty()
    }

    /// What the row gives, without what later syncs gave, and without an `active` that a later acceptance has decided.
    fn given<'r>(&self, product: &Product, row: &'r SyncRow, later: &[String]) -> Cow<'r, SyncRow> {
        let decided = row.fields.active.is_some() && product.active_acceptance > self.acceptance;
        if !decided && later.is_empty() {
            return Cow::Borrowed(row);
        }
        let mut row = row.clone();
        row.fields.forget(later);
        if decided {
            row.fields.active = None;
        }
        // what a product is and what it consists of belong together
        if later.iter().any(|field| field == "type" || field == "childrenProducts") {
            row.fields.kind = None;
            row.fields.children_products = None;
        }
        Cow::Owned(row)
    }

    fn plan_altered(
        &self,
        position: usize,
        row: &SyncRow,
        stored: &Product,
        later: &[String],
        plan: &mut Plan,
    ) {
        let given = self.given(stored, row, later);
        let mut changes = diff(stored, &given.fields);
        let switched = given.fields.active.is_some();
        let attached = !stored.eshops.contains(&self.eshop.get());
        if changes.is_empty() && !attached {
            return;
        }
        let mut product = stored.clone();
        given.into_owned().fields.write_to(&mut product);
        if let Some(violation) = bundle_rule(&product) {
            plan.refused.push((position, vec![violation]));
            return;
        }
        if attached {
            product.eshops.push(self.eshop.get());
            product.eshops.sort_unstable();
            let (old, new) = (serde_json::json!(stored.eshops), serde_json::json!(product.eshops));
            changes.insert(0, FieldChange { field: "eshops", old, new });
        }
        let recomposed = stored.children_products != product.children_products;
        let references = References::of_row(Some(stored), &product);
        plan.altered.push(Altered { position, product, references, changes, recomposed, switched });
    }

    fn plan_new(&self, position: usize, row: &SyncRow, plan: &mut Plan) {
        // the times of a new product are those of Postgres; these are never read
        match row.clone().into_product(ids::new_id(), self.organisation, self.eshop, DateTime::UNIX_EPOCH) {
            Ok(product) => {
                let (references, changes) = (References::of_row(None, &product), creation(&product));
                plan.new.push(New { position, product, references, changes });
            }
            Err(violations) => plan.refused.push((position, violations)),
        }
    }

    /// Refuses rows with references to records that do not exist or that the caller may not see, and rows of products that
    /// must stay physical.
    async fn judge_references(&self, tx: &mut PgConnection, plan: &mut Plan) -> Result<(), sqlx::Error> {
        let altered = plan.altered.iter().map(|a| &a.references);
        let planned = altered.chain(plan.new.iter().map(|n| &n.references));
        let wanted: Vec<&References> = planned.filter(|references| !references.is_empty()).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let parts: Vec<Uuid> = wanted.iter().flat_map(|references| references.children()).collect();
        if !parts.is_empty() {
            lock_parts(tx, self.organisation, &parts).await?;
        }
        let found = look_up(tx, self.organisation, self.bound.then_some(self.eshop), &wanted).await?;
        let refused = &mut plan.refused;
        let mut keep = |position: usize, references: &References| {
            let violations = references.judge(&found);
            let is_good = violations.is_empty();
            if !is_good {
                refused.push((position, violations));
            }
            is_good
        };
        plan.altered.retain(|a| keep(a.position, &a.references));
        plan.new.retain(|n| keep(n.position, &n.references));
        Ok(())
    }

    /// Writes changed products, then new ones; returns the rows whose product was created concurrently.
    async fn write(
        &self,
        tx: &mut PgConnection,
        altered: Vec<Altered>,
        new: Vec<New>,
        recorded: &mut Recorded,
    ) -> Result<Vec<usize>, sqlx::Error> {
        if !altered.is_empty() {
            add(recorded, write::update(tx, *self, &altered).await?);
        }
        if new.is_empty() {
            return Ok(Vec::new());
        }
        let expected = new.len();
        let inserted = write::insert(tx, *self, &new).await?;
        let complete = usize::try_from(inserted.changed) == Ok(expected);
        add(recorded, inserted);
        if complete {
            return Ok(Vec::new());
        }
        let skus: Vec<&str> = new.iter().map(|n| n.product.product_sku.as_str()).collect();
        let there = by_sku(tx, self.organisation, self.eshop, &skus).await?;
        let ours = |n: &New| there.get(&n.product.product_sku).is_some_and(|p| p.id == n.product.id);
        Ok(new.iter().filter(|n| !ours(n)).map(|n| n.position).collect())
    }
}

fn add(sum: &mut Recorded, recorded: Recorded) {
    sum.changed += recorded.changed;
    sum.lanes.extend(recorded.lanes);
}
