//! A stop gives unfinished entries back.

use std::sync::Arc;
use std::time::Duration;

use longshore_worker::queue::Config;
use tokio::sync::Semaphore;

use super::support::{QUEUE, Scratch, Worker, gated, ids, patient, put, taking, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graceful_stop_finishes_running_tasks_and_gives_the_others_back() {
    let (scratch, queues, journal) = Scratch::shared().opened();
    let gate = Arc::new(Semaphore::new(0));
    let config = Config { prefetch: 10, ..patient(4) };
    let worker = Worker::start(&queues, config, gated(&gate, &journal));
    let wanted = ids("a", 30);
    put(&queues, &wanted).await;
    until("four run and ten wait", || journal.running() == 4 && worker.control.stats().waiting == 10).await;
    worker.ask_to_stop().await;
    // They are given back while the others still run.
    until("what waits is given back", || worker.control.stats().given_back == 10).await;
    let stats = queues.stats(QUEUE).await.unwrap();
    assert_eq!((stats.depth, stats.pending), (30, 4));
    assert_eq!(put(&queues, &wanted[4..]).await, 0, "what was given back is on the queue, with its marker");
    gate.add_permits(4);
    worker.ended().await;
    assert_eq!(journal.started(), 4);
    let next = Worker::start(&queues, patient(8), taking(Duration::ZERO, &journal));
    journal.all_ended(&wanted).await;
    scratch.emptied().await;
    next.stop().await;
    journal.assert_once(&wanted);
    assert_eq!(journal.deliveries("a-5"), [1], "a stop is no delivery");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_at_its_time_limit_gives_dropped_entries_back_and_no_task_continues() {
    let (_scratch, queues, journal) = Scratch::shared().opened();
    let gate = Arc::new(Semaphore::new(0));
    let wanted = ids("a", 12);
    put(&queues, &wanted).await;
    // Often enough to put it aside, if a stop counted as a delivery.
    for round in 1..=5 {
        let worker = Worker::start(&queues, Config { prefetch: 4, ..patient(4) }, gated(&gate, &journal));
        until("four run", || journal.started() == round * 4).await;
        worker.drop_at_once().await;
        let stats = queues.stats(QUEUE).await.unwrap();
        assert_eq!((stats.depth, stats.pending, stats.consumers), (12, 0, 0));
    }
    gate.add_permits(100);
    assert_eq!(journal.ended(), 0, "dropped tasks are aborted");
    let next = Worker::start(&queues, patient(8), taking(Duration::ZERO, &journal));
    journal.all_ended(&wanted).await;
    next.stop().await;
    journal.assert_once(&wanted);
    for id in &wanted {
        assert!(journal.deliveries(id).iter().all(|deliveries| *deliveries == 1), "{id}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_given_back_is_merged_with_one_that_was_put_meanwhile() {
    let (scratch, queues, journal) = Scratch::shared().opened();
    let gate = Arc::new(Semaphore::new(0));
    let worker = Worker::start(&queues, patient(1), gated(&gate, &journal));
    put(&queues, &ids("a", 1)).await;
    until("it runs", || journal.running() == 1).await;
    assert_eq!(put(&queues, &ids("a", 1)).await, 1, "it became due again while it ran");
    worker.drop_at_once().await;
    assert_eq!(scratch.depth().await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_worker_stops_without_waiting_for_its_blocked_read() {
    let (_scratch, queues, journal) = Scratch::shared().opened();
    let config = Config { block: Duration::from_mins(1), ..patient(4) };
    let worker = Worker::start(&queues, config, taking(Duration::ZERO, &journal));
    put(&queues, &ids("a", 1)).await;
    journal.all_ended(&ids("a", 1)).await;
    let began = std::time::Instant::now();
    worker.stop().await;
    // a long way below the minute of a blocked read
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}
