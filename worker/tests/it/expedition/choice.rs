//! Carriers that are chosen for the orders of an import (`docs/reference/orders.md#choice-of-a-carrier`).

use longshore_domain::expedition::bulk;
use longshore_domain::expedition::command::Command;
use longshore_domain::job::kind::Within;
use longshore_domain::partner::push::Push;
use longshore_kernel::change::Change;
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::migration::MIGRATIONS;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::Place;

fn row(place: &Place, number: &str, country: &str) -> Value {
    let mut row = place.body(number, &[(0, 1)]);
    row["billingCountry"] = json!(country);
    row["deliveryCountry"] = json!(country);
    for member in ["eshop", "carrier"] {
        row.as_object_mut().unwrap().remove(member);
    }
    row
}

async fn import(place: &Place, rows: &[Value]) {
    let job = place.world.sync(Push::Expeditions, rows.iter().map(Value::to_string)).await;
    place.world.drain().await;
    let job = place.world.job(job).await;
    assert_eq!((&job["state"], &job["failed"]), (&json!("succeeded"), &json!(0)), "{job}");
}

/// The number, the status and the code of the chosen carrier of each order.
async fn chosen(place: &Place) -> Vec<(String, String, Option<i32>)> {
    sqlx::query_as(
        "SELECT d.order_number, e.status,
                CASE WHEN d.carrier_preference_id IS NOT NULL THEN (SELECT code FROM carrier WHERE id = d.carrier_id) END
         FROM expedition e JOIN expedition_detail d ON d.id = e.id ORDER BY 1",
    )
    .fetch_all(&place.world.owner)
    .await
    .unwrap()
}

fn of(number: &str, status: &str, code: Option<i32>) -> (String, String, Option<i32>) {
    (number.to_owned(), status.to_owned(), code)
}

/// A preference for `Post` in one country, and one for `Courier` in another.
const PREFERENCES: &str = "
    WITH made AS (
        INSERT INTO carrier (id, name, code, countries_of_operation, active)
        VALUES (uuid_v7(), 'Courier', 2, '{CZ}', true) RETURNING id
    ), attached AS (
        INSERT INTO carrier_organisation (carrier_id, organisation_id) SELECT made.id, o.id FROM made, organisation o
    )
    INSERT INTO carrier_preference (id, organisation_id, position, active, carrier_id, conditions)
    SELECT uuid_v7(), o.id, p.position, true, p.carrier, p.conditions
    FROM organisation o, (SELECT 0, id, '{}'::jsonb FROM made
                          UNION ALL SELECT 1, id, '{\"countries\": [\"GB\"]}' FROM carrier WHERE code = 1)
         AS p (position, carrier, conditions)";

#[sqlx::test(migrator = "MIGRATIONS")]
async fn each_row_without_a_carrier_gets_its_own_and_is_chosen_anew_when_it_is_sent_again(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    place.count(&[(0, 50)]).await;
    place.world.execute(PREFERENCES).await;
    let mut held = row(&place, "held", "CZ");
    held["send"] = json!(false);
    let rows = [row(&place, "a-cz", "CZ"), row(&place, "b-gb", "GB"), row(&place, "c-fr", "FR"), held];
    import(&place, &rows).await;
    let expected = |c: (&str, Option<i32>)| {
        [
            of("a-cz", "awaiting_processing", Some(2)),
            of("b-gb", "awaiting_processing", Some(1)),
            of("c-fr", c.0, c.1),
            of("held", "on_hold", None),
        ]
    };
    assert_eq!(chosen(&place).await, expected(("incorrect", None)));
    // the incorrect one is corrected, and sent again
    import(&place, &[row(&place, "c-fr", "GB")]).await;
    assert_eq!(chosen(&place).await, expected(("awaiting_processing", Some(1))));
    let versions: Vec<(String, i64)> = sqlx::query_as(
        "SELECT order_number, version FROM expedition JOIN expedition_detail USING (id) ORDER BY 1",
    )
    .fetch_all(&place.world.owner)
    .await
    .unwrap();
    assert_eq!(versions[2], ("c-fr".to_owned(), 2), "an edit that is sent is one version");
    place.must_hold().await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn orders_that_are_sent_in_bulk_are_shipped_by_what_holds_for_each(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let place = Place::new(&options, 1).await;
    place.count(&[(0, 500)]).await;
    place.world.execute(PREFERENCES).await;
    let countries = ["CZ", "GB", "FR"];
    let rows: Vec<Value> = (0..60)
        .map(|n| {
            let mut row = row(&place, &format!("{n:02}"), countries[n % 3]);
            row["send"] = json!(false);
            row
        })
        .collect();
    import(&place, &rows).await;
    let ids: Vec<ExpeditionId> = sqlx::query_scalar("SELECT id FROM expedition ORDER BY created_at")
        .fetch_all(&place.world.owner)
        .await
        .unwrap();
    let services = &place.world.services;
    let mut change = Change::begin(services).await.unwrap();
    let within = Within { organisations: Some(vec![place.world.tenant.organisation]), scope_eshop: None };
    let send = Command::Send { rebook: false };
    let (changed, refused) =
        bulk::execute(&mut change, &place.world.context.origin, &within, &ids, &send).await.unwrap();
    change.commit().await.unwrap();
    assert_eq!((changed, refused), (60, Vec::new()));
    for (n, (_, status, code)) in chosen(&place).await.into_iter().enumerate() {
        let expected =
            [("awaiting_processing", Some(2)), ("awaiting_processing", Some(1)), ("incorrect", None)][n % 3];
        assert_eq!((status.as_str(), code), expected, "{n}");
    }
    place.must_hold().await;
}
