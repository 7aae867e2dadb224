//! Choosing a carrier for an order that is sent without one (`docs/reference/orders.md#choice-of-a-carrier`).

use crate::product::MIGRATIONS;
use http::Method;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{PATH, World, path};
use crate::support::strangers;

impl World {
    /// Another carrier, of the organisation.
    async fn carrier(&self, code: i32, members: &Value) -> String {
        let mut body =
            json!({"name": "Gulls", "code": code, "organisations": [self.api.tenant.organisation]});
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let made = self.api.post(&self.api.superadmin, "/api/carrier", body).await.expect(201).json();
        made["id"].as_str().unwrap().to_owned()
    }

    /// A preference of the organisation, with further members.
    async fn prefer(&self, carrier: &str, position: i32, members: &Value) -> Value {
        let mut body =
            json!({"organisation": self.api.tenant.organisation, "carrier": carrier, "position": position});
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        self.api.post(&self.api.user, "/api/carrier-preference", body).await.expect(201).json()
    }

    async fn change(&self, preference: &Value, change: Value) {
        let path = format!("/api/carrier-preference/{}", preference["id"].as_str().unwrap());
        self.api.put(&self.api.user, &path, change).await.expect(200);
    }

    /// The carrier of an order that is created and sent without one, with further members; null where none was chosen.
    async fn chosen(&self, number: &str, members: Value) -> Value {
        let mut without = json!({"carrier": null});
        without.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let order = self.sent(number, &without).await;
        let is_chosen = !order["carrier"].is_null();
        assert_eq!(order["carrierChoice"].is_null(), !is_chosen, "{order}");
        assert_eq!(order["status"], if is_chosen { "awaiting_processing" } else { "incorrect" });
        if !is_chosen {
            assert_eq!(
                (&order["errors"][0]["propertyPath"], &order["errors"][0]["code"]),
                (&json!("carrier"), &json!("no_carrier"))
            );
        }
        order["carrier"].clone()
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_first_preference_that_can_be_used_is_that_of_the_eshop_then_that_of_the_organisation(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    assert_eq!(world.chosen("0", json!({})).await, Value::Null);
    let of_all = world.prefer(&world.carrier, 0, &json!({"carrierService": world.service})).await;
    let order = world.sent("1", &json!({"carrier": null})).await;
    assert_eq!((&order["carrier"], &order["carrierService"]), (&json!(world.carrier), &json!(world.service)));
    assert_eq!(order["carrierChoice"]["preference"], of_all["id"]);
    assert!(order["carrierChoice"]["at"].as_str().unwrap() <= order["changedAt"].as_str().unwrap());
    assert_eq!(world.read(&order).await, order);

    let [own, later] = [world.carrier(21, &json!({})).await, world.carrier(22, &json!({})).await];
    let of_eshop = json!({"eshop": world.api.tenant.eshop});
    let second = world.prefer(&later, 6, &of_eshop).await;
    assert_eq!(world.chosen("2", json!({})).await, json!(later));
    let first = world.prefer(&own, 5, &of_eshop).await;
    assert_eq!(world.chosen("3", json!({})).await, json!(own));
    // what is not active, not attached, or serves another country, is passed over
    world.change(&first, json!({"active": false})).await;
    assert_eq!(world.chosen("4", json!({})).await, json!(later));
    world.change(&first, json!({"active": true})).await;
    let carrier = format!("/api/carrier/{own}");
    for (number, put, expected) in [
        ("5", json!({"countriesOfOperation": ["CZ"]}), &later),
        ("6", json!({"countriesOfOperation": ["CZ", "GB"]}), &own),
        ("7", json!({"active": false}), &later),
        ("8", json!({"active": true, "organisations": []}), &later),
    ] {
        world.api.put(&world.api.superadmin, &carrier, put).await.expect(200);
        assert_eq!(world.chosen(number, json!({})).await, json!(expected), "{number}");
    }
    // a preference that is gone is not named by orders to come
    for preference in [&second, &first] {
        let path = format!("/api/carrier-preference/{}", preference["id"].as_str().unwrap());
        world.api.delete(&world.api.user, &path).await.expect(204);
    }
    assert_eq!(world.chosen("9", json!({})).await, json!(world.carrier));
    // a carrier in the body is never replaced
    let named = world.sent("10", &json!({"carrier": later})).await;
    assert_eq!((&named["carrier"], &named["carrierChoice"]), (&json!(later), &Value::Null));
    let listed = json!({"criteria": {"carrierChoice.preference": {"eq": of_all["id"]}}, "sort": [{"field": "orderNumber"}]});
    let listed = world.api.post(&world.api.user, &format!("{PATH}/list"), listed).await.expect(200).json();
    let numbers: Vec<_> = listed["results"].as_array().unwrap().iter().map(|r| &r["orderNumber"]).collect();
    assert_eq!(numbers, ["1", "9"]);
    assert_eq!(listed["results"][0]["carrierChoice"], order["carrierChoice"]);
    world.must_hold().await;
}

#[tokio::test]
async fn each_condition_holds_on_its_own_side_of_its_bound() {
    let world = World::new(&strangers().await).await;
    let light = world.add("LIGHT", json!({"weight": 250})).await;
    world.stock_up(&light, 1_000).await;
    let preference = world.prefer(&world.carrier, 0, &json!({})).await;
    let items =
        |count: i64| json!([{"product": light, "quantity": count}, {"product": light, "quantity": 1}]);
    let cases = [
        (json!({"countries": ["GB", "IE"]}), json!({}), json!({"billingCountry": "CZ"})),
        (
            json!({"countries": ["GB"]}),
            json!({}),
            json!({"billingCountry": null, "ignoreAddressValidation": true}),
        ),
        (
            json!({"deliveryMethods": ["express", "box"]}),
            json!({"deliveryMethod": "box"}),
            json!({"deliveryMethod": "Box"}),
        ),
        (json!({"deliveryMethods": ["box"]}), json!({"deliveryMethod": "box"}), json!({})),
        // 250 g times 4, and times 3
        (json!({"minWeight": 1_000}), json!({"items": items(3)}), json!({"items": items(2)})),
        (json!({"maxWeight": 1_000}), json!({"items": items(3)}), json!({"items": items(4)})),
        // the weight of a mug is unknown
        (
            json!({"minWeight": 0}),
            json!({"items": items(1)}),
            json!({"items": [{"product": light, "quantity": 1}, {"product": world.mug, "quantity": 1}]}),
        ),
        (json!({"maxWeight": 1_000_000}), json!({"items": items(1)}), json!({})),
        (json!({"minValue": 10.5, "currency": "EUR"}), json!({"value": 10.5}), json!({"value": 10.4999})),
        (json!({"maxValue": 10.5, "currency": "EUR"}), json!({"value": 10.5}), json!({"value": 10.5001})),
        (
            json!({"maxValue": 10.5, "currency": "EUR"}),
            json!({"value": 1}),
            json!({"value": 1, "currency": "CZK"}),
        ),
        (json!({"currency": "CZK"}), json!({"currency": "CZK"}), json!({})),
        (json!({"cod": true}), json!({"cod": true, "codValue": 1}), json!({})),
        (json!({"cod": false}), json!({}), json!({"cod": true, "codValue": 1})),
        (json!({"b2b": true}), json!({"b2b": true}), json!({"b2b": null})),
        (json!({"b2b": false}), json!({"b2b": null}), json!({"b2b": true})),
        (json!({"pickupPlace": true}), json!({"externalCarrierPickupPlaceCode": "B7"}), json!({})),
        (json!({"pickupPlace": false}), json!({}), json!({"carrierPickupPlaceCode": "B7"})),
        // all of them must hold
        (
            json!({"cod": false, "b2b": true}),
            json!({"b2b": true}),
            json!({"b2b": true, "cod": true, "codValue": 1}),
        ),
    ];
    for (number, (conditions, holds, fails)) in cases.into_iter().enumerate() {
        world.change(&preference, json!({"conditions": conditions})).await;
        assert_eq!(world.chosen(&format!("{number}-yes"), holds).await, json!(world.carrier), "{conditions}");
        assert_eq!(world.chosen(&format!("{number}-no"), fails).await, Value::Null, "{conditions}");
    }
    world.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_choice_ends_with_a_rollback_and_is_made_anew_by_each_sending(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let preference = world.prefer(&world.carrier, 0, &json!({})).await;
    let held =
        world.made(world.order_with("1", &json!({"carrier": null, "waitBeforeProcessing": true}))).await;
    assert_eq!(
        (&held["carrier"], &held["carrierChoice"]),
        (&Value::Null, &Value::Null),
        "only sending chooses"
    );
    let sent = world.act(&held, "send", Value::Null).await.expect(200).json();
    assert_eq!((&sent["status"], &sent["carrier"]), (&json!("stock_ok"), &json!(world.carrier)));
    assert_eq!(sent["version"], 2);
    // booked again, it is shipped by the same
    let other = world.carrier(21, &json!({})).await;
    world.change(&preference, json!({"carrier": other})).await;
    world.on(Method::PATCH, &sent, "unbook", Value::Null).await.expect(200);
    let rebooked = world.on(Method::PATCH, &sent, "rebook", Value::Null).await.expect(200).json();
    assert_eq!(rebooked["carrierChoice"], sent["carrierChoice"]);
    // held, it has no carrier; sent again, the one that applies now
    let back = world.act(&sent, "rollback", Value::Null).await.expect(200).json();
    assert_eq!(
        (&back["carrier"], &back["carrierService"], &back["carrierChoice"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    let again = world.act(&sent, "send", Value::Null).await.expect(200).json();
    assert_eq!(again["carrier"], json!(other));
    // a cancelled one keeps it
    let cancelled = world.act(&sent, "cancel", Value::Null).await.expect(200).json();
    assert_eq!(
        (&cancelled["status"], &cancelled["carrierChoice"]),
        (&json!("canceled"), &again["carrierChoice"])
    );

    let audit = json!({"criteria": {"entity.id": {"eq": sent["id"]}}, "limit": 100});
    let audit = world.api.post(&world.api.superadmin, "/api/audit", audit).await.expect(200).json();
    let changes: Vec<_> =
        audit["results"].as_array().unwrap().iter().map(|r| (&r["action"], &r["changes"])).collect();
    let of = |action: &str| changes.iter().find(|(a, _)| *a == action).unwrap().1;
    assert_eq!(of("expedition.send")["carrier"], json!([null, world.carrier]));
    assert_eq!(of("expedition.send")["carrierChoice"][1]["preference"], preference["id"]);
    assert_eq!(of("expedition.hold")["carrier"], json!([world.carrier, null]));
    world.must_hold().await;
}

#[tokio::test]
async fn a_body_makes_a_carrier_its_own_and_a_record_that_is_sent_back_does_not() {
    let world = World::new(&strangers().await).await;
    let other = world.carrier(21, &json!({})).await;
    world.prefer(&other, 0, &json!({"conditions": {"countries": ["CZ"]}})).await;
    world.prefer(&world.carrier, 1, &json!({})).await;
    // incorrect for another reason, so that it can be changed with its choice
    let incorrect =
        |number: &str| world.order_with(number, &json!({"carrier": null, "billingZip": null, "send": true}));
    let order = world.made(incorrect("1")).await;
    assert_eq!((&order["status"], &order["carrier"]), (&json!("incorrect"), &json!(world.carrier)));
    assert_eq!(order["errors"].as_array().unwrap().len(), 1);
    // changed as it was read: chosen anew
    let mut body = order.clone();
    (body["billingCountry"], body["billingZip"]) = (json!("CZ"), json!("1"));
    (body["deliveryCountry"], body["deliveryZip"]) = (json!("CZ"), json!("1"));
    let changed = world.act(&order, "", body).await.expect(200).json();
    assert_eq!(changed["carrierChoice"], order["carrierChoice"]);
    let sent = world.act(&order, "send", Value::Null).await.expect(200).json();
    assert_eq!((&sent["status"], &sent["carrier"]), (&json!("awaiting_processing"), &json!(other)));

    for (number, put, expected) in [
        ("2", json!({"carrier": world.carrier, "billingCountry": "CZ", "billingZip": "1"}), &world.carrier),
        (
            "3",
            json!({"carrierService": world.service, "billingCountry": "CZ", "billingZip": "1"}),
            &world.carrier,
        ),
        ("4", json!({"carrier": null, "billingCountry": "CZ", "billingZip": "1"}), &other),
    ] {
        let order = world.made(incorrect(number)).await;
        let changed = world.act(&order, "", put).await.expect(200).json();
        assert_eq!(changed["carrierChoice"], Value::Null, "{number}");
        assert_eq!(changed["version"], 2);
        let sent = world.act(&order, "send", Value::Null).await.expect(200).json();
        assert_eq!(
            (&sent["status"], &sent["carrier"]),
            (&json!("awaiting_processing"), &json!(expected)),
            "{number}"
        );
        assert_eq!(sent["carrierChoice"].is_null(), expected == &world.carrier);
    }
    // references are no reason to choose anew
    let order = world.made(incorrect("5")).await;
    let patched = world.on(Method::PATCH, &order, "", json!({"ref1": "x"})).await.expect(200).json();
    assert_eq!(patched["carrierChoice"], order["carrierChoice"]);
    // another choice is a change, even where the order stays as incorrect as it was
    world.act(&order, "", json!({"billingCountry": "CZ"})).await.expect(200);
    let sent = world.act(&order, "send", Value::Null).await.expect(200).json();
    assert_eq!(
        (&sent["status"], &sent["carrier"], &sent["errors"]),
        (&json!("incorrect"), &json!(other), &order["errors"])
    );
    assert_eq!(sent["version"], 4);
    // and where nothing holds any more, it has none
    let listed =
        world.api.post(&world.api.user, "/api/carrier-preference/list", Value::Null).await.expect(200).json();
    for preference in listed["results"].as_array().unwrap() {
        world.change(preference, json!({"active": false})).await;
    }
    let sent = world.act(&order, "send", Value::Null).await.expect(200).json();
    let codes: Vec<_> = sent["errors"].as_array().unwrap().iter().map(|error| &error["code"]).collect();
    assert_eq!(
        (codes, &sent["carrier"], &sent["carrierChoice"]),
        (vec![&json!("required"), &json!("no_carrier")], &Value::Null, &Value::Null)
    );
    world.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_given_carrier_that_does_not_serve_the_country_is_incorrect(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let abroad = world.carrier(21, &json!({"countriesOfOperation": ["CZ", "SK"]})).await;
    world.prefer(&world.carrier, 0, &json!({})).await;
    let order = world.sent("1", &json!({"carrier": abroad})).await;
    assert_eq!((&order["status"], &order["carrier"]), (&json!("incorrect"), &json!(abroad)));
    let error = &order["errors"][0];
    assert_eq!((&error["propertyPath"], &error["code"]), (&json!("carrier"), &json!("not_served")));
    assert_eq!(error["parameters"]["{{ value }}"], json!(abroad));
    let put = json!({"deliveryCountry": "SK", "deliveryLastName": "Byron", "deliveryStreet": "Quay", "deliveryCity": "X", "deliveryZip": "1"});
    world.act(&order, "", put).await.expect(200);
    let sent = world.act(&order, "send", Value::Null).await.expect(200).json();
    assert_eq!(sent["status"], "awaiting_processing");
    // of an order that was stored before, the list of today counts
    let held = world.act(&sent, "rollback", Value::Null).await.expect(200).json();
    assert_eq!(held["carrier"], json!(abroad), "a given carrier is not forgotten");
    let carrier = format!("/api/carrier/{abroad}");
    world.api.put(&world.api.superadmin, &carrier, json!({"countriesOfOperation": ["CZ"]})).await.expect(200);
    let sent = world.act(&order, "send", Value::Null).await.expect(200).json();
    assert_eq!(sent["errors"][0]["code"], "not_served");
    world.api.put(&world.api.superadmin, &carrier, json!({"countriesOfOperation": []})).await.expect(200);
    let sent = world.act(&order, "send", Value::Null).await.expect(200).json();
    assert_eq!(sent["status"], "awaiting_processing");
    // without a country, there is none that is not served
    let anywhere = json!({"carrier": abroad, "billingCountry": null, "ignoreAddressValidation": true});
    world.api.put(&world.api.superadmin, &carrier, json!({"countriesOfOperation": ["CZ"]})).await.expect(200);
    assert_eq!(world.sent("2", &anywhere).await["status"], "awaiting_processing");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn orders_that_are_sent_at_once_each_get_their_own_carrier(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let other = world.carrier(21, &json!({})).await;
    world.prefer(&other, 0, &json!({"conditions": {"cod": true}})).await;
    world.prefer(&world.carrier, 1, &json!({})).await;
    let bodies = (0..30).map(|n| {
        let cod = n % 2 == 0;
        world.order_with(&n.to_string(), &json!({"carrier": null, "cod": cod, "codValue": 1, "send": true}))
    });
    let replies = futures::future::join_all(bodies.map(|body| world.place(body))).await;
    for reply in replies {
        let order = reply.expect(201).json();
        let expected = if order["cod"] == true { &other } else { &world.carrier };
        assert_eq!((&order["status"], &order["carrier"]), (&json!("awaiting_processing"), &json!(expected)));
        assert_eq!(
            world.api.get(&world.api.user, &path(&order, "")).await.expect(200).json()["carrier"],
            json!(expected)
        );
    }
    world.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_carrier_that_was_chosen_is_chosen_again_for_another_address(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let gulls = world.carrier(world.code + 500_000, &json!({"countriesOfOperation": ["IE"]})).await;
    let ireland =
        world.prefer(&gulls, 0, &json!({"conditions": {"countries": ["IE"], "maxWeight": 500}})).await;
    let britain = world.prefer(&world.carrier, 1, &json!({"conditions": {"countries": ["GB"]}})).await;
    world
        .api
        .put(&world.api.user, &format!("/api/product/{}", world.mug), json!({"weight": 300}))
        .await
        .expect(200);
    let order = world.sent("1", &json!({"carrier": null})).await;
    assert_eq!(order["carrier"], world.carrier);
    // what it is chosen by stays, and so does the choice, whatever became of the preference
    world.change(&britain, json!({"active": false})).await;
    let now = world.act(&order, "", json!({"billingStreet": "Mill Road"})).await.expect(200).json();
    assert_eq!(now["carrierChoice"], order["carrierChoice"]);
    let now = world.act(&order, "", json!({"billingCountry": "IE"})).await.expect(200).json();
    assert_eq!((&now["carrier"], &now["carrierChoice"]["preference"]), (&json!(gulls), &ireland["id"]));
    assert_eq!(now["status"], "awaiting_processing");
    let (_, changes) = world.audited(order["id"].as_str().unwrap()).await;
    assert_eq!(changes["carrier"], json!([world.carrier, gulls]));
    // nobody would ship it there
    let refused = world.act(&order, "", json!({"billingCountry": "CZ"})).await.expect(400);
    assert_eq!(refused.violations(), ["carrier no_carrier"]);
    assert_eq!(world.read(&order).await, now);
    // a carrier of one's own is never replaced
    let own = world.sent("2", &json!({"carrier": gulls, "billingCountry": "IE"})).await;
    let refused = world.act(&own, "", json!({"billingCountry": "GB"})).await.expect(400);
    assert_eq!(refused.violations(), ["carrier not_served"]);
    let given = world
        .act(&own, "", json!({"billingCountry": "GB", "carrier": world.carrier}))
        .await
        .expect(200)
        .json();
    assert_eq!((&given["carrier"], &given["carrierChoice"]), (&json!(world.carrier), &Value::Null));
    // what it weighs counts as it did when it was sent
    let two =
        json!({"carrier": null, "billingCountry": "IE", "items": [{"product": world.mug, "quantity": 2}]});
    assert_eq!(world.chosen("3", two).await, Value::Null);
    world.must_hold().await;
}
