use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use longshore_domain::job::halving::{Refused, Statement, halve};
use longshore_domain::job::kind::JobKind;
use longshore_domain::job::width::WIDEST;
use longshore_kernel::migration::MIGRATIONS;
use sqlx::PgConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;

/// Inserts numbers, and counts the calls.
#[derive(Default)]
struct Insert(AtomicUsize);

impl Statement<i32> for Insert {
    type Out = u64;
    async fn apply(&self, tx: &mut PgConnection, items: &[i32]) -> Result<u64, sqlx::Error> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let inserted =
            sqlx::query("INSERT INTO numbers SELECT unnest($1::int[])").bind(items).execute(tx).await?;
        Ok(inserted.rows_affected())
    }
    async fn lock(&self, _: &mut PgConnection, _: &[i32]) -> Result<(), sqlx::Error> {
        Ok(())
    }
}

/// Writes down what it is asked for; the database refuses the number 3.
#[derive(Default)]
struct Note(Mutex<Vec<String>>);

impl Statement<i32> for Note {
    type Out = ();
    async fn apply(&self, tx: &mut PgConnection, items: &[i32]) -> Result<(), sqlx::Error> {
        self.0.lock().unwrap().push(format!("apply {items:?}"));
        sqlx::query("SELECT 1 / (n - 3) FROM unnest($1::int[]) AS n")
            .bind(items)
            .execute(tx)
            .await
            .map(|_| ())
    }
    async fn lock(&self, _: &mut PgConnection, items: &[i32]) -> Result<(), sqlx::Error> {
        self.0.lock().unwrap().push(format!("lock {items:?}"));
        Ok(())
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_chunk_that_would_write_too_many_deliveries_is_halved_until_it_does_not(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let ids = world.products(1_000).await;
    // another organisation has webhooks of its own
    let other = World::over(world.services.clone(), &options).await;
    for of in [&world, &other] {
        let more = "INSERT INTO webhook (id, organisation_id, eshop_id, events, destination, active, authentication_type, secret)
                    SELECT uuid_v7(), $1, $2, ARRAY['product_change'], 'http://127.0.0.1:1/', false, 'none', '' FROM generate_series(1, $3)";
        let webhooks = i32::try_from(WIDEST / 1_000 + 1).unwrap();
        sqlx::query(more)
            .bind(of.tenant.organisation)
            .bind(of.tenant.eshop)
            .bind(webhooks)
            .execute(&world.owner)
            .await
            .unwrap();
    }
    let job = world.switch(JobKind::ProductDeactivate, &ids).await;
    assert_eq!(world.count("SELECT count(*) FROM job_chunk").await, 1);
    // its halves are narrow enough
    assert_eq!(world.drain().await, 3);
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1_000, 0, 0]));
    assert_eq!(world.count("SELECT count(*) FROM job_chunk WHERE item_count = 500").await, 2);
    assert_eq!(world.count("SELECT count(*) FROM delivery").await, WIDEST + 1_000);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_parts_will_lock_is_locked_once_before_the_first_of_them(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let mut tx = world.owner.begin().await.unwrap();
    let note = Note::default();
    let halved = halve(&mut tx, &[1, 2, 3, 4], &note).await.unwrap();
    assert_eq!(halved.refused.len(), 1);
    let asked = [
        "apply [1, 2, 3, 4]",
        "lock [1, 2, 3, 4]",
        "apply [1, 2]",
        "apply [3, 4]",
        "apply [3]",
        "apply [3]",
        "apply [4]",
    ];
    assert_eq!(*note.0.lock().unwrap(), asked);
    let note = Note::default();
    halve(&mut tx, &[1, 2], &note).await.unwrap();
    assert_eq!(*note.0.lock().unwrap(), ["apply [1, 2]"], "by itself, a statement locks in order");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn one_row_of_100000_that_only_the_database_refuses_is_found_in_few_statements(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    world
        .execute("CREATE TABLE numbers (n integer CONSTRAINT nobody_is_number_six CHECK (n <> 61803))")
        .await;
    let numbers: Vec<i32> = (0..100_000).collect();
    let statement = Insert::default();
    let mut tx = world.owner.begin().await.unwrap();
    let halved = halve(&mut tx, &numbers, &statement).await.unwrap();
    tx.commit().await.unwrap();
    let message = "the database refused it: nobody is number six".to_owned();
    assert_eq!(halved.refused, [Refused { position: 61_803, code: "refused", message }]);
    assert_eq!(halved.applied.iter().map(|(_, rows)| rows).sum::<u64>(), 99_999);
    assert_eq!(world.count("SELECT count(DISTINCT n) FROM numbers").await, 99_999);
    // the whole, both halves of each refused part, seventeen times, and the refused row a second time
    let statements = statement.0.load(Ordering::Relaxed);
    assert!(statements <= 36, "{statements} statements");
}
