//! Operations on all that match criteria (`docs/reference/jobs.md#bulk-by-criteria`).

use longshore_domain::job::payload::unpack_ids;
use longshore_kernel::access::Role;
use sqlx::PgPool;

use super::*;
use crate::product::{PATH, body as product, id};
use crate::support::{Reply, strangers};

const AT_ONCE: [(&str, &str); 1] = [("prefer", "respond-async")];
const DEACTIVATE: &str = "/api/product/deactivate";
const CANCEL: &str = "/api/job/cancel";
const RETRY: &str = "/api/job/retry";

/// Asks for a bulk without waiting for it.
async fn deactivate(world: &World, token: &str, body: Value) -> Reply {
    world.api.call_with(token, Method::PUT, DEACTIVATE, body, &AT_ONCE).await
}

/// The ids of a job, in its order, and how many each chunk has, by its own columns.
async fn items(owner: &PgPool, job: &Value) -> (Vec<Uuid>, Vec<(i32, i32, i32)>) {
    let chunks: Vec<(i32, i32, i32, Vec<u8>)> = sqlx::query_as(
        "SELECT number, first_index, item_count, payload FROM job_chunk WHERE job_id = $1::uuid ORDER BY number",
    )
    .bind(job["id"].as_str().unwrap())
    .fetch_all(owner)
    .await
    .unwrap();
    let ids = chunks.iter().flat_map(|(.., payload)| unpack_ids::<Uuid>(payload).unwrap()).collect();
    (ids, chunks.into_iter().map(|(number, first, count, _)| (number, first, count)).collect())
}

/// Inserts so many products of an organisation, with a weight of 0 to 9, without their traces.
async fn fill(owner: &PgPool, organisation: Uuid, products: i32) {
    let mut tx = owner.begin().await.unwrap();
    sqlx::raw_sql("SET LOCAL session_replication_role = replica").execute(&mut *tx).await.unwrap();
    sqlx::query(
        "INSERT INTO product (id, organisation_id, product_sku, internal_sku, name, weight, reference_numbers, packaging_type,
             imei_check_required, work_around_sn_in, work_around_ean_sticker, work_around_warranty_inf, work_around_lot,
             active, active_acceptance, type)
         SELECT gen_random_uuid(), $1, 'P-' || n, 'P', 'Product', n % 10, '{}', 'A', false, false, false, false, false, true, 0,
                'physical'
         FROM generate_series(1, $2) AS n",
    )
    .bind(organisation)
    .bind(products)
    .execute(&mut *tx)
    .await
    .unwrap();
    tx.commit().await.unwrap();
}

async fn ids_of(owner: &PgPool, sql: &'static str) -> Vec<Uuid> {
    sqlx::query_scalar(sql).fetch_all(owner).await.unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_bulk_by_criteria_has_all_that_match_when_it_is_accepted(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let api = &world.api;
    let (stranger, foreign) = world.stranger().await;
    fill(&world.owner, api.tenant.organisation.get(), 150_000).await;
    fill(&world.owner, stranger.organisation.get(), 100).await;

    let all = json!({"criteria": {"active": {"flag": true}}, "expect": 150_000});
    let job = deactivate(&world, &api.user, all.clone()).await.expect(202).json();
    assert_eq!(job["progress"]["total"], 150_000);
    assert_eq!((&job["criteria"], &job["organisation"]), (&all["criteria"], &json!(api.tenant.organisation)));
    let (found, chunks) = items(&world.owner, &job).await;
    let ours = "SELECT id FROM product WHERE product_sku LIKE 'P-%' AND organisation_id = (SELECT organisation_id FROM job) ORDER BY id";
    assert!(found == ids_of(&world.owner, ours).await, "by their ids");
    assert!(!found.contains(&foreign.parse().unwrap()));
    assert!(chunks.iter().zip(0..).all(|(chunk, number)| *chunk == (number, number * 1_000, 1_000)));
    assert_eq!(chunks.len(), 150);

    let some = json!({"criteria": {"weight": {"gte": 3, "lt": 5}, "productSku": {"like": "P-1"}}});
    let job = deactivate(&world, &api.superadmin, some).await.expect(202).json();
    let (found, chunks) = items(&world.owner, &job).await;
    let expected = "SELECT id FROM product WHERE weight IN (3, 4) AND product_sku LIKE 'P-1%' ORDER BY id";
    assert!(found == ids_of(&world.owner, expected).await, "of both organisations");
    let last = chunks.last().unwrap();
    assert_eq!(usize::try_from(last.1 + last.2).unwrap(), found.len());
    assert_eq!(job["organisation"], Value::Null, "it is of both");
    api.get(&api.user, &format!("/api/job/{}", job["id"].as_str().unwrap())).await.expect(404);

    // a job of one organisation is that organisation's, whoever asks for it
    let theirs = json!({"criteria": {"organisation": {"eq": stranger.organisation}}});
    let job = deactivate(&world, &api.superadmin, theirs.clone()).await.expect(202).json();
    assert_eq!(
        (&job["organisation"], &job["progress"]["total"]),
        (&json!(stranger.organisation), &json!(101))
    );
    deactivate(&world, &api.user, theirs).await.expect(400);
    let within =
        "SELECT count(*) FROM job WHERE parameters -> 'organisations' = jsonb_build_array(organisation_id)";
    assert_eq!(world.count(within).await, 2, "what they may change is of their organisation");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_connector_of_an_e_shop_reaches_what_is_in_it(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    let second = world.eshop().await;
    let ours = world.add("A", json!({})).await;
    world.add("B", json!({"eshops": [second]})).await;
    let bound = api.tenant.eshop_token(&api.services).await.unwrap();
    let everything = json!({"criteria": {}, "all": true});
    let job = deactivate(&world, &bound, everything.clone()).await.expect(202).json();
    assert_eq!(items(&world.owner, &job).await.0, [ours.parse::<Uuid>().unwrap()]);
    assert_eq!((&job["eshop"], &job["criteria"]), (&json!(api.tenant.eshop), &json!({})));
    let job = deactivate(&world, &api.user, everything.clone()).await.expect(202).json();
    assert_eq!(job["progress"]["total"], 2);
    deactivate(&world, &api.viewer, everything).await.expect(403);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn another_count_than_is_expected_changes_nothing(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    for sku in ["A", "B", "C"] {
        world.add(sku, json!({})).await;
    }
    let named = |expect: i64| json!({"criteria": {"productSku": {"in": ["A", "B", "X"]}}, "expect": expect});
    for expect in [0, 1, 3] {
        let refused = deactivate(&world, &api.user, named(expect)).await.expect(409).json();
        assert_eq!(refused["code"], "count_differs");
        assert_eq!(refused["detail"], format!("2 records match the criteria, not {expect}"));
        let parameters = json!({"{{ value }}": expect.to_string(), "{{ count }}": "2"});
        let violation = &refused["violations"][0];
        assert_eq!((&violation["propertyPath"], &violation["parameters"]), (&json!("expect"), &parameters));
    }
    assert_eq!(
        world.count("SELECT count(*) FROM job").await + world.count("SELECT count(*) FROM job_chunk").await,
        0
    );

    let key = [("prefer", "respond-async"), ("idempotency-key", "once")];
    let call = async || api.call_with(&api.user, Method::PUT, DEACTIVATE, named(2), &key).await.expect(202);
    let first = call().await.json();
    // a stored answer is not asked for its count again
    world.add("X", json!({})).await;
    let again = call().await;
    assert_eq!((again.header("idempotent-replayed"), &again.json()["id"]), (Some("true"), &first["id"]));
    assert_eq!(first["progress"]["total"], 2);
    assert_eq!(world.count("SELECT count(*) FROM job").await, 1);
    let listed = api.post(&api.user, "/api/job/list", json!({})).await.expect(200).json();
    assert_eq!(listed["results"][0]["criteria"], named(2)["criteria"]);
}

#[tokio::test]
async fn a_bulk_says_clearly_what_it_is_about() {
    let world = World::new(&strangers().await).await;
    let api = &world.api;
    let product = world.add("A", json!({})).await;
    let too_long = "x".repeat(9_000);
    let too_long: Vec<String> = (0..30).map(|n| format!("{n}{too_long}")).collect();
    for path in ["/api/product/activate", DEACTIVATE, CANCEL, RETRY] {
        for (body, violations) in [
            (json!({}), vec![" required"]),
            (json!({"ids": []}), vec!["ids invalid_count"]),
            (
                json!({"ids": [1], "all": true, "expect": 1}),
                vec!["ids[0] wrong_type", "expect not_allowed", "all not_allowed"],
            ),
            (json!({"criteria": {}}), vec!["all required"]),
            (json!({"criteria": []}), vec!["all required"]),
            (json!({"criteria": {"id": {}}, "all": false}), vec!["all required"]),
            (
                json!({"criteria": {"id": {"eq": Uuid::max()}}, "ids": [Uuid::max()]}),
                vec!["ids contradiction"],
            ),
            (json!({"criteria": {"id": {"eq": Uuid::max()}}}), vec!["criteria invalid_count"]),
            (json!({"criteria": {"colour": {"eq": "red"}}}), vec!["criteria.colour unknown_field"]),
            (json!({"criteria": {"id": {"like": "red"}}}), vec!["criteria.id.like unknown_operator"]),
            (json!({"criteria": {"id": {"eq": Uuid::max()}}, "expect": -1}), vec!["expect out_of_range"]),
            (json!({"criteria": {"id": {"eq": Uuid::max()}}, "limit": 1}), vec!["limit unknown_field"]),
            (json!("all"), vec![" wrong_type"]),
        ] {
            let refused = api.put(&api.user, path, body.clone()).await.expect(400);
            assert_eq!(refused.violations(), violations, "{path} {body}");
        }
        let text = if path.starts_with("/api/job") { "error" } else { "name" };
        let long = json!({"criteria": {text: {"in": too_long}}});
        assert_eq!(api.put(&api.user, path, long).await.expect(400).violations(), ["criteria too_large"]);
    }
    // an object of ids is an array of ids
    let job = deactivate(&world, &api.user, json!({"ids": [product, product]})).await.expect(202).json();
    assert_eq!((&job["progress"]["total"], &job["criteria"]), (&json!(1), &Value::Null));
    for path in ["/api/admin/activate", "/api/admin/delete"] {
        let body = json!({"criteria": {}, "all": true});
        assert_eq!(api.put(&api.superadmin, path, body).await.expect(400).violations(), [" wrong_type"]);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn jobs_that_match_are_cancelled_500_a_call_and_the_rest_is_counted(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let api = &world.api;
    let (stranger, _) = world.stranger().await;
    let theirs = stranger.token(&api.services, Role::User).await.unwrap();
    let foreign = accept(&world, &theirs).await;
    let job = accept(&world, &api.user).await;
    sqlx::query(
        "INSERT INTO job (id, kind, state, organisation_id, acceptance, total, actor_type, actor_name, created_at, finished_at)
         SELECT uuid_v7(), 'product.activate', CASE WHEN n <= 700 THEN 'queued' ELSE 'cancelled' END, $1, nextval('acceptance'), 1,
                'token', 'test', now() + n * interval '1 ms', CASE WHEN n > 700 THEN now() END
         FROM generate_series(1, 710) AS n",
    )
    .bind(api.tenant.organisation)
    .execute(&world.owner)
    .await
    .unwrap();
    let newest = "SELECT id FROM job WHERE state = 'queued' ORDER BY created_at DESC, id DESC LIMIT 500";
    let expected = ids_of(&world.owner, newest).await;

    let wanted = |expect: i64| json!({"criteria": {"kind": {"eq": "product.activate"}}, "expect": expect});
    let refused = api.put(&api.user, CANCEL, wanted(701)).await.expect(409).json();
    assert_eq!(
        (&refused["code"], world.count("SELECT count(*) FROM audit WHERE action = 'job.cancel'").await),
        (&json!("count_differs"), 0)
    );
    let once = [("idempotency-key", "cancel")];
    let call = async || api.call_with(&api.user, Method::PUT, CANCEL, wanted(711), &once).await.expect(200);
    let report = call().await.json();
    assert_eq!(report, json!({"done": expected, "left": 211, "refused": []}));
    let again = call().await;
    assert_eq!((again.header("idempotent-replayed"), again.json()), (Some("true"), report));

    let queued = json!({"criteria": {"state": {"in": ["queued", "running"]}}});
    let report = api.put(&api.user, CANCEL, queued.clone()).await.expect(200).json();
    assert_eq!((report["done"].as_array().unwrap().len(), &report["left"]), (201, &json!(0)));
    assert!(report["done"].as_array().unwrap().contains(&json!(job)));
    assert_eq!(api.put(&api.user, CANCEL, queued).await.expect(400).violations(), ["criteria invalid_count"]);
    // those that have ended are counted as left
    let report = api.put(&api.user, CANCEL, wanted(711)).await.expect(200).json();
    assert_eq!(report, json!({"done": [], "left": 711, "refused": []}));
    assert_eq!(api.get(&theirs, &format!("/api/job/{foreign}")).await.expect(200).json()["state"], "queued");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn jobs_that_match_are_retried_in_the_order_of_their_acceptance(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let api = &world.api;
    let jobs = [accept(&world, &api.user).await, accept(&world, &api.user).await];
    let empty = accept(&world, &api.user).await;
    for job in [&jobs[0], &jobs[1], &empty] {
        bulk::fail(&world, job).await;
    }
    sqlx::query("UPDATE job_chunk SET state = 'succeeded' WHERE job_id = $1::uuid")
        .bind(&empty)
        .execute(&world.owner)
        .await
        .unwrap();
    accept(&world, &api.user).await;
    let failed = json!({"criteria": {"organisation": {"eq": api.tenant.organisation}}, "expect": 4});
    let report = api.put(&api.user, RETRY, failed).await.expect(200).json();
    assert_eq!((&report["done"], &report["left"]), (&json!(jobs), &json!(2)));
    assert_eq!(
        report["refused"],
        json!([{"id": empty, "code": "conflict", "message": "this job has nothing to retry"}])
    );
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn products_of_others_are_not_found_by_relations_either(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let api = &world.api;
    let (stranger, _) = world.stranger().await;
    let made = api.post(&api.superadmin, PATH, product(&stranger, "more")).await.expect(201).json();
    let ours = world.add("A", json!({})).await;
    for criteria in [
        json!({"organisation.name": {"null": false}}),
        json!({"eshops.name": {"null": false}}),
        json!({"id": {"in": [ours, id(&made)]}}),
    ] {
        let job = deactivate(&world, &api.user, json!({"criteria": criteria, "expect": 1})).await.expect(202);
        assert_eq!(items(&world.owner, &job.json()).await.0, [ours.parse::<Uuid>().unwrap()], "{criteria}");
    }
}
