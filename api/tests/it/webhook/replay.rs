//! Replaying deliveries of several webhooks, and counting them first.

use super::*;
use crate::support::strangers;

const REPLAY: &str = "/api/webhook-delivery/replay";
const COUNT: &str = "/api/webhook-delivery/replay/count";
const SINCE: &str = "2020-01-01T00:00:00Z";

/// Inserts a delivery of a webhook that ended an hour ago, after calls of 40 ms.
async fn ended(pool: &PgPool, webhook: &str, state: &str) {
    sqlx::query(
        "WITH hook AS (
             SELECT id, organisation_id, eshop_id FROM webhook WHERE id = $1::uuid
         ), recorded AS (
             INSERT INTO event (id, type, organisation_id, entity_type, entity_id, data)
             SELECT uuid_v7(), 'product_change', organisation_id, 'product', gen_random_uuid(), '{}' FROM hook RETURNING id, entity_id
         )
         INSERT INTO delivery_history (id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id, state,
             attempt_count, attempts, created_at, finished_at)
         SELECT uuid_v7(), hook.id, hook.eshop_id, hook.organisation_id, r.id, 'product_change', r.entity_id, $2, 1,
                '[{\"number\": 1, \"durationMs\": 40}]', now() - interval '61 minutes', now() - interval '1 hour'
         FROM recorded r, hook",
    )
    .bind(webhook.parse::<Uuid>().unwrap())
    .bind(state)
    .execute(pool)
    .await
    .unwrap();
}

async fn to(api: &Api, token: &str, eshop: Uuid, destination: &str) -> String {
    let body = json!({"eshop": eshop, "event": "product_change", "destination": destination});
    api.post(token, PATH, body).await.expect(201).json()["id"].as_str().unwrap().to_owned()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_replay_is_counted_first_and_then_a_job_sends_each_event_once(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let pool = PgPool::connect_with(options).await.unwrap();
    let eshop = api.tenant.eshop.get();
    let [one, two, elsewhere] =
        ["https://Shop.example/a", "https://shop.example:8443/b?x=1", "https://other.example/shop.example"];
    let [one, two, elsewhere] = [
        to(&api, &api.user, eshop, one).await,
        to(&api, &api.user, eshop, two).await,
        to(&api, &api.user, eshop, elsewhere).await,
    ];
    for (hook, states) in [
        (&one, &["exhausted", "exhausted", "delivered"][..]),
        (&two, &["exhausted", "delivered", "delivered"]),
        (&elsewhere, &["exhausted"]),
    ] {
        for state in states {
            ended(&pool, hook, state).await;
        }
    }
    let count = async |body: Value| api.post(&api.viewer, COUNT, body).await.expect(200).json();
    let of = |webhooks: u32, failed: u32, delivered: u32, seconds: Value| {
        json!({"webhooks": webhooks, "waiting": 0, "failed": failed, "delivered": delivered, "total": failed + delivered,
               "atLeast": false, "seconds": seconds})
    };
    // 2 calls of 40 ms, 16 at once; nothing was delivered elsewhere
    let by_host = |host: &str| json!({"host": host, "since": SINCE});
    assert_eq!(count(by_host("shop.example")).await, of(2, 3, 0, json!(0.005)));
    assert_eq!(count(by_host("SHOP.EXAMPLE")).await, of(2, 3, 0, json!(0.005)));
    assert_eq!(count(by_host("other.example")).await, of(1, 1, 0, Value::Null));
    let delivered = json!({"eshop": eshop, "since": SINCE, "delivered": true});
    assert_eq!(count(delivered.clone()).await, of(3, 4, 3, json!(0.0075)));
    assert_eq!(
        count(json!({"webhooks": [one], "since": SINCE, "until": "2020-01-02T00:00:00Z"})).await,
        of(1, 0, 0, Value::Null)
    );
    assert_eq!(
        count(json!({"webhooks": [one, two], "host": "shop.example", "since": SINCE})).await["webhooks"],
        2
    );
    assert_eq!(count(json!({"webhooks": [one], "since": SINCE, "event": "sync_finished"})).await["total"], 0);
    let jobs = "SELECT count(*) FROM job";
    assert_eq!(
        sqlx::query_scalar::<_, i64>(jobs).fetch_one(&pool).await.unwrap(),
        0,
        "a count changes nothing"
    );

    let once = [("idempotency-key", "replay")];
    let accepted = api.call_with(&api.user, Method::POST, REPLAY, delivered.clone(), &once).await.expect(202);
    let job = accepted.json();
    assert_eq!((&job["kind"], &job["eshop"]), (&json!("webhook.replay"), &json!(eshop)));
    assert_eq!(job["progress"]["total"], 7);
    let id = job["id"].as_str().unwrap();
    assert_eq!(accepted.header("location"), Some(format!("/api/job/{id}").as_str()));
    let again = api.call_with(&api.user, Method::POST, REPLAY, delivered, &once).await.expect(202);
    assert_eq!((again.header("idempotent-replayed"), &again.json()["id"]), (Some("true"), &json!(id)));
    send_again(&api.services, id.parse().unwrap()).await;
    let job = api.get(&api.user, &format!("/api/job/{id}")).await.expect(200).json();
    assert_eq!((&job["state"], &job["result"]), (&json!("succeeded"), &json!({"released": 0, "resent": 7})));
    assert_eq!(
        job["progress"],
        json!({"total": 7, "done": 7, "changed": 7, "unchanged": 0, "failed": 0, "withheld": 0})
    );
    let events: i64 =
        sqlx::query_scalar("SELECT count(DISTINCT event_id) FROM delivery WHERE redelivery_of IS NOT NULL")
            .fetch_one(&pool)
            .await
            .unwrap();
    assert_eq!(events, 7);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_event_counts_once_however_often_it_was_sent_and_not_while_it_is_on_its_way(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let pool = PgPool::connect_with(options).await.unwrap();
    let hook = to(&api, &api.user, api.tenant.eshop.get(), "https://shop.example/a").await;
    for state in ["exhausted", "exhausted", "cancelled", "delivered"] {
        ended(&pool, &hook, state).await;
    }
    let all = json!({"webhooks": [hook], "since": SINCE, "delivered": true});
    let failed = json!({"webhooks": [hook], "since": SINCE});
    let count = async |body: &Value| {
        let of = api.post(&api.viewer, COUNT, body.clone()).await.expect(200).json();
        [&of["failed"], &of["delivered"], &of["total"]].map(|sort| sort.as_i64().unwrap())
    };
    let replay = async || {
        let job = api.post(&api.user, REPLAY, all.clone()).await.expect(202).json();
        send_again(&api.services, job["id"].as_str().unwrap().parse().unwrap()).await;
        let job = api.get(&api.user, &format!("/api/job/{}", job["id"].as_str().unwrap())).await.expect(200);
        job.json()["result"]["resent"].as_i64().unwrap()
    };
    assert_eq!((count(&all).await, count(&failed).await), ([3, 1, 4], [3, 0, 3]));
    assert_eq!(replay().await, 4);
    assert_eq!((count(&all).await, count(&failed).await), ([0, 0, 0], [0, 0, 0]));
    end_live(&pool, None, "delivered").await;
    assert_eq!((count(&all).await, count(&failed).await), ([0, 4, 4], [0, 0, 0]));
    assert_eq!(replay().await, 4);
    end_live(&pool, None, "exhausted").await;
    // one redelivery of each has arrived, so none of them has failed
    assert_eq!((count(&all).await, count(&failed).await), ([0, 4, 4], [0, 0, 0]));
    assert_eq!(replay().await, 4);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_a_failing_destination_holds_back_is_counted_and_released(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let pool = PgPool::connect_with(options).await.unwrap();
    let hook = to(&api, &api.user, api.tenant.eshop.get(), "https://shop.example/").await;
    // three are due, of which one was tried; one waits for its next attempt
    for (tried, seconds) in [(0, -60), (0, -50), (1, -40), (1, 600)] {
        sqlx::query(
            "WITH hook AS (
                 SELECT id, organisation_id, eshop_id FROM webhook
             ), recorded AS (
                 INSERT INTO event (id, type, organisation_id, entity_type, entity_id, data)
                 SELECT uuid_v7(), 'product_change', organisation_id, 'product', gen_random_uuid(), '{}' FROM hook RETURNING id
             )
             INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at, attempt_count, created_at)
             SELECT uuid_v7(), hook.id, hook.eshop_id, r.id, now() + make_interval(secs => $2), $1, now() - interval '1 minute'
             FROM recorded r, hook",
        )
        .bind(tried)
        .bind(f64::from(seconds))
        .execute(&pool)
        .await
        .unwrap();
    }
    let all = json!({"webhooks": [hook], "since": SINCE});
    let waiting =
        async || api.post(&api.viewer, COUNT, all.clone()).await.expect(200).json()["waiting"].clone();
    assert_eq!(waiting().await, 1, "what is due is on its way");
    sqlx::query(
        "UPDATE webhook_lane SET failures = 9, failing_since = now(), probe_at = now() + interval '5 minutes'",
    )
    .execute(&pool)
    .await
    .unwrap();
    assert_eq!(waiting().await, 4);
    let job = api.post(&api.user, REPLAY, all.clone()).await.expect(202).json();
    let id = job["id"].as_str().unwrap();
    send_again(&api.services, id.parse().unwrap()).await;
    let job = api.get(&api.user, &format!("/api/job/{id}")).await.expect(200).json();
    assert_eq!((&job["state"], &job["result"]), (&json!("succeeded"), &json!({"released": 4, "resent": 0})));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_replay_to_a_host_has_several_organisations_only_for_those_who_see_them(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let pool = PgPool::connect_with(options).await.unwrap();
    let other = Tenant::create(&api.services, "Other").await.unwrap();
    let theirs = other.token(&api.services, Role::User).await.unwrap();
    let ours = to(&api, &api.user, api.tenant.eshop.get(), "https://shop.example/a").await;
    let foreign = to(&api, &theirs, other.eshop.get(), "https://shop.example/b").await;
    for hook in [&ours, &foreign] {
        ended(&pool, hook, "exhausted").await;
    }
    let host = json!({"host": "shop.example", "since": SINCE});
    assert_eq!(api.post(&api.user, COUNT, host.clone()).await.expect(200).json()["total"], 1);
    assert_eq!(api.post(&api.superadmin, COUNT, host.clone()).await.expect(200).json()["total"], 2);
    let job = api.post(&api.superadmin, REPLAY, host.clone()).await.expect(202).json();
    assert_eq!((&job["organisation"], &job["eshop"]), (&Value::Null, &Value::Null));
    let path = format!("/api/job/{}", job["id"].as_str().unwrap());
    api.get(&api.user, &path).await.expect(404);
    let job = api.post(&api.user, REPLAY, host).await.expect(202).json();
    assert_eq!(job["organisation"], json!(api.tenant.organisation));
    let refused = api.post(&api.user, REPLAY, json!({"webhooks": [ours, foreign], "since": SINCE})).await;
    assert_eq!(refused.expect(400).violations(), ["webhooks[1] unknown_reference"]);
    let all = json!({"webhooks": [foreign, ours, Uuid::nil()], "since": SINCE});
    let refused = api.post(&api.user, REPLAY, all).await.expect(400);
    assert_eq!(refused.violations(), ["webhooks[0] unknown_reference", "webhooks[2] unknown_reference"]);
    let refused = api.post(&api.user, REPLAY, json!({"eshop": other.eshop, "since": SINCE})).await;
    assert_eq!(refused.expect(400).violations(), ["eshop unknown_reference"]);
    for token in [&api.viewer, &api.connector] {
        api.post(token, REPLAY, json!({"webhooks": [ours], "since": SINCE})).await.expect(403);
    }
}

#[tokio::test]
async fn a_replay_names_what_is_wrong_with_its_criteria() {
    let api = Api::new(&strangers().await).await;
    let hook = to(&api, &api.user, api.tenant.eshop.get(), "https://shop.example/a").await;
    for (body, violations) in [
        (json!({"since": SINCE}), &["webhooks required"][..]),
        (json!({"webhooks": [hook]}), &["since required"]),
        (json!({"webhooks": [], "since": SINCE}), &["webhooks invalid_count"]),
        (json!({"webhooks": [hook], "since": SINCE, "until": SINCE}), &["until out_of_range"]),
        (json!({"webhooks": [hook], "since": SINCE, "event": "*"}), &["event not_allowed"]),
        (json!({"host": "nowhere.example", "since": SINCE}), &["host unknown_reference"]),
        (json!({"host": "%", "since": SINCE}), &["host unknown_reference"]),
        (json!({"webhooks": [hook], "since": SINCE, "limit": 5}), &["limit unknown_field"]),
    ] {
        for path in [REPLAY, COUNT] {
            let refused = api.post(&api.user, path, body.clone()).await.expect(400);
            assert_eq!(refused.violations(), violations, "{body}");
        }
    }
}
