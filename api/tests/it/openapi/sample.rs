//! The records of the document's examples in a database, and the document with their real ids.

mod goods;

use std::collections::BTreeMap;

use http::Method;
use longshore_kernel::access::Role;
use serde_json::{Value, json};
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;
use uuid::Uuid;

use self::goods::Goods;
use crate::attention::FAILS;
use crate::support::{Api, Reply};

/// Operations that require the token of a login.
pub const OF_LOGINS: &[&str] =
    &["change_password", "logout", "refresh_token", "remove_totp", "set_up_totp", "switch_on_totp"];

/// One operation of the document.
#[derive(Clone, Debug)]
pub struct Operation {
    pub id: String,
    pub method: Method,
    /// With the ids of the sample's records.
    pub path: String,
    /// What is in the query beside a file of CSV.
    pub query: String,
    /// Whether its path names a record.
    pub names_record: bool,
    /// The roles that may call it; empty if anyone may.
    pub roles: Vec<String>,
    /// Media type, schema and example of each form of its body.
    pub bodies: Vec<(String, Value, Value)>,
    /// Whether it takes a body, and may be called without one.
    pub is_body_optional: bool,
    pub answers: Vec<String>,
}

/// The examples of the parameters of its query.
fn query_of(document: &Value, operation: &Value) -> String {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let declared = |reference: &str| document.pointer(reference.strip_prefix('#').unwrap()).unwrap();
    let parameters = parameters.map(|parameter| parameter["$ref"].as_str().map_or(parameter, declared));
    let given = parameters.filter(|parameter| parameter["in"] == "query");
    let pair = |parameter: &Value| {
        Some(format!("{}={}", parameter["name"].as_str()?, parameter["example"].as_str()?))
    };
    given.filter_map(pair).collect::<Vec<_>>().join("&")
}

/// The service with the records of the examples.
pub struct Sample {
    pub api: Api,
    pub document: Value,
    /// The ids of all created records, by their numbers in the examples.
    pub ids: BTreeMap<u32, String>,
    goods: Goods,
}

/// The example of a body: most lists share one.
pub fn example(document: &Value, content: &Value) -> Value {
    let usual = &document["components"]["examples"]["Usual"]["value"];
    if content["examples"]["usual"].is_object() { usual.clone() } else { content["example"].clone() }
}

impl Sample {
    pub async fn new(options: &PgConnectOptions) -> Self {
        let api = Api::new(options).await;
        let owner = PgPool::connect_with(options.clone()).await.unwrap();
        let tenant = api.tenant.clone();
        let mut document = longshore_api::openapi::text().to_owned();
        let mut ids = BTreeMap::new();
        let mut is = |document: &mut String, number: u32, id: &str| {
            *document = document.replace(&format!("0192a1b2-7000-7000-8000-{number:012x}"), id);
            ids.insert(number, id.to_owned());
        };
        for (number, id) in
            [(1, tenant.organisation.get()), (2, tenant.eshop.get()), (3, tenant.warehouse), (4, tenant.wms)]
        {
            is(&mut document, number, &id.to_string());
        }
        let posted = |document: &str, path: &str| -> Value {
            let document: Value = serde_json::from_str(document).unwrap();
            document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"].clone()
        };
        let example = |document: &str, path: &str| {
            let mut example = posted(document, path);
            if example.get("destination").is_some() {
                example["destination"] = json!("http://127.0.0.1:1/");
            } else {
                // the SKU of the example stays free for the test that creates it
                example["productSku"] = json!("sample");
            }
            example
        };
        let id = |reply: Reply| reply.json()["id"].as_str().unwrap().to_owned();
        let body = example(&document, "/api/eshop-webhook");
        is(&mut document, 7, &id(api.post(&api.user, "/api/eshop-webhook", body).await.expect(201)));
        let reader = posted(&document, "/api/event-reader");
        is(&mut document, 0x2c, &id(api.post(&api.user, "/api/event-reader", reader).await.expect(201)));
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
        // the accounts are those of the examples of logins
        let accounts = [
            (0x0b, "/api/access-token", None),
            (0x0e, "/api/admin", Some("/api/login/admin")),
            (0x0f, "/api/business-user", Some("/api/login/user")),
        ];
        for (number, path, door) in accounts {
            let mut body = posted(&document, path);
            if let Some(door) = door {
                body["email"] = posted(&document, door)["login"].clone();
            }
            is(&mut document, number, &id(api.post(&api.superadmin, path, body).await.expect(201)));
        }
        // her session is that of her login
        let credentials = posted(&document, "/api/login/admin");
        api.post("", "/api/login/admin", credentials).await.expect(200);
        let sessions = api.post(&api.superadmin, "/api/session/list", Value::Null).await.expect(200).json();
        is(&mut document, 0x10, sessions["results"][0]["id"].as_str().unwrap());
        let lost: Uuid = sqlx::query_scalar(
            "INSERT INTO wms_lost_order (id, wms_id, expedition_id, organisation_id, number, report)
             VALUES (uuid_v7(), $1, uuid_v7(), $2, 3, '{}') RETURNING id",
        )
        .bind(tenant.wms)
        .bind(tenant.organisation)
        .fetch_one(&owner)
        .await
        .unwrap();
        is(&mut document, 0x2d, &lost.to_string());
        let goods = goods::make(&api, &product, &mut document).await;
        // its destination fails
        sqlx::query(FAILS).bind(ids[&7].parse::<Uuid>().unwrap()).execute(&owner).await.unwrap();
        let attention = api.get(&api.superadmin, "/api/attention").await.expect(200).json();
        let line = attention["lines"].as_array().unwrap().iter().find(|line| line["kind"] == "destination");
        let line = line.unwrap()["id"].as_str().unwrap().to_owned();
        document = document.replace("0192a1b2-7000-7000-8000-000000000011", &line);
        ids.insert(0x11, line);
        let document = serde_json::from_str(&document).unwrap();
        Self { api, document, ids, goods }
    }

    /// The ids of all records of its organisation.
    pub fn own_ids(&self) -> impl Iterator<Item = &String> {
        // packaging options are visible to everyone
        let goods = self.goods.ids.iter().filter(|(name, _)| **name != "packaging-option");
        self.ids.values().chain(goods.map(|(_, id)| id))
    }

    /// The record for `{id}` in a path.
    pub fn record(&self, path: &str) -> &str {
        let number = match path.split('/').nth(2).unwrap() {
            "partner-integration" if path.contains("/wms-setting/") => 4,
            "organisation" => 1,
            "eshop" | "partner-integration" => 2,
            "warehouse" => 3,
            "wms" => 4,
            "product" => 5,
            "product-stock" => 6,
            "eshop-webhook" => 7,
            "webhook-delivery" => 8,
            "event-reader" => 0x2c,
            "job" => 9,
            "session" => 0x10,
            "lost-order" => 0x2d,
            "attention" => 0x11,
            "access-token" => 0x0b,
            "admin" => 0x0e,
            "business-user" => 0x0f,
            other if self.goods.ids.contains_key(other) => return &self.goods.ids[other],
            other => panic!("the sample has no record for /api/{other}/{{id}}"),
        };
        &self.ids[&number]
    }

    /// Every operation.
    pub fn operations(&self) -> Vec<Operation> {
        let mut found = Vec::new();
        // with any of these, an operation may refuse a request: each line begins with a status
        let refusals = self.document["components"]["responses"]["default"]["description"].as_str().unwrap();
        let refusals: Vec<_> = refusals.split("\n\n").map(|line| line[..3].to_owned()).collect();
        for (path, item) in self.document["paths"].as_object().unwrap() {
            for (method, operation) in super::operations_of(item) {
                let names_record = path.contains("{id}") || path == "/api/carrier/code/{code}";
                let mut filled = path.replace("/code/{code}", &format!("/code/{}", goods::CODE));
                if filled.contains("{id}") {
                    filled = filled.replace("{id}", self.record(path));
                }
                filled = filled.replace("{image}", &self.goods.image);
                filled = filled.replace("{service}", "inbound_localisation_check");
                filled = filled.replace("{code}", "gone").replace("{file}", "docs.css");
                filled = filled.replace("{span}", "hour");
                filled = filled.replace("{name}", "lane").replace("{organisation}", &self.ids[&1]);
                assert!(!filled.contains('{'), "{path}");
                let bodies = operation["requestBody"]["content"].as_object().into_iter().flatten();
                let demanded = operation.get("security").unwrap_or(&self.document["security"]);
                let roles = demanded.as_array().unwrap().first();
                let roles = roles.map(|r| serde_json::from_value(r["accessToken"].clone()).unwrap());
                found.push(Operation {
                    id: operation["operationId"].as_str().unwrap().to_owned(),
                    method: method.to_uppercase().parse().unwrap(),
                    path: filled,
                    query: query_of(&self.document, operation),
                    names_record,
                    roles: roles.unwrap_or_default(),
                    bodies: bodies
                        .map(|(media, c)| (media.clone(), c["schema"].clone(), example(&self.document, c)))
                        .collect(),
                    is_body_optional: operation["requestBody"].is_object()
                        && operation["requestBody"]["required"] != true,
                    answers: {
                        let described = operation["responses"].as_object().unwrap();
                        let default = described.get("default").into_iter().flat_map(|_| refusals.clone());
                        described.keys().cloned().chain(default).collect()
                    },
                });
            }
        }
        found
    }

    /// Resolves a schema that may be a reference.
    pub fn schema<'s>(&'s self, schema: &'s Value) -> &'s Value {
        match schema["$ref"].as_str() {
            Some(reference) => self.document.pointer(reference.strip_prefix('#').unwrap()).unwrap(),
            None => schema,
        }
    }

    /// Sends the example of a form of the body, or no body if there is none.
    pub async fn call(&self, token: &str, operation: &Operation, form: usize) -> Reply {
        let is_csv = operation.bodies.get(form).is_some_and(|(media, ..)| media == "text/csv");
        let query = if is_csv || operation.method == Method::GET {
            format!("?{}", operation.query)
        } else {
            String::new()
        };
        let mut request = http::Request::builder()
            .method(operation.method.clone())
            .uri(format!("{}{query}", operation.path))
            .header("authorization", format!("Bearer {token}"));
        // there is no worker to end a job
        if operation.answers.contains(&"202".to_owned()) {
            request = request.header("prefer", "respond-async");
        }
        let body = match operation.bodies.get(form) {
            Some((media, _, example)) => {
                let (media, body) = if media == "multipart/form-data" {
                    goods::form(example)
                } else {
                    (media.clone(), example.as_str().map_or_else(|| example.to_string(), str::to_owned))
                };
                request = request.header("content-type", media);
                body
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
