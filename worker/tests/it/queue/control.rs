//! Limits on concurrency, and changes by the operator while the worker runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use longshore_worker::queue::{Config, MAX_CONCURRENCY, QueueControl};
use tokio::sync::Semaphore;

use super::support::{
    Journal, QUEUE, Scratch, Server, Worker, eventually, gated, ids, patient, put, taking, until,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrency_is_never_exceeded_even_with_prefetched_entries() {
    let (_scratch, queues, journal) = Scratch::shared().opened();
    let config = Config { prefetch: 20, ..patient(5) };
    let wanted = ids("a", 400);
    put(&queues, &wanted).await;
    let worker = Worker::start(&queues, config, taking(Duration::from_millis(2), &journal));
    journal.all_ended(&wanted).await;
    assert_eq!(journal.take_peak(), 5);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_workers_share_a_backlog_fairly() {
    let scratch = Scratch::shared();
    let queues = scratch.queues();
    let (first_journal, second_journal) = (Arc::new(Journal::default()), Arc::new(Journal::default()));
    let first = Worker::start(&queues, patient(4), taking(Duration::from_millis(10), &first_journal));
    let second = Worker::start(&queues, patient(4), taking(Duration::from_millis(10), &second_journal));
    eventually("both read", async || (queues.stats(QUEUE).await.unwrap().consumers == 2).then_some(())).await;
    put(&queues, &ids("a", 400)).await;
    until("all ended", || first_journal.ended() + second_journal.ended() == 400).await;
    let share = first_journal.ended();
    assert!((120..=280).contains(&share), "the first did {share} of 400");
    first.stop().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_queue_starts_nothing_gives_waiting_entries_back_and_finishes_running_ones() {
    let (scratch, queues, journal) = Scratch::shared().opened();
    let gate = Arc::new(Semaphore::new(0));
    let worker = Worker::start(&queues, Config { prefetch: 4, ..patient(2) }, gated(&gate, &journal));
    put(&queues, &ids("a", 10)).await;
    until("two run and four wait", || journal.running() == 2 && worker.control.stats().waiting == 4).await;
    worker.control.set_paused(true);
    gate.add_permits(100);
    until("what waits is given back", || worker.control.stats().given_back == 4).await;
    until("what runs goes on", || journal.ended() == 2).await;
    put(&queues, &ids("b", 10)).await;
    eventually("what ended is acknowledged", async || (scratch.depth().await == 18).then_some(())).await;
    let stats = queues.stats(QUEUE).await.unwrap();
    assert_eq!((stats.pending, stats.consumers, journal.started()), (0, 1, 2));
    worker.control.set_paused(false);
    journal.all_ended(&[ids("a", 10), ids("b", 10)].concat()).await;
    worker.stop().await;
    journal.assert_once(&[ids("a", 10), ids("b", 10)].concat());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_ends_the_blocked_read_and_a_resumed_queue_reads_at_once() {
    let server = Server::start().await;
    let (scratch, queues, journal) = server.scratch().opened();
    let config = Config { block: Duration::from_mins(1), ..patient(2) };
    let worker = Worker::start(&queues, config, taking(Duration::ZERO, &journal));
    put(&queues, &ids("a", 1)).await;
    journal.all_ended(&ids("a", 1)).await;
    eventually("it reads again", async || {
        scratch.ask::<String>(&["INFO", "clients"]).await.contains("blocked_clients:1").then_some(())
    })
    .await;
    worker.control.set_paused(true);
    eventually("the read is given up", async || {
        scratch.ask::<String>(&["INFO", "clients"]).await.contains("blocked_clients:0").then_some(())
    })
    .await;
    put(&queues, &ids("b", 1)).await;
    assert_eq!(scratch.depth().await, 1);
    assert_eq!(journal.started(), 1);
    let began = Instant::now();
    worker.control.set_paused(false);
    journal.all_ended(&ids("b", 1)).await;
    // a long way below the minute of a blocked read
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrency_can_be_raised_and_lowered_while_the_worker_runs() {
    let (_scratch, queues, journal) = Scratch::shared().opened();
    let gate = Arc::new(Semaphore::new(0));
    let worker = Worker::start(&queues, patient(2), gated(&gate, &journal));
    put(&queues, &ids("a", 60)).await;
    until("two run", || journal.running() == 2).await;
    worker.control.set_concurrency(10);
    until("ten run", || journal.running() == 10).await;
    worker.control.set_concurrency(3);
    assert_eq!(journal.running(), 10, "what runs goes on");
    gate.add_permits(7);
    until("seven have ended", || journal.ended() == 7).await;
    assert_eq!(journal.take_peak(), 10);
    gate.add_permits(20);
    until("twenty-seven have ended", || journal.ended() == 27).await;
    until("three run", || journal.running() == 3).await;
    assert_eq!(journal.started(), 30, "never more than three since");
    gate.add_permits(100);
    until("all have ended", || journal.ended() == 60).await;
    assert!(journal.take_peak() <= 10);
    worker.stop().await;
}

#[test]
fn concurrency_stays_between_one_and_the_ceiling() {
    let control = QueueControl::new(0);
    assert_eq!(control.concurrency(), 1);
    control.set_concurrency(usize::MAX);
    assert_eq!(control.concurrency(), MAX_CONCURRENCY);
}
