use longshore_domain::account::admin::bulk::{self, ActivateAdmins, DeactivateAdmins, DeleteAdmins};
use longshore_domain::job::kind::JobKind::{self, AdminActivate, AdminDeactivate, AdminDelete};
use longshore_kernel::access::{Role, Scope};
use longshore_kernel::context::Context;
use longshore_kernel::ids::{AdminId, JobId};
use longshore_kernel::migration::MIGRATIONS;
use longshore_kernel::problem::Problem;
use longshore_worker::jobs::chunk::run;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;

const ACTIVE: &str = "SELECT count(*) FROM admin WHERE active";

/// Inserts active admins with a role, each with the token of a login.
pub(super) async fn admins(world: &World, role: &str, count: i32) -> Vec<AdminId> {
    sqlx::query_scalar(
        "WITH made AS (
             INSERT INTO admin (id, email, first_name, last_name, role, active, active_acceptance)
             SELECT uuid_v7(), $1 || n || '@example.com', 'x', 'y', $1, true, nextval('acceptance')
             FROM generate_series(1, $2) AS n
             RETURNING id
         ), tokens AS (
             INSERT INTO access_token (id, hash, name, role, created_by, expires_at, admin_id)
             SELECT uuid_v7(), sha256(id::text::bytea), 'login', $1, 'x', now() + interval '1 hour', id FROM made
         )
         SELECT id FROM made",
    )
    .bind(role)
    .bind(count)
    .fetch_all(&world.owner)
    .await
    .unwrap()
}

pub(super) async fn accept(world: &World, kind: JobKind, ids: &[AdminId]) -> Result<JobId, Problem> {
    let mut context: Context = world.context.clone();
    context.caller.role = Role::Superadmin;
    context.caller.scope = Scope::Everything;
    let (services, ids) = (&world.services, ids.to_vec());
    let answer = match kind {
        AdminActivate => bulk::accept(services, &context, ActivateAdmins, ids).await?,
        AdminDeactivate => bulk::accept(services, &context, DeactivateAdmins, ids).await?,
        AdminDelete => bulk::accept(services, &context, DeleteAdmins, ids).await?,
        other => panic!("{other} changes no admins"),
    };
    Ok(answer.job.unwrap())
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn admins_are_deactivated_activated_and_deleted_in_one_chunk(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let ids = admins(&world, "admin", 20_000).await;
    let off = accept(&world, AdminDeactivate, &ids).await.unwrap();
    assert_eq!(world.drain().await, 1);
    assert_eq!(world.outcome(off).await, ("succeeded".to_owned(), [20_000, 0, 0]));
    assert_eq!(world.count(ACTIVE).await, 0);
    assert_eq!(world.count("SELECT count(*) FROM access_token WHERE revoked_at IS NULL").await, 0);
    let on = accept(&world, AdminActivate, &ids[..2]).await.unwrap();
    world.drain().await;
    assert_eq!(world.outcome(on).await, ("succeeded".to_owned(), [2, 0, 0]));
    let again = accept(&world, AdminActivate, &ids[..3]).await.unwrap();
    world.drain().await;
    assert_eq!(world.outcome(again).await, ("succeeded".to_owned(), [1, 2, 0]));
    assert_eq!(world.count("SELECT count(*) FROM audit WHERE action = 'admin.activate'").await, 3);
    let delete = accept(&world, AdminDelete, &ids).await.unwrap();
    world.drain().await;
    assert_eq!(world.outcome(delete).await, ("succeeded".to_owned(), [20_000, 0, 0]));
    assert_eq!(world.count("SELECT count(*) FROM admin").await, 0);
    assert_eq!(world.count("SELECT count(*) FROM access_token").await, 0);
    assert_eq!(world.count("SELECT count(*) FROM tombstone WHERE entity_type = 'admin'").await, 20_000);
    let audited = "SELECT count(*) FROM audit WHERE action = 'admin.delete' AND job_id IS NOT NULL";
    assert_eq!(world.count(audited).await, 20_000);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn one_admin_deleted_meanwhile_stops_the_change_of_all(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let ids = admins(&world, "admin", 3).await;
    let job = accept(&world, AdminDeactivate, &ids).await.unwrap();
    let gone = accept(&world, AdminDelete, &ids[1..2]).await.unwrap();
    run(world.worker.clone(), format!("{gone}:0")).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("failed".to_owned(), [0, 0, 3]));
    assert!(world.job(job).await["error"].as_str().unwrap().contains(&ids[1].to_string()));
    assert_eq!(world.count(ACTIVE).await, 2);
    // deleting an admin that is already deleted succeeds
    let job = accept(&world, AdminDelete, &ids[..1]).await.unwrap();
    let twice = accept(&world, AdminDelete, &ids[..1]).await.unwrap();
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 0, 0]));
    assert_eq!(world.outcome(twice).await, ("succeeded".to_owned(), [0, 1, 0]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn two_bulks_at_once_leave_one_active_superadmin(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    for kind in [AdminDeactivate, AdminDelete] {
        sqlx::raw_sql("DELETE FROM admin").execute(&world.owner).await.unwrap();
        let ids = admins(&world, "superadmin", 10).await;
        // each leaves the admins of the other unchanged
        let one = accept(&world, kind, &ids[..5]).await.unwrap();
        let two = accept(&world, kind, &ids[5..]).await.unwrap();
        tokio::join!(
            run(world.worker.clone(), format!("{one}:0")),
            run(world.worker.clone(), format!("{two}:0")),
        );
        let mut ends = [world.outcome(one).await, world.outcome(two).await];
        ends.sort();
        assert_eq!(ends, [("failed".to_owned(), [0, 0, 5]), ("succeeded".to_owned(), [5, 0, 0])]);
        assert_eq!(world.count(ACTIVE).await, 5, "all or nothing");
        let left = accept(&world, kind, &ids).await.unwrap_err();
        assert!(matches!(left.kind().status, 400 | 409), "{left}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_late_older_bulk_does_not_undo_a_newer_one(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let ids = admins(&world, "admin", 3).await;
    let older = accept(&world, AdminDeactivate, &ids).await.unwrap();
    let newer = accept(&world, AdminActivate, &ids).await.unwrap();
    run(world.worker.clone(), format!("{newer}:0")).await;
    world.drain().await;
    assert_eq!(world.outcome(older).await, ("succeeded".to_owned(), [0, 3, 0]));
    assert_eq!(world.count(ACTIVE).await, 3);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_bulk_that_is_dropped_half_way_is_completed_by_the_next_worker(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let ids = admins(&world, "admin", 1_000).await;
    let job = accept(&world, AdminDelete, &ids).await.unwrap();
    // one of the admins is locked: the chunk waits for it, and is dropped there
    let mut holder = world.owner.begin().await.unwrap();
    sqlx::query("SELECT FROM admin WHERE id = $1 FOR UPDATE")
        .bind(ids[999])
        .execute(&mut *holder)
        .await
        .unwrap();
    let running = tokio::spawn(run(world.worker.clone(), format!("{job}:0")));
    world.until_locked().await;
    running.abort();
    let _ = running.await;
    holder.rollback().await.unwrap();
    assert_eq!(world.count("SELECT count(*) FROM admin").await, 1_000);
    world
        .execute("UPDATE job_chunk SET leased_until = now() - interval '1 second' WHERE state = 'running'")
        .await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1_000, 0, 0]));
    assert_eq!(world.count("SELECT count(*) FROM admin").await, 0);
}
