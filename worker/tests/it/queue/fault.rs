//! Redis is emptied, stalled, restarted, or cuts connections: the worker survives, and work continues.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longshore_worker::queue::Config;
use tokio::sync::Semaphore;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

use super::child::Process;
use super::support::{QUEUE, Server, Worker, eventually, gated, ids, patient, put, quick, taking, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flushed_redis_stops_no_idle_worker() {
    let server = Server::start().await;
    let (scratch, queues, journal) = server.scratch().opened();
    // it shows signs of life so rarely that its first one comes from reading
    let rarely = Config { visibility: Duration::from_hours(1), ..patient(4) };
    let worker = Worker::start(&queues, rarely, taking(Duration::ZERO, &journal));
    let before = ids("before", 5);
    put(&queues, &before).await;
    journal.all_ended(&before).await;
    scratch.ask::<()>(&["FLUSHALL"]).await;
    eventually("the worker is seen", async || {
        (queues.stats(QUEUE).await.unwrap().consumers == 1).then_some(())
    })
    .await;
    let after = ids("after", 5);
    put(&queues, &after).await;
    journal.all_ended(&after).await;
    assert!(worker.is_alive());
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_flush_of_a_busy_redis_entries_can_be_put_again_and_none_is_lost() {
    let server = Server::start().await;
    let (scratch, queues, journal) = server.scratch().opened();
    let gate = Arc::new(Semaphore::new(0));
    let worker = Worker::start(&queues, patient(8), gated(&gate, &journal));
    let wanted = ids("a", 300);
    put(&queues, &wanted).await;
    until("eight run", || journal.running() == 8).await;
    scratch.ask::<()>(&["FLUSHALL"]).await;
    // The dispatcher finds in Postgres what is not running, and nothing keeps it off the queue.
    let running: Vec<_> = wanted.iter().filter(|id| !journal.deliveries(id).is_empty()).cloned().collect();
    let due: Vec<_> = wanted.iter().filter(|id| !running.contains(id)).cloned().collect();
    assert_eq!((running.len(), put(&queues, &due).await), (8, 292));
    gate.add_permits(300);
    journal.all_ended(&wanted).await;
    scratch.emptied().await;
    worker.stop().await;
    journal.assert_once(&wanted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_redis_that_kept_its_log_loses_no_entry() {
    let mut server = Server::start_with(&["--appendonly", "yes", "--appendfsync", "always"]).await;
    let (scratch, queues, journal) = server.scratch().opened();
    let worker = Worker::start(&queues, patient(4), taking(Duration::from_millis(5), &journal));
    let wanted = ids("a", 400);
    put(&queues, &wanted).await;
    until("work is under way", || journal.ended() > 50).await;
    server.kill();
    server.up().await;
    journal.all_ended(&wanted).await;
    scratch.emptied().await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_restarted_empty_is_filled_again_and_its_entries_are_handled() {
    let mut server = Server::start().await;
    let (_scratch, queues, journal) = server.scratch().opened();
    let worker = Worker::start(&queues, patient(4), taking(Duration::from_millis(5), &journal));
    let wanted = ids("a", 400);
    put(&queues, &wanted).await;
    until("work is under way", || journal.ended() > 50).await;
    server.kill();
    server.up().await;
    put(&queues, &wanted).await;
    journal.all_ended(&wanted).await;
    assert!(worker.is_alive());
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_started_before_redis_begins_when_redis_starts() {
    let mut server = Server::down(&[]);
    let (_scratch, queues, journal) = server.scratch().opened();
    let worker = Worker::start(&queues, patient(4), taking(Duration::ZERO, &journal));
    until("it has tried in vain", || worker.control.stats().errors > 2).await;
    server.up().await;
    let wanted = ids("a", 20);
    put(&queues, &wanted).await;
    journal.all_ended(&wanted).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_stopped_while_redis_is_away_ends_in_time() {
    let mut server = Server::start().await;
    let scratch = server.scratch();
    let queues = scratch.queues();
    let mut process = Process::start(&scratch, 4, Duration::from_millis(10));
    eventually("it reads the queue", async || (queues.stats(QUEUE).await.ok()?.consumers == 1).then_some(()))
        .await;
    server.kill();
    process.terminate();
    assert!(process.wait().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_stalls_past_the_response_timeout_loses_and_repeats_nothing() {
    let server = Server::start().await;
    let (scratch, queues, journal) = server.scratch().opened();
    let worker = Worker::start(&queues, patient(8), taking(Duration::from_millis(5), &journal));
    let wanted = ids("a", 600);
    put(&queues, &wanted).await;
    until("work is under way", || journal.ended() > 50).await;
    // The read times out after its block of 0.5 s and a margin of 3 s.
    scratch.ask::<()>(&["CLIENT", "PAUSE", "4500", "ALL"]).await;
    until("time-outs are survived", || worker.control.stats().errors > 0).await;
    journal.all_ended(&wanted).await;
    scratch.emptied().await;
    worker.stop().await;
    journal.assert_once(&wanted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_cut_during_deliveries_lose_and_repeat_nothing() {
    let server = Server::start().await;
    let (scratch, queues, journal) = server.scratch().opened();
    let worker = Worker::start(&queues, patient(16), taking(Duration::from_millis(2), &journal));
    let wanted = ids("a", 2000);
    let mut next = wanted.chunks(100);
    for round in 0.. {
        scratch.ask::<usize>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
        match next.next() {
            Some(some) => put(&queues, some).await,
            None => break,
        };
        until("the cut was survived", || journal.ended() > round * 50).await;
    }
    journal.all_ended(&wanted).await;
    scratch.emptied().await;
    assert!(worker.control.stats().errors > 0, "connections were cut indeed");
    worker.stop().await;
    journal.assert_once(&wanted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_destroyed_while_tasks_run_is_created_again_and_nothing_runs_twice() {
    let server = Server::start().await;
    let (scratch, queues, journal) = server.scratch().opened();
    let gate = Arc::new(Semaphore::new(0));
    // Slots stay free, so that the re-created group delivers the running entries again.
    let worker = Worker::start(&queues, patient(8), gated(&gate, &journal));
    let running = ids("running", 5);
    put(&queues, &running).await;
    until("five run", || journal.running() == 5).await;
    scratch.ask::<usize>(&["XGROUP", "DESTROY", queues.keys(QUEUE).stream(), "workers"]).await;
    let later = ids("later", 3);
    put(&queues, &later).await;
    until("the others run too", || journal.running() == 8).await;
    gate.add_permits(8);
    let all = [running, later].concat();
    journal.all_ended(&all).await;
    scratch.emptied().await;
    worker.stop().await;
    journal.assert_once(&all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_returns_to_its_initial_size() {
    let server = Server::start().await;
    let (scratch, queues, journal) = server.scratch().opened();
    let worker = Worker::start(&queues, quick(64), taking(Duration::ZERO, &journal));
    let used = async || -> u64 {
        let memory: String = scratch.ask(&["INFO", "memory"]).await;
        let line = memory.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap().to_owned();
        line.trim().parse().unwrap()
    };
    let round = async |name: &str| {
        let wanted = ids(name, 10_000);
        put(&queues, &wanted).await;
        journal.all_ended(&wanted).await;
        scratch.emptied().await;
    };
    round("warm").await;
    eventually("the markers are gone", async || (scratch.ask::<usize>(&["DBSIZE"]).await == 1).then_some(()))
        .await;
    let before = used().await;
    for n in 0..3 {
        round(&format!("round-{n}")).await;
    }
    assert_eq!(scratch.ask::<usize>(&["DBSIZE"]).await, 1, "only the stream is left");
    let grown = used().await.saturating_sub(before);
    assert!(grown < 512 * 1024, "30,000 finished entries left {grown} bytes behind");
    worker.stop().await;
}

/// The log of the service on this thread, at `info` and above.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn messages(&self) -> Vec<String> {
        let mut messages = self.0.lock().unwrap().clone();
        messages.sort_unstable();
        messages
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO && metadata.target().starts_with("longshore")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut message = Message::default();
        event.record(&mut message);
        self.0.lock().unwrap().push(message.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The message of an event.
#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            write!(self.0, "{value:?}").unwrap();
        }
    }
}

#[tokio::test]
async fn an_outage_of_redis_is_logged_once_and_so_is_its_end() {
    let log = Log::default();
    // With one dispatcher in the process, tracing asks that of the thread which meets an event first, and a
    // thread of another test has none: the event would never be logged. With two, it asks both.
    let _second = Dispatch::new(log.clone());
    let _logging = tracing::subscriber::set_default(log.clone());
    let mut server = Server::start().await;
    let (_scratch, queues, journal) = server.scratch().opened();
    let worker = Worker::start(&queues, quick(2), taking(Duration::ZERO, &journal));
    let before = ids("before", 2);
    put(&queues, &before).await;
    journal.all_ended(&before).await;
    assert_eq!(log.messages(), Vec::<String>::new());

    server.kill();
    queues.hand_over(QUEUE, ids("lost", 1));
    until("each loop has tried in vain", || worker.control.stats().errors > 10).await;
    until("a change could not be handed over", || log.messages().len() == 2).await;
    queues.hand_over(QUEUE, ids("lost as well", 1));
    server.up().await;
    let after = ids("after", 1);
    queues.hand_over(QUEUE, after.clone());
    journal.all_ended(&after).await;
    // a write whose answer comes too late counts as a failure, so the end may take more than one
    until("it is back", || {
        queues.hand_over(QUEUE, after.clone());
        log.messages().len() > 3
    })
    .await;
    worker.stop().await;
    let messages = [
        "Redis failed; trying again until it is back",
        "Redis is back",
        "could not queue due work; the dispatcher will queue it when Redis is back",
        "due work is queued directly again",
    ];
    assert_eq!(log.messages(), messages);
}
