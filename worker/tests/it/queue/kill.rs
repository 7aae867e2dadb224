//! Processes that die while they work.

use std::sync::Arc;
use std::time::Duration;

use super::child::{POISON, Process, began, dead, finished};
use super::support::{Journal, Scratch, Worker, eventually, ids, put, quick, taking};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_of_a_killed_worker_are_taken_over() {
    let scratch = Scratch::shared();
    let queues = scratch.queues();
    let wanted = ids("a", 40);
    put(&queues, &wanted).await;
    let mut process = Process::start(&scratch, 8, Duration::from_mins(10));
    eventually("it holds eight", async || {
        (scratch.ask::<usize>(&["LLEN", &began(&scratch)]).await == 8).then_some(())
    })
    .await;
    process.kill();
    let journal = Arc::new(Journal::default());
    let worker = Worker::start(&queues, quick(8), taking(Duration::from_millis(5), &journal));
    journal.all_ended(&wanted).await;
    assert_eq!(worker.control.stats().taken_over, 8);
    let held: Vec<String> = scratch.ask(&["LRANGE", &began(&scratch), "0", "-1"]).await;
    for id in &held {
        assert_eq!(journal.deliveries(id), [2], "{id}");
    }
    scratch.emptied().await;
    worker.stop().await;
    journal.assert_once(&wanted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_kills_its_process_is_put_aside_and_its_neighbours_are_not() {
    let scratch = Scratch::shared();
    let queues = scratch.queues();
    let mut wanted = ids("innocent", 11);
    wanted.insert(5, POISON.to_owned());
    put(&queues, &wanted).await;
    wanted.remove(5);
    let start = || Process::start(&scratch, 32, Duration::from_millis(80));
    let mut process = start();
    let mut crashes = 0;
    eventually("its owner hears of the poison, and all others are done", async || {
        if process.exited().is_some() {
            crashes += 1;
            process = start();
        }
        let dead: Vec<String> = scratch.ask(&["LRANGE", &dead(&scratch), "0", "-1"]).await;
        let mut finished: Vec<String> = scratch.ask(&["LRANGE", &finished(&scratch), "0", "-1"]).await;
        finished.sort();
        finished.dedup();
        (!dead.is_empty() && finished.len() == wanted.len()).then_some(())
    })
    .await;
    let dead: Vec<String> = scratch.ask(&["LRANGE", &dead(&scratch), "0", "-1"]).await;
    assert_eq!((crashes, dead), (3, vec![POISON.to_owned()]));
    scratch.emptied().await;
    let aside: usize = scratch.ask(&["XLEN", queues.keys(super::support::QUEUE).dead()]).await;
    assert_eq!(aside, 1);
}
