//! Each rule of the product table, on both sides of its bounds, for creates and updates.

use crate::product::MIGRATIONS;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{World, id};
use crate::support::strangers;

fn characters(count: usize) -> Value {
    json!("ü".repeat(count))
}

/// Valid values of fields, up to their bounds; each is returned unchanged.
fn taken() -> Vec<(&'static str, Value)> {
    let mut cases = vec![
        ("productSku", json!("x")),
        ("productSku", json!(" Padded and Cased ")),
        ("productSku", characters(255)),
        ("internalSku", json!("x")),
        ("internalSku", characters(255)),
        ("name", json!("ab")),
        ("name", characters(255)),
        ("description", json!("ab")),
        ("description", characters(255)),
        ("weight", json!(0)),
        ("weight", json!(10_000_000)),
        ("referenceNumbers", json!([])),
        ("referenceNumbers", json!(["2", "1", "2"])),
        ("referenceNumbers", json!(vec![characters(255); 100])),
        ("packagingType", json!("A")),
        ("packagingType", json!("PALLET")),
        ("countryOfOrigin", json!("CZ")),
        ("hsCode", json!("")),
        ("hsCode", characters(25)),
        ("type", json!("virtual")),
        ("type", json!("physical")),
        ("category", json!("dangerous_substances")),
        ("productGroup", json!(Uuid::max())),
    ];
    for side in ["height", "width", "length"] {
        cases.extend([(side, json!(0)), (side, json!(20_000))]);
    }
    for flag in FLAGS {
        cases.extend([(flag, json!(true)), (flag, json!(false))]);
    }
    for nullable in NULLABLE {
        cases.push((nullable, Value::Null));
    }
    cases
}

const FLAGS: [&str; 6] = [
    "imeiCheckRequired",
    "workAroundSnIn",
    "workAroundEanSticker",
    "workAroundWarrantyInf",
    "workAroundLot",
    "active",
];

const NULLABLE: [&str; 10] = [
    "description",
    "weight",
    "height",
    "width",
    "length",
    "countryOfOrigin",
    "hsCode",
    "productGroup",
    "category",
    "childrenProducts",
];

const NEVER_NULL: [&str; 13] = [
    "organisation",
    "eshops",
    "productSku",
    "internalSku",
    "name",
    "referenceNumbers",
    "packagingType",
    "imeiCheckRequired",
    "workAroundSnIn",
    "workAroundEanSticker",
    "workAroundWarrantyInf",
    "workAroundLot",
    "active",
];

/// Invalid values of fields, and the one violation of each.
fn refused() -> Vec<(&'static str, Value, String)> {
    let mut cases = Vec::new();
    let mut refuse =
        |field: &'static str, value: Value, code: &str| cases.push((field, value, format!("{field} {code}")));
    for text in ["productSku", "internalSku", "packagingType", "name"] {
        refuse(text, json!(""), "invalid_length");
        refuse(text, characters(256), "invalid_length");
        refuse(text, json!("a\0b"), "invalid_character");
        refuse(text, json!(7), "wrong_type");
    }
    refuse("name", json!("ä"), "invalid_length");
    refuse("description", json!("ä"), "invalid_length");
    refuse("description", json!(""), "invalid_length");
    refuse("description", characters(256), "invalid_length");
    refuse("description", json!("a\0"), "invalid_character");
    refuse("description", json!(["ab"]), "wrong_type");
    for (size, past) in
        [("weight", 10_000_001_i64), ("height", 20_001), ("width", 20_001), ("length", 20_001)]
    {
        refuse(size, json!(-1), "out_of_range");
        refuse(size, json!(past), "out_of_range");
        refuse(size, json!(u64::MAX), "out_of_range");
        refuse(size, json!(1.5), "wrong_type");
        refuse(size, json!("1"), "wrong_type");
    }
    for flag in FLAGS {
        refuse(flag, json!("true"), "wrong_type");
        refuse(flag, json!(1), "wrong_type");
    }
    for field in NEVER_NULL {
        refuse(field, Value::Null, "wrong_type");
    }
    refuse("packagingType", json!("a"), "unknown_reference");
    refuse("referenceNumbers", json!(vec!["x"; 101]), "invalid_count");
    refuse("referenceNumbers", json!("1"), "wrong_type");
    refuse("countryOfOrigin", json!("C"), "invalid_length");
    refuse("countryOfOrigin", json!("CZE"), "invalid_length");
    refuse("countryOfOrigin", json!("cz"), "unknown_country");
    refuse("countryOfOrigin", json!("XX"), "unknown_country");
    refuse("countryOfOrigin", json!(42), "wrong_type");
    refuse("hsCode", characters(26), "invalid_length");
    refuse("hsCode", json!(6_109), "wrong_type");
    refuse("type", json!("Physical"), "not_allowed");
    refuse("type", json!(""), "not_allowed");
    refuse("type", characters(33), "not_allowed");
    refuse("type", json!(true), "wrong_type");
    refuse("category", json!("fragile"), "not_allowed");
    refuse("category", json!(1), "wrong_type");
    refuse("productGroup", json!("group"), "invalid_id");
    refuse("productGroup", json!(1), "wrong_type");
    refuse("organisation", json!("mine"), "invalid_id");
    refuse("eshops", json!([]), "invalid_count");
    refuse("eshops", json!(vec![Uuid::nil(); 1_001]), "invalid_count");
    refuse("eshops", json!("all"), "wrong_type");
    refuse("childrenProducts", json!({}), "wrong_type");
    refuse("childrenProducts", json!(vec![json!({}); 1_001]), "invalid_count");
    refuse("colour", json!("red"), "unknown_field");
    refuse("id", json!(Uuid::nil()), "read_only");
    // violations with another path than the field
    for (field, value, violation) in [
        ("type", json!("bundle"), "childrenProducts required"),
        (
            "eshops",
            json!([Uuid::nil(), "x", 1]),
            "eshops[1] invalid_id|eshops[2] wrong_type|eshops[0] unknown_reference",
        ),
        ("eshops", json!([Uuid::nil()]), "eshops[0] unknown_reference"),
        ("referenceNumbers", json!(["1", "", characters(256), null]), REFERENCE_NUMBERS),
    ] {
        cases.push((field, value, violation.to_owned()));
    }
    cases
}

const REFERENCE_NUMBERS: &str =
    "referenceNumbers[1] invalid_length|referenceNumbers[2] invalid_length|referenceNumbers[3] wrong_type";

async fn pallets(world: &World) {
    world
        .execute("INSERT INTO packaging_option (id, code, name) VALUES (uuid_v7(), 'PALLET', 'A pallet')")
        .await;
}

#[tokio::test]
async fn every_value_within_the_bounds_is_accepted_and_returned_unchanged() {
    let world = World::new(&strangers().await).await;
    pallets(&world).await;
    let kept = world.add("kept", json!({})).await;
    for (n, (field, value)) in taken().into_iter().enumerate() {
        let made = world.create(&format!("S{n}"), json!({field: value})).await;
        assert_eq!(made[field], value, "{field}");
        world.put(&id(&made), json!({"productSku": format!("T{n}")})).await.expect(200);
        let updated = world.put(&kept, json!({field: value})).await.expect(200).json();
        assert_eq!(updated[field], value, "{field}");
        assert_eq!(world.get(&kept).await[field], value, "{field}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn every_value_outside_the_bounds_is_refused_with_its_path(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let kept = world.add("kept", json!({})).await;
    let before = world.get(&kept).await;
    for (field, value, violation) in refused() {
        let reply = world.post(world.body_with("new", &json!({field: value}))).await;
        assert_eq!(reply.status.as_u16(), 400, "{field} {value}: {}", reply.text);
        assert_eq!(reply.json()["code"], "invalid_data");
        assert_eq!(reply.violations().join("|"), violation, "create with {field} {value}");
        let reply = world.put(&kept, json!({field: value})).await;
        assert_eq!(reply.status.as_u16(), 400, "{field} {value}: {}", reply.text);
        assert_eq!(reply.violations().join("|"), violation, "update with {field} {value}");
    }
    assert_eq!(world.get(&kept).await, before);
    assert_eq!(world.traces().await, [1, 0, 0]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn all_violations_of_a_body_are_reported_at_once(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    world.add("taken", json!({})).await;
    let body = json!({
        "organisation": world.api.tenant.organisation,
        "eshops": [world.api.tenant.eshop, Uuid::nil()],
        "productSku": "taken",
        "name": "x",
        "weight": -1,
        "packagingType": "NONE",
        "active": "yes",
        "type": "bundle",
        "childrenProducts": [{"productId": Uuid::nil(), "quantity": 1}],
        "colour": "red",
    });
    let reply = world.post(body).await.expect(400);
    assert_eq!(reply.json()["detail"], "internalSku is required, and 9 more");
    assert_eq!(
        reply.violations(),
        [
            "internalSku required",
            "name invalid_length",
            "weight out_of_range",
            "imeiCheckRequired required",
            "active wrong_type",
            "colour unknown_field",
            "eshops[1] unknown_reference",
            "childrenProducts[0].productId unknown_reference",
            "packagingType unknown_reference",
            "productSku already_taken",
        ]
    );
}

#[tokio::test]
async fn fields_without_a_default_are_required() {
    let world = World::new(&strangers().await).await;
    let mut violations = world.post(json!({})).await.expect(400).violations();
    violations.sort();
    assert_eq!(
        violations,
        [
            "active required",
            "eshops required",
            "imeiCheckRequired required",
            "internalSku required",
            "name required",
            "organisation required",
            "productSku required",
        ]
    );
    for body in [json!([]), json!("product"), json!(1)] {
        assert_eq!(world.post(body).await.expect(400).violations(), [" wrong_type"]);
    }
}

/// A bundle of these children.
fn bundle(children: &Value) -> Value {
    json!({"type": "bundle", "childrenProducts": children})
}

#[tokio::test]
async fn only_a_bundle_has_children_which_are_physical_and_of_its_organisation() {
    let world = World::new(&strangers().await).await;
    let rope = world.add("rope", json!({})).await;
    let voucher = world.add("voucher", json!({"type": "virtual"})).await;
    let child = |id: &str, quantity: i64| json!({"productId": id, "quantity": quantity});
    for quantity in [1, 1_000_000] {
        let children = json!([child(&rope, quantity)]);
        let made = world.create(&format!("bundle of {quantity}"), bundle(&children)).await;
        assert_eq!((&made["type"], &made["childrenProducts"]), (&json!("bundle"), &children));
    }
    let set = world.add("set", bundle(&json!([child(&rope, 1)]))).await;
    let (_, theirs) = world.stranger().await;
    let first = "childrenProducts[0]";
    for (children, expected) in [
        (Value::Null, "childrenProducts required".to_owned()),
        (json!([]), "childrenProducts required".to_owned()),
        (json!([child(&rope, 0)]), format!("{first}.quantity out_of_range")),
        (json!([child(&rope, 1_000_001)]), format!("{first}.quantity out_of_range")),
        (json!([{"productId": rope}]), format!("{first}.quantity required")),
        (json!([{"quantity": 1}]), format!("{first}.productId required")),
        (
            json!([{"productId": "rope", "quantity": "1"}]),
            format!("{first}.productId invalid_id|{first}.quantity wrong_type"),
        ),
        (json!([{"productId": rope, "quantity": 1, "unit": "m"}]), format!("{first}.unit unknown_field")),
        (json!([null]), format!("{first} wrong_type")),
        (json!([child(&rope, 1), child(&rope, 2)]), "childrenProducts[1].productId duplicate".to_owned()),
        (json!([child(&voucher, 1)]), format!("{first}.productId not_allowed")),
        (json!([child(&set, 1)]), format!("{first}.productId not_allowed")),
        (json!([child(&theirs, 1)]), format!("{first}.productId unknown_reference")),
        // a malformed one hides nothing of the others
        (
            json!([child(&theirs, 0), null, child(&voucher, 1), child("x", 1), child("y", 1)]),
            format!(
                "{first}.quantity out_of_range|childrenProducts[1] wrong_type|childrenProducts[3].productId invalid_id\
                 |childrenProducts[4].productId invalid_id|{first}.productId unknown_reference\
                 |childrenProducts[2].productId not_allowed"
            ),
        ),
        (
            json!([child(&rope, 1), child(&Uuid::nil().to_string(), 1)]),
            "childrenProducts[1].productId unknown_reference".to_owned(),
        ),
    ] {
        let reply = world.post(world.body_with("new", &bundle(&children))).await.expect(400);
        assert_eq!(reply.violations().join("|"), expected, "{children}");
    }
    for kind in [json!("physical"), json!("virtual"), Value::Null] {
        let members = json!({"type": kind, "childrenProducts": [child(&rope, 1)]});
        let reply = world.post(world.body_with("new", &members)).await.expect(400);
        assert_eq!(reply.violations(), ["childrenProducts not_allowed"], "{kind}");
    }
}
