//! An order that is edited while it is being sent: the stocks were made for what it was, and it is booked as what it has become.

use longshore_domain::expedition::command::{self, Command};
use longshore_domain::expedition::{bulk, edit};
use longshore_domain::job::kind::SendExpeditions;
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::migration::MIGRATIONS;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::support::{Place, id};

const SEND: Command = Command::Send { rebook: false };

/// Edits an order and sends it meanwhile: the edit holds the lock of the order, and is committed once `send` waits for that.
async fn send_while_edited(
    place: &Place,
    order: ExpeditionId,
    edited: Value,
    send: impl Future<Output = ()>,
) {
    let world = &place.world;
    let mut holder = world.owner.begin().await.unwrap();
    sqlx::query("SELECT FROM expedition_detail WHERE id = $1 FOR UPDATE")
        .bind(order)
        .execute(&mut *holder)
        .await
        .unwrap();
    let edit = edit::update(&world.services, &world.context, order, edited, |_| Ok(()));
    let send = async {
        world.until_blocked(1).await;
        send.await;
    };
    let commit = async {
        world.until_blocked(2).await;
        holder.commit().await.unwrap();
    };
    let (edited, (), ()) = tokio::join!(edit, send, commit);
    edited.unwrap();
}

/// Another wms of the warehouse.
async fn loft(place: &Place) -> Uuid {
    sqlx::query_scalar(
        "WITH made AS (
             INSERT INTO wms (id, organisation_id, name, distribution_center, store_key, internal_id)
             VALUES (uuid_v7(), $1, 'Loft', gen_random_uuid(), 'x', 'x') RETURNING id
         ), linked AS (
             INSERT INTO warehouse_wms (warehouse_id, wms_id) SELECT $2, id FROM made
         )
         SELECT id FROM made",
    )
    .bind(place.world.tenant.organisation)
    .bind(place.world.tenant.warehouse)
    .fetch_one(&place.world.owner)
    .await
    .unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_that_is_edited_while_it_is_sent_is_booked_as_what_it_has_become(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 3).await;
    place.count(&[(0, 5)]).await;
    let (services, context) = (&place.world.services, &place.world.context);
    let items = |product: usize| json!({"items": [{"productSku": format!("P{product}"), "quantity": 5}]});
    // what it has become has no stock in its place
    let cases = [
        ("items", items(1), false),
        ("wms", json!({"wms": loft(&place).await}), false),
        ("bulk", items(2), true),
    ];
    for (number, edited, is_bulk) in cases {
        let order = id(&place.create(place.body(number, &[(0, 5)])).await.unwrap());
        let send = async {
            if is_bulk {
                bulk::accept(services, context, SendExpeditions, vec![order]).await.unwrap();
                place.world.drain().await;
            } else {
                command::run(services, context, order, &SEND).await.unwrap();
            }
        };
        Box::pin(send_while_edited(&place, order, edited, send)).await;
        assert_eq!(place.status(order).await, "waiting_for_goods", "{number}");
        place.must_hold().await;
    }
    // what comes is booked once
    assert_eq!(place.stock(1).await, (0, 0, 5));
    place.count(&[(1, 5)]).await;
    place.allocate().await;
    let other = place.send("other", &[(1, 5)]).await;
    assert_eq!(place.status(other).await, "waiting_for_goods");
    assert_eq!(place.stock(1).await, (5, 5, 5));
    place.must_hold().await;
}
