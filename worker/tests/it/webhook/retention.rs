//! Retention of ended deliveries: in partitions, which are dropped as a whole.

use chrono::{Datelike as _, Days, NaiveDate, Weekday};
use longshore_domain::webhook::delivery;
use longshore_kernel::history;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

/// Creates partitions of past days, each with one row.
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

/// The partitions of deliveries, in their order: from which day until before which.
async fn partitions(world: &World) -> Vec<[NaiveDate; 2]> {
    let found = sqlx::query_as::<_, (NaiveDate, NaiveDate)>(
        "SELECT to_date(right(name, 8), 'YYYYMMDD'), (uuid_v7_moment(ends_before) AT TIME ZONE 'UTC')::date
         FROM history_partition WHERE table_name = 'delivery_history' AND ends_before IS NOT NULL ORDER BY 1",
    );
    found.fetch_all(&world.pool).await.unwrap().into_iter().map(|(from, until)| [from, until]).collect()
}

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

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_long_read_of_the_history_blocks_nothing(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    sqlx::query(PAST).execute(&world.pool).await.unwrap();
    let past = async || {
        let today = world.services.clock.now().date_naive();
        partitions(&world).await.iter().filter(|[_, until]| *until <= today).count()
    };
    let mut reader = world.pool.begin().await.unwrap();
    sqlx::query("SELECT FROM delivery_history").execute(&mut *reader).await.unwrap();
    history::keep(&world.services.db.main).await.unwrap();
    assert_eq!(past().await, 2, "what is read is left to a later minute");
    let events = "SELECT count(*) FROM event WHERE data ? 'days'";
    assert_eq!(
        sqlx::query_scalar::<_, i64>(events).fetch_one(&world.pool).await.unwrap(),
        1,
        "the rest is not"
    );
    reader.rollback().await.unwrap();
    history::keep(&world.services.db.main).await.unwrap();
    assert_eq!(past().await, 1);
}

async fn prepare(world: &World, span: &str, days: i64) {
    sqlx::query("UPDATE history SET span = $1 WHERE table_name = 'delivery_history'")
        .bind(span)
        .execute(&world.pool)
        .await
        .unwrap();
    sqlx::query("SELECT history_prepare($1::int)").bind(days).execute(&world.pool).await.unwrap();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn partitions_follow_each_other_without_a_gap_whatever_the_span_was(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let monday = |date: NaiveDate| date.weekday() == Weekday::Mon;
    let weeks = partitions(&world).await;
    assert!(!weeks.is_empty() && weeks.iter().flatten().copied().all(monday), "{weeks:?}");
    prepare(&world, "day", 17).await;
    prepare(&world, "week", 40).await;
    prepare(&world, "month", 100).await;
    let all = partitions(&world).await;
    assert!(all.windows(2).all(|pair| pair[0][1] == pair[1][0]), "{all:?}");
    let today = world.services.clock.now().date_naive();
    assert!(all[0][0] <= today && all[all.len() - 1][1] > today + Days::new(100), "{all:?}");
    let long = |days| all.iter().filter(|[from, until]| (*until - *from).num_days() == days).count();
    assert!(long(7) >= 4 && long(1) >= 3 && long(31) >= 1, "{all:?}");
    prepare(&world, "month", 100).await;
    assert_eq!(partitions(&world).await, all, "they are there already");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_week_with_rows_in_the_default_partition_begins_after_them(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let [.., [_, end]] = partitions(&world).await[..] else { panic!("there are none") };
    sqlx::query(
        "INSERT INTO delivery_history (id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id,
             state, attempt_count, attempts, created_at, finished_at)
         SELECT uuid_v7_at($1::date::timestamp AT TIME ZONE 'UTC' + interval '30 hours'), gen_random_uuid(), gen_random_uuid(),
             gen_random_uuid(), gen_random_uuid(), 'product_change', gen_random_uuid(), 'delivered', 1, '[]', now(), now()",
    )
    .bind(end)
    .execute(&world.pool)
    .await
    .unwrap();
    // two weeks more than there are, on whatever day
    prepare(&world, "week", 27).await;
    let added: Vec<_> = partitions(&world).await.into_iter().filter(|[from, _]| *from >= end).collect();
    assert_eq!(added[0], [end + Days::new(2), end + Days::new(7)], "from the day after it, until Monday");
    assert_eq!(added[1], [end + Days::new(7), end + Days::new(14)]);
    let left = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM delivery_history_default");
    assert_eq!(left.fetch_one(&world.pool).await.unwrap(), 1);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_delivery_that_ended_after_its_partition_was_dropped_is_removed_by_its_end(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    sqlx::query(
        "INSERT INTO delivery_history (id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id,
             state, attempt_count, attempts, created_at, finished_at)
         SELECT uuid_v7_floor(now() - interval '60 days' - make_interval(days => ended)), gen_random_uuid(),
             gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'product_change', gen_random_uuid(), 'delivered',
             ended, '[]', now() - interval '60 days', now() - make_interval(days => ended)
         FROM unnest('{29, 31}'::int[]) AS ended",
    )
    .execute(&world.pool)
    .await
    .unwrap();
    history::keep(&world.services.db.main).await.unwrap();
    let left: Vec<i16> = sqlx::query_scalar("SELECT attempt_count FROM delivery_history")
        .fetch_all(&world.pool)
        .await
        .unwrap();
    assert_eq!(left, [29]);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_delivery_that_cannot_be_sent_is_cancelled_before_its_event_is_removed(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let hook = world.hook("/hook", json!({"active": false})).await;
    world.events(&hook, 2).await;
    sqlx::query(
        "UPDATE delivery SET id = uuid_v7_floor(now() - interval '38 days')
         WHERE id = (SELECT id FROM delivery ORDER BY id LIMIT 1)",
    )
    .execute(&world.pool)
    .await
    .unwrap();
    assert_eq!(delivery::expire(&world.services.db.main).await.unwrap(), 1);
    assert_eq!((world.live(&hook).await, world.ended(&hook, "cancelled").await), (1, 1));
    let kinds = "SELECT to_jsonb(event_type) FROM delivery_history WHERE webhook_id = $1";
    assert_eq!(world.value(kinds, &hook).await, "product_change");
    assert_eq!(delivery::expire(&world.services.db.main).await.unwrap(), 0);
}
