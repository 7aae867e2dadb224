//! Every example of a request, sent unchanged.

use longshore_kernel::json::compact;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::sample::{OF_LOGINS, Sample};
use crate::product::MIGRATIONS;

/// Operations that end something, in this order, after all others.
const LAST: &[&str] = &[
    "end_silence",
    "remove_carrier_organisations",
    "delete_carrier_preference",
    "delete_expedition_invoice",
    "cancel_expedition",
    "delete_expedition",
    "cancel_job",
    "retry_job",
    "apply_job",
    "release_job",
    "follow_job",
    "delete_event_reader",
    "delete_webhook",
    "switch_on_totp",
    "remove_totp",
    "remove_admin_totp",
    "end_session",
    "change_password",
    "logout",
    "remove_admin_from_organisation",
    "deactivate_admins",
    "delete_admins",
    "deactivate_admin",
    "delete_admin",
    "deactivate_business_user",
    "delete_business_user",
    "delete_access_token",
    "cancel_stock_advice",
    "cancel_jobs",
    "delete_product_image",
    "dismiss_lost_order",
    "delete_integration_setting",
    "delete_wms_setting",
];

#[sqlx::test(migrator = "MIGRATIONS")]
async fn every_example_of_a_request_is_answered_as_the_document_says(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let sample = Sample::new(&options).await;
    let mut operations = sample.operations();
    operations
        .sort_by_key(|operation| LAST.iter().position(|id| *id == operation.id).map_or(0, |place| place + 1));
    let login = operations.iter().find(|operation| operation.id == "login_admin").unwrap();
    let login = sample.call("", login, 0).await.expect(200).json()["token"].as_str().unwrap().to_owned();
    for operation in operations {
        let is_of_login = OF_LOGINS.contains(&operation.id.as_str());
        let token = if is_of_login { &login } else { &sample.api.superadmin };
        for form in 0..operation.bodies.len().max(1) {
            let place = format!("{} {}", operation.method, operation.path);
            let reply = sample.call(token, &operation, form).await;
            let status = reply.status.as_u16();
            assert!(operation.answers.contains(&status.to_string()), "{place}: {status} {}", reply.text);
            let ok = match operation.id.as_str() {
                // the example cannot contain the current code
                "switch_on_totp" | "remove_totp" => status == 400,
                // a cancelled job has no failed items, is no dry run, and withholds nothing; an order on hold has no pieces, and one that waits for its
                // confirmation is not in the warehouse
                "retry_job" | "apply_job" | "release_job" | "process_expedition" | "rebook_expedition"
                | "report_expedition" => status == 409,
                // that of another cluster of Postgres
                "set_reader_position" => status == 410,
                _ => (200..400).contains(&status),
            };
            assert!(ok, "{place}: {status} {}", reply.text);
            if reply
                .header("content-type")
                .is_some_and(|media| media.ends_with("/json") || media.ends_with("+json"))
            {
                assert_eq!(reply.text, compact(&reply.text), "{place}: one style of JSON");
            }
        }
    }
}
