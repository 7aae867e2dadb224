//! A place with products and a carrier, and helpers to order from it.

use std::time::Duration;

use longshore_domain::expedition::allocation;
use longshore_domain::expedition::command::{self, By, Command, Done, Instruction};
use longshore_domain::expedition::together::Batcher;
use longshore_domain::expedition::{invariants, progress};
use longshore_domain::partner::push::Push;
use longshore_kernel::change::Change;
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::precondition::Precondition;
use longshore_kernel::problem::Problem;
use longshore_kernel::services::Services;
use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use uuid::Uuid;

use crate::job::support::World;

/// A world with products `P0`, `P1`, … and a carrier.
pub(crate) struct Place {
    pub(crate) world: World,
    carrier: Uuid,
    pub(crate) orders: Batcher,
}

impl Place {
    pub(crate) async fn new(options: &PgConnectOptions, products: usize) -> Self {
        Self::in_world(World::new(options).await, products).await
    }

    /// The same with services of one's own.
    pub(crate) async fn over(services: Services, options: &PgConnectOptions, products: usize) -> Self {
        Self::in_world(World::over(services, options).await, products).await
    }

    async fn in_world(world: World, products: usize) -> Self {
        world.products(products).await;
        let carrier = sqlx::query_scalar(
            "WITH made AS (
                 INSERT INTO carrier (id, name, code, countries_of_operation, active)
                 SELECT uuid_v7(), 'Post', coalesce(max(code), 0) + 1, '{}', true FROM carrier RETURNING id
             ), attached AS (
                 INSERT INTO carrier_organisation (carrier_id, organisation_id) SELECT id, $1 FROM made
             )
             SELECT id FROM made",
        )
        .bind(world.tenant.organisation)
        .fetch_one(&world.owner)
        .await
        .unwrap();
        Self { world, carrier, orders: Batcher::default() }
    }

    /// The body of a create.
    pub(crate) fn body(&self, number: &str, items: &[(usize, i64)]) -> Value {
        let items: Vec<_> = items
            .iter()
            .map(|(n, quantity)| json!({"productSku": format!("P{n}"), "quantity": quantity}))
            .collect();
        json!({
            "eshop": self.world.tenant.eshop, "orderNumber": number, "value": 10, "currency": "EUR",
            "carrier": self.carrier, "billingLastName": "Byron", "billingStreet": "Quay Street",
            "billingCity": "Bristol", "billingZip": 1, "billingCountry": "GB", "items": items,
        })
    }

    /// Creates an order; returns its record.
    pub(crate) async fn create(&self, body: Value) -> Result<Value, Problem> {
        let answer = self.orders.create(&self.world.services, &self.world.context, body).await?;
        Ok(serde_json::from_str(&answer.body.unwrap()).unwrap())
    }

    /// Creates and sends an order; returns its id.
    pub(crate) async fn send(&self, number: &str, items: &[(usize, i64)]) -> ExpeditionId {
        let mut body = self.body(number, items);
        body["send"] = json!(true);
        id(&self.create(body).await.unwrap())
    }

    /// Does a command; returns the record.
    pub(crate) async fn command(&self, id: ExpeditionId, command: &Command) -> Result<Value, Problem> {
        let answer = self
            .orders
            .run(&self.world.services, &self.world.context, id, command, Precondition::NONE)
            .await?;
        Ok(serde_json::from_str(&answer.body.unwrap()).unwrap())
    }

    /// Does commands for different orders in one transaction, as those of the same moment are done; returns what came of each.
    pub(crate) async fn together(&self, commands: &[(ExpeditionId, Command)]) -> Vec<Done> {
        let (services, context) = (&self.world.services, &self.world.context);
        let instructions: Vec<Instruction<'_>> = commands
            .iter()
            .map(|(id, command)| Instruction {
                id: *id,
                command,
                precondition: Precondition::NONE,
                origin: 0,
            })
            .collect();
        command::prepare(By::Another(&services.db.main), &instructions).await.unwrap();
        let mut change = Change::begin(services).await.unwrap();
        let done =
            command::apply(&mut change, &[&context.origin], context.scope(), &instructions).await.unwrap();
        change.commit().await.unwrap();
        done
    }

    /// Reports by hand; returns the record.
    pub(crate) async fn report(&self, id: ExpeditionId, body: Value) -> Result<Value, Problem> {
        let (services, context) = (&self.world.services, &self.world.context);
        let answer = progress::report(services, context, id, body, |_| Ok(())).await?;
        Ok(serde_json::from_str(&answer.body.unwrap()).unwrap())
    }

    /// Counts stocks.
    pub(crate) async fn count(&self, counts: &[(usize, i64)]) {
        let rows =
            counts.iter().map(|(n, quantity)| format!(r#"{{"productSku":"P{n}","quantity":{quantity}}}"#));
        self.world.sync(Push::Stocks, rows).await;
        self.world.drain().await;
    }

    /// Allocates until nothing is left to do; returns how many transactions that took.
    pub(crate) async fn allocate(&self) -> usize {
        for rounds in 0.. {
            let places = allocation::places(&self.world.services).await.unwrap();
            if places.is_empty() {
                return rounds;
            }
            assert!(rounds < 1_000, "the allocator does not come to an end");
            for due in places {
                allocation::allocate(&self.world.services, due.place, Duration::from_secs(30)).await.unwrap();
            }
        }
        unreachable!("there are more rounds")
    }

    /// The statuses of orders by their numbers.
    pub(crate) async fn statuses(&self) -> Vec<(String, String)> {
        sqlx::query_as(
            "SELECT order_number, status FROM expedition JOIN expedition_detail USING (id) ORDER BY 1",
        )
        .fetch_all(&self.world.owner)
        .await
        .unwrap()
    }

    /// The status of an order.
    pub(crate) async fn status(&self, id: ExpeditionId) -> String {
        sqlx::query_scalar("SELECT status FROM expedition WHERE id = $1")
            .bind(id)
            .fetch_one(&self.world.owner)
            .await
            .unwrap()
    }

    /// Nothing is broken.
    pub(crate) async fn must_hold(&self) {
        assert_eq!(invariants::broken(&self.world.owner).await.unwrap(), []);
    }

    /// What a stock has: quantity, held, missing.
    pub(crate) async fn stock(&self, product: usize) -> (i32, i64, i64) {
        sqlx::query_as(
            "SELECT s.quantity, s.held, s.missing FROM product_stock s JOIN product p ON p.id = s.product_id
             WHERE p.product_sku = $1",
        )
        .bind(format!("P{product}"))
        .fetch_one(&self.world.owner)
        .await
        .unwrap()
    }
}

/// The id of a record.
pub(crate) fn id(record: &Value) -> ExpeditionId {
    record["id"].as_str().unwrap().parse().unwrap()
}
