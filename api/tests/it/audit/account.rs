//! Audit records of operations on organisations, e-shops, accounts and tokens.

use serde_json::{Value, json};
use totp_rs::{Builder, Secret};

use super::Leaves::{Job, Login, Record};
use super::{Case, Leaves};
use crate::product::id;
use crate::stock_advice::World;

/// A case for each operation.
pub(super) async fn cases(world: &World) -> Vec<Case> {
    let api = &world.api;
    let tenant = &api.tenant;
    let person = |name: &str| json!({"email": format!("{name}@example.com"), "firstName": name, "lastName": "Novak", "password": "hush-hush-word"});
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
    let credentials =
        |name: &str| json!({"login": format!("{name}@example.com"), "password": "hush-hush-word"});
    let login = async |name: &str| {
        let reply = api.post("", "/api/login/admin", credentials(name)).await.expect(200).json();
        reply["token"].as_str().unwrap().to_owned()
    };
    let (refreshed, left) = (login("jana").await, login("jana").await);
    let seen =
        api.post(&login("jana").await, "/api/session/list", json!({"limit": 3})).await.expect(200).json();
    let session = id(&seen["results"][2]);

    let factor = async |name: &str| {
        add("/api/admin", admin(name)).await;
        let token = login(name).await;
        let shown = api.post(&token, "/api/account/totp", Value::Null).await.expect(200).json();
        let secret = Secret::try_from_base32(shown["secret"].as_str().unwrap()).unwrap();
        let totp = Builder::new().with_secret(secret).build().unwrap();
        let now = u64::try_from(api.services.clock.now().timestamp()).unwrap();
        (token, json!({"code": totp.generate(now).to_string()}))
    };
    let (setting_up, switching_on) = (factor("tom").await, factor("tim").await);
    let (removing, lost) = (factor("tia").await, factor("ted").await);
    let codes = api.put(&removing.0, "/api/account/totp", removing.1).await.expect(200).json();
    let recovery = json!({"code": codes["recoveryCodes"][0]});
    let ted = api.post(&lost.0, "/api/session/list", json!({"limit": 1})).await.expect(200).json();
    let ted = ted["results"][0]["account"]["id"].as_str().unwrap().to_owned();
    let changing = factor("tea").await.0;
    let wish = json!({"password": "hush-hush-word", "newPassword": "hush-other-word"});

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
        case("PUT /api/account/password", "", wish, Login { token: changing, action: "admin.password" }),
        case(
            "POST /api/account/totp",
            "",
            none.clone(),
            Login { token: setting_up.0, action: "admin.totp_set_up" },
        ),
        case(
            "PUT /api/account/totp",
            "",
            switching_on.1,
            Login { token: switching_on.0, action: "admin.totp_on" },
        ),
        case("DELETE /api/account/totp", "", recovery, Login { token: removing.0, action: "admin.totp_off" }),
        case("DELETE /api/admin/{id}/totp", &ted, none.clone(), Record("admin.totp_off")),
        case("PUT /api/business-user/{id}", &eva, json!({"phone": "1"}), Record("business_user.update")),
        case(
            "PUT /api/business-user/deactivate/{id}",
            &eva,
            none.clone(),
            Record("business_user.deactivate"),
        ),
        case("PUT /api/business-user/activate/{id}", &eva, none.clone(), Record("business_user.activate")),
        case("DELETE /api/session/{id}", &session, none.clone(), Record("session.end")),
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
