//! What a job changed (`docs/reference/jobs.md#changes`).

use longshore_kernel::access::Role;
use sqlx::PgPool;

use super::*;

/// Records that a job of an e-shop changed some records.
async fn change(owner: &PgPool, job: &str, organisation: Uuid, entity: &str, records: &[Uuid]) {
    sqlx::query(
        "INSERT INTO audit (id, actor_type, actor_name, action, entity_type, entity_id, organisation_id, changes, job_id)
         SELECT uuid_v7(), 'token', 'connector', $4 || '.update', $4, record, $2, '{\"weight\": [1, 2]}', $1::uuid
         FROM unnest($3) AS record",
    )
    .bind(job)
    .bind(organisation)
    .bind(records)
    .bind(entity)
    .execute(owner)
    .await
    .unwrap();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_changes_of_a_job_are_listed_for_those_who_see_the_job(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let api = &world.api;
    let organisation = api.tenant.organisation.get();
    let (stranger, foreign) = world.stranger().await;
    let theirs = stranger.token(&api.services, Role::User).await.unwrap();
    let product: Uuid = world.add("MUG-1", json!({})).await.parse().unwrap();
    let (job, other) = (accept(&world, &api.user).await, accept(&world, &api.user).await);
    let gone = Uuid::from_u128(7);
    change(&world.owner, &job, organisation, "product", &[product, gone]).await;
    change(&world.owner, &other, organisation, "product", &[product]).await;
    change(&world.owner, &job, organisation, "job", &[job.parse().unwrap()]).await;
    // what was done to another organisation is never shown
    change(&world.owner, &job, stranger.organisation.get(), "product", &[foreign.parse().unwrap()]).await;

    let path = format!("/api/job/{job}/change/list");
    let body = json!({"sort": [{"field": "id"}], "select": ["entity", "key", "action", "changes"]});
    let changes = api.post(&api.user, &path, body).await.expect(200).json();
    assert_eq!(changes["paging"]["total"], 2);
    let shown = |record: Uuid, key: Value| {
        json!({
            "entity": {"type": "product", "id": record}, "key": key, "action": "product.update",
            "changes": {"weight": [1, 2]},
        })
    };
    assert_eq!(changes["results"], json!([shown(product, json!("MUG-1")), shown(gone, Value::Null)]));

    // page by page: the cursor belongs to the changes of this job
    let first = api.post(&api.user, &path, json!({"limit": 1})).await.expect(200).json();
    let after = json!({"limit": 1, "after": first["paging"]["next"]});
    let second = api.post(&api.user, &path, after.clone()).await.expect(200).json();
    assert_ne!(first["results"], second["results"]);
    assert_eq!(second["paging"]["next"], Value::Null);
    let elsewhere = format!("/api/job/{other}/change/list");
    let refused = api.post(&api.user, &elsewhere, after).await.expect(400).json();
    assert_eq!(refused["violations"][0]["code"], "invalid_cursor");

    // criteria narrow it, also those about jobs
    let narrowed = async |criteria: Value| {
        let page = api.post(&api.user, &path, json!({"criteria": criteria})).await.expect(200).json();
        page["paging"]["total"].as_i64().unwrap()
    };
    assert_eq!(narrowed(json!({"key": {"eq": "MUG-1"}, "entity.type": {"eq": "product"}})).await, 1);
    assert_eq!(narrowed(json!({"job": {"eq": other}})).await, 0);

    let csv = [("accept", "text/csv")];
    let lines = api
        .call_with(&api.user, Method::POST, &path, json!({"select": ["key", "changes"]}), &csv)
        .await
        .expect(200);
    assert!(lines.text.contains("\r\nMUG-1,\"{\"\"weight\"\":[1,2]}\"\r\n"), "{}", lines.text);

    api.post(&theirs, &path, Value::Null).await.expect(404);
    // a connector has no part in jobs that are not of its e-shop
    let connector = api.tenant.eshop_token(&api.services).await.unwrap();
    api.post(&connector, &path, Value::Null).await.expect(404);
    let its = "UPDATE job SET eshop_id = (SELECT id FROM eshop WHERE organisation_id = job.organisation_id LIMIT 1)";
    sqlx::query(its).execute(&world.owner).await.unwrap();
    let seen = api.post(&connector, &path, Value::Null).await.expect(200).json();
    assert_eq!(seen["paging"]["total"], 2);
}
