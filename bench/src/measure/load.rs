//! Load: many requests over a fixed number of connections, each sent when the previous one is answered.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::Effort;

/// Calls `send` with 0, 1, … up to `count`, `at_once` in parallel; returns the calls per second.
pub(super) async fn rate<F: Future<Output = anyhow::Result<()>>>(
    count: usize,
    at_once: usize,
    send: impl Fn(usize) -> F,
) -> anyhow::Result<f64> {
    let (next, send) = (AtomicUsize::new(0), &send);
    let next = &next;
    let started = Instant::now();
    let one_after_the_other = async move || {
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= count {
                return anyhow::Ok(());
            }
            send(n).await?;
        }
    };
    futures::future::try_join_all((0..at_once).map(|_| one_after_the_other())).await?;
    per_second(count, started)
}

/// The rate per second since `started`.
pub(super) fn per_second(count: usize, started: Instant) -> anyhow::Result<f64> {
    Ok(f64::from(u32::try_from(count)?) / started.elapsed().as_secs_f64())
}

/// The time since `started`, in milliseconds.
pub(super) fn milliseconds(started: Instant) -> f64 {
    1_000.0 * started.elapsed().as_secs_f64()
}

/// The runs of a figure; the first one, 0, is a warm-up.
pub(super) fn runs(effort: Effort) -> impl Iterator<Item = usize> {
    0..=effort.runs
}
