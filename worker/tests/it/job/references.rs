//! What a product refers to is judged alike, whether a body or a row of a sync says it
//! (`docs/reference/records.md#references`).

use longshore_domain::catalog::product::create::create;
use longshore_domain::catalog::product::together::Batcher;
use longshore_domain::catalog::product::update::update;
use longshore_domain::partner::push::Push::Products;
use longshore_kernel::access::Scope;
use longshore_kernel::answer::Answer;
use longshore_kernel::migration::MIGRATIONS;
use longshore_kernel::problem::Problem;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::support::World;

const UNKNOWN: (&str, &str) = ("unknown_reference", "must be a product of the organisation");
const NOT_PHYSICAL: (&str, &str) = ("not_allowed", "must be a physical product");
const ITSELF: (&str, &str) = ("not_allowed", "must not be the bundle itself");

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_row_is_refused_for_what_a_body_is_refused_for_in_the_same_words(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut world = World::new(&options).await;
    let sister = world.sister().await;
    let stranger = World::over(world.services.clone(), &options).await;
    let rope = add(&world, &json!({"productSku": "ROPE", "name": "Rope"})).await;
    let voucher = add(&world, &json!({"productSku": "VOUCHER", "name": "Voucher", "type": "virtual"})).await;
    let hook = add(&sister, &json!({"productSku": "HOOK", "name": "Hook"})).await;
    let coupon = add(&sister, &json!({"productSku": "COUPON", "name": "Coupon", "type": "virtual"})).await;
    let theirs = add(&stranger, &json!({"productSku": "THEIRS", "name": "Theirs"})).await;
    let set = add(&world, &bundle("SET", &[rope])).await;

    let everyone = [(voucher, NOT_PHYSICAL), (set, NOT_PHYSICAL), (theirs, UNKNOWN), (Uuid::nil(), UNKNOWN)];
    let unbound = [(coupon, NOT_PHYSICAL)];
    let bound = [(hook, UNKNOWN), (coupon, UNKNOWN)];
    for is_bound in [false, true] {
        if is_bound {
            bind(&mut world);
        }
        let narrow = if is_bound { &bound[..] } else { &unbound };
        for (child, expected) in everyone.iter().chain(narrow) {
            let children = [rope, *child];
            let refused = violation("childrenProducts[1].productId", *expected);
            assert_eq!(
                refusal(create(&world.services, &world.context, body(&world, "NEW", &children)).await),
                refused
            );
            assert_eq!(row_refusal(&world, &bundle("NEW", &children)).await, refused, "bound: {is_bound}");
            let expected = if *child == set { ITSELF } else { *expected };
            let refused = violation("childrenProducts[1].productId", expected);
            let given = json!({"childrenProducts": parts(&children)});
            assert_eq!(
                refusal(
                    update(&world.services, &Batcher::default(), &world.context, set, given, |_| Ok(()))
                        .await
                ),
                refused
            );
            assert_eq!(row_refusal(&world, &bundle("SET", &children)).await, refused, "bound: {is_bound}");
        }
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn who_is_bound_to_an_eshop_keeps_the_parts_that_it_does_not_see(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut world = World::new(&options).await;
    let sister = world.sister().await;
    let hook = add(&sister, &json!({"productSku": "HOOK", "name": "Hook"})).await;
    let rope = add(&world, &json!({"productSku": "ROPE", "name": "Rope"})).await;
    // who sees the whole organisation takes parts of all its e-shops
    let set = add(&world, &bundle("SET", &[hook])).await;
    bind(&mut world);
    let given = json!({"name": "Hook and rope", "childrenProducts": parts(&[hook, rope])});
    update(&world.services, &Batcher::default(), &world.context, set, given, |_| Ok(())).await.unwrap();
    let mut row = bundle("SET", &[rope, hook]);
    row["name"] = json!("Rope and hook");
    let job = world.sync(Products, [row.to_string()]).await;
    world.drain().await;
    assert_eq!(world.errors(job).await, [""; 0]);
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 0, 0]));
    let kept: Vec<Uuid> = sqlx::query_scalar("SELECT product_id FROM product_child ORDER BY position")
        .fetch_all(&world.owner)
        .await
        .unwrap();
    assert_eq!(kept, [rope, hook]);
}

/// Binds the caller to its e-shop.
fn bind(world: &mut World) {
    let (organisation, eshop) = (world.tenant.organisation, world.tenant.eshop);
    world.context.caller.scope = Scope::Eshop { organisation, eshop };
}

/// Adds a product to the e-shop; answers its id.
async fn add(world: &World, row: &Value) -> Uuid {
    let job = world.sync(Products, [row.to_string()]).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 0, 0]), "{row}");
    sqlx::query_scalar("SELECT id FROM product WHERE organisation_id = $1 AND product_sku = $2")
        .bind(world.tenant.organisation)
        .bind(row["productSku"].as_str())
        .fetch_one(&world.owner)
        .await
        .unwrap()
}

fn parts(children: &[Uuid]) -> Value {
    children.iter().map(|id| json!({"productId": id, "quantity": 1})).collect()
}

/// The row of a bundle.
fn bundle(sku: &str, children: &[Uuid]) -> Value {
    json!({"productSku": sku, "name": "Set", "type": "bundle", "childrenProducts": parts(children)})
}

/// The body that says the same.
fn body(world: &World, sku: &str, children: &[Uuid]) -> Value {
    let mut body = bundle(sku, children);
    body["organisation"] = json!(world.tenant.organisation);
    body["eshops"] = json!([world.tenant.eshop]);
    body["internalSku"] = json!(sku);
    body["imeiCheckRequired"] = json!(false);
    body["active"] = json!(true);
    body
}

/// A code, and the sentence that names the path.
fn violation(path: &str, (code, message): (&str, &str)) -> (String, String) {
    (code.to_owned(), format!("{path} {message}"))
}

fn refusal(answer: Result<Answer, Problem>) -> (String, String) {
    match answer.unwrap_err().violations() {
        [only] => (only.code.to_owned(), only.to_string()),
        several => panic!("{several:?}"),
    }
}

async fn row_refusal(world: &World, row: &Value) -> (String, String) {
    let job = world.sync(Products, [row.to_string()]).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [0, 0, 1]), "{row}");
    sqlx::query_as("SELECT code, message FROM job_item_error WHERE job_id = $1")
        .bind(job)
        .fetch_one(&world.owner)
        .await
        .unwrap()
}
