//! One tenant, a worker without queues, and helpers of the tests.

use std::time::{Duration, Instant};

use longshore_domain::account::eshop::{self, NewEshop};
use longshore_domain::catalog::product::{rules, switch};
use longshore_domain::expedition::import;
use longshore_domain::job::dispatch;
use longshore_domain::job::kind::{ActivateProducts, DeactivateProducts, JobKind};
use longshore_domain::job::payload::LONGEST_ROW;
use longshore_domain::job::receiving::Receiving;
use longshore_domain::job::row::csv::columns::Columns;
use longshore_domain::partner::push::{self, Push};
use longshore_domain::warehouse::stock::sync as stock;
use longshore_domain::webhook::event::{ALL, NAMES};
use longshore_kernel::access::{Actor, Caller, Role, Scope};
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::csv::read::{Record, Records};
use longshore_kernel::ids::{JobId, ProductId, TokenId, WebhookId};
use longshore_kernel::input::Rule as _;
use longshore_kernel::services::Services;
use longshore_testkit::services;
use longshore_testkit::world::Tenant;
use longshore_worker::context::WorkerContext;
use longshore_worker::jobs::chunk;
use serde_json::{Value, json};
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;
use uuid::Uuid;

pub(crate) struct World {
    pub(crate) services: Services,
    pub(crate) worker: WorkerContext,
    pub(crate) tenant: Tenant,
    pub(crate) context: Context,
    /// Pool of the owner's role, with which tests read and change tables.
    pub(crate) owner: PgPool,
}

impl World {
    pub(crate) async fn new(options: &PgConnectOptions) -> Self {
        Self::over(services::for_test(options).unwrap(), options).await
    }

    /// With given services.
    pub(crate) async fn over(services: Services, options: &PgConnectOptions) -> Self {
        let tenant = Tenant::create(&services, "Gifts").await.unwrap();
        let context = context_of(&tenant);
        let owner = PgPool::connect_with(options.clone()).await.unwrap();
        Self { worker: WorkerContext::new(services.clone()).unwrap(), services, tenant, context, owner }
    }

    /// The same organisation with another of its e-shops.
    pub(crate) async fn sister(&self) -> Self {
        let Tenant { organisation, warehouse, wms, .. } = self.tenant;
        let new = NewEshop { organisation, name: "Sister shop".to_owned(), warehouses: vec![warehouse] };
        let eshop = eshop::create(&self.services, &Origin::command_line(), &new).await.unwrap();
        Self {
            services: self.services.clone(),
            worker: self.worker.clone(),
            tenant: Tenant { organisation, eshop, warehouse, wms },
            context: self.context.clone(),
            owner: self.owner.clone(),
        }
    }

    /// Inserts active physical products with the SKUs `P0`, `P1`, … in the e-shop; returns their ids in
    /// order.
    pub(crate) async fn products(&self, count: usize) -> Vec<ProductId> {
        sqlx::query_scalar(
            "WITH made AS (
                 INSERT INTO product (id, organisation_id, product_sku, internal_sku, name, reference_numbers,
                     packaging_type, imei_check_required, work_around_sn_in, work_around_ean_sticker,
                     work_around_warranty_inf, work_around_lot, active, active_acceptance, type)
                 SELECT uuid_v7(), $1, 'P' || n, 'P' || n, 'Product ' || n, '{}', 'A', false, false, false, false, false,
                        true, nextval('acceptance'), 'physical'
                 FROM generate_series(0, $3 - 1) AS n
                 RETURNING id, product_sku
             ), sold AS (
                 INSERT INTO product_eshop (product_id, eshop_id) SELECT id, $2 FROM made
             )
             SELECT id FROM made ORDER BY substr(product_sku, 2)::int",
        )
        .bind(self.tenant.organisation)
        .bind(self.tenant.eshop)
        .bind(i32::try_from(count).unwrap())
        .fetch_all(&self.owner)
        .await
        .unwrap()
    }

    /// Inserts a webhook of the e-shop for an event; returns its id.
    pub(crate) async fn webhook(&self, event: &str) -> WebhookId {
        sqlx::query_scalar(
            "WITH made AS (
                 INSERT INTO webhook (id, organisation_id, eshop_id, event, events, destination, active, authentication_type, secret)
                 VALUES (uuid_v7(), $1, $2, $3, $4, 'http://127.0.0.1:1/', true, 'none', '') RETURNING id
             ), lane AS (
                 INSERT INTO webhook_lane (webhook_id) SELECT id FROM made
             )
             SELECT id FROM made",
        )
        .bind(self.tenant.organisation)
        .bind(self.tenant.eshop)
        .bind(event)
        .bind(if event == ALL { NAMES.to_vec() } else { vec![event] })
        .fetch_one(&self.owner)
        .await
        .unwrap()
    }

    /// Accepts a bulk switch; returns the job.
    pub(crate) async fn switch(&self, kind: JobKind, ids: &[ProductId]) -> JobId {
        let (services, context, ids) = (&self.services, &self.context, ids.to_vec());
        let answer = match kind {
            JobKind::ProductActivate => switch::accept(services, context, ActivateProducts, ids).await,
            JobKind::ProductDeactivate => switch::accept(services, context, DeactivateProducts, ids).await,
            other => panic!("{other} switches no products"),
        };
        answer.unwrap().job.unwrap()
    }

    async fn receiving(&self, push: Push, how: Value) -> Receiving<'_> {
        let mut header = match push {
            Push::Products | Push::Expeditions => json!({"eshop": self.tenant.eshop}),
            Push::News => json!({"wms": self.tenant.wms}),
            Push::Stocks => json!({"eshop": self.tenant.eshop, "warehouseId": self.tenant.warehouse}),
        };
        header.as_object_mut().unwrap().extend(how.as_object().cloned().unwrap_or_default());
        let target = push::target(&self.services, &self.context, push, header).await.unwrap();
        Receiving::begin(&self.services, &self.context, target).await.unwrap()
    }

    /// Accepts a sync of a file of CSV; returns the job.
    pub(crate) async fn sync_csv(&self, push: Push, text: &str) -> JobId {
        let mut receiving = self.receiving(push, json!({})).await;
        let schema = match push {
            Push::Stocks => stock::row().schema(),
            Push::Expeditions => import::schema(),
            _ => rules::schema_of_sync_row(),
        };
        let (mut records, mut record) = (Records::new(None, LONGEST_ROW), Record::default());
        records.arriving().push_str(text);
        records.end();
        assert!(records.next(&mut record).unwrap());
        let mut columns = Columns::new(&schema, records.delimiter(), &record).unwrap();
        let mut rows = Vec::new();
        while records.next(&mut record).unwrap() {
            rows.extend(columns.push(&mut record).unwrap());
        }
        rows.extend(columns.rest().unwrap());
        for (row, line) in rows {
            receiving.row(&row, Some(line)).await.unwrap();
        }
        receiving.of_csv(columns.form());
        receiving.finish(None).await.unwrap().job.unwrap()
    }

    /// Accepts a sync of rows as the lines of a stream; returns the job.
    pub(crate) async fn sync<R: AsRef<[u8]>>(&self, push: Push, rows: impl IntoIterator<Item = R>) -> JobId {
        Self::lines(self.receiving(push, json!({})).await, rows).await
    }

    /// The same as a dry run.
    pub(crate) async fn try_sync<R: AsRef<[u8]>>(
        &self,
        push: Push,
        rows: impl IntoIterator<Item = R>,
    ) -> JobId {
        Self::lines(self.receiving(push, json!({"dryRun": true})).await, rows).await
    }

    /// The same with a guard.
    pub(crate) async fn sync_guarded<R: AsRef<[u8]>>(
        &self,
        push: Push,
        guard: Value,
        rows: impl IntoIterator<Item = R>,
    ) -> JobId {
        Self::lines(self.receiving(push, json!({"guard": guard})).await, rows).await
    }

    async fn lines<R: AsRef<[u8]>>(mut receiving: Receiving<'_>, rows: impl IntoIterator<Item = R>) -> JobId {
        // as if every second line were blank
        for (row, line) in rows.into_iter().zip((3..).step_by(2)) {
            receiving.row(row.as_ref(), Some(line)).await.unwrap();
        }
        receiving.finish(None).await.unwrap().job.unwrap()
    }

    /// Runs due chunks until there are none; returns how many were run.
    pub(crate) async fn drain(&self) -> usize {
        let mut runs = 0;
        loop {
            let due = dispatch::due(&self.services.db.main).await.unwrap();
            if due.is_empty() {
                return runs;
            }
            runs += due.len();
            assert!(runs < 10_000, "the same chunks are due again and again");
            for (_, name) in due {
                Box::pin(chunk::run(self.worker.clone(), name)).await;
            }
        }
    }

    /// The job's row.
    pub(crate) async fn job(&self, id: JobId) -> Value {
        sqlx::query_scalar("SELECT to_jsonb(job) FROM job WHERE id = $1")
            .bind(id)
            .fetch_one(&self.owner)
            .await
            .unwrap()
    }

    /// What the job waits for: the reason, and the job.
    pub(crate) async fn waits_for(&self, id: JobId) -> Option<(String, Option<JobId>)> {
        let waits: Option<Value> =
            sqlx::query_scalar("SELECT job_waits_for($1)").bind(id).fetch_one(&self.owner).await.unwrap();
        let waits = waits?;
        let moment =
            |name: &str| waits[name].as_str().map(|at| at.parse::<chrono::DateTime<chrono::Utc>>().unwrap());
        let now = self.services.clock.now();
        assert!(moment("since").unwrap() <= now, "{waits}");
        assert_eq!(moment("until").is_some_and(|until| until > now), waits["reason"] == "partner", "{waits}");
        let job = waits["job"].as_str().map(|id| id.parse().unwrap());
        Some((waits["reason"].as_str().unwrap().to_owned(), job))
    }

    /// `[changed, unchanged, failed]` and the state of a job.
    pub(crate) async fn outcome(&self, id: JobId) -> (String, [i64; 3]) {
        let job = self.job(id).await;
        let count = |name: &str| job[name].as_i64().unwrap();
        let parts = ["changed", "unchanged", "failed", "withheld"];
        assert_eq!(count("done"), parts.map(count).iter().sum::<i64>());
        (job["state"].as_str().unwrap().to_owned(), [count("changed"), count("unchanged"), count("failed")])
    }

    /// `index key code` of the refused items.
    pub(crate) async fn errors(&self, id: JobId) -> Vec<String> {
        sqlx::query_scalar(
            "SELECT concat_ws(' ', index, key, code) FROM job_item_error WHERE job_id = $1 ORDER BY index",
        )
        .bind(id)
        .fetch_all(&self.owner)
        .await
        .unwrap()
    }

    /// Lines of the refused items.
    pub(crate) async fn error_lines(&self, id: JobId) -> Vec<Option<i64>> {
        sqlx::query_scalar("SELECT line FROM job_item_error WHERE job_id = $1 ORDER BY index")
            .bind(id)
            .fetch_all(&self.owner)
            .await
            .unwrap()
    }

    /// What of a subject was counted for the charts: each outcome with how often.
    pub(crate) async fn counted(&self, subject: &str) -> Vec<(String, i64)> {
        self.services.metrics.activity().write(&self.services.db.main).await.unwrap();
        sqlx::query_as(
            "SELECT outcome, sum(count)::bigint FROM activity WHERE subject = $1 GROUP BY 1 ORDER BY 1",
        )
        .bind(subject)
        .fetch_all(&self.owner)
        .await
        .unwrap()
    }

    /// The result of a counting query.
    pub(crate) async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.owner).await.unwrap()
    }

    /// Waits until a counting query has the expected result.
    pub(crate) async fn until(&self, sql: &'static str, expected: i64) {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let count = self.count(sql).await;
            if count == expected {
                return;
            }
            assert!(Instant::now() < deadline, "{count}, not {expected}: {sql}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until a statement waits for a lock.
    pub(crate) async fn until_locked(&self) {
        services::until_locked(&self.owner, 1).await.unwrap();
    }

    /// Waits until this many sessions wait for a lock.
    pub(crate) async fn until_blocked(&self, sessions: i64) {
        let waiting = "SELECT count(*) FROM pg_stat_activity
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        self.until(waiting, sessions).await;
    }

    /// Runs SQL without checking foreign keys.
    pub(crate) async fn without_references(&self, sql: &'static str) {
        let mut tx = self.owner.begin().await.unwrap();
        sqlx::raw_sql("SET LOCAL session_replication_role = replica").execute(&mut *tx).await.unwrap();
        sqlx::raw_sql(sql).execute(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// Changes the database with SQL.
    pub(crate) async fn execute(&self, sql: &'static str) {
        sqlx::raw_sql(sql).execute(&self.owner).await.unwrap();
    }
}

/// A user of the tenant's organisation.
pub(crate) fn context_of(tenant: &Tenant) -> Context {
    let actor = Actor { kind: "token".to_owned(), id: Some(Uuid::nil()), name: "test".to_owned() };
    let caller = Caller {
        token: TokenId::nil(),
        session: None,
        actor: actor.clone(),
        role: Role::User,
        scope: Scope::Organisations([tenant.organisation].into()),
        must_set_up: false,
    };
    let origin = Origin { actor, request_id: Some("r1".to_owned()), job: None, traceparent: None };
    Context { caller, origin, claim: None }
}
