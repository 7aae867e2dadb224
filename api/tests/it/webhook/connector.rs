//! Webhooks and readers of connectors (`docs/reference/roles.md#connectors`).

use longshore_domain::account::token::made;

use super::criteria::told;
use super::*;
use crate::stock_advice::{self, advice};

const TOKENS: &str = "/api/access-token";
const READERS: &str = "/api/event-reader";

/// A token, as somebody who administers the organisation makes it: its id and itself.
async fn token(api: &Api, admin: &str, fields: Value) -> (String, String) {
    let mut body = json!({"name": "connector"});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let made = api.post(admin, TOKENS, body).await.expect(201).json();
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("id"), text("token"))
}

/// The id of what a token makes at a path.
async fn makes(api: &Api, token: &str, path: &str, body: Value) -> String {
    api.post(token, path, body).await.expect(201).json()["id"].as_str().unwrap().to_owned()
}

fn reader(eshop: &Value) -> Value {
    json!({"eshop": eshop, "name": "ERP"})
}

#[tokio::test]
async fn a_connector_has_what_its_token_made() {
    let api = Api::new(&strangers().await).await;
    let stranger = api.tenant.token(&api.services, Role::Connector).await.unwrap();
    let hook = makes(&api, &api.connector, PATH, webhook(&api)).await;
    let ours = makes(&api, &api.user, PATH, webhook(&api)).await;
    let path = format!("{PATH}/{hook}");
    let test = api.post(&api.connector, &format!("{path}/test"), Value::Null).await.expect(202).json();
    let delivery = format!("/api/webhook-delivery/{}", test["id"].as_str().unwrap());
    let listed = async |token: &str, path: &str| {
        let body = json!({"criteria": {"organisation": {"eq": api.tenant.organisation}}});
        api.post(token, path, body).await.expect(200).json()["paging"]["total"].as_i64().unwrap()
    };
    for (token, hooks) in [(&api.connector, 1), (&stranger, 0), (&api.user, 2), (&api.viewer, 2)] {
        let is_seen = hooks > 0;
        let status = if is_seen { 200 } else { 404 };
        assert_eq!(listed(token, &format!("{PATH}/list")).await, hooks);
        assert_eq!(listed(token, "/api/webhook-delivery/list").await, i64::from(is_seen));
        for path in [path.clone(), delivery.clone(), format!("{delivery}/body")] {
            api.get(token, &path).await.expect(status);
        }
    }
    let shown = api.get(&api.user, &path).await.expect(200).json();
    let maker = json!({"type": "token", "id": shown["createdBy"]["id"], "name": "connector of a test"});
    assert_eq!(shown["createdBy"], maker);

    // each operation on one of somebody else finds nothing
    let since = json!({"since": "2026-01-01T00:00:00Z"});
    for (token, hook, is_own) in
        [(&api.connector, &hook, true), (&api.connector, &ours, false), (&stranger, &hook, false)]
    {
        let path = format!("{PATH}/{hook}");
        let of = |own: u16| if is_own { own } else { 404 };
        let rate = json!({"maxPerSecond": 5});
        api.put(token, &path, rate).await.expect(of(200));
        api.put(token, &format!("{PATH}/deactivate/{hook}"), Value::Null).await.expect(of(204));
        api.put(token, &format!("{PATH}/activate/{hook}"), Value::Null).await.expect(of(204));
        api.put(token, &format!("{path}/rotate-secret"), Value::Null).await.expect(of(200));
        api.post(token, &format!("{path}/test"), Value::Null).await.expect(of(202));
        api.post(token, &format!("{path}/recover"), since.clone()).await.expect(of(202));
        if !is_own {
            api.delete(token, &path).await.expect(404);
        }
        let redelivery = format!("/api/webhook-delivery/redeliver/{}", test["id"].as_str().unwrap());
        api.put(token, &redelivery, Value::Null).await.expect(403);
    }
    // four of each
    for _ in 1..4 {
        makes(&api, &api.connector, PATH, webhook(&api)).await;
    }
    let refused = api.post(&api.connector, PATH, webhook(&api)).await.expect(409).json();
    assert_eq!(refused["code"], "quota_reached");
    assert!(refused["detail"].as_str().unwrap().starts_with("this token has 4 webhooks"), "{refused}");
    let body = reader(&json!(api.tenant.eshop));
    let first = makes(&api, &api.connector, READERS, body.clone()).await;
    for _ in 1..4 {
        makes(&api, &api.connector, READERS, body.clone()).await;
    }
    api.post(&api.connector, READERS, body.clone()).await.expect(409);
    makes(&api, &stranger, READERS, body).await;
    for path in [format!("{READERS}/{first}"), format!("{READERS}/{first}/events")] {
        api.get(&api.connector, &path).await.expect(200);
        api.get(&api.user, &path).await.expect(200);
        api.get(&stranger, &path).await.expect(404);
    }
    assert_eq!(listed(&stranger, &format!("{READERS}/list")).await, 1);
    api.delete(&stranger, &format!("{READERS}/{first}")).await.expect(404);
    // what was read is sent back, whatever waits meanwhile
    let read = api.get(&api.connector, &path).await.expect(200).json();
    let product = json!({"eshops": [api.tenant.eshop], "organisation": api.tenant.organisation, "productSku": "mug",
        "internalSku": "mug", "name": "Mug", "imeiCheckRequired": false, "active": true});
    makes(&api, &api.user, "/api/product", product).await;
    assert_ne!(api.get(&api.connector, &path).await.expect(200).json()["backlog"], read["backlog"]);
    api.put(&api.connector, &path, read).await.expect(200);
    let path_of_reader = format!("{READERS}/{first}");
    let read = api.get(&api.connector, &path_of_reader).await.expect(200).json();
    api.get(&api.connector, &format!("{path_of_reader}/events")).await.expect(200);
    api.put(&api.connector, &path_of_reader, read).await.expect(200);
    for path in [path, path_of_reader] {
        api.delete(&api.connector, &path).await.expect(204);
        for (token, status) in [(&api.connector, 410), (&api.user, 410), (&stranger, 404)] {
            api.get(token, &path).await.expect(status);
            api.put(token, &path, json!({})).await.expect(status);
        }
    }
}

#[tokio::test]
async fn who_is_bound_to_an_eshop_hears_of_its_products_only() {
    let options = strangers().await;
    let api = Api::new(&options).await;
    let bound = api.tenant.eshop_token(&api.services).await.unwrap();
    let first = json!(api.tenant.eshop);
    // another e-shop with the same warehouse
    let second = json!({"organisation": api.tenant.organisation, "name": "Second", "active": true,
        "warehouses": [api.tenant.warehouse]});
    let second = api.post(&api.superadmin, "/api/eshop", second).await.expect(201).json()["id"].clone();
    let all = json!({"eshop": first, "event": "*", "destination": "https://shop.example/hook"});
    let theirs = makes(&api, &bound, PATH, all.clone()).await;
    let ours = makes(&api, &api.user, PATH, all.clone()).await;
    let [bound_reads, user_reads] = [&bound, &api.user].map(async |token| {
        let id = makes(&api, token, READERS, reader(&first)).await;
        (token, format!("{READERS}/{id}/events"))
    });
    let (bound_reads, user_reads) = (bound_reads.await, user_reads.await);
    for whose in [json!({"eshop": second}), json!({"organisation": api.tenant.organisation})] {
        let mut body = all.clone();
        body.as_object_mut().unwrap().remove("eshop");
        body.as_object_mut().unwrap().extend(whose.as_object().unwrap().clone());
        let refused = api.post(&bound, PATH, body).await.expect(400).violations();
        assert!(refused[0].ends_with("unknown_reference"), "{refused:?}");
    }

    let owner = PgPool::connect_with(options).await.unwrap();
    let supplier = sqlx::query_scalar(
        "INSERT INTO supplier (id, organisation_id, name, active) VALUES (uuid_v7(), $1, 'Potter', true) RETURNING id",
    );
    let supplier: Uuid = supplier.bind(api.tenant.organisation.get()).fetch_one(&owner).await.unwrap();
    let mut heard = Vec::new();
    for (sku, eshop) in [("here", &first), ("there", &second)] {
        let product = json!({"eshops": [eshop], "organisation": api.tenant.organisation, "productSku": sku,
            "internalSku": sku, "name": "Mug", "imeiCheckRequired": false, "active": true});
        let product = makes(&api, &api.user, "/api/product", product).await;
        let body = advice(&api.tenant, supplier, sku, &[(&product, 5)]);
        let advice = makes(&api, &api.user, stock_advice::PATH, body).await;
        heard.push((product, advice));
    }
    // the second receipt leaves the status as it was, which nobody hears of
    let advice =
        api.get(&api.user, &format!("{}/{}", stock_advice::PATH, heard[1].1)).await.expect(200).json();
    for _ in 0..2 {
        let receipt = stock_advice::receipt(&advice, &[(0, 1)], false);
        api.put(&api.user, &stock_advice::path(&advice, "receive"), receipt).await.expect(200);
    }
    // a job of the organisation
    let recover = format!("{PATH}/{}/recover", of_all(&api).await);
    let since = json!({"since": "2026-01-01T00:00:00Z"});
    let job = api.post(&api.user, &recover, since).await.expect(202).json()["id"].clone();
    api.put(&api.user, &format!("/api/job/cancel/{}", job.as_str().unwrap()), Value::Null).await.expect(200);

    let about = |bodies: &[Value], kind: &str, member: &str| -> Vec<Value> {
        let of_kind = bodies.iter().filter(|body| body["type"] == kind);
        let mut found: Vec<Value> = of_kind.map(|body| body["data"][member].clone()).collect();
        found.dedup();
        found
    };
    let read = async |(token, path): &(&String, String)| -> Vec<Value> {
        let page = api.get(token, path).await.expect(200).json();
        page["events"].as_array().unwrap().clone()
    };
    let stocks = ["here", "there"].map(|sku| json!(sku));
    let advices = [json!(heard[0].1), json!(heard[1].1)];
    for (bodies, is_bound) in [
        (told(&api, &theirs).await, true),
        (told(&api, &ours).await, false),
        (read(&bound_reads).await, true),
        (read(&user_reads).await, false),
    ] {
        let known = if is_bound { 1 } else { 2 };
        assert_eq!(about(&bodies, "product_stock_change", "productSku"), stocks[..known], "{is_bound}");
        assert_eq!(about(&bodies, "stock_advice_status_change", "id"), advices[..known], "{is_bound}");
        assert_eq!(about(&bodies, "product_change", "productSku"), stocks[..1], "{is_bound}");
        assert_eq!(about(&bodies, "job_finished", "id").len(), usize::from(!is_bound));
        let text = json!(bodies).to_string();
        assert!(!is_bound || !text.contains(second.as_str().unwrap()), "{text}");
    }
    // nor by trying
    let trial = json!({"eshop": first, "event": "product_stock_change"});
    let looked = async |token: &str| {
        let tried = api.post(token, &format!("{PATH}/try"), trial.clone()).await.expect(200).json();
        tried["looked"].as_i64().unwrap()
    };
    assert_eq!(looked(&bound).await, 1);
    assert!(looked(&api.user).await > 1);
}

/// A webhook of the organisation.
async fn of_all(api: &Api) -> String {
    let body = json!({"organisation": api.tenant.organisation, "event": "product_change",
        "destination": "https://erp.example/hook"});
    makes(api, &api.user, PATH, body).await
}

#[tokio::test]
async fn the_webhooks_of_a_token_end_with_it_unless_a_successor_has_them() {
    let options = strangers().await;
    let api = Api::new(&options).await;
    let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let connector = json!({"role": "connector", "organisation": api.tenant.organisation});
    let (first, one) = token(&api, &admin, connector.clone()).await;
    let hook = makes(&api, &one, PATH, webhook(&api)).await;
    let read = makes(&api, &one, READERS, reader(&json!(api.tenant.eshop))).await;
    let path = format!("{PATH}/{hook}");
    let state = async || {
        let shown = api.get(&api.user, &path).await.expect(200).json();
        (shown["active"].as_bool().unwrap(), shown["health"].clone(), shown["disabledReason"].clone())
    };
    let healthy = (true, json!("healthy"), Value::Null);
    let ended = (false, json!("disabled"), json!("the access token that made it has ended"));

    // the successor has all before the first one ends
    let (second, two) = token(&api, &admin, json!({"replaces": first})).await;
    let shown = api.get(&admin, &format!("{TOKENS}/{second}")).await.expect(200).json();
    assert_eq!((&shown["role"], &shown["organisation"]), (&json!("connector"), &connector["organisation"]));
    for (token, status) in [(&one, 404), (&two, 200)] {
        api.get(token, &path).await.expect(status);
        api.get(token, &format!("{READERS}/{read}/events")).await.expect(status);
    }
    api.delete(&admin, &format!("{TOKENS}/{first}")).await.expect(204);
    assert_eq!(state().await, healthy);
    // without one they end with it, in its transaction
    api.delete(&admin, &format!("{TOKENS}/{second}")).await.expect(204);
    assert_eq!(state().await, ended);
    // a process may believe it for seconds
    let _ = api.put(&two, &format!("{PATH}/activate/{hook}"), Value::Null).await;
    made::deactivate_left(&api.services).await.unwrap();
    assert_eq!(state().await, ended);
    // also a token that has ended can be replaced; who activates a webhook decides about it
    let (third, three) = token(&api, &admin, json!({"replaces": second, "expiresAt": null})).await;
    api.put(&three, &format!("{PATH}/activate/{hook}"), Value::Null).await.expect(204);
    let owner = PgPool::connect_with(options).await.unwrap();
    let expired = "UPDATE access_token SET expires_at = now() - interval '1 second' WHERE id = $1::uuid";
    sqlx::query(expired).bind(&third).execute(&owner).await.unwrap();
    assert_eq!(state().await, healthy);
    assert!(made::deactivate_left(&api.services).await.unwrap() > 0);
    assert_eq!(state().await, ended);
    // a person takes it over
    api.put(&api.user, &format!("{PATH}/activate/{hook}"), Value::Null).await.expect(204);
    made::deactivate_left(&api.services).await.unwrap();
    assert_eq!(state().await, healthy);
    let last = json!({"criteria": {"entity.id": {"eq": hook}, "action": {"eq": "webhook.disable"}},
        "sort": [{"field": "at", "order": "ASC"}]});
    let audit = api.post(&api.user, "/api/audit", last).await.expect(200).json();
    let actors = audit["results"].as_array().unwrap().iter().map(|one| one["actor"]["name"].clone());
    let actors: Vec<_> = actors.collect();
    assert_eq!((&actors[0], actors.last()), (&json!("admin of a test"), Some(&json!("upkeep"))));

    let other = Tenant::create(&api.services, "Toys").await.unwrap();
    let theirs = other.token(&api.services, Role::Admin).await.unwrap();
    for (admin, body, violation) in [
        (&theirs, json!({"replaces": first}), "replaces unknown_reference"),
        (&admin, json!({"replaces": Uuid::nil()}), "replaces unknown_reference"),
        (&admin, json!({"replaces": first, "role": "connector"}), "role contradiction"),
        (&admin, json!({"replaces": first, "eshop": api.tenant.eshop}), "eshop contradiction"),
        (&admin, json!({}), "role required"),
    ] {
        let mut body = body;
        body["name"] = json!("successor");
        assert_eq!(api.post(admin, TOKENS, body).await.expect(400).violations(), [violation]);
    }
    let (user, _) =
        token(&api, &admin, json!({"role": "user", "organisation": api.tenant.organisation})).await;
    let refused = api.post(&admin, TOKENS, json!({"name": "x", "replaces": user})).await.expect(400);
    assert_eq!(refused.violations(), ["replaces invalid"]);
}
