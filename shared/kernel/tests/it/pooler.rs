//! What a pooler keeps of the settings of a pool. The pooler is Postgres itself, with a database for each pool, whose settings an operator
//! has set. The check `pooler` of `./dev test` has a real one.

use std::time::Instant;

use longshore_kernel::config::DatabaseSettings;
use longshore_kernel::database::{Database, Use};
use longshore_kernel::pooler::{self, Examined};
use longshore_kernel::pools;
use longshore_stack::postgres::OWNER;
use sqlx::postgres::PgConnectOptions;

use crate::world::{LOOK_AGAIN, PATIENCE, World};

fn settings(world: &World) -> DatabaseSettings {
    DatabaseSettings {
        database_url: world.url("main"),
        database_role: "longshore_service".to_owned(),
        database_pooled: true,
        database_connections: 2,
        database_list_connections: 2,
        database_stream_connections: 1,
        commit_seconds: 1,
    }
}

/// Gives a pool's database the settings that the pool needs.
async fn set_up(world: &World, kind: &pools::Kind) {
    for (name, value) in kind.settings("longshore_service") {
        world
            .execute(
                "postgres",
                &format!("ALTER ROLE {OWNER} IN DATABASE main_{} SET {name} = '{value}'", kind.name),
            )
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_whose_settings_are_lost_gets_no_connection_until_they_are_kept() {
    let world = World::start(&[]).await;
    for kind in pools::ALL {
        world.execute("postgres", &format!("CREATE DATABASE main_{} TEMPLATE main", kind.name)).await;
        if kind.name != "work" {
            set_up(&world, kind).await;
        }
    }
    let settings = settings(&world);
    let options: PgConnectOptions = settings.database_url.parse().unwrap();
    for kind in pools::ALL {
        let found = pooler::examine(&kind.pooled(&options), kind, "longshore_service").await.unwrap();
        match found {
            Examined::Lost(lost) => {
                let named = kind.settings("longshore_service").into_iter();
                let all_named =
                    named.filter(|(name, _)| *name != "TimeZone").all(|(name, _)| lost.what.contains(name));
                assert!(kind.name == "work" && all_named, "{lost}");
            }
            // as Postgres spells what it was given
            found => assert_eq!(found, Examined::OneSession, "{}", kind.name),
        }
    }

    let db = Database::connect_lazy(&settings, "test", Use::Work).unwrap();
    let refused = db.main.of_work().acquire().await.map(drop).unwrap_err();
    assert!(matches!(refused, sqlx::Error::PoolTimedOut), "{refused}");
    let lost = db.refused_by_pooler().unwrap();
    assert!(lost.contains("of the pool work") && !lost.contains("of the pool lists"), "{lost}");
    db.lists.of_work().acquire().await.unwrap();

    set_up(&world, &pools::WORK).await;
    let until = Instant::now() + PATIENCE;
    while let Some(lost) = db.refused_by_pooler() {
        assert!(Instant::now() < until, "{lost}");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    let role: String =
        sqlx::query_scalar("SELECT current_setting('role')").fetch_one(&db.main.of_work()).await.unwrap();
    assert_eq!(role, "longshore_service");
}
