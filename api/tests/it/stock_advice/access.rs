//! Permissions on stock advices (`docs/reference/roles.md#permissions`).

use http::Method;
use longshore_kernel::access::Role;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{PATH, World, advice, path, receipt, supplier};
use crate::support::strangers;

#[tokio::test]
async fn each_role_writes_and_reads_as_the_table_says() {
    let world = World::new(&strangers().await).await;
    let mug = world.add("mug", json!({})).await;
    let admin = world.api.tenant.token(&world.api.services, Role::Admin).await.unwrap();
    let bound = world.api.tenant.eshop_token(&world.api.services).await.unwrap();
    let api = &world.api;
    let made = world.announce("PO-0", &[(&mug, 1)]).await;
    for (number, (token, writes)) in [
        (&api.superadmin, true),
        (&admin, true),
        (&api.user, true),
        (&api.connector, false),
        (&bound, false),
        (&api.viewer, false),
    ]
    .into_iter()
    .enumerate()
    {
        let create = api.post(token, PATH, world.advice(&format!("PO-{}", number + 1), &[(&mug, 1)])).await;
        assert_eq!(create.status.as_u16(), if writes { 201 } else { 403 }, "{}", create.text);
        let target = if writes { create.json() } else { made.clone() };
        for (action, body) in [("receive", receipt(&target, &[(0, 1)], false)), ("cancel", Value::Null)] {
            let reply = api.put(token, &path(&target, action), body).await;
            assert_eq!(reply.status.as_u16(), if writes { 200 } else { 403 }, "{}", reply.text);
        }
        api.get(token, path(&made, "").trim_end_matches('/')).await.expect(200);
        api.post(token, &format!("{PATH}/list"), Value::Null).await.expect(200);
    }
    for token in ["", "lsh_nonsense"] {
        for (method, path) in [
            (Method::POST, PATH.to_owned()),
            (Method::POST, format!("{PATH}/list")),
            (Method::GET, format!("{PATH}/{}", Uuid::nil())),
            (Method::PUT, path(&made, "receive")),
            (Method::PUT, path(&made, "cancel")),
        ] {
            api.call_with(token, method, &path, Value::Null, &[]).await.expect(401);
        }
    }
}

#[tokio::test]
async fn a_connector_of_an_eshop_sees_advices_of_its_products_only() {
    let world = World::new(&strangers().await).await;
    let api = &world.api;
    let mug = world.add("mug", json!({})).await;
    let second = world.eshop().await;
    let neighbour = Tenant { eshop: second.into(), ..api.tenant.clone() };
    let neighbour = neighbour.eshop_token(&api.services).await.unwrap();
    let made = world.announce("PO-1", &[(&mug, 3)]).await;
    world.receive(&made, &[(0, 1)], false).await.expect(200);
    let seen = async || {
        let advice = api.get(&neighbour, path(&made, "").trim_end_matches('/')).await.status.as_u16();
        let mut totals = Vec::new();
        for list in [format!("{PATH}/list"), "/api/inbound-receipt/list".to_owned()] {
            let listed = api.post(&neighbour, &list, json!({"limit": 0})).await.expect(200).json();
            totals.push(listed["paging"]["total"].as_i64().unwrap());
        }
        (advice, totals)
    };
    assert_eq!(seen().await, (404, vec![0, 0]));
    world.put(&mug, json!({"eshops": [api.tenant.eshop, second]})).await.expect(200);
    assert_eq!(seen().await, (200, vec![1, 1]));
}

#[tokio::test]
async fn an_advice_of_another_organisation_is_not_found() {
    let world = World::new(&strangers().await).await;
    let (stranger, theirs) = world.stranger().await;
    let their_supplier = supplier(&world, stranger.organisation.get()).await;
    let body = advice(&stranger, their_supplier, "PO-1", &[(&theirs, 3)]);
    let made = world.api.post(&world.api.superadmin, PATH, body).await.expect(201).json();
    let unknown = json!({"id": Uuid::nil()});
    for advice in [&made, &unknown] {
        // even if the body would be refused
        for body in [receipt(&made, &[(0, 1)], false), json!({"colour": "red"})] {
            world.api.put(&world.api.user, &path(advice, "receive"), body).await.expect(404);
        }
        world.cancel(advice).await.expect(404);
        world.api.get(&world.api.user, path(advice, "").trim_end_matches('/')).await.expect(404);
    }
    world.api.put(&world.api.user, &format!("{PATH}/PO-1/cancel"), Value::Null).await.expect(400);
    let listed =
        world.api.post(&world.api.user, &format!("{PATH}/list"), Value::Null).await.expect(200).json();
    assert_eq!(listed["paging"]["total"], 0);
    assert_eq!(world.stock(&theirs).await, [0, 3]);
    let now =
        world.api.put(&world.api.superadmin, &path(&made, "cancel"), Value::Null).await.expect(200).json();
    assert_eq!(now["status"], "cancelled");
}
