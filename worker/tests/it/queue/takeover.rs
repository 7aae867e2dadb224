//! Consumers come and go: the group does not keep them, and loses none of their entries.

use std::sync::Arc;
use std::time::Duration;

use longshore_worker::queue::{Config, QueueControl, RedisStream};

use super::support::{Journal, QUEUE, Scratch, Worker, eventually, ids, put, quick, taking};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_holds_nothing_and_is_silent_is_removed_from_the_group() {
    let scratch = Scratch::shared();
    let queues = scratch.queues();
    let stream = queues.keys(QUEUE).stream().to_owned();
    scratch.ask::<()>(&["XGROUP", "CREATE", &stream, "workers", "0", "MKSTREAM"]).await;
    scratch.ask::<()>(&["XGROUP", "CREATECONSUMER", &stream, "workers", "gone"]).await;
    let journal = Arc::new(Journal::default());
    let config = Config { forget_consumer: Duration::from_millis(300), ..quick(2) };
    let worker = Worker::start(&queues, config, taking(Duration::ZERO, &journal));
    let names = async || -> Vec<String> {
        let consumers: Vec<std::collections::HashMap<String, redis::Value>> =
            scratch.ask(&["XINFO", "CONSUMERS", &stream, "workers"]).await;
        let name = |consumer: &std::collections::HashMap<String, redis::Value>| {
            redis::from_redis_value_ref(&consumer["name"]).unwrap()
        };
        consumers.iter().map(name).collect()
    };
    eventually("it is removed, and the living one is not", async || {
        let names = names().await;
        (names.len() == 1 && names[0] != "gone").then_some(())
    })
    .await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removing_consumers_never_races_with_a_delivery_to_them() {
    let scratch = Scratch::shared();
    let queues = scratch.queues();
    let stream = queues.keys(QUEUE).stream().to_owned();
    scratch.ask::<()>(&["XGROUP", "CREATE", &stream, "workers", "0", "MKSTREAM"]).await;
    let journal = Arc::new(Journal::default());
    // Every consumer counts as silent after 2 ms, which is checked every millisecond.
    let config = Config { forget_consumer: Duration::from_millis(2), ..quick(4) };
    let control = QueueControl::new(4);
    control.set_paused(true); // before it starts, so that it reads nothing
    let stream_of_tasks = RedisStream::controlled(control, &queues, QUEUE, config);
    let worker = Worker::run(stream_of_tasks, taking(Duration::ZERO, &journal));
    let wanted = ids("a", 100);
    let mut connection = queues.connection();
    for (n, id) in wanted.iter().enumerate() {
        put(&queues, std::slice::from_ref(id)).await;
        // Delivered to a consumer that dies: if it were removed from the group, the entry would be lost.
        let name = format!("dying-{n}");
        let read: Result<redis::Value, _> = redis::cmd("XREADGROUP")
            .arg(&["GROUP", "workers", &name, "COUNT", "1", "STREAMS", &stream, ">"])
            .query_async(&mut connection)
            .await;
        assert_ne!(read.unwrap(), redis::Value::Nil);
    }
    worker.control.set_paused(false);
    journal.all_ended(&wanted).await;
    assert_eq!(worker.control.stats().taken_over, 100);
    let consumers = async || queues.stats(QUEUE).await.unwrap().consumers;
    eventually("and then they are removed", async || (consumers().await <= 1).then_some(())).await;
    worker.stop().await;
    journal.assert_once(&wanted);
}
