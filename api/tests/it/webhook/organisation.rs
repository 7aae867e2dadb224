//! Webhooks of an organisation (`docs/reference/webhooks.md#organisation`).

use super::criteria::told;
use super::*;

/// A webhook of the organisation with these fields.
async fn of_all(api: &Api, fields: Value) -> String {
    let mut body =
        json!({"organisation": api.tenant.organisation, "destination": "https://erp.example/hook"});
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    create(api, body).await["id"].as_str().unwrap().to_owned()
}

async fn second_eshop(api: &Api) -> Value {
    let eshop = json!({"organisation": api.tenant.organisation, "name": "Second", "active": true});
    api.post(&api.superadmin, "/api/eshop", eshop).await.expect(201).json()["id"].clone()
}

async fn product(api: &Api, sku: &str, eshops: Value) -> String {
    let body = json!({"eshops": eshops, "organisation": api.tenant.organisation, "productSku": sku,
        "internalSku": sku, "name": "Mug", "imeiCheckRequired": false, "active": true});
    api.post(&api.user, "/api/product", body).await.expect(201).json()["id"].as_str().unwrap().to_owned()
}

async fn listed(api: &Api, path: &str, criteria: Value) -> Vec<Value> {
    let asked = json!({"criteria": criteria});
    let found = api.post(&api.user, path, asked).await.expect(200).json();
    found["results"].as_array().unwrap().clone()
}

#[tokio::test]
async fn it_hears_once_of_each_change_in_any_eshop_and_which_these_are() {
    let api = Api::new(&strangers().await).await;
    let first = json!(api.tenant.eshop);
    let second = second_eshop(&api).await;
    let all = of_all(&api, json!({"event": "*"})).await;
    let one =
        create(&api, json!({"eshop": first, "event": "*", "destination": "https://shop.example/hook"})).await;
    let both = product(&api, "both", json!([first, second])).await;
    product(&api, "second", json!([second])).await;
    // the product leaves an e-shop: that is still told of it
    api.put(&api.user, &format!("/api/product/{both}"), json!({"eshops": [second]})).await.expect(200);
    let name = json!({"name": "Gifts and more"});
    api.put(&api.superadmin, &format!("/api/organisation/{}", api.tenant.organisation), name)
        .await
        .expect(200);

    let bodies = told(&api, &all).await;
    let eshops_of = |body: &Value| {
        let mut ids: Vec<String> =
            body["eshops"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    };
    let mut expected_both = vec![first.as_str().unwrap().to_owned(), second.as_str().unwrap().to_owned()];
    expected_both.sort();
    let heard: Vec<_> =
        bodies.iter().map(|body| (body["data"]["productSku"].as_str(), eshops_of(body))).collect();
    let second_only = vec![second.as_str().unwrap().to_owned()];
    assert_eq!(
        heard,
        [
            (Some("both"), expected_both.clone()),
            (Some("second"), second_only),
            (Some("both"), expected_both.clone()),
            (None, expected_both),
        ]
    );
    assert!(bodies.iter().all(|body| body.get("eshop").is_none()));
    // an e-shop is told of no other
    let bodies = told(&api, one["id"].as_str().unwrap()).await;
    assert_eq!(bodies.len(), 3);
    assert!(bodies.iter().all(|body| body.get("eshops").is_none() && body.get("eshop").is_none()));

    // a test has the same form
    for (event, member) in [("product_change", "eshops"), ("expedition_change", "eshop"), ("test", "eshop")] {
        let path = format!("{PATH}/{all}/test");
        let sent = api.post(&api.user, &path, json!({"event": event})).await.expect(202).json();
        let path = format!("/api/webhook-delivery/{}/body", sent["id"].as_str().unwrap());
        let body = api.get(&api.user, &path).await.expect(200).json();
        assert!(body.get(member).is_some(), "{body}");
        let delivery = format!("/api/webhook-delivery/{}", sent["id"].as_str().unwrap());
        assert_eq!(api.get(&api.user, &delivery).await.expect(200).json()["eshop"], Value::Null);
    }
}

#[tokio::test]
async fn a_job_of_the_organisation_concerns_no_eshop_although_all_hear_of_it() {
    let api = Api::new(&strangers().await).await;
    let second = second_eshop(&api).await;
    let all = of_all(&api, json!({"event": "job_finished"})).await;
    let of_none = of_all(&api, json!({"event": "job_finished", "criteria": {"eshop": {"null": true}}})).await;
    let of_second =
        of_all(&api, json!({"event": "job_finished", "criteria": {"eshop": {"eq": second}}})).await;
    let hook = json!({"eshop": second, "event": "job_finished", "destination": "https://shop.example/hook"});
    let shop = create(&api, hook).await["id"].as_str().unwrap().to_owned();
    // a recovery of a webhook of the organisation, which its end is told of
    let since = json!({"since": "2026-01-01T00:00:00Z"});
    let job = api.post(&api.user, &format!("{PATH}/{all}/recover"), since).await.expect(202).json();
    let job = job["id"].as_str().unwrap();
    api.put(&api.user, &format!("/api/job/cancel/{job}"), Value::Null).await.expect(200);
    let bodies = told(&api, &all).await;
    assert_eq!(bodies.len(), 1);
    assert_eq!((bodies[0].get("eshop"), bodies[0].get("eshops")), (Some(&Value::Null), None));
    assert_eq!((told(&api, &of_none).await.len(), told(&api, &of_second).await.len()), (1, 0));
    assert_eq!(told(&api, &shop).await.len(), 1, "a job without an e-shop is told to all");
}

#[tokio::test]
async fn it_names_an_organisation_of_the_caller_instead_of_an_eshop() {
    let api = Api::new(&strangers().await).await;
    let other = Tenant::create(&api.services, "Toys").await.unwrap();
    let foreign = other.token(&api.services, Role::User).await.unwrap();
    let (organisation, eshop) = (json!(api.tenant.organisation), json!(api.tenant.eshop));
    let refused = async |token: &str, whose: Value| {
        let mut body = json!({"event": "*", "destination": "https://erp.example/hook"});
        body.as_object_mut().unwrap().extend(whose.as_object().unwrap().clone());
        let mut trial = body.clone();
        trial.as_object_mut().unwrap().remove("destination");
        let tried = api.post(token, &format!("{PATH}/try"), trial).await.expect(400).violations();
        let made = api.post(token, PATH, body).await.expect(400).violations();
        assert_eq!(tried, made);
        made
    };
    assert_eq!(
        refused(&foreign, json!({"organisation": organisation})).await,
        ["organisation unknown_reference"]
    );
    assert_eq!(
        refused(&api.user, json!({"organisation": other.organisation})).await,
        ["organisation unknown_reference"]
    );
    assert_eq!(refused(&api.user, json!({"organisation": eshop})).await, ["organisation unknown_reference"]);
    assert_eq!(refused(&api.user, json!({})).await, ["eshop required"]);
    assert_eq!(refused(&api.user, json!({"eshop": null})).await, ["eshop contradiction"]);
    assert_eq!(refused(&api.user, json!({"organisation": null})).await, ["organisation wrong_type"]);
    assert_eq!(
        refused(&api.user, json!({"organisation": organisation, "eshop": eshop})).await,
        ["organisation contradiction"]
    );

    let all = of_all(&api, json!({"event": "product_change", "eshop": null})).await;
    let path = format!("{PATH}/{all}");
    let shown = api.get(&api.user, &path).await.expect(200).json();
    assert_eq!((&shown["organisation"], &shown["eshop"]), (&organisation, &Value::Null));
    api.get(&foreign, &path).await.expect(404);
    // what is read can be sent back, and stays so
    api.put(&api.user, &path, shown).await.expect(200);
    for (other, field) in
        [(json!({"eshop": eshop}), "eshop"), (json!({"organisation": other.organisation}), "organisation")]
    {
        assert_eq!(
            api.put(&api.user, &path, other).await.expect(400).violations(),
            [format!("{field} not_allowed")]
        );
    }
    let one = create(&api, webhook(&api)).await;
    let of_one = format!("{PATH}/{}", one["id"].as_str().unwrap());
    assert_eq!(
        api.put(&api.user, &of_one, json!({"eshop": null})).await.expect(400).violations(),
        ["eshop contradiction"]
    );

    // lists by e-shop do not show it, those by organisation do
    let ids = |found: Vec<Value>| found.into_iter().map(|webhook| webhook["id"].clone()).collect::<Vec<_>>();
    let list = format!("{PATH}/list");
    assert_eq!(ids(listed(&api, &list, json!({"eshop": {"eq": eshop}})).await), [one["id"].clone()]);
    assert_eq!(listed(&api, &list, json!({"organisation": {"eq": organisation}})).await.len(), 2);
    assert_eq!(ids(listed(&api, &list, json!({"eshop": {"null": true}})).await), [json!(all)]);
    product(&api, "mug", json!([eshop])).await;
    let deliveries = "/api/webhook-delivery/list";
    assert_eq!(listed(&api, deliveries, json!({"eshop": {"eq": eshop}})).await.len(), 1);
    assert_eq!(listed(&api, deliveries, json!({"organisation": {"eq": organisation}})).await.len(), 2);
    assert_eq!(listed(&api, deliveries, json!({"eshop": {"null": true}})).await[0]["webhook"], all);
}

#[tokio::test]
async fn an_organisation_has_a_number_of_its_own_of_them() {
    let mut services = services::for_test(&strangers().await).unwrap();
    services.outbound.webhooks_per_eshop = 2;
    let api = Api::over(services).await;
    let of_eshop = create(&api, webhook(&api)).await;
    create(&api, webhook(&api)).await;
    for _ in 0..2 {
        of_all(&api, json!({"event": "test"})).await;
    }
    let body = json!({"organisation": api.tenant.organisation, "event": "test", "destination": "https://erp.example/hook"});
    let refused = api.post(&api.user, PATH, body).await.expect(409).json();
    assert_eq!(refused["type"].as_str().unwrap().rsplit('/').next(), Some("quota_reached"), "{refused}");
    api.delete(&api.user, &format!("{PATH}/{}", of_eshop["id"].as_str().unwrap())).await.expect(204);
    create(&api, webhook(&api)).await;
}

#[tokio::test]
async fn its_criteria_may_ask_for_an_eshop_and_are_tried_on_what_all_eshops_heard() {
    let api = Api::new(&strangers().await).await;
    let first = json!(api.tenant.eshop);
    let second = second_eshop(&api).await;
    let of =
        |eshop: Value| json!({"events": ["product_change", "job_finished"], "criteria": {"eshop": eshop}});
    let in_second = of_all(&api, of(json!({"eq": second}))).await;
    let not_in_first = of_all(&api, of(json!({"neq": first}))).await;
    create(
        &api,
        json!({"eshop": first, "event": "product_change", "destination": "https://shop.example/hook"}),
    )
    .await;
    for (sku, eshops) in
        [("both", json!([first, second])), ("second", json!([second])), ("first", json!([first]))]
    {
        product(&api, sku, eshops).await;
    }
    let skus = async |webhook: &str| -> Vec<String> {
        told(&api, webhook)
            .await
            .iter()
            .map(|body| body["data"]["productSku"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(skus(&in_second).await, ["both", "second"]);
    assert_eq!(skus(&not_in_first).await, ["second"]);

    let tried = async |eshop: Value| {
        let trial = json!({"organisation": api.tenant.organisation, "event": "product_change", "criteria": {"eshop": eshop}});
        api.post(&api.user, &format!("{PATH}/try"), trial).await.expect(200).json()
    };
    let found = tried(json!({"eq": first})).await;
    assert_eq!((&found["looked"], &found["matched"]), (&json!(3), &json!(2)));
    assert_eq!(found["examples"][0]["eshops"], json!([first]));
    assert_eq!(tried(json!({"null": true})).await["matched"], 0);
    // that of an e-shop is told of no other, and cannot ask for one
    let refused = json!({"eshop": first, "event": "product_change", "criteria": {"eshop": {"eq": first}},
        "destination": "https://shop.example/hook"});
    assert_eq!(
        api.post(&api.user, PATH, refused).await.expect(400).violations(),
        ["criteria.eshop unknown_field"]
    );
}
