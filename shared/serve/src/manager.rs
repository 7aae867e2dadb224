//! What a process tells the service manager that started it, such as systemd (`sd_notify(3)`). Without `NOTIFY_SOCKET`: nothing.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::MissedTickBehavior;

/// Says that the process is ready, and from then on, if the manager has a watchdog, that it is alive: that this runtime, the one
/// which serves, still gets to its tasks. A process whose runtime is stuck says nothing more, and the manager restarts it.
pub fn ready() {
    say(&NotifyState::Ready);
    if let Some(patience) = sd_notify::watchdog_enabled().filter(|patience| !patience.is_zero()) {
        tokio::spawn(live(patience / 2, || say(&NotifyState::Watchdog)));
    }
}

/// Says that the process begins to stop. Until it has ended, it says that it is alive.
pub fn stopping() {
    say(&NotifyState::Stopping);
}

fn say(state: &NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(std::slice::from_ref(state)) {
        tracing::warn!(%error, "the service manager could not be told: {state}");
    }
}

async fn live(every: Duration, say: impl Fn()) {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        say();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::sync::{Arc, Barrier};

    use tokio::runtime::Builder;

    use super::*;

    const THREADS: usize = 2;
    const EVERY: Duration = Duration::from_millis(10);

    #[test]
    fn a_runtime_that_is_stuck_does_not_say_that_it_is_alive() {
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build().unwrap();
        let (say, said) = channel();
        runtime.spawn(live(EVERY, move || say.send(()).unwrap()));
        said.recv().unwrap();

        let [stuck, freed] = [(); 2].map(|()| Arc::new(Barrier::new(THREADS + 1)));
        for _ in 0..THREADS {
            let (stuck, freed) = (Arc::clone(&stuck), Arc::clone(&freed));
            runtime.spawn(async move {
                stuck.wait();
                freed.wait();
            });
        }
        stuck.wait();
        while said.try_recv().is_ok() {}
        assert_eq!(said.recv_timeout(20 * EVERY), Err(RecvTimeoutError::Timeout));

        freed.wait();
        said.recv().unwrap();
    }
}
