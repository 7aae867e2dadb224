//! Creating a product: looked up, judged, then one statement.

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::record::{Category, Product, changes_json, creation, event_data};
use super::references::{References, judge, look_up};
use super::rules::{Body, blank, read_create, violation};
use super::{ENTITY, EVENT, location};
use crate::platform::answer::Answer;
use crate::platform::change::{Change, Recorded};
use crate::platform::context::{Context, Origin};
use crate::platform::database::{is_contention, is_refused_value, violated_constraint};
use crate::platform::ids;
use crate::platform::problem::{CONFLICT, Problem, Violation};
use crate::platform::services::Services;
use crate::record_change;

/// How often a create is tried again when what it refers to changed between look-up and insert.
const ATTEMPTS: usize = 3;

/// Creates a product: 201 with the record.
pub async fn create(services: &Services, context: &Context, body: Value) -> Result<Answer, Problem> {
    let body = read_create(body);
    for _ in 0..ATTEMPTS {
        let mut change = Change::begin_single(services, context.claim).await?;
        let product = judged(change.connection(), services, context, &body).await?;
        match insert(&mut change, &context.origin, &product).await {
            Ok(recorded) if recorded.changed == 1 => {
                change.note(recorded);
                let answer = Answer::created(location(product.id), product.changed_at, product.json()?);
                return change.answer(context.claim, answer).await;
            }
            // a child is no physical product any more: looking again says which
            Ok(_) => {}
            Err(error) => refused(error)?,
        }
    }
    Err(Problem::new(&CONFLICT, "what the product refers to is being changed; try again"))
}

/// The product that the body makes, or everything that is wrong with it.
async fn judged(
    connection: &mut PgConnection,
    services: &Services,
    context: &Context,
    body: &Body,
) -> Result<Product, Problem> {
    let scope = context.scope();
    let mut violations = body.violations.clone();
    let given = &body.fields;
    let mut product = blank(ids::new_id(), body.organisation.unwrap_or_default(), services.clock.now());
    given.clone().write_to(&mut product);
    violations.extend(body.bundle_rule(&product));
    let mut is_taken = false;
    if let Some(organisation) = body.organisation {
        let wanted = References {
            organisation,
            eshops: given.eshops.clone().unwrap_or_default(),
            children: product.children_products.iter().map(|c| c.product_id).collect(),
            packaging_type: given.packaging_type.as_deref(),
            product_sku: given.product_sku.as_deref(),
            ..References::default()
        };
        let found = look_up(connection, scope, &wanted).await?;
        if found.organisation && scope.has_organisation(organisation) {
            violations.extend(judge(given, &wanted, &found));
            is_taken = found.is_taken;
        } else {
            let message = "there is no such organisation";
            violations.push(violation("organisation", "unknown_reference", message));
        }
        (product.created_at, product.changed_at) = (found.read_at, found.read_at);
    }
    refuse(violations, is_taken)?;
    product.eshops.sort_unstable();
    product.eshops.dedup();
    Ok(product)
}

/// What a refused statement means: a `productSku` that somebody else was faster to take, or, where `Ok`, something that
/// was there when it was looked up, and is not any more.
pub(super) fn refused(error: sqlx::Error) -> Result<(), Problem> {
    if violated_constraint(&error) == Some("product_sku_is_unique_in_the_organisation") {
        refuse(Vec::new(), true)
    } else if is_refused_value(&error) || is_contention(&error) {
        Ok(())
    } else {
        Err(error.into())
    }
}

/// Tells violations all at once; a taken `productSku` alone is a conflict.
pub(super) fn refuse(mut violations: Vec<Violation>, is_taken: bool) -> Result<(), Problem> {
    let message = "belongs to another product of the organisation";
    match (violations.is_empty(), is_taken) {
        (true, false) => Ok(()),
        (true, true) => Err(Problem::taken("productSku", message)),
        (false, _) => {
            if is_taken {
                violations.push(violation("productSku", "already_taken", message));
            }
            Err(Problem::invalid(violations))
        }
    }
}

/// Inserts the product with its e-shops and children; nothing when a child is no physical product any more.
async fn insert(
    change: &mut Change<'_>,
    origin: &Origin,
    product: &Product,
) -> Result<Recorded, sqlx::Error> {
    let changes = creation(product);
    let data = event_data(product.id, product.organisation, &product.product_sku, &changes);
    let children: Vec<Uuid> = product.children_products.iter().map(|c| c.product_id).collect();
    let quantities: Vec<i32> = product.children_products.iter().map(|c| c.quantity).collect();
    record_change!(
        change.connection(),
        origin,
        "product.create",
        ENTITY,
        EVENT,
        "WITH child AS MATERIALIZED (
             SELECT id FROM product
             WHERE id = ANY($35) AND organisation_id IS NOT DISTINCT FROM $10 AND type = 'physical' ORDER BY id FOR SHARE
         ), made AS (
             INSERT INTO product (id, organisation_id, product_sku, internal_sku, product_group, name, description,
                 weight, height, width, length, reference_numbers, packaging_type, imei_check_required,
                 work_around_sn_in, work_around_ean_sticker, work_around_warranty_inf, work_around_lot, active,
                 active_acceptance, country_of_origin, hs_code, type, category, created_at, changed_at)
             SELECT $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27,
                    nextval('acceptance'), $28, $29, $30, $31, $32, $32
             WHERE (SELECT count(*) FROM child) = cardinality($35::uuid[])
             RETURNING id, organisation_id
         ), sold AS (
             INSERT INTO product_eshop (product_id, eshop_id) SELECT id, unnest($33::uuid[]) FROM made
         ), composed AS (
             INSERT INTO product_child (bundle_id, product_id, quantity, position)
             SELECT made.id, c.id, c.quantity, c.position
             FROM made, unnest($35::uuid[], $36::integer[]) WITH ORDINALITY AS c (id, quantity, position)
         ), changed AS (
             SELECT id AS entity, organisation_id AS organisation, $33::uuid[] AS eshops, $37::jsonb AS changes,
                    $34::jsonb AS data
             FROM made
         )",
        product.id,
        product.organisation,
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
        product.changed_at,
        &product.eshops,
        data,
        &children,
        &quantities,
        changes_json(&changes),
    )
    .await
}
