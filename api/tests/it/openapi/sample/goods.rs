//! The goods of the examples: suppliers, carriers, packaging and images.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use http::Method;
use serde_json::{Value, json};

use crate::support::Api;

/// Its records.
pub struct Goods {
    /// The id of the record for `{id}`, by the resource in the path.
    pub ids: BTreeMap<&'static str, String>,
    /// The image of the product.
    pub image: String,
}

/// The code of the carrier; the example of a new one uses another.
pub const CODE: &str = "7";

/// Creates the records from the examples of the document, and replaces the ids of the examples by theirs.
pub async fn make(api: &Api, product: &str, document: &mut String) -> Goods {
    let mut ids: BTreeMap<&str, String> = BTreeMap::new();
    let makes: [(&str, &str, &str, u32, Value); 11] = [
        ("supplier", "post", "/api/supplier", 0x20, json!({})),
        ("stock-advice", "post", "/api/stock-advice", 0x21, json!({"internalId": "sample"})),
        ("packaging-option", "post", "/api/packaging-option", 0x23, json!({"code": "sample"})),
        ("image", "put", "/api/product/{id}/image/upload", 0x24, json!({})),
        ("carrier", "post", "/api/carrier", 0x25, json!({"code": 7})),
        ("carrier-service", "post", "/api/carrier-service", 0x26, json!({"code": 7})),
        // the example of a new one uses another position
        ("carrier-preference", "post", "/api/carrier-preference", 0x2b, json!({"position": 1})),
        ("expedition", "post", "/api/expedition", 0x28, json!({"orderNumber": "sample", "send": false})),
        ("invoice", "post", "/api/expedition/{id}/invoice", 0x2c, json!({})),
        ("setting", "post", "/api/partner-integration/eshop-setting/{id}", 0x27, json!({})),
        ("wms-setting", "post", "/api/partner-integration/wms-setting/{id}", 0, json!({"active": false})),
    ];
    for (name, method, path, number, other) in makes {
        let described: Value = serde_json::from_str(document).unwrap();
        let content = &described["paths"][path][method]["requestBody"]["content"];
        let mut body = content["application/json"]["example"].clone();
        body.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
        let id = match name {
            "image" => product.to_owned(),
            "invoice" => ids["expedition"].clone(),
            "setting" => api.tenant.eshop.to_string(),
            "wms-setting" => api.tenant.wms.to_string(),
            _ => String::new(),
        };
        let method: Method = method.to_uppercase().parse().unwrap();
        let reply = api.call_with(&api.superadmin, method, &path.replace("{id}", &id), body, &[]).await;
        assert!(reply.status.is_success(), "{path}: {}", reply.text);
        let made = reply.json();
        if name == "invoice" {
            // it has no id of its own
            continue;
        }
        let mut is = |number: u32, id: &Value| {
            let placeholder = format!("0192a1b2-7000-7000-8000-{number:012x}");
            *document = document.replace(&placeholder, id.as_str().unwrap());
        };
        if name == "wms-setting" {
            // its id is that of its wms
            ids.insert(name, api.tenant.wms.to_string());
            continue;
        }
        is(number, &made["id"]);
        match name {
            "stock-advice" => is(0x22, &made["items"][0]["id"]),
            "expedition" => is(0x29, &made["items"][0]["id"]),
            _ => {}
        }
        ids.insert(name, made["id"].as_str().unwrap().to_owned());
    }
    let image = ids.remove("image").unwrap();
    Goods { ids, image }
}

/// The body of a form with one file, and its media type.
pub fn form(example: &Value) -> (String, String) {
    let mut body = String::new();
    for (name, text) in example.as_object().unwrap() {
        let head = format!("Content-Disposition: form-data; name=\"{name}\"; filename=\"{name}\"");
        write!(body, "--lines\r\n{head}\r\n\r\n{}\r\n", text.as_str().unwrap()).unwrap();
    }
    ("multipart/form-data; boundary=lines".to_owned(), body + "--lines--\r\n")
}
