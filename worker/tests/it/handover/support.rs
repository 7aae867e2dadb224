//! A place whose wms has the fake system of a warehouse.

use std::time::Duration;

use longshore_domain::expedition::command::Command;
use longshore_domain::expedition::handover::call::Due;
use longshore_domain::expedition::handover::fill;
use longshore_domain::expedition::handover::lane::Lease;
use longshore_domain::expedition::handover::outcome::{Answer, Outcome};
use longshore_domain::expedition::handover::setting::store;
use longshore_kernel::ids::{ExpeditionId, WmsId};
use longshore_kernel::problem::Problem;
use longshore_testkit::wms::{Entry, Wms};
use longshore_worker::handover::{self, HandoverContext, Ran};
use longshore_worker::outbound::Client;
use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use tokio_util::sync::CancellationToken;

use crate::expedition::support::Place;

/// How long a test waits for an expected call.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

pub(super) const CANCEL: Command = Command::Cancel { reason: None };
pub(super) const ROLLBACK: Command = Command::Rollback;
pub(super) const SEND: Command = Command::Send { rebook: false };

pub(super) struct Depot {
    pub(super) place: Place,
    pub(super) system: Wms,
    pub(super) wms: WmsId,
    pub(super) worker: HandoverContext,
}

impl Depot {
    /// With a setting that is active, and stocks that are full.
    pub(super) async fn new(options: &PgConnectOptions) -> Self {
        let depot = Box::pin(Self::by_hand(options)).await;
        depot.store(json!({})).await;
        depot
    }

    /// Without a setting.
    pub(super) async fn by_hand(options: &PgConnectOptions) -> Self {
        Box::pin(Self::at(Box::pin(Place::new(options, 3)).await)).await
    }

    /// Another organisation, with a setting that is active, whose orders the same worker hands over.
    pub(super) async fn neighbour(&self, options: &PgConnectOptions) -> Self {
        let place = Box::pin(Place::over(self.place.world.services.clone(), options, 3)).await;
        let neighbour = Self { worker: self.worker.clone(), ..Box::pin(Self::at(place)).await };
        neighbour.store(json!({})).await;
        neighbour
    }

    async fn at(place: Place) -> Self {
        place.count(&[(0, 1_000), (1, 1_000)]).await;
        let system = Wms::start().await.unwrap();
        let services = place.world.services.clone();
        let client = Client::new(&services.outbound).unwrap();
        let mut worker = HandoverContext::new(services, client, CancellationToken::new());
        worker.deadline = Duration::from_secs(5);
        Self { wms: place.world.tenant.wms.into(), place, system, worker }
    }

    /// Stores the setting with other fields; the system trusts its secret.
    pub(super) async fn store(&self, other: Value) -> Value {
        let mut body = json!({"baseUrl": self.system.url()});
        body.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
        let (services, context) = (&self.place.world.services, &self.place.world.context);
        let answer = store::store(services, context, self.wms, body, |_| Ok(())).await.unwrap();
        let shown: Value = serde_json::from_str(&answer.body.unwrap()).unwrap();
        if let Some(secret) = shown["secret"].as_str() {
            self.system.trust(secret).unwrap();
        }
        shown
    }

    /// Makes the next call over a new connection: one that ends on a kept connection is made again at once.
    pub(super) fn disconnect(&mut self) {
        self.worker.client = Client::new(&self.place.world.services.outbound).unwrap();
    }

    /// A worker that is started anew, as if the first had died.
    pub(super) fn other_worker(&self) -> HandoverContext {
        let services = self.place.world.services.clone();
        let client = Client::new(&services.outbound).unwrap();
        HandoverContext::new(services, client, CancellationToken::new())
    }

    pub(super) async fn run(&self) -> Ran {
        handover::run(&self.worker, self.wms).await.unwrap()
    }

    /// Runs turns until nothing is due.
    pub(super) async fn drain(&self) {
        while self.run().await == Ran::More {}
    }

    pub(super) async fn fill(&self) -> u64 {
        fill::fill(&self.place.world.services).await.unwrap()
    }

    /// An order of one piece that is sent.
    pub(super) async fn send(&self, number: &str) -> ExpeditionId {
        self.place.send(number, &[(0, 1)]).await
    }

    /// Does a command; returns the record.
    pub(super) async fn command(&self, id: ExpeditionId, command: &Command) -> Result<Value, Problem> {
        self.place.command(id, command).await
    }

    /// The record of an order.
    pub(super) async fn record(&self, id: ExpeditionId) -> Value {
        self.command(id, &SEND).await.unwrap()
    }

    /// Its status, and the state of its hand-over.
    pub(super) async fn state(&self, id: ExpeditionId) -> (String, Option<String>) {
        sqlx::query_as(
            "SELECT status, handover_state FROM expedition LEFT JOIN expedition_handover USING (id) WHERE id = $1",
        )
        .bind(id)
        .fetch_one(&self.place.world.owner)
        .await
        .unwrap()
    }

    pub(super) async fn must_be(&self, id: ExpeditionId, status: &str, handover: Option<&str>) {
        let (is, state) = self.state(id).await;
        assert_eq!((is.as_str(), state.as_deref()), (status, handover), "{id}");
        self.place.must_hold().await;
    }

    /// Makes everything due that waits for another attempt, and ends pauses.
    pub(super) async fn time_passes(&self) {
        let owner = &self.place.world.owner;
        for sql in [
            "UPDATE expedition_handover SET handover_next_attempt_at = now() - interval '1 second', handover_in_call_until = NULL
             WHERE handover_next_attempt_at IS NOT NULL",
            "UPDATE wms_lane SET probe_at = CASE WHEN probe_at IS NOT NULL THEN now() - interval '1 second' END, held_until = NULL",
        ] {
            sqlx::query(sql).execute(owner).await.unwrap();
        }
    }

    pub(super) fn entry(&self, id: ExpeditionId) -> Option<Entry> {
        self.system.order(id.get())
    }

    /// The methods of the calls so far, with their numbers.
    pub(super) fn calls(&self) -> Vec<(String, u64)> {
        self.system.asked().into_iter().map(|asked| (asked.method, asked.number)).collect()
    }

    /// A column of the lane, as text.
    pub(super) async fn lane(&self, column: &str) -> Option<String> {
        let sql = format!("SELECT {column}::text FROM wms_lane WHERE wms_id = $1");
        sqlx::query_scalar(sqlx::AssertSqlSafe(sql))
            .bind(self.wms)
            .fetch_one(&self.place.world.owner)
            .await
            .unwrap()
    }
}

/// The outcome of a call, as the holder of a lease records it.
pub(super) fn outcome_of(lease: &Lease, due: &Due, answer: Answer) -> Outcome {
    Outcome {
        expedition: due.expedition,
        number: due.number,
        ask: due.ask,
        in_call_until: due.in_call_until,
        wms: lease.wms,
        token: lease.token,
        probe: false,
        answer,
    }
}
