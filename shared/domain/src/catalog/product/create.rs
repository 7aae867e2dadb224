//! Creating a product: looked up, judged, then one statement.

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::columns::{Columns, record_products};
use super::location;
use super::record::{Product, creation};
use super::references::{References, look_up};
use super::rules::{Body, blank, read_create};
use crate::account::belonging::no_such_organisation;
use longshore_kernel::access::Scope;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::{Change, Recorded};
use longshore_kernel::context::Context;
use longshore_kernel::ids::{self, EshopId};
use longshore_kernel::problem::{CONFLICT, Problem, with_found};
use longshore_kernel::quota::Kind;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;
use longshore_kernel::sqlstate::{is_contention, is_locked, is_refused_value};

/// How often a refused create is examined, and tried again if nothing is wrong with it any more.
const ATTEMPTS: usize = 3;

/// Creates a product. The statement inserts nothing unless all that the product refers to is there and
/// visible, so most creates are one statement; what is wrong with one is looked up after it was refused.
pub async fn create(services: &Services, context: &Context, body: Value) -> Result<Answer, Problem> {
    let body = read_create(body);
    let mut product = blank(ids::new_id(), body.organisation.unwrap_or_default(), services.clock.now());
    body.fields.clone().write_to(&mut product);
    product.eshops.sort_unstable();
    product.eshops.dedup();
    let scope = context.scope();
    let mut is_refused = !body.violations.is_empty()
        || body.bundle_rule(&product).is_some()
        || !scope.has_organisation(product.organisation);
    for _ in 0..=ATTEMPTS {
        let mut change = Change::begin_single(services, context.claim).await?;
        if is_refused {
            judge_references(change.connection(), scope, &body, &product).await?;
        }
        change.must_have_room(product.organisation, Kind::Product).await?;
        match insert(change.connection(), context, &product).await {
            Ok(recorded) if recorded.changed == 1 => {
                (product.created_at, product.changed_at) = (recorded.at, recorded.at);
                change.note(recorded);
                let answer = Answer::created(location(product.id), product.version, product.json()?);
                return change.answer(context.claim, answer).await;
            }
            Ok(_) => {}
            // a request that has waited for a row has waited long enough
            Err(error) if is_locked(&error) => return Err(error.into()),
            Err(error) if is_refused_value(&error) || is_contention(&error) => {}
            Err(error) => return Err(error.into()),
        }
        is_refused = true;
    }
    Err(Problem::new(&CONFLICT, "a record that the product refers to is being changed; try again"))
}

/// Finds every violation of the body.
async fn judge_references(
    connection: &mut PgConnection,
    scope: &Scope,
    body: &Body,
    product: &Product,
) -> Result<(), Problem> {
    let mut found: Vec<_> = body.bundle_rule(product).into_iter().collect();
    if let Some(organisation) = body.organisation {
        let eshops = body.fields.eshops.clone().unwrap_or_default();
        let wanted = References::of_body(None, &Product { eshops, ..product.clone() });
        let referents = look_up(connection, organisation, scope.eshop(), &[&wanted]).await?;
        if referents.organisation && scope.has_organisation(organisation) {
            found.extend(wanted.judge(&referents));
        } else {
            found.push(no_such_organisation());
        }
    }
    Problem::refuse(with_found(body.violations.clone(), found))
}

/// Inserts the product with its e-shops and children; nothing where one of them is not there, not visible to the caller, or
/// of another organisation, where a child is no physical product, or where another product has the SKU.
async fn insert(
    connection: &mut PgConnection,
    context: &Context,
    product: &Product,
) -> Result<Recorded, sqlx::Error> {
    let mut columns = Columns::default();
    columns.push(product, &creation(product));
    let children: Vec<Uuid> = product.children_products.iter().map(|c| c.product_id).collect();
    let quantities: Vec<i32> = product.children_products.iter().map(|c| c.quantity).collect();
    record_products!(
        record_change,
        connection,
        context.origin,
        "product.create",
        columns,
        [
            "WITH child AS MATERIALIZED (
                 SELECT id FROM product
                 WHERE id = ANY($35) AND organisation_id IS NOT DISTINCT FROM $33 AND type = 'physical'
                   AND ($37::uuid IS NULL
                        OR EXISTS (SELECT FROM product_eshop WHERE product_id = product.id AND eshop_id = $37))
                 ORDER BY id FOR SHARE
             ), given AS (
                 SELECT * FROM " arrays " AS g (" names ", changes, data)
             ), made AS (
                 INSERT INTO product (" names ", organisation_id, active_acceptance, created_at, changed_at)
                 SELECT " values ", $33, nextval('acceptance'), now(), now()
                 FROM given g
                 WHERE (SELECT count(*) FROM child) = cardinality($35::uuid[])
                   AND (SELECT count(*) FROM eshop
                        WHERE id = ANY($34) AND organisation_id IS NOT DISTINCT FROM $33 AND ($37::uuid IS NULL OR id = $37))
                       = cardinality($34::uuid[])
                   AND EXISTS (SELECT FROM packaging_option WHERE code = g.packaging_type)
                 ON CONFLICT ON CONSTRAINT product_sku_is_unique_in_the_organisation DO NOTHING
                 RETURNING id, version, changed_at, organisation_id
             ), sold AS (
                 INSERT INTO product_eshop (product_id, eshop_id) SELECT id, unnest($34::uuid[]) FROM made
             ), composed AS (
                 INSERT INTO product_child (bundle_id, product_id, quantity, position)
                 SELECT made.id, c.id, c.quantity, c.position
                 FROM made, unnest($35::uuid[], $36::integer[]) WITH ORDINALITY AS c (id, quantity, position)
             ), changed AS (
                 SELECT made.id AS entity, version, changed_at AS at, organisation_id AS organisation, $34::uuid[] AS eshops,
                        g.changes::jsonb AS changes, g.data::jsonb AS data
                 FROM made, given g
             )"
        ],
        product.organisation.get(),
        &product.eshops,
        &children,
        &quantities,
        context.scope().eshop() as Option<EshopId>,
    )
    .await
}
