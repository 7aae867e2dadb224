//! The request limit on a real Redis, with windows that are short enough for a test.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use longshore_domain::partner::baselinker::TokenHash;
use longshore_domain::partner::baselinker::window::{Limit, Slot, Taken, Window};
use longshore_kernel::config::RedisSettings;
use longshore_kernel::ids;
use longshore_kernel::queue::Queues;
use longshore_testkit::services;
use proptest::prelude::*;
use tokio::task::JoinSet;

fn queues() -> Queues {
    Queues::open(&RedisSettings {
        redis_url: services::redis_settings().unwrap().redis_url,
        queue_prefix: format!("test-{}:", ids::new_id()),
    })
    .unwrap()
}

/// A window on a Redis without earlier requests.
async fn open(limit: Limit) -> (Queues, Window) {
    let queues = queues();
    services::nothing_was_sent_before(&queues).await.unwrap();
    (queues.clone(), Window::new(&queues, limit))
}

fn limit(requests: u32, window_ms: u64, longest_ms: u64) -> Limit {
    Limit {
        requests,
        window: Duration::from_millis(window_ms),
        longest_request: Duration::from_millis(longest_ms),
    }
}

fn token() -> TokenHash {
    TokenHash::of("a token")
}

async fn slot(window: &Window) -> Slot {
    match window.take(token(), 0).await {
        Taken::Slot(slot) => slot,
        Taken::Wait(wait) => panic!("no slot for {wait:?}"),
    }
}

async fn wait(window: &Window, spare: u32) -> Duration {
    match window.take(token(), spare).await {
        Taken::Slot(_) => panic!("there was a slot"),
        Taken::Wait(wait) => wait,
    }
}

/// Takes a slot like a worker, waiting as long as required.
async fn patiently(window: &Window) -> Slot {
    loop {
        match window.take(token(), 0).await {
            Taken::Slot(slot) => return slot,
            Taken::Wait(wait) => tokio::time::sleep(wait).await,
        }
    }
}

/// A request, from its permission to its end.
type Request = (Instant, Instant);

/// Workers that send requests without a pause, with given durations, up to a total count.
async fn work(window: &Window, workers: u32, lasting: &[Duration], count: usize) -> Vec<Request> {
    let done: Arc<Mutex<Vec<Request>>> = Arc::default();
    let left = Arc::new(std::sync::atomic::AtomicUsize::new(count));
    let mut tasks = JoinSet::new();
    for worker in 0..workers {
        let (window, done, left) = (window.clone(), Arc::clone(&done), Arc::clone(&left));
        let lasting = lasting.to_vec();
        tasks.spawn(async move {
            let mut turn = worker as usize;
            while left
                .try_update(
                    std::sync::atomic::Ordering::Relaxed,
                    std::sync::atomic::Ordering::Relaxed,
                    |left| left.checked_sub(1),
                )
                .is_ok()
            {
                let slot = patiently(&window).await;
                let began = Instant::now();
                if let Some(length) = lasting.get(turn % lasting.len().max(1)) {
                    tokio::time::sleep(*length).await;
                }
                done.lock().unwrap().push((began, Instant::now()));
                slot.end().await;
                turn += 1;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let mut done = done.lock().unwrap().clone();
    done.sort();
    done
}

/// The largest number of requests in one window, wherever between its beginning and end each is counted.
fn fullest(requests: &[Request], window: Duration) -> usize {
    let counted_with = |(index, (began, _)): (usize, &Request)| {
        1 + requests[..index]
            .iter()
            .filter(|(_, ended)| began.saturating_duration_since(*ended) < window)
            .count()
    };
    requests.iter().enumerate().map(counted_with).max().unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_workers_together_use_the_limit_and_never_exceed_it() {
    let (requests, length) = (40, Duration::from_millis(1500));
    let (_queues, window) =
        open(Limit { requests, window: length, longest_request: Duration::from_secs(5) }).await;
    let rounds = 5;
    let sent = work(&window, 2, &[], requests as usize * rounds).await;
    assert!(fullest(&sent, length) <= requests as usize);
    // the first round starts at once, each later one a window after the one before it
    let took = sent.last().unwrap().0 - sent.first().unwrap().0;
    let least = length * u32::try_from(rounds - 1).unwrap();
    assert!(took >= least, "{took:?}");
    let used = least.as_secs_f64() / took.as_secs_f64();
    assert!(used >= 0.95, "{used} of the limit was used");
}

#[tokio::test]
async fn a_slot_is_free_a_window_after_its_request_has_ended() {
    let (_queues, window) = open(limit(1, 100, 60_000)).await;
    let first = slot(&window).await;
    // its end is unknown; the earliest possible is now
    assert!(wait(&window, 0).await <= Duration::from_millis(100));
    let ended = Instant::now();
    first.end().await;
    patiently(&window).await;
    assert!(ended.elapsed() >= Duration::from_millis(100));
}

#[tokio::test]
async fn the_slot_of_a_dead_worker_is_free_when_its_request_has_left_every_window() {
    let (_queues, window) = open(limit(1, 100, 200)).await;
    let taken = Instant::now();
    drop(slot(&window).await);
    patiently(&window).await;
    assert!(taken.elapsed() >= Duration::from_millis(300));
}

#[tokio::test]
async fn after_a_flush_no_request_is_sent_until_earlier_ones_have_left_every_window() {
    let (queues, window) = open(limit(3, 200, 300)).await;
    for _ in 0..3 {
        slot(&window).await.end().await;
    }
    let flushed = Instant::now();
    let mut connection = queues.connection();
    let keys: Vec<String> =
        redis::cmd("KEYS").arg(format!("*{}*", queues.prefix())).query_async(&mut connection).await.unwrap();
    assert_eq!(keys.len(), 2, "{keys:?}");
    redis::cmd("DEL").arg(keys).exec_async(&mut connection).await.unwrap();
    assert!(wait(&window, 0).await > Duration::ZERO);
    patiently(&window).await;
    assert!(flushed.elapsed() >= Duration::from_millis(500));
}

#[tokio::test]
async fn the_count_of_another_redis_is_not_trusted() {
    let (queues, window) = open(limit(3, 60_000, 60_000)).await;
    slot(&window).await.end().await;
    // a snapshot was restored, or a replica took over
    let mut connection = queues.connection();
    redis::cmd("HSET")
        .arg(window.since())
        .arg("run")
        .arg("another")
        .exec_async(&mut connection)
        .await
        .unwrap();
    assert!(wait(&window, 0).await > Duration::from_mins(1));
}

#[tokio::test]
async fn a_clock_set_back_delays_requests_by_at_most_a_window_and_a_request() {
    let (queues, window) = open(limit(1, 100, 200)).await;
    let slots = format!("{{{}baselinker}}:slots:{}", queues.prefix(), token());
    let mut connection = queues.connection();
    let far = "9000000000000000";
    redis::cmd("ZADD").arg(slots).arg(far).arg("late").exec_async(&mut connection).await.unwrap();
    redis::cmd("HSET").arg(window.since()).arg("open").arg(far).exec_async(&mut connection).await.unwrap();
    tokio::time::timeout(Duration::from_secs(20), patiently(&window)).await.unwrap();
}

#[tokio::test]
async fn no_request_is_sent_while_redis_is_away() {
    let window = Window::new(&services::queues_that_nobody_answers().unwrap(), limit(100, 100, 100));
    assert!(wait(&window, 0).await > Duration::ZERO);
}

#[tokio::test]
async fn spare_slots_are_for_urgent_calls_and_each_token_has_its_own() {
    let (_queues, window) = open(limit(3, 60_000, 60_000)).await;
    slot(&window).await;
    slot(&window).await;
    wait(&window, 1).await;
    slot(&window).await;
    wait(&window, 0).await;
    assert!(matches!(window.take(TokenHash::of("another"), 1).await, Taken::Slot(_)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn no_window_has_more_requests_than_the_limit_however_long_they_last(
        requests in 1..8_u32,
        workers in 1..6_u32,
        lasting in prop::collection::vec(0..40_u64, 1..6),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let fullest = runtime.block_on(async {
            let (_queues, window) = open(limit(requests, 80, 60_000)).await;
            let lasting: Vec<_> = lasting.iter().map(|ms| Duration::from_millis(*ms)).collect();
            let sent = work(&window, workers, &lasting, requests as usize * 3 + 1).await;
            fullest(&sent, window.limit().window)
        });
        prop_assert!(fullest <= requests as usize, "{fullest} of {requests}");
    }
}
