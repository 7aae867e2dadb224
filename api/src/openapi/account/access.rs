//! How one comes in: logins, and tokens for connectors and scripts.

use longshore_shared::account::token::fields::ACCESS_TOKEN as TOKENS;
use longshore_shared::account::token::issue::ROLES;
use serde_json::{Value, json};

use super::super::example::{CHANGED, CREATED, ESHOP, ORGANISATION, TOKEN};
use super::super::operation::{Operation, delete, list, post, read};
use super::super::record::{self, Described};
use super::super::schema::{
    Said, Shape, any_integer, any_of, any_text, id, named, object, one_of, text, timestamp,
};
use crate::routes::account::{login, token};

const SECTION: &str = "decisions, section 3";

/// Operations of who comes in.
pub(super) fn operations() -> Vec<Operation> {
    let opened = json!({"token": "lsh_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", "exp": 1_769_904_000});
    let opens = |operation: Operation| {
        operation.section(SECTION).schema("Login", opened_schema()).answers(
            200,
            "The token, and when it ends.",
            named("Login"),
            Some(opened.clone()),
        )
    };
    let logs_in = |operation: Operation, login: &str| {
        let example = json!({"login": login, "password": "correct horse"});
        opens(operation)
            .says(
                "A wrong login is the same 401 whether or not there is such an account. An account has 10 attempts in 5 \
                 minutes, an address 100.",
            )
            .body("Credentials", credentials(), example)
            .refuses(&[401, 429])
    };
    vec![
        logs_in(post("/api/login/admin", login::login_admin, "Logs an admin in"), "jana@harbour.example"),
        logs_in(
            post("/api/login/user", login::login_user, "Logs a business user in"),
            "petr@harbour.example",
        ),
        opens(post("/api/refresh-token", login::refresh_token, "Changes a token for another"))
            .says("For tokens of logins, others are 403. The old token is good to its own end.")
            .refuses(&[403]),
        post("/api/logout", login::logout, "Revokes the token of a login")
            .says("The one that is shown; tokens of no login are 403.")
            .section(SECTION)
            .done()
            .refuses(&[403]),
        post("/api/access-token", token::create_access_token, "Creates an access token")
            .says("The answer holds the `token`, this once: a repeated answer is without it.")
            .says("Nobody gives a token more than its own role and scope: 403.")
            .section(SECTION)
            .body(
                "AccessTokenToCreate",
                to_create(),
                json!({
                    "name": "connector", "role": "connector", "organisation": ORGANISATION, "eshop": ESHOP,
                    "expiresAt": "2086-01-31T12:00:00+00:00",
                }),
            )
            .created(&TOKENS)
            .schema("AccessTokenCreated", created())
            .answers(
                201,
                "The new token, which is shown.",
                named("AccessTokenCreated"),
                Some(shown_with_token()),
            )
            .with(&["ETag", "Location"]),
        list("/api/access-token/list", token::list_access_tokens, &TOKENS, "Lists access tokens")
            .says("Without those of logins."),
        read("/api/access-token/{id}", token::get_access_token, &TOKENS, "Reads an access token")
            .section(SECTION)
            .refuses(&[410]),
        delete("/api/access-token/{id}", token::delete_access_token, "Deletes an access token")
            .says("It opens nothing any more, everywhere within seconds.")
            .section(SECTION)
            .done()
            .refuses(&[410]),
    ]
}

/// An account by either name of the same field, with its password.
fn credentials() -> Said {
    let by = |name: &str| {
        let shape = object().required(name, text(1..=255)).required("password", text(1..=255));
        Said::from(shape.explain(&[(name, "The e-mail address of the account.")]))
    };
    any_of(["login", "email"].map(by))
}

fn opened_schema() -> Shape {
    object()
        .about("A token that stands for the account: what the account may do, it may.")
        .required("token", any_text())
        .required("exp", any_integer())
        .explain(&[("token", "For `Authorization: Bearer`."), ("exp", "When it ends, in unix seconds.")])
}

fn to_create() -> Shape {
    object()
        .about("An access token as it is wanted.")
        .required("name", text(1..=255))
        .required("role", one_of(ROLES))
        .nullable("organisation", id())
        .nullable("eshop", id())
        .nullable("expiresAt", timestamp())
        .explain(MEANINGS)
}

fn created() -> Shape {
    record::record(&TOKENS)
        .optional("token", any_text())
        .explain(&[("token", "For `Authorization: Bearer`; shown this once.")])
}

fn shown_with_token() -> Value {
    let mut shown = (ACCESS_TOKEN.example)();
    shown["token"] = json!("lsh_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8");
    shown
}

const MEANINGS: &[(&str, &str)] = &[
    ("name", "What it is for."),
    ("role", "What it may do."),
    ("organisation", "Whose records; absent for `superadmin` and `viewer`, who see everything."),
    ("eshop", "One e-shop of the organisation, for a `connector`."),
    ("expiresAt", "When it ends, in the future; without it, never."),
    ("createdBy", "Who created it, by the name of that time."),
];

/// Access tokens.
pub(in super::super) const ACCESS_TOKEN: Described = Described {
    resource: &TOKENS,
    about: "A token with a role and a scope of its own; what it is itself is never shown again.",
    fields: MEANINGS,
    shapes: &[],
    example: || {
        json!({
            "id": TOKEN, "name": "connector", "role": "connector", "organisation": ORGANISATION, "eshop": ESHOP,
            "expiresAt": null, "createdBy": "Jana Novotná", "createdAt": CREATED, "changedAt": CHANGED,
        })
    },
};
