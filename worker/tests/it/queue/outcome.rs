//! However a task ends, its entry ends with it, and the worker continues.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use apalis::prelude::{RetryAfterError, WorkerBuilder};
use longshore_worker::queue::{Dead, DeadReason, RedisStream};
use tokio::sync::{Semaphore, mpsc};

use super::support::{
    Journal, QUEUE, Scratch, Worker, eventually, gated, handler, ids, patient, put, quick, taking, until,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_panics_or_fails_ends_its_entry_and_harms_no_other() {
    let (scratch, queues, journal) = Scratch::shared().opened();
    let written = Arc::clone(&journal);
    let work = handler(move |job| {
        let journal = Arc::clone(&written);
        assert!(job.id != "sync-panic", "before there is a future");
        async move {
            journal.begin(&job);
            tokio::time::sleep(Duration::from_millis(5)).await;
            assert!(!job.id.starts_with("panic"), "in the future");
            journal.end(&job);
            if job.id.starts_with("fail") { Err("refused".into()) } else { Ok(()) }
        }
    });
    let worker = Worker::start(&queues, patient(8), work);
    let good = ids("good", 50);
    put(&queues, &[&good[..25], &ids("panic", 3), &["sync-panic".to_owned()]].concat()).await;
    put(&queues, &[&ids("fail", 3), &good[25..]].concat()).await;
    journal.all_ended(&[good, ids("fail", 3)].concat()).await;
    scratch.emptied().await;
    assert!(worker.is_alive());
    // counted when Redis has answered, a little after the entries are deleted
    until("each is counted once", || {
        let stats = worker.control.stats();
        (stats.acknowledged, stats.in_flight) == (57, 0)
    })
    .await;
    assert!(journal.deliveries("panic-0") == [1], "a panic is not tried again by the queue");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_does_not_end_the_worker_even_without_a_layer_that_catches_it() {
    let scratch = Scratch::shared();
    let queues = scratch.queues();
    let stream = RedisStream::<String>::new(&queues, QUEUE, patient(4));
    let ended = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ended);
    let bare = WorkerBuilder::new("bare").backend(stream).build(move |id: String| {
        let counted = Arc::clone(&counted);
        assert!(id != "sync-panic", "before there is a future");
        async move {
            tokio::task::yield_now().await;
            assert!(!id.starts_with("panic"), "in the future");
            counted.fetch_add(1, SeqCst);
        }
    });
    let run = tokio::spawn(bare.run());
    put(&queues, &[ids("panic", 2), vec!["sync-panic".to_owned()], ids("good", 20)].concat()).await;
    until("the others ended", || ended.load(SeqCst) == 20).await;
    scratch.emptied().await;
    assert!(!run.is_finished());
    // Not with a graceful stop: apalis counts a task that panicked before it returned its future as running
    // for ever.
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_does_not_parse_is_put_aside_and_its_owner_is_called_until_it_succeeds() {
    let scratch = Scratch::shared();
    let queues = scratch.queues();
    let (report, mut dead) = mpsc::unbounded_channel::<Dead>();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let stream = RedisStream::<String>::new(&queues, QUEUE, patient(2)).on_dead(move |entry| {
        let (first, report) = (counted.fetch_add(1, SeqCst) == 0, report.clone());
        async move {
            if first {
                return Err("Postgres is away".to_owned());
            }
            report.send(entry).map_err(|error| error.to_string())
        }
    });
    let journal = Arc::new(Journal::default());
    let worker = Worker::run(stream, taking(Duration::ZERO, &journal));
    let stream_key = queues.keys(QUEUE).stream().to_owned();
    let add = "return redis.call('XADD', KEYS[1], '*', 'd', 'a\\255b')";
    scratch.ask::<()>(&["EVAL", add, "1", &stream_key]).await;
    put(&queues, &ids("good", 3)).await;
    journal.all_ended(&ids("good", 3)).await;
    let aside = dead.recv().await.unwrap();
    assert_eq!(
        (aside.id.as_str(), aside.reason, aside.deliveries),
        ("a\u{fffd}b", DeadReason::Undecodable, 1)
    );
    assert_eq!(asked.load(SeqCst), 2);
    eventually("it is moved", async || scratch.is_empty().await.then_some(())).await;
    let moved: Vec<(String, Vec<Vec<u8>>)> =
        scratch.ask(&["XRANGE", queues.keys(QUEUE).dead(), "-", "+"]).await;
    assert_eq!((moved.len(), moved[0].1[1].as_slice()), (1, b"a\xffb".as_slice()));
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_longer_than_the_visibility_is_not_taken_over_by_a_second_worker() {
    let (_scratch, queues, journal) = Scratch::shared().opened();
    let long = quick(4).visibility * 3;
    let first = Worker::start(&queues, quick(4), taking(long, &journal));
    let second = Worker::start(&queues, quick(4), taking(long, &journal));
    let wanted = ids("long", 6);
    put(&queues, &wanted).await;
    journal.all_ended(&wanted).await;
    assert_eq!(first.control.stats().taken_over + second.control.stats().taken_over, 0);
    first.stop().await;
    second.stop().await;
    journal.assert_once(&wanted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_deleted_while_it_is_pending_does_no_harm() {
    let (scratch, queues, journal) = Scratch::shared().opened();
    let gate = Arc::new(Semaphore::new(0));
    let worker = Worker::start(&queues, quick(2), gated(&gate, &journal));
    put(&queues, &ids("a", 4)).await;
    until("two run", || journal.running() == 2).await;
    // Deletes all entries, both running and waiting.
    scratch.ask::<usize>(&["XTRIM", queues.keys(QUEUE).stream(), "MAXLEN", "0"]).await;
    gate.add_permits(10);
    let after = ids("after", 4);
    put(&queues, &after).await;
    journal.all_ended(&after).await;
    until("nothing is held", || worker.control.stats().acknowledged == 6).await;
    let stats = queues.stats(QUEUE).await.unwrap();
    assert_eq!((stats.depth, stats.pending), (0, 0));
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_can_ask_for_the_same_entry_again_without_becoming_a_suspect() {
    let (scratch, queues, journal) = Scratch::shared().opened();
    let written = Arc::clone(&journal);
    let work = handler(move |job| {
        let journal = Arc::clone(&written);
        async move {
            journal.begin(&job);
            journal.end(&job);
            if journal.started() < 5 {
                return Err(RetryAfterError::new("busy", Duration::from_millis(50)).into());
            }
            Ok(())
        }
    });
    let worker = Worker::start(&queues, quick(2), work);
    put(&queues, &ids("again", 1)).await;
    until("it ran five times", || journal.ended() == 5).await;
    scratch.emptied().await;
    assert!(journal.deliveries("again-0").iter().all(|deliveries| *deliveries == 1));
    worker.stop().await;
}
