//! Authentication: logins, and tokens for connectors and scripts.

use chrono::DateTime;
use longshore_domain::account as accounts;
use longshore_domain::account::second_factor::RECOVERY_CODES;
use longshore_domain::account::session::FRESH;
use longshore_domain::list::fields::session::SESSION as SESSIONS;
use longshore_domain::list::fields::token::{ACCESS_TOKEN as TOKENS, ROLES};
use serde_json::{Value, json};

use super::super::example::{ADMIN, CHANGED, CREATED, ESHOP, ORGANISATION, SESSION as SESSION_ID, TOKEN};
use super::super::operation::{JSON, Operation, list, operation, read};
use super::super::record::{self, Described};
use super::super::schema::{
    Said, Shape, any_integer, any_text, array_of, body_of, either, id, named, object, one_of, or_null,
    timestamp,
};
use crate::routes::account::{account, login, session, token};

/// The operations of authentication.
pub(super) fn operations() -> Vec<Operation> {
    let opened = json!({"token": "lsh_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", "exp": 1_769_904_000});
    let opens = |operation: Operation| {
        operation.schema("Login", opened_schema()).answers(
            200,
            "The token and its expiry time.",
            named("Login"),
            Some(opened.clone()),
        )
    };
    let logs_in = |operation: Operation, login: &str| {
        let example = json!({"login": login, "password": "correct horse"});
        opens(operation)
            .says("JSON with any `Content-Type`, or a form. With a second factor, a login without its `code` is refused with 401 `code_required`.")
            .says("After several failures, attempts for the account or from the address are refused with 429.")
            .body("Credentials", credentials(), example)
    };
    let mut operations = own();
    operations.extend([
        logs_in(operation(login::login_admin, "Logs an admin in"), "jana@harbour.example"),
        logs_in(
            operation(login::login_user, "Logs a business user in"),
            "petr@harbour.example",
        ),
        opens(operation(login::refresh_token, "Refreshes a token"))
            .says("Only for login tokens; others get 403. The old token expires one minute later. A session lasts at most 7 days.")
            .says("The token can also be sent in the body, without an `Authorization` header.")
            .body(
                "TokenToRefresh",
                body_of(&accounts::login::body_to_refresh())
                    .about("The token, if it is not sent in the `Authorization` header.")
                    .explain(&[("refresh_token", "The token to replace.")]),
                json!({}),
            ),
        operation(login::logout, "Logs out")
            .says("Ends the session of the token. Tokens that were not issued by a login get 403.")
            .done(),
        list(session::list_sessions, &SESSION, "Lists sessions")
            .says("Returns the caller's active sessions. A superadmin sees the sessions of all accounts."),
        operation(session::end_session, "Ends a session")
            .says("Ends one of the caller's sessions; a superadmin can end any session. Its tokens stop working within seconds.")
            .done(),
        operation(token::create_access_token, "Creates an access token")
            .says("The response contains the `token`. It is shown once: no replayed response has it.")
            .says("A token cannot have a wider role or scope than the caller: 403.")
            .says(&format!(
                "With the token of a login that was more than {} minutes ago, the password or a code of the second factor is required. A wrong one is refused with 400 and counts as a failed login.",
                FRESH.num_minutes()
            ))
            .body(
                "AccessTokenToCreate",
                to_create(),
                json!({
                    "name": "connector", "role": "connector", "organisation": ORGANISATION, "eshop": ESHOP,
                    "expiresAt": "2086-01-31T12:00:00+00:00",
                }),
            )
            .created(&ACCESS_TOKEN)
            .schema("AccessTokenCreated", created())
            .answers(
                201,
                "The new access token, with its value.",
                named("AccessTokenCreated"),
                Some(shown_with_token()),
            )
            .with(&["ETag", "Location"]),
        list(token::list_access_tokens, &ACCESS_TOKEN, "Lists access tokens")
            .says("Tokens issued by a login are not included. Those that were revoked are: `revokedAt` tells them apart."),
        // the record of a revoked token stays
        read(token::get_access_token, &ACCESS_TOKEN, "Reads an access token").never(&[410]),
        operation(token::delete_access_token, "Revokes an access token")
            .says("The token, and all tokens created with it, stop working within seconds. Their records stay for as long as the audit of what they did. Nothing changes of a token that is revoked.")
            .done()
            .never(&[410]),
    ]);
    operations
}

/// The caller's own account.
fn own() -> Vec<Operation> {
    let code = || json!({"code": "492039"});
    let of_login = |operation: Operation| operation.says("Only for login tokens; others get 403.");
    vec![
        of_login(operation(account::change_password, "Changes the caller's password"))
            .says("The other sessions of the account end, and, with `tokens`, the access tokens that it has created. A wrong `password` is refused with 400 `wrong_password` and counts as a failed login.")
            .body(
                "PasswordChange",
                body_of(&accounts::own::password_change())
                    .about("The current password and the new one.")
                    .explain(&[
                        ("newPassword", "The new password. Simple ones are refused."),
                        ("tokens", "Whether the access tokens that the account has created end, too."),
                    ]),
                json!({"password": "correct horse", "newPassword": "correct horse battery", "tokens": false}),
            )
            .schema("TokenLeft", token_left())
            .schema("TokensLeft", tokens_left())
            .answers(
                200,
                "The access tokens that live on.",
                named("TokensLeft"),
                Some(json!({
                    "tokens": [{"id": TOKEN, "name": "connector", "role": "connector", "organisation": ORGANISATION,
                                "expiresAt": "2086-01-31T12:00:00.000000+00:00"}],
                    "countOfTokens": 1,
                })),
            )
            .refuses(&[403]),
        of_login(operation(account::set_up_totp, "Sets up a second factor for the caller"))
            .says("The second factor is active after `PUT` has confirmed it with a code. 409 if the account already has one.")
            .says(&format!(
                "The password is required if the login was more than {} minutes ago. A wrong one is refused with 400 `wrong_password` and counts as a failed login.",
                FRESH.num_minutes()
            ))
            .body(
                "SecondFactorToSetUp",
                body_of(&accounts::second_factor::body_to_set_up())
                    .about("The password, or nothing shortly after the login.")
                    .explain(&[("password", "The current password of the account.")]),
                json!({"password": "correct horse"}),
            )
            .schema(
                "SecondFactor",
                object()
                    .about("A secret for an authenticator (RFC 6238: SHA-1, 30 s, six digits).")
                    .required("secret", any_text())
                    .required("uri", any_text())
                    .explain(&[("secret", "The secret in base 32. It is shown only once."), ("uri", "The secret as an `otpauth:` URI, for a QR code.")]),
            )
            .answers(
                200,
                "The secret of the second factor.",
                named("SecondFactor"),
                Some(json!({
                    "secret": "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ",
                    "uri": "otpauth://totp/Longshore:jana%40harbour.example?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Longshore",
                })),
            )
            .refuses(&[409]),
        of_login(operation(account::switch_on_totp, "Activates the caller's second factor"))
            .says("From now on, a login needs a `code` in addition to the password. A wrong code is refused with 400 `wrong_code`.")
            .body("SecondFactorCode", code_body(), code())
            .schema(
                "RecoveryCodeList",
                object()
                    .about("Codes for logging in without the authenticator. Each can be used once.")
                    .required("recoveryCodes", array_of(any_text())),
            )
            .answers(
                200,
                "The recovery codes. They are shown only once.",
                named("RecoveryCodeList"),
                Some(json!({"recoveryCodes": vec!["0f3a9-61c02-b7d54-8e91a"; RECOVERY_CODES]})),
            )
            .refuses(&[409]),
        of_login(operation(account::remove_totp, "Removes the caller's second factor"))
            .form(JSON, named("SecondFactorCode"), Some(code()))
            .done(),
    ]
}

/// A token that a change of the password leaves.
fn token_left() -> Shape {
    object()
        .about("A valid access token that the account has created, or that was created with one of these.")
        .required("id", id())
        .required("name", any_text())
        .required("role", one_of(ROLES))
        .required("organisation", or_null(id()))
        .required("expiresAt", or_null(timestamp()))
}

fn tokens_left() -> Shape {
    object()
        .about("The access tokens that live on after a change of the password.")
        .required("tokens", array_of(named("TokenLeft")))
        .required("countOfTokens", any_integer())
        .explain(&[("tokens", "The newest 100."), ("countOfTokens", "How many there are.")])
}

fn code_body() -> Shape {
    body_of(&accounts::second_factor::body()).about("A code of the second factor.").explain(&[(
        "code",
        "A code from the authenticator. To remove the second factor, a recovery code works too.",
    )])
}

/// An account, by either of two names of the same field, with its password.
fn credentials() -> Said {
    let by = |name: &'static str| {
        body_of(&accounts::login::credentials(name)).explain(&[
            (name, "The e-mail address of the account."),
            (
                "code",
                "A code from the authenticator or a recovery code. Required if the account has a second factor.",
            ),
        ])
    };
    either([by("login").called("CredentialsByLogin"), by("email").called("CredentialsByEmail")])
}

fn opened_schema() -> Shape {
    object()
        .about("A token with the rights of the account.")
        .required("token", any_text())
        .required("exp", any_integer())
        .explain(&[
            ("token", "The token, for `Authorization: Bearer`."),
            ("exp", "When the token expires, in Unix seconds."),
        ])
}

fn to_create() -> Shape {
    body_of(&accounts::token::issue::body_to_create(DateTime::UNIX_EPOCH))
        .about("An access token to create.")
        .explain(MEANINGS)
        .explain(&[
            ("password", "The password of the account, where the login was not moments ago."),
            ("code", "Instead of it, a code of the second factor."),
        ])
}

fn created() -> Shape {
    record::members(&ACCESS_TOKEN)
        .optional("token", any_text())
        .optional("notice", any_text())
        .explain(&[
            ("token", "The token, for `Authorization: Bearer`. It is shown only once."),
            ("notice", "Says that `expiresAt` is earlier than asked for, where it is: that of the token that creates it."),
        ])
}

fn shown_with_token() -> Value {
    let mut shown = (ACCESS_TOKEN.example)();
    shown["token"] = json!("lsh_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8");
    shown
}

const MEANINGS: &[(&str, &str)] = &[
    ("name", "A name that says what the token is for."),
    ("role", "What the token may do."),
    (
        "organisation",
        "The organisation whose records the token can see. Absent for `superadmin` and `viewer`, which see everything.",
    ),
    ("eshop", "Limits a `connector` to one e-shop of the organisation."),
    (
        "replaces",
        "Instead of the role and what it is of: the token of a connector, whose webhooks and readers the new one takes over.",
    ),
    ("wms", "The wms that a `warehouse` is the program of. Its organisation is that of the wms."),
    (
        "expiresAt",
        "When the token expires. The default is one year; null means never. It cannot be later than the expiry of the token that creates it.",
    ),
    (
        "createdBy",
        "The account or token that created the token, with its name at that time. The token ends when its creator does.",
    ),
    (
        "revokedAt",
        "When the token was revoked, or stopped working with its creator. Null for one that was not.",
    ),
    ("revokedBy", "Who revoked the token, with the name at that time."),
    ("lastUsedAt", "Accurate to the minute."),
];

/// Sessions.
pub(in super::super) const SESSION: Described = Described {
    resource: &SESSIONS,
    about: "A login and its refreshes, until it ends.",
    fields: &[
        ("account", "The account that logged in."),
        ("address", "The IP address of the login."),
        ("userAgent", "The `User-Agent` of the client."),
        ("createdAt", "When the account logged in."),
        ("lastUsedAt", "Accurate to the minute."),
        ("expiresAt", "When the session ends if it is not refreshed."),
        ("endsAt", "When the session ends at the latest."),
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
    about: "A token of a connector or script, with a role and a scope. Its value is never shown again.",
    fields: MEANINGS,
    shapes: &[],
    example: || {
        json!({
            "id": TOKEN, "name": "connector", "role": "connector", "organisation": ORGANISATION, "eshop": ESHOP,
            "wms": null, "expiresAt": null, "createdBy": {"type": "admin", "id": ADMIN, "name": "Jana Novotná"},
            "revokedAt": null, "revokedBy": null, "lastUsedAt": null, "createdAt": CREATED, "changedAt": CHANGED, "version": 3,
        })
    },
};
