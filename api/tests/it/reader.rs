//! `/api/event-reader` (`docs/reference/event-readers.md#reader`).

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::extract::Request;
use futures::StreamExt as _;
use http::Method;
use longshore_domain::webhook::reader;
use longshore_kernel::access::Role;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tower::ServiceExt as _;

use crate::expedition::World as Orders;
use crate::support::{Api, strangers};

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

const PATH: &str = "/api/event-reader";

/// A reader of the organisation with these fields; its path.
async fn made(api: &Api, fields: Value) -> String {
    let mut body = json!({"organisation": api.tenant.organisation, "name": "ERP"});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let reader = api.post(&api.user, PATH, body).await.expect(201).json();
    assert_eq!(reader["starting"], json!(false), "{reader}");
    format!("{PATH}/{}", reader["id"].as_str().unwrap())
}

async fn product(api: &Api, sku: &str, eshops: Value) -> String {
    let body = json!({"eshops": eshops, "organisation": api.tenant.organisation, "productSku": sku,
        "internalSku": sku, "name": "Mug", "imeiCheckRequired": false, "active": true});
    api.post(&api.user, "/api/product", body).await.expect(201).json()["id"].as_str().unwrap().to_owned()
}

async fn rename(api: &Api, product: &str, name: &str) {
    api.put(&api.user, &format!("/api/product/{product}"), json!({"name": name})).await.expect(200);
}

/// A page after a cursor.
async fn page(api: &Api, reader: &str, query: &str) -> Value {
    api.get(&api.user, &format!("{reader}/events?{query}")).await.expect(200).json()
}

fn names(page: &Value) -> Vec<&str> {
    let events = page["events"].as_array().unwrap();
    events.iter().map(|event| event["data"]["fields"]["name"].as_str().unwrap_or_default()).collect()
}

#[tokio::test]
async fn it_reads_what_happened_since_it_was_made_in_order_and_from_where_it_is() {
    let api = Api::new(&strangers().await).await;
    let eshop = json!(api.tenant.eshop);
    let mug = product(&api, "mug", json!([eshop])).await;
    let reader = made(&api, json!({"event": "product_change"})).await;
    for name in ["one", "two", "three"] {
        rename(&api, &mug, name).await;
    }
    let first = page(&api, &reader, "limit=2").await;
    assert_eq!(names(&first), ["one", "two"]);
    let body = &first["events"][0];
    assert_eq!((&body["type"], &body["eshops"]), (&json!("product_change"), &json!([eshop])));
    assert!(body["webhookId"].is_string());
    // without a position it is where it began
    assert_eq!(names(&page(&api, &reader, "").await), ["one", "two", "three"]);
    let next = first["next"].as_str().unwrap();
    let second = page(&api, &reader, &format!("after={next}")).await;
    assert_eq!((names(&second), &second["behindMs"]), (vec!["three"], &json!(0)));
    api.put(&api.user, &format!("{reader}/position"), json!({"next": next})).await.expect(204);
    assert_eq!(names(&page(&api, &reader, "limit=10").await), ["three"]);
    let shown = api.get(&api.user, &reader).await.expect(200).json();
    assert_eq!(shown["position"], json!(next));
    assert!(shown["positionAt"].is_string() && shown["readAt"].is_string());
    // at the end, the same place again until something comes
    let end = second["next"].as_str().unwrap();
    let nothing = page(&api, &reader, &format!("after={end}")).await;
    assert_eq!((names(&nothing).len(), nothing["next"].as_str()), (0, Some(end)));
    rename(&api, &mug, "four").await;
    assert_eq!(names(&page(&api, &reader, &format!("after={end}")).await), ["four"]);
}

#[tokio::test]
async fn it_hears_of_its_types_criteria_and_eshop_and_of_what_it_selects() {
    let api = Api::new(&strangers().await).await;
    let first = json!(api.tenant.eshop);
    let second = json!({"organisation": api.tenant.organisation, "name": "Second", "active": true});
    let second = api.post(&api.superadmin, "/api/eshop", second).await.expect(201).json()["id"].clone();
    let all = made(&api, json!({})).await;
    let of_second = json!({"eshop": second, "name": "of the second", "events": ["product_change"]});
    let of_second = api.post(&api.user, PATH, of_second).await.expect(201).json();
    let of_second = format!("{PATH}/{}", of_second["id"].as_str().unwrap());
    let narrow = json!({"event": "product_change", "select": ["name"],
        "criteria": {"eshop": {"eq": first}, "data.changedFields": {"eq": "name"}}});
    let narrow = made(&api, narrow).await;
    let both = product(&api, "both", json!([first, second])).await;
    let one = product(&api, "one", json!([first])).await;
    rename(&api, &both, "renamed").await;
    api.put(&api.user, &format!("/api/product/{one}"), json!({"weight": 7})).await.expect(200);
    let skus = |page: &Value| -> Vec<String> {
        let events = page["events"].as_array().unwrap().iter();
        events.map(|event| event["data"]["productSku"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(skus(&page(&api, &all, "").await), ["both", "one", "both", "one"]);
    let found = page(&api, &of_second, "").await;
    assert_eq!(skus(&found), ["both", "both"]);
    assert!(found["events"][0].get("eshops").is_none(), "an e-shop is told of no other");
    let found = page(&api, &narrow, "").await;
    assert_eq!(skus(&found), ["both", "one", "both"]);
    assert_eq!(found["events"][2]["data"]["fields"], json!({"name": "renamed"}));
    // a change of it holds for what is read from then on
    let select = json!({"select": null, "criteria": {"data.changedFields": {"eq": "weight"}}});
    api.put(&api.user, &narrow, select).await.expect(200);
    let found = page(&api, &narrow, "").await;
    assert_eq!(found["events"].as_array().unwrap().last().unwrap()["data"]["fields"], json!({"weight": 7}));
}

#[tokio::test]
async fn only_those_of_the_organisation_read_and_each_mistake_is_named() {
    let api = Api::new(&strangers().await).await;
    let other = Tenant::create(&api.services, "Toys").await.unwrap();
    let foreign = other.token(&api.services, Role::User).await.unwrap();
    let bound = api.tenant.eshop_token(&api.services).await.unwrap();
    let connector = api.tenant.token(&api.services, Role::Connector).await.unwrap();
    let reader = made(&api, json!({})).await;
    for path in [reader.clone(), format!("{reader}/events"), format!("{reader}/snapshot?of=products")] {
        api.get(&foreign, &path).await.expect(404);
        api.get(&bound, &path).await.expect(404);
        api.get(&connector, &path).await.expect(404);
        api.get(&api.viewer, &path).await.expect(200);
    }
    let body = json!({"eshop": api.tenant.eshop, "name": "own"});
    api.post(&api.viewer, PATH, body.clone()).await.expect(403);
    assert_eq!(
        api.post(&foreign, PATH, body.clone()).await.expect(400).violations(),
        ["eshop unknown_reference"]
    );
    api.post(&connector, PATH, body).await.expect(201);
    assert_eq!(
        api.post(&api.user, PATH, json!({})).await.expect(400).violations(),
        ["eshop required", "name required"]
    );
    for (query, violation) in [
        ("limit=0", "limit out_of_range"),
        ("limit=10001", "limit out_of_range"),
        ("wait=61", "wait out_of_range"),
        ("after=x", "after invalid_cursor"),
        ("from=1", "from unknown_field"),
    ] {
        let refused = api.get(&api.user, &format!("{reader}/events?{query}")).await.expect(400).violations();
        assert_eq!(refused, [violation]);
    }
    for (query, violation) in
        [("", "of required"), ("?of=jobs", "of not_allowed"), ("?off=orders", "off unknown_field")]
    {
        let refused = api.get(&api.user, &format!("{reader}/snapshot{query}")).await.expect(400).violations();
        assert_eq!(refused, [violation]);
    }
    let position = format!("{reader}/position");
    let refused = api.put(&api.user, &position, json!({"next": "x"})).await.expect(400).violations();
    assert_eq!(refused, ["next invalid_cursor"]);
    // 32 of an organisation
    for _ in 0..30 {
        made(&api, json!({})).await;
    }
    let body = json!({"organisation": api.tenant.organisation, "name": "one more"});
    assert_eq!(api.post(&api.user, PATH, body).await.expect(409).json()["code"], "quota_reached");
    api.delete(&api.user, &reader).await.expect(204);
    assert_eq!(api.get(&api.user, &format!("{reader}/events")).await.expect(410).json()["code"], "gone");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_change_that_began_before_the_reader_keeps_it_starting_and_is_in_the_first_load(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let owner = PgPool::connect_with(options).await.unwrap();
    let mug = product(&api, "mug", json!([api.tenant.eshop])).await;
    // a change that has looked who listens, and has not ended
    let mut changing = owner.begin().await.unwrap();
    for statement in [
        "SELECT count(*) FROM event_reader",
        "UPDATE product SET name = 'renamed meanwhile', version = version + 1",
    ] {
        sqlx::query(statement).execute(&mut *changing).await.unwrap();
    }
    let body = json!({"organisation": api.tenant.organisation, "name": "ERP"});
    let reader = api.post(&api.user, PATH, body).await.expect(201).json();
    assert_eq!(reader["starting"], json!(true));
    let reader = format!("{PATH}/{}", reader["id"].as_str().unwrap());
    // one that looks later is not waited for
    let mut later = owner.begin().await.unwrap();
    sqlx::query("SELECT count(*) FROM event_reader").execute(&mut *later).await.unwrap();
    for path in [format!("{reader}/events"), format!("{reader}/snapshot?of=products")] {
        let refused = api.get(&api.user, &path).await.expect(503);
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
    changing.commit().await.unwrap();
    let first = page(&api, &reader, "").await;
    assert_eq!(names(&first), Vec::<&str>::new(), "it began after that change");
    later.rollback().await.unwrap();
    let snapshot = api.get(&api.user, &format!("{reader}/snapshot?of=products")).await.expect(200).text;
    assert!(snapshot.contains("renamed meanwhile"), "{snapshot}");
    rename(&api, &mug, "later").await;
    assert_eq!(names(&page(&api, &reader, "").await), ["later"]);
}

/// An event in a transaction of its own, as a change writes it.
async fn written(connection: &mut sqlx::PgConnection, api: &Api, name: &str) {
    sqlx::query(
        "INSERT INTO event (id, type, organisation_id, entity_type, entity_id, data, eshops)
         SELECT uuid_v7(), 'product_change', $1, 'product', gen_random_uuid(),
                jsonb_build_object('fields', jsonb_build_object('name', $2::text)), ARRAY[$3::uuid]",
    )
    .bind(api.tenant.organisation)
    .bind(name)
    .bind(api.tenant.eshop)
    .execute(connection)
    .await
    .unwrap();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_is_committed_late_comes_late_and_nothing_waits_for_what_never_ends(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let owner = PgPool::connect_with(options).await.unwrap();
    let reader = made(&api, json!({})).await;
    let mut hung = owner.begin().await.unwrap();
    written(&mut hung, &api, "never").await;
    let mut late = owner.begin().await.unwrap();
    written(&mut late, &api, "late").await;
    written(&mut owner.acquire().await.unwrap(), &api, "early").await;
    let first = page(&api, &reader, "").await;
    assert_eq!(names(&first), ["early"]);
    late.commit().await.unwrap();
    let next = first["next"].as_str().unwrap();
    let second = page(&api, &reader, &format!("after={next}")).await;
    assert_eq!(names(&second), ["late"]);
    // whoever reads from the beginning reads the same order
    assert_eq!(names(&page(&api, &reader, "").await), ["early", "late"]);
    hung.rollback().await.unwrap();
    let next = second["next"].as_str().unwrap();
    assert_eq!(names(&page(&api, &reader, &format!("after={next}")).await), Vec::<&str>::new());
}

/// Reads on, some events at a time, sometimes once more from a cursor before; returns what it got in order, each page once.
async fn follow(api: &Api, reader: &str, seed: u64, until: &HashSet<String>) -> Vec<Value> {
    let mut state = seed;
    // numbers below this one, the same for each seed
    let mut below = |most: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % most
    };
    let (mut pages, mut after): (Vec<(String, Vec<Value>)>, String) = (Vec::new(), String::new());
    let end = std::time::Instant::now() + Duration::from_mins(1);
    loop {
        let limit = 1 + below(40);
        let query = if after.is_empty() { String::new() } else { format!("&after={after}") };
        let read = page(api, reader, &format!("limit={limit}{query}")).await;
        let next = read["next"].as_str().unwrap().to_owned();
        pages.push((after.clone(), read["events"].as_array().unwrap().clone()));
        after = next;
        if below(10) == 0 {
            // it has crashed before it stored where it was
            let back = below(pages.len());
            after.clone_from(&pages[back].0);
            pages.truncate(back);
        }
        let seen = pages.iter().flat_map(|(_, events)| events);
        let seen: HashSet<&str> = seen.map(|event| event["webhookId"].as_str().unwrap()).collect();
        if !until.is_empty() && until.iter().all(|id| seen.contains(id.as_str())) {
            return pages.into_iter().flat_map(|(_, events)| events).collect();
        }
        assert!(std::time::Instant::now() < end, "{} of {}", seen.len(), until.len());
        tokio::task::yield_now().await;
        if until.is_empty() && pages.len() > 60 {
            return pages.into_iter().flat_map(|(_, events)| events).collect();
        }
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn beside_many_writers_each_event_comes_once_in_one_order_that_is_that_of_versions(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let owner = PgPool::connect_with(options).await.unwrap();
    let mut products = Vec::new();
    for n in 0..8 {
        products.push(product(&api, &format!("mug-{n}"), json!([api.tenant.eshop])).await);
    }
    let readers = [made(&api, json!({})).await, made(&api, json!({})).await];
    let writing = async {
        let of = async |n: usize| {
            for change in 0..12 {
                let mug = &products[(n + change) % products.len()];
                rename(&api, mug, &format!("{n}.{change}")).await;
            }
        };
        futures::future::join_all((0..16).map(of)).await;
    };
    // also while they write, from cursors in the middle of everything
    let nothing = HashSet::new();
    tokio::join!(writing, follow(&api, &readers[0], 1, &nothing), follow(&api, &readers[1], 2, &nothing));
    let all: Vec<String> = sqlx::query_scalar("SELECT id::text FROM event").fetch_all(&owner).await.unwrap();
    let all: HashSet<String> = all.into_iter().collect();
    assert_eq!(all.len(), 16 * 12);
    let (one, other) = tokio::join!(follow(&api, &readers[0], 3, &all), follow(&api, &readers[1], 4, &all));
    let ids = |events: &[Value]| -> Vec<String> {
        events.iter().map(|event| event["webhookId"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&one).len(), all.len(), "each once");
    assert_eq!(ids(&one), ids(&other), "one order");
    let mut versions: HashMap<&str, i64> = HashMap::new();
    for event in &one {
        let version = event["data"]["version"].as_i64().unwrap();
        let before = versions.insert(event["id"].as_str().unwrap(), version);
        assert!(before.is_none_or(|before| before < version), "{event}");
    }
}

#[tokio::test]
async fn who_waits_is_told_when_something_comes_and_a_snapshot_says_where_to_read_on() {
    let api = Api::new(&strangers().await).await;
    let reader = made(&api, json!({"event": "product_change"})).await;
    let mug = product(&api, "mug", json!([api.tenant.eshop])).await;
    let cup = product(&api, "cup", json!([api.tenant.eshop])).await;
    let snapshot = api.get(&api.user, &format!("{reader}/snapshot?of=products")).await.expect(200);
    assert_eq!(snapshot.header("content-type"), Some("application/x-ndjson"));
    let lines: Vec<Value> = snapshot.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[2]["rows"], 2);
    let ids: HashSet<&str> = lines[..2].iter().map(|record| record["id"].as_str().unwrap()).collect();
    assert_eq!(ids, HashSet::from([mug.as_str(), cup.as_str()]));
    let next = lines[2]["next"].as_str().unwrap();
    let path = format!("{reader}/events?wait=30&after={next}");
    let changing = async {
        tokio::task::yield_now().await;
        rename(&api, &mug, "awaited").await;
    };
    let (waited, ()) = tokio::join!(api.get(&api.user, &path), changing);
    assert_eq!(names(&waited.expect(200).json()), ["awaited"]);
    for of in ["stocks", "orders"] {
        let empty = api.get(&api.user, &format!("{reader}/snapshot?of={of}")).await.expect(200).text;
        assert_eq!(empty.lines().count(), 1, "{of}: {empty}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_cursor_of_before_a_restore_or_of_too_long_ago_is_gone(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let owner = PgPool::connect_with(options).await.unwrap();
    let reader = made(&api, json!({})).await;
    let other = made(&api, json!({})).await;
    let mug = product(&api, "mug", json!([api.tenant.eshop])).await;
    let next = page(&api, &reader, "").await["next"].as_str().unwrap().to_owned();
    let position = format!("{reader}/position");
    api.put(&api.user, &position, json!({"next": next})).await.expect(204);
    sqlx::query("UPDATE pulse SET epoch = epoch + 1").execute(&owner).await.unwrap();
    let refused = api.get(&api.user, &format!("{reader}/events?after={next}")).await.expect(410);
    assert_eq!(
        (refused.violations(), &refused.json()["code"]),
        (vec!["after restored".to_owned()], &json!("gone"))
    );
    let of_position = api.put(&api.user, &position, json!({"next": next})).await.expect(410);
    assert_eq!(of_position.violations(), ["next restored"]);
    // who keeps its place at the service is told as well, and so is who never stored one
    let stored = api.get(&api.user, &format!("{reader}/events")).await.expect(410);
    assert_eq!(stored.violations(), ["after restored"]);
    assert_eq!(
        api.get(&api.user, &format!("{other}/events")).await.expect(410).violations(),
        ["after restored"]
    );
    // from a snapshot it goes on
    let snapshot = api.get(&api.user, &format!("{reader}/snapshot?of=products")).await.expect(200).text;
    let last: Value = serde_json::from_str(snapshot.lines().last().unwrap()).unwrap();
    api.put(&api.user, &position, json!({"next": last["next"]})).await.expect(204);
    rename(&api, &mug, "after it").await;
    assert_eq!(names(&page(&api, &reader, "").await), ["after it"]);
    sqlx::query("UPDATE event_reader_position SET position = NULL, position_at = NULL")
        .execute(&owner)
        .await
        .unwrap();
    // as that of a reader that began 38 days ago
    let old = "UPDATE event_reader_position SET epoch = 2, beginning = translate(encode(convert_to(
                   '2.' || (SELECT system_identifier FROM pg_control_system()) || '.0.' || (extract(epoch FROM now() - interval '38 days') * 1e6)::bigint || '.700:700:', 'UTF8'), 'base64'), '+/=' || chr(10), '-_')";
    sqlx::query(old).execute(&owner).await.unwrap();
    let refused = api.get(&api.user, &format!("{reader}/events")).await.expect(410);
    assert_eq!(refused.violations(), ["after expired"]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn rows_of_a_restored_dump_are_not_new(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    let owner = PgPool::connect_with(options).await.unwrap();
    // written by a transaction of elsewhere, whose number comes soon here: a thousand of them, one after the other
    let foreign = "INSERT INTO event (id, type, organisation_id, entity_type, entity_id, data, eshops, written_by)
                   SELECT uuid_v7(), 'product_change', $1, 'product', gen_random_uuid(), '{\"fields\": {\"name\": \"foreign\"}}', ARRAY[$2::uuid],
                          (pg_current_xact_id()::text::bigint + n)::text::xid8 FROM generate_series(5, 2000) AS n";
    sqlx::query(foreign).bind(api.tenant.organisation).bind(api.tenant.eshop).execute(&owner).await.unwrap();
    let reader = made(&api, json!({})).await;
    let began = page(&api, &reader, "").await;
    assert_eq!((names(&began).len(), &began["behindMs"]), (0, &json!(0)), "they do not keep it from its end");
    let mug = product(&api, "mug", json!([api.tenant.eshop])).await;
    for n in 0..20 {
        rename(&api, &mug, &format!("mug {n}")).await;
    }
    let read = page(&api, &reader, "").await;
    assert_eq!(names(&read).len(), 21, "{read}");
    assert!(!names(&read).contains(&"foreign"));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_upkeep_makes_moments_thins_them_and_removes_who_is_not_read(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let owner = PgPool::connect_with(options).await.unwrap();
    let ticks = async || -> Vec<i64> {
        sqlx::query_scalar("SELECT n FROM event_tick ORDER BY n").fetch_all(&owner).await.unwrap()
    };
    let execute = async |sql: &'static str| {
        sqlx::query(sql).execute(&owner).await.unwrap();
    };
    let reader = made(&api, json!({})).await;
    let mug = product(&api, "mug", json!([api.tenant.eshop])).await;
    let db = &api.services.db;
    // where nobody reads, there is a moment a minute, if there is something new
    assert_eq!((reader::keep(db).await.unwrap(), ticks().await), (0, vec![1]));
    execute("UPDATE event_tick SET at = at - interval '1 minute'").await;
    assert_eq!((reader::keep(db).await.unwrap(), ticks().await), (1, vec![1, 2]));
    execute("UPDATE event_tick SET at = at - interval '1 minute'").await;
    assert_eq!(reader::keep(db).await.unwrap(), 0, "nothing is new");

    // after an hour, the last of a minute is enough, also for a cursor of one that is gone
    rename(&api, &mug, "one").await;
    let one = page(&api, &reader, "").await;
    rename(&api, &mug, "two").await;
    tokio::time::sleep(Duration::from_millis(150)).await;
    page(&api, &reader, &format!("after={}", one["next"].as_str().unwrap())).await;
    rename(&api, &mug, "three").await;
    tokio::time::sleep(Duration::from_millis(150)).await;
    page(&api, &reader, "").await;
    execute("UPDATE event_tick SET at = date_trunc('minute', now()) - interval '2 hours' + n * interval '1 second'").await;
    let before = ticks().await;
    reader::thin(db, 1_000).await.unwrap();
    assert_eq!(ticks().await, before[before.len() - 1..]);
    let rest = page(&api, &reader, &format!("after={}", one["next"].as_str().unwrap())).await;
    assert_eq!(names(&rest), ["two", "three"]);
    // the last one of an organisation is kept, however old: the next one has a higher number
    execute("UPDATE event_tick SET at = at - interval '40 days'").await;
    reader::thin(db, 1_000).await.unwrap();
    assert_eq!(ticks().await, before[before.len() - 1..]);

    assert_eq!(reader::forget(&api.services).await.unwrap(), 0);
    execute("UPDATE event_reader_position SET read_at = read_at - interval '31 days'").await;
    assert_eq!(reader::forget(&api.services).await.unwrap(), 1);
    api.get(&api.user, &reader).await.expect(410);
    let by: String = sqlx::query_scalar("SELECT actor_type FROM audit WHERE action = 'event_reader.delete'")
        .fetch_one(&owner)
        .await
        .unwrap();
    assert_eq!(by, "schedule");
}

/// The next lines of an answer without an end.
async fn lines(body: &mut BodyDataStream) -> Vec<Value> {
    let piece = tokio::time::timeout(Duration::from_secs(20), body.next()).await.unwrap().unwrap().unwrap();
    assert!(piece.ends_with(b"\n"));
    piece[..piece.len() - 1]
        .split(|byte| *byte == b'\n')
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

#[tokio::test]
async fn a_feed_of_lines_goes_on_until_the_service_stops_or_the_reader_is_gone() {
    let api = Api::new(&strangers().await).await;
    let mug = product(&api, "mug", json!([api.tenant.eshop])).await;
    let reader = made(&api, json!({"event": "product_change"})).await;
    let other = made(&api, json!({"event": "product_change"})).await;
    rename(&api, &mug, "one").await;
    rename(&api, &mug, "two").await;
    let open = async |reader: &str, query: &str| {
        let request = Request::get(format!("{reader}/events?{query}"))
            .header("host", "longshore.test")
            .header("authorization", format!("Bearer {}", api.user))
            .header("accept", "application/x-ndjson");
        let response = api.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.headers()["content-type"], "application/x-ndjson");
        response
    };
    let response = open(&reader, "limit=1").await;
    assert_eq!(response.status(), 200);
    let mut body = response.into_body().into_data_stream();
    let mut next = Value::Null;
    for name in ["one", "two"] {
        let read = lines(&mut body).await;
        assert_eq!((read.len(), &read[0]["data"]["fields"]["name"]), (2, &json!(name)));
        assert!(read[0]["webhookId"].is_string());
        next = read[1]["next"].clone();
    }
    // who waits is told at once; who hears nothing, that nothing came
    let told = async {
        loop {
            let read = lines(&mut body).await;
            if read.len() > 1 {
                return read;
            }
        }
    };
    let (read, ()) = tokio::join!(told, rename(&api, &mug, "three"));
    assert_eq!(read[0]["data"]["fields"]["name"], "three");
    let read = lines(&mut body).await;
    assert_eq!((read.len(), read[0]["behindMs"].clone()), (1, json!(0)));
    // it goes on from any of these places
    let mut again =
        open(&reader, &format!("after={}", next.as_str().unwrap())).await.into_body().into_data_stream();
    assert_eq!(lines(&mut again).await[0]["data"]["fields"]["name"], "three");
    api.delete(&api.user, &reader).await.expect(204);
    rename(&api, &mug, "four").await;
    assert!(again.next().await.is_none_or(|piece| piece.is_err()), "the reader is gone");
    api.get(&api.user, &format!("{reader}/events")).await.expect(410);
    let mut body = open(&other, "").await.into_body().into_data_stream();
    assert_eq!(lines(&mut body).await.len(), 5);
    api.app.closing.cancel();
    assert!(body.next().await.is_none());
    for (accept, status) in [("text/csv", 406), ("application/x-ndjson;q=0.1, */*", 200)] {
        let request = Request::get(format!("{other}/events"))
            .header("authorization", format!("Bearer {}", api.user))
            .header("accept", accept);
        let reply = api.send(request.body(Body::empty()).unwrap()).await.expect(status);
        assert_eq!(reply.json()["events"].is_array(), status == 200);
    }
}

#[tokio::test]
async fn a_reader_may_begin_where_others_have_read_before() {
    let options = strangers().await;
    let api = Api::new(&options).await;
    let mug = product(&api, "mug", json!([api.tenant.eshop])).await;
    let from = |from: &str| json!({"organisation": api.tenant.organisation, "name": "later", "from": from});
    let violation = async |body: Value| {
        let refused = api.post(&api.user, PATH, body).await.expect(400).json();
        refused["violations"][0]["message"].as_str().unwrap().to_owned()
    };
    let none = violation(from("2026-01-01T00:00:00Z")).await;
    assert!(none.starts_with("cannot be sent: "), "{none}");
    let first = made(&api, json!({})).await;
    for name in ["one", "two"] {
        rename(&api, &mug, name).await;
        page(&api, &first, "").await;
    }
    let owner = PgPool::connect_with(options).await.unwrap();
    let middle: String = sqlx::query_scalar(
        "SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') FROM event_tick WHERE organisation_id = $1 ORDER BY n DESC OFFSET 1 LIMIT 1",
    )
    .bind(api.tenant.organisation)
    .fetch_one(&owner)
    .await
    .unwrap();
    assert_eq!(names(&page(&api, &made(&api, json!({"from": middle})).await, "").await), ["two"]);
    assert!(names(&page(&api, &made(&api, json!({"from": null})).await, "").await).is_empty());
    let early = violation(from("2026-01-01T00:00:00Z")).await;
    assert!(early.starts_with("must not be before "), "{early}");
    assert_eq!(violation(from("2999-01-01T00:00:00Z")).await, "must not be in the future");
    let refused = api.put(&api.user, &first, json!({"from": middle})).await.expect(400).violations();
    assert_eq!(refused, ["from unknown_field"]);
}

/// What a program keeps of products, or of orders: by their ids.
type Copy = HashMap<String, Value>;

/// Changes a copy as an event says.
fn apply(copy: &mut Copy, event: &Value, eshop: &Value) {
    let (data, kind) = (&event["data"], event["type"].as_str().unwrap());
    let (id, version) = (data["id"].as_str().unwrap(), data["version"].as_i64().unwrap());
    if copy.get(id).is_some_and(|known| known["version"].as_i64().unwrap() >= version) {
        return;
    }
    if kind == "expedition_deleted" {
        copy.remove(id);
    } else if kind.starts_with("expedition_") {
        copy.insert(id.to_owned(), json!({"version": version, "status": event["status"]}));
    } else {
        let fields = &data["fields"];
        let eshops = fields["eshops"].as_array();
        if eshops.is_some_and(|eshops| !eshops.contains(eshop)) {
            copy.remove(id);
        } else if eshops.is_some() {
            copy.insert(id.to_owned(), json!({"version": version, "name": fields["name"]}));
        } else if let Some(known) = copy.get_mut(id) {
            known["version"] = json!(version);
            if let Some(name) = fields.get("name") {
                known["name"] = name.clone();
            }
        }
    }
}

#[tokio::test]
async fn a_first_load_and_what_follows_are_the_database() {
    const LOADS: usize = 100;
    let world = Orders::new(&strangers().await).await;
    let api = &world.api;
    let eshop = json!(api.tenant.eshop);
    let second = json!({"organisation": api.tenant.organisation, "name": "Second", "active": true});
    let second = api.post(&api.superadmin, "/api/eshop", second).await.expect(201).json()["id"].clone();
    let mut mugs = Vec::new();
    for n in 0..6 {
        mugs.push(product(api, &format!("copied-{n}"), json!([eshop])).await);
    }
    let reader = json!({"eshop": eshop, "name": "copies", "events": ["product_change", "expedition_change",
        "expedition_status_change", "expedition_booked_change", "expedition_deleted"]});
    let reader = api.post(&api.user, PATH, reader).await.expect(201).json()["id"].clone();
    let reader = format!("{PATH}/{}", reader.as_str().unwrap());
    let is_over = std::cell::Cell::new(false);
    let write = async |writer: usize| {
        let mut placed: Vec<Value> = Vec::new();
        for n in 0.. {
            if is_over.get() {
                return;
            }
            let mug = &mugs[(n * 5 + writer) % mugs.len()];
            match (n + writer) % 5 {
                0 => rename(api, mug, &format!("by {writer}, {n}")).await,
                1 | 2 => {
                    let eshops = if n % 2 == 0 { json!([second]) } else { json!([eshop, second]) };
                    api.put(&api.user, &format!("/api/product/{mug}"), json!({"eshops": eshops}))
                        .await
                        .expect(200);
                }
                3 => placed.push(world.made(world.order(&format!("C-{writer}-{n}"), &world.mug)).await),
                _ if placed.len() > 3 => {
                    let order = placed.remove(n % placed.len());
                    world.on(Method::DELETE, &order, "", Value::Null).await.expect(204);
                }
                _ => {}
            }
        }
    };
    let follow = async |copy: &mut Copy, next: &mut String, limit: usize| {
        let page = page(api, &reader, &format!("after={next}&limit={limit}")).await;
        page["events"].as_array().unwrap().iter().for_each(|event| apply(copy, event, &eshop));
        *next = page["next"].as_str().unwrap().to_owned();
        page["behindMs"] == 0
    };
    let load = async || {
        let mut copies = Vec::new();
        for n in 0..LOADS {
            let of = ["products", "orders"][n % 2];
            let loaded = api.get(&api.user, &format!("{reader}/snapshot?of={of}")).await.expect(200).text;
            let mut lines: Vec<Value> =
                loaded.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let mut next = lines.pop().unwrap()["next"].as_str().unwrap().to_owned();
            let named = lines.into_iter().map(|record| (record["id"].as_str().unwrap().to_owned(), record));
            let mut copy: Copy = named.collect();
            follow(&mut copy, &mut next, n % 7 + 1).await;
            copies.push((of, copy, next));
        }
        is_over.set(true);
        copies
    };
    let (copies, ..) = tokio::join!(load(), write(0), write(1));
    let asked = json!({"criteria": {"eshops": {"eq": eshop}}, "select": ["id", "version", "name"]});
    let products = api.post(&api.user, "/api/product/list", asked).await.expect(200).json();
    let asked = json!({"criteria": {"eshop": {"eq": eshop}}, "select": ["id", "version", "status"]});
    let orders = api.post(&api.user, "/api/expedition/list", asked).await.expect(200).json();
    for (n, (of, mut copy, mut next)) in copies.into_iter().enumerate() {
        while !follow(&mut copy, &mut next, 1_000).await {}
        let (stored, member) = match of {
            "products" => (&products, "name"),
            _ => (&orders, "status"),
        };
        // events of the others were taken, too
        copy.retain(|_, record| record.get(member).is_some());
        let stored = stored["results"].as_array().unwrap();
        assert!(!stored.is_empty());
        for record in stored {
            let copied = &copy[record["id"].as_str().unwrap()];
            assert_eq!(
                (&copied["version"], &copied[member]),
                (&record["version"], &record[member]),
                "{of} {n}"
            );
        }
        assert_eq!(copy.len(), stored.len(), "{of} {n}");
    }
}
