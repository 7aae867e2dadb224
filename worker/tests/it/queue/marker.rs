//! The writing side: a waiting id is on a queue at most once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use longshore_kernel::queue::{HAND_OVER_CAPACITY, Queue, QueueError, Queues};
use longshore_testkit::port::free_port;
use longshore_worker::queue::{Dead, DeadReason, RedisStream};
use tokio::sync::mpsc;

use super::support::{
    Journal, QUEUE, Scratch, Server, Worker, eventually, handler, ids, patient, put, taking, until,
};

const LIMIT: Duration = Duration::from_secs(5);

#[tokio::test]
async fn an_id_put_twice_is_one_entry_until_it_is_taken() {
    let scratch = Scratch::shared();
    let queues = scratch.queues();
    let two = ids("a", 2);
    assert_eq!(queues.put(QUEUE, &two, LIMIT).await.unwrap(), 2);
    assert_eq!(queues.put(QUEUE, &ids("a", 3), LIMIT).await.unwrap(), 1);
    assert_eq!(scratch.depth().await, 3);
    queues.taken(QUEUE, &two).await.unwrap();
    assert_eq!(queues.put(QUEUE, &ids("a", 3), LIMIT).await.unwrap(), 2);
    assert_eq!(scratch.depth().await, 5);
}

#[tokio::test]
async fn an_id_whose_entry_is_gone_can_be_put_again_at_once() {
    let scratch = Scratch::shared();
    let queues = scratch.queues();
    let two = ids("a", 2);
    let keys = queues.keys(QUEUE);
    for gone in [&["DEL", keys.stream()][..], &["XTRIM", keys.stream(), "MAXLEN", "0"]] {
        assert_eq!(queues.put(QUEUE, &two, LIMIT).await.unwrap(), 2);
        scratch.ask::<()>(gone).await;
        assert_eq!(queues.put(QUEUE, &two, LIMIT).await.unwrap(), 2, "after {gone:?}");
        assert_eq!(scratch.depth().await, 2);
        queues.taken(QUEUE, &two).await.unwrap();
    }
}

#[tokio::test]
async fn an_entry_of_another_id_is_none_of_an_id() {
    let scratch = Scratch::shared();
    let queues = scratch.queues();
    let keys = queues.keys(QUEUE);
    let two = ids("a", 2);
    assert_eq!(queues.put(QUEUE, &two[..1], LIMIT).await.unwrap(), 1);
    // as after a stream that was lost, and began again with the entry that the second id had
    let entry: String = scratch.ask(&["GET", &keys.marker(&two[0])]).await;
    scratch.ask::<()>(&["SET", &keys.marker(&two[1]), &entry]).await;
    assert_eq!(queues.put(QUEUE, &two, LIMIT).await.unwrap(), 1);
    assert_eq!(scratch.depth().await, 2);
}

#[tokio::test]
async fn an_id_whose_entry_was_refused_can_be_put_when_redis_accepts_it_again() {
    let server = Server::start().await;
    let scratch = server.scratch();
    let queues = scratch.queues();
    let two = ids("a", 2);
    let stream = queues.keys(QUEUE).stream().to_owned();
    // a key of another type
    scratch.ask::<()>(&["SET", &stream, "not a stream"]).await;
    assert!(queues.put(QUEUE, &two, LIMIT).await.is_err());
    scratch.ask::<()>(&["DEL", &stream]).await;
    assert_eq!(queues.put(QUEUE, &two, LIMIT).await.unwrap(), 2);
    queues.taken(QUEUE, &two).await.unwrap();
    // no memory
    scratch.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"]).await;
    assert!(queues.put(QUEUE, &two, LIMIT).await.is_err());
    scratch.ask::<()>(&["CONFIG", "SET", "maxmemory", "0"]).await;
    assert_eq!(queues.put(QUEUE, &two, LIMIT).await.unwrap(), 2);
    queues.taken(QUEUE, &two).await.unwrap();
    // a missing permission
    scratch.ask::<()>(&["ACL", "SETUSER", "default", "-xadd"]).await;
    assert!(queues.put(QUEUE, &two, LIMIT).await.is_err());
    scratch.ask::<()>(&["ACL", "SETUSER", "default", "+xadd"]).await;
    assert_eq!(queues.put(QUEUE, &two, LIMIT).await.unwrap(), 2);
}

#[tokio::test]
async fn an_id_repeated_in_one_call_is_one_entry() {
    let scratch = Scratch::shared();
    let twice = vec!["a".to_owned(), "a".to_owned()];
    assert_eq!(scratch.queues().put(QUEUE, &twice, LIMIT).await.unwrap(), 1);
}

#[tokio::test]
async fn the_same_id_may_be_on_two_queues() {
    let scratch = Scratch::shared();
    let queues = scratch.queues();
    for queue in Queue::ALL {
        assert_eq!(queues.put(queue, &ids("a", 1), LIMIT).await.unwrap(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_can_be_put_again_as_soon_as_its_handler_runs() {
    let (scratch, queues, journal) = Scratch::shared().opened();
    let (again, written) = (queues.clone(), Arc::clone(&journal));
    let work = handler(move |job| {
        let (queues, journal) = (again.clone(), Arc::clone(&written));
        async move {
            let first = journal.started() == 0;
            journal.begin(&job);
            if first {
                assert_eq!(
                    queues.put(QUEUE, std::slice::from_ref(&job.id), LIMIT).await?,
                    1,
                    "the marker is gone"
                );
            }
            journal.end(&job);
            Ok(())
        }
    });
    let worker = Worker::start(&queues, patient(4), work);
    put(&queues, &ids("a", 1)).await;
    until("the id ran twice", || journal.ended() == 2).await;
    worker.stop().await;
    assert!(scratch.is_empty().await);
}

#[tokio::test]
async fn a_put_that_timed_out_and_is_repeated_adds_each_id_once() {
    let server = Server::start().await;
    let scratch = server.scratch();
    let queues = scratch.queues();
    put(&queues, &ids("warm", 1)).await;
    scratch.ask::<()>(&["CLIENT", "PAUSE", "60000", "WRITE"]).await;
    let wanted = ids("a", 700);
    let limit = Duration::from_millis(100);
    let timed_out = queues.put(QUEUE, &wanted, limit).await;
    assert!(matches!(timed_out, Err(QueueError::Timeout(given)) if given == limit), "{timed_out:?}");
    scratch.ask::<()>(&["CLIENT", "UNPAUSE"]).await;
    put(&queues, &wanted).await;
    put(&queues, &wanted).await;
    assert_eq!(scratch.depth().await, 701);
}

#[tokio::test]
async fn ids_handed_over_arrive_and_the_caller_never_waits() {
    let server = Server::start().await;
    let scratch = server.scratch();
    let queues = scratch.queues();
    queues.hand_over(QUEUE, ids("a", 1200));
    eventually("all arrived", async || (scratch.depth().await == 1200).then_some(())).await;
    scratch.ask::<()>(&["CLIENT", "PAUSE", "60000", "WRITE"]).await;
    let began = Instant::now();
    queues.hand_over(QUEUE, ids("b", HAND_OVER_CAPACITY * 2));
    // a long way below the minute of the pause
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    scratch.ask::<()>(&["CLIENT", "UNPAUSE"]).await;
    // Dropped ids are forgotten, and later ones arrive again.
    eventually("later ids arrive", async || {
        queues.hand_over(QUEUE, ids("c", 1));
        (queues.put(QUEUE, &ids("c", 1), LIMIT).await.ok()? == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn handing_ids_over_while_redis_is_away_does_not_fail() {
    let mut server = Server::down(&[]);
    let queues = Queues::new(redis::Client::open(server.url()).unwrap(), "p:").unwrap();
    queues.hand_over(QUEUE, ids("a", 10));
    assert!(matches!(queues.put(QUEUE, &ids("b", 1), LIMIT).await, Err(QueueError::Redis(_))));
    server.up().await;
    put(&queues, &ids("b", 1)).await;
    assert!(queues.stats(QUEUE).await.unwrap().depth >= 1);
}

#[tokio::test]
async fn a_prefix_with_braces_is_refused() {
    let client = redis::Client::open("redis://127.0.0.1:1").unwrap();
    assert!(matches!(Queues::new(client, "a{b"), Err(QueueError::Prefix(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_put_before_the_group_existed_are_delivered() {
    let scratch = Scratch::shared();
    let queues = scratch.queues();
    let wanted = ids("early", 20);
    put(&queues, &wanted).await;
    let journal = Arc::new(Journal::default());
    let worker = Worker::start(&queues, patient(4), taking(Duration::ZERO, &journal));
    journal.all_ended(&wanted).await;
    worker.stop().await;
    journal.assert_once(&wanted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_state_of_a_queue_shows_depth_pending_age_and_consumers() {
    let scratch = Scratch::shared();
    let queues = scratch.queues();
    let empty = queues.stats(QUEUE).await.unwrap();
    assert_eq!((empty.depth, empty.pending, empty.consumers, empty.oldest), (0, 0, 0, None));
    put(&queues, &ids("a", 10)).await;
    let journal = Arc::new(Journal::default());
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let worker = Worker::start(&queues, patient(3), super::support::gated(&gate, &journal));
    until("three run", || journal.running() == 3).await;
    let busy = queues.stats(QUEUE).await.unwrap();
    assert_eq!((busy.depth, busy.pending, busy.waiting(), busy.consumers), (10, 3, 7, 1));
    let later = eventually("the age grows", async || {
        let age = queues.stats(QUEUE).await.unwrap().oldest?;
        (age >= Duration::from_millis(50)).then_some(age)
    })
    .await;
    assert!(later < Duration::from_mins(1), "{later:?}");
    gate.add_permits(10);
    until("all ended", || journal.ended() == 10).await;
    worker.stop().await;
    assert_eq!(queues.stats(QUEUE).await.unwrap(), empty, "a consumer that stops leaves the group");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_in_cluster_mode_serves_every_path() {
    // by default the port of the cluster bus is 10,000 higher, in the range of outgoing connections
    let bus = free_port().unwrap().to_string();
    let server = Server::start_with(&["--cluster-enabled", "yes", "--cluster-port", &bus]).await;
    let scratch = server.scratch();
    scratch.ask::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await;
    eventually("the cluster is up", async || {
        scratch.ask::<String>(&["CLUSTER", "INFO"]).await.contains("cluster_state:ok").then_some(())
    })
    .await;
    let queues = scratch.queues();
    let journal = Arc::new(Journal::default());
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let wanted = ids("a", 600);
    assert_eq!(put(&queues, &wanted).await, 600);
    let (report, mut dead) = mpsc::unbounded_channel::<Dead>();
    let stream = |report: mpsc::UnboundedSender<Dead>| {
        RedisStream::<String>::new(&queues, QUEUE, patient(8)).on_dead(move |entry| {
            let sent = report.send(entry);
            async move { sent }
        })
    };
    let first = Worker::run(stream(report.clone()), super::support::gated(&gate, &journal));
    until("eight run", || journal.running() == 8).await;
    first.drop_at_once().await;
    let second = Worker::run(stream(report), taking(Duration::ZERO, &journal));
    journal.all_ended(&wanted).await;
    scratch.ask::<()>(&["XADD", queues.keys(QUEUE).stream(), "*", "d", ""]).await;
    scratch
        .ask::<()>(&[
            "EVAL",
            "return redis.call('XADD',KEYS[1],'*','d','\\255')",
            "1",
            queues.keys(QUEUE).stream(),
        ])
        .await;
    let aside = dead.recv().await.unwrap();
    assert_eq!(aside.reason, DeadReason::Undecodable);
    scratch.emptied().await;
    second.stop().await;
    assert_eq!(scratch.ask::<usize>(&["XLEN", queues.keys(QUEUE).dead()]).await, 1);
}
