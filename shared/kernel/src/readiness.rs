//! Whether a process is ready: the answer of `/health/ready` of the api and of the worker.

use std::time::Duration;

use serde_json::{Map, Value};

use super::services::Services;
use crate::queue::RedisHealth;

/// How long a part may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The state of the dependencies of a process.
#[derive(Clone, Debug)]
pub struct Readiness {
    /// Whether Postgres answers, and a pooler before it keeps what is needed.
    pub postgres: bool,
    /// What that loses.
    pub pooler: Option<String>,
    /// Whether Redis takes writes.
    pub redis: RedisHealth,
    /// By how many seconds the clock of this process is ahead of that of Postgres, where it is wrong.
    pub clock_ahead: Option<f64>,
}

impl Readiness {
    /// Asks both, and waits for none longer than two seconds.
    pub async fn look(services: &Services) -> Self {
        let (postgres, redis) = tokio::join!(
            tokio::time::timeout(PATIENCE, services.db.ping()),
            services.queues.probe(PATIENCE),
        );
        let clock = services.metrics.clock();
        let clock_ahead = clock.is_wrong().then(|| clock.seconds());
        let pooler = services.db.refused_by_pooler();
        Self { postgres: matches!(postgres, Ok(Ok(()))) && pooler.is_none(), pooler, redis, clock_ahead }
    }

    /// The body of the answer of a process that is `ready`, or is not.
    #[must_use]
    pub fn body(&self, ready: bool) -> Value {
        let mut body = Map::new();
        body.insert("status".to_owned(), if ready { "ready" } else { "unavailable" }.into());
        body.insert("postgres".to_owned(), if self.postgres { "up" } else { "down" }.into());
        body.extend(self.pooler.as_ref().map(|lost| ("pooler".to_owned(), lost.as_str().into())));
        body.extend(self.redis.fields());
        if let Some(ahead) = self.clock_ahead {
            body.insert("clockAheadSeconds".to_owned(), ahead.into());
        }
        Value::Object(body)
    }
}
