//! The same in S3.

use clap::{Args as _, FromArgMatches as _};
use longshore_kernel::config::ObjectStoreSettings;
use longshore_testkit::receiver::{Answer, Receiver};
use longshore_testkit::s3::S3;

use super::*;

fn open(arguments: &[&str]) -> Objects {
    let command = ObjectStoreSettings::augment_args(clap::Command::new("test"));
    let matches = command.try_get_matches_from(["test"].iter().chain(arguments)).unwrap();
    Objects::open(&ObjectStoreSettings::from_arg_matches(&matches).unwrap()).unwrap()
}

#[tokio::test]
async fn without_a_key_the_role_of_a_pod_is_used() {
    let aws = Receiver::start().await.unwrap();
    let keys = json!({"AccessKeyId": "ASIAPOD", "SecretAccessKey": "s", "Token": "t", "Expiration": "2100-01-01T00:00:00Z"});
    aws.answer("/keys", Answer::Json(200, keys));
    aws.answer_all(Answer::Status(404));
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "of the pod").unwrap();
    let objects = open(&[
        "--object-store",
        "s3://images",
        "--s3-endpoint",
        &aws.url("/"),
        "--aws-container-credentials-full-uri",
        &aws.url("/keys"),
        "--aws-container-authorization-token-file",
        token.path().to_str().unwrap(),
    ]);
    assert!(objects.get("none").await.unwrap().is_none());
    assert_eq!(aws.receipts_at("/keys")[0].header("authorization"), Some("of the pod"));
    let asked = aws.receipts_at("/images/none");
    assert!(asked[0].header("authorization").unwrap().contains("Credential=ASIAPOD/"), "{asked:?}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn images_live_and_die_in_a_bucket(_: PgPoolOptions, options: PgConnectOptions) {
    let Some(s3) = S3::start().await.unwrap() else {
        // not captured by the harness, unlike the test's own output
        use std::io::Write as _;
        writeln!(
            std::io::stderr(),
            "!!! SKIPPED: images_live_and_die_in_a_bucket: moto_server is not installed"
        )
        .unwrap();
        return;
    };
    let place = format!("s3://{}/shop", S3::BUCKET);
    let objects = open(&[
        "--object-store",
        &place,
        "--s3-endpoint",
        s3.endpoint.as_str(),
        "--s3-access-key-id",
        "test",
        "--s3-secret-access-key",
        "test",
    ]);
    let world = World::over(&options, objects, tempfile::tempdir().unwrap()).await;
    let picture = png_of(LARGEST);
    let image = world.form(&[("image", &picture)]).await.expect(201).json();
    let (id, url) = (image["id"].as_str().unwrap(), image["url"].as_str().unwrap());
    let key = format!("shop/product-image/{id}");
    assert_eq!(s3.object(&key).await.unwrap().unwrap(), picture);
    assert_eq!(world.api.get(&world.api.user, url).await.expect(200).bytes, picture);
    world.api.delete(&world.api.user, url).await.expect(204);
    assert_eq!(world.upkeep().await, 1);
    assert_eq!(s3.object(&key).await.unwrap(), None);
    world.api.get(&world.api.user, url).await.expect(410);
}
