//! Receipts of what left for an order, and of what came of a stock advice (`docs/reference/orders.md#receipts`).

use crate::product::MIGRATIONS;
use longshore_kernel::access::Role;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::World;
use crate::support::strangers;

impl World {
    async fn receipts(&self, token: &str, direction: &str, body: Value) -> Vec<Value> {
        let path = format!("/api/{direction}-receipt/list");
        let listed = self.api.post(token, &path, body).await.expect(200).json();
        listed["results"].as_array().unwrap().clone()
    }

    async fn movements(&self, criteria: Value) -> Vec<Value> {
        let body = json!({"criteria": criteria, "sort": [{"field": "createdAt"}]});
        let listed = self.api.post(&self.api.user, "/api/stock-movement/list", body).await.expect(200).json();
        listed["results"].as_array().unwrap().clone()
    }
}

#[tokio::test]
async fn a_packed_order_has_one_receipt_of_what_left() {
    let world = World::new(&strangers().await).await;
    world.stock_up(&world.lamp, 10).await;
    let user = &world.api.user;
    let items = json!([
        {"product": world.mug, "quantity": 3}, {"product": world.lamp, "quantity": 2}, {"product": world.mug, "quantity": 1},
    ]);
    let order = world.sent("1", &json!({"items": items})).await;
    assert_eq!(world.receipts(user, "outbound", Value::Null).await, [] as [Value; 0]);
    world.report(&order, json!({"status": "take_out"})).await.expect(200);
    assert_eq!(world.receipts(user, "outbound", Value::Null).await, [] as [Value; 0]);
    let left = json!([{"id": order["items"][0]["id"], "expedited": 2}, {"id": order["items"][2]["id"], "expedited": 1}]);
    let packed = json!({"status": "waiting_for_the_carrier", "items": left});
    let packed = world.report(&order, packed).await.expect(200).json();
    world.report(&order, json!({"status": "delivered"})).await.expect(200);
    let receipts = world.receipts(user, "outbound", Value::Null).await;
    let tenant = &world.api.tenant;
    let expected = json!({
        "id": order["id"], "expedition": order["id"], "organisation": tenant.organisation, "warehouse": tenant.warehouse,
        "wms": tenant.wms, "wmsInternalId": null, "issuedAt": packed["packedAt"], "createdAt": packed["packedAt"],
        "countOfItems": 2, "countOfSku": 1, "sumOfQuantity": 3, "status": "processed",
    });
    assert_eq!(receipts, [expected]);
    let movements = world.movements(json!({"outboundReceipt.expedition.orderNumber": {"eq": "1"}})).await;
    assert_eq!(movements.len(), 2);
    for movement in &movements {
        assert_eq!((&movement["outboundReceipt"], &movement["inboundReceipt"]), (&order["id"], &Value::Null));
    }
    // an order that shipped nothing is packed, too
    let order = world.sent("2", &json!({})).await;
    world
        .report(
            &order,
            json!({"status": "delivered", "items": [{"id": order["items"][0]["id"], "expedited": 0}]}),
        )
        .await
        .expect(200);
    let nothing = json!({"criteria": {"expedition": {"eq": order["id"]}}});
    let receipts = world.receipts(user, "outbound", nothing).await;
    assert_eq!((&receipts[0]["countOfItems"], &receipts[0]["sumOfQuantity"]), (&json!(0), &json!(0)));
    let sorted = json!({"sort": [{"field": "sumOfQuantity"}], "select": ["sumOfQuantity"]});
    assert_eq!(
        world.receipts(user, "outbound", sorted).await,
        [json!({"sumOfQuantity": 0}), json!({"sumOfQuantity": 3})]
    );
    world.must_hold().await;
}

#[tokio::test]
async fn each_time_that_goods_come_is_one_receipt() {
    let world = World::new(&strangers().await).await;
    let advice = world.announce("PO-7", &[(&world.mug, 10), (&world.lamp, 5), (&world.mug, 2)]).await;
    let of_it = json!({"criteria": {"stockAdvice": {"eq": advice["id"]}}});
    let user = &world.api.user;
    world.receive(&advice, &[(0, 4), (2, 3)], false).await.expect(200);
    world.receive(&advice, &[(1, 5)], false).await.expect(200);
    let receipts = world.receipts(user, "inbound", of_it.clone()).await;
    let counts: Vec<_> = receipts
        .iter()
        .map(|r| [&r["countOfItems"], &r["countOfSku"], &r["sumOfQuantity"]].map(|n| n.as_i64().unwrap()))
        .collect();
    assert_eq!(counts, [[2, 1, 7], [1, 1, 5]]);
    let (first, tenant) = (&receipts[0], &world.api.tenant);
    assert_eq!(
        (&first["stockAdvice"], &first["organisation"], &first["warehouse"], &first["wms"], &first["status"]),
        (
            &advice["id"],
            &json!(tenant.organisation),
            &json!(tenant.warehouse),
            &json!(tenant.wms),
            &json!("processed")
        )
    );
    assert_eq!((&first["receivedAt"], &first["wmsInternalId"]), (&first["createdAt"], &Value::Null));
    // what moved with it names it; what is only announced or withdrawn moves nothing
    let movements = world.movements(json!({"inboundReceipt": {"eq": first["id"]}})).await;
    let moved: Vec<_> =
        movements.iter().map(|m| (&m["product"], &m["quantity"], &m["outboundReceipt"])).collect();
    assert_eq!(moved, [(&json!(world.mug), &json!(7), &Value::Null)]);
    // closing alone brings nothing
    world.receive(&advice, &[], true).await.expect(200);
    assert_eq!(world.receipts(user, "inbound", of_it).await.len(), 2);
    world.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn receipts_are_read_by_those_of_their_scope(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    let tenant = &api.tenant;
    let order = world.at("delivered", "1").await;
    let other = Tenant::create(&api.services, "Toys").await.unwrap();
    let foreign = other.token(&api.services, Role::User).await.unwrap();
    let token = async |body: Value| {
        let made = api.post(&api.superadmin, "/api/access-token", body).await.expect(201).json();
        made["token"].as_str().unwrap().to_owned()
    };
    let wms = json!({"organisation": tenant.organisation, "name": "Second", "distributionCenter": tenant.organisation,
                     "storeKey": "k", "internalId": "9"});
    let wms = api.post(&api.superadmin, "/api/wms", wms).await.expect(201).json()["id"].clone();
    let eshop = json!({"organisation": tenant.organisation, "name": "Second", "active": true});
    let eshop = api.post(&api.superadmin, "/api/eshop", eshop).await.expect(201).json()["id"].clone();
    let own_wms = token(
        json!({"name": "a", "role": "warehouse", "organisation": tenant.organisation, "wms": tenant.wms}),
    )
    .await;
    let other_wms =
        token(json!({"name": "b", "role": "warehouse", "organisation": tenant.organisation, "wms": wms}))
            .await;
    let connector = |name: &str, eshop: Value| json!({"name": name, "role": "connector", "organisation": tenant.organisation, "eshop": eshop});
    let own_eshop = token(connector("c", json!(tenant.eshop))).await;
    let other_eshop = token(connector("d", eshop)).await;
    // the receipt of the mugs that came before
    for (token, outbound, inbound) in [
        (&api.viewer, 1, 1),
        (&api.user, 1, 1),
        (&own_wms, 1, 1),
        (&other_wms, 0, 0),
        (&own_eshop, 1, 1),
        (&other_eshop, 0, 0),
        (&foreign, 0, 0),
    ] {
        assert_eq!(world.receipts(token, "outbound", Value::Null).await.len(), outbound);
        assert_eq!(world.receipts(token, "inbound", Value::Null).await.len(), inbound);
    }
    // of an order of another e-shop, a movement names neither it nor its receipt
    let body = json!({"criteria": {"movementSubType": {"eq": "completion"}}});
    let path = "/api/stock-movement/list";
    let seen = api.post(&own_eshop, path, body).await.expect(200).json();
    assert_eq!(seen["results"][0]["outboundReceipt"], order["id"]);
}
