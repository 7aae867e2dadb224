//! What a body of an order may say (`docs/reference/orders.md#order`, `#item`).

use longshore_domain::expedition::import::read_row;
use serde_json::{Map, Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{MIGRATIONS, PATH, World};
use crate::support::strangers;

/// Fields of strings or null, with their length.
const TEXTS: &[(&str, usize)] = &[
    ("deliveryMethod", 255),
    ("carrierPickupPlaceCode", 100),
    ("externalCarrierPickupPlaceCode", 100),
    ("billingFirstName", 255),
    ("billingLastName", 255),
    ("billingDegree", 255),
    ("billingCompany", 255),
    ("billingStreet", 255),
    ("billingHouseNr", 255),
    ("billingZip", 255),
    ("billingCity", 255),
    ("billingState", 255),
    ("billingPhone", 255),
    ("billingRegistrationNumber", 255),
    ("billingVatNumber", 255),
    ("deliveryFirstName", 255),
    ("deliveryLastName", 255),
    ("deliveryDegree", 255),
    ("deliveryCompany", 255),
    ("deliveryStreet", 255),
    ("deliveryHouseNr", 255),
    ("deliveryZip", 255),
    ("deliveryCity", 255),
    ("deliveryState", 255),
    ("deliveryPhone", 255),
    ("note", 10_000),
    ("carrierNote", 255),
    ("customerGroup", 255),
    ("invoiceNumber", 255),
    ("ref1", 255),
    ("ref2", 255),
    ("ref3", 255),
    ("trackingNumber", 255),
    ("trackingUrl", 2_000),
    ("genericTrackingUrl", 2_000),
    ("externalTrackingNumber", 255),
    ("externalPackageNumber", 255),
];

/// Fields that take integers as text.
const DIGITS: &[&str] = &["billingZip", "billingRegistrationNumber", "deliveryZip"];

/// Values that a field refuses, with the violation.
fn refused() -> Vec<(&'static str, Value, String)> {
    let mut cases = Vec::new();
    let mut add = |field: &'static str, value: Value, violation: &str| {
        let violation =
            if violation.contains(' ') { violation.to_owned() } else { format!("{field} {violation}") };
        cases.push((field, value, violation));
    };
    for (field, length) in TEXTS {
        add(field, json!("x".repeat(length + 1)), "invalid_length");
        add(field, json!("x\0"), "invalid_character");
        add(field, json!(true), "wrong_type");
        add(field, json!(["x"]), "wrong_type");
        if DIGITS.contains(field) {
            add(field, json!(-1), "wrong_type");
            add(field, json!(1.5), "wrong_type");
        } else {
            add(field, json!(1), "wrong_type");
        }
    }
    for field in ["value", "codValue", "deliveryCost"] {
        for value in [json!(-1), json!("-0.01"), json!(1_000_000.01), json!("1000001"), json!(1e300)] {
            add(field, value, "out_of_range");
        }
        for value in [json!(0.00001), json!("1,5"), json!(" "), json!("1.00001"), json!("NaN"), json!("1e3")]
        {
            add(field, value, "invalid_amount");
        }
        for value in [json!(true), json!([1]), json!({})] {
            add(field, value, "wrong_type");
        }
    }
    for field in ["currency", "codCurrency", "deliveryCostCurrency"] {
        for value in ["eur", "EURO", " ", "E R", "€€€"] {
            add(field, json!(value), "unknown_currency");
        }
        add(field, json!(978), "wrong_type");
    }
    for field in ["billingCountry", "deliveryCountry"] {
        for value in ["gb", "ZZ"] {
            add(field, json!(value), "unknown_country");
        }
        add(field, json!("GBR"), "invalid_length");
        add(field, json!(1), "wrong_type");
    }
    for field in ["billingEmail", "deliveryEmail"] {
        add(field, json!("ann"), "invalid_email");
        add(field, json!(1), "wrong_type");
    }
    for field in [
        "cod",
        "differentDeliveryAddress",
        "ignoreAddressValidation",
        "fragile",
        "b2b",
        "waitBeforeProcessing",
        "editBeforeProcessing",
        "send",
    ] {
        add(field, json!("true"), "wrong_type");
        add(field, json!(1), "wrong_type");
    }
    for field in ["cod", "differentDeliveryAddress", "ignoreAddressValidation", "fragile"] {
        add(field, Value::Null, "wrong_type");
    }
    for field in [
        "warehouse",
        "wms",
        "carrier",
        "carrierService",
        "carrierPickupPlace",
        "externalCarrierPickupPlace",
        "partner",
    ] {
        add(field, json!("none"), "invalid_id");
        add(field, json!(1), "wrong_type");
    }
    for field in ["warehouse", "wms", "value", "currency", "orderNumber", "items", "services"] {
        add(field, Value::Null, "wrong_type");
    }
    for (number, code) in [
        ("", "invalid_length"),
        ("123456789012345678901234567890123", "invalid_length"),
        ("A 1", "invalid_character"),
        ("A&1", "invalid_character"),
        ("č", "invalid_character"),
    ] {
        add("orderNumber", json!(number), code);
    }
    add("orderNumber", json!(1), "wrong_type");
    add("value", json!(""), "invalid_amount");
    add("currency", json!(""), "unknown_currency");
    add("externalId", json!("x".repeat(256)), "invalid_length");
    add("externalId", json!(7), "wrong_type");
    add("codVariableSymbol", json!("x"), "invalid_character");
    add("codVariableSymbol", json!("1".repeat(21)), "invalid_length");
    for (field, most) in [("priority", 1_000), ("packagesCount", 999)] {
        add(field, json!(-1), "out_of_range");
        add(field, json!(most + 1), "out_of_range");
        add(field, json!(0.5), "wrong_type");
        add(field, json!("1"), "wrong_type");
    }
    add("requiredExpeditionDate", json!("2026-02-30"), "invalid_date");
    add("requiredExpeditionDate", json!("2026-05-31T12:00:00Z"), "invalid_date");
    add("requiredExpeditionDate", json!(1_780_185_600_000_i64), "wrong_type");
    add("eshopOrderDate", json!("2026-05-31"), "invalid_timestamp");
    add("eshopOrderDate", json!("2026-05-31T12:00:00"), "invalid_timestamp");
    add("eshopOrderDate", json!("9999-12-31T24:00Z"), "invalid_timestamp");
    add("eshopOrderDate", json!(0), "wrong_type");
    add("carrierOptions", json!("x"), "wrong_type");
    add("carrierOptions", json!([{}, {}]), "wrong_type");
    add("carrierOptions", json!({"colour": 1}), "carrierOptions.colour unknown_field");
    let path = "carrierOptions.recipientIdentificationNumber wrong_type";
    add("carrierOptions", json!({"recipientIdentificationNumber": 1}), path);
    add("services", json!(["none"]), "services[0] invalid_id");
    add("services", json!(vec![Uuid::nil(); 101]), "invalid_count");
    add("colour", json!(1), "unknown_field");
    add("invoiceNr", json!(1), "unknown_field");
    cases
}

/// What an item refuses: its members, and the violation within the item.
fn refused_items(product: &str) -> Vec<(Value, String)> {
    let mut cases = Vec::new();
    let mut add = |members: Value, violation: &str| {
        let mut item = json!({"product": product, "quantity": 1});
        for (name, value) in members.as_object().unwrap() {
            item[name] = value.clone();
        }
        cases.push((item, violation.to_owned()));
    };
    add(json!({"quantity": -1}), "quantity out_of_range");
    add(json!({"quantity": 1_000_001}), "quantity out_of_range");
    add(json!({"quantity": 1.5}), "quantity wrong_type");
    add(json!({"quantity": "1"}), "quantity wrong_type");
    add(json!({"quantity": null}), "quantity wrong_type");
    add(json!({"product": "MUG"}), "product invalid_id");
    add(json!({"productValue": -1}), "productValue out_of_range");
    add(json!({"productValue": "x"}), "productValue invalid_amount");
    add(json!({"productValueCurrency": "eur"}), "productValueCurrency unknown_currency");
    for field in ["productLabel", "lot", "ref1", "ref2", "ref3"] {
        add(json!({field: "x".repeat(256)}), &format!("{field} invalid_length"));
        add(json!({field: 1}), &format!("{field} wrong_type"));
    }
    add(json!({"lifo": "yes"}), "lifo not_allowed");
    add(json!({"lifo": 1}), "lifo wrong_type");
    for field in ["book", "bookLimit"] {
        add(json!({field: -1}), &format!("{field} out_of_range"));
        add(json!({field: "1"}), &format!("{field} wrong_type"));
    }
    add(json!({"bookStockAdvices": [{"quantity": 1}]}), "bookStockAdvices[0].stockAdviceItem required");
    add(json!({"colour": 1}), "colour unknown_field");
    cases.push((json!({"quantity": 1}), "product required".to_owned()));
    cases.push((json!({"product": product}), "quantity required".to_owned()));
    cases.push((json!("MUG"), " wrong_type".to_owned()));
    cases.push((json!({"productSku": "", "quantity": 1}), "productSku invalid_length".to_owned()));
    cases
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn each_field_refuses_what_it_is_not_in_a_create_an_update_and_a_row(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let stored = world.made(world.order("stored", &world.mug)).await;
    let row = |body: &Value| {
        let mut row = body.clone();
        row.as_object_mut().unwrap().remove("eshop");
        let refused = read_row(row).map_or_else(|refused| refused, |row| row.violations().to_vec());
        refused.into_iter().map(|v| format!("{} {}", v.property_path, v.code)).collect::<Vec<_>>()
    };
    for (field, value, violation) in refused() {
        let body = world.order_with("1", &json!({field: value}));
        let shown = format!("{field}: {:.60}", value.to_string());
        let violations = world.place(body.clone()).await.expect(400).violations();
        assert!(violations.contains(&violation), "{shown}: {violations:?}");
        assert_eq!(violations.len(), 1, "{shown}: {violations:?}");
        assert_eq!(row(&body), violations, "{shown}");
        let changed = world.act(&stored, "", json!({field: value})).await.expect(400).violations();
        // an update knows no `send`
        let expected = if field == "send" { "send unknown_field".to_owned() } else { violation };
        assert!(changed.contains(&expected), "{shown}: {changed:?}");
    }
    for (item, violation) in refused_items(&world.mug) {
        let good = json!({"product": world.mug, "quantity": 1});
        let body = world.order_with("1", &json!({"items": [good, item]}));
        let (name, code) = violation.split_once(' ').unwrap();
        let violation =
            if name.is_empty() { format!("items[1] {code}") } else { format!("items[1].{name} {code}") };
        let violations = world.place(body.clone()).await.expect(400).violations();
        assert_eq!(violations, [violation], "{item}");
        assert_eq!(row(&body), violations);
        let body = json!({"items": body["items"]});
        assert_eq!(world.act(&stored, "", body).await.expect(400).violations(), violations);
    }
    assert_eq!(world.read(&stored).await, stored);
    assert_eq!(world.count("SELECT count(*) FROM expedition").await, 1);
}

#[tokio::test]
async fn a_number_that_is_a_sum_of_floats_is_the_amount_it_is_close_to_in_each_field() {
    let world = World::new(&strangers().await).await;
    let sum = 22.200_000_000_000_003;
    let mut members = json!({
        "value": sum, "codValue": sum, "deliveryCost": sum, "deliveryCostCurrency": "EUR",
        "items": [{"product": world.mug, "quantity": 1, "productValue": sum, "productValueCurrency": "EUR"}],
    });
    let order = world.made(world.order_with("1", &members)).await;
    for shown in
        [&order["value"], &order["codValue"], &order["deliveryCost"], &order["items"][0]["productValue"]]
    {
        assert_eq!(shown.to_string(), "22.2");
    }
    members.as_object_mut().unwrap().remove("items");
    members["value"] = json!(59.980_000_000_000_004);
    let changed = world.act(&order, "", members).await.expect(200).json();
    assert_eq!(changed["value"].to_string(), "59.98");
    let criteria = json!({"criteria": {"value": {"eq": 59.980_000_000_000_004}, "codValue": {"in": [sum]}}});
    let found = world.api.post(&world.api.user, &format!("{PATH}/list"), criteria).await.expect(200).json();
    assert_eq!(found["paging"]["total"], 1);
    let exact = world.order_with("2", &json!({"value": "22.200_000_000_000_003"}));
    assert_eq!(world.place(exact).await.expect(400).violations(), ["value invalid_amount"]);
}

#[tokio::test]
async fn dates_are_taken_as_programs_write_them_and_found_as_they_were_sent() {
    let world = World::new(&strangers().await).await;
    let date = "2026-05-31T10:00:00.1234567+0200";
    let dates = json!({"eshopOrderDate": date, "requiredExpeditionDate": "2026-05-31T00:00:00.000+02:00"});
    let order = world.made(world.order_with("1", &dates)).await;
    assert_eq!(order["eshopOrderDate"], "2026-05-31T08:00:00.123456+00:00");
    assert_eq!(order["requiredExpeditionDate"], "2026-05-31");
    let api = &world.api;
    let found = |criteria: Value| async move {
        let reply = api.post(&api.user, &format!("{PATH}/list"), json!({"criteria": criteria})).await;
        reply.expect(200).json()["paging"]["total"].clone()
    };
    assert_eq!(found(json!({"eshopOrderDate": {"eq": date}})).await, 1);
    assert_eq!(found(json!({"requiredExpeditionDate": {"eq": "2026-05-31 00:00:00"}})).await, 1);
    for last in ["9999-12-31T23:59:59.9999999Z", "2016-12-31T23:59:60.5Z"] {
        let order = world.act(&order, "", json!({"eshopOrderDate": last})).await.expect(200).json();
        assert_eq!(world.act(&order, "", order.clone()).await.expect(200).json(), order);
        assert_eq!(found(json!({"eshopOrderDate": {"eq": last}})).await, 1);
    }
    for (field, value, message) in [
        (
            "eshopOrderDate",
            json!("2026-05-31 12:00"),
            "must name its UTC offset: 2026-05-31T12:00:00Z if it is in UTC",
        ),
        (
            "eshopOrderDate",
            json!(1_780_185_600_000_i64),
            "must be a string such as \"2026-05-31T12:00:00Z\", not a number",
        ),
        (
            "requiredExpeditionDate",
            json!(20_260_531),
            "must be a string such as \"2026-05-31\", not a number",
        ),
    ] {
        let refused = world.place(world.order_with("2", &json!({field: value}))).await.expect(400).json();
        let said = refused["violations"][0]["message"].as_str().unwrap();
        assert!(said.starts_with(message), "{said}");
    }
}

#[tokio::test]
async fn ids_in_capitals_are_taken_in_bodies_criteria_and_paths_and_shown_in_lowercase() {
    let world = World::new(&strangers().await).await;
    let api = &world.api;
    let capitals = |id: &str| json!(id.to_uppercase());
    let ids = json!({
        "eshop": capitals(&api.tenant.eshop.to_string()), "carrier": capitals(&world.carrier),
        "services": [capitals(&world.service)], "items": [{"product": capitals(&world.mug), "quantity": 1}],
    });
    let order = world.made(world.order_with("1", &ids)).await;
    for (shown, expected) in [
        (&order["eshop"], json!(api.tenant.eshop)),
        (&order["carrier"], json!(world.carrier)),
        (&order["services"], json!([world.service])),
        (&order["items"][0]["product"], json!(world.mug)),
    ] {
        assert_eq!(*shown, expected);
    }
    let id = order["id"].as_str().unwrap().to_uppercase();
    assert_eq!(api.get(&api.user, &format!("{PATH}/{id}")).await.expect(200).json(), order);
    // a record that was read is sent back by a program that writes ids in capitals
    let mut again = order.clone();
    for name in ["id", "eshop", "organisation", "warehouse", "wms", "carrier"] {
        again[name] = capitals(order[name].as_str().unwrap());
    }
    assert_eq!(api.put(&api.user, &format!("{PATH}/{id}"), again).await.expect(200).json(), order);
    let criteria = json!({"criteria": {"id": {"eq": id}, "items.product": {"in": [capitals(&world.mug)]}}});
    let found = api.post(&api.user, &format!("{PATH}/list"), criteria).await.expect(200).json();
    assert_eq!(found["paging"]["total"], 1);
}

#[tokio::test]
async fn what_a_create_requires_is_named_all_at_once() {
    let world = World::new(&strangers().await).await;
    let mut violations = world.place(json!({})).await.expect(400).violations();
    violations.sort();
    assert_eq!(
        violations,
        ["currency required", "eshop required", "items required", "orderNumber required", "value required"]
    );
    let refused = world.place(json!([])).await.expect(400);
    assert_eq!(refused.violations(), [" wrong_type"]);
    for items in [json!([]), json!(vec![json!({"product": world.mug, "quantity": 1}); 1_001])] {
        let reply = world.place(world.order_with("1", &json!({"items": items}))).await.expect(400);
        assert_eq!(reply.violations(), ["items invalid_count"]);
    }
    let reply = world.place(world.order_with("1", &json!({"value": -1, "currency": "x"}))).await.expect(400);
    let problem = reply.json();
    assert_eq!(problem["violations"][0]["propertyPath"], "value");
    assert_eq!(problem["violations"][0]["parameters"], json!({"{{ value }}": "-1"}));
    assert_eq!(reply.violations().len(), 2);
}

/// Every field that may be null, empty.
fn emptied() -> Map<String, Value> {
    let further = [
        "externalId",
        "carrier",
        "carrierService",
        "carrierPickupPlace",
        "externalCarrierPickupPlace",
        "billingCountry",
        "billingEmail",
        "deliveryCountry",
        "deliveryEmail",
        "codValue",
        "codVariableSymbol",
        "requiredExpeditionDate",
        "eshopOrderDate",
        "deliveryCost",
        "deliveryCostCurrency",
        "partner",
    ];
    TEXTS.iter().map(|(field, _)| *field).chain(further).map(|field| (field.to_owned(), json!(""))).collect()
}

#[tokio::test]
async fn an_empty_text_is_null_in_a_create_an_update_and_a_row() {
    let world = World::new(&strangers().await).await;
    let mut body = world.order_with("empty", &Value::Object(emptied()));
    // null stands for that of the order
    body["codCurrency"] = json!("");
    body["carrierOptions"] = json!({"recipientIdentificationNumber": ""});
    body["items"][0]["lot"] = json!("");
    body["items"][0]["productValueCurrency"] = json!("");
    let mut row = body.clone();
    row.as_object_mut().unwrap().remove("eshop");
    assert_eq!(read_row(row).unwrap().violations(), []);
    let created = world.made(body).await;
    assert_eq!(created["carrierOptions"], json!({"recipientIdentificationNumber": null}));
    // as PHP writes an object without members
    let body = world.order_with("PHP", &json!({"carrierOptions": []}));
    assert_eq!(world.made(body).await["carrierOptions"], json!({"recipientIdentificationNumber": null}));
    assert_eq!(
        (&created["items"][0]["lot"], &created["differentDeliveryAddress"]),
        (&Value::Null, &json!(false))
    );
    let full: Map<_, _> =
        every_field(&world).into_iter().map(|(name, given, _)| (name.to_owned(), given)).collect();
    let full = world.made(world.order_with("full", &Value::Object(full))).await;
    let cleared = world.act(&full, "", Value::Object(emptied())).await.expect(200).json();
    for field in emptied().keys() {
        assert_eq!((&created[field], &cleared[field]), (&Value::Null, &Value::Null), "{field}");
    }
}

#[tokio::test]
async fn a_line_of_no_pieces_is_left_out() {
    let world = World::new(&strangers().await).await;
    let refunded = json!({"productSku": "GONE", "quantity": 0});
    let kept = json!({"product": world.mug, "quantity": 2, "lot": "7"});
    let order = world.made(world.order_with("1", &json!({"items": [refunded, kept, refunded]}))).await;
    let items = order["items"].as_array().unwrap();
    assert_eq!((items.len(), &items[0]["position"], &items[0]["quantity"]), (1, &json!(0), &json!(2)));
    let same = world.act(&order, "", json!({"items": [refunded, kept]})).await.expect(200).json();
    assert_eq!(same, order, "the same items");
    // what is wrong with another line is named by its place in the body
    let unknown = json!({"items": [refunded, {"productSku": "NONE", "quantity": 1}]});
    let violations = ["items[1].productSku unknown_reference"];
    assert_eq!(world.place(world.order_with("2", &unknown)).await.expect(400).violations(), violations);
    assert_eq!(world.act(&order, "", unknown).await.expect(400).violations(), violations);
    let nothing = json!({"items": [refunded, {"product": world.mug, "quantity": 0}]});
    assert_eq!(
        world.place(world.order_with("2", &nothing)).await.expect(400).violations(),
        ["items required"]
    );
    assert_eq!(world.act(&order, "", nothing).await.expect(400).violations(), ["items required"]);
}

#[tokio::test]
async fn addresses_that_differ_by_what_is_empty_are_the_same() {
    let world = World::new(&strangers().await).await;
    let billing = json!({
        "billingLastName": "Byron", "billingStreet": "Quay Street", "billingCity": "Bristol", "billingZip": "1",
        "billingCountry": "GB", "billingEmail": "ann@example.com", "billingPhone": "7",
    });
    let with = |number: &str, delivery: Value| {
        let mut fields = billing.clone();
        fields.as_object_mut().unwrap().extend(delivery.as_object().unwrap().clone());
        world.order_with(number, &fields)
    };
    let same = json!({
        "deliveryLastName": "Byron", "deliveryStreet": "Quay Street", "deliveryCity": "Bristol", "deliveryZip": "1",
        "deliveryCountry": "GB", "deliveryEmail": "", "deliveryPhone": "",
    });
    let empty: Map<_, _> = emptied().into_iter().filter(|(name, _)| name.starts_with("delivery")).collect();
    for (number, delivery) in [("some", same), ("all", Value::Object(empty))] {
        let order = world.made(with(number, delivery)).await;
        assert_eq!(order["differentDeliveryAddress"], false, "{number}");
        for field in ["LastName", "Street", "Email", "Phone"] {
            assert_eq!(
                order[format!("delivery{field}")],
                billing[format!("billing{field}")],
                "{number}: {field}"
            );
        }
    }
}

/// A create with every field, as clients send it, and what the record shows of each.
fn every_field(world: &World) -> Vec<(&'static str, Value, Value)> {
    let mut fields: Vec<(&'static str, Value, Value)> = Vec::new();
    for (field, length) in TEXTS {
        // of an amount of characters, not of bytes; it is kept as it came
        let text = format!(" č{}", "x".repeat(length - 2));
        fields.push((*field, json!(text), json!(text)));
    }
    let same = |field: &'static str, value: Value| (field, value.clone(), value);
    fields.extend([
        ("billingZip", json!(11_000), json!("11000")),
        ("deliveryZip", json!(0), json!("0")),
        ("billingRegistrationNumber", json!(12_345_678.0), json!("12345678")),
        ("value", json!("1234.5600"), json!(1234.56)),
        ("codValue", json!("0"), json!(0)),
        ("deliveryCost", json!(1_000_000), json!(1_000_000)),
        same("codCurrency", json!("CZK")),
        same("deliveryCostCurrency", json!("CZK")),
        same("cod", json!(true)),
        same("codVariableSymbol", json!("12345678901234567890")),
        same("differentDeliveryAddress", json!(true)),
        same("billingCountry", json!("CZ")),
        same("deliveryCountry", json!("SK")),
        same("billingEmail", json!("ann@example.com")),
        same("deliveryEmail", json!("bob@example.com")),
        same("carrierPickupPlace", json!(Uuid::from_u128(1))),
        same("externalCarrierPickupPlace", json!(Uuid::from_u128(2))),
        same("partner", json!(Uuid::from_u128(3))),
        // kept as they came, duplicates too
        same("services", json!([Uuid::from_u128(5), Uuid::from_u128(4), Uuid::from_u128(5)])),
        same("requiredExpeditionDate", json!("2026-05-31")),
        ("eshopOrderDate", json!("2026-05-31T12:00:00+02:00"), json!("2026-05-31T10:00:00.000000+00:00")),
        same("priority", json!(1_000)),
        same("packagesCount", json!(999)),
        same("waitBeforeProcessing", json!(true)),
        same("editBeforeProcessing", json!(false)),
        same("ignoreAddressValidation", json!(true)),
        same("fragile", json!(true)),
        same("b2b", json!(true)),
        same("externalId", json!("shop/1")),
        same("carrier", json!(world.carrier)),
        same("carrierService", json!(world.service)),
        (
            "carrierOptions",
            json!([{"recipientIdentificationNumber": "9"}]),
            json!({"recipientIdentificationNumber": "9"}),
        ),
        // taken, and filled in by the service
        ("removedVirtualProducts", json!([{"productId": "x", "quantity": 1}]), json!([])),
    ]);
    fields
}

#[tokio::test]
async fn every_field_comes_back_as_it_was_given_and_null_clears_it() {
    let world = World::new(&strangers().await).await;
    let fields = every_field(&world);
    let given: Map<_, _> =
        fields.iter().map(|(name, given, _)| ((*name).to_owned(), given.clone())).collect();
    let item = json!({
        "product": world.mug, "quantity": 1_000_000, "productValue": "9.9900", "productValueCurrency": "EUR",
        "productLabel": "l", "lot": "7", "ref1": "a", "ref2": "b", "ref3": "c", "lifo": "true", "book": 1, "bookLimit": 0,
        "bookStockAdvices": [{"stockAdviceItem": Uuid::nil(), "quantity": 1, "expeditionItem": "any"}],
        "expedition": "any", "booked": 7, "id": "any",
    });
    let plain = json!({"productSku": "LAMP", "quantity": 2, "lifo": "false"});
    let mut body = world.order_with("#A-z_0/9.1", &Value::Object(given));
    body["items"] = json!([item, plain]);
    let order = world.made(body).await;
    let shown: Map<_, _> =
        fields.iter().map(|(name, _, shown)| ((*name).to_owned(), shown.clone())).collect();
    for (name, expected) in &shown {
        assert_eq!(&order[name], expected, "{name}");
    }
    let tenant = &world.api.tenant;
    let items = order["items"].as_array().unwrap();
    let expected = json!([
        {
            "id": items[0]["id"], "expedition": order["id"], "position": 0, "product": world.mug, "productSku": "MUG",
            "quantity": 1_000_000, "booked": 0, "missing": null, "expedited": null, "productValue": 9.99,
            "productValueCurrency": "EUR", "productLabel": "l", "lot": "7", "lifo": true, "ref1": "a", "ref2": "b",
            "ref3": "c", "book": 1, "bookLimit": 0,
            "bookStockAdvices": [{"stockAdviceItem": Uuid::nil(), "quantity": 1}],
            "assignedLot": null, "serialNumbers": [], "bundle": null, "createdAt": order["createdAt"],
            "changedAt": items[0]["changedAt"],
        },
        {
            "id": items[1]["id"], "expedition": order["id"], "position": 1, "product": world.lamp, "productSku": "LAMP",
            "quantity": 2, "booked": 0, "missing": null, "expedited": null, "productValue": null,
            "productValueCurrency": null, "productLabel": null, "lot": null, "lifo": false, "ref1": null, "ref2": null,
            "ref3": null, "book": null, "bookLimit": null, "bookStockAdvices": null, "assignedLot": null,
            "serialNumbers": [], "bundle": null, "createdAt": order["createdAt"], "changedAt": items[1]["changedAt"],
        },
    ]);
    assert_eq!(order["items"], expected);
    for (name, expected) in [
        ("organisation", json!(tenant.organisation)),
        ("eshop", json!(tenant.eshop)),
        ("warehouse", json!(tenant.warehouse)),
        ("wms", json!(tenant.wms)),
        ("orderNumber", json!("#A-z_0/9.1")),
        ("status", json!("on_hold")),
        ("errors", Value::Null),
        ("expeditedCompletely", Value::Null),
        ("addressValidationExecuted", json!(false)),
        ("countOfItems", json!(2)),
        ("countOfSku", json!(2)),
        ("sumOfQuantity", json!(1_000_002)),
        ("packedAt", Value::Null),
        ("sentAt", Value::Null),
        ("deliveredAt", Value::Null),
        ("version", json!(1)),
        ("reservationPaused", json!(false)),
        ("waitsFor", Value::Null),
        ("parcels", json!([])),
        ("bundles", json!([])),
        ("user", Value::Null),
        ("withComplaint", json!(false)),
        ("invoice", Value::Null),
    ] {
        assert_eq!(order[name], expected, "{name}");
    }
    assert_eq!(order["modifiedAt"], order["createdAt"]);
    let audits = order["audits"].as_array().unwrap();
    assert_eq!(audits.len(), 1);
    assert_eq!(
        (&audits[0]["statusTo"], &audits[0]["updatedBy"]),
        (&json!("on_hold"), &json!("user of a test"))
    );

    // the record that was read changes nothing when it is sent back, whole or as it was listed
    let again = world.act(&order, "", order.clone()).await.expect(200).json();
    assert_eq!(again, order);

    let nullable = |name: &str| {
        ![
            "value",
            "cod",
            "differentDeliveryAddress",
            "ignoreAddressValidation",
            "fragile",
            "services",
            "removedVirtualProducts",
        ]
        .contains(&name)
    };
    let nulls: Map<_, _> =
        shown.keys().filter(|name| nullable(name)).map(|n| (n.clone(), Value::Null)).collect();
    let mut cleared = nulls.clone();
    // with a value, its currency is that of the order
    cleared["priority"] = json!(0);
    let now = world.act(&order, "", Value::Object(nulls.clone())).await.expect(200).json();
    for (name, expected) in &cleared {
        assert_eq!(&now[name], expected, "{name}");
    }
    assert_eq!(now["version"], 2);
    // again, it is so already
    assert_eq!(world.act(&order, "", Value::Object(nulls)).await.expect(200).json(), now);
}

#[tokio::test]
async fn the_currency_of_a_payment_on_delivery_is_by_default_that_of_the_order() {
    let world = World::new(&strangers().await).await;
    let order = world.made(world.order_with("1", &json!({"cod": true, "codValue": 5}))).await;
    assert_eq!(
        (&order["codCurrency"], &order["b2b"], &order["priority"]),
        (&json!("EUR"), &json!(false), &json!(0))
    );
    let order = world.made(world.order_with("2", &json!({"b2b": null, "priority": null}))).await;
    assert_eq!(
        (&order["codCurrency"], &order["b2b"], &order["priority"]),
        (&Value::Null, &Value::Null, &json!(0))
    );
}

#[tokio::test]
async fn a_delivery_address_is_the_billing_one_unless_it_differs() {
    let world = World::new(&strangers().await).await;
    let of = |order: &Value| {
        let text = |name: &str| order[name].as_str().unwrap_or("-").to_owned();
        (order["differentDeliveryAddress"] == true, text("deliveryCity"), text("deliveryLastName"))
    };
    let followed = (false, "Bristol".to_owned(), "Byron".to_owned());
    for (number, (members, expected)) in [
        (json!({}), followed.clone()),
        // what is given is the same: it is no other address
        (json!({"deliveryCity": "Bristol"}), followed.clone()),
        (json!({"deliveryCity": "Bristol", "deliveryPhone": null}), followed.clone()),
        (json!({"deliveryCity": "Bath"}), (true, "Bath".to_owned(), "-".to_owned())),
        // also if it was given
        (json!({"deliveryCity": "Bath", "differentDeliveryAddress": false}), followed.clone()),
        (json!({"differentDeliveryAddress": true}), (true, "-".to_owned(), "-".to_owned())),
    ]
    .into_iter()
    .enumerate()
    {
        let order = world.made(world.order_with(&number.to_string(), &members)).await;
        assert_eq!(of(&order), expected, "{members}");
    }
    let order = world.made(world.order("x", &world.mug)).await;
    let put = async |body: Value| of(&world.act(&order, "", body).await.expect(200).json());
    // null says nothing of another address
    assert_eq!(put(json!({"deliveryCity": null, "deliveryStreet": null})).await, followed);
    assert_eq!(put(json!({"billingCity": "Wells"})).await, (false, "Wells".to_owned(), "Byron".to_owned()));
    assert_eq!(put(json!({"deliveryCity": "Bath"})).await, (true, "Bath".to_owned(), "Byron".to_owned()));
    assert_eq!(put(json!({"billingCity": "Bristol"})).await, (true, "Bath".to_owned(), "Byron".to_owned()));
    assert_eq!(
        put(json!({"deliveryCity": "Bristol"})).await,
        (false, "Bristol".to_owned(), "Byron".to_owned())
    );
    assert_eq!(
        put(json!({"differentDeliveryAddress": true})).await,
        (true, "Bristol".to_owned(), "Byron".to_owned())
    );
    assert_eq!(put(json!({"deliveryLastName": null})).await, (true, "Bristol".to_owned(), "-".to_owned()));
    assert_eq!(put(json!({"differentDeliveryAddress": false})).await, followed);
}
