//! Carrier preferences in the console: names instead of ids, and the rules of the API.

use longshore_kernel::access::Role;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::repair::send;
use super::{Browser, MIGRATIONS, audited, world};
use crate::support::Api;

const HERE: &str = "/console/preference";

/// A carrier of the organisation with a service; returns their ids.
async fn carrier(api: &Api, name: &str, code: i32) -> (String, String) {
    let body = json!({"name": name, "code": code, "organisations": [api.tenant.organisation]});
    let made: Value = api.post(&api.superadmin, "/api/carrier", body).await.expect(201).json();
    let id = made["id"].as_str().unwrap().to_owned();
    let body = json!({"carrier": id, "name": "Express", "code": 1});
    let service: Value = api.post(&api.superadmin, "/api/carrier-service", body).await.expect(201).json();
    (id, service["id"].as_str().unwrap().to_owned())
}

async fn stored(api: &Api) -> Vec<Value> {
    let listed = api.post(&api.user, "/api/carrier-preference/list", Value::Null).await.expect(200).json();
    listed["results"].as_array().unwrap().clone()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_preference_is_created_listed_changed_and_deleted_by_names(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let (gulls, express) = carrier(api, "Gulls & Sons", 1).await;
    let browser = Browser::new(api, &api.user);
    let new = format!("{HERE}/new");
    // the caller has one organisation; the form offers its carriers and e-shops by name
    let form = browser.open(&new).await.expect(200).text;
    assert!(
        form.contains(">Gulls &amp; Sons, Express</option>") && form.contains(">every e-shop</option>"),
        "{form}"
    );
    assert!(form.contains("name=\"position\" value=\"0\""), "{form}");

    let both = format!("{gulls} {express}");
    let wrong = [
        ("carrier", both.as_str()),
        ("position", "first"),
        ("conditions.countries", "CZ, Atlantis"),
        ("conditions.minWeight", "9"),
        ("conditions.maxWeight", "1"),
        ("conditions.minValue", "5"),
    ];
    let refused = send(&browser, &new, &wrong).await.expect(400).text;
    for said in [
        "id=\"wrong-position\"",
        "id=\"wrong-conditions.countries\"",
        "id=\"wrong-conditions.maxWeight\"",
        "id=\"wrong-conditions.currency\"",
        "value=\"CZ, Atlantis\"",
        "value=\"first\"",
    ] {
        assert!(refused.contains(said), "{said}: {refused}");
    }
    assert!(refused.contains(&format!("<option value=\"{both}\" selected>")), "{refused}");
    assert!(stored(api).await.is_empty());

    let eshop = api.tenant.eshop.to_string();
    let fields = [
        ("carrier", both.as_str()),
        ("eshop", eshop.as_str()),
        ("position", "3"),
        ("active", "true"),
        ("conditions.countries", "CZ, SK"),
        ("conditions.maxWeight", "30000"),
        ("conditions.minValue", "0.5"),
        ("conditions.currency", "EUR"),
        ("conditions.cod", "false"),
    ];
    send(&browser, &new, &fields).await.expect(303);
    let [made] = &stored(api).await[..] else { panic!("one is stored") };
    assert_eq!((&made["carrier"], &made["carrierService"]), (&json!(gulls), &json!(express)));
    assert_eq!(
        (&made["eshop"], &made["position"], &made["active"]),
        (&json!(eshop), &json!(3), &json!(true))
    );
    let conditions = json!({"countries": ["CZ", "SK"], "maxWeight": 30_000, "minValue": 0.5, "currency": "EUR", "cod": false});
    assert_eq!(made["conditions"], conditions);
    let id: uuid::Uuid = made["id"].as_str().unwrap().parse().unwrap();
    assert_eq!(
        audited(&world, id).await.unwrap(),
        ("carrier_preference.create".into(), "user of a test".into())
    );
    // the position is taken
    let taken = send(&browser, &new, &fields).await.expect(400).text;
    assert!(taken.contains("id=\"wrong-position\""), "{taken}");

    let list = browser.open(HERE).await.expect(200).text;
    for said in
        ["Gulls &amp; Sons, Express", "to CZ, SK; up to 30,000 g; value from 0.5 EUR; no cash on delivery"]
    {
        assert!(list.contains(said), "{said}: {list}");
    }

    // a carrier that the organisation cannot use any more stays, and is marked
    let path = format!("/api/carrier/{gulls}/organisation-remove");
    api.put(&api.superadmin, &path, json!([api.tenant.organisation])).await.expect(204);
    assert!(browser.open(HERE).await.expect(200).text.contains(">not usable<"));
    let edit = format!("{HERE}/{id}/edit");
    let form = browser.open(&edit).await.expect(200).text;
    assert!(form.contains("can no longer be used") && form.contains("value=\"CZ, SK\""), "{form}");
    let fields = [("carrier", both.as_str()), ("position", "1"), ("conditions.b2b", "true")];
    send(&browser, &edit, &fields).await.expect(303);
    let [changed] = &stored(api).await[..] else { panic!("one is stored") };
    assert_eq!(
        (&changed["eshop"], &changed["position"], &changed["active"]),
        (&Value::Null, &json!(1), &json!(false))
    );
    assert_eq!((&changed["carrier"], &changed["conditions"]), (&json!(gulls), &json!({"b2b": true})));
    assert_eq!(audited(&world, id).await.unwrap().0, "carrier_preference.update");

    let removed = browser.act(&format!("{HERE}/{id}/delete"), &[]).await.expect(303);
    assert!(removed.header("location").unwrap().contains("done=preference-deleted"));
    assert!(stored(api).await.is_empty());
    assert_eq!(audited(&world, id).await.unwrap().0, "carrier_preference.delete");
    browser.open(&edit).await.expect(404);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn who_may_not_write_preferences_reads_them_and_a_stranger_sees_none(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let (gulls, _) = carrier(api, "Gulls", 1).await;
    let body = json!({"organisation": api.tenant.organisation, "carrier": gulls, "position": 1});
    let made: Value = api.post(&api.user, "/api/carrier-preference", body).await.expect(201).json();
    let id = made["id"].as_str().unwrap();
    let page = Browser::new(api, &api.viewer).open(HERE).await.expect(200).text;
    assert!(page.contains("Gulls") && !page.contains("/edit") && !page.contains("New preference"), "{page}");
    let paths = [format!("{HERE}/new"), format!("{HERE}/{id}/edit"), format!("{HERE}/{id}/delete")];
    let (stranger, _) = world.stranger().await;
    let token = stranger.token(&api.services, Role::Admin).await.unwrap();
    let theirs = Browser::new(api, &token);
    assert!(!theirs.open(HERE).await.expect(200).text.contains("Gulls"));
    for path in &paths {
        Browser::new(api, &api.viewer).open(path).await.expect(403);
        Browser::new(api, &api.viewer).send_bare(path, &[]).await.expect(403);
        // without the token of the session
        Browser::new(api, &api.user).send_bare(path, &[]).await.expect(403);
    }
    theirs.open(&paths[1]).await.expect(404);
    theirs.open(&paths[2]).await.expect(404);
    let organisation = api.tenant.organisation;
    theirs.open(&format!("{HERE}/new?organisation={organisation}")).await.expect(404);
    // a caller with several organisations says which
    let which = Browser::new(api, &api.superadmin).open(&format!("{HERE}/new")).await.expect(200).text;
    assert!(which.contains(&format!("<option value=\"{organisation}\"")), "{which}");
}
