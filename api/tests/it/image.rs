//! Images of products (`docs/reference/products.md#images`).

use std::path::Path;
use std::time::{Duration, Instant};

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Method, Request};
use longshore_domain::catalog::image::LARGEST;
use longshore_kernel::objects::{self, Objects};
use longshore_testkit::services;
use serde_json::{Value, json};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tempfile::TempDir;

use crate::product::MIGRATIONS;
use crate::support::strangers;
use crate::support::{Api, Reply};

mod bucket;
mod death;

/// The time limit for conditions.
const PATIENCE: Duration = Duration::from_mins(1);

/// An image of one pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\x0aIDATx\x9cc\x00\x01\x00\x00\x05\x00\x01\x0d\x0a\x2d\xb4\x00\x00\x00\x00IEND\xaeB`\x82";

/// A product, and the folder of the bytes.
struct World {
    api: Api,
    owner: PgPool,
    product: String,
    folder: TempDir,
}

impl World {
    async fn new(options: &PgConnectOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let objects = Objects::folder(folder.path()).unwrap();
        Self::over(options, objects, folder).await
    }

    async fn over(options: &PgConnectOptions, objects: Objects, folder: TempDir) -> Self {
        let mut services = services::for_test(options).unwrap();
        services.objects = objects;
        let api = Api::over(services).await;
        let owner = PgPool::connect_with(options.clone()).await.unwrap();
        let body = crate::product::body(&api.tenant, "sku");
        let made = api.post(&api.user, "/api/product", body).await.expect(201).json();
        let product = made["id"].as_str().unwrap().to_owned();
        Self { api, owner, product, folder }
    }

    fn path(&self) -> String {
        format!("/api/product/{}/image/upload", self.product)
    }

    async fn put(&self, bytes: &[u8]) -> Reply {
        self.api.put(&self.api.user, &self.path(), body_of(bytes)).await
    }

    /// Uploads as a form, in parts `(name, bytes)`.
    async fn form(&self, parts: &[(&str, &[u8])]) -> Reply {
        self.api.send(self.request(parts)).await
    }

    fn request(&self, parts: &[(&str, &[u8])]) -> Request<Body> {
        let mut body = Vec::new();
        for (name, bytes) in parts {
            body.extend_from_slice(
                format!(
                    "--lines\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"a.exe\"\r\n\r\n"
                )
                .as_bytes(),
            );
            body.extend_from_slice(bytes);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"--lines--\r\n");
        Request::builder()
            .method(Method::POST)
            .uri(self.path())
            .header("host", "test")
            .header("authorization", format!("Bearer {}", self.api.user))
            .header("content-type", "multipart/form-data; boundary=lines")
            .body(Body::from(body))
            .unwrap()
    }

    /// Files in the folder.
    fn files(&self) -> usize {
        files(self.folder.path())
    }

    async fn images(&self) -> Value {
        let path = format!("/api/product/{}", self.product);
        self.api.get(&self.api.user, &path).await.expect(200).json()["images"].clone()
    }

    async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.owner).await.unwrap()
    }

    /// Runs the worker's upkeep; returns the number of removed objects.
    async fn upkeep(&self) -> u64 {
        objects::remove_due(&self.api.services.db.main, &self.api.services.objects).await.unwrap()
    }
}

fn body_of(bytes: &[u8]) -> Value {
    json!({"fileName": "mug.png", "contentType": "image/png", "data": STANDARD.encode(bytes)})
}

fn files(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries.map(|e| e.unwrap().path()).map(|path| if path.is_dir() { files(&path) } else { 1 }).sum()
}

/// An image of this many bytes.
fn png_of(size: usize) -> Vec<u8> {
    let mut bytes = PNG.to_vec();
    bytes.resize(size, 0);
    bytes
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_image_is_uploaded_in_both_forms_and_served_unchanged(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let by_json = world.put(PNG).await.expect(201);
    let by_form = world.form(&[("title", b"a mug"), ("image", PNG)]).await.expect(201);
    let by_file = world.form(&[("file", PNG)]).await.expect(201);
    let mut ids = Vec::new();
    for reply in [by_json, by_form, by_file] {
        let image = reply.json();
        let url = format!("/api/product/{}/{}", world.product, image["id"].as_str().unwrap());
        assert_eq!(reply.header("location"), Some(url.as_str()));
        assert_eq!(image["url"], url.as_str());
        assert_eq!(image["contentType"], "image/png");
        assert_eq!(
            (&image["size"], &image["width"], &image["height"]),
            (&json!(PNG.len()), &json!(1), &json!(1))
        );
        let etag = format!("\"{}\"", image["sha256"].as_str().unwrap());
        for accept in ["image/*", "text/html", "application/json"] {
            let headers = [("accept", accept)];
            let got = world.api.call_with(&world.api.viewer, Method::GET, &url, Value::Null, &headers).await;
            let got = got.expect(200);
            assert_eq!(got.bytes, PNG);
            assert_eq!(got.header("content-type"), Some("image/png"));
            assert_eq!(got.header("x-content-type-options"), Some("nosniff"));
            assert_eq!(got.header("etag"), Some(etag.as_str()));
            assert!(got.header("cache-control").unwrap().starts_with("private"));
        }
        for (tags, status) in [(etag.as_str(), 304), ("\"x\", W/\"y\"", 200), ("*", 304)] {
            let headers = [("if-none-match", tags)];
            let got = world.api.call_with(&world.api.viewer, Method::GET, &url, Value::Null, &headers).await;
            let got = got.expect(status);
            assert_eq!(got.header("etag"), Some(etag.as_str()));
            assert_eq!(got.bytes.is_empty(), status == 304);
        }
        ids.push(image["id"].clone());
    }
    assert_eq!(world.images().await, Value::Array(ids));
    assert_eq!(world.count("SELECT count(*) FROM object_removal").await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_deleted_image_is_gone_with_its_bytes(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let url = world.put(PNG).await.expect(201).json()["url"].as_str().unwrap().to_owned();
    let kept = world.put(PNG).await.expect(201).json()["id"].clone();
    world.api.delete(&world.api.user, &url).await.expect(204);
    world.api.get(&world.api.user, &url).await.expect(410);
    world.api.delete(&world.api.user, &url).await.expect(410);
    assert_eq!(world.images().await, json!([kept]));
    assert_eq!((world.files(), world.upkeep().await), (2, 1));
    assert_eq!((world.files(), world.upkeep().await), (1, 0));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn each_change_of_images_is_audited_and_sent(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    sqlx::raw_sql(
        "INSERT INTO webhook (id, organisation_id, eshop_id, events, destination, active, authentication_type, secret)
         SELECT uuid_v7(), organisation_id, id, ARRAY['product_change'], 'http://127.0.0.1:1/', true, 'none', '' FROM eshop",
    )
    .execute(&world.owner)
    .await
    .unwrap();
    let first = world.put(PNG).await.expect(201).json();
    let second = world.put(PNG).await.expect(201).json();
    let version = "SELECT (extract(epoch FROM changed_at) * 1000000)::bigint FROM product";
    let before = world.count(version).await;
    world.api.delete(&world.api.user, first["url"].as_str().unwrap()).await.expect(204);
    assert!(world.count(version).await > before);
    let (a, b) = (&first["id"], &second["id"]);
    let audited: Vec<(String, Value)> =
        sqlx::query_as("SELECT action, changes FROM audit WHERE action LIKE 'product.image%' ORDER BY at")
            .fetch_all(&world.owner)
            .await
            .unwrap();
    let expected = [
        ("product.image_add".to_owned(), json!({"images": [[], [a]]})),
        ("product.image_add".to_owned(), json!({"images": [[a], [a, b]]})),
        ("product.image_remove".to_owned(), json!({"images": [[a, b], [b]]})),
    ];
    assert_eq!(audited, expected);
    let events: Vec<Value> =
        sqlx::query_scalar("SELECT data FROM event ORDER BY at").fetch_all(&world.owner).await.unwrap();
    let images: Vec<_> = events.iter().map(|data| &data["fields"]["images"]).collect();
    assert_eq!(images, [&json!([a]), &json!([a, b]), &json!([b])]);
    assert_eq!(events[0]["changedFields"], json!(["images"]));
    assert_eq!(events[0]["id"], world.product.as_str());
}

#[tokio::test]
async fn the_bytes_of_an_image_decide_not_its_name() {
    let world = World::new(&strangers().await).await;
    let svg = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>";
    assert_eq!(world.put(svg).await.expect(400).violations(), ["data unsupported_image"]);
    assert_eq!(world.form(&[("image", svg)]).await.expect(400).violations(), ["image unsupported_image"]);
    assert_eq!(world.put(&PNG[..20]).await.expect(400).violations(), ["data damaged_image"]);
    assert_eq!(world.put(b"").await.expect(400).violations(), ["data required"]);
    assert_eq!(world.form(&[("picture", PNG)]).await.expect(400).violations(), ["image required"]);
    let reply = world.api.put(&world.api.user, &world.path(), json!({"data": "%%%"})).await;
    assert_eq!(reply.expect(400).violations(), ["data invalid_base64"]);
    let reply = world.api.post(&world.api.user, &world.path(), body_of(PNG)).await;
    assert_eq!(reply.expect(415).json()["code"], "unsupported_media_type");
    assert_eq!((world.files(), world.images().await), (0, json!([])));
}

#[tokio::test]
async fn a_form_has_exactly_one_file() {
    let world = World::new(&strangers().await).await;
    for (parts, named) in
        [(["image", "image"], "image"), (["image", "file"], "file"), (["file", "image"], "image")]
    {
        let reply = world.form(&parts.map(|name| (name, PNG))).await.expect(400);
        assert_eq!(reply.violations(), [format!("{named} duplicate")], "{parts:?}");
    }
    assert_eq!((world.files(), world.images().await), (0, json!([])));
    world.form(&[("image", PNG), ("title", b"a mug"), ("title", b"a cup")]).await.expect(201);
}

#[tokio::test]
async fn ten_mebibytes_are_accepted_and_one_byte_more_is_not() {
    let world = World::new(&strangers().await).await;
    let (fits, too_large) = (png_of(LARGEST), png_of(LARGEST + 1));
    assert_eq!(world.put(&fits).await.expect(201).json()["size"], LARGEST);
    assert_eq!(world.form(&[("image", &fits)]).await.expect(201).json()["size"], LARGEST);
    for reply in [world.put(&too_large).await, world.form(&[("image", &too_large)]).await] {
        let problem = reply.expect(413).json();
        assert_eq!(problem["code"], "too_large");
        assert!(problem["detail"].as_str().unwrap().contains("10485760"), "{problem}");
    }
    // answered without waiting for the rest
    let endless = futures::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b'x'; 64 * 1024]));
    let mut request = world.request(&[]);
    let head = b"--lines\r\nContent-Disposition: form-data; name=\"image\"\r\n\r\n".to_vec();
    let head = futures::stream::once(async { Ok(head) });
    *request.body_mut() = Body::from_stream(futures::StreamExt::chain(head, endless));
    world.api.send(request).await.expect(413);
}

#[tokio::test]
async fn incomplete_and_invalid_forms_are_refused() {
    let world = World::new(&strangers().await).await;
    let cut = b"--lines\r\nContent-Disposition: form-data; name=\"image\"\r\n\r\n\x89PNG".to_vec();
    for (content_type, body) in [
        ("multipart/form-data; boundary=lines", cut),
        ("multipart/form-data; boundary=lines", b"nonsense".to_vec()),
        ("multipart/form-data", b"--lines--\r\n".to_vec()),
    ] {
        let mut request = world.request(&[]);
        request.headers_mut().insert("content-type", content_type.parse().unwrap());
        *request.body_mut() = Body::from(body);
        assert_eq!(world.api.send(request).await.expect(400).json()["code"], "malformed_body");
    }
    assert_eq!(world.files(), 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_product_has_at_most_twenty_images_even_with_concurrent_uploads(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let replies = futures::future::join_all((0..25).map(|_| world.put(PNG))).await;
    let taken = replies.iter().filter(|r| r.status == 201).count();
    let refused = replies.iter().filter(|r| r.status == 409).count();
    assert_eq!((taken, refused), (20, 5));
    assert_eq!(world.images().await.as_array().unwrap().len(), 20);
    assert_eq!(world.form(&[("image", PNG)]).await.expect(409).json()["code"], "conflict");
    // bytes stored by refused uploads are removed at once
    world.upkeep().await;
    assert_eq!((world.files(), world.count("SELECT count(*) FROM object_removal").await), (20, 0));
    let url = format!("/api/product/{}/{}", world.product, world.images().await[0].as_str().unwrap());
    world.api.delete(&world.api.user, &url).await.expect(204);
    world.put(PNG).await.expect(201);
}

#[tokio::test]
async fn images_are_visible_to_callers_who_may_see_the_product() {
    let world = World::new(&strangers().await).await;
    let url = world.put(PNG).await.expect(201).json()["url"].as_str().unwrap().to_owned();
    let deleted = world.put(PNG).await.expect(201).json()["url"].as_str().unwrap().to_owned();
    world.api.delete(&world.api.user, &deleted).await.expect(204);
    let stranger = longshore_testkit::world::Tenant::create(&world.api.services, "Other").await.unwrap();
    let strange = stranger.token(&world.api.services, longshore_kernel::access::Role::User).await.unwrap();
    for (token, read, write) in
        [("lsh_nonsense", 401, 401), (&world.api.viewer, 200, 403), (&strange, 404, 404)]
    {
        world.api.get(token, &url).await.expect(read);
        world.api.delete(token, &url).await.expect(write);
        world.api.put(token, &world.path(), body_of(PNG)).await.expect(write);
    }
    world.api.get(&strange, &deleted).await.expect(404);
    world.api.get(&world.api.user, &format!("/api/product/{}/nonsense", world.product)).await.expect(400);
    // an image is found only with its own product
    let body = crate::product::body(&world.api.tenant, "other");
    let other = world.api.post(&world.api.user, "/api/product", body).await.expect(201).json()["id"].clone();
    let (_, image) = url.rsplit_once('/').unwrap();
    let elsewhere = format!("/api/product/{}/{image}", other.as_str().unwrap());
    world.api.get(&world.api.user, &elsewhere).await.expect(404);
    world.api.delete(&world.api.user, &elsewhere).await.expect(404);
    world.api.get(&world.api.user, &url).await.expect(200);
}

#[tokio::test]
async fn a_repeated_upload_with_its_key_is_one_image() {
    let world = World::new(&strangers().await).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let mut request = world.request(&[("image", PNG)]);
        request.headers_mut().insert("idempotency-key", "once".parse().unwrap());
        ids.push(world.api.send(request).await.expect(201).json()["id"].clone());
    }
    assert_eq!(ids[0], ids[1]);
    assert_eq!(world.images().await, json!([ids[0]]));
    let mut request = world.request(&[("image", &png_of(100))]);
    request.headers_mut().insert("idempotency-key", "once".parse().unwrap());
    world.api.send(request).await.expect(422);
}

/// Waits until a condition is true.
async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < deadline, "it did not become so in time");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
