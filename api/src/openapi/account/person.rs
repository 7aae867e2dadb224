//! Admins and business users.

use longshore_domain::account as accounts;
use longshore_domain::account::admin::PREFERENCES_BYTES;
use longshore_domain::list::fields::admin::ADMIN as ADMINS;
use longshore_domain::list::fields::business_user::BUSINESS_USER as BUSINESS_USERS;
use longshore_kernel::input::Rule as _;
use serde_json::{Value, json};

use super::super::example::{ADMIN as JANA, BUSINESS_USER as PETR, CHANGED, CREATED, ORGANISATION as ORG};
use super::super::job::JOB;
use super::super::operation::{Operation, list, operation, read};
use super::super::record::{self, Described};
use super::super::schema::{Said, Shape, accepted, any_integer, array_of, body_of, named};
use super::super::shared::ids;
use super::CHANGES;
use crate::routes::account::{admin, admin_bulk, business_user};

/// A limit that protects the operator from losing access.
const LAST: &str = "The last active superadmin cannot be deactivated, demoted or deleted: 409.";

/// The operations on accounts.
pub(super) fn operations() -> Vec<Operation> {
    let mut operations = admins();
    operations.extend(memberships());
    operations.extend([
        in_bulk(operation(admin_bulk::activate_admins, "Activates admins in bulk")),
        in_bulk(operation(admin_bulk::deactivate_admins, "Deactivates admins in bulk"))
            .says(LAST),
        in_bulk(operation(admin_bulk::delete_admins, "Deletes admins in bulk"))
            .says("Deletes the admins permanently.")
            .says(LAST),
        operation(business_user::create_business_user, "Creates a business user")
            .says("`email` must be unique among business users; otherwise 400 `already_taken`.")
            .body(
                "BusinessUserToCreate",
                business_user_body(true),
                json!({
                    "email": "eva@harbour.example", "firstName": "Eva", "lastName": "Svobodová",
                    "password": "correct horse", "organisation": ORG,
                }),
            )
            .created(&BUSINESS_USER),
        list(business_user::list_business_users,
            &BUSINESS_USER,
            "Lists business users",
        ),
        read(business_user::get_business_user,
            &BUSINESS_USER,
            "Reads a business user",
        ),
        operation(business_user::update_business_user, "Changes a business user")
            .says(CHANGES)
            .says("`organisation` cannot be changed. When the account is deactivated or its password changes, its sessions end.")
            .body(
                "BusinessUserToUpdate",
                business_user_body(false),
                json!({"phone": "+420 600 000 000"}),
            )
            .updated(&BUSINESS_USER),
        operation(business_user::activate_business_user,
            "Activates a business user",
        )
        .done(),
        operation(business_user::deactivate_business_user,
            "Deactivates a business user",
        )
        .says("Ends the sessions of the account.")
        .done(),
        operation(business_user::delete_business_user, "Deletes a business user")
            .says("Deletes the account permanently and ends its sessions.")
            .done(),
    ]);
    operations
}

fn admins() -> Vec<Operation> {
    vec![
        operation(admin::create_admin, "Creates an admin")
            .says("`email` must be unique among admins; otherwise 400 `already_taken`.")
            .body(
                "AdminToCreate",
                admin_body(true),
                json!({
                    "email": "lucie@harbour.example", "firstName": "Lucie", "lastName": "Dvořáková",
                    "password": "correct horse", "role": "admin", "organisations": [ORG],
                }),
            )
            .created(&ADMIN),
        list(admin::list_admins, &ADMIN, "Lists admins")
            .says("An admin sees the admins of the same organisations."),
        read(admin::get_admin, &ADMIN, "Reads an admin"),
        operation(admin::update_admin, "Changes an admin")
            .says(CHANGES)
            .says("When the account is deactivated, is removed from an organisation or gets a new password, its sessions end; with `tokens`, also the access tokens that it has created.")
            .says(LAST)
            .body("AdminToUpdate", admin_body(false), json!({"phone": "+420 600 000 000"}))
            .schema("AdminUpdated", updated())
            .answers(200, "The record.", named("AdminUpdated"), Some((ADMIN.example)()))
            .with(&["ETag", "Location"])
            .refuses(&[409]),
        operation(admin::delete_admin, "Deletes an admin")
            .says("Deletes the account permanently, with its sessions and the tokens that it created.")
            .says(LAST)
            .done()
            .refuses(&[409]),
        operation(admin::activate_admin, "Activates an admin").done(),
        operation(admin::deactivate_admin, "Deactivates an admin")
            .says("Ends the sessions of the account and the tokens that it created.")
            .says(LAST)
            .done()
            .refuses(&[409]),
        operation(admin::remove_admin_totp, "Removes the second factor of an admin")
            .says("Use it when an admin has lost the second factor. 404 if there is none.")
            .done(),
        operation(admin::set_admin_preferences,
            "Replaces the preferences of an admin",
        )
        .says(&format!("Replaces all preferences; at most {PREFERENCES_BYTES} bytes of JSON."))
        .body(PREFERENCES, accepted(&accounts::admin::preferences().schema()), json!({"language": "cs"}))
        .updated(&ADMIN),
    ]
}

fn memberships() -> [Operation; 2] {
    [
        operation(admin::add_admin_to_organisation, "Adds an admin to an organisation")
            .says("Has no effect if the admin is already in the organisation.")
            .done(),
        operation(admin::remove_admin_from_organisation, "Removes an admin from an organisation")
            .says("Ends the sessions of the account and the tokens that it created there.")
            .done(),
    ]
}

/// All or nothing, as a job.
fn in_bulk(operation: Operation) -> Operation {
    operation
        .says("All or nothing: an unknown id is refused with 400. Waits up to 10 seconds for the job to end.")
        .body("Ids", ids(), json!([JANA]))
        .done()
        .record(202, "The job: accepted, not ended.", &JOB)
        .with(&["Location"])
}

const PREFERENCES: &str = "AdminPreferences";

fn preferences() -> Said {
    named(PREFERENCES)
}

fn admin_body(is_new: bool) -> Shape {
    body_of(&accounts::admin::body(is_new))
        .optional("preferences", preferences())
        .about("An admin to create or change.")
        .explain(MEANINGS)
}

fn updated() -> Shape {
    record::members(&ADMIN)
        .about("An admin after a change, with the access tokens that live on where its password changed.")
        .optional("tokens", array_of(named("TokenLeft")))
        .optional("countOfTokens", any_integer())
        .explain(&[
            ("tokens", "After a new password, the newest 100 access tokens that live on."),
            ("countOfTokens", "How many there are."),
        ])
}

fn business_user_body(is_new: bool) -> Shape {
    body_of(&accounts::business_user::body(is_new))
        .about("A business user to create or change.")
        .explain(MEANINGS)
}

const MEANINGS: &[(&str, &str)] = &[
    ("email", "The login. It is unique, ignoring case."),
    ("password", "Never shown. Simple ones are refused. Without one, the account cannot log in."),
    ("role", "What the account may do."),
    ("organisations", "The organisations that an `admin` runs; duplicates are ignored."),
    ("organisation", "The organisation of the account. It cannot be changed."),
    ("preferences", "JSON that a frontend stores for the account."),
    ("active", "Whether the account may log in."),
    ("tokens", "Whether the access tokens that the account has created end with its former password."),
];

/// Admins.
pub(in super::super) const ADMIN: Described = Described {
    resource: &ADMINS,
    about: "The account of a person who runs the service or some of its organisations.",
    fields: MEANINGS,
    shapes: &[("preferences", preferences)],
    example: || {
        let mut record = person("Jana", "Novotná", "jana@harbour.example");
        record["id"] = json!(JANA);
        record["role"] = json!("admin");
        record["organisations"] = json!([ORG]);
        record["preferences"] = json!({"language": "cs"});
        record
    },
};

/// Business users.
pub(in super::super) const BUSINESS_USER: Described = Described {
    resource: &BUSINESS_USERS,
    about: "The account of a person who works in one organisation.",
    fields: MEANINGS,
    shapes: &[],
    example: || {
        let mut record = person("Petr", "Svoboda", "petr@harbour.example");
        record["id"] = json!(PETR);
        record["organisation"] = json!(ORG);
        record
    },
};

fn person(first: &str, last: &str, email: &str) -> Value {
    json!({
        "email": email, "firstName": first, "lastName": last, "phone": null, "active": true,
        "createdAt": CREATED, "changedAt": CHANGED, "version": 3,
    })
}
