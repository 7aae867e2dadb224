//! All faults in random order for a while: without a dispatcher, the queue alone must not lose an entry.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use longshore_worker::queue::Config;

use super::child::{Process, finished};
use super::support::{QUEUE, Server, Worker, ids, put, quick, setting, taking};

/// SplitMix64: small, seeded, and identical on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % sides
    }
}

fn number(name: &str) -> Option<u64> {
    setting(name)?.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_soak_of_kills_stalls_cuts_and_pauses_loses_nothing() {
    let seed = number("LONGSHORE_SOAK_SEED")
        .unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs());
    let length = Duration::from_secs(number("LONGSHORE_SOAK_SECONDS").unwrap_or(20));
    println!("soak of {length:?}, seed {seed} (LONGSHORE_SOAK_SECONDS, LONGSHORE_SOAK_SEED)");
    let mut dice = Dice(seed);
    let server = Server::start().await;
    let (scratch, queues, journal) = server.scratch().opened();
    // The entries do not cause the kills, so none may be put aside.
    let config = Config { max_deliveries: 1000, prefetch: 4, ..quick(8) };
    let start = || Worker::start(&queues, config.clone(), taking(Duration::from_millis(3), &journal));
    let mut workers = vec![start(), start()];
    let mut child = Process::start(&scratch, 8, Duration::from_millis(3));
    let mut wanted = Vec::new();
    let (began, mut events) = (Instant::now(), [0; 8]);
    while began.elapsed() < length {
        let fresh = ids(&format!("{}", wanted.len()), 1 + usize::try_from(dice.roll(120)).unwrap());
        put(&queues, &fresh).await;
        wanted.extend(fresh);
        let event = dice.roll(8);
        events[usize::try_from(event).unwrap()] += 1;
        let any = usize::try_from(dice.roll(2)).unwrap();
        match event {
            0 => drop(scratch.try_ask::<usize>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await),
            1 => {
                let stall = (50 + dice.roll(400)).to_string();
                drop(scratch.try_ask::<()>(&["CLIENT", "PAUSE", &stall, "ALL"]).await);
            }
            2 => {
                let stream = queues.keys(QUEUE).stream().to_owned();
                drop(scratch.try_ask::<usize>(&["XGROUP", "DESTROY", &stream, "workers"]).await);
            }
            3 => workers[any].control.set_paused(dice.roll(2) == 0),
            4 => workers[any].control.set_concurrency(1 + usize::try_from(dice.roll(16)).unwrap()),
            5 => std::mem::replace(&mut workers[any], start()).stop().await,
            6 => std::mem::replace(&mut workers[any], start()).drop_at_once().await,
            _ => {
                child.kill();
                child = Process::start(&scratch, 8, Duration::from_millis(3));
            }
        }
        assert!(workers.iter().all(Worker::is_alive));
        // Between two events the workers finish some tasks, unless a pause prevents it.
        let (ended, patience) = (journal.ended(), Instant::now() + Duration::from_millis(200));
        while journal.ended() < ended + 20 && Instant::now() < patience {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    for worker in &workers {
        worker.control.set_paused(false);
    }
    scratch.emptied().await;
    child.terminate();
    child.wait().await;
    let mut done: BTreeSet<String> = journal.counts().into_keys().collect();
    done.extend(scratch.ask::<Vec<String>>(&["LRANGE", &finished(&scratch), "0", "-1"]).await);
    let lost: Vec<_> = wanted.iter().filter(|id| !done.contains(*id)).collect();
    println!("{} ids, events {events:?}, {} run here", wanted.len(), journal.ended());
    assert!(lost.is_empty(), "lost {} of {} with seed {seed}: {lost:?}", lost.len(), wanted.len());
    assert!(wanted.len() > 100, "the soak did hardly anything");
    for worker in workers {
        worker.stop().await;
    }
}
