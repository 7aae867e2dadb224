//! Which events a webhook is told of, and what of them (`docs/reference/webhooks.md#criteria`).

use super::*;

/// A webhook with these fields beside its e-shop and destination.
fn of(api: &Api, fields: &Value) -> Value {
    let mut body = json!({"eshop": api.tenant.eshop, "destination": "https://shop.example/hook"});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    body
}

async fn made(api: &Api, fields: Value) -> String {
    create(api, of(api, &fields)).await["id"].as_str().unwrap().to_owned()
}

/// A product with these fields, in the e-shop.
async fn product(api: &Api, sku: &str, fields: Value) -> String {
    let mut body = json!({"eshops": [api.tenant.eshop], "organisation": api.tenant.organisation, "productSku": sku,
        "internalSku": sku, "name": "Mug", "imeiCheckRequired": false, "active": true});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    api.post(&api.user, "/api/product", body).await.expect(201).json()["id"].as_str().unwrap().to_owned()
}

/// The bodies that a webhook is sent, the oldest first.
pub(super) async fn told(api: &Api, webhook: &str) -> Vec<Value> {
    let asked =
        json!({"criteria": {"webhook": {"eq": webhook}}, "sort": [{"field": "createdAt", "order": "ASC"}]});
    let deliveries = api.post(&api.user, "/api/webhook-delivery/list", asked).await.expect(200).json();
    let mut bodies = Vec::new();
    for delivery in deliveries["results"].as_array().unwrap() {
        let path = format!("/api/webhook-delivery/{}/body", delivery["id"].as_str().unwrap());
        bodies.push(api.get(&api.user, &path).await.expect(200).json());
    }
    bodies
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_meets_no_criteria_is_no_delivery_and_no_event(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    let pool = PgPool::connect_with(options).await.unwrap();
    let events =
        async || sqlx::query_scalar::<_, i64>("SELECT count(*) FROM event").fetch_one(&pool).await.unwrap();
    let heavy = json!({"event": "product_change", "criteria": {
        "data.fields.weight": {"gte": 500}, "data.changedFields": {"in": ["weight", "height"]}, "type": {"eq": "product_change"}}});
    let heavy = made(&api, heavy).await;
    let mug = product(&api, "mug", json!({"weight": 20})).await;
    assert_eq!(events().await, 0);
    let path = format!("/api/product/{mug}");
    api.put(&api.user, &path, json!({"weight": 500})).await.expect(200);
    api.put(&api.user, &path, json!({"name": "Cup"})).await.expect(200);
    api.put(&api.user, &path, json!({"weight": null})).await.expect(200);
    assert_eq!(events().await, 1);
    let bodies = told(&api, &heavy).await;
    assert_eq!(bodies.len(), 1);
    assert_eq!(bodies[0]["data"]["fields"], json!({"weight": 500}));
    // criteria that are changed hold for what comes then, and for that only
    let hook = format!("{PATH}/{heavy}");
    let like = json!({"criteria": {"data.productSku": {"like": "MU"}, "data.fields.weight": {"null": true}}});
    let stored = api.put(&api.user, &hook, like.clone()).await.expect(200).json();
    assert_eq!(stored["criteria"], like["criteria"]);
    api.put(&api.user, &path, json!({"name": "Bowl"})).await.expect(200);
    api.put(&api.user, &path, json!({"weight": 700})).await.expect(200);
    assert_eq!(told(&api, &heavy).await.len(), 2);
    api.put(&api.user, &hook, json!({"criteria": null})).await.expect(200);
    api.put(&api.user, &path, json!({"weight": 800})).await.expect(200);
    assert_eq!(told(&api, &heavy).await.len(), 3);
    let changes: Vec<Value> = sqlx::query_scalar(
        "SELECT changes -> 'criteria' FROM audit WHERE action IN ('webhook.create', 'webhook.update') ORDER BY id",
    )
    .fetch_all(&pool)
    .await
    .unwrap();
    assert_eq!(changes.len(), 3);
    assert_eq!(changes[2], json!([like["criteria"], null]));
}

#[tokio::test]
async fn a_value_that_an_event_is_too_large_for_does_not_hide_it() {
    let api = Api::new(&strangers().await).await;
    let hook =
        made(&api, json!({"event": "product_change", "criteria": {"data.fields.name": {"eq": "Mug"}}})).await;
    let mug = product(&api, "mug", json!({"name": "Cup"})).await;
    let many: Vec<String> = (0..90).map(|n| format!("{n}{}", "x".repeat(200))).collect();
    let path = format!("/api/product/{mug}");
    // the first says that the name changed and not to what, the second that it did not
    api.put(&api.user, &path, json!({"name": "Bowl", "referenceNumbers": many})).await.expect(200);
    api.put(&api.user, &path, json!({"referenceNumbers": &many[1..]})).await.expect(200);
    let bodies = told(&api, &hook).await;
    // nor is it known of the second what name the product has
    assert_eq!(bodies.len(), 2);
    assert!(bodies.iter().all(|body| body["data"].get("fields").is_none()));
    // a deletion has no fields in any case
    let deleted = json!({"events": ["product_change", "expedition_deleted"], "criteria": {"data.fields.name": {"eq": "Mug"}}});
    let path = format!("{PATH}/{}", made(&api, deleted).await);
    let matches =
        "SELECT jsonb_path_match('{\"orderNumber\": \"1\"}', matches, '{}', true) FROM webhook WHERE id = $1";
    let id: Uuid = path.rsplit('/').next().unwrap().parse().unwrap();
    let is_met: Option<bool> =
        sqlx::query_scalar(matches).bind(id).fetch_one(&*api.services.db.main).await.unwrap();
    assert_eq!(is_met, Some(false));
}

#[tokio::test]
async fn criteria_and_selections_that_no_event_has_are_refused_by_name() {
    let api = Api::new(&strangers().await).await;
    let stock = |criteria: Value| json!({"events": ["product_stock_change"], "criteria": criteria});
    let long: Vec<String> = (0..1_000).map(|n| format!("sku-{n:06}")).collect();
    let like = |path: &str| (path.to_owned(), json!({"like": "a"}));
    let patterns: serde_json::Map<String, Value> =
        ["data.productSku", "data.fields.name", "data.fields.description"].map(like).into_iter().collect();
    let many: serde_json::Map<String, Value> =
        (0..21).map(|n| (format!("data.{n}"), json!({"eq": 1}))).collect();
    for (fields, expected) in [
        (stock(json!({"data.fields.quantiti": {"lte": 5}})), "criteria.data.fields.quantiti unknown_field"),
        (stock(json!({"data.fields.name": {"eq": "Mug"}})), "criteria.data.fields.name unknown_field"),
        (stock(json!({"quantity": {"lte": 5}})), "criteria.quantity unknown_field"),
        (
            stock(json!({"data.fields.quantity": {"like": "5"}})),
            "criteria.data.fields.quantity.like unknown_operator",
        ),
        (
            stock(json!({"data.fields.quantity": {"lte": "5"}})),
            "criteria.data.fields.quantity.lte wrong_type",
        ),
        (stock(json!({"type": {"eq": "product"}})), "criteria.type.eq not_allowed"),
        (stock(json!({"data.productSku": {"in": long}})), "criteria too_large"),
        (stock(many.into()), "criteria invalid_count"),
        (
            stock(
                json!({"data.productSku": {"in": &long[..99]}, "data.id": {"nin": [Uuid::nil(), Uuid::max()]}}),
            ),
            "criteria invalid_count",
        ),
        (json!({"event": "product_change", "criteria": patterns}), "criteria invalid_count"),
        (
            json!({"event": "expedition_booked_change", "criteria": {"data.fields.status": {"eq": "on_hold"}}}),
            "criteria.data.fields.status unknown_field",
        ),
        (
            json!({"event": "*", "criteria": {"data.fields.invoice.originalName": {"null": false}}}),
            "criteria.data.fields.invoice.originalName unknown_field",
        ),
        (stock(json!("all")), "criteria wrong_type"),
        (
            json!({"event": "expedition_change", "criteria": {"data.fields.deliveryStreet": {"eq": "Quay"}}}),
            "criteria.data.fields.deliveryStreet unknown_field",
        ),
        (json!({"event": "product_change", "select": ["weight", "colour"]}), "select[1] unknown_field"),
        (json!({"event": "product_change", "select": "weight"}), "select wrong_type"),
    ] {
        let refused = api.post(&api.user, PATH, of(&api, &fields)).await.expect(400).violations();
        assert_eq!(refused, [expected], "{fields}");
        let mut tried = fields.clone();
        tried["eshop"] = json!(api.tenant.eshop);
        let refused = api.post(&api.user, &format!("{PATH}/try"), tried).await.expect(400).violations();
        assert_eq!(refused, [expected], "{fields}");
    }
    // types that do not have what is stored
    let hook = made(
        &api,
        json!({"event": "*", "criteria": {"data.fields.weight": {"gt": 1}}, "select": ["weight"]}),
    )
    .await;
    let path = format!("{PATH}/{hook}");
    let narrowed = api.put(&api.user, &path, json!({"event": "product_stock_change"})).await;
    assert_eq!(
        narrowed.expect(400).violations(),
        ["criteria.data.fields.weight unknown_field", "select[0] unknown_field"]
    );
    // words of either type
    let words = json!({"events": ["stock_advice_status_change", "expedition_status_change"],
                       "criteria": {"data.status": {"in": ["closed", "delivered"]}}});
    made(&api, words).await;
    let of_neither = json!({"events": ["stock_advice_status_change", "expedition_status_change"],
                            "criteria": {"data.status": {"in": ["closed", "shut"]}}});
    let refused = api.post(&api.user, PATH, of(&api, &of_neither)).await.expect(400).violations();
    assert_eq!(refused, ["criteria.data.status.in[1] not_allowed"]);
    // PHP writes an empty object so
    let all = create(&api, of(&api, &json!({"event": "*", "criteria": []}))).await;
    assert_eq!(all["criteria"], json!({}));
    // what was read, and is sent back
    let mut read = api.get(&api.user, &path).await.expect(200).json();
    read["active"] = json!(false);
    assert_eq!(api.put(&api.user, &path, read).await.expect(200).json()["active"], json!(false));
}

#[tokio::test]
async fn a_webhook_is_sent_what_it_selects_and_what_says_of_which_record() {
    let api = Api::new(&strangers().await).await;
    let hook = made(&api, json!({"event": "product_change", "select": ["weight", "organisation"]})).await;
    let none = made(&api, json!({"event": "product_change", "select": []})).await;
    let mug = product(&api, "mug", json!({"weight": 20})).await;
    let bodies = told(&api, &hook).await;
    let data = bodies[0]["data"].as_object().unwrap();
    let names: Vec<_> = data.keys().map(String::as_str).collect();
    assert_eq!(names, ["changedFields", "fields", "id", "organisation", "productSku", "version"]);
    assert_eq!(data["fields"], json!({"weight": 20}));
    let bodies = told(&api, &none).await;
    assert_eq!((&bodies[0]["data"]["fields"], &bodies[0]["data"]["id"]), (&json!({}), &json!(mug)));
    assert!(bodies[0]["data"].get("organisation").is_none());
    // a test of it, too; but not what is about the webhook itself
    let test = async |kind: &str| {
        let path = format!("{PATH}/{none}/test");
        api.post(&api.user, &path, json!({"event": kind})).await.expect(202);
        told(&api, &none).await.pop().unwrap()
    };
    let status = test("expedition_status_change").await;
    assert_eq!((status.get("status"), status["data"].get("status")), (None, None));
    assert_eq!(status["orderNumber"], "2026-0042");
    assert!(test("test").await["data"]["eshop"].is_string());
    assert!(test("restored").await["data"]["since"].is_string());
}

#[tokio::test]
async fn criteria_are_tried_with_what_webhooks_were_told_of() {
    let api = Api::new(&strangers().await).await;
    let tried = async |fields: Value| {
        let mut body = json!({"eshop": api.tenant.eshop, "event": "product_change"});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        api.post(&api.user, &format!("{PATH}/try"), body).await
    };
    assert_eq!(tried(json!({})).await.expect(200).json(), json!({"looked": 0, "matched": 0, "examples": []}));
    let hook = made(&api, json!({"event": "*"})).await;
    for number in 0..5 {
        product(&api, &format!("mug-{number}"), json!({"weight": number})).await;
    }
    api.post(&api.user, &format!("{PATH}/{hook}/test"), json!({"event": "product_change"})).await.expect(202);
    // some have ended
    let db = &api.services.db.main;
    let first: Uuid =
        sqlx::query_scalar("SELECT event_id FROM delivery WHERE eshop_id = $1 ORDER BY event_id LIMIT 1")
            .bind(api.tenant.eshop.get())
            .fetch_one(&**db)
            .await
            .unwrap();
    end_live(db, Some(first), "delivered").await;
    let found = tried(json!({"criteria": {"data.fields.weight": {"lt": 4}}, "select": ["name"]})).await;
    let found = found.expect(200).json();
    assert_eq!((&found["looked"], &found["matched"]), (&json!(5), &json!(4)));
    let skus: Vec<_> =
        found["examples"].as_array().unwrap().iter().map(|body| &body["data"]["productSku"]).collect();
    assert_eq!(skus, ["mug-3", "mug-2", "mug-1"]);
    assert_eq!(found["examples"][0]["data"]["fields"], json!({"name": "Mug"}));
    let all = tried(json!({"event": "*"})).await.expect(200).json();
    assert_eq!((&all["looked"], &all["matched"]), (&json!(5), &json!(5)));
    assert_eq!(tried(json!({"since": null})).await.expect(200).json()["looked"], 5);
    assert_eq!(tried(json!({"since": "2999-01-01T00:00:00Z"})).await.expect(200).json()["looked"], 0);
    let other = json!({"eshop": Uuid::from_u128(1), "event": "*"});
    let refused = api.post(&api.user, &format!("{PATH}/try"), other).await.expect(400).violations();
    assert_eq!(refused, ["eshop unknown_reference"]);
}
