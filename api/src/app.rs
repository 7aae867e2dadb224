//! What a running process is made of: handed to every handler, cheap to clone.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRef;
use longshore_shared::account::token::Tokens;
use longshore_shared::catalog::product::together::Together;
use longshore_shared::job::watch::JobWatch;
use longshore_shared::platform::origin::Origins;
use longshore_shared::platform::proxy::Proxies;
use longshore_shared::platform::services::Services;
use tokio_util::sync::CancellationToken;

use crate::limits::Limits;

/// State of the router. Each layer hands every request a copy, so a copy is one pointer.
#[derive(Clone, Debug)]
pub struct App(Arc<Parts>);

/// What the state is made of.
#[derive(Debug)]
pub struct Parts {
    /// Pools, queues, keys, clock.
    pub services: Arc<Services>,
    /// Looks tokens up.
    pub tokens: Tokens,
    /// Products that are updated at the same time.
    pub products: Together,
    /// Tells when a job has moved on.
    pub jobs: JobWatch,
    /// What one caller may take.
    pub limits: Limits,
    /// Who is around the process.
    pub surroundings: Surroundings,
    /// Cancelled once the process is asked to stop: it says that it is not ready, and goes on serving for a while.
    pub stopping: CancellationToken,
}

/// Who is around a process: what the operator believes of it.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Proxies that are believed whom they speak for.
    pub proxies: Proxies,
    /// Origins whose pages may call.
    pub origins: Origins,
    /// Admins and superadmins need a second factor.
    pub requires_second_factor: bool,
}

impl App {
    /// Around the services of the process, with the usual limits and no rate.
    #[must_use]
    pub fn new(services: Services) -> Self {
        Self::with(services, Limits::default())
    }

    /// The same with limits of one's own.
    #[must_use]
    pub fn with(services: Services, limits: Limits) -> Self {
        Self::among(Surroundings::default(), services, limits)
    }

    /// The same in surroundings of the operator's.
    #[must_use]
    pub fn among(surroundings: Surroundings, services: Services, limits: Limits) -> Self {
        let tokens =
            Tokens::new(services.db.clone()).requiring_second_factor(surroundings.requires_second_factor);
        let jobs = JobWatch::new(services.db.clone());
        let stopping = CancellationToken::new();
        let (services, products) = (Arc::new(services), Together::default());
        Self(Arc::new(Parts { services, tokens, products, jobs, limits, surroundings, stopping }))
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl FromRef<App> for Together {
    fn from_ref(app: &App) -> Self {
        app.products.clone()
    }
}

impl FromRef<App> for Arc<Services> {
    fn from_ref(app: &App) -> Self {
        Arc::clone(&app.services)
    }
}
