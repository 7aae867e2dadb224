use std::time::Duration;

use longshore_domain::job::chunk::{self, Claim, Claimed, Count};
use longshore_domain::job::kind::JobKind::ProductDeactivate;
use longshore_domain::job::{execution, failing};
use longshore_kernel::change::Change;
use longshore_kernel::hold::Hold;
use longshore_kernel::ids::JobId;
use longshore_kernel::migration::MIGRATIONS;
use longshore_kernel::queue::Queue;
use longshore_worker::jobs::chunk::run;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;

const LAPSE: &str = "UPDATE job_chunk SET leased_until = now() - interval '1 second' WHERE state = 'running'";

/// Claims the first chunk of a job.
pub(crate) async fn claim(world: &World, job: JobId) -> Box<Claim> {
    match chunk::claim(&world.services.db.main, job, 0, true).await.unwrap() {
        Claimed::Now(claim) => claim,
        other => panic!("{other:?}"),
    }
}

/// A bulk job of one chunk with one product.
async fn switch_of_one(world: &World) -> JobId {
    world.switch(ProductDeactivate, &world.products(1).await).await
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_chunk_is_claimed_by_one_of_many(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let job = switch_of_one(&world).await;
    let claims =
        futures::future::join_all((0..10).map(|_| chunk::claim(&world.services.db.main, job, 0, true))).await;
    let won = claims.into_iter().filter(|c| matches!(c, Ok(Claimed::Now(_)))).count();
    assert_eq!(won, 1);
}

/// Minutes since the first start of a job, and since its last attempt began.
async fn minutes(world: &World, job: JobId) -> (i32, i32) {
    sqlx::query_as(
        "SELECT round(extract(epoch FROM now() - started_at) / 60)::int,
                round(extract(epoch FROM now() - attempt_started_at) / 60)::int
         FROM job WHERE id = $1",
    )
    .bind(job)
    .fetch_one(&world.owner)
    .await
    .unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn an_attempt_begins_after_a_wait_in_which_nothing_of_the_job_ran(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    const LATER: &str = "UPDATE job SET started_at = started_at - interval '12 minutes',
                             attempt_started_at = attempt_started_at - interval '12 minutes'";
    let world = World::new(&options).await;
    let db = &world.services.db.main;
    let postpone = async |claim: &Claim| {
        let why = Some("the partner is busy");
        assert_eq!(chunk::postpone(db, claim.held(), Duration::ZERO, why).await.unwrap(), Hold::Kept);
    };
    // two chunks
    let job = world.switch(ProductDeactivate, &world.products(1_001).await).await;
    let first = claim(&world, job).await;
    assert_eq!(minutes(&world, job).await, (0, 0));
    world.execute(LATER).await;
    postpone(&first).await;
    let second = claim(&world, job).await;
    assert_eq!(minutes(&world, job).await, (12, 0));

    // its other chunk runs meanwhile
    let other = chunk::claim(db, job, 1, true).await.unwrap();
    assert!(matches!(other, Claimed::Now(_)), "{other:?}");
    world.execute(LATER).await;
    postpone(&second).await;
    claim(&world, job).await;
    assert_eq!(minutes(&world, job).await, (24, 12));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_claim_that_was_taken_over_changes_nothing(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let ids = world.products(2).await;
    let job = world.switch(ProductDeactivate, &ids).await;
    let stale = claim(&world, job).await;
    world.execute(LAPSE).await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [2, 0, 0]));

    let mut change = Change::begin(&world.services).await.unwrap();
    let count = Count { changed: 2, ..Count::default() };
    assert_eq!(execution::complete(&mut change, &stale, count, &[]).await.unwrap(), Hold::Lost);
    drop(change);
    assert_eq!(failing::give_up(&world.services, &stale, "late").await.unwrap(), Hold::Lost);
    let postponed = chunk::postpone(&world.services.db.main, stale.held(), Duration::ZERO, None).await;
    assert_eq!(postponed.unwrap(), Hold::Lost);
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [2, 0, 0]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn work_that_is_dropped_half_way_changes_nothing_and_is_given_back_by_its_process(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let ids = world.products(500).await;
    let job = world.switch(ProductDeactivate, &ids).await;
    // one of the products is locked: the chunk waits for it in the middle of its statement, and is dropped
    // there
    let mut holder = world.owner.begin().await.unwrap();
    sqlx::query("SELECT FROM product WHERE id = $1 FOR UPDATE")
        .bind(ids[499])
        .execute(&mut *holder)
        .await
        .unwrap();
    let running = tokio::spawn(run(world.worker.clone(), format!("{job}:0")));
    world.until_locked().await;
    running.abort();
    let _ = running.await;
    holder.rollback().await.unwrap();
    assert_eq!(world.count("SELECT count(*) FROM product WHERE NOT active").await, 0);
    let keeping = tokio::spawn(world.worker.leases.clone().keep_alive());
    while world.drain().await == 0 {
        tokio::task::yield_now().await;
    }
    keeping.abort();
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [500, 0, 0]));
    assert_eq!(
        world.count("SELECT (max(attempts) + max(crashes))::bigint FROM job_chunk").await,
        1,
        "no process died"
    );
    assert_eq!(world.count("SELECT count(*) FROM audit WHERE action = 'product.deactivate'").await, 500);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_chunk_does_not_fail_however_often_its_process_is_killed(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let job = switch_of_one(&world).await;
    for deaths in 0..12 {
        assert_eq!(claim(&world, job).await.crashes, deaths);
        world.execute(LAPSE).await;
    }
    run(world.worker.clone(), format!("{job}:0")).await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 0, 0]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn suspects_run_one_at_a_time_in_a_process(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let job = switch_of_one(&world).await;
    claim(&world, job).await;
    world.execute(LAPSE).await;
    let [(Queue::Chunk, place), _] = &world.worker.suspects else { panic!("there is one") };
    let other_suspect = place.acquire().await.unwrap();
    run(world.worker.clone(), format!("{job}:0")).await;
    assert_eq!(world.job(job).await["state"], "running", "it waits for its turn");
    drop(other_suspect);
    run(world.worker.clone(), format!("{job}:0")).await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 0, 0]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_claim_that_waits_for_its_job_does_not_delay_a_suspect(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let ids = world.products(1).await;
    let [waiting, suspect] =
        [world.switch(ProductDeactivate, &ids).await, world.switch(ProductDeactivate, &ids).await];
    claim(&world, suspect).await;
    world.execute(LAPSE).await;
    let mut holder = world.owner.begin().await.unwrap();
    sqlx::query("SELECT FROM job WHERE id = $1 FOR UPDATE")
        .bind(waiting)
        .execute(&mut *holder)
        .await
        .unwrap();
    let running = tokio::spawn(run(world.worker.clone(), format!("{waiting}:0")));
    world.until_locked().await;
    run(world.worker.clone(), format!("{suspect}:0")).await;
    assert_eq!(world.outcome(suspect).await, ("succeeded".to_owned(), [1, 0, 0]));
    holder.rollback().await.unwrap();
    running.await.unwrap();
    assert_eq!(world.outcome(waiting).await.0, "succeeded");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_living_process_that_lost_its_lease_clears_the_suspicion(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let job = switch_of_one(&world).await;
    let first = claim(&world, job).await;
    world.execute(LAPSE).await;
    assert_eq!(claim(&world, job).await.crashes, 1);
    chunk::still_alive(&world.services.db.main, &first).await.unwrap();
    world.execute(LAPSE).await;
    assert_eq!(claim(&world, job).await.crashes, 1, "only the second claim's end is a death");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_lease_is_renewed_while_the_work_goes_on_and_lost_when_the_job_is_cancelled(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let job = switch_of_one(&world).await;
    let claim = claim(&world, job).await;
    let lease = world.worker.leases.hold(&claim);
    let keeping = tokio::spawn(world.worker.leases.clone().keep_alive());
    world.execute(LAPSE).await;
    while world.count("SELECT count(*) FROM job_chunk WHERE leased_until > now()").await == 0 {
        tokio::task::yield_now().await;
    }
    longshore_domain::job::control::cancel(&world.services, &world.context, job).await.unwrap();
    lease.lost.cancelled().await;
    lease.end();
    keeping.abort();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_chunk_given_back_at_a_stop_counts_neither_as_an_attempt_nor_as_a_death(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let job = switch_of_one(&world).await;
    let first = claim(&world, job).await;
    let _lease = world.worker.leases.hold(&first);
    world.worker.leases.hand_back().await;
    let second = claim(&world, job).await;
    assert_eq!((second.attempts, second.crashes), (1, 0));
    assert!(second.token > first.token);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_renewal_does_not_wait_for_a_chunk_that_is_ending_and_loses_nothing(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let job = switch_of_one(&world).await;
    let other = world.switch(ProductDeactivate, &[job.get().into()]).await;
    let claim = claim(&world, job).await;
    let mut change = Change::begin(&world.services).await.unwrap();
    let count = Count { changed: 1, ..Count::default() };
    assert_eq!(execution::complete(&mut change, &claim, count, &[]).await.unwrap(), Hold::Kept);
    // meanwhile another lease of the process is renewed
    let (held, other) = (claim.held(), self::claim(&world, other).await.held());
    // the row of the first claim is locked
    let lapse = "UPDATE job_chunk SET leased_until = now() - interval '1 second' WHERE (job_id, number) IN (
                     SELECT job_id, number FROM job_chunk WHERE state = 'running' FOR UPDATE SKIP LOCKED)";
    world.execute(lapse).await;
    let holds = "SELECT count(*) FROM job_chunk
                 WHERE leased_until > now() AND job_id = (SELECT id FROM job ORDER BY acceptance DESC LIMIT 1)";
    assert_eq!(world.count(holds).await, 0);
    let db = &world.services.db.main;
    assert_eq!(chunk::renew(db, &[held, other]).await.unwrap(), [held, other]);
    assert_eq!(world.count(holds).await, 1);
    change.commit().await.unwrap();
    assert_eq!(chunk::renew(db, &[held, other]).await.unwrap(), [held, other], "its holder has ended it");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_worker_that_loses_its_claim_while_it_works_clears_the_suspicion(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let job = switch_of_one(&world).await;
    let mut holder = world.owner.begin().await.unwrap();
    sqlx::query("SELECT FROM product FOR UPDATE").execute(&mut *holder).await.unwrap();
    let keeping = tokio::spawn(world.worker.leases.clone().keep_alive());
    let running = tokio::spawn(run(world.worker.clone(), format!("{job}:0")));
    world.until_locked().await;
    // like another process that assumes that this one has died
    world.execute("UPDATE job_chunk SET token = token + 1, crashes = crashes + 1").await;
    running.await.unwrap();
    keeping.abort();
    assert_eq!(world.count("SELECT crashes::bigint FROM job_chunk").await, 0);
    holder.rollback().await.unwrap();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_chunk_that_cannot_be_tried_waits_longer_each_time_and_spends_no_attempt(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    const WAIT: &str =
        "SELECT round(extract(epoch FROM next_attempt_at - now()))::bigint FROM job_chunk WHERE attempts = 0";
    let world = World::new(&options).await;
    let job = switch_of_one(&world).await;
    let fail = "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    RAISE EXCEPTION 'temporary file size exceeds the limit' USING ERRCODE = '53400';
                END $$;
                CREATE TRIGGER fail BEFORE UPDATE ON product EXECUTE FUNCTION fail()";
    world.execute(fail).await;
    for (waited, wait) in [(0, 1), (10, 10), (600, 30)] {
        assert_eq!(world.job(job).await["error"], serde_json::Value::Null);
        sqlx::query(
            "UPDATE job_chunk SET next_attempt_at = now(), waits_since = now() - make_interval(secs => $1)",
        )
        .bind(f64::from(waited))
        .execute(&world.owner)
        .await
        .unwrap();
        run(world.worker.clone(), format!("{job}:0")).await;
        assert!((wait - 1..=wait).contains(&world.count(WAIT).await), "after {waited} s");
    }
    let row = world.job(job).await;
    assert_eq!(row["state"], "retrying");
    assert!(row["error"].as_str().unwrap().contains("temporary file size exceeds the limit"), "{row}");
    world.execute("DROP TRIGGER fail ON product; UPDATE job_chunk SET next_attempt_at = now()").await;
    run(world.worker.clone(), format!("{job}:0")).await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [1, 0, 0]));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_chunk_of_a_job_in_order_sees_a_claim_that_is_being_committed(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = World::new(&options).await;
    let ids = world.products(1_001).await;
    let job = world.switch(ProductDeactivate, &ids).await;
    world.execute("UPDATE job SET in_order = true").await;
    let db = &world.services.db.main;
    assert_eq!(world.count("SELECT count(*) FROM job_chunk").await, 2);
    // the claim of the second chunk, by a process that came before the first was due again
    let mut other = world.owner.begin().await.unwrap();
    for claiming in [
        "SELECT FROM job FOR NO KEY UPDATE",
        "UPDATE job_chunk SET state = 'running', token = token + 1, leased_until = now() + interval '1 minute' WHERE number = 1",
    ] {
        sqlx::query(claiming).execute(&mut *other).await.unwrap();
    }
    let claiming = async { chunk::claim(db, job, 0, false).await.unwrap() };
    let committing = async {
        world.until_locked().await;
        other.commit().await.unwrap();
    };
    let (claimed, ()) = tokio::join!(claiming, committing);
    assert!(matches!(claimed, Claimed::Nothing), "{claimed:?}");
}
