//! Taking over the products of a partner (decisions, section 6): matched by `productSku` in the organisation, created when
//! new, updated where a given field differs, attached to the e-shop. Nothing is switched off for being absent.
//!
//! Set-based: one statement reads what is stored under the SKUs of a chunk; what the rows would change is found in memory
//! by the same [`diff`] that a single update uses; what differs is locked by id, looked at again, and
//! written by one statement, then what is new is inserted by another. A row that changes nothing costs its share of the
//! first statement.

use std::collections::{HashMap, HashSet};

use chrono::DateTime;
use sqlx::PgConnection;
use uuid::Uuid;

use super::record::{Child, FieldChange, Product, ProductType, creation, diff};
use super::references::STOCKED;
use super::rules::{SyncRow, bundle_rule, violation};
use crate::job::halving::{Statement, halve};
use crate::platform::change::{Change, Recorded};
use crate::platform::context::Origin;
use crate::platform::ids;
use crate::platform::problem::Violation;

mod read;
mod write;

use read::{by_id, by_sku, lock, lock_physical};
use write::confirm;

/// What the rows are for.
#[derive(Clone, Copy, Debug)]
pub struct Sync<'o> {
    /// Who asked for it.
    pub origin: &'o Origin,
    /// Organisation of the e-shop.
    pub organisation: Uuid,
    /// The e-shop that the products are sold in.
    pub eshop: Uuid,
    /// Number of the job's acceptance: a product that a later one has switched keeps its `active`.
    pub acceptance: i64,
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
    let halved = halve(change.connection(), rows, &sync).await?;
    let mut applied = Applied::default();
    for (part, (recorded, refused)) in halved.applied {
        applied.changed += usize::try_from(change.note(recorded)).unwrap_or(0);
        applied
            .refused
            .extend(refused.into_iter().map(|(position, violations)| (part.start + position, violations)));
    }
    for refused in halved.refused {
        applied.refused.push((refused.position, vec![violation("", "refused", &refused.message)]));
    }
    Ok(applied)
}

impl Statement<SyncRow> for Sync<'_> {
    type Out = (Recorded, Vec<(usize, Vec<Violation>)>);

    async fn apply(&self, tx: &mut PgConnection, rows: &[SyncRow]) -> Result<Self::Out, sqlx::Error> {
        let mut recorded = Recorded::default();
        let mut refused = Vec::new();
        let mut pending: Vec<usize> = (0..rows.len()).collect();
        // a product that somebody else creates between the look and the insert is found by the next look
        while !pending.is_empty() {
            let skus: Vec<&str> =
                pending.iter().filter_map(|&p| rows.get(p)).map(|row| row.product_sku.as_str()).collect();
            let stored = by_sku(tx, self.organisation, self.eshop, &skus).await?;
            let plan = self.plan(tx, rows, &pending, stored).await?;
            refused.extend(plan.refused);
            let lost = self.write(tx, rows, plan.altered, plan.new, &mut recorded).await?;
            pending = lost;
        }
        Ok((recorded, refused))
    }
}

/// A stored product as a row would have it.
struct Altered {
    position: usize,
    was: ProductType,
    product: Product,
    changes: Vec<FieldChange>,
    recomposed: bool,
}

/// A row's new product.
struct New {
    position: usize,
    product: Product,
    changes: Vec<FieldChange>,
}

#[derive(Default)]
struct Plan {
    altered: Vec<Altered>,
    new: Vec<New>,
    refused: Vec<(usize, Vec<Violation>)>,
}

impl Sync<'_> {
    /// Finds what the rows would change. What differs is locked by id, and looked at again under the lock.
    async fn plan(
        &self,
        tx: &mut PgConnection,
        rows: &[SyncRow],
        pending: &[usize],
        mut stored: HashMap<String, Product>,
    ) -> Result<Plan, sqlx::Error> {
        let mut differing: Vec<Uuid> = pending
            .iter()
            .filter_map(|&position| {
                let row = rows.get(position)?;
                let product = stored.get(&row.product_sku)?;
                self.alters(product, row).then_some(product.id)
            })
            .collect();
        if !differing.is_empty() {
            differing.sort_unstable();
            lock(tx, &differing).await?;
            stored.extend(by_id(tx, &differing).await?);
        }
        let mut plan = Plan::default();
        let mut confirmed = Vec::new();
        for &position in pending {
            let Some(row) = rows.get(position) else { continue };
            if row.fields.active.is_some() {
                confirmed.extend(stored.get(&row.product_sku).map(|p| p.id));
            }
            match stored.remove(&row.product_sku) {
                Some(product) => self.plan_altered(position, row, &product, &mut plan),
                None => self.plan_new(position, row, &mut plan),
            }
        }
        if !confirmed.is_empty() {
            confirm(tx, self.acceptance, &confirmed).await?;
        }
        self.judge_references(tx, rows, &mut plan).await?;
        Ok(plan)
    }

    fn alters(&self, product: &Product, row: &SyncRow) -> bool {
        !product.eshops.contains(&self.eshop) || !diff(product, &self.given(product, row).fields).is_empty()
    }

    /// What the row gives, without an `active` that a later acceptance has decided.
    fn given<'r>(&self, product: &Product, row: &'r SyncRow) -> std::borrow::Cow<'r, SyncRow> {
        if row.fields.active.is_some() && product.active_acceptance > self.acceptance {
            let mut row = row.clone();
            row.fields.active = None;
            std::borrow::Cow::Owned(row)
        } else {
            std::borrow::Cow::Borrowed(row)
        }
    }

    fn plan_altered(&self, position: usize, row: &SyncRow, stored: &Product, plan: &mut Plan) {
        let given = self.given(stored, row);
        let mut changes = diff(stored, &given.fields);
        let attached = !stored.eshops.contains(&self.eshop);
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
            product.eshops.push(self.eshop);
            product.eshops.sort_unstable();
            let (old, new) = (serde_json::json!(stored.eshops), serde_json::json!(product.eshops));
            changes.insert(0, FieldChange { field: "eshops", old, new });
        }
        let recomposed = stored.children_products != product.children_products;
        plan.altered.push(Altered { position, product, changes, recomposed, was: stored.kind });
    }

    fn plan_new(&self, position: usize, row: &SyncRow, plan: &mut Plan) {
        // the times of a new product are those of Postgres; these are never read
        match row.clone().into_product(ids::new_id(), self.organisation, self.eshop, DateTime::UNIX_EPOCH) {
            Ok(product) => plan.new.push(New { position, changes: creation(&product), product }),
            Err(violations) => plan.refused.push((position, violations)),
        }
    }

    /// Refuses what refers to something that is not there: packaging options, children; and what must stay physical.
    async fn judge_references(
        &self,
        tx: &mut PgConnection,
        rows: &[SyncRow],
        plan: &mut Plan,
    ) -> Result<(), sqlx::Error> {
        let planned = || {
            plan.altered
                .iter()
                .map(|a| (a.position, &a.product))
                .chain(plan.new.iter().map(|n| (n.position, &n.product)))
        };
        let given = |position: usize| rows.get(position).map(|row| &row.fields);
        let packaging: HashSet<&str> = planned()
            .filter(|(position, _)| given(*position).is_some_and(|g| g.packaging_type.is_some()))
            .map(|(_, product)| product.packaging_type.as_str())
            .collect();
        let children: HashSet<Uuid> = planned()
            .filter(|(position, _)| given(*position).is_some_and(|g| g.children_products.is_some()))
            .flat_map(|(_, product)| product.children_products.iter().map(|c| c.product_id))
            .collect();
        let turned: Vec<Uuid> = plan
            .altered
            .iter()
            .filter(|a| a.was == ProductType::Physical && a.product.kind != ProductType::Physical)
            .map(|a| a.product.id)
            .collect();
        if packaging.is_empty() && children.is_empty() && turned.is_empty() {
            return Ok(());
        }
        let packaging: Vec<&str> = packaging.into_iter().collect();
        let mut children: Vec<Uuid> = children.into_iter().collect();
        children.sort_unstable();
        let mut physical: HashSet<Uuid> = lock_physical(tx, self.organisation, &children).await?;
        // what this very chunk turns into something else can be no part either
        physical.retain(|id| !turned.contains(id));
        let found = sqlx::query!(
            r#"SELECT ARRAY(SELECT code FROM packaging_option WHERE code = ANY($1)) AS "packaging!",
                      ARRAY(SELECT DISTINCT product_id FROM product_child WHERE product_id = ANY($2)) AS "parts!: Vec<Uuid>",
                      ARRAY(SELECT product_id FROM product_stock
                            WHERE product_id = ANY($2)
                              AND (quantity, booked, missing, required, incoming) <> (0, 0, 0, 0, 0)
                            UNION
                            SELECT i.product_id FROM stock_advice_item i JOIN stock_advice a ON a.id = i.stock_advice_id
                            WHERE i.product_id = ANY($2) AND a.status IN ('new', 'receiving'))
                          AS "stocked!: Vec<Uuid>""#,
            &packaging as &[&str],
            &turned,
        )
        .fetch_one(tx)
        .await?;
        let judge = |position: usize, product: &Product| -> Vec<Violation> {
            let mut violations = Vec::new();
            let given = given(position);
            if given.is_some_and(|g| g.packaging_type.is_some())
                && !found.packaging.contains(&product.packaging_type)
            {
                violations.push(violation(
                    "packagingType",
                    "unknown_reference",
                    "must be a packaging option",
                ));
            }
            if given.is_some_and(|g| g.children_products.is_some()) {
                for (index, Child { product_id, .. }) in product.children_products.iter().enumerate() {
                    if !physical.contains(product_id) {
                        let path = format!("childrenProducts[{index}].productId");
                        let message = "must be a physical product of the organisation";
                        violations.push(violation(path, "unknown_reference", message));
                    }
                }
            }
            if turned.contains(&product.id) && found.parts.contains(&product.id) {
                let message = "must stay physical: the product is a child of a bundle";
                violations.push(violation("type", "not_allowed", message));
            }
            if turned.contains(&product.id) && found.stocked.contains(&product.id) {
                violations.push(violation("type", "in_stock", STOCKED));
            }
            violations
        };
        let refused = &mut plan.refused;
        let mut keep = |position: usize, product: &Product| {
            let violations = judge(position, product);
            let good = violations.is_empty();
            if !good {
                refused.push((position, violations));
            }
            good
        };
        plan.altered.retain(|a| keep(a.position, &a.product));
        plan.new.retain(|n| keep(n.position, &n.product));
        Ok(())
    }

    /// Writes what differs, then what is new; answers the rows whose new product somebody else was faster to create.
    async fn write(
        &self,
        tx: &mut PgConnection,
        rows: &[SyncRow],
        altered: Vec<Altered>,
        new: Vec<New>,
        recorded: &mut Recorded,
    ) -> Result<Vec<usize>, sqlx::Error> {
        if !altered.is_empty() {
            let switched = |a: &Altered| rows.get(a.position).is_some_and(|row| row.fields.active.is_some());
            add(recorded, write::update(tx, *self, &altered, switched).await?);
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
