use std::collections::BTreeSet;

use longshore_domain::expedition::bulk;
use longshore_domain::job::kind::{
    CancelExpeditions, Job, JobKind, ProcessExpeditions, RollBackExpeditions, SendExpeditions, Within,
};
use longshore_domain::partner::push::Push;
use longshore_kernel::ids::{ExpeditionId, JobId};
use longshore_kernel::migration::MIGRATIONS;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;
use super::{admin_bulk, redelivery, replay};

#[sqlx::test(migrator = "MIGRATIONS")]
async fn changes_of_a_job_are_audited_in_the_name_of_its_caller(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let products = world.products(2).await;
    let admins = admin_bulk::admins(&world, "admin", 1).await;
    let hook = world.webhook("test").await;
    for kind in JobKind::ALL {
        // each kind changes at least one record; a new kind must be added here
        let (job, action) = match kind {
            JobKind::ProductDeactivate => (world.switch(kind, &products).await, "product.deactivate"),
            JobKind::ProductActivate => {
                world.execute("UPDATE product SET active = false").await;
                (world.switch(kind, &products).await, "product.activate")
            }
            JobKind::ProductSync => {
                let row = r#"{"productSku":"P0","name":"Another name"}"#;
                (world.sync(Push::Products, [row]).await, "product.sync")
            }
            JobKind::AdminActivate => {
                world.execute("UPDATE admin SET active = false").await;
                (admin_bulk::accept(&world, kind, &admins).await.unwrap(), "admin.activate")
            }
            JobKind::AdminDeactivate => {
                world.execute("UPDATE admin SET active = true").await;
                (admin_bulk::accept(&world, kind, &admins).await.unwrap(), "admin.deactivate")
            }
            JobKind::AdminDelete => {
                (admin_bulk::accept(&world, kind, &admins).await.unwrap(), "admin.delete")
            }
            JobKind::WebhookRecover => {
                redelivery::ended(&world, hook, "exhausted", 1).await;
                (redelivery::recover(&world, hook).await, "webhook.recover")
            }
            JobKind::WebhookRedeliver => {
                let ended = redelivery::ended(&world, hook, "delivered", 1).await;
                (redelivery::redeliver(&world, &ended).await, "delivery.redeliver")
            }
            JobKind::WebhookReplay => {
                redelivery::ended(&world, hook, "exhausted", 1).await;
                (
                    replay::replay(&world, json!({"webhooks": [hook], "since": "2020-01-01T00:00:00Z"}))
                        .await,
                    "webhook.replay",
                )
            }
            JobKind::ExpeditionSync => {
                world.execute("UPDATE product SET active = true").await;
                let row = r#"{"orderNumber":"A","value":1,"currency":"EUR","send":false,
                              "items":[{"productSku":"P0","quantity":1}]}"#;
                (world.sync(Push::Expeditions, [row]).await, "expedition.create")
            }
            JobKind::ExpeditionNews => {
                world.execute("UPDATE product_stock SET held = 1; UPDATE expedition SET status = 'awaiting_processing'").await;
                let news = json!({"id": "1", "eshop": world.tenant.eshop, "orderNumber": "A", "status": "incorrect",
                                  "errors": [{"message": "broken"}]});
                (world.sync(Push::News, [news.to_string()]).await, "expedition.news")
            }
            JobKind::ExpeditionSend => (bulk(&world, SendExpeditions).await, "expedition.send"),
            JobKind::ExpeditionProcess => {
                world
                    .execute("UPDATE product_stock SET held = 1; UPDATE expedition SET status = 'stock_ok'")
                    .await;
                (bulk(&world, ProcessExpeditions).await, "expedition.process")
            }
            JobKind::ExpeditionRollback => (bulk(&world, RollBackExpeditions).await, "expedition.hold"),
            JobKind::ExpeditionCancel => {
                let job = bulk(&world, CancelExpeditions).await;
                (job, "expedition.cancel")
            }
            // These change none of our records. The job of a send-out records what the partner accepted; who asked for a test
            // is recorded with its acceptance.
            JobKind::StockSend | JobKind::IntegrationTest | JobKind::WmsTest | JobKind::Preview => continue,
            JobKind::StockSync => (
                world.sync(Push::Stocks, [r#"{"productSku":"P0","quantity":3}"#]).await,
                "product_stock.sync",
            ),
        };
        world.drain().await;
        let left: Vec<(String, String, Option<String>)> = sqlx::query_as(
            "SELECT DISTINCT action, actor_name, request_id FROM audit WHERE job_id = $1 AND actor_type = 'token'",
        )
        .bind(job)
        .fetch_all(&world.owner)
        .await
        .unwrap();
        let actions: BTreeSet<&str> = left.iter().map(|(action, ..)| action.as_str()).collect();
        assert!(actions.contains(action), "{kind}: {left:?}");
        assert!(left.iter().all(|(_, actor, request)| actor == "test" && request.as_deref() == Some("r1")));
    }
}

/// Accepts an operation on all orders.
async fn bulk<J: Job>(world: &World, job: impl Fn(Within) -> J) -> JobId {
    let ids: Vec<ExpeditionId> =
        sqlx::query_scalar("SELECT id FROM expedition").fetch_all(&world.owner).await.unwrap();
    bulk::accept(&world.services, &world.context, job, ids).await.unwrap().job.unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_counted_stock_has_its_movements(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.products(2).await;
    for (first, second) in [(5, 0), (2, 0), (2, 7), (0, 7)] {
        let row =
            |product: usize, quantity: i32| format!(r#"{{"productSku":"P{product}","quantity":{quantity}}}"#);
        world.sync(Push::Stocks, [row(0, first), row(1, second)]).await;
        world.drain().await;
    }
    let moved: Vec<(String, i32, i32, String)> = sqlx::query_as(
        "SELECT p.product_sku, m.quantity, m.incoming, m.kind FROM stock_movement m
         JOIN product p ON p.id = m.product_id ORDER BY p.product_sku, m.id",
    )
    .fetch_all(&world.owner)
    .await
    .unwrap();
    let moved: Vec<_> = moved.iter().map(|(sku, n, _, kind)| (sku.as_str(), *n, kind.as_str())).collect();
    // a stock of zero is a row without a movement
    let counted = |sku, n| (sku, n, "counted");
    assert_eq!(moved, [counted("P0", 5), counted("P0", -3), counted("P0", -2), counted("P1", 7)]);
}
