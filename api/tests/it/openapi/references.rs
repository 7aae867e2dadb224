//! Wherever a body has an id, that of a record of another organisation is answered like that of none.

use longshore_kernel::ids;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::sample::{Operation, Sample};
use crate::product::MIGRATIONS;

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_record_of_another_organisation_is_answered_like_none(_: PgPoolOptions, options: PgConnectOptions) {
    let sample = Sample::new(&options).await;
    let theirs = theirs(&sample).await;
    let (tokens, unknown) = (sample.tokens().await, ids::new_id().to_string());
    let mut refused = 0;
    for operation in sample.operations() {
        // those who see everything see theirs, too
        let narrow =
            ["user", "admin", "connector"].into_iter().find(|role| operation.roles.iter().any(|r| r == role));
        let Some(narrow) = narrow else { continue };
        let token = tokens.iter().find(|(role, _)| *role == narrow).unwrap().1.as_str();
        let reads = operation.path.ends_with("/list") || operation.path == "/api/audit";
        for (_, _, example) in operation.bodies.iter().filter(|(media, ..)| media == "application/json") {
            for place in places(example, "") {
                let none = answer(&sample, token, &operation, example, &place, &unknown).await;
                // any id is taken here, or a worker looks it up
                if none.0 < 300 && !reads {
                    continue;
                }
                for id in &theirs {
                    let given = answer(&sample, token, &operation, example, &place, id).await;
                    assert_eq!(given, none, "{} as {narrow}, {id} at {place}", operation.id);
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 200, "{refused}");
}

/// The status, and the answer but for what is of the request alone.
async fn answer(
    sample: &Sample,
    token: &str,
    operation: &Operation,
    example: &Value,
    place: &str,
    id: &str,
) -> (u16, String) {
    let mut body = example.clone();
    *body.pointer_mut(place).unwrap() = json!(id);
    let prefer = [("prefer", "respond-async")];
    let reply = sample.api.call_with(token, operation.method.clone(), &operation.path, body, &prefer).await;
    let mut said: Value = serde_json::from_str(&reply.text).unwrap_or_default();
    if let Some(said) = said.as_object_mut() {
        said.remove("requestId");
    }
    (reply.status.as_u16(), said.to_string().replace(id, "ID"))
}

/// The places of the ids in an example, as JSON pointers.
fn places(value: &Value, place: &str) -> Vec<String> {
    match value {
        Value::String(text) if text.parse::<uuid::Uuid>().is_ok() => vec![place.to_owned()],
        Value::Array(elements) => {
            let within = |(index, element): (usize, &Value)| places(element, &format!("{place}/{index}"));
            elements.iter().enumerate().flat_map(within).collect()
        }
        Value::Object(members) => {
            let within = |(name, member): (&String, &Value)| places(member, &format!("{place}/{name}"));
            members.iter().flat_map(within).collect()
        }
        _ => Vec::new(),
    }
}

/// The ids of records of another organisation, one of each kind, made from the examples.
async fn theirs(sample: &Sample) -> Vec<String> {
    let api = &sample.api;
    let tenant = Tenant::create(&api.services, "Other").await.unwrap();
    let own = |resource: &str| sample.record(&format!("/api/{resource}")).to_owned();
    let mut made = vec![
        (own("organisation"), tenant.organisation.to_string()),
        (own("eshop"), tenant.eshop.to_string()),
        (own("warehouse"), tenant.warehouse.to_string()),
        (own("wms"), tenant.wms.to_string()),
    ];
    for (resource, other) in [
        ("product", json!({})),
        ("supplier", json!({})),
        ("stock-advice", json!({})),
        ("carrier", json!({"code": 90})),
        ("carrier-service", json!({})),
        ("carrier-preference", json!({})),
        ("expedition", json!({"send": false})),
        ("eshop-webhook", json!({"destination": "http://127.0.0.1:1/"})),
        ("event-reader", json!({})),
        ("business-user", json!({"email": "their.user@example.com"})),
        ("admin", json!({"email": "their.admin@example.com"})),
        ("access-token", json!({})),
    ] {
        let path = format!("/api/{resource}");
        let content = &sample.document["paths"][&path]["post"]["requestBody"]["content"];
        let mut body = content["application/json"]["example"].to_string();
        for (own, theirs) in &made {
            body = body.replace(own, theirs);
        }
        let mut body: Value = serde_json::from_str(&body).unwrap();
        body.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
        let reply = api.post(&api.superadmin, &path, body).await.expect(201).json();
        made.push((own(resource), reply["id"].as_str().unwrap().to_owned()));
    }
    made.into_iter().map(|(_, theirs)| theirs).collect()
}
