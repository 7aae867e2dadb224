//! Failed logins: how long an account and an address have to wait, and what is audited.

use axum::body::Body;
use http::Request;
use longshore_domain::account::login::limit::{
    Attempt, FREE_OF_ACCOUNT, FREE_OF_ADDRESS, FREE_OF_PAIR, LONGEST_WAIT, Whose,
};
use longshore_http::app::App;
use longshore_serve::Peer;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::account::{MIGRATIONS, PASSWORD, World, email};
use crate::support::strangers;

/// An attempt from a given address.
async fn from(
    world: &World,
    address: &str,
    door: &str,
    login: &str,
    password: &str,
) -> crate::support::Reply {
    let body = json!({"login": login, "password": password});
    let mut request = Request::post(format!("/api/login/{door}")).body(Body::from(body.to_string())).unwrap();
    request.extensions_mut().insert(Peer(address.parse().unwrap()));
    world.api.send(request).await
}

fn wait(reply: &crate::support::Reply) -> u64 {
    assert_eq!(reply.json()["code"], "rate_limited");
    reply.header("retry-after").unwrap().parse().unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn attempts_on_an_account_have_to_wait_in_every_process_and_in_every_spelling(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let mut world = World::new(&options).await;
    world.add_admin("iris", json!({"password": PASSWORD})).await;
    world.add_admin("bob", json!({"password": PASSWORD})).await;
    let mut spellings = vec![email("iris"), email("IRIS")];
    // a dotted capital I, which only some locales fold
    let folds = sqlx::query_scalar("SELECT lower('\u{130}') = 'i'").fetch_one(&world.owner).await.unwrap();
    spellings.extend(bool::then(folds, || email("iris").replace('i', "\u{130}")));
    for (number, login) in (0..FREE_OF_ACCOUNT).zip(spellings.iter().cycle()) {
        from(&world, &format!("192.0.2.{number}"), "admin", login, "wrong horse").await.expect(401);
    }
    // in another process
    world.api.serve(App::new(world.api.services.clone()));
    for login in &spellings {
        let refused = from(&world, "192.0.2.99", "admin", login, PASSWORD).await.expect(429);
        assert!((1..=2).contains(&wait(&refused)));
    }
    world.login("bob").await;
    // an unknown login gets the same answer
    for number in 0..FREE_OF_ACCOUNT {
        from(&world, &format!("192.0.2.{number}"), "admin", "nobody", "wrong horse").await.expect(401);
    }
    from(&world, "192.0.2.99", "admin", "NOBODY", "wrong horse").await.expect(429);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn guesses_from_elsewhere_do_not_delay_the_owner(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.add_admin("ann", json!({"password": PASSWORD})).await;
    let ann = email("ann");
    from(&world, "198.51.100.7", "admin", &ann, PASSWORD).await.expect(200);
    for number in 0..4 * FREE_OF_ACCOUNT {
        let reply = from(&world, &format!("192.0.2.{number}"), "admin", &ann, "wrong horse").await;
        assert!(reply.status == 401 || reply.status == 429, "{}", reply.text);
    }
    from(&world, "192.0.2.99", "admin", &ann, PASSWORD).await.expect(429);
    from(&world, "198.51.100.7", "admin", &ann, PASSWORD).await.expect(200);
    // but further guesses from there have to wait, too
    for _ in 0..FREE_OF_PAIR {
        from(&world, "198.51.100.7", "admin", &ann, "wrong horse").await.expect(401);
    }
    from(&world, "198.51.100.7", "admin", &ann, PASSWORD).await.expect(429);
}

#[tokio::test]
async fn each_attempt_waits_twice_as_long_as_the_one_before_up_to_a_maximum() {
    let world = World::new(&strangers().await).await;
    let queues = &world.api.services.queues;
    let (mut connection, address) = (queues.connection(), "192.0.2.1".parse().unwrap());
    let mut waits = Vec::new();
    for _ in 0..FREE_OF_ACCOUNT + 12 {
        let whose = Whose::Unknown("nobody");
        // after the wait
        let keys: Vec<String> = redis::cmd("KEYS")
            .arg(format!("{}*", queues.prefix()))
            .query_async(&mut connection)
            .await
            .unwrap();
        for key in keys {
            redis::cmd("HDEL").arg(key).arg("next").exec_async(&mut connection).await.unwrap();
        }
        Attempt::new(queues, Some(address)).admit_account("admin", &whose).await.unwrap();
        let refused = Attempt::new(queues, Some(address)).admit_account("admin", &whose).await;
        waits.push(refused.err().map_or(0, |problem| problem.retry_after_hint().unwrap().as_secs()));
    }
    let last = waits.last().copied().unwrap();
    assert!(waits.is_sorted() && waits[0] == 0, "{waits:?}");
    assert!((LONGEST_WAIT.as_secs()..=LONGEST_WAIT.as_secs() + 1).contains(&last), "{waits:?}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_successful_login_does_not_count(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.add_admin("ann", json!({"password": PASSWORD})).await;
    for number in 0..=FREE_OF_ADDRESS {
        from(&world, "192.0.2.1", "admin", &email("ann"), PASSWORD).await.expect(200);
        from(&world, &format!("192.0.2.{number}"), "admin", &email("ann"), PASSWORD).await.expect(200);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn too_many_attempts_from_an_address_are_refused_without_a_trace(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.add_admin("ann", json!({"password": PASSWORD})).await;
    let queues = &world.api.services.queues;
    for address in ["192.0.2.1", "2001:db8:1:2::1"] {
        for _ in 0..FREE_OF_ADDRESS {
            Attempt::new(queues, Some(address.parse().unwrap())).admit_address().await.unwrap();
        }
    }
    let mut connection = queues.connection();
    let mut keys = async || -> usize {
        let found: Vec<String> = redis::cmd("KEYS")
            .arg(format!("{}*", queues.prefix()))
            .query_async(&mut connection)
            .await
            .unwrap();
        found.len()
    };
    let before = keys().await;
    for number in 0..FREE_OF_ACCOUNT {
        // regardless of the client's headers, unless it is a trusted proxy
        let body = json!({"login": email("ann"), "password": "wrong horse"});
        let mut request = Request::post("/api/login/admin")
            .header("x-forwarded-for", format!("198.51.100.{number}"))
            .body(Body::from(body.to_string()))
            .unwrap();
        request.extensions_mut().insert(Peer("192.0.2.1".parse().unwrap()));
        world.api.send(request).await.expect(429);
        from(&world, "2001:db8:1:2::ffff", "admin", &format!("n{number}"), PASSWORD).await.expect(429);
    }
    assert_eq!(keys().await, before, "who is refused by its address counts nowhere else");
    from(&world, "192.0.2.2", "admin", &email("ann"), PASSWORD).await.expect(200);
    from(&world, "2001:db8:1:3::1", "admin", "nobody", PASSWORD).await.expect(401);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn refusals_are_audited_once_a_minute_for_an_account_or_address(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let ann = world.add_admin("ann", json!({"password": PASSWORD})).await;
    let uma = world.add_user("uma").await;
    for number in 0..30 {
        let address = format!("192.0.2.{number}");
        from(&world, &address, "admin", &email("ann"), "wrong horse").await;
        from(&world, "192.0.2.200", "admin", &format!("nobody{number}"), "wrong horse").await.expect(401);
    }
    from(&world, "192.0.2.201", "user", &email("uma"), "wrong horse").await.expect(401);
    for _ in 0..3 {
        world.api.post(&world.api.connector, "/api/admin/list", Value::Null).await.expect(403);
    }
    world.api.services.refusals.write(&world.api.services.db.main).await.unwrap();
    world.api.services.refusals.write(&world.api.services.db.main).await.unwrap();
    let criteria = json!({
        "criteria": {"action": {"in": ["login.failed", "login.limited", "request.forbidden"]}}, "limit": 100,
    });
    let list = world.api.post(&world.api.superadmin, "/api/audit", criteria.clone()).await.expect(200).json();
    let mut records: Vec<(&str, &str, &Value)> = list["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| {
            (r["action"].as_str().unwrap(), r["entity"]["type"].as_str().unwrap(), &r["changes"]["count"][1])
        })
        .collect();
    records.sort_by_key(|(action, entity, _)| (*action, *entity));
    let kinds: Vec<_> = records.iter().map(|(action, entity, _)| (*action, *entity)).collect();
    assert_eq!(
        kinds,
        [
            ("login.failed", "address"),
            ("login.failed", "admin"),
            ("login.failed", "business_user"),
            ("login.limited", "admin"),
            ("request.forbidden", "token"),
        ]
    );
    let counts: Vec<u64> = records.iter().map(|(.., count)| count.as_u64().unwrap()).collect();
    assert_eq!((counts[0], counts[2], counts[4]), (30, 1, 3));
    // some may have waited long enough meanwhile
    assert!(counts[1] >= u64::from(FREE_OF_ACCOUNT) && counts[3] > 0, "{counts:?}");
    assert_eq!(counts[1] + counts[3], 30);
    let find = |action: &str, entity: &str| {
        let found = list["results"].as_array().unwrap().iter();
        found.clone().find(|r| r["action"] == action && r["entity"]["type"] == entity).unwrap()
    };
    assert_eq!(find("login.failed", "admin")["entity"]["id"], json!(ann));
    assert_eq!(find("login.failed", "business_user")["entity"]["id"], json!(uma));
    let addresses = &find("login.failed", "admin")["changes"]["addresses"][1];
    assert_eq!(addresses.as_array().unwrap().len(), 10, "a few are named");
    let forbidden = find("request.forbidden", "token");
    assert_eq!(forbidden["changes"]["operations"][1], json!(["POST /api/admin/list"]));
    assert_eq!(forbidden["organisation"], json!(world.api.tenant.organisation));
    // an organisation sees its own refusals
    let list = world.api.post(&world.api.user, "/api/audit", criteria).await.expect(200).json();
    assert_eq!(list["paging"]["total"], 2);
}
