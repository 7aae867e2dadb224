//! Settings of wms.

use longshore_domain::expedition::handover::setting::body;
use longshore_domain::partner::setting::body::FEED_TYPES;
use longshore_kernel::authentication;
use serde_json::{Value, json};

use super::setting::called_credentials;
use crate::openapi::example::{CHANGED, CREATED, EXPEDITION, ORGANISATION, WMS};
use crate::openapi::job::answers_job;
use crate::openapi::operation::{Operation, operation};
use crate::openapi::schema::{
    Shape, VERSION, any_integer, any_text, boolean, id, members, named, object, one_of, or_null, timestamp,
};
use crate::openapi::webhook::OF_AUTHENTICATION;
use crate::routes::partner::wms_setting;

/// The operations on settings of wms.
pub(super) fn operations() -> Vec<Operation> {
    let shown = || named("WmsSetting");
    vec![
        operation(wms_setting::get_wms_setting, "Reads the setting of a wms")
            .says("The id is the id of the wms. Credentials are masked, the secret is not shown. 422 if the stored credentials cannot be read.")
            .schema("WmsSetting", record())
            .answers(200, "The setting of the wms.", shown(), Some(example()))
            .with(&["ETag", "Location"])
            .refuses(&[422]),
        operation(wms_setting::store_wms_setting, "Stores the setting of a wms")
            .says(
                "Creates or replaces the whole setting: fields that are left out get their defaults. `***` in `credentials` keeps the stored value. The response that creates it contains the `secret` of its calls, which is shown only once. Orders that are `awaiting_processing` become due, except those that were created before `since`; `toHandOver` says how many.",
            )
            .body("WmsSettingToStore", to_store(), json!({
                "active": true, "paused": false, "baseUrl": "https://wms.example/api",
                "credentials": {"type": "bearer", "token": "a token of the warehouse"}, "maxInFlight": 8,
            }))
            .answers(200, "The setting of the wms after the change.", shown(), Some(example()))
            .with(&["ETag", "Location"])
            // a deleted setting comes back
            .never(&[410]),
        operation(wms_setting::delete_wms_setting, "Deletes the setting of a wms")
            .says("Orders that are handed over go on by hand. Reading the setting returns 410 until it is stored again.")
            .done(),
        operation(wms_setting::rotate_wms_secret, "Rotates the secret of a wms")
            .says(
                "The response contains the new `secret`. It is shown only once. The previous secret also signs for another 24 hours. Every call that starts after this response is signed with all valid secrets.",
            )
            .answers(200, "The setting of the wms, with its new secret.", shown(), Some(with_secret()))
            .with(&["ETag", "Location"])
            .refuses(&[409, 422]),
        answers_job(
            operation(wms_setting::test_wms_setting, "Tests the connection to the system of a warehouse"),
            "Sends a signed `GET` of an order that does not exist, with the stored credentials, and changes nothing. `connection` of the job says what happened. Also works while the setting is not active or paused.",
        ),
    ]
}

fn to_store() -> Shape {
    members(&body::schema())
        .about("A setting of a wms to store.")
        .part("credentials", |credentials| {
            credentials
                .explain(OF_AUTHENTICATION)
                .about("The credentials for calls to the warehouse.")
                .called("WmsCredentials")
        })
        .explain(MEANINGS)
}

fn record() -> Shape {
    let error = object()
        .required("at", timestamp())
        .required("message", any_text())
        .required("expedition", or_null(id()))
        .called("WmsFailure");
    object()
        .about("How the system of a warehouse is called.")
        .required("wms", id())
        .required("organisation", id())
        .required("active", boolean())
        .required("paused", boolean())
        .required("baseUrl", any_text())
        .required("credentials", called_credentials(members(&authentication::schema(FEED_TYPES, false))))
        .required("maxInFlight", any_integer())
        .required("since", or_null(timestamp()))
        .required("toHandOver", any_integer())
        .required("blockedUntil", or_null(timestamp()))
        .required("blockedBy", or_null(one_of(&["set_back"])))
        .required("lastError", or_null(error))
        .required("waiting", any_integer())
        .required("oldestWaitingSince", or_null(timestamp()))
        .required("createdAt", timestamp())
        .required("changedAt", timestamp())
        .required("version", named(VERSION))
        .optional("secret", any_text())
        .explain(MEANINGS)
        .explain(STANDING)
}

const MEANINGS: &[(&str, &str)] = &[
    ("wms", "The wms in the path."),
    ("active", "Whether orders are handed over. Without an active setting, orders of the wms go on by hand."),
    ("paused", "Whether calls wait. Orders become due as before."),
    (
        "baseUrl",
        "The address of the system of the warehouse: an `https` URL without credentials, fragment or private address.",
    ),
    ("credentials", "How calls authenticate, beside their signature; `none` by default."),
    ("maxInFlight", "The maximum number of calls at the same time."),
    (
        "since",
        "Orders that were created before go on by hand; null: none do. If it is left out, it stays as it is. What is due and was not called goes on by hand, too, if it is older.",
    ),
];

const STANDING: &[(&str, &str)] = &[
    (
        "toHandOver",
        "The number of orders that are `awaiting_processing`, and become due once the setting is switched on. Soon after the switch, it is 0.",
    ),
    (
        "blockedUntil",
        "Until when nothing is called: the system asked for a pause, or failed and is probed then.",
    ),
    (
        "lastError",
        "The error of the last failed call, until a call succeeds after failures or the setting is stored again.",
    ),
    (
        "blockedBy",
        "What keeps the system from being called whatever it answers: `set_back`, since Postgres was restored and an operator has not run `longshore-api restored` yet; null: nothing.",
    ),
    ("waiting", "The number of orders that wait for a call or its answer."),
    ("oldestWaitingSince", "Since when the oldest of them has waited."),
    ("secret", "The secret that signs its calls. Only in the response that creates or rotates it."),
];

fn example() -> Value {
    json!({
        "wms": WMS, "organisation": ORGANISATION, "active": true, "paused": false, "baseUrl": "https://wms.example/api",
        "credentials": {"type": "bearer", "token": "***"}, "maxInFlight": 8, "since": null,
        "toHandOver": 0, "blockedUntil": null, "blockedBy": null,
        "lastError": {"at": CHANGED, "message": "answered 503", "expedition": EXPEDITION}, "waiting": 1,
        "oldestWaitingSince": CHANGED, "createdAt": CREATED, "changedAt": CHANGED, "version": 3,
    })
}

fn with_secret() -> Value {
    let mut shown = example();
    shown["secret"] = json!("whsec_YW4gZXhhbXBsZSBvZiBhIHNlY3JldCBvZiAzMiBieXQ=");
    shown
}
