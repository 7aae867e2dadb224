//! Reports that cannot be read, or are about nothing.

use longshore_domain::partner::push::Push;
use longshore_kernel::migration::MIGRATIONS;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::super::support::Place;
use super::{news, take, tell};

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_row_that_breaks_a_rule_is_refused_alone(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 1).await;
    place.count(&[(0, 5)]).await;
    let order = place.send("A", &[(0, 1)]).await;
    let ahead = (place.world.services.clock.now() + chrono::Duration::minutes(6)).to_rfc3339();
    let error = json!({"message": "m"});
    let packed = |members: Value| {
        let mut said = json!({"status": "delivered"});
        said.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        news("x", order, said)
    };
    let rows: Vec<(Value, &str)> = vec![
        (json!({"expedition": order, "status": "take_out"}), "required"),
        (news("", order, json!({})), "invalid_length"),
        (news(&"x".repeat(101), order, json!({})), "invalid_length"),
        (json!({"id": 7, "expedition": order}), "wrong_type"),
        (json!({"id": "x"}), "required"),
        (json!({"id": "x", "orderNumber": "A"}), "required"),
        (json!({"id": "x", "eshop": place.world.tenant.eshop}), "required"),
        (json!({"id": "x", "expedition": order, "orderNumber": "A"}), "not_allowed"),
        (json!({"id": "x", "expedition": "A"}), "invalid_id"),
        (news("x", order, json!({"status": "awaiting_processing"})), "not_allowed"),
        (news("x", order, json!({"status": "canceled"})), "not_allowed"),
        (news("x", order, json!({"status": "delivered", "at": ahead})), "in_future"),
        (news("x", order, json!({"number": -1})), "out_of_range"),
        (news("x", order, json!({"status": "incorrect"})), "required"),
        (news("x", order, json!({"status": "take_out", "errors": [error]})), "not_allowed"),
        (
            news("x", order, json!({"status": "take_out", "items": [{"productSku": "P0", "expedited": 1}]})),
            "not_allowed",
        ),
        (news("x", order, json!({"items": [{"productSku": "P0", "expedited": 1}]})), "not_allowed"),
        (packed(json!({"items": []})), "invalid_count"),
        (packed(json!({"items": [{"expedited": 1}]})), "required"),
        (
            packed(json!({"items": [{"productSku": "P0", "product": Uuid::nil(), "expedited": 1}]})),
            "not_allowed",
        ),
        (packed(json!({"items": [{"productSku": "P0", "expedited": -1}]})), "out_of_range"),
        (
            packed(json!({"items": [{"productSku": "P0", "expedited": 1, "lot": "x".repeat(256)}]})),
            "invalid_length",
        ),
        (packed(json!({"parcels": [{}]})), "required"),
        (news("x", order, json!({"cancel": "perhaps"})), "not_allowed"),
        (packed(json!({"cancel": "accepted"})), "not_allowed"),
        (packed(json!({"wmsInternalId": "x".repeat(256)})), "invalid_length"),
        (packed(json!({"force": true})), "unknown_field"),
    ];
    let sent: Vec<Value> = rows.iter().map(|(row, _)| row.clone()).collect();
    let (_, errors) = tell(&place, &sent).await;
    let codes: Vec<&str> = errors.iter().map(|error| error.rsplit(' ').next().unwrap()).collect();
    let expected: Vec<&str> = rows.iter().map(|(_, code)| *code).collect();
    assert_eq!(codes, expected);
    let job = place.world.sync(Push::News, ["{", "[]", "7", "null", "{\"id\":\"x\",\"id\":\"y\"}"]).await;
    place.world.drain().await;
    let codes: Vec<String> = place.world.errors(job).await;
    let codes: Vec<&str> = codes.iter().map(|error| error.rsplit(' ').next().unwrap()).collect();
    assert_eq!(codes, ["malformed_row", "malformed_row", "malformed_row", "malformed_row", "repeated_key"]);
    assert_eq!(place.status(order).await, "awaiting_processing");
    // none of them used the id
    take(&place, &[news("x", order, json!({"status": "take_out"}))]).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_order_that_is_not_there_is_unknown_as_is_one_of_another_wms(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    place.count(&[(0, 5)]).await;
    let order = place.send("A", &[(0, 1)]).await;
    let by_number = |id: &str, number: &str| json!({"id": id, "eshop": place.world.tenant.eshop, "orderNumber": number, "status": "take_out"});
    let (counts, errors) = tell(
        &place,
        &[
            by_number("1", "A"),
            by_number("2", "B"),
            json!({"id": "3", "eshop": Uuid::nil(), "orderNumber": "A", "status": "take_out"}),
            json!({"id": "4", "expedition": Uuid::nil(), "status": "take_out"}),
        ],
    )
    .await;
    assert_eq!(counts, (1, 0));
    assert_eq!(errors, ["1 2 unknown_expedition", "2 3 unknown_expedition", "3 4 unknown_expedition"]);
    let other: Uuid = sqlx::query_scalar(
        "INSERT INTO wms (id, organisation_id, name, distribution_center, store_key, internal_id)
         VALUES (uuid_v7(), $1, 'Other', uuid_v7(), '', '') RETURNING id",
    )
    .bind(place.world.tenant.organisation)
    .fetch_one(&place.world.owner)
    .await
    .unwrap();
    sqlx::query("UPDATE expedition SET wms_id = $1").bind(other).execute(&place.world.owner).await.unwrap();
    let (_, errors) = tell(&place, &[news("5", order, json!({"status": "completion"}))]).await;
    assert_eq!(errors, ["0 5 unknown_expedition"]);
    // it is not used up
    sqlx::query("UPDATE expedition SET wms_id = $1")
        .bind(place.world.tenant.wms)
        .execute(&place.world.owner)
        .await
        .unwrap();
    take(&place, &[news("5", order, json!({"status": "completion"}))]).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn refused_reports_are_taken_when_their_job_is_retried(_: PgPoolOptions, options: PgConnectOptions) {
    let place = Place::new(&options, 1).await;
    let order = place.send("A", &[(0, 1)]).await;
    let job =
        place.world.sync(Push::News, [news("1", order, json!({"status": "take_out"})).to_string()]).await;
    place.world.drain().await;
    assert_eq!(place.world.errors(job).await, ["0 1 not_handed_over"]);
    place.count(&[(0, 5)]).await;
    place.allocate().await;
    longshore_domain::job::control::retry(&place.world.services, &place.world.context, job).await.unwrap();
    place.world.drain().await;
    assert_eq!(place.world.outcome(job).await, ("succeeded".to_owned(), [1, 0, 0]));
    assert_eq!(place.status(order).await, "take_out");
}
