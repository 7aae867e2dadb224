//! Product services.

use crate::product::MIGRATIONS;
use http::Method;
use longshore_kernel::access::Role;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::product::World;
use crate::support::strangers;

fn path(product: &str) -> String {
    format!("/api/product/{product}/service/inbound_localisation_check")
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_service_is_switched_on_and_off_audited_and_sent(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    world.webhook(api.tenant.eshop.get(), "product_change").await;
    let product = world.add("sku", json!({})).await;
    let [audits, events, _] = world.traces().await;
    let on = json!(["inbound_localisation_check"]);
    for (method, services, action, expected) in [
        (Method::PUT, on.clone(), "product.service_on", 1),
        (Method::PUT, on.clone(), "product.service_on", 1),
        (Method::DELETE, json!([]), "product.service_off", 2),
        (Method::DELETE, json!([]), "product.service_off", 2),
    ] {
        let reply =
            api.call_with(&api.superadmin, method, &path(&product), Value::Null, &[]).await.expect(204);
        assert_eq!(reply.text, "");
        assert_eq!(world.get(&product).await["services"], services);
        assert_eq!(world.audited(&product).await.0, action);
        let [now_audits, now_events, _] = world.traces().await;
        assert_eq!((now_audits - audits, now_events - events), (expected, expected));
        let data = world.last_event().await;
        assert_eq!((&data["changedFields"], &data["fields"]["services"]), (&json!(["services"]), &services));
    }
}

#[tokio::test]
async fn the_operator_and_its_admins_switch_services() {
    let world = World::new(&strangers().await).await;
    let api = &world.api;
    let product = world.add("sku", json!({})).await;
    let (_, theirs) = world.stranger().await;
    for (role, name) in Role::ALL {
        let token = api.tenant.token(&api.services, role).await.unwrap();
        let may = [Role::Superadmin, Role::Admin].contains(&role);
        for method in [Method::PUT, Method::DELETE] {
            let reply = api.call_with(&token, method, &path(&product), Value::Null, &[]).await;
            assert_eq!(reply.status.as_u16(), if may { 204 } else { 403 }, "{name}: {}", reply.text);
        }
    }
    let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    api.put(&admin, &path(&theirs), Value::Null).await.expect(404);
    api.put("", &path(&product), Value::Null).await.expect(401);
    api.put(&admin, "/api/product/7/service/inbound_localisation_check", Value::Null).await.expect(400);
    let unknown = format!("/api/product/{product}/service/polishing");
    api.put(&admin, &unknown, Value::Null).await.expect(404);
    api.delete(&admin, &unknown).await.expect(404);
}
