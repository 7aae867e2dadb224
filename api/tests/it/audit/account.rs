//! What the operations on organisations, e-shops, accounts and tokens leave in the audit.

use serde_json::{Value, json};

use super::Leaves::{Job, Login, Record};
use super::{Case, Leaves};
use crate::product::id;
use crate::stock_advice::World;

/// A case for each of them.
pub(super) async fn cases(world: &World) -> Vec<Case> {
    let api = &world.api;
    let tenant = &api.tenant;
    let person = |name: &str| json!({"email": format!("{name}@example.com"), "firstName": name, "lastName": "Novak", "password": "hush-word"});
    let admin = |name: &str| {
        let mut body = person(name);
        body["role"] = json!("admin");
        body
    };
    let user = |name: &str| {
        let mut body = person(name);
        body["organisation"] = json!(tenant.organisation);
        body
    };
    let token = || json!({"name": "script", "role": "connector", "organisation": tenant.organisation});
    let add =
        async |path: &str, body: Value| id(&api.post(&api.superadmin, path, body).await.expect(201).json());
    let jana = add("/api/admin", admin("jana")).await;
    let gone = add("/api/admin", admin("gone")).await;
    let eva = add("/api/business-user", user("eva")).await;
    let script = add("/api/access-token", token()).await;
    let credentials = |name: &str| json!({"login": format!("{name}@example.com"), "password": "hush-word"});
    let login = async |name: &str| {
        let reply = api.post("", "/api/login/admin", credentials(name)).await.expect(200).json();
        reply["token"].as_str().unwrap().to_owned()
    };
    let (refreshed, left) = (login("jana").await, login("jana").await);

    let case = |operation: &'static str, of: &str, body: Value, leaves: Leaves| {
        let path = operation.split_once(' ').unwrap().1.replace("{id}", of);
        let path = path.replace("{organisation}", &tenant.organisation.to_string());
        Case { operation, path, body, leaves }
    };
    let (organisation, eshop) = (tenant.organisation.to_string(), tenant.eshop.to_string());
    let renamed = || json!({"name": "Renamed"});
    let none = Value::Null;
    let ids = || json!([jana]);
    vec![
        case(
            "POST /api/organisation",
            "",
            json!({"name": "Third", "primaryCountry": "CZ"}),
            Record("organisation.create"),
        ),
        case("PUT /api/organisation/{id}", &organisation, renamed(), Record("organisation.update")),
        case(
            "POST /api/eshop",
            "",
            json!({"name": "Second", "organisation": tenant.organisation}),
            Record("eshop.create"),
        ),
        case("PUT /api/eshop/{id}", &eshop, renamed(), Record("eshop.update")),
        case("POST /api/login/admin", "", credentials("jana"), Record("access_token.login")),
        case("POST /api/login/user", "", credentials("eva"), Record("access_token.login")),
        case(
            "POST /api/refresh-token",
            "",
            none.clone(),
            Login { token: refreshed, action: "access_token.refresh" },
        ),
        case("POST /api/logout", "", none.clone(), Login { token: left, action: "access_token.logout" }),
        case("POST /api/access-token", "", token(), Record("access_token.create")),
        case("DELETE /api/access-token/{id}", &script, none.clone(), Record("access_token.delete")),
        case("POST /api/admin", "", admin("lucie"), Record("admin.create")),
        case("PUT /api/admin/{id}", &jana, json!({"password": "hush-another"}), Record("admin.update")),
        case("PUT /api/admin/deactivate/{id}", &jana, none.clone(), Record("admin.deactivate")),
        case("PUT /api/admin/activate/{id}", &jana, none.clone(), Record("admin.activate")),
        case(
            "PUT /api/admin/{id}/preferences",
            &jana,
            json!({"language": "cs"}),
            Record("admin.preferences"),
        ),
        case(
            "PUT /api/admin/{id}/organisation/{organisation}",
            &jana,
            none.clone(),
            Record("admin.organisation_add"),
        ),
        case(
            "DELETE /api/admin/{id}/organisation/{organisation}",
            &jana,
            none.clone(),
            Record("admin.organisation_remove"),
        ),
        case("PUT /api/admin/activate", "", ids(), Job),
        case("PUT /api/admin/deactivate", "", ids(), Job),
        case("PUT /api/admin/delete", "", ids(), Job),
        case("DELETE /api/admin/{id}", &gone, none.clone(), Record("admin.delete")),
        case("POST /api/business-user", "", user("petr"), Record("business_user.create")),
        case("DELETE /api/business-user/{id}", &eva, none, Record("business_user.delete")),
    ]
}
