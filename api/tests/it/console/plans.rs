//! Plans of lists that do not depend on statistics: what is small is not looked for among what is large.

use longshore_domain::job::kind::JobState;
use longshore_domain::job::search as jobs;
use longshore_domain::job::shares::LISTED;
use longshore_domain::job::sync_run::{self, Filter};
use longshore_domain::list::fields::product::PRODUCT;
use longshore_domain::list::{self, BOUND, Request};
use longshore_domain::standing;
use longshore_domain::webhook::delivery::{DeliveryState, search as deliveries};
use longshore_domain::webhook::health::{self, exhausted};
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::figure::AtLeast;
use longshore_kernel::ids::{self, WebhookId};
use longshore_kernel::services::Services;
use longshore_operate::attention;
use longshore_operate::order::search;
use longshore_testkit::services;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::MIGRATIONS;

/// The services with one connection for lists and one for the rest, whose statistics can be published, and a pool of the owner.
async fn with_one_connection(options: &PgConnectOptions) -> (Services, PgPool) {
    let mut services = services::for_test(options).unwrap();
    let mut settings = services::database_settings().unwrap();
    settings.database_list_connections = 1;
    settings.database_connections = 1;
    services.db = Database::from_options(options, &settings);
    let owner = PgPoolOptions::new().max_connections(1).connect_with(options.clone()).await.unwrap();
    (services, owner)
}

/// A count of the statistics, after those of both connections were published.
async fn published(services: &Services, sql: &'static str) -> i64 {
    for pool in [&services.db.main, &services.db.lists] {
        sqlx::query("SELECT pg_stat_force_next_flush()").execute(pool).await.unwrap();
    }
    sqlx::query_scalar(sql).fetch_one(&services.db.lists).await.unwrap()
}

/// Jobs that were accepted this many hours ago.
async fn insert_jobs(owner: &PgPool, tenant: &Tenant, state: &str, count: i32, hours_ago: i32) {
    sqlx::query(
        "INSERT INTO job (id, kind, state, organisation_id, eshop_id, acceptance, actor_type, actor_name, created_at, finished_at)
         SELECT uuid_v7(), 'product.sync', $1, $2, $3, nextval('acceptance'), 'token', 'x', now() - make_interval(hours => $5), now()
         FROM generate_series(1, $4)",
    )
    .bind(state)
    .bind(tenant.organisation)
    .bind(tenant.eshop)
    .bind(count)
    .bind(hours_ago)
    .execute(owner)
    .await
    .unwrap();
}

/// The same with a tenant that will have few records, and one that will have many.
async fn with_small_and_large(options: &PgConnectOptions) -> (Services, PgPool, [Tenant; 2]) {
    let (services, owner) = with_one_connection(options).await;
    let small = Tenant::create(&services, "Small").await.unwrap();
    let large = Tenant::create(&services, "Large").await.unwrap();
    (services, owner, [small, large])
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_last_syncs_of_a_small_shop_are_not_looked_for_among_the_jobs_of_all(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (services, owner, [small, large]) = with_small_and_large(&options).await;
    let jobs = async |tenant, count, hours| insert_jobs(&owner, tenant, "succeeded", count, hours).await;
    // as far as the statistics know, each has half of the jobs
    jobs(&small, 30, 2).await;
    jobs(&large, 30, 2).await;
    sqlx::query("ANALYZE job").execute(&owner).await.unwrap();
    jobs(&large, 20_000, 1).await;
    let read = "SELECT coalesce(sum(idx_tup_read), 0)::bigint FROM pg_stat_user_indexes WHERE indexrelname = 'job_by_time'";
    let before = published(&services, read).await;
    let runs = sync_run::page(&services.db, &Scope::Everything, &Filter::default()).await.unwrap();
    assert_eq!(runs.iter().filter(|run| run.job.is_some()).count(), 2, "{runs:?}");
    assert_eq!(published(&services, read).await, before);
}

/// Syncs of a tenant, each of which refused a few of its rows.
async fn insert_partial(owner: &PgPool, tenant: &Tenant, count: i32) {
    sqlx::query(
        "INSERT INTO job (id, kind, state, organisation_id, eshop_id, acceptance, total, done, changed, failed, actor_type, actor_name,
                          created_at, finished_at)
         SELECT uuid_v7(), 'stock.sync', 'succeeded', $1, $2, nextval('acceptance'), 50, 50, 47, 3, 'token', 'x',
                now() - make_interval(secs => n), now() FROM generate_series(1, $3) AS n",
    )
    .bind(tenant.organisation)
    .bind(tenant.eshop)
    .bind(count)
    .execute(owner)
    .await
    .unwrap();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_sync_that_refused_all_rows_is_found_without_reading_those_that_refused_a_few(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (services, owner, [small, large]) = with_small_and_large(&options).await;
    // as far as the statistics know, there are few
    insert_partial(&owner, &large, 30).await;
    sqlx::query("ANALYZE job").execute(&owner).await.unwrap();
    sqlx::query(
        "INSERT INTO job (id, kind, state, organisation_id, eshop_id, acceptance, total, done, failed, actor_type, actor_name, created_at,
                          finished_at)
         VALUES (uuid_v7(), 'product.sync', 'succeeded', $1, $2, nextval('acceptance'), 4, 4, 4, 'token', 'x',
                 now() - interval '12 hours', now())",
    )
    .bind(small.organisation)
    .bind(small.eshop)
    .execute(&owner)
    .await
    .unwrap();
    insert_partial(&owner, &large, 20_000).await;
    insert_partial(&owner, &small, 50).await;
    let queues = standing::read(&services).await.unwrap();
    let before = published(&services, JOBS_READ).await;
    let look = attention::look(&services, &Scope::Everything, async { Ok(queues.into()) }).await.unwrap();
    let found = look.attention(&services.db, &Scope::Everything).await.unwrap();
    assert!(found.lines.iter().any(|line| line.sentence.contains("has refused all rows")), "{found:?}");
    let read = published(&services, JOBS_READ).await - before;
    assert!(read < 1_000, "{read}");
}

/// Orders alone: nothing follows from them.
async fn deliver_orders(owner: &PgPool, tenant: &Tenant) {
    sqlx::query("ALTER TABLE expedition DISABLE TRIGGER expedition_moves").execute(owner).await.unwrap();
    sqlx::query(
        "INSERT INTO expedition (id, organisation_id, eshop_id, warehouse_id, wms_id, status, priority, count_of_items, count_of_sku,
                                 sum_of_quantity, packed_at, sent_at, delivered_at)
         SELECT uuid_v7(), $1, $2, h.id, h.default_wms_id, 'delivered', 0, 1, 1, 1, now(), now(), now()
         FROM warehouse h, generate_series(1, 20000) WHERE h.id = $3",
    )
    .bind(tenant.organisation)
    .bind(tenant.eshop)
    .bind(tenant.warehouse)
    .execute(owner)
    .await
    .unwrap();
}

/// Rows of a table that were read, by all of its indexes and without.
const JOBS_READ: &str =
    "SELECT (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'job')::bigint + seq_tup_read
                         FROM pg_stat_user_tables WHERE relname = 'job'";
const DELIVERIES_READ: &str =
    "SELECT (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname LIKE 'delivery_history%')::bigint
            + (SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE relname LIKE 'delivery_history%')::bigint";
const ORDERS_READ: &str = "SELECT (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'expedition')::bigint + seq_tup_read
                           FROM pg_stat_user_tables WHERE relname = 'expedition'";

#[sqlx::test(migrator = "MIGRATIONS")]
async fn jobs_of_a_state_are_listed_and_counted_without_reading_the_others(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (services, owner) = with_one_connection(&options).await;
    let tenant = Tenant::create(&services, "Large").await.unwrap();
    let insert = async |state, count, hours| insert_jobs(&owner, &tenant, state, count, hours).await;
    // as far as the statistics know, half of the jobs were cancelled
    insert("cancelled", 30, 2).await;
    insert("succeeded", 30, 2).await;
    sqlx::query("ANALYZE job").execute(&owner).await.unwrap();
    insert("succeeded", 20_000, 1).await;
    for oldest in [false, true] {
        let before = published(&services, JOBS_READ).await;
        let filter = jobs::Filter { state: Some(JobState::Cancelled), oldest, ..jobs::Filter::default() };
        let found = jobs::search(&services.db, &Scope::Everything, &filter).await.unwrap();
        assert_eq!((found.jobs.len(), found.cut_short), (30, false));
        let read = published(&services, JOBS_READ).await - before;
        assert!(read < 200, "{read}");
    }
    let before = published(&services, JOBS_READ).await;
    let counts = jobs::counts(&services.db, &Scope::Everything).await.unwrap();
    let of = |state| counts.of(state);
    let succeeded = AtLeast::up_to(jobs::COUNTED, jobs::COUNTED);
    let cancelled = AtLeast { count: 30, is_more: false };
    assert_eq!((of(JobState::Cancelled), of(JobState::Succeeded)), (cancelled, succeeded));
    let read = published(&services, JOBS_READ).await - before;
    assert!(read < 2_000, "{read}");
    let own = Scope::Organisations([tenant.organisation].into());
    let before = published(&services, JOBS_READ).await;
    let counts = jobs::counts(&services.db, &own).await.unwrap();
    assert_eq!(counts.all(), succeeded);
    let read = published(&services, JOBS_READ).await - before;
    assert!(read < 2_000, "{read}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn pages_of_the_jobs_of_a_shop_are_read_in_their_order(_: PgPoolOptions, options: PgConnectOptions) {
    let (services, owner) = with_one_connection(&options).await;
    let tenant = Tenant::create(&services, "Large").await.unwrap();
    // as far as the statistics know, there are few to sort
    sqlx::query("ANALYZE job").execute(&owner).await.unwrap();
    for hours in 1..=4 {
        insert_jobs(&owner, &tenant, "succeeded", 5_000, hours).await;
    }
    let by_shop = jobs::Filter { eshop: Some(tenant.eshop), ..jobs::Filter::default() };
    let by_organisation = jobs::Filter { organisation: Some(tenant.organisation), ..jobs::Filter::default() };
    let by_state = jobs::Filter { state: Some(JobState::Succeeded), ..jobs::Filter::default() };
    for filter in [by_shop, by_organisation, by_state] {
        for oldest in [false, true] {
            let mut after = None;
            for page in 0..3 {
                let filter = jobs::Filter { oldest, after, ..filter.clone() };
                let before = services::pages_looked_at(&services.db.lists, 1, &owner).await.unwrap();
                let found = jobs::search(&services.db, &Scope::Everything, &filter).await.unwrap();
                let pages = services::pages_looked_at(&services.db.lists, 1, &owner).await.unwrap() - before;
                assert_eq!(found.jobs.len(), jobs::PAGE, "{filter:?}");
                // of each job its row, its organisation and its e-shop; and the catalogue, once
                assert!(pages < 700, "page {page} of {filter:?} looked at {pages} pages of Postgres");
                after = found.next;
            }
        }
    }
}

/// Deliveries of a webhook that ended, without the rows that they belong to.
async fn insert_ended(owner: &PgPool, tenant: &Tenant, webhook: WebhookId, state: &str, count: i32) {
    sqlx::query(
        "INSERT INTO delivery_history (id, webhook_id, eshop_id, organisation_id, event_id, event_type, entity_id, state,
             attempt_count, attempts, created_at, finished_at)
         SELECT uuid_v7(), $1, $2, $3, uuid_v7(), 'product_change', uuid_v7(), $4, 1, '[]', now(), now() FROM generate_series(1, $5)",
    )
    .bind(webhook)
    .bind(tenant.eshop)
    .bind(tenant.organisation)
    .bind(state)
    .bind(count)
    .execute(owner)
    .await
    .unwrap();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn pages_of_the_deliveries_of_a_webhook_are_read_in_their_order(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (services, owner) = with_one_connection(&options).await;
    let tenant = Tenant::create(&services, "Large").await.unwrap();
    let webhook: WebhookId = ids::new_id().into();
    insert_ended(&owner, &tenant, webhook, "exhausted", 3).await;
    insert_ended(&owner, &tenant, webhook, "delivered", 30_000).await;
    // without statistics, few are taken to be of this webhook: as cheap to sort all of them
    let mut after = None;
    for page in 0..3 {
        let before = services::pages_looked_at(&services.db.lists, 1, &owner).await.unwrap();
        let filter = deliveries::Filter { after, ..deliveries::Filter::default() };
        let found = deliveries::ended(&services.db, webhook, &filter).await.unwrap();
        let pages = services::pages_looked_at(&services.db.lists, 1, &owner).await.unwrap() - before;
        assert_eq!(found.deliveries.len(), deliveries::PAGE);
        assert!(pages < 1_000, "page {page} looked at {pages} pages of Postgres");
        after = found.next;
    }
    // a search looks at as many as it may, and says so
    let before = published(&services, DELIVERIES_READ).await;
    let filter =
        deliveries::Filter { state: Some(DeliveryState::Exhausted), ..deliveries::Filter::default() };
    let found = deliveries::ended(&services.db, webhook, &filter).await.unwrap();
    assert_eq!((found.deliveries.len(), found.cut_short), (0, true));
    let read = published(&services, DELIVERIES_READ).await - before;
    assert!(read <= 2 * deliveries::WINDOW, "{read}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn exhausted_deliveries_are_found_without_reading_all_of_them(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (services, owner) = with_one_connection(&options).await;
    let tenant = Tenant::create(&services, "Large").await.unwrap();
    let webhook: WebhookId = ids::new_id().into();
    for sql in [
        "INSERT INTO webhook (id, organisation_id, eshop_id, event, events, destination, active, authentication_type, secret)
         VALUES ($1, $2, $3, '*', '{product_change}', 'https://shop.example/', true, 'none', '')",
        "INSERT INTO exhausted_activity (minute, webhook_id, deliveries)
         SELECT date_trunc('minute', now()) - make_interval(mins => n), $1, 5 FROM generate_series(0, 10000) AS n
         WHERE $2::uuid <> $3::uuid",
    ] {
        sqlx::query(sql).bind(webhook).bind(tenant.organisation).bind(tenant.eshop).execute(&owner).await.unwrap();
    }
    insert_ended(&owner, &tenant, webhook, "exhausted", 20_000).await;
    for scope in [Scope::Everything, Scope::Organisations([tenant.organisation].into())] {
        let before = published(&services, DELIVERIES_READ).await;
        let pages = services::pages_looked_at(&services.db.main, 1, &owner).await.unwrap();
        let found = exhausted::read(&services.db, &scope, LISTED).await.unwrap();
        assert_eq!((found.len(), found[0].deliveries, found[0].is_more), (1, exhausted::COUNTED, true));
        let pages = services::pages_looked_at(&services.db.main, 1, &owner).await.unwrap() - pages;
        let read = published(&services, DELIVERIES_READ).await - before;
        assert!((exhausted::COUNTED..1_000).contains(&read), "{read}");
        assert!((exhausted::COUNTED..2_000).contains(&pages), "it looked at {pages} pages of Postgres");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn orders_of_a_status_are_counted_without_reading_all_of_them(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (services, owner) = with_one_connection(&options).await;
    let tenant = Tenant::create(&services, "Large").await.unwrap();
    deliver_orders(&owner, &tenant).await;
    // without statistics, few are taken to be in a status: as cheap to read all of them as the first ones
    let before = published(&services, ORDERS_READ).await;
    let pages = services::pages_looked_at(&services.db.lists, 1, &owner).await.unwrap();
    for scope in [Scope::Everything, Scope::Organisations([tenant.organisation].into())] {
        let counts = search::counts(&services.db, &scope).await.unwrap();
        assert_eq!(counts.iter().map(|(_, orders)| orders).sum::<i64>(), search::COUNTED, "{counts:?}");
    }
    let read = published(&services, ORDERS_READ).await - before;
    assert!(read < 3_000, "{read}");
    // nor is what is in another status gone through in the index
    let pages = services::pages_looked_at(&services.db.lists, 1, &owner).await.unwrap() - pages;
    assert!(pages < 4_000, "{pages}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_organisation_without_orders_is_not_looked_for_among_those_of_others(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (services, owner) = with_one_connection(&options).await;
    let large = Tenant::create(&services, "Large").await.unwrap();
    for n in 0..5 {
        Tenant::create(&services, &format!("Small {n}")).await.unwrap();
    }
    deliver_orders(&owner, &large).await;
    // as far as the statistics know, all have orders, and half of them in any status
    sqlx::query("ANALYZE expedition").execute(&owner).await.unwrap();
    let read = "SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'expedition'";
    let before = published(&services, read).await;
    let counts = search::counts(&services.db, &Scope::Everything).await.unwrap();
    assert_eq!(counts.iter().map(|(_, orders)| orders).sum::<i64>(), search::COUNTED, "{counts:?}");
    let found = search::search(&services.db, &Scope::Everything, &search::Filter::default()).await.unwrap();
    assert_eq!(found.orders.len(), 0, "the orders have no details");
    assert_eq!(published(&services, read).await, before);
}

/// Rows of waiting deliveries that were read, by all indexes and without.
const WAITING_READ: &str =
    "SELECT (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'delivery')::bigint + seq_tup_read
     FROM pg_stat_user_tables WHERE relname = 'delivery'";

#[sqlx::test(migrator = "MIGRATIONS")]
async fn webhooks_with_few_deliveries_are_not_looked_for_among_those_of_few_with_many(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    const MANY: i64 = 20_000;
    let (services, owner) = with_one_connection(&options).await;
    let tenant = Tenant::create(&services, "Large").await.unwrap();
    // two webhooks have all that the statistics know of; ten fail, with a delivery each behind these
    let mut hooks = Vec::new();
    for n in 0..12 {
        let hook: WebhookId = sqlx::query_scalar(
            "WITH made AS (
                 INSERT INTO webhook (id, organisation_id, eshop_id, event, events, destination, active, authentication_type, max_in_flight, secret)
                 VALUES (uuid_v7(), $1, $2, '*', '{product_change}', 'https://hooks.example/' || $3, $3 >= 2, 'none', 1, '') RETURNING id
             )
             INSERT INTO webhook_lane (webhook_id, failures, failing_since)
             SELECT id, CASE WHEN $3 >= 2 THEN 9 ELSE 0 END, CASE WHEN $3 >= 2 THEN now() - interval '1 hour' END FROM made
             RETURNING webhook_id",
        )
        .bind(tenant.organisation)
        .bind(tenant.eshop)
        .bind(n)
        .fetch_one(&owner)
        .await
        .unwrap();
        hooks.push(hook);
    }
    let wait = async |hook: WebhookId, count: i64| {
        sqlx::query(
            "WITH recorded AS (
                 INSERT INTO event (id, type, organisation_id, entity_type, entity_id, data)
                 SELECT uuid_v7(), 'product_change', $1, 'product', gen_random_uuid(), '{}' FROM generate_series(1, $4) RETURNING id
             )
             INSERT INTO delivery (id, webhook_id, eshop_id, event_id, next_attempt_at)
             SELECT uuid_v7(), $3, $2, id, now() FROM recorded",
        )
        .bind(tenant.organisation)
        .bind(tenant.eshop)
        .bind(hook)
        .bind(count)
        .execute(&owner)
        .await
        .unwrap();
    };
    wait(hooks[0], MANY).await;
    wait(hooks[1], MANY).await;
    for hook in &hooks[2..] {
        wait(*hook, 1).await;
    }
    for statistics in ["none", "known"] {
        let before = published(&services, WAITING_READ).await;
        let failing = health::attention(&services.db, &Scope::Everything).await.unwrap();
        let named = health::unwell(&services.db, &Scope::Everything, 50).await.unwrap();
        let listed =
            health::page(&services.db, &Scope::Everything, &health::Filter::default()).await.unwrap();
        assert_eq!((failing.failing, named.len(), listed.len()), (10, 10, 12));
        let read = published(&services, WAITING_READ).await - before;
        assert!(read < 500, "statistics {statistics}: {read}");
        sqlx::query("ANALYZE delivery").execute(&owner).await.unwrap();
    }
}

/// Products of a tenant, sold in its e-shop.
async fn insert_products(owner: &PgPool, tenant: &Tenant, count: i32) {
    sqlx::query(
        "WITH made AS (
             INSERT INTO product (id, organisation_id, product_sku, internal_sku, name, reference_numbers, packaging_type,
                 imei_check_required, work_around_sn_in, work_around_ean_sticker, work_around_warranty_inf, work_around_lot, active,
                 active_acceptance, type)
             SELECT uuid_v7(), $1, 'SKU-' || (n + (SELECT count(*) FROM product)), 'sku', 'Product ' || n, '{}', 'A', false, false,
                 false, false, false, true, 0, 'physical'
             FROM generate_series(1, $3) n RETURNING id
         )
         INSERT INTO product_eshop (product_id, eshop_id) SELECT id, $2 FROM made",
    )
    .bind(tenant.organisation)
    .bind(tenant.eshop)
    .bind(count)
    .execute(owner)
    .await
    .unwrap();
}

/// Rows of products that were read, by all indexes and without.
const PRODUCTS_READ: &str =
    "SELECT (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'product')::bigint + seq_tup_read
     FROM pg_stat_user_tables WHERE relname = 'product'";

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_page_of_products_reads_no_more_than_it_shows_and_counts(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let (services, owner, [small, large]) = with_small_and_large(&options).await;
    // as far as the statistics know, each has half of the products
    insert_products(&owner, &small, 30).await;
    insert_products(&owner, &large, 30).await;
    sqlx::query("ANALYZE product, product_eshop").execute(&owner).await.unwrap();
    insert_products(&owner, &large, 40_000).await;
    let own = |tenant: &Tenant| Scope::Organisations([tenant.organisation].into());
    let all = || Scope::Everything;
    // each counts as far as a bounded count goes, but for what is less
    let small_shop = json!({"eshops": {"eq": small.eshop}});
    let asked = [
        (all(), json!({}), BOUND + 200),
        (all(), json!({"organisation": {"eq": large.organisation}}), BOUND + 200),
        (all(), json!({"organisation": {"eq": small.organisation}}), 200),
        (all(), json!({"eshops": {"eq": large.eshop}}), BOUND + 200),
        (own(&large), json!({}), BOUND + 200),
        (own(&large), json!({"productSku": {"eq": "SKU-20000"}}), 10),
        (own(&small), json!({}), 200),
    ];
    for (scope, criteria, most) in &asked {
        must_read_less(&services, scope, criteria, *most).await;
    }
    // the list of the API looks for the products of a shop among all, if it is said to have half of them
    sqlx::query("ANALYZE product, product_eshop").execute(&owner).await.unwrap();
    for (scope, criteria, most) in asked.iter().chain(&[(all(), small_shop, 200)]) {
        must_read_less(&services, scope, criteria, *most).await;
    }
}

/// The first two pages in each order, as the console asks for them.
async fn must_read_less(services: &Services, scope: &Scope, criteria: &Value, most: i64) {
    for order in ["DESC", "ASC"] {
        let mut after = None;
        for page in 0..2 {
            let mut body = json!({
                "criteria": criteria, "sort": [{"field": "createdAt", "order": order}], "limit": 50, "count": "bounded",
                "select": ["id", "productSku", "name", "active", "type", "createdAt", "organisation", "eshops"], "nested": true,
            });
            if let Some(after) = after.take() {
                body["after"] = after;
            }
            let request = Request::read(&PRODUCT, Some(body)).unwrap();
            let before = published(services, PRODUCTS_READ).await;
            let found = list::page(services, scope, &request).await.unwrap();
            let read = published(services, PRODUCTS_READ).await - before;
            assert!(read < most, "page {page} of {criteria}, {order}: {read}");
            let found: Value = serde_json::from_str(&found).unwrap();
            let Some(next) = found["paging"]["next"].as_str() else { break };
            after = Some(json!(next));
        }
    }
}
