//! How long what has ended is kept: by partitions, which are dropped whole.

use longshore_shared::platform::history;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_shared::platform::database::MIGRATIONS;

/// Partitions of days past, each with one row.
const PAST: &str = "DO $$
DECLARE
    made record;
    day timestamp;
BEGIN
    FOR made IN SELECT * FROM (VALUES ('delivery_history', 29), ('delivery_history', 32), ('event', 32), ('event', 39))
            AS past (name, days) LOOP
        day := date_trunc('day', now() AT TIME ZONE 'UTC') - make_interval(days => made.days);
        EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)',
            made.name || to_char(day, '_YYYYMMDD'), made.name, uuid_v7_floor(day AT TIME ZONE 'UTC'),
            uuid_v7_floor((day + interval '1 day') AT TIME ZONE 'UTC'));
        IF made.name = 'event' THEN
            INSERT INTO event (id, type, organisation_id, entity_type, entity_id, at, data)
            VALUES (uuid_v7_floor((day + interval '1 hour') AT TIME ZONE 'UTC'), 'product_change', gen_random_uuid(),
                'product', gen_random_uuid(), day AT TIME ZONE 'UTC', jsonb_build_object('days', made.days));
        ELSE
            INSERT INTO delivery_history (id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id,
                state, attempt_count, attempts, created_at, finished_at)
            VALUES (uuid_v7_floor((day + interval '1 hour') AT TIME ZONE 'UTC'), gen_random_uuid(), gen_random_uuid(),
                gen_random_uuid(), gen_random_uuid(), 'product_change', gen_random_uuid(), 'delivered', made.days, '[]',
                day AT TIME ZONE 'UTC', day AT TIME ZONE 'UTC');
        END IF;
    END LOOP;
END
$$";

#[sqlx::test(migrator = "MIGRATIONS")]
async fn deliveries_are_kept_for_thirty_days_and_their_events_a_week_longer(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    sqlx::query(PAST).execute(&world.pool).await.unwrap();
    let kept = "SELECT jsonb_build_object(
            'deliveries', (SELECT jsonb_agg(attempt_count ORDER BY id) FROM delivery_history),
            'events', (SELECT jsonb_agg(data -> 'days' ORDER BY id) FROM event WHERE data ? 'days'))";
    let kept = async || sqlx::query_scalar::<_, Value>(kept).fetch_one(&world.pool).await.unwrap();
    assert_eq!(kept().await, json!({"deliveries": [32, 29], "events": [39, 32]}));
    assert!(history::keep(&world.services.db.main).await.unwrap() >= 2);
    assert_eq!(kept().await, json!({"deliveries": [29], "events": [32]}));
}
