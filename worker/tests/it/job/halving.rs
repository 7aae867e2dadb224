use std::sync::atomic::{AtomicUsize, Ordering};

use longshore_domain::job::halving::{Refused, Statement, halve};
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
