//! Tests of the connection to the system of a warehouse, and a setting that is switched off.

use std::time::Duration;

use longshore_domain::expedition::handover::fill;
use longshore_domain::expedition::handover::setting::{store, trial};
use longshore_domain::expedition::handover::wake;
use longshore_domain::job::chunk::{self, Claimed};
use longshore_domain::job::connection::{self, Finding, Test};
use longshore_domain::job::kind::{JobKind, JobState};
use longshore_domain::standing::queue;
use longshore_kernel::change::Change;
use longshore_kernel::migration::MIGRATIONS;
use longshore_kernel::queue::Queue;
use longshore_testkit::receiver::{Answer, Receiver};
use longshore_testkit::wms::{Mischief, On};
use longshore_worker::dispatcher::{self, Controlled};
use longshore_worker::queue::QueueControl;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::{CANCEL, Depot, ROLLBACK};

impl Depot {
    /// Accepts a test, has a worker execute it, and returns what its job shows.
    pub(super) async fn tested(&self) -> Test {
        let world = &self.place.world;
        let job = trial::test(&world.services, &world.context, self.wms).await.unwrap().job.unwrap();
        world.drain().await;
        let found =
            connection::last(&world.services.db, JobKind::WmsTest, &self.wms.to_string()).await.unwrap();
        let found = found.unwrap();
        assert_eq!(found.job, job);
        found
    }

    async fn empty(&self) -> u64 {
        fill::empty(&self.place.world.services).await.unwrap()
    }
}

/// Whether the connection works, and a test for what is said about it.
fn must_say(test: &Test, works: bool, says: &str) {
    assert_eq!((test.state, test.works), (JobState::Succeeded, Some(works)), "{test:?}");
    assert!(test.message.as_deref().unwrap().contains(says), "{test:?}");
    assert!(test.took_ms.unwrap() >= 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_test_of_a_system_is_a_signed_question_that_changes_nothing(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::by_hand(&options).await;
    // it can be tried before it is switched on, and while it is paused
    for other in [json!({"active": false}), json!({"paused": true}), json!({})] {
        depot.store(other).await;
        must_say(&depot.tested().await, true, "HTTP 404");
    }
    let asked = depot.system.asked();
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|asked| (asked.method.as_str(), asked.status) == ("GET", 404)), "{asked:?}");
    assert!(depot.system.book().is_empty());
    assert_eq!(depot.lane("failures").await.as_deref(), Some("0"));
    assert_eq!(depot.lane("token").await.as_deref(), Some("0"), "its lane was not leased");
    let counts = depot.place.world.outcome(depot.tested().await.job).await;
    assert_eq!(counts, ("succeeded".to_owned(), [0, 1, 0]));
    let audited = "SELECT count(*) FROM audit WHERE action = 'wms_setting.test' AND changes #>> '{test,1}' IN (SELECT id::text FROM job)";
    assert_eq!(depot.place.world.count(audited).await, 4);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_test_obeys_no_pause_of_its_queue(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::new(&options).await;
    let world = &depot.place.world;
    queue::pause(&world.services, &world.context, "partner", None).await.unwrap();
    trial::test(&world.services, &world.context, depot.wms).await.unwrap();
    assert_eq!(world.count("SELECT count(*) FROM job WHERE job_waits_for(id) IS NOT NULL").await, 0);
    // no worker reads the queue
    let controlled = vec![Controlled::new(Queue::Partner, QueueControl::new(1))];
    let dispatcher = tokio::spawn(dispatcher::run(world.worker.clone(), controlled));
    world.until("SELECT count(*) FROM job WHERE kind = 'wms.test' AND state = 'succeeded'", 1).await;
    let found = connection::last(&world.services.db, JobKind::WmsTest, &depot.wms.to_string()).await.unwrap();
    must_say(&found.unwrap(), true, "HTTP 404");
    world.worker.stop.cancel();
    dispatcher.await.unwrap();
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_test_says_why_a_system_cannot_be_used(_: PgPoolOptions, options: PgConnectOptions) {
    let depot = Depot::by_hand(&options).await;
    depot.store(json!({})).await;
    // the system knows another secret only
    let stranger = longshore_testkit::wms::Wms::start().await.unwrap();
    stranger.trust("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    depot.store(json!({"baseUrl": stranger.url()})).await;
    let refused = depot.tested().await;
    must_say(&refused, false, "signature (HTTP 401)");
    assert_eq!(depot.place.world.outcome(refused.job).await, ("succeeded".to_owned(), [0, 0, 1]));

    let receiver = Receiver::start().await.unwrap();
    depot
        .store(json!({"baseUrl": receiver.url("/wms"), "credentials": {"type": "bearer", "token": "hush"}}))
        .await;
    let elsewhere = Answer::Redirect("http://127.0.0.1:1/".to_owned());
    for (answer, works, says) in [
        (Answer::Status(200), false, "probably not the system"),
        (Answer::Status(403), false, "refuses the credentials"),
        (Answer::Status(501), true, "were not checked"),
        (Answer::Status(503), false, "HTTP 503"),
        (elsewhere, false, "redirect"),
        (Answer::Cut, false, "could not be read"),
    ] {
        receiver.answer_all(answer);
        must_say(&depot.tested().await, works, says);
    }
    let receipts = receiver.receipts();
    assert!(receipts.iter().all(|asked| asked.header("authorization") == Some("Bearer hush")));
    assert!(receipts.iter().all(|asked| asked.path.starts_with("/wms/expedition/")));
    assert_eq!(depot.lane("failures").await.as_deref(), Some("0"), "the breaker hears nothing of tests");

    drop(receiver);
    must_say(&depot.tested().await, false, "cannot connect");
    // nothing that a test sends or hears is kept with its secret
    let said = "SELECT count(*) FROM job WHERE to_jsonb(job)::text LIKE '%hush%'";
    assert_eq!(depot.place.world.count(said).await, 0);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_system_that_a_test_finds_working_is_called_again_at_once(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::new(&options).await;
    let wake = async || wake::wake(&depot.place.world.services).await.unwrap();
    assert_eq!(wake().await, 0, "the setting is stored");
    let orders = [depot.send("A-1").await, depot.send("A-2").await];
    for order in orders {
        depot.system.misbehave(On::Order(order.get()), Mischief::Status(503));
    }
    depot.drain().await;
    let opened = "UPDATE wms_lane SET failures = 9, failing_since = now(), probes = 3, probe_at = now() + interval '10 minutes',
                  held_until = now() + interval '30 minutes'";
    depot.place.world.execute(opened).await;
    assert_eq!(wake().await, 0);
    must_say(&depot.tested().await, true, "HTTP 404");
    assert_eq!(wake().await, 2);
    depot.drain().await;
    for order in orders {
        depot.must_be(order, "awaiting_processing", Some("accepted")).await;
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_test_that_waits_is_not_accepted_twice_and_one_of_a_deleted_setting_fails(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::by_hand(&options).await;
    let world = &depot.place.world;
    let test = async || trial::test(&world.services, &world.context, depot.wms).await;
    assert_eq!(test().await.unwrap_err().kind().status, 404);
    depot.store(json!({})).await;
    let (first, second) = tokio::join!(test(), test());
    assert_eq!(first.unwrap().job, second.unwrap().job);
    store::delete(&world.services, &world.context, depot.wms).await.unwrap();
    world.drain().await;
    let found = connection::last(&world.services.db, JobKind::WmsTest, &depot.wms.to_string()).await.unwrap();
    let found = found.unwrap();
    assert_eq!((found.state, found.works), (JobState::Failed, None));
    assert!(found.error.unwrap().contains("was deleted"));
    assert_eq!(test().await.unwrap_err().kind().status, 410);
    assert!(depot.system.asked().is_empty());
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_was_due_goes_on_by_hand_when_its_setting_is_switched_off(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::new(&options).await;
    let due = depot.send("A-1").await;
    // another one, which was called before: its number is remembered
    let again = depot.send("A-2").await;
    depot.drain().await;
    depot.command(again, &ROLLBACK).await.unwrap();
    depot.time_passes().await;
    depot.drain().await;
    depot.must_be(again, "on_hold", Some("withdrawn")).await;
    depot.store(json!({"paused": true})).await;
    let fresh = depot.send("A-3").await;
    depot.command(again, &super::support::SEND).await.unwrap();
    for order in [fresh, again] {
        depot.must_be(order, "awaiting_processing", Some("pending")).await;
    }
    assert_eq!(depot.empty().await, 0, "it is active");

    depot.store(json!({"active": false})).await;
    assert_eq!(depot.empty().await, 2);
    assert_eq!(depot.empty().await, 0);
    for order in [fresh, again] {
        depot.must_be(order, "awaiting_processing", None).await;
    }
    // what the warehouse has goes on as it was
    depot.must_be(due, "awaiting_processing", Some("accepted")).await;
    // and what is by hand can be cancelled without asking anybody
    depot.command(fresh, &CANCEL).await.unwrap();
    depot.must_be(fresh, "canceled", None).await;

    // switched on again it is due with the number that follows
    depot.store(json!({})).await;
    assert_eq!(depot.fill().await, 1);
    depot.must_be(again, "awaiting_processing", Some("pending")).await;
    depot.drain().await;
    assert_eq!(depot.entry(again).unwrap().number, 2);
    depot.must_be(again, "awaiting_processing", Some("accepted")).await;

    // one that becomes due in a transaction that saw the setting, and ends after it was deleted
    let mut late = depot.place.world.owner.begin().await.unwrap();
    let last = depot.send("A-4").await;
    depot.must_be(last, "awaiting_processing", Some("pending")).await;
    sqlx::query("SELECT FROM expedition WHERE id = $1 FOR UPDATE")
        .bind(last)
        .execute(&mut *late)
        .await
        .unwrap();
    let world = &depot.place.world;
    store::delete(&world.services, &world.context, depot.wms).await.unwrap();
    assert_eq!(depot.empty().await, 0, "it is locked");
    late.commit().await.unwrap();
    assert_eq!(depot.empty().await, 1);
    depot.must_be(last, "awaiting_processing", None).await;
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_test_whose_worker_died_is_made_by_the_next_and_counts_once(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let depot = Depot::by_hand(&options).await;
    depot.store(json!({})).await;
    let world = &depot.place.world;
    let job = trial::test(&world.services, &world.context, depot.wms).await.unwrap().job.unwrap();
    let claimed = chunk::claim(&world.services.db.main, job, 0, true).await.unwrap();
    let Claimed::Now(dead) = claimed else { panic!("{claimed:?}") };
    world
        .execute(
            "UPDATE job_chunk SET leased_until = now() - interval '1 second' WHERE leased_until IS NOT NULL",
        )
        .await;
    world.drain().await;
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [0, 1, 0]));
    assert_eq!(depot.system.asked().len(), 1);
    let late = Finding { works: false, message: "late".to_owned(), took: Duration::ZERO };
    let mut change = Change::begin(&world.services).await.unwrap();
    assert!(connection::complete(&mut change, &dead, &late).await.unwrap().is_lost());
    drop(change);
    assert_eq!(world.outcome(job).await, ("succeeded".to_owned(), [0, 1, 0]));
}
