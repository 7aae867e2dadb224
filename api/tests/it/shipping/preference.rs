//! Carrier preferences (`docs/reference/carriers.md#carrier-preference`).

use crate::product::MIGRATIONS;
use http::Method;
use longshore_kernel::access::Role;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::carrier::carrier;
use crate::support::Api;

const PATH: &str = "/api/carrier-preference";

/// The body of a create.
fn body(api: &Api, carrier: &str, position: i64) -> Value {
    json!({"organisation": api.tenant.organisation, "carrier": carrier, "position": position})
}

fn with(mut body: Value, members: &Value) -> Value {
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    body
}

async fn made(api: &Api, body: Value) -> Value {
    api.post(&api.user, PATH, body).await.expect(201).json()
}

fn place(preference: &Value) -> String {
    format!("{PATH}/{}", preference["id"].as_str().unwrap())
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_preference_is_created_changed_listed_and_deleted(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    let gulls = carrier(&api, "Gulls", 1, &[api.tenant.organisation.get()]).await;
    let reply = api.post(&api.user, PATH, body(&api, &gulls, 0)).await.expect(201);
    let etag = reply.header("etag").unwrap().to_owned();
    let record = reply.json();
    assert_eq!(
        (
            &record["eshop"],
            &record["carrierService"],
            &record["active"],
            &record["conditions"],
            &record["version"]
        ),
        (&Value::Null, &Value::Null, &json!(true), &json!({}), &json!(1))
    );
    assert_eq!(api.get(&api.user, &place(&record)).await.expect(200).json(), record);
    // a record that was read can be sent back
    assert_eq!(api.put(&api.user, &place(&record), record.clone()).await.expect(200).json(), record);
    let all = json!({
        "countries": ["CZ", "SK"], "deliveryMethods": ["express"], "minWeight": 0, "maxWeight": 30_000, "minValue": 0.5,
        "maxValue": "100.25", "currency": "EUR", "cod": false, "pickupPlace": true, "b2b": false,
    });
    let change = json!({"conditions": all, "eshop": api.tenant.eshop, "position": 3, "active": false});
    let matching = [("if-match", etag.as_str())];
    let changed = api
        .call_with(&api.user, Method::PUT, &place(&record), change.clone(), &matching)
        .await
        .expect(200)
        .json();
    let stored = with(all, &json!({"maxValue": 100.25}));
    assert_eq!((&changed["conditions"], &changed["version"]), (&stored, &json!(2)));
    api.call_with(&api.user, Method::PUT, &place(&record), change, &matching).await.expect(412);
    // conditions are replaced as a whole, and null is no condition
    let less = json!({"conditions": {"cod": null, "b2b": true}});
    let changed = api.put(&api.user, &place(&record), less).await.expect(200).json();
    assert_eq!(changed["conditions"], json!({"b2b": true}));

    let second = made(&api, body(&api, &gulls, 1)).await;
    let listed =
        api.post(&api.viewer, &format!("{PATH}/list"), json!({"select": ["position"]})).await.expect(200);
    let positions: Vec<_> =
        listed.json()["results"].as_array().unwrap().iter().map(|r| r["position"].clone()).collect();
    assert_eq!(positions, [json!(1), json!(3)]);
    let deep = json!({"criteria": {"carrier.code": {"eq": 1}, "eshop": {"null": true}}});
    let found = api.post(&api.user, &format!("{PATH}/list"), deep).await.expect(200).json();
    assert_eq!((&found["paging"]["total"], &found["results"][0]["id"]), (&json!(1), &second["id"]));

    api.call_with(&api.user, Method::DELETE, &place(&record), Value::Null, &matching).await.expect(412);
    api.delete(&api.user, &place(&record)).await.expect(204);
    api.get(&api.user, &place(&record)).await.expect(410);
    api.put(&api.user, &place(&record), json!({"active": true})).await.expect(410);
    api.delete(&api.user, &place(&record)).await.expect(410);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn each_field_of_a_preference_is_validated(_: PgPoolOptions, options: PgConnectOptions) {
    let api = Api::new(&options).await;
    let own = api.tenant.organisation;
    let gulls = carrier(&api, "Gulls", 1, &[own.get()]).await;
    let (terns, foreign) =
        (carrier(&api, "Terns", 2, &[own.get()]).await, carrier(&api, "Auks", 3, &[]).await);
    let service = json!({"carrier": terns, "name": "Parcel", "code": 1});
    let service =
        api.post(&api.superadmin, "/api/carrier-service", service).await.expect(201).json()["id"].clone();
    let other = Tenant::create(&api.services, "Toys").await.unwrap();
    let record = made(&api, body(&api, &gulls, 0)).await;
    for (change, violation) in [
        (json!({"position": -1}), "position out_of_range"),
        (json!({"position": 2_147_483_648_i64}), "position out_of_range"),
        (json!({"position": null}), "position wrong_type"),
        (json!({"organisation": other.organisation}), "organisation not_allowed"),
        (json!({"eshop": other.eshop}), "eshop unknown_reference"),
        (json!({"carrier": foreign}), "carrier unknown_reference"),
        (json!({"carrier": Uuid::nil()}), "carrier unknown_reference"),
        (json!({"carrierService": service}), "carrierService unknown_reference"),
        (json!({"conditions": null}), "conditions wrong_type"),
        (json!({"conditions": []}), "conditions wrong_type"),
        (json!({"conditions": {"colour": 1}}), "conditions.colour unknown_field"),
        (json!({"conditions": {"countries": []}}), "conditions.countries invalid_count"),
        (json!({"conditions": {"countries": ["XX"]}}), "conditions.countries[0] unknown_country"),
        (json!({"conditions": {"deliveryMethods": []}}), "conditions.deliveryMethods invalid_count"),
        (json!({"conditions": {"deliveryMethods": [""]}}), "conditions.deliveryMethods[0] invalid_length"),
        (json!({"conditions": {"minWeight": -1}}), "conditions.minWeight out_of_range"),
        (json!({"conditions": {"maxWeight": 1_000_000_000_001_i64}}), "conditions.maxWeight out_of_range"),
        (json!({"conditions": {"minWeight": 2, "maxWeight": 1}}), "conditions.maxWeight out_of_range"),
        (json!({"conditions": {"minValue": 1}}), "conditions.currency required"),
        (
            json!({"conditions": {"maxValue": 1_000_001, "currency": "EUR"}}),
            "conditions.maxValue out_of_range",
        ),
        (
            json!({"conditions": {"minValue": 0.00001, "currency": "EUR"}}),
            "conditions.minValue invalid_amount",
        ),
        (json!({"conditions": {"currency": "euro"}}), "conditions.currency unknown_currency"),
        (json!({"conditions": {"cod": "yes"}}), "conditions.cod wrong_type"),
    ] {
        let refused = api.put(&api.user, &place(&record), change.clone()).await.expect(400);
        assert_eq!(refused.violations(), [violation], "{change}");
        let created = with(body(&api, &gulls, 9), &change);
        // what a create must say is not its own organisation here
        if change.get("organisation").is_none() {
            assert_eq!(
                api.post(&api.user, PATH, created).await.expect(400).violations(),
                [violation],
                "{change}"
            );
        }
    }
    let nothing = api.post(&api.user, PATH, json!({})).await.expect(400);
    assert_eq!(nothing.violations(), ["organisation required", "position required", "carrier required"]);
    // what a foreign carrier has is not told
    let theirs = json!({"carrier": foreign, "name": "Parcel", "code": 1});
    let theirs =
        api.post(&api.superadmin, "/api/carrier-service", theirs).await.expect(201).json()["id"].clone();
    for carrier in [foreign.clone(), Uuid::nil().to_string()] {
        let named = json!({"carrier": carrier, "carrierService": theirs});
        let refused = api.put(&api.user, &place(&record), named).await.expect(400);
        assert_eq!(refused.violations(), ["carrier unknown_reference"]);
    }
    // another carrier takes its services with it
    let moved = json!({"carrier": terns, "carrierService": service});
    api.put(&api.user, &place(&record), moved).await.expect(200);
    let refused = api.put(&api.user, &place(&record), json!({"carrier": gulls})).await.expect(400);
    assert_eq!(refused.violations(), ["carrierService unknown_reference"]);
    // a bound is its own other side
    let edges = json!({"minWeight": 0, "maxWeight": 0, "minValue": 1_000_000, "maxValue": 1_000_000, "currency": "EUR"});
    let changed = api.put(&api.user, &place(&record), json!({"conditions": edges})).await.expect(200).json();
    assert_eq!(changed["conditions"], edges);
    // what may no longer be given can still be sent back
    let carrier = format!("/api/carrier/{terns}");
    api.put(&api.superadmin, &carrier, json!({"active": false})).await.expect(200);
    assert_eq!(api.put(&api.user, &place(&record), changed.clone()).await.expect(200).json(), changed);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_position_is_unique_in_the_organisation_and_eshop_and_no_eshop_counts_as_one(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let other = Tenant::create(&api.services, "Toys").await.unwrap();
    let gulls = carrier(&api, "Gulls", 1, &[api.tenant.organisation.get(), other.organisation.get()]).await;
    let of_eshop = json!({"eshop": api.tenant.eshop});
    let in_eshop = made(&api, with(body(&api, &gulls, 1), &of_eshop)).await;
    let of_all = made(&api, body(&api, &gulls, 1)).await;
    for (again, first) in
        [(with(body(&api, &gulls, 1), &of_eshop), &in_eshop), (body(&api, &gulls, 1), &of_all)]
    {
        let refused = api.post(&api.user, PATH, again).await.expect(400);
        assert_eq!(refused.violations(), ["position already_taken"]);
        let parameters = json!({"{{ value }}": "1", "{{ id }}": first["id"]});
        assert_eq!(refused.json()["violations"][0]["parameters"], parameters);
    }
    // a move to the place of another is refused, too
    let refused = api.put(&api.user, &place(&of_all), of_eshop).await.expect(400);
    assert_eq!(refused.violations(), ["position already_taken"]);
    let theirs = json!({"organisation": other.organisation, "carrier": gulls, "position": 1});
    api.post(&api.superadmin, PATH, theirs).await.expect(201);
    // of two at once, one is first
    let (one, two) = tokio::join!(
        api.post(&api.user, PATH, body(&api, &gulls, 2)),
        api.post(&api.user, PATH, body(&api, &gulls, 2))
    );
    let mut statuses = [one.status.as_u16(), two.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 400]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn who_may_write_is_as_the_table_says_and_a_scope_sees_no_more_than_its_own(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let api = Api::new(&options).await;
    let other = Tenant::create(&api.services, "Toys").await.unwrap();
    let gulls = carrier(&api, "Gulls", 1, &[api.tenant.organisation.get(), other.organisation.get()]).await;
    let second = api.post(
        &api.superadmin,
        "/api/eshop",
        json!({"organisation": api.tenant.organisation, "name": "Second", "active": true}),
    );
    let second = second.await.expect(201).json()["id"].clone();
    let of_all = made(&api, body(&api, &gulls, 1)).await;
    let own = made(&api, with(body(&api, &gulls, 1), &json!({"eshop": api.tenant.eshop}))).await;
    let neighbour = made(&api, with(body(&api, &gulls, 1), &json!({"eshop": second}))).await;
    let theirs = json!({"organisation": other.organisation, "carrier": gulls, "position": 1});
    let theirs = api.post(&api.superadmin, PATH, theirs).await.expect(201).json();

    let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    api.put(&admin, &place(&own), json!({"position": 7})).await.expect(200);
    for reader in [&api.viewer, &api.connector] {
        api.get(reader, &place(&own)).await.expect(200);
        api.post(reader, PATH, body(&api, &gulls, 5)).await.expect(403);
        api.put(reader, &place(&own), json!({"active": false})).await.expect(403);
        api.delete(reader, &place(&own)).await.expect(403);
    }
    for token in [&api.user, &admin] {
        for reply in [
            api.get(token, &place(&theirs)).await,
            api.put(token, &place(&theirs), json!({"active": false})).await,
            api.delete(token, &place(&theirs)).await,
        ] {
            reply.expect(404);
        }
    }
    let foreign = json!({"organisation": other.organisation, "carrier": gulls, "position": 2});
    let refused = api.post(&api.user, PATH, foreign).await.expect(400);
    assert_eq!(refused.violations(), ["organisation unknown_reference"]);
    // a connector of one e-shop sees those that its orders may be shipped by
    let token = json!({"name": "t", "role": "connector", "eshop": api.tenant.eshop, "organisation": api.tenant.organisation});
    let bound = api.post(&api.superadmin, "/api/access-token", token).await.expect(201).json();
    let bound = bound["token"].as_str().unwrap();
    for (preference, status) in [(&of_all, 200), (&own, 200), (&neighbour, 404), (&theirs, 404)] {
        api.get(bound, &place(preference)).await.expect(status);
    }
    let listed = api.post(bound, &format!("{PATH}/list"), Value::Null).await.expect(200).json();
    assert_eq!(listed["paging"]["total"], 2);
    let deep = json!({"criteria": {"eshop.name": {"eq": "Second"}}});
    let listed = api.post(bound, &format!("{PATH}/list"), deep).await.expect(200).json();
    assert_eq!(listed["paging"]["total"], 0);
}
