//! Syncs of callers bound to an e-shop, which cannot change products of other e-shops.

use longshore_domain::partner::push::Push;
use longshore_kernel::access::Scope;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;
use longshore_kernel::migration::MIGRATIONS;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_caller_bound_to_an_eshop_cannot_take_over_or_change_products_of_another(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let theirs = World::new(&options).await;
    let mut ours = theirs.sister().await;
    let first = theirs.sync(Push::Products, [r#"{"productSku":"T","name":"Theirs"}"#]).await;
    theirs.drain().await;
    assert_eq!(theirs.outcome(first).await, ("succeeded".to_owned(), [1, 0, 0]));
    let before: String = record(&theirs, "T").await;

    let rows = [
        r#"{"productSku":"T","name":"Ours","active":false}"#,
        r#"{"productSku":"O","name":"Ours"}"#,
        r#"{"productSku":"T2","name":"Ours"}"#,
    ];
    let (organisation, eshop) = (ours.tenant.organisation, ours.tenant.eshop);
    ours.context.caller.scope = Scope::Eshop { organisation, eshop };
    let job = ours.sync(Push::Products, rows).await;
    ours.drain().await;
    assert_eq!(ours.outcome(job).await, ("succeeded".to_owned(), [2, 0, 1]));
    let errors = ours.errors(job).await;
    assert_eq!(errors.len(), 1);
    assert!(errors[0].contains("not_allowed"), "{errors:?}");
    assert_eq!(record(&ours, "T").await, before, "it is as it was, in the e-shop where it was");

    // it changes its own products as usual, even when they are in another e-shop, too
    theirs.sync(Push::Products, [r#"{"productSku":"O","name":"Both"}"#]).await;
    theirs.drain().await;
    let again = ours.sync(Push::Products, [r#"{"productSku":"O","name":"Ours again"}"#]).await;
    ours.drain().await;
    assert_eq!(ours.outcome(again).await, ("succeeded".to_owned(), [1, 0, 0]));

    // a caller without that restriction may take it over
    ours.context.caller.scope = Scope::Organisations([organisation].into());
    let unbound = ours.sync(Push::Products, [r#"{"productSku":"T","name":"Ours"}"#]).await;
    ours.drain().await;
    assert_eq!(ours.outcome(unbound).await, ("succeeded".to_owned(), [1, 0, 0]));
}

async fn record(world: &World, sku: &str) -> String {
    sqlx::query_scalar(
        "SELECT to_jsonb(p)::text || (SELECT jsonb_agg(e.eshop_id ORDER BY 1) FROM product_eshop e WHERE e.product_id = p.id)::text
         FROM product p WHERE product_sku = $1",
    )
    .bind(sku)
    .fetch_one(&world.owner)
    .await
    .unwrap()
}
