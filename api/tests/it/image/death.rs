//! A process that dies between the object store and Postgres: no bytes are left for ever, and no needed ones
//! are removed.

use super::*;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_upload_that_dies_before_its_record_leaves_no_bytes(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let kept = world.put(PNG).await.expect(201).json()["url"].as_str().unwrap().to_owned();
    // the record of the next one waits for this lock, after its bytes were stored
    let mut tx = world.owner.begin().await.unwrap();
    sqlx::raw_sql("SELECT FROM product FOR UPDATE").execute(&mut *tx).await.unwrap();
    let request = world.request(&[("image", PNG)]);
    let router = world.api.router.clone();
    let dying = tokio::spawn(async move { tower::ServiceExt::oneshot(router, request).await });
    until(async || world.files() == 2).await;
    dying.abort();
    assert!(dying.await.unwrap_err().is_cancelled());
    tx.rollback().await.unwrap();
    assert_eq!(world.count("SELECT count(*) FROM product_image").await, 1);
    // before its time limit, the upload may still be running
    assert_eq!((world.upkeep().await, world.files()), (0, 2));
    let announced = "UPDATE object_removal SET due_at = now() - interval '1 second'";
    sqlx::raw_sql(announced).execute(&world.owner).await.unwrap();
    assert_eq!((world.upkeep().await, world.files()), (1, 1));
    assert_eq!(world.count("SELECT count(*) FROM object_removal").await, 0);
    world.api.get(&world.api.user, &kept).await.expect(200);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_upload_that_outlives_its_announcement_is_refused(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let mut tx = world.owner.begin().await.unwrap();
    sqlx::raw_sql("SELECT FROM product FOR UPDATE").execute(&mut *tx).await.unwrap();
    let request = world.request(&[("image", PNG)]);
    let router = world.api.router.clone();
    let late = tokio::spawn(async move { tower::ServiceExt::oneshot(router, request).await.unwrap() });
    until(async || world.files() == 1).await;
    let announced = "UPDATE object_removal SET due_at = now() - interval '1 second'";
    sqlx::raw_sql(announced).execute(&world.owner).await.unwrap();
    assert_eq!((world.upkeep().await, world.files()), (1, 0));
    tx.rollback().await.unwrap();
    assert_eq!(late.await.unwrap().status(), 409);
    assert_eq!(world.images().await, json!([]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_failed_removal_of_bytes_is_retried(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let image = world.put(PNG).await.expect(201).json();
    world.api.delete(&world.api.user, image["url"].as_str().unwrap()).await.expect(204);
    // a folder cannot be removed as a file
    let file = world.folder.path().join(format!("product-image/{}", image["id"].as_str().unwrap()));
    std::fs::rename(&file, file.with_extension("kept")).unwrap();
    std::fs::create_dir(&file).unwrap();
    assert_eq!(world.upkeep().await, 0);
    assert_eq!(world.count("SELECT count(*) FROM object_removal").await, 1);
    std::fs::remove_dir(&file).unwrap();
    std::fs::rename(file.with_extension("kept"), &file).unwrap();
    assert_eq!((world.upkeep().await, world.files()), (1, 0));
}
