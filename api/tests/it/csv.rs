//! Pushes as CSV (`docs/reference/syncs.md#csv`): what is stored of them is what is stored of the same rows as NDJSON.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::{Method, Request};
use longshore_domain::job::payload::unpack_rows;
use longshore_domain::job::row::form::Form;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::product::{MIGRATIONS, World};
use crate::support::{Reply, strangers};

const PRODUCTS: &str = "/api/partner-integration/eshop/sync/products";
const STOCKS: &str = "/api/partner-integration/eshop/sync/product-stocks";
const ORDERS: &str = "/api/partner-integration/eshop/sync/expeditions";
const NEWS: &str = "/api/partner-integration/wms/sync/news";

/// Sends a file as a user.
async fn sent(world: &World, path: &str, query: &str, body: &[u8], headers: &[(&str, &str)]) -> Reply {
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(format!("{path}?{query}"))
        .header("authorization", format!("Bearer {}", world.api.user))
        .header("content-type", "text/csv; header=present");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    world.api.send(request.body(body.to_vec().into()).unwrap()).await
}

/// What is stored of a job: its rows, the lines that they begin in, and its parameters.
async fn stored(world: &World, reply: Reply) -> (Vec<Value>, Vec<i64>, Value) {
    let job = reply.expect(200).json()["id"].as_str().unwrap().to_owned();
    let (payload, lines): (Vec<u8>, Vec<i64>) =
        sqlx::query_as("SELECT payload, lines FROM job_chunk WHERE job_id = $1::uuid")
            .bind(&job)
            .fetch_one(&world.owner)
            .await
            .unwrap();
    let rows = unpack_rows(&payload).unwrap();
    let parameters: Value = sqlx::query_scalar("SELECT parameters FROM job WHERE id = $1::uuid")
        .bind(&job)
        .fetch_one(&world.owner)
        .await
        .unwrap();
    (rows.iter().map(|row| serde_json::from_slice(row).unwrap()).collect(), lines, parameters)
}

/// What is stored of rows as NDJSON.
async fn lines(world: &World, path: &str, header: Value, rows: &[Value]) -> Vec<Value> {
    let lines: Vec<_> = std::iter::once(&header).chain(rows).map(ToString::to_string).collect();
    let body = lines.join("\n");
    let request = Request::post(path)
        .header("authorization", format!("Bearer {}", world.api.user))
        .header("content-type", "application/x-ndjson");
    stored(world, world.api.send(request.body(body.into()).unwrap()).await).await.0
}

async fn jobs(world: &World) -> i64 {
    world.count("SELECT count(*) FROM job").await
}

#[tokio::test]
async fn products_of_a_spreadsheet_are_stored_as_those_of_ndjson() {
    let world = World::new(&strangers().await).await;
    let eshop = world.api.tenant.eshop;
    let text = "PRODUCTSKU; name ;weight;active;referenceNumbers;description;_row\r\n\
                H-1;\"Hrníček \"\"Žlutý\"\"\";0320;Yes;859001|859002;\\N;7\r\n\
                ;;;;;;\r\n\
                H-2;'=lod;1,5;;;;\r\n";
    let header = json!({"eshop": eshop, "inventoryId": "I"});
    let expected = [
        json!({"productSku": "H-1", "name": "Hrníček \"Žlutý\"", "weight": 320, "active": true,
               "referenceNumbers": ["859001", "859002"], "description": null, "_row": "7"}),
        json!({"productSku": "H-2", "name": "=lod", "weight": 1.5}),
    ];
    let utf_16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let of_windows = |c: char| match c {
        'č' => 0xe8,
        'Ž' => 0x8e,
        // as in Unicode
        other => u8::try_from(u32::from(other)).unwrap(),
    };
    let windows: Vec<u8> = text.chars().map(of_windows).collect();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let packed = [("content-encoding", "gzip")];
    for (query, body, headers) in [
        ("", text.as_bytes(), &[][..]),
        ("", &[b"\xef\xbb\xbf", text.as_bytes()].concat(), &[]),
        ("&delimiter=;", text.replace(";;;;;;", "").as_bytes(), &[]),
        ("&charset=windows-1250", &windows, &[]),
        ("&charset=utf-16", &[&[0xff, 0xfe][..], &utf_16].concat(), &[]),
        ("", &gzip.finish().unwrap(), &packed),
    ] {
        let query = format!("eshop={eshop}&inventoryId=I{query}");
        let (rows, lines, parameters) =
            stored(&world, sent(&world, PRODUCTS, &query, body, headers).await).await;
        assert_eq!((rows.as_slice(), lines), (expected.as_slice(), vec![0, 2, 1, 4]), "{query}");
        assert_eq!(parameters["inventoryId"], "I");
        assert_eq!(parameters["csv"]["delimiter"], ";");
        assert_eq!(parameters["csv"]["decimalComma"], true);
        assert_eq!(parameters["csv"]["names"][1], "name");
    }
    assert_eq!(lines(&world, PRODUCTS, header, &expected).await, expected);
}

#[tokio::test]
async fn a_file_may_have_each_delimiter() {
    let world = World::new(&strangers().await).await;
    let tenant = &world.api.tenant;
    let query = format!("eshop={}&warehouseId={}", tenant.eshop, tenant.warehouse);
    for (delimiter, name) in [(",", "%2C"), (";", ";"), ("\t", "%09"), ("\t", "tab"), ("|", "|")] {
        let text = ["productSku,quantity", "M-1,5", "M-2,-1"].join("\n").replace(',', delimiter);
        for query in [query.clone(), format!("{query}&delimiter={}", name.replace('|', "%7C"))] {
            let (rows, ..) = stored(&world, sent(&world, STOCKS, &query, text.as_bytes(), &[]).await).await;
            assert_eq!(
                rows,
                [json!({"productSku": "M-1", "quantity": 5}), json!({"productSku": "M-2", "quantity": -1})]
            );
        }
    }
    // one that is not that of the file
    let refused = sent(&world, STOCKS, &format!("{query}&delimiter=,"), b"productSku;quantity\n", &[]).await;
    let violation = "productSku;quantity unknown_field";
    assert_eq!(refused.expect(400).violations(), [violation]);
}

#[tokio::test]
async fn lines_of_an_order_are_stored_as_one_row() {
    let world = World::new(&strangers().await).await;
    let query = format!("eshop={}&send=no", world.api.tenant.eshop);
    let text = "orderNumber,value,billingZip,cod,carrierOptions.recipientIdentificationNumber,item.productSku,item.quantity,cancel,_note\n\
                A-1,10.5,01234,no,77,M-1,2,,x\n\
                A-1,,01234,,,M-2,1,,y\n\
                A-2,,,,,,,true,\n\
                A-3,1,,,,M-1,\"1,5\",,\n\
                A-3,2,,,,M-1,1,,\n\
                8.59E+12,,,,,M-1,1,,\n";
    let reply = sent(&world, ORDERS, &query, text.as_bytes(), &[]).await;
    let (rows, lines_of, parameters) = stored(&world, reply).await;
    let expected = [
        json!({"orderNumber": "A-1", "value": 10.5, "billingZip": "01234", "cod": false, "_note": "x",
               "carrierOptions": {"recipientIdentificationNumber": "77"},
               "items": [{"productSku": "M-1", "quantity": 2}, {"productSku": "M-2", "quantity": 1}]}),
        json!({"orderNumber": "A-2", "cancel": true}),
    ];
    assert_eq!(rows[..2], expected);
    assert_eq!(lines_of, [0, 2, 1, 4, 3, 7]);
    assert_eq!(parameters["send"], false);
    // those that are refused are kept as they came
    let Form::Csv(form) = Form::of_parameters(&parameters) else { panic!("{parameters}") };
    let cells = |row: &Value| form.cells(row.to_string().as_bytes());
    assert_eq!(cells(&rows[2])[0][6], "1,5");
    assert_eq!(cells(&rows[2])[1], ["A-3", "2", "", "", "", "M-1", "1", "", ""]);
    assert_eq!(cells(&rows[3])[0][0], "8.59E+12");
    assert_eq!(rows[3]["orderNumber"], "8.59E+12");
    let header = json!({"eshop": world.api.tenant.eshop, "send": false});
    assert_eq!(lines(&world, ORDERS, header, &expected).await, expected);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_file_that_is_refused_names_the_place_and_leaves_no_job(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let (stranger, _) = world.stranger().await;
    let eshop = format!("eshop={}", world.api.tenant.eshop);
    for (body, detail) in [
        (&b""[..], "the body is missing; its first line must name the fields of the rows"),
        (b"productSku,name\nA,\"b\nB,c\n", "line 2, byte 3: the quote that begins here is never closed"),
        (
            b"productSku,name\nA,b\"\n",
            "line 2, byte 4: a quote stands in a cell that does not begin with one;",
        ),
        (b"productSku,name\nA,\"b\"c\n", "line 2, byte 6: the delimiter or the end of the line must follow"),
        (
            b"productSku,name\nA,\xe8aj\n",
            "line 2, byte 3: the text is not valid utf-8: it looks like windows-1250;",
        ),
        (
            b"PK\x03\x04",
            "line 1, byte 1: the text is not valid utf-8: it looks like a ZIP archive or an Excel workbook",
        ),
    ] {
        let reply = sent(&world, PRODUCTS, &eshop, body, &[]).await.expect(400).json();
        assert!(reply["detail"].as_str().unwrap().starts_with(detail), "{reply}");
        assert_eq!(reply["code"], "malformed_body");
    }
    for (query, body, violations) in [
        (
            eshop.as_str(),
            "productSku,,Name,name,wieght\n",
            "column 2 required|name repeated_key|wieght unknown_field",
        ),
        ("", "productSku\n", "eshop required"),
        ("eshop=mine&colour=red", "productSku\n", "eshop invalid_id|colour unknown_field"),
        (&format!("eshop={}", stranger.eshop), "productSku\n", "eshop unknown_reference"),
        (&format!("{eshop}&{eshop}"), "productSku\n", "eshop repeated_key"),
        (
            &format!("{eshop}&charset=latin1&delimiter=:"),
            "productSku\n",
            "charset not_allowed|delimiter not_allowed",
        ),
    ] {
        let reply = sent(&world, PRODUCTS, query, body.as_bytes(), &[]).await.expect(400);
        assert_eq!(reply.violations().join("|"), violations, "{query}");
    }
    // a chunk was stored before the place is reached
    let mut long = (0..1_500).map(|n| format!("A{n},Anchor\n")).collect::<Vec<_>>().concat();
    long.insert_str(0, "productSku,name\n");
    long.push_str("A,\"\n");
    let reply = sent(&world, PRODUCTS, &eshop, long.as_bytes(), &[]).await.expect(400).json();
    assert_eq!(reply["detail"], "line 1502, byte 3: the quote that begins here is never closed");
    assert_eq!(jobs(&world).await, 0);
    assert_eq!(
        sent(&world, PRODUCTS, &eshop, b"productSku\n", &[]).await.expect(200).json()["state"],
        "succeeded"
    );
}

#[tokio::test]
async fn a_file_sent_again_with_its_key_is_the_same_job_and_with_another_query_another_body() {
    let world = World::new(&strangers().await).await;
    let query = format!("eshop={}", world.api.tenant.eshop);
    let key = [("idempotency-key", "csv-once")];
    let first = sent(&world, PRODUCTS, &query, b"productSku,name\nA,b\n", &key).await.expect(200);
    let again = sent(&world, PRODUCTS, &query, b"productSku,name\nA,b\n", &key).await.expect(200);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(first.json()["id"], again.json()["id"]);
    let other = format!("{query}&inventoryId=1");
    sent(&world, PRODUCTS, &other, b"productSku,name\nA,b\n", &key).await.expect(422);
}

#[tokio::test]
async fn reports_of_a_warehouse_are_not_taken_as_csv() {
    let world = World::new(&strangers().await).await;
    let request = Request::post(format!("{NEWS}?wms={}", world.api.tenant.wms))
        .header("authorization", format!("Bearer {}", world.api.superadmin))
        .header("content-type", "text/csv");
    let reply = world.api.send(request.body("id\n1\n".into()).unwrap()).await.expect(415);
    assert_eq!(reply.json()["code"], "unsupported_media_type");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn refused_rows_are_given_back_in_their_file_and_are_the_same_when_they_are_sent_again(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let query = format!("eshop={}", world.api.tenant.eshop);
    let text = "orderNumber;value;note;billingZip;item.productSku;item.quantity;_code;_x\n\
                A-1;10,5;\"'=1;2\";01234;M-1;2;old;y\n\
                A-1;;;;M-2;1;old;y\n\
                A-2;x;\\N;;;;;\n\
                8.59E+12;;'-1-;;M-1;1;;\n";
    let first = sent(&world, ORDERS, &query, text.as_bytes(), &[]).await;
    let job = first.json()["id"].as_str().unwrap().to_owned();
    let (rows, lines, _) = stored(&world, first).await;
    assert_eq!((rows.len(), lines), (3, vec![0, 2, 1, 4]));
    for (index, row) in rows.iter().enumerate() {
        sqlx::query(
            "INSERT INTO job_item_error (job_id, index, line, code, message, payload)
             VALUES ($1::uuid, $2, $2 + 2, 'required', 'is \"wrong\"; repair it', $3)",
        )
        .bind(&job)
        .bind(i32::try_from(index).unwrap())
        .bind(row.to_string().into_bytes())
        .execute(&world.owner)
        .await
        .unwrap();
    }
    world.execute("UPDATE job SET failed = 5, done = 5, total = 5").await;
    let reply = world.api.get(&world.api.user, &format!("/api/job/{job}/refused")).await.expect(200);
    assert_eq!(reply.header("content-type"), Some("text/csv; charset=utf-8"));
    assert_eq!(reply.header("longshore-rows"), Some("3 of 5"));
    let named = format!("attachment; filename=\"job-{job}-refused.csv\"");
    assert_eq!(reply.header("content-disposition"), Some(named.as_str()));
    let reason = "required;\"is \"\"wrong\"\"; repair it\"";
    let expected = [
        "\u{feff}_line;_code;_message;orderNumber;value;note;billingZip;item.productSku;item.quantity;_x",
        &format!("2;{reason};A-1;10,5;\"'=1;2\";01234;M-1;2;y"),
        &format!("2;{reason};A-1;;;;M-2;1;"),
        &format!("3;{reason};A-2;x;\\N;;;;"),
        &format!("4;{reason};8.59E+12;;'-1-;;M-1;1;"),
        "",
    ];
    assert_eq!(reply.text, expected.join("\r\n"));
    let (again, _, _) = stored(&world, sent(&world, ORDERS, &query, reply.text.as_bytes(), &[]).await).await;
    let own = |row: &Value| {
        let mut row = row.clone();
        row.as_object_mut()
            .unwrap()
            .retain(|name, _| !["_line", "_code", "_message", "_lines", "_x"].contains(&name.as_str()));
        row
    };
    assert_eq!(again.iter().map(own).collect::<Vec<_>>(), rows.iter().map(own).collect::<Vec<_>>());
}
