//! Invoices of orders (`docs/reference/orders.md#invoice`).

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Method, Request};
use longshore_domain::catalog::image::LARGEST;
use longshore_kernel::access::Role;
use longshore_kernel::objects;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{MIGRATIONS, PATH, World, must_be_wrong_status, path};
use crate::support::Reply;
use crate::support::strangers;

const PDF: &[u8] = b"%PDF-1.7\n\xe2\xe3\xcf\xd3\n%%EOF\n";

fn in_json(name: &str, bytes: &[u8]) -> Value {
    json!({"fileName": name, "contentType": "text/html", "data": STANDARD.encode(bytes)})
}

impl World {
    async fn attach(&self, order: &Value, body: Value) -> Reply {
        self.api.post(&self.api.user, &path(order, "invoice"), body).await
    }

    /// Uploads as a form, with the head of each part after its name.
    async fn attach_form(&self, order: &Value, parts: &[(&str, &[u8])]) -> Reply {
        let mut body = Vec::new();
        for (name, bytes) in parts {
            body.extend_from_slice(
                format!("--lines\r\nContent-Disposition: form-data; name={name}\r\n\r\n").as_bytes(),
            );
            body.extend_from_slice(bytes);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"--lines--\r\n");
        let request = Request::builder()
            .method(Method::POST)
            .uri(path(order, "invoice"))
            .header("authorization", format!("Bearer {}", self.api.user))
            .header("content-type", "multipart/form-data; boundary=lines")
            .body(Body::from(body))
            .unwrap();
        self.api.send(request).await
    }

    /// Removes objects like the upkeep; returns how many.
    async fn upkeep(&self) -> u64 {
        objects::remove_due(&self.api.services.db.main, &self.api.services.objects).await.unwrap()
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_invoice_comes_in_a_form_or_in_json_and_is_served_as_it_came(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world.webhook(world.api.tenant.eshop.get(), "expedition_change").await;
    let order = world.made(world.order("1", &world.mug)).await;
    let url = path(&order, "invoice");
    assert_eq!(
        (&order["invoice"], &order["invoiceUrl"], &order["invoiceOriginalName"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    world.api.get(&world.api.user, &url).await.expect(404);
    world.api.delete(&world.api.user, &url).await.expect(404);
    let uploads = [
        (world.attach(&order, in_json("faktura č. 7.pdf", PDF)).await, "faktura č. 7.pdf"),
        (world.attach(&order, json!({"data": STANDARD.encode(PDF)})).await, "invoice.pdf"),
        (
            world
                .attach_form(&order, &[("note", b"x"), ("invoice; filename=\"C:\\\\a\\\\b.pdf\"", PDF)])
                .await,
            "b.pdf",
        ),
        (world.attach_form(&order, &[("file", PDF)]).await, "invoice.pdf"),
    ];
    let mut last = Value::Null;
    for (reply, name) in uploads {
        let reply = reply.expect(201);
        let invoice = reply.json();
        assert_eq!(reply.header("location"), Some(url.as_str()));
        assert_eq!(
            (&invoice["originalName"], &invoice["mimeType"], &invoice["size"]),
            (&json!(name), &json!("application/pdf"), &json!(PDF.len()))
        );
        assert_eq!(invoice.as_object().unwrap().len(), 4);
        assert_ne!(invoice["name"], last["name"], "each has a name of its own");
        last = invoice;
    }
    let record = world.read(&order).await;
    assert_eq!(
        (&record["invoice"], &record["invoiceUrl"], &record["version"]),
        (&last, &json!(url), &json!(5))
    );
    for accept in ["application/pdf", "application/json", "text/html"] {
        let got = world
            .api
            .call_with(&world.api.viewer, Method::GET, &url, Value::Null, &[("accept", accept)])
            .await;
        let got = got.expect(200);
        assert_eq!(got.bytes, PDF);
        assert_eq!(got.header("content-type"), Some("application/pdf"));
        assert_eq!(got.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(got.header("content-disposition"), Some("attachment; filename*=UTF-8''invoice.pdf"));
        assert!(got.header("cache-control").unwrap().starts_with("private"));
        let etag = got.header("etag").unwrap().to_owned();
        let known = [("if-none-match", etag.as_str())];
        world.api.call_with(&world.api.viewer, Method::GET, &url, Value::Null, &known).await.expect(304);
    }
    // those whose place was taken are gone, and one is left
    assert_eq!(world.upkeep().await, 3);
    assert_eq!(world.api.get(&world.api.user, &url).await.expect(200).bytes, PDF);
    let events: Vec<Value> =
        sqlx::query_scalar("SELECT data FROM event WHERE type = 'expedition_change' ORDER BY id")
            .fetch_all(&world.owner)
            .await
            .unwrap();
    assert_eq!(events.len(), 4);
    let mut told = last.clone();
    told.as_object_mut().unwrap().remove("originalName");
    assert_eq!((&events[3]["fields"]["invoice"], &events[3]["version"]), (&told, &json!(5)));

    world.api.delete(&world.api.user, &url).await.expect(204);
    world.api.get(&world.api.user, &url).await.expect(404);
    let record = world.read(&order).await;
    assert_eq!(
        (&record["invoice"], &record["invoiceUrl"], &record["version"]),
        (&Value::Null, &Value::Null, &json!(6))
    );
    assert_eq!(world.upkeep().await, 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_name_of_a_file_is_in_no_audit_and_no_event(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.webhook(world.api.tenant.eshop.get(), "*").await;
    let order = world.made(world.order("1", &world.mug)).await;
    let id = order["id"].as_str().unwrap();
    for name in ["hush-1.pdf", "hush-2.pdf"] {
        world.attach(&order, in_json(name, PDF)).await.expect(201);
    }
    let (_, changes) = world.audited(id).await;
    assert_eq!(changes["invoiceOriginalName"], json!(["***", "***"]));
    world.api.delete(&world.api.user, &path(&order, "invoice")).await.expect(204);
    let (_, changes) = world.audited(id).await;
    assert_eq!(changes["invoiceOriginalName"], json!(["***", null]));
    let events: Vec<Value> =
        sqlx::query_scalar("SELECT data FROM event WHERE type = 'expedition_change' ORDER BY id")
            .fetch_all(&world.owner)
            .await
            .unwrap();
    assert_eq!(events.len(), 3);
    for event in &events {
        assert!(
            event["changedFields"].as_array().unwrap().contains(&json!("invoiceOriginalName")),
            "{event}"
        );
        assert_eq!(event["fields"].get("invoiceOriginalName"), None, "{event}");
    }
    world.api.delete(&world.api.user, &path(&order, "")).await.expect(204);
    let hushed = "SELECT (SELECT count(*) FROM event WHERE data::text LIKE '%hush-%')
                       + (SELECT count(*) FROM audit WHERE changes::text LIKE '%hush-%')";
    assert_eq!(world.count(hushed).await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn anything_but_a_pdf_of_ten_mebibytes_is_refused_and_leaves_nothing(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let order = world.made(world.order("1", &world.mug)).await;
    for (bytes, code) in [
        (&b""[..], "required"),
        (b"%PDF", "unsupported_file"),
        (b"%!PS-Adobe-3.0", "unsupported_file"),
        (b"\x89PNG\r\n\x1a\n", "unsupported_file"),
    ] {
        assert_eq!(
            world.attach(&order, in_json("a.pdf", bytes)).await.expect(400).violations(),
            [format!("data {code}")]
        );
        let reply = world.attach_form(&order, &[("invoice", bytes)]).await.expect(400);
        assert_eq!(reply.violations(), [format!("invoice {code}")]);
    }
    // the mark is within the first 1,024 bytes, as readers look for it
    let behind = |bytes: usize| [vec![b'\n'; bytes], PDF.to_vec()].concat();
    assert_eq!(
        world.attach(&order, in_json("a.pdf", &behind(1_020))).await.expect(400).violations(),
        ["data unsupported_file"]
    );
    let other = world.made(world.order("2", &world.mug)).await;
    world.attach(&other, in_json("a.pdf", &behind(1_019))).await.expect(201);
    let nothing = world.attach_form(&order, &[("image", PDF)]).await.expect(400);
    assert_eq!(nothing.violations(), ["invoice required"]);
    let twice = world.attach_form(&order, &[("invoice", PDF), ("file", PDF)]).await.expect(400);
    assert_eq!(twice.violations(), ["file duplicate"]);
    assert_eq!(
        world.attach(&order, json!({"data": "!"})).await.expect(400).violations(),
        ["data invalid_base64"]
    );
    let mut largest = PDF.to_vec();
    largest.resize(LARGEST + 1, b' ');
    world.attach_form(&order, &[("invoice", &largest)]).await.expect(413);
    world.attach(&order, in_json("a.pdf", &largest)).await.expect(413);
    let text = Request::builder()
        .method(Method::POST)
        .uri(path(&order, "invoice"))
        .header("authorization", format!("Bearer {}", world.api.user))
        .header("content-type", "application/pdf")
        .body(Body::from(PDF))
        .unwrap();
    world.api.send(text).await.expect(415);
    assert_eq!(world.read(&order).await["version"], 1);
    assert_eq!(world.upkeep().await, 0);
    largest.truncate(LARGEST);
    let stored = world.attach_form(&order, &[("invoice", &largest)]).await.expect(201).json();
    assert_eq!(stored["size"], LARGEST);
    // the order takes it along
    world.on(Method::DELETE, &order, "", Value::Null).await.expect(204);
    assert_eq!(world.upkeep().await, 1);
    world.api.get(&world.api.user, &path(&order, "invoice")).await.expect(410);
    world.attach(&order, in_json("a.pdf", PDF)).await.expect(410);
}

#[tokio::test]
async fn an_order_that_has_ended_keeps_its_invoice_and_gets_no_other() {
    let world = World::new(&strangers().await).await;
    for (number, status) in super::STATUSES.into_iter().enumerate() {
        let order = world.at(status, &number.to_string()).await;
        let reply = world.attach(&order, in_json("a.pdf", PDF)).await;
        if ["delivered", "canceled"].contains(&status) {
            must_be_wrong_status(reply, status);
            world.api.delete(&world.api.user, &path(&order, "invoice")).await.expect(404);
        } else {
            reply.expect(201);
            world.api.delete(&world.api.user, &path(&order, "invoice")).await.expect(204);
        }
    }
    let order = world.at("awaiting_processing", "last").await;
    world.attach(&order, in_json("a.pdf", PDF)).await.expect(201);
    world.report(&order, json!({"status": "delivered"})).await.expect(200);
    must_be_wrong_status(world.api.delete(&world.api.user, &path(&order, "invoice")).await, "delivered");
    world.api.get(&world.api.user, &path(&order, "invoice")).await.expect(200);
    world.must_hold().await;
}

#[tokio::test]
async fn lists_ask_about_invoices() {
    let world = World::new(&strangers().await).await;
    let with = world.made(world.order("with", &world.mug)).await;
    world.made(world.order("without", &world.mug)).await;
    let invoice = world.attach(&with, in_json("seven.pdf", PDF)).await.expect(201).json();
    for (criteria, expected) in [
        (json!({"withInvoice": {"eq": true}}), vec!["with"]),
        (json!({"withInvoice": {"eq": false}}), vec!["without"]),
        (json!({"invoice.originalName": {"like": "SEVEN"}}), vec!["with"]),
        (json!({"invoice.name": {"eq": invoice["name"]}}), vec!["with"]),
        (json!({"invoice.size": {"gte": PDF.len()}}), vec!["with"]),
        (json!({"invoice.size": {"gt": PDF.len()}}), vec![]),
        (json!({"invoice.mimeType": {"eq": "application/pdf"}}), vec!["with"]),
    ] {
        let listed =
            world.api.post(&world.api.user, &format!("{PATH}/list"), json!({"criteria": criteria})).await;
        let listed = listed.expect(200).json();
        let numbers: Vec<_> =
            listed["results"].as_array().unwrap().iter().map(|r| r["orderNumber"].clone()).collect();
        assert_eq!(numbers, expected.into_iter().map(|n| json!(n)).collect::<Vec<_>>(), "{criteria}");
    }
    let sorted = json!({"sort": [{"field": "invoice.size"}], "select": ["orderNumber", "invoice"]});
    let sorted = world.api.post(&world.api.user, &format!("{PATH}/list"), sorted).await.expect(200).json();
    assert_eq!(
        sorted["results"],
        json!([{"orderNumber": "with", "invoice": invoice}, {"orderNumber": "without", "invoice": null}])
    );
}

#[tokio::test]
async fn an_invoice_is_read_and_written_by_those_of_its_order() {
    let world = World::new(&strangers().await).await;
    let api = &world.api;
    let order = world.at("awaiting_processing", "1").await;
    let url = path(&order, "invoice");
    api.post(&api.connector, &url, in_json("a.pdf", PDF)).await.expect(201);
    let other = Tenant::create(&api.services, "Toys").await.unwrap();
    let foreign = other.token(&api.services, Role::User).await.unwrap();
    let program = json!({"name": "w", "role": "warehouse", "organisation": api.tenant.organisation, "wms": api.tenant.wms});
    let program = api.post(&api.superadmin, "/api/access-token", program).await.expect(201).json();
    let program = program["token"].as_str().unwrap();
    api.get(&foreign, &url).await.expect(404);
    api.post(&foreign, &url, in_json("a.pdf", PDF)).await.expect(404);
    api.delete(&foreign, &url).await.expect(404);
    for reader in [&api.viewer, &program.to_owned()] {
        api.post(reader, &url, in_json("a.pdf", PDF)).await.expect(403);
        api.delete(reader, &url).await.expect(403);
    }
    // the program of a warehouse reads it from the hand-over on
    api.get(program, &url).await.expect(404);
    world.report(&order, json!({"status": "take_out"})).await.expect(200);
    assert_eq!(api.get(program, &url).await.expect(200).bytes, PDF);
    // a key that was used answers the same, and stores nothing more
    let key = [("idempotency-key", "invoice-1")];
    let first =
        api.call_with(&api.user, Method::POST, &url, in_json("b.pdf", PDF), &key).await.expect(201).json();
    let again =
        api.call_with(&api.user, Method::POST, &url, in_json("b.pdf", PDF), &key).await.expect(201).json();
    assert_eq!(first, again);
    assert_eq!(world.read(&order).await["invoice"], first);
}
