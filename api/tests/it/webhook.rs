//! `/api/eshop-webhook` and `/api/webhook-delivery` (`docs/reference/webhooks.md#webhook`).

mod actions;
mod connector;
mod criteria;
mod example;
mod organisation;
mod replay;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use longshore_domain::webhook::event::NAMES;
use longshore_kernel::access::Role;
use longshore_testkit::services;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use crate::support::strangers;
use crate::support::{Api, send_again};

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

const PATH: &str = "/api/eshop-webhook";

fn webhook(api: &Api) -> Value {
    json!({"eshop": api.tenant.eshop, "event": "product_change", "destination": "https://shop.example/hook"})
}

async fn create(api: &Api, body: Value) -> Value {
    api.post(&api.user, PATH, body).await.expect(201).json()
}

/// Ends the live deliveries of an event, or all, in a state, like redeliveries.
async fn end_live(pool: &PgPool, event: Option<Uuid>, state: &str) {
    sqlx::query(
        "WITH gone AS (DELETE FROM delivery WHERE event_id = coalesce($1, event_id) RETURNING *)
         INSERT INTO delivery_history (id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id, state,
             attempt_count, attempts, redelivery_of, created_at, finished_at)
         SELECT g.id, g.webhook_id, g.eshop_id, e.organisation_id, e.id, e.type, e.entity_id, $2, 1, '[]',
                g.redelivery_of, g.created_at, now()
         FROM gone g JOIN event e ON e.id = g.event_id",
    )
    .bind(event)
    .bind(state)
    .execute(pool)
    .await
    .unwrap();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_created_webhook_shows_its_secret_and_masks_its_credentials(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let mut body = webhook(&api);
    body["authentication"] = json!({"type": "basic", "username": "shop", "password": "hush"});
    let reply = api.post(&api.user, PATH, body).await.expect(201);
    let shown = reply.json();
    let id = shown["id"].as_str().unwrap();
    assert_eq!(reply.header("location"), Some(format!("{PATH}/{id}").as_str()));
    assert!(reply.header("etag").is_some());
    let secret = shown["secret"].as_str().unwrap().strip_prefix("whsec_").unwrap();
    assert_eq!(STANDARD.decode(secret).unwrap().len(), 32);
    assert_eq!(shown["authentication"], json!({"type": "basic", "username": "***", "password": "***"}));
    assert_eq!(
        (
            &shown["active"],
            &shown["health"],
            &shown["maxInFlight"],
            &shown["ordered"],
            &shown["disabledReason"]
        ),
        (&json!(true), &json!("healthy"), &json!(16), &json!(false), &Value::Null)
    );
    // stored encrypted, and not in the audit
    let pool = PgPool::connect_with(options).await.unwrap();
    let stored: Vec<u8> =
        sqlx::query_scalar("SELECT authentication || secret FROM webhook").fetch_one(&pool).await.unwrap();
    assert!(!stored.windows(4).any(|w| w == b"hush"));
    let audit: Value = sqlx::query_scalar("SELECT changes FROM audit WHERE action = 'webhook.create'")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(audit["secret"], json!([null, "***"]));
    assert!(!audit.to_string().contains("hush"));
}

#[tokio::test]
async fn a_repeated_create_has_the_same_answer_without_the_secret() {
    let api = Api::new(&strangers().await).await;
    let key = [("idempotency-key", "once")];
    let first = api.call_with(&api.user, Method::POST, PATH, webhook(&api), &key).await.expect(201);
    let second = api.call_with(&api.user, Method::POST, PATH, webhook(&api), &key).await.expect(201);
    assert_eq!(second.header("idempotent-replayed"), Some("true"));
    let (mut first, second) = (first.json(), second.json());
    assert!(first.as_object_mut().unwrap().remove("secret").is_some());
    assert_eq!(first, second);
}

#[tokio::test]
async fn a_url_that_readers_mend_differently_is_taken_nowhere() {
    let api = Api::new(&strangers().await).await;
    let (eshop, wms) = (api.tenant.eshop, api.tenant.wms);
    let setting = "/api/partner-integration";
    for url in [
        r"https://\x",
        "https:///x",
        r"http:\\host",
        "https:shop.example",
        r"https://shop.example\@other.example/",
    ] {
        let mut body = webhook(&api);
        body["destination"] = json!(url);
        assert_eq!(
            api.post(&api.user, PATH, body).await.expect(400).violations(),
            ["destination invalid_url"],
            "{url}"
        );
        let feed = json!({"integrationType": "feed", "baseUrl": url});
        for (path, body) in [
            (format!("{setting}/eshop-setting/{eshop}"), feed),
            (format!("{setting}/wms-setting/{wms}"), json!({"baseUrl": url, "active": false})),
        ] {
            let refused = api.post(&api.superadmin, &path, body).await.expect(400).violations();
            assert!(refused.contains(&"baseUrl invalid_url".to_owned()), "{path} {url}: {refused:?}");
        }
    }
}

#[tokio::test]
async fn all_violations_are_reported_at_once() {
    let api = Api::new(&strangers().await).await;
    let body = json!({
        "event": "weather_change", "destination": "ftp://x@y/", "active": "yes", "maxInFlight": 257, "colour": "red",
        "authentication": {"type": "bearer"},
    });
    let violations = api.post(&api.user, PATH, body).await.expect(400).violations();
    assert_eq!(
        violations,
        [
            "eshop required",
            "event not_allowed",
            "destination invalid_url",
            "destination invalid_url",
            "active wrong_type",
            "authentication.token required",
            "maxInFlight out_of_range",
            "colour unknown_field",
        ]
    );
    assert_eq!(
        api.post(&api.user, PATH, json!({})).await.expect(400).violations(),
        ["eshop required", "event required", "destination required"]
    );
}

#[tokio::test]
async fn an_internal_destination_is_refused_in_every_notation() {
    let mut services = services::for_test(&strangers().await).unwrap();
    services.outbound.webhook_allow_subnets = vec!["10.1.0.0/16".parse().unwrap()];
    services.outbound.webhook_allow_http = false;
    let api = Api::over(services).await;
    for destination in [
        "https://127.0.0.1/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://0177.0.0.1/",
        "https://[::1]/",
        "https://[::ffff:10.0.0.1]/",
        "https://[64:ff9b::a00:1]/",
        "https://169.254.169.254/",
        "https://168.63.129.16/",
        "https://2822734096/",
        "https://[64:ff9b::a83f:8110]/",
        "https://10.2.0.1/",
        "https://0.0.0.0/",
        "https://224.0.0.1/",
        "https://[fe80::1]/",
        "https://[fd00:ec2::254]/",
    ] {
        let mut body = webhook(&api);
        body["destination"] = json!(destination);
        let violations = api.post(&api.user, PATH, body).await.expect(400).violations();
        assert_eq!(violations, ["destination forbidden_address"], "{destination}");
    }
    for destination in [
        "http://shop.example/",
        "/hook",
        "https://",
        "https://user@shop.example/",
        "https://:p@shop.example/",
        "https://shop.example/#x",
        "https://shop.example:0/",
        "https://shop.example/a b",
        "",
        " https://shop.example/",
        &format!("https://shop.example/{}", "x".repeat(2_000)),
    ] {
        let mut body = webhook(&api);
        body["destination"] = json!(destination);
        let violations = api.post(&api.user, PATH, body).await.expect(400).violations();
        assert!(violations.iter().all(|v| v.starts_with("destination ")), "{destination}: {violations:?}");
    }
    for destination in ["https://10.1.2.3/", "https://93.184.216.34:8443/x?y=z", "https://shop.example"] {
        let mut body = webhook(&api);
        body["destination"] = json!(destination);
        assert_eq!(create(&api, body).await["destination"], destination);
    }
}

#[tokio::test]
async fn operations_require_permission_and_the_callers_own_records() {
    let api = Api::new(&strangers().await).await;
    let id = create(&api, webhook(&api)).await["id"].as_str().unwrap().to_owned();
    let stranger = Tenant::create(&api.services, "Other").await.unwrap();
    let foreign = stranger.token(&api.services, Role::User).await.unwrap();
    let nobody = Uuid::nil();
    for (method, path, body) in [
        (Method::POST, PATH.to_owned(), webhook(&api)),
        (Method::PUT, format!("{PATH}/{id}"), json!({})),
        (Method::PUT, format!("{PATH}/activate/{id}"), Value::Null),
        (Method::PUT, format!("{PATH}/deactivate/{id}"), Value::Null),
        (Method::PUT, format!("{PATH}/{id}/rotate-secret"), Value::Null),
        (Method::POST, format!("{PATH}/{id}/test"), Value::Null),
        (Method::POST, format!("{PATH}/{id}/test"), json!({"event": "product_change"})),
        (Method::POST, format!("{PATH}/{id}/recover"), json!({"since": "2020-01-01T00:00:00Z"})),
        (Method::DELETE, format!("{PATH}/{id}"), Value::Null),
        (Method::PUT, format!("/api/webhook-delivery/redeliver/{nobody}"), Value::Null),
        (Method::PUT, "/api/webhook-delivery/redeliver".to_owned(), json!([nobody])),
    ] {
        let call = async |token: &str| api.call_with(token, method.clone(), &path, body.clone(), &[]).await;
        call(&api.viewer).await.expect(403);
        call("lsh_nonsense").await.expect(401);
        let foreign = call(&foreign).await;
        let expected = match &body {
            // in a job, each unknown id is an item error
            Value::Array(_) => 202,
            body if body.is_null() || path.contains(&id) => 404,
            _ => 400,
        };
        assert_eq!(foreign.status.as_u16(), expected, "{method} {path}: {}", foreign.text);
    }
    let body = json!({"eshop": stranger.eshop, "event": "*", "destination": "https://shop.example/"});
    let violations = api.post(&api.user, PATH, body.clone()).await.expect(400).violations();
    assert_eq!(violations, ["eshop unknown_reference"]);
    api.post(&api.superadmin, PATH, body).await.expect(201);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_update_changes_the_given_fields_and_only_differences_count(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let mut body = webhook(&api);
    body["authentication"] = json!({"type": "bearer", "token": "first"});
    let id = create(&api, body).await["id"].as_str().unwrap().to_owned();
    let path = format!("{PATH}/{id}");
    let pool = PgPool::connect_with(options).await.unwrap();
    let audited = || async {
        sqlx::query_scalar::<_, Value>(
            "SELECT jsonb_agg(changes ORDER BY id) FROM audit WHERE action = 'webhook.update'",
        )
        .fetch_one(&pool)
        .await
        .unwrap_or(Value::Null)
    };

    let same = json!({"event": "product_change", "authentication": {"type": "bearer", "token": "***"}});
    let before = api.put(&api.user, &path, same).await.expect(200);
    assert_eq!(audited().await, Value::Null, "nothing differs");

    let given = json!({"event": "*", "maxInFlight": 4, "ordered": true});
    let after = api.put(&api.user, &path, given).await.expect(200);
    assert_ne!(before.header("etag"), after.header("etag"));
    let shown = after.json();
    assert_eq!(
        (&shown["event"], &shown["maxInFlight"], &shown["ordered"], &shown["destination"], &shown["secret"]),
        (&json!("*"), &json!(4), &json!(true), &json!("https://shop.example/hook"), &Value::Null)
    );
    assert_eq!(
        audited().await,
        json!([{"event": ["product_change", "*"], "events": [["product_change"], NAMES], "maxInFlight": [16, 4], "ordered": [false, true]}])
    );

    let stale = [("if-match", before.header("etag").unwrap())];
    api.call_with(&api.user, Method::PUT, &path, json!({"active": false}), &stale).await.expect(412);
    for verb in ["activate", "deactivate"] {
        let path = path.replace(PATH, &format!("{PATH}/{verb}"));
        api.call_with(&api.user, Method::PUT, &path, Value::Null, &stale).await.expect(412);
    }
    let moved = api.put(&api.user, &path, json!({"eshop": Uuid::nil()})).await.expect(400);
    assert_eq!(moved.violations(), ["eshop not_allowed"]);
    let cleared = api.put(&api.user, &path, json!({"authentication": null})).await.expect(200).json();
    assert_eq!(cleared["authentication"], json!({"type": "none"}));
    let masked = json!({"authentication": {"type": "bearer", "token": "***"}});
    let violations = api.put(&api.user, &path, masked).await.expect(400).violations();
    assert_eq!(violations, ["authentication.token required"]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_webhook_hears_of_several_types(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    let of = |events: Value| {
        let mut body = webhook(&api);
        body.as_object_mut().unwrap().remove("event");
        body["events"] = events;
        body
    };
    let some = create(&api, of(json!(["sync_finished", "product_change", "sync_finished"]))).await;
    assert_eq!(
        (&some["event"], &some["events"]),
        (&Value::Null, &json!(["product_change", "sync_finished"]))
    );
    let one = create(&api, of(json!(["product_change"]))).await;
    assert_eq!((&one["event"], &one["events"]), (&json!("product_change"), &json!(["product_change"])));
    let mut body = webhook(&api);
    body["event"] = json!("*");
    let all = create(&api, body).await;
    assert_eq!((&all["event"], &all["events"]), (&json!("*"), &json!(NAMES)));

    // who subscribes to a type
    for (event, expected) in [("sync_finished", 2), ("product_change", 3), ("expedition_change", 1)] {
        let criteria = json!({"criteria": {"events": {"eq": event}}});
        let found = api.post(&api.user, &format!("{PATH}/list"), criteria).await.expect(200).json();
        assert_eq!(found["results"].as_array().unwrap().len(), expected, "{event}: {found}");
    }
    let product = json!({"organisation": api.tenant.organisation, "eshops": [api.tenant.eshop], "productSku": "MUG-1",
        "internalSku": "MUG-1", "name": "Mug", "weight": 320, "active": true, "imeiCheckRequired": false});
    api.post(&api.user, "/api/product", product).await.expect(201);
    let organisation = format!("/api/organisation/{}", api.tenant.organisation);
    api.put(&api.superadmin, &organisation, json!({"name": "Other"})).await.expect(200);
    let pool = PgPool::connect_with(options).await.unwrap();
    let heard: Vec<(Uuid, String)> = sqlx::query_as(
        "SELECT d.webhook_id, e.type FROM delivery d JOIN event e ON e.id = d.event_id ORDER BY d.webhook_id, e.type",
    )
    .fetch_all(&pool)
    .await
    .unwrap();
    let mut expected: Vec<(Uuid, String)> = [
        (&some, "product_change"),
        (&one, "product_change"),
        (&all, "organization_change"),
        (&all, "product_change"),
    ]
    .map(|(webhook, event)| (webhook["id"].as_str().unwrap().parse().unwrap(), event.to_owned()))
    .to_vec();
    expected.sort();
    assert_eq!(heard, expected);

    // a record that is sent back stays as it is; both must say the same, whatever was stored
    let path = format!("{PATH}/{}", some["id"].as_str().unwrap());
    let put = async |event: Value, events: Value| {
        let reply = api.put(&api.user, &path, json!({"event": event, "events": events})).await;
        if reply.status == 200 { Ok(reply.json()["events"].clone()) } else { Err(reply.violations()) }
    };
    let several = json!(["product_change", "sync_finished"]);
    assert_eq!(put(Value::Null, several.clone()).await, Ok(several.clone()));
    let contradiction = Err(vec!["events contradiction".to_owned()]);
    assert_eq!(put(json!("job_finished"), several.clone()).await, contradiction);
    for _ in 0..2 {
        assert_eq!(put(json!("test"), json!(["test"])).await, Ok(json!(["test"])));
        assert_eq!(put(json!("*"), json!(["test"])).await, contradiction);
    }
    // all of them, in a word and one by one
    for (event, expected) in [(Value::Null, Value::Null), (json!("*"), json!("*")), (json!("*"), json!("*"))]
    {
        let all = json!({"event": event, "events": NAMES});
        let shown = api.put(&api.user, &path, all).await.expect(200).json();
        assert_eq!((&shown["event"], &shown["events"]), (&expected, &json!(NAMES)));
    }
    // what `*` stood for before a type was added
    let sql = "UPDATE webhook SET events = '{product_change,test}' WHERE id = $1::uuid";
    sqlx::query(sql).bind(some["id"].as_str()).execute(&pool).await.unwrap();
    let fewer = json!(["product_change", "test"]);
    for body in [json!({"event": "*", "events": fewer}), json!({"event": "*", "maxInFlight": 4})] {
        let shown = api.put(&api.user, &path, body).await.expect(200).json();
        assert_eq!((&shown["event"], &shown["events"]), (&json!("*"), &fewer));
    }
    api.put(&api.user, &path, json!({"event": "test"})).await.expect(200);
    let refused = api.put(&api.user, &path, json!({"event": null})).await.expect(400);
    assert_eq!(refused.violations(), ["event contradiction"]);
    let after = api.put(&api.user, &path, json!({"events": several})).await.expect(200).json();
    assert_eq!((&after["event"], &after["events"]), (&Value::Null, &several));
    api.put(&api.user, &path, json!({"event": null})).await.expect(200);
    for (events, expected) in [
        (json!([]), "events invalid_count"),
        (json!(["*"]), "events[0] not_allowed"),
        (json!(["weather_change"]), "events[0] not_allowed"),
        (json!("product_change"), "events wrong_type"),
    ] {
        let violations = api.post(&api.user, PATH, of(events)).await.expect(400).violations();
        assert_eq!(violations, [expected]);
    }
    let mut both = of(json!(["test"]));
    both["event"] = json!("product_change");
    let refused = api.post(&api.user, PATH, both).await.expect(400);
    assert_eq!(refused.violations(), ["events contradiction"]);
    // a copy of another one
    let mut copy = of(several.clone());
    copy["event"] = Value::Null;
    assert_eq!(create(&api, copy.clone()).await["events"], several);
    copy["events"] = json!(["weather_change"]);
    let refused = api.post(&api.user, PATH, copy.clone()).await.expect(400);
    assert_eq!(refused.violations(), ["events[0] not_allowed"]);
    copy.as_object_mut().unwrap().remove("events");
    let refused = api.post(&api.user, PATH, copy).await.expect(400);
    assert_eq!(refused.violations(), ["event contradiction"]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_webhook_gets_batches(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    let of = |fields: Value| {
        let mut body = webhook(&api);
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        body
    };
    let made = create(&api, of(json!({"batch": {"maxEvents": 100}}))).await;
    assert_eq!(
        (&made["batch"], &made["maxInFlight"]),
        (&json!({"maxEvents": 100, "maxWaitMs": 0}), &json!(4))
    );
    assert_eq!(create(&api, webhook(&api)).await["batch"], Value::Null);
    assert_eq!(create(&api, of(json!({"maxPerSecond": 0.1}))).await["maxPerSecond"], json!(0.1));
    for (fields, expected) in [
        (json!({"batch": {"maxWaitMs": 0}}), "batch.maxEvents required"),
        (json!({"batch": {"maxEvents": 501, "maxWaitMs": 0}}), "batch.maxEvents out_of_range"),
        (json!({"batch": {"maxEvents": 1, "maxWaitMs": 60_001}}), "batch.maxWaitMs out_of_range"),
        (json!({"batch": {"maxEvents": 1}, "maxInFlight": 5}), "maxInFlight contradiction"),
        (
            json!({"batch": {"maxEvents": 1, "maxWaitMs": 1}, "ordered": true}),
            "batch.maxWaitMs contradiction",
        ),
        (json!({"batch": 100}), "batch wrong_type"),
        (json!({"maxPerSecond": 0}), "maxPerSecond out_of_range"),
        (json!({"maxPerSecond": "5"}), "maxPerSecond wrong_type"),
    ] {
        let refused = api.post(&api.user, PATH, of(fields.clone())).await.expect(400).violations();
        assert_eq!(refused, [expected], "{fields}");
    }
    let path = format!("{PATH}/{}", made["id"].as_str().unwrap());
    let put = async |fields: Value| api.put(&api.user, &path, fields).await;
    let batch = json!({"maxEvents": 500, "maxWaitMs": 2_500});
    // what a client sends that changes one field of what it has read
    let mut read = api.get(&api.user, &path).await.expect(200).json();
    read["batch"] = batch.clone();
    assert_eq!(put(read).await.expect(200).json()["batch"], batch);
    assert_eq!(
        put(json!({"ordered": true})).await.expect(400).violations(),
        ["batch.maxWaitMs contradiction"]
    );
    assert_eq!(put(json!({"maxInFlight": 16})).await.expect(400).violations(), ["maxInFlight contradiction"]);
    let criteria = json!({"criteria": {"batch.maxEvents": {"gte": 500}}, "select": ["batch"]});
    let list = format!("{PATH}/list");
    assert_eq!(
        api.post(&api.user, &list, criteria).await.expect(200).json()["results"],
        json!([{"batch": batch}])
    );
    let limited = put(json!({"maxPerSecond": 1_000})).await.expect(200).json();
    assert_eq!(limited["maxPerSecond"], json!(1_000));
    let criteria = json!({"criteria": {"maxPerSecond": {"gt": 0.5}}, "limit": 0});
    assert_eq!(api.post(&api.user, &list, criteria).await.expect(200).json()["paging"]["total"], 1);
    assert_eq!(put(json!({"maxPerSecond": null})).await.expect(200).json()["maxPerSecond"], Value::Null);
    let none = put(json!({"batch": null, "maxInFlight": 16, "ordered": true})).await.expect(200).json();
    assert_eq!((&none["batch"], &none["maxInFlight"]), (&Value::Null, &json!(16)));
    // of a webhook that may have more calls under way, fewer are
    assert_eq!(put(json!({"batch": {"maxEvents": 2}})).await.expect(200).json()["maxInFlight"], 4);
    let pool = PgPool::connect_with(options).await.unwrap();
    let changes: Vec<Value> = sqlx::query_scalar(
        "SELECT jsonb_build_array(changes -> 'batch', changes -> 'maxInFlight') FROM audit WHERE action = 'webhook.update' AND changes ?| '{batch,maxInFlight}' ORDER BY id",
    )
    .fetch_all(&pool)
    .await
    .unwrap();
    let before = json!({"maxEvents": 100, "maxWaitMs": 0});
    let expected = [
        json!([[before, batch], null]),
        json!([[batch, null], [4, 16]]),
        json!([[null, {"maxEvents": 2, "maxWaitMs": 0}], [16, 4]]),
    ];
    assert_eq!(changes, expected);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn activating_ends_a_disabling_and_deleting_ends_everything(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let id = create(&api, webhook(&api)).await["id"].as_str().unwrap().to_owned();
    let path = format!("{PATH}/{id}");
    let pool = PgPool::connect_with(options).await.unwrap();
    for sql in [
        "UPDATE webhook SET active = false, disabled_at = now(), disabled_reason = 'gone'",
        "UPDATE webhook_lane SET failures = 3, failing_since = now()",
    ] {
        sqlx::query(sql).execute(&pool).await.unwrap();
    }
    let shown = api.put(&api.user, &path, json!({})).await.expect(200).json();
    assert_eq!((&shown["health"], &shown["disabledReason"]), (&json!("disabled"), &json!("gone")));
    api.put(&api.user, &format!("{PATH}/activate/{id}"), Value::Null).await.expect(204);
    let shown = api.put(&api.user, &path, json!({})).await.expect(200).json();
    assert_eq!((&shown["health"], &shown["active"]), (&json!("healthy"), &json!(true)));
    api.put(&api.user, &format!("{PATH}/deactivate/{id}"), Value::Null).await.expect(204);
    api.put(&api.user, &format!("{PATH}/deactivate/{id}"), Value::Null).await.expect(204);
    api.delete(&api.user, &path).await.expect(204);
    let stranger = Tenant::create(&api.services, "Other").await.unwrap();
    let stranger = stranger.token(&api.services, Role::User).await.unwrap();
    let activate = format!("{PATH}/activate/{id}");
    for (method, path) in
        [(Method::GET, &path), (Method::DELETE, &path), (Method::PUT, &path), (Method::PUT, &activate)]
    {
        let body = if method == Method::PUT { json!({}) } else { Value::Null };
        let gone = api.call_with(&api.user, method.clone(), path, body.clone(), &[]).await.expect(410);
        assert_eq!(gone.json()["code"], "gone");
        api.call_with(&stranger, method, path, body, &[]).await.expect(404);
    }
    api.put(&api.user, &format!("{PATH}/activate/nonsense"), Value::Null).await.expect(400);
    let actions: Vec<String> =
        sqlx::query_scalar("SELECT action FROM audit WHERE entity_type = 'webhook' ORDER BY id")
            .fetch_all(&pool)
            .await
            .unwrap();
    assert_eq!(actions, ["webhook.create", "webhook.activate", "webhook.deactivate", "webhook.delete"]);
    let lanes: i64 = sqlx::query_scalar("SELECT count(*) FROM webhook_lane").fetch_one(&pool).await.unwrap();
    assert_eq!(lanes, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn one_or_many_deliveries_are_sent_again(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    let id: Uuid = create(&api, webhook(&api)).await["id"].as_str().unwrap().parse().unwrap();
    let pool = PgPool::connect_with(options).await.unwrap();
    let deliveries: Vec<Uuid> = sqlx::query_scalar(
        "WITH recorded AS (
             INSERT INTO event (id, type, organisation_id, entity_type, entity_id, data)
             SELECT uuid_v7(), 'product_change', $1, 'product', gen_random_uuid(), '{}' FROM generate_series(1, 3)
             RETURNING id
         )
         INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at)
         SELECT uuid_v7(), $2, $3, id, now() + interval '1 day' FROM recorded RETURNING id",
    )
    .bind(api.tenant.organisation)
    .bind(id)
    .bind(api.tenant.eshop)
    .fetch_all(&pool)
    .await
    .unwrap();
    let path = "/api/webhook-delivery/redeliver";
    let key = [("idempotency-key", "again")];
    let one = format!("{path}/{}", deliveries[0]);
    let first = api.call_with(&api.user, Method::PUT, &one, Value::Null, &key).await.expect(202);
    let second = api.call_with(&api.user, Method::PUT, &one, Value::Null, &key).await.expect(202);
    assert_eq!((first.text, second.header("idempotent-replayed")), (second.text.clone(), Some("true")));
    let reply = api.put(&api.user, path, json!(deliveries)).await.expect(202);
    let job = reply.json();
    let (location, id) = (reply.header("location").unwrap(), job["id"].as_str().unwrap());
    assert_eq!(location, format!("/api/job/{id}"));
    assert_eq!((&job["kind"], &job["progress"]["total"]), (&json!("webhook.redeliver"), &json!(3)));
    assert_eq!(
        (&job["organisation"], &job["result"]),
        (&json!(api.tenant.organisation), &json!({"released": 0, "resent": 0}))
    );
    send_again(&api.services, id.parse().unwrap()).await;
    let job = api.get(&api.user, location).await.expect(200).json();
    assert_eq!((&job["state"], &job["result"]), (&json!("succeeded"), &json!({"released": 0, "resent": 3})));
    let found = json!({"criteria": {"result.resent": {"gte": 3}}, "limit": 10});
    assert_eq!(api.post(&api.user, "/api/job/list", found).await.expect(200).json()["paging"]["total"], 1);
    let made: Vec<i64> = sqlx::query_scalar(
        "SELECT count(n.id) FROM unnest($1::uuid[]) WITH ORDINALITY AS o (id, place)
         JOIN delivery d ON d.id = o.id
         LEFT JOIN delivery n ON n.redelivery_of = d.id AND n.event_id = d.event_id AND n.next_attempt_at <= now()
         GROUP BY place ORDER BY place",
    )
    .bind(&deliveries)
    .fetch_all(&pool)
    .await
    .unwrap();
    assert_eq!(made, [2, 1, 1]);
    let audited: i64 = sqlx::query_scalar("SELECT count(*) FROM audit WHERE action = 'delivery.redeliver'")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(audited, 4);
    api.put(&api.user, path, json!([])).await.expect(400);
    api.put(&api.user, path, json!(vec![Uuid::nil(); 100_001])).await.expect(400);
    api.put(&api.user, path, json!(vec![Uuid::nil(); 100_000])).await.expect(202);
    // for a caller with several organisations, the job belongs to those of the deliveries
    let unknown =
        api.put(&api.superadmin, path, json!([Uuid::nil(), deliveries[0]])).await.expect(202).json();
    assert_eq!(unknown["organisation"], json!(api.tenant.organisation));
    let id = unknown["id"].as_str().unwrap();
    send_again(&api.services, id.parse().unwrap()).await;
    let errors =
        api.post(&api.user, &format!("/api/job/{id}/error/list"), json!({})).await.expect(200).json();
    assert_eq!(
        (&errors["results"][0]["index"], &errors["results"][0]["code"]),
        (&json!(0), &json!("not_found"))
    );
    assert_eq!(errors["paging"]["total"], 1);
}

#[tokio::test]
async fn credentials_do_not_follow_a_destination_to_another_host() {
    let api = Api::new(&strangers().await).await;
    let mut body = webhook(&api);
    body["authentication"] = json!({"type": "bearer", "token": "hush"});
    let id = create(&api, body).await["id"].as_str().unwrap().to_owned();
    let path = format!("{PATH}/{id}");
    let elsewhere = "https://shop.example:8443/hook";
    let masked = json!({"destination": elsewhere, "authentication": {"type": "bearer", "token": "***"}});

    for (body, violation) in [
        (json!({"destination": elsewhere}), "authentication required"),
        (masked, "authentication.token required"),
    ] {
        assert_eq!(api.put(&api.user, &path, body).await.expect(400).violations(), [violation]);
    }

    let shown =
        api.put(&api.user, &path, json!({"destination": "https://shop.example/new"})).await.expect(200);
    assert_eq!(shown.json()["authentication"]["type"], "bearer");
    let given = json!({"destination": elsewhere, "authentication": {"type": "bearer", "token": "new"}});
    api.put(&api.user, &path, given).await.expect(200);
    api.put(&api.user, &path, json!({"destination": "https://x.example/", "authentication": null}))
        .await
        .expect(200);
    api.put(&api.user, &path, json!({"destination": "https://y.example/"})).await.expect(200);
}
