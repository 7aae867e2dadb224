//! Reading products that callers may see.

use serde_json::{Value, json};
use sqlx::PgExecutor;
use uuid::Uuid;

use super::columns::product_query;
use super::record::{Category, Child, Product, ProductType};
use longshore_kernel::access::Scope;
use longshore_kernel::ids::{EshopId, OrganisationId};

/// One product that the caller may see.
pub(super) async fn find(
    executor: impl PgExecutor<'_>,
    scope: &Scope,
    id: Uuid,
) -> Result<Option<Product>, sqlx::Error> {
    product_query!(
        "p.id = $3 AND in_scope($1, p.organisation_id)
         AND ($2::uuid IS NULL OR EXISTS (SELECT FROM product_eshop WHERE product_id = p.id AND eshop_id = $2))",
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        id,
    )
    .fetch_optional(executor)
    .await
}

/// A requested product.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) scope: Scope,
    pub(super) id: Uuid,
}

impl Asked {
    fn sees(&self, product: &Product) -> bool {
        self.id == product.id
            && self.scope.has_organisation(product.organisation)
            && self.scope.eshop().is_none_or(|id| product.eshops.contains(&id.get()))
    }
}

/// The same for several callers, each with its own scope.
pub(super) async fn find_each(
    executor: impl PgExecutor<'_>,
    asked: &[Asked],
) -> Result<Vec<Option<Product>>, sqlx::Error> {
    let ids: Vec<Uuid> = asked.iter().map(|a| a.id).collect();
    // arrays of arrays cannot be unnested: each as JSON
    let organisations: Vec<Option<Value>> =
        asked.iter().map(|a| a.scope.organisations().map(|ids| json!(ids))).collect();
    let eshops: Vec<Option<EshopId>> = asked.iter().map(|a| a.scope.eshop()).collect();
    let found = product_query!(
        "p.id = ANY($1) AND EXISTS (
             SELECT FROM unnest($1::uuid[], $2::jsonb[], $3::uuid[]) AS asked (id, organisations, eshop)
             WHERE asked.id = p.id AND (asked.organisations IS NULL OR asked.organisations ? p.organisation_id::text)
               AND (asked.eshop IS NULL
                    OR EXISTS (SELECT FROM product_eshop WHERE product_id = p.id AND eshop_id = asked.eshop)))",
        &ids,
        &organisations as &[Option<Value>],
        &eshops as &[Option<EshopId>],
    )
    .fetch_all(executor)
    .await?;
    // two may ask for the same product, and only one of them may see it
    Ok(asked.iter().map(|asked| found.iter().find(|product| asked.sees(product)).cloned()).collect())
}
