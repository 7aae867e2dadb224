//! The parts of a running process, passed to every handler.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::FromRef;
use http::Extensions;
use longshore_domain::account::token::Tokens;
use longshore_domain::catalog::product::together::Batcher;
use longshore_domain::expedition::together::Batcher as Orders;
use longshore_domain::job::watch::JobWatch;
use longshore_domain::webhook::reader::EventWatch;
use longshore_kernel::origin::Origins;
use longshore_kernel::proxy::Proxies;
use longshore_kernel::services::Services;
use tokio_util::sync::CancellationToken;

use crate::limits::Limits;

/// State of the router. Each layer clones it for every request, so it is one pointer.
#[derive(Clone, Debug)]
pub struct App(Arc<Parts>);

/// The contents of the state.
#[derive(Debug)]
pub struct Parts {
    /// Pools, queues, keys, clock.
    pub services: Arc<Services>,
    /// Checks access tokens.
    pub tokens: Tokens,
    /// Collects products that are updated at the same time.
    pub products: Batcher,
    /// Collects orders that are created or moved at the same time.
    pub orders: Orders,
    /// Reports the progress of jobs.
    pub jobs: JobWatch,
    /// Says when events have come.
    pub events: EventWatch,
    /// The limits of one caller.
    pub limits: Limits,
    /// Settings about the environment of the process.
    pub surroundings: Surroundings,
    /// Cancelled when the process must stop: it reports that it is not ready, but serves for a while longer.
    pub stopping: CancellationToken,
    /// Cancelled when the listener closes: streams of events end, also those that are opened afterwards.
    pub closing: CancellationToken,
    kept: Mutex<Extensions>,
}

impl Parts {
    /// What a crate above this one keeps in the process: one value of each type, made when it is first asked for.
    pub fn kept<T: Clone + Default + Send + Sync + 'static>(&self) -> T {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default::<T>().clone()
    }
}

/// What the operator configured about the environment of a process.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Trusted proxies, whose information about clients is used.
    pub proxies: Proxies,
    /// Origins whose pages may call the API.
    pub origins: Origins,
    /// Whether admins and superadmins need a second factor.
    pub requires_second_factor: bool,
}

impl App {
    /// Creates the state from the services of the process, with default limits and no rate limit.
    #[must_use]
    pub fn new(services: Services) -> Self {
        Self::with(services, Limits::default())
    }

    /// The same with other limits.
    #[must_use]
    pub fn with(services: Services, limits: Limits) -> Self {
        Self::among(Surroundings::default(), services, limits)
    }

    /// The same with other surroundings.
    #[must_use]
    pub fn among(surroundings: Surroundings, services: Services, limits: Limits) -> Self {
        let tokens =
            Tokens::new(services.db.clone()).requiring_second_factor(surroundings.requires_second_factor);
        let jobs = JobWatch::new(services.db.clone());
        let events = EventWatch::new(services.db.clone());
        let (stopping, closing) = (CancellationToken::new(), CancellationToken::new());
        let services = Arc::new(services);
        let (products, orders) = (Batcher::default(), Orders::default());
        Self(Arc::new(Parts {
            services,
            tokens,
            products,
            orders,
            jobs,
            events,
            limits,
            surroundings,
            stopping,
            closing,
            kept: Mutex::default(),
        }))
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl FromRef<App> for Batcher {
    fn from_ref(app: &App) -> Self {
        app.products.clone()
    }
}

impl FromRef<App> for Orders {
    fn from_ref(app: &App) -> Self {
        app.orders.clone()
    }
}

impl FromRef<App> for Arc<Services> {
    fn from_ref(app: &App) -> Self {
        Arc::clone(&app.services)
    }
}
