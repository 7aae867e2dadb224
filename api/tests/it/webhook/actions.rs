//! Actions on a webhook other than updates: a new secret, a test, a recovery.

use longshore_domain::calling::signature::Signer;
use longshore_domain::webhook::lane;
use longshore_kernel::ids::WebhookId;

use super::*;

/// The key of a shown secret.
fn key(answer: &Value) -> Vec<u8> {
    STANDARD.decode(answer["secret"].as_str().unwrap().strip_prefix("whsec_").unwrap()).unwrap()
}

/// The current signature of the lane of a webhook.
async fn signature(api: &Api, id: WebhookId) -> String {
    let lease = lane::lease(&api.services, &[id]).await.unwrap().remove(&id).unwrap().unwrap().lease;
    let signature = lease.signer.sign("id", 1, b"body");
    lane::release(&api.services.db, &[(id, lease.token)]).await.unwrap();
    signature
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_rotated_secret_is_shown_once_and_every_former_one_signs_for_a_day(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let created = create(&api, webhook(&api)).await;
    let id: WebhookId = created["id"].as_str().unwrap().parse().unwrap();
    let path = format!("{PATH}/{id}/rotate-secret");
    let once = [("idempotency-key", "rotate")];
    let reply = api.call_with(&api.user, Method::PUT, &path, Value::Null, &once).await.expect(200);
    let second = reply.json();
    assert_eq!(reply.header("location"), Some(format!("{PATH}/{id}").as_str()));
    assert_ne!(created["secret"], second["secret"]);
    // a repetition gets the same answer without the secret
    let again = api.call_with(&api.user, Method::PUT, &path, Value::Null, &once).await.expect(200);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    let mut masked = second.clone();
    masked.as_object_mut().unwrap().remove("secret");
    assert_eq!(again.json(), masked);
    let read = api.get(&api.user, &format!("{PATH}/{id}")).await.expect(200);
    assert_eq!((read.json(), read.header("etag")), (masked, reply.header("etag")));

    let third = api.put(&api.user, &path, Value::Null).await.expect(200).json();
    let keys = [key(&third), key(&second), key(&created)];
    assert_eq!(signature(&api, id).await, Signer::new(&keys).sign("id", 1, b"body"));
    let pool = PgPool::connect_with(options).await.unwrap();
    let kept: bool = sqlx::query_scalar(
        "SELECT bool_and(signs_until BETWEEN now() + interval '23 hours' AND now() + interval '24 hours')
         FROM webhook_former_secret",
    )
    .fetch_one(&pool)
    .await
    .unwrap();
    assert!(kept);
    // a day later only the newest secret signs
    let later = "UPDATE webhook_former_secret SET signs_until = signs_until - interval '25 hours'";
    sqlx::query(later).execute(&pool).await.unwrap();
    assert_eq!(signature(&api, id).await, Signer::new(&keys[..1]).sign("id", 1, b"body"));

    for _ in 0..8 {
        api.put(&api.user, &path, Value::Null).await.expect(200);
    }
    let refused = api.put(&api.user, &path, Value::Null).await.expect(409);
    assert_eq!(refused.json()["code"], "conflict");
    let audited: Vec<Value> =
        sqlx::query_scalar("SELECT changes FROM audit WHERE action = 'webhook.rotate_secret'")
            .fetch_all(&pool)
            .await
            .unwrap();
    assert_eq!(audited, vec![json!({"secret": ["***", "***"]}); 10]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_test_is_a_delivery_of_that_type(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    let id = create(&api, webhook(&api)).await["id"].as_str().unwrap().to_owned();
    let other =
        create(&api, json!({"eshop": api.tenant.eshop, "event": "*", "destination": "https://a.example/"}));
    other.await;
    let path = format!("{PATH}/{id}/test");
    let once = [("idempotency-key", "test")];
    let reply = api.call_with(&api.user, Method::POST, &path, Value::Null, &once).await.expect(202);
    let again = api.call_with(&api.user, Method::POST, &path, Value::Null, &once).await.expect(202);
    assert_eq!((&again.text, again.header("idempotent-replayed")), (&reply.text, Some("true")));
    let delivery = api.get(&api.user, reply.header("location").unwrap()).await.expect(200).json();
    assert_eq!((&delivery["id"], &delivery["webhookId"]), (&reply.json()["id"], &reply.json()["webhookId"]));
    assert_eq!(
        (&delivery["webhook"], &delivery["event"], &delivery["entity"], &delivery["state"]),
        (&json!(id), &json!("test"), &json!({"type": "webhook", "id": id}), &json!("pending"))
    );
    let all = api.post(&api.user, "/api/webhook-delivery/list", json!({})).await.expect(200).json();
    assert_eq!(all["paging"]["total"], 1, "no other webhook gets it");
    let pool = PgPool::connect_with(options).await.unwrap();
    let audited: Value = sqlx::query_scalar("SELECT changes FROM audit WHERE action = 'webhook.test'")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(audited, json!({"test": [null, delivery["id"]], "event": [null, "test"]}));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_body_of_a_delivery_can_be_read_while_its_event_is_kept(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let id = create(&api, webhook(&api)).await["id"].as_str().unwrap().to_owned();
    let sent = api.post(&api.user, &format!("{PATH}/{id}/test"), Value::Null).await.expect(202).json();
    let path = format!("/api/webhook-delivery/{}/body", sent["id"].as_str().unwrap());
    let reply = api.get(&api.viewer, &path).await.expect(200);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let body = reply.json();
    assert_eq!((&body["type"], &body["id"], &body["data"]["id"]), (&json!("test"), &json!(id), &json!(id)));
    assert_eq!(body["test"], true);

    api.get(&api.connector, &path).await.expect(404);
    let unknown = format!("/api/webhook-delivery/{}/body", Uuid::nil());
    assert_eq!(api.get(&api.user, &unknown).await.expect(404).json()["code"], "not_found");
    let pool = PgPool::connect_with(options).await.unwrap();
    let other = Tenant::create(&api.services, "Other").await.unwrap();
    let foreign = other.token(&api.services, Role::User).await.unwrap();
    api.get(&foreign, &path).await.expect(404);

    sqlx::query("DELETE FROM event").execute(&pool).await.unwrap();
    assert_eq!(api.get(&api.user, &path).await.expect(410).json()["code"], "gone");
}

/// Inserts a delivery that ended this many hours ago, of its own event; returns the event.
async fn ended(pool: &PgPool, api: &Api, webhook: &str, state: &str, hours: i32) -> Uuid {
    sqlx::query_scalar(
        "WITH recorded AS (
             INSERT INTO event (id, type, organisation_id, entity_type, entity_id, data)
             SELECT uuid_v7(), 'product_change', $1, 'product', gen_random_uuid(), '{}' RETURNING id, entity_id
         )
         INSERT INTO delivery_history (id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id, state,
             attempt_count, attempts, created_at, finished_at)
         SELECT uuid_v7(), $2::uuid, $3, $1, id, 'product_change', entity_id, $4, 10, '[]',
                now() - make_interval(hours => $5 + 80), now() - make_interval(hours => $5)
         FROM recorded RETURNING event_id",
    )
    .bind(api.tenant.organisation)
    .bind(webhook.parse::<Uuid>().unwrap())
    .bind(api.tenant.eshop)
    .bind(state)
    .bind(hours)
    .fetch_one(pool)
    .await
    .unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn recovering_sends_what_did_not_succeed_since_then_each_event_once(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let hook = create(&api, webhook(&api)).await["id"].as_str().unwrap().to_owned();
    let other = create(&api, webhook(&api)).await["id"].as_str().unwrap().to_owned();
    let pool = PgPool::connect_with(options).await.unwrap();
    let lost = [
        ended(&pool, &api, &hook, "exhausted", 1).await,
        ended(&pool, &api, &hook, "exhausted", 2).await,
        ended(&pool, &api, &hook, "cancelled", 3).await,
    ];
    ended(&pool, &api, &hook, "delivered", 1).await;
    ended(&pool, &api, &hook, "exhausted", 30).await;
    ended(&pool, &api, &other, "exhausted", 1).await;
    let expired = ended(&pool, &api, &hook, "exhausted", 1).await;
    sqlx::query("DELETE FROM event WHERE id = $1").bind(expired).execute(&pool).await.unwrap();
    // another delivery waits for its next attempt, and one was not attempted yet
    sqlx::query(
        "INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at, attempt_count)
         SELECT uuid_v7(), $1::uuid, $2, gen_random_uuid(), now() + interval '5 hours', n FROM generate_series(0, 1) n",
    )
    .bind(hook.parse::<Uuid>().unwrap())
    .bind(api.tenant.eshop)
    .execute(&pool)
    .await
    .unwrap();
    let path = format!("{PATH}/{hook}/recover");
    let since: String = sqlx::query_scalar("SELECT to_json(now() - interval '10 hours') #>> '{}'")
        .fetch_one(&pool)
        .await
        .unwrap();
    let recover = async || {
        let job = api.post(&api.user, &path, json!({"since": since})).await.expect(202).json();
        assert_eq!((&job["kind"], &job["eshop"]), (&json!("webhook.recover"), &json!(api.tenant.eshop)));
        let id = job["id"].as_str().unwrap();
        send_again(&api.services, id.parse().unwrap()).await;
        let job = api.get(&api.user, &format!("/api/job/{id}")).await.expect(200).json();
        assert_eq!(
            (&job["state"], &job["progress"]["done"]),
            (&json!("succeeded"), &job["progress"]["total"])
        );
        job["result"].clone()
    };
    assert_eq!(recover().await, json!({"released": 1, "resent": 3}));
    let made: Vec<Uuid> = sqlx::query_scalar(
        "SELECT d.event_id FROM delivery d JOIN delivery_history h ON h.id = d.redelivery_of AND h.event_id = d.event_id
         WHERE d.next_attempt_at <= now() ORDER BY d.next_attempt_at",
    )
    .fetch_all(&pool)
    .await
    .unwrap();
    let mut in_order = lost;
    in_order.sort_unstable();
    assert_eq!(made, in_order, "in the order of the events");
    let waiting: Vec<bool> = sqlx::query_scalar(
        "SELECT next_attempt_at <= now() FROM delivery WHERE redelivery_of IS NULL ORDER BY attempt_count",
    )
    .fetch_all(&pool)
    .await
    .unwrap();
    assert_eq!(waiting, [false, true]);
    // deliveries under way and recovered ones are not sent again; one that failed again is sent once
    assert_eq!(recover().await, json!({"released": 0, "resent": 0}));
    end_live(&pool, Some(lost[0]), "delivered").await;
    end_live(&pool, Some(lost[1]), "exhausted").await;
    assert_eq!(recover().await, json!({"released": 0, "resent": 1}));
    let audited: Vec<Value> = sqlx::query_scalar(
        "SELECT changes - 'recoveredSince' FROM audit WHERE action = 'webhook.recover' AND job_id IS NOT NULL ORDER BY id",
    )
    .fetch_all(&pool)
    .await
    .unwrap();
    let what = |released: i32, resent: i32| json!({"released": [null, released], "resent": [null, resent]});
    assert_eq!(audited, [what(1, 3), what(0, 1)]);
    for (body, violation) in [
        (json!({}), "since required"),
        (json!({"since": "yesterday"}), "since invalid_timestamp"),
        (json!({"since": since, "until": since}), "until unknown_field"),
    ] {
        assert_eq!(api.post(&api.user, &path, body).await.expect(400).violations(), [violation]);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_requested_delivery_is_the_next_probe(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    let hook = create(&api, webhook(&api)).await["id"].as_str().unwrap().to_owned();
    let pool = PgPool::connect_with(options).await.unwrap();
    for (path, body) in [("test", Value::Null), ("recover", json!({"since": "2020-01-01T00:00:00Z"}))] {
        let open = "UPDATE webhook_lane SET failures = 9, failing_since = now(), probe_at = now() + interval '5 minutes'";
        sqlx::query(open).execute(&pool).await.unwrap();
        let reply = api.post(&api.user, &format!("{PATH}/{hook}/{path}"), body).await.expect(202).json();
        if path == "recover" {
            send_again(&api.services, reply["id"].as_str().unwrap().parse().unwrap()).await;
        }
        let due: bool = sqlx::query_scalar("SELECT probe_at <= now() AND failures = 9 FROM webhook_lane")
            .fetch_one(&pool)
            .await
            .unwrap();
        assert!(due, "{path}");
    }
}
