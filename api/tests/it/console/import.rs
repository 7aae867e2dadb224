//! Import: a file is looked at, sent, and becomes a job as the push of a program does.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use longshore_domain::job::payload::unpack_rows;
use longshore_kernel::access::Role;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{Browser, MIGRATIONS, world};
use crate::product::World;
use crate::support::{Reply, strangers};

const HERE: &str = "/console/import";
const LOOK: &str = "/console/import/look";
const BOUNDARY: &str = "----longshore";

/// A form with a file behind its fields.
fn form(fields: &[(&str, &str)], name: &str, file: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, value) in fields {
        let part =
            format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        body.extend_from_slice(part.as_bytes());
    }
    let part = format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n"
    );
    body.extend_from_slice(part.as_bytes());
    body.extend_from_slice(file);
    body.extend_from_slice(format!("\r\n--{BOUNDARY}--\r\n").as_bytes());
    body
}

/// The token that the form of the page has.
async fn token(browser: &Browser<'_>) -> String {
    let page = browser.open(HERE).await.expect(200).text;
    let form = page.split("data-look").nth(1).unwrap();
    form.split("name=\"form_token\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

async fn posted(browser: &Browser<'_>, path: &str, body: impl Into<Body>) -> Reply {
    let request = browser
        .request("POST", path)
        .header("sec-fetch-site", "same-origin")
        .header("content-type", format!("multipart/form-data; boundary={BOUNDARY}"));
    browser.api.send(request.body(body.into()).unwrap()).await
}

/// Sends a file with the fields of the form.
async fn sent(browser: &Browser<'_>, path: &str, fields: &[(&str, &str)], name: &str, file: &[u8]) -> Reply {
    let token = token(browser).await;
    let fields: Vec<_> = [("form_token", token.as_str())].into_iter().chain(fields.iter().copied()).collect();
    posted(browser, path, form(&fields, name, file)).await
}

/// The job that a reply leads to.
fn id_of(reply: &Reply) -> &str {
    let page = reply.header("location").unwrap();
    page.strip_prefix("/console/job/").unwrap().strip_suffix("?done=imported").unwrap()
}

/// The rows of the job that a reply leads to, its kind, and who requested it.
async fn job(world: &World, reply: &Reply) -> (Vec<Value>, Vec<i64>, String, String) {
    let (payload, lines, kind, actor): (Vec<u8>, Option<Vec<i64>>, String, String) = sqlx::query_as(
        "SELECT payload, lines, kind, actor_name FROM job JOIN job_chunk ON job_id = id WHERE id = $1::uuid",
    )
    .bind(id_of(reply))
    .fetch_one(&world.owner)
    .await
    .unwrap();
    let rows = unpack_rows(&payload).unwrap();
    let rows = rows.iter().map(|row| serde_json::from_slice(row).unwrap()).collect();
    (rows, lines.unwrap_or_default(), kind, actor)
}

async fn jobs(world: &World) -> i64 {
    let scope = world.api.tenant.organisation;
    sqlx::query_scalar("SELECT count(*) FROM job WHERE organisation_id = $1")
        .bind(scope)
        .fetch_one(&world.owner)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_file_of_a_spreadsheet_is_shown_as_it_will_be_read_and_sent() {
    let world = world(&strangers().await).await;
    let admin = world.api.tenant.token(&world.api.services, Role::Admin).await.unwrap();
    let (browser, eshop) = (Browser::new(&world.api, &admin), world.api.tenant.eshop.to_string());
    // windows-1250: č is E8
    let file = b"productSku;name;weight\r\nM-1;\xe8aj;0320\r\nM-2;lod;\"1,5\"\r\n;box;1\r\n";
    let wrong = sent(&browser, LOOK, &[("kind", "products")], "a.csv", file).await.expect(200).text;
    assert!(
        wrong.contains("role=\"alert\"")
            && wrong.contains("it looks like windows-1250; give the charset windows-1250"),
        "{wrong}"
    );
    let fields = [("eshop", eshop.as_str()), ("kind", "products"), ("charset", "windows-1250")];
    let look = sent(&browser, LOOK, &fields, "a.csv", file).await.expect(200).text;
    for cell in [
        "<td class=\"number\">2</td>",
        "<code>&quot;čaj&quot;</code>",
        "<code>320</code>",
        "<code>1.5</code>",
        "<code>required</code> <span class=\"refused\">productSku is required</span>",
    ] {
        assert!(look.contains(cell), "{cell}: {look}");
    }
    let places =
        ["<th>productSku</th>", "<th>name</th>", "<th>weight</th>"].map(|head| look.find(head).unwrap());
    assert!(places.is_sorted(), "{look}");
    assert_eq!(jobs(&world).await, 0, "a look stores nothing");

    let reply = sent(&browser, HERE, &fields, "a.csv", file).await.expect(303);
    let (rows, lines, kind, actor) = job(&world, &reply).await;
    assert_eq!(
        rows,
        [
            json!({"productSku": "M-1", "name": "čaj", "weight": 320}),
            json!({"productSku": "M-2", "name": "lod", "weight": 1.5}),
            json!({"name": "box", "weight": 1}),
        ]
    );
    assert_eq!((lines, kind.as_str(), actor.as_str()), (vec![0, 2], "product.sync", "admin of a test"));
}

#[tokio::test]
async fn json_in_both_forms_is_sent_and_stocks_are_those_of_a_warehouse_by_its_name() {
    let world = world(&strangers().await).await;
    let admin = world.api.tenant.token(&world.api.services, Role::Admin).await.unwrap();
    let (browser, eshop) = (Browser::new(&world.api, &admin), world.api.tenant.eshop.to_string());
    let fields = [("eshop", eshop.as_str()), ("kind", "stocks"), ("warehouseId", "gifts warehouse")];
    let expected =
        [json!({"productSku": "M-1", "quantity": 7}), json!({"productSku": "M-2", "quantity": "x"})];
    let [first, second] = expected.each_ref().map(ToString::to_string);
    for (name, file, lines) in [
        ("s.json", format!("\u{feff} [{first},\n{second}]\n"), vec![]),
        ("s.NDJSON", format!("\u{feff}{first}\r\n\r\n{second}"), vec![0, 1, 1, 3]),
        ("s.jsonl", format!("{first}\n{second}\n"), vec![0, 1]),
    ] {
        let look = sent(&browser, LOOK, &fields, name, file.as_bytes()).await.expect(200).text;
        assert!(
            look.contains("<code>7</code>") && look.contains("quantity must be an integer"),
            "{name}: {look}"
        );
        let reply = sent(&browser, HERE, &fields, name, file.as_bytes()).await.expect(303);
        let (rows, of_lines, kind, _) = job(&world, &reply).await;
        assert_eq!(
            (rows.as_slice(), of_lines, kind.as_str()),
            (&expected[..], lines, "stock.sync"),
            "{name}"
        );
    }
    // an object may say something else: the form says whose the rows are
    let object = br#"{"stocks": []}"#;
    let refused = sent(&browser, HERE, &fields, "s.json", object).await.expect(400).text;
    assert!(refused.contains("id=\"wrong-file\">Stocks must be an array"), "{refused}");
}

#[tokio::test]
async fn the_form_says_whether_orders_are_sent() {
    let world = world(&strangers().await).await;
    let browser = Browser::new(&world.api, &world.api.superadmin);
    let eshop = world.api.tenant.eshop.to_string();
    for (name, file) in [
        ("o.csv", &b"orderNumber,item.productSku,item.quantity\nA-1,M-1,2\n"[..]),
        ("o.json", b"[{\"orderNumber\": \"A-1\"}]"),
    ] {
        for (word, send) in
            [("yes", json!(true)), ("no", json!(false)), ("as their rows or the e-shop say", Value::Null)]
        {
            let fields = [("eshop", eshop.as_str()), ("kind", "orders"), ("send", word)];
            let reply = sent(&browser, HERE, &fields, name, file).await.expect(303);
            let given: Value = sqlx::query_scalar("SELECT parameters FROM job WHERE id = $1::uuid")
                .bind(id_of(&reply))
                .fetch_one(&world.owner)
                .await
                .unwrap();
            assert_eq!(given["send"], send, "{name}: {given}");
        }
    }
    let fields = [("eshop", eshop.as_str()), ("kind", "orders"), ("send", "perhaps")];
    let page = sent(&browser, HERE, &fields, "o.csv", b"orderNumber\nA-1\n").await.expect(400).text;
    assert!(page.contains("id=\"wrong-send\">Is not one of the options"), "{page}");
}

#[tokio::test]
async fn only_the_beginning_of_a_file_is_looked_at_and_its_last_row_may_be_cut() {
    let world = world(&strangers().await).await;
    let (browser, part) = (Browser::new(&world.api, &world.api.superadmin), ("part", "true"));
    let csv = b"orderNumber,item.productSku,item.quantity\nA-1,M-1,2\nA-2,M-1,2\nA-3,\"M-";
    let look = sent(&browser, LOOK, &[("kind", "orders"), part], "o.csv", csv).await.expect(200).text;
    assert!(look.contains("A-1") && !look.contains("A-3") && !look.contains("alert"), "{look}");
    let look = sent(&browser, LOOK, &[("kind", "orders")], "o.csv", csv).await.expect(200).text;
    assert!(look.contains("never closed"), "{look}");
    let only = b"productSku,name\nM-1,\"the only one, and it is";
    let look = sent(&browser, LOOK, &[part], "p.csv", only).await.expect(200).text;
    assert!(look.contains("has no whole row"), "{look}");
    let utf_16: Vec<u8> = "productSku,name\nM-1,b\nM-2,".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let fields = [("charset", "utf-16"), part];
    let look = sent(&browser, LOOK, &fields, "p.csv", &utf_16[..utf_16.len() - 1]).await.expect(200).text;
    assert!(look.contains("M-1") && !look.contains("M-2"), "{look}");
    let look = sent(&browser, LOOK, &[part], "p.json", b"[{\"productSku\":").await.expect(200).text;
    assert!(look.contains("it can be sent"), "{look}");
    assert_eq!(jobs(&world).await, 0);
}

#[tokio::test]
async fn a_file_that_is_refused_as_a_whole_comes_back_with_its_form_and_nothing_is_stored() {
    let world = world(&strangers().await).await;
    let (browser, eshop) =
        (Browser::new(&world.api, &world.api.superadmin), world.api.tenant.eshop.to_string());
    let products = [("eshop", eshop.as_str()), ("kind", "products")];
    for (fields, name, file, said) in [
        (
            &products[..],
            "p.csv",
            &b"sku,name\nM-1,b\n"[..],
            "id=\"wrong-file\">Sku is not a known field; did you mean productSku?<",
        ),
        (&products, "p.csv", b"productSku,name\nM-1,b\"c\n", "id=\"wrong-file\">Line 2, byte 6: a quote"),
        (
            &products,
            "p.csv",
            b"productSku\n\xe8\n",
            "id=\"wrong-file\">Line 2, byte 1: the text is not valid utf-8",
        ),
        (&products, "p.csv", b"", "id=\"wrong-file\">The body is missing"),
        (&products, "p.json", b"[{]", "id=\"wrong-file\">Products[0] is not valid JSON"),
        (&products, "", b"", "id=\"wrong-file\">Is required"),
        (&products[..1], "p.csv", b"productSku\nM\n\"", "id=\"wrong-file\">Line 3, byte 1: the quote"),
        (&products[1..], "p.csv", b"productSku\nM-1\n", "id=\"wrong-eshop\">Is required"),
        (
            &[products[0], ("kind", "stocks")],
            "p.csv",
            b"productSku,quantity\nM-1,1\n",
            "id=\"wrong-warehouseId\">Is required",
        ),
        (
            &[products[0], ("kind", "people")],
            "p.csv",
            b"productSku\n",
            "id=\"wrong-kind\">Is not one of the options",
        ),
        (
            &[products[0], ("delimiter", ":")],
            "p.csv",
            b"productSku\n",
            "id=\"wrong-delimiter\">Must be one of",
        ),
    ] {
        let page = sent(&browser, HERE, fields, name, file).await.expect(400).text;
        assert!(page.contains(said) && page.contains("<h1>Import</h1>"), "{said}: {page}");
        assert!(!fields.contains(&products[0]) || page.contains(&format!("value=\"{eshop}\"")), "{page}");
    }
    assert_eq!(jobs(&world).await, 0);
}

#[tokio::test]
async fn a_file_is_refused_where_it_exceeds_its_limit_and_is_not_kept() {
    const MIB: usize = 1024 * 1024;
    let world = world(&strangers().await).await;
    let (browser, eshop) =
        (Browser::new(&world.api, &world.api.superadmin), world.api.tenant.eshop.to_string());
    let warehouse = world.api.tenant.warehouse.to_string();
    let token = token(&browser).await;
    let fields = [
        ("form_token", token.as_str()),
        ("eshop", eshop.as_str()),
        ("kind", "stocks"),
        ("warehouseId", warehouse.as_str()),
    ];
    let begin = form(&fields, "s.ndjson", b"");
    let begin = begin[..begin.len() - BOUNDARY.len() - 8].to_vec();
    let name = "n".repeat(MIB / 2);
    let row = format!("{{\"productSku\": \"{name}\", \"quantity\": 1}}\n").into_bytes();
    let endless = stream::repeat_with(move || row.clone());
    let body = stream::iter([begin]).chain(endless).map(Ok::<_, Infallible>);
    let page = posted(&browser, HERE, Body::from_stream(body)).await.expect(413).text;
    assert!(page.contains("id=\"wrong-file\">The file is larger than 52428800 bytes"), "{page}");
    assert_eq!(jobs(&world).await, 0);
}

/// A browser that is answered before it has sent all sees a broken connection.
#[tokio::test]
async fn a_form_is_read_to_its_end_before_it_is_answered() {
    let world = world(&strangers().await).await;
    let admin = world.api.tenant.token(&world.api.services, Role::Admin).await.unwrap();
    let (browser, eshop) = (Browser::new(&world.api, &admin), world.api.tenant.eshop.to_string());
    let token = token(&browser).await;
    let rows: Vec<String> = (0..2_000).map(|n| format!("READ-{n};a\r\n")).collect();
    let file = format!("productSku;name\r\n{}", rows.concat());
    for (path, kind, name, status) in [
        (LOOK, "products", "a.csv", 200),
        (LOOK, "products", "a.json", 200),
        (LOOK, "none", "a.csv", 200),
        (HERE, "none", "a.csv", 400),
        (HERE, "products", "a.csv", 303),
    ] {
        let fields = [("form_token", token.as_str()), ("eshop", &eshop), ("kind", kind), ("part", "true")];
        let sent = if path == LOOK { &fields[..] } else { &fields[..3] };
        let body = form(sent, name, file.as_bytes());
        let left = Arc::new(AtomicUsize::new(body.len()));
        let reading = Arc::clone(&left);
        let pieces: Vec<_> = body.chunks(1_000).map(Bytes::copy_from_slice).collect();
        let pieces = stream::iter(pieces).map(move |piece| {
            reading.fetch_sub(piece.len(), Ordering::Relaxed);
            Ok::<_, Infallible>(piece)
        });
        posted(&browser, path, Body::from_stream(pieces)).await.expect(status);
        assert_eq!(left.load(Ordering::Relaxed), 0, "{path} {kind} {name}");
    }
}

#[tokio::test]
async fn an_upload_that_breaks_off_is_no_job() {
    let world = world(&strangers().await).await;
    let (browser, eshop) =
        (Browser::new(&world.api, &world.api.superadmin), world.api.tenant.eshop.to_string());
    let token = token(&browser).await;
    let body = form(&[("form_token", token.as_str()), ("eshop", &eshop)], "p.csv", b"productSku\nM-1\nM-2\n");
    let page = posted(&browser, HERE, body[..body.len() - 20].to_vec()).await.expect(400).text;
    assert!(page.contains("id=\"wrong-file\">The body is not a valid multipart form"), "{page}");
    assert_eq!(jobs(&world).await, 0);
}

#[tokio::test]
async fn a_foreign_eshop_is_not_reached() {
    let world = world(&strangers().await).await;
    let other = Tenant::create(&world.api.services, "Other").await.unwrap();
    let admin = world.api.tenant.token(&world.api.services, Role::Admin).await.unwrap();
    let browser = Browser::new(&world.api, &admin);
    let file = b"productSku\nM-1\n";
    for eshop in [other.eshop.to_string(), "Other shop".to_owned()] {
        let page = sent(&browser, HERE, &[("eshop", &eshop)], "p.csv", file).await.expect(400).text;
        assert!(page.contains("id=\"wrong-eshop\""), "{page}");
    }
    let of_other: i64 = sqlx::query_scalar("SELECT count(*) FROM job WHERE organisation_id = $1")
        .bind(other.organisation)
        .fetch_one(&world.owner)
        .await
        .unwrap();
    assert_eq!((of_other, jobs(&world).await), (0, 0));
}

#[tokio::test]
async fn who_may_not_push_gets_no_form_and_no_link() {
    let world = world(&strangers().await).await;
    let (viewer, admin) =
        (Browser::new(&world.api, &world.api.viewer), Browser::new(&world.api, &world.api.superadmin));
    let shop = format!("/console/eshop/{}", world.api.tenant.eshop);
    for page in [shop.as_str(), "/console/job"] {
        assert!(!viewer.open(page).await.expect(200).text.contains(HERE), "{page}");
        assert!(admin.open(page).await.expect(200).text.contains(HERE), "{page}");
    }
    viewer.open(HERE).await.expect(403);
    let body = form(&[("form_token", "x"), ("kind", "products")], "p.csv", b"productSku\nM-1\n");
    for path in [HERE, LOOK] {
        posted(&viewer, path, body.clone()).await.expect(403);
    }
    // the e-shop of the page is that of the form
    let form =
        admin.open(&format!("{HERE}?eshop={}&kind=orders", world.api.tenant.eshop)).await.expect(200).text;
    assert!(form.contains(&format!("value=\"{}\"", world.api.tenant.eshop)), "{form}");
    assert!(form.contains("<option value=\"orders\" selected>"), "{form}");
}

#[tokio::test]
async fn a_file_without_the_token_of_the_session_is_refused() {
    let world = world(&strangers().await).await;
    let browser = Browser::new(&world.api, &world.api.superadmin);
    let eshop = world.api.tenant.eshop.to_string();
    for fields in [&[("eshop", eshop.as_str())][..], &[("form_token", "0"), ("eshop", &eshop)]] {
        let body = form(fields, "p.csv", b"productSku\nM-1\n");
        posted(&browser, LOOK, body.clone()).await.expect(403);
        let page = posted(&browser, HERE, body).await.expect(403).text;
        assert!(page.contains("The form belongs to another session"), "{page}");
    }
    let token = token(&browser).await;
    let body = form(&[("form_token", token.as_str()), ("eshop", &eshop)], "p.csv", b"productSku\nM-1\n");
    let request = browser
        .request("POST", HERE)
        .header("sec-fetch-site", "cross-site")
        .header("content-type", format!("multipart/form-data; boundary={BOUNDARY}"));
    world.api.send(request.body(body.into()).unwrap()).await.expect(403);
    assert_eq!(jobs(&world).await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_page_of_the_job_gives_refused_rows_back(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let browser = Browser::new(&world.api, &world.api.superadmin);
    let eshop = world.api.tenant.eshop.to_string();
    let reply = sent(&browser, HERE, &[("eshop", &eshop)], "p.csv", b"productSku,name\nM-1,x\n,y\n")
        .await
        .expect(303);
    let page = reply.header("location").unwrap().to_owned();
    let id = page.split(['/', '?']).nth(3).unwrap();
    // as a worker leaves it
    sqlx::query(
        "INSERT INTO job_item_error (job_id, index, line, code, message, payload)
         SELECT $1::uuid, 1, 3, 'required', 'productSku is required', '{\"name\":\"y\"}'::bytea",
    )
    .bind(id)
    .execute(&world.owner)
    .await
    .unwrap();
    world.execute("UPDATE job SET failed = 1, done = 2, changed = 1").await;
    let shown = browser.open(&page).await.expect(200).text;
    assert!(
        shown.contains("The file has arrived.")
            && shown.contains(&format!("href=\"/console/job/{id}/refused\"")),
        "{shown}"
    );
    let file = browser.open(&format!("/console/job/{id}/refused")).await.expect(200).text;
    assert!(file.contains("3,required,productSku is required,,y"), "{file}");
}
