//! Authentication: logins, and tokens for connectors and scripts.

use longshore_shared::account::person::PASSWORD_LENGTH;
use longshore_shared::account::second_factor::{CODE_LENGTH, RECOVERY_CODES};
use longshore_shared::list::fields::session::SESSION as SESSIONS;
use longshore_shared::list::fields::token::ACCESS_TOKEN as TOKENS;
use longshore_shared::list::fields::token::ROLES;
use serde_json::{Value, json};

use super::super::example::{ADMIN, CHANGED, CREATED, ESHOP, ORGANISATION, SESSION as SESSION_ID, TOKEN};
use super::super::operation::{JSON, Operation, delete, list, post, put, read};
use super::super::record::{self, Described};
use super::super::schema::{
    Said, Shape, any_integer, any_text, array_of, either, id, named, object, one_of, text, timestamp,
};
use crate::routes::account::{account, login, session, token};

/// The operations of authentication.
pub(super) fn operations() -> Vec<Operation> {
    let opened = json!({"token": "lsh_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", "exp": 1_769_904_000});
    let opens = |operation: Operation| {
        operation.schema("Login", opened_schema()).answers(
            200,
            "The token, and when it ends.",
            named("Login"),
            Some(opened.clone()),
        )
    };
    let logs_in = |operation: Operation, login: &str| {
        let example = json!({"login": login, "password": "correct horse"});
        opens(operation)
            .says("The body is JSON with any `Content-Type`, or the fields of a form.")
            .says("Where the account has a second factor, a login without its `code` is 401 `code_required`.")
            .says(
                "A wrong login is the same 401 whether or not there is such an account. After some wrong ones, attempts on an \
                 account, and those from an address, have to wait: 429 with `Retry-After`.",
            )
            .body("Credentials", credentials(), example)
            .refuses(&[401, 429])
    };
    let mut operations = own();
    operations.extend([
        logs_in(post("/api/login/admin", login::login_admin, "Logs an admin in"), "jana@harbour.example"),
        logs_in(
            post("/api/login/user", login::login_user, "Logs a business user in"),
            "petr@harbour.example",
        ),
        opens(post("/api/refresh-token", login::refresh_token, "Changes a token for another"))
            .says("For tokens of logins, others are 403. The old token ends a minute later; the login lasts 7 days at most.")
            .says("The token may also come in the body, without an `Authorization` header.")
            .body(
                "TokenToRefresh",
                object()
                    .about("Where the token does not come in the `Authorization` header.")
                    .nullable("refresh_token", text(1..=255))
                    .explain(&[("refresh_token", "The token that is changed for another.")]),
                json!({}),
            )
            .refuses(&[403]),
        post("/api/logout", login::logout, "Logs out")
            .says("The session of the token that is shown ends; tokens of no login are 403.")
            .done()
            .refuses(&[403]),
        list("/api/session/list", session::list_sessions, &SESSIONS, "Lists sessions")
            .says("One's own that are not over; a superadmin sees everybody's."),
        delete("/api/session/{id}", session::end_session, "Ends a session")
            .says("One's own; a superadmin ends anybody's. Its tokens open nothing any more, everywhere within seconds.")
            .done()
            .refuses(&[410]),
        post("/api/access-token", token::create_access_token, "Creates an access token")
            .says("The answer holds the `token`, this once: a repeated answer is without it.")
            .says("Nobody gives a token more than its own role and scope: 403.")
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
            .refuses(&[410]),
        delete("/api/access-token/{id}", token::delete_access_token, "Deletes an access token")
            .says("It and those that it made open nothing any more, everywhere within seconds.")
            .done()
            .refuses(&[410]),
    ]);
    operations
}

/// The caller's own account.
fn own() -> Vec<Operation> {
    let code = || json!({"code": "492039"});
    let of_login = |operation: Operation| operation.says("For tokens of logins, others are 403.");
    vec![
        of_login(put("/api/account/password", account::change_password, "Changes one's own password"))
            .says("The other sessions end. A wrong `password` is 400 `wrong_password`, and counts as a wrong login does.")
            .body(
                "PasswordChange",
                object()
                    .about("The present password, and the one that is wanted.")
                    .required("password", text(1..=255))
                    .required("newPassword", text(PASSWORD_LENGTH))
                    .explain(&[("newPassword", "None of the most common ones.")]),
                json!({"password": "correct horse", "newPassword": "correct horse battery"}),
            )
            .done()
            .refuses(&[403]),
        of_login(post("/api/account/totp", account::set_up_totp, "Sets up one's own second factor"))
            .says("It counts once a code of it was shown by `PUT`. Where there is one already: 409.")
            .schema(
                "SecondFactor",
                object()
                    .about("A secret for an authenticator (RFC 6238: SHA-1, 30 s, six digits).")
                    .required("secret", any_text())
                    .required("uri", any_text())
                    .explain(&[("secret", "In base 32; shown this once."), ("uri", "The same as `otpauth:`.")]),
            )
            .answers(
                200,
                "The secret.",
                named("SecondFactor"),
                Some(json!({
                    "secret": "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ",
                    "uri": "otpauth://totp/Longshore:jana%40harbour.example?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Longshore",
                })),
            )
            .refuses(&[403, 409]),
        of_login(put("/api/account/totp", account::switch_on_totp, "Switches one's own second factor on"))
            .says("From now on, a login takes a `code` beside the password. A wrong one here is 400 `wrong_code`.")
            .body("SecondFactorCode", code_body(), code())
            .schema(
                "RecoveryCodeList",
                object()
                    .about("What lets one in without the authenticator, each once.")
                    .required("recoveryCodes", array_of(any_text())),
            )
            .answers(
                200,
                "The recovery codes, this once.",
                named("RecoveryCodeList"),
                Some(json!({"recoveryCodes": vec!["0f3a9-61c02-b7d54-8e91a"; RECOVERY_CODES]})),
            )
            .refuses(&[403, 409]),
        of_login(delete("/api/account/totp", account::remove_totp, "Removes one's own second factor"))
            .form(JSON, named("SecondFactorCode"), Some(code()))
            .done()
            .refuses(&[403, 404]),
    ]
}

fn code_body() -> Shape {
    object()
        .about("A code of the second factor.")
        .required("code", text(CODE_LENGTH))
        .explain(&[("code", "Of the authenticator; to remove it, a recovery code will do.")])
}

/// An account, by either of two names of the same field, with its password.
fn credentials() -> Said {
    let by = |name: &str| {
        let shape = object().required(name, text(1..=255)).required("password", text(1..=255));
        shape.nullable("code", text(CODE_LENGTH)).explain(&[
            (name, "The e-mail address of the account."),
            (
                "code",
                "Of the second factor, where the account has one: of the authenticator, or a recovery code.",
            ),
        ])
    };
    either([by("login").called("CredentialsByLogin"), by("email").called("CredentialsByEmail")])
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
    ("expiresAt", "When it ends: without it, in a year; null: never. No later than the token that makes it."),
    ("createdBy", "Who made it, with the name of that time: it ends with that account or token."),
    ("lastUsedAt", "To the minute."),
];

/// Sessions.
pub(in super::super) const SESSION: Described = Described {
    resource: &SESSIONS,
    about: "What a login has opened, and its refreshes carry on.",
    fields: &[
        ("account", "Who has logged in."),
        ("address", "Where the login came from."),
        ("userAgent", "What the client said it is."),
        ("createdAt", "The login."),
        ("lastUsedAt", "To the minute."),
        ("expiresAt", "When it ends unless it is refreshed before."),
        ("endsAt", "When it ends at the latest."),
    ],
    shapes: &[],
    example: || {
        json!({
            "id": SESSION_ID, "account": {"type": "admin", "id": ADMIN, "name": "Jana Novotná"},
            "address": "198.51.100.7", "userAgent": "Mozilla/5.0", "createdAt": CREATED,
            "lastUsedAt": "2026-01-31T12:30:00.000000+00:00", "expiresAt": "2026-02-01T00:00:00.000000+00:00",
            "endsAt": "2026-02-07T12:00:00.000000+00:00", "changedAt": CREATED, "version": 1,
        })
    },
};

/// Access tokens.
pub(in super::super) const ACCESS_TOKEN: Described = Described {
    resource: &TOKENS,
    about: "A token with a role and a scope of its own; what it is itself is never shown again.",
    fields: MEANINGS,
    shapes: &[],
    example: || {
        json!({
            "id": TOKEN, "name": "connector", "role": "connector", "organisation": ORGANISATION, "eshop": ESHOP,
            "expiresAt": null, "createdBy": {"type": "admin", "id": ADMIN, "name": "Jana Novotná"},
            "lastUsedAt": null, "createdAt": CREATED, "changedAt": CHANGED, "version": 3,
        })
    },
};
