//! The small world that the examples of the document tell of, as rows of a database: the document, with the ids that its
//! records really have.

use http::Method;
use longshore_shared::account::access::Role;
use serde_json::{Value, json};
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;
use uuid::Uuid;

use crate::support::{Api, Reply};

/// One operation of the document.
#[derive(Clone, Debug)]
pub struct Operation {
    pub id: String,
    pub method: Method,
    /// With the ids of the sample's records.
    pub path: String,
    /// Whether its path names a record.
    pub names_record: bool,
    /// The roles that may call it; none where anybody may.
    pub roles: Vec<String>,
    /// Media type, schema and example of each form of its body.
    pub bodies: Vec<(String, Value, Value)>,
    pub answers: Vec<String>,
}

/// The service with the world of the examples.
pub struct Sample {
    pub api: Api,
    pub document: Value,
    /// Ids of everything that it made.
    pub ids: Vec<String>,
}

impl Sample {
    pub async fn new(options: &PgConnectOptions) -> Self {
        let api = Api::new(options).await;
        let owner = PgPool::connect_with(options.clone()).await.unwrap();
        let tenant = api.tenant.clone();
        let mut document = longshore_api::openapi::text().to_owned();
        let mut ids = Vec::new();
        let mut is = |document: &mut String, number: u32, id: &str| {
            *document = document.replace(&format!("0192a1b2-7000-7000-8000-{number:012x}"), id);
            ids.push(id.to_owned());
        };
        for (number, id) in
            [(1, tenant.organisation), (2, tenant.eshop), (3, tenant.warehouse), (4, tenant.wms)]
        {
            is(&mut document, number, &id.to_string());
        }
        let example = |document: &str, path: &str| {
            let document: Value = serde_json::from_str(document).unwrap();
            let mut example =
                document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"]
                    .clone();
            if example.get("destination").is_some() {
                example["destination"] = json!("http://127.0.0.1:1/");
            } else {
                // the SKU of the example is left to whoever creates it as it stands
                example["productSku"] = json!("sample");
            }
            example
        };
        let id = |reply: Reply| reply.json()["id"].as_str().unwrap().to_owned();
        let body = example(&document, "/api/eshop-webhook");
        is(&mut document, 7, &id(api.post(&api.user, "/api/eshop-webhook", body).await.expect(201)));
        let body = example(&document, "/api/product");
        let product = id(api.post(&api.user, "/api/product", body).await.expect(201));
        is(&mut document, 5, &product);
        let deliveries =
            api.post(&api.user, "/api/webhook-delivery/list", Value::Null).await.expect(200).json();
        is(&mut document, 8, deliveries["results"][0]["id"].as_str().unwrap());
        let stock: Uuid = sqlx::query_scalar(
            "INSERT INTO product_stock (id, organisation_id, product_id, warehouse_id, wms_id, quantity)
             VALUES (uuid_v7(), $1, $2::uuid, $3, $4, 7) RETURNING id",
        )
        .bind(tenant.organisation)
        .bind(&product)
        .bind(tenant.warehouse)
        .bind(tenant.wms)
        .fetch_one(&owner)
        .await
        .unwrap();
        is(&mut document, 6, &stock.to_string());
        let prefer = [("prefer", "respond-async")];
        let path = "/api/product/deactivate";
        let job = api.call_with(&api.user, Method::PUT, path, json!([product]), &prefer).await.expect(202);
        is(&mut document, 9, &id(job));
        let document = serde_json::from_str(&document).unwrap();
        Self { api, document, ids }
    }

    /// The record that `{id}` stands for in a path.
    fn record(&self, path: &str) -> &str {
        let number = match path.split('/').nth(2).unwrap() {
            "eshop-webhook" => 4,
            "product" => 5,
            "webhook-delivery" => 6,
            "product-stock" => 7,
            "job" => 8,
            other => panic!("the sample has no record for /api/{other}/{{id}}"),
        };
        &self.ids[number]
    }

    /// Every operation.
    pub fn operations(&self) -> Vec<Operation> {
        let mut found = Vec::new();
        for (path, item) in self.document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let names_record = path.contains("{id}");
                let mut filled =
                    if names_record { path.replace("{id}", self.record(path)) } else { path.clone() };
                filled = filled.replace("{code}", "gone").replace("{file}", "index.css");
                assert!(!filled.contains('{'), "{path}");
                let bodies = operation["requestBody"]["content"].as_object().into_iter().flatten();
                let roles = operation["security"].as_array().unwrap().first();
                let roles = roles.map(|r| serde_json::from_value(r["accessToken"].clone()).unwrap());
                found.push(Operation {
                    id: operation["operationId"].as_str().unwrap().to_owned(),
                    method: method.to_uppercase().parse().unwrap(),
                    path: filled,
                    names_record,
                    roles: roles.unwrap_or_default(),
                    bodies: bodies
                        .map(|(media, c)| (media.clone(), c["schema"].clone(), c["example"].clone()))
                        .collect(),
                    answers: operation["responses"].as_object().unwrap().keys().cloned().collect(),
                });
            }
        }
        found
    }

    /// A schema, followed where it is a reference.
    pub fn schema<'s>(&'s self, schema: &'s Value) -> &'s Value {
        match schema["$ref"].as_str() {
            Some(reference) => self.document.pointer(reference.strip_prefix('#').unwrap()).unwrap(),
            None => schema,
        }
    }

    /// Sends the example of a form of the body, or nothing where there is none.
    pub async fn call(&self, token: &str, operation: &Operation, form: usize) -> Reply {
        let mut request = http::Request::builder()
            .method(operation.method.clone())
            .uri(&operation.path)
            .header("authorization", format!("Bearer {token}"));
        // no worker ends a job here
        if operation.answers.contains(&"202".to_owned()) {
            request = request.header("prefer", "respond-async");
        }
        let body = match operation.bodies.get(form) {
            Some((media, _, example)) => {
                request = request.header("content-type", media);
                example.as_str().map_or_else(|| example.to_string(), str::to_owned)
            }
            None => String::new(),
        };
        self.api.send(request.body(body.into()).unwrap()).await
    }

    /// A token of each role, by name.
    pub async fn tokens(&self) -> Vec<(&'static str, String)> {
        let mut tokens = Vec::new();
        for (role, name) in Role::ALL {
            tokens.push((name, self.api.tenant.token(&self.api.services, role).await.unwrap()));
        }
        tokens
    }
}
