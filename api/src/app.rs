//! What a running process is made of: handed to every handler, cheap to clone.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRef;
use longshore_shared::account::token::Tokens;
use longshore_shared::job::watch::JobWatch;
use longshore_shared::platform::proxy::Proxies;
use longshore_shared::platform::services::Services;

/// State of the router.
#[derive(Clone, Debug)]
pub struct App {
    /// Pools, queues, keys, clock.
    pub services: Arc<Services>,
    /// Looks tokens up.
    pub tokens: Tokens,
    /// Tells when a job has moved on.
    pub jobs: JobWatch,
    /// How long a client that streams a body may send next to nothing.
    pub stall: Duration,
    /// Proxies that are believed whom they speak for.
    pub proxies: Proxies,
}

/// How long a client that streams a body may send next to nothing.
const STALL: Duration = Duration::from_secs(30);

impl App {
    /// Around the services of the process.
    #[must_use]
    pub fn new(services: Services) -> Self {
        let tokens = Tokens::new(services.db.clone());
        let jobs = JobWatch::new(services.db.clone());
        Self { services: Arc::new(services), tokens, jobs, stall: STALL, proxies: Proxies::default() }
    }
}

impl FromRef<App> for Arc<Services> {
    fn from_ref(app: &App) -> Self {
        Arc::clone(&app.services)
    }
}
