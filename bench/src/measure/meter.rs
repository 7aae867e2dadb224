//! The resources of deliveries: CPU time of each part, and the peak memory of a worker.

use std::time::Duration;

use anyhow::Context as _;
use longshore_testkit::process::Process;
use longshore_testkit::stack::Stack;
use uuid::Uuid;

use super::floor::Psql;
use super::process::{busy_with_children, forget_peak, parent, peak};
use super::{Reach, Row, median};

/// The interval of checking whether all deliveries are recorded.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The processes of a stack, and a connection to check whether they are done.
pub(super) struct Meter {
    api: u32,
    workers: Vec<u32>,
    postgres: u32,
    redis: u32,
    psql: Psql,
}

/// CPU time used up to a moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spent {
    service: Duration,
    postgres: Duration,
    redis: Duration,
}

/// The resources of deliveries: CPU time per thousand in milliseconds, memory in MiB.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    service: f64,
    pub(super) postgres: f64,
    redis: f64,
    memory: f64,
}

impl Taken {
    /// CPU time of all parts.
    pub(super) fn cpu(&self) -> f64 {
        self.service + self.postgres + self.redis
    }
}

impl Meter {
    /// The meter of a stack with its one worker.
    pub(super) async fn of(stack: &Stack) -> anyhow::Result<Self> {
        let mut psql = Psql::connect(stack).await?;
        let backend: i32 = psql.ask("SELECT pg_backend_pid()").await?;
        let postgres = parent(backend.try_into()?).context("Postgres is not on this machine")?;
        let workers = vec![stack.worker_pid()?];
        Ok(Self { api: stack.api_pid()?, workers, postgres, redis: stack.redis_pid()?, psql })
    }

    /// Includes another worker.
    pub(super) fn with(&mut self, worker: &Process) -> anyhow::Result<()> {
        self.workers.push(worker.pid().context("the added worker is not running")?);
        Ok(())
    }

    /// Vacuums, resets the peak memory of workers, and reads the CPU time used so far.
    pub(super) async fn start(&mut self) -> anyhow::Result<Spent> {
        self.psql.vacuum().await?;
        self.workers.iter().try_for_each(|worker| forget_peak(*worker))?;
        self.spent()
    }

    /// Waits until the received deliveries of an e-shop are recorded; returns the resources they used since
    /// the start.
    pub(super) async fn taken(
        &mut self,
        before: Spent,
        eshop: Uuid,
        deliveries: usize,
    ) -> anyhow::Result<Taken> {
        let waiting = format!("SELECT EXISTS (SELECT FROM delivery WHERE eshop_id = '{eshop}')");
        while self.psql.ask(&waiting).await? {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        self.since(before, deliveries)
    }

    /// The resources of `count` things since the start.
    pub(super) fn since(&self, before: Spent, count: usize) -> anyhow::Result<Taken> {
        let after = self.spent()?;
        let thousands = f64::from(u32::try_from(count)?) / 1_000.0;
        let of_a_thousand = |after: Duration, before: Duration| {
            1_000.0 * after.saturating_sub(before).as_secs_f64() / thousands
        };
        let mut memory: f64 = 0.0;
        for worker in &self.workers {
            memory = memory.max(peak(*worker)?);
        }
        Ok(Taken {
            service: of_a_thousand(after.service, before.service),
            postgres: of_a_thousand(after.postgres, before.postgres),
            redis: of_a_thousand(after.redis, before.redis),
            memory,
        })
    }

    fn spent(&self) -> anyhow::Result<Spent> {
        let mut service = busy_with_children(self.api)?;
        for worker in &self.workers {
            service += busy_with_children(*worker)?;
        }
        let (postgres, redis) = (busy_with_children(self.postgres)?, busy_with_children(self.redis)?);
        Ok(Spent { service, postgres, redis })
    }
}

/// The rows of several runs, with targets for the whole CPU time and for memory.
pub(super) fn rows(what: &str, runs: &[Taken], cpu: Reach, memory: Reach) -> Vec<Row> {
    let median_of = |of: fn(&Taken) -> f64| median(runs.iter().map(of).collect());
    let spent = |who: &str, of, reach| {
        Row::absolute(format!("CPU of 1,000, {what}: {who}"), median_of(of), "ms", reach)
    };
    vec![
        spent("all", Taken::cpu, cpu),
        spent("service", |taken| taken.service, Reach::Anywhere),
        spent("Postgres", |taken| taken.postgres, Reach::Anywhere),
        spent("Redis", |taken| taken.redis, Reach::Anywhere),
        Row::absolute(format!("memory of a worker, {what}"), median_of(|taken| taken.memory), "MiB", memory),
    ]
}
