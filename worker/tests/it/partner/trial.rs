//! Tests of the connection to a partner.

use longshore_domain::job::connection::{self, Test};
use longshore_domain::job::kind::{JobKind, JobState};
use longshore_domain::partner::setting::trial;
use longshore_kernel::migration::MIGRATIONS;
use longshore_testkit::baselinker::{BaseLinker, Mischief};
use longshore_testkit::receiver::Answer;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::baselinker::world_with;
use super::fake::{Fake, document};
use super::support::{lines, store_setting, world_with_feed};
use crate::job::support::World;

impl World {
    /// Accepts a test of the e-shop's partner, has a worker execute it, and returns what its job shows.
    async fn tested(&self) -> Test {
        let eshop = self.tenant.eshop;
        let job = trial::test(&self.services, &self.context, eshop).await.unwrap().job.unwrap();
        self.drain().await;
        let found = connection::last(&self.services.db, JobKind::IntegrationTest, &eshop.to_string()).await;
        let found = found.unwrap().unwrap();
        assert_eq!(found.job, job);
        found
    }
}

fn must_say(test: &Test, works: bool, says: &str) {
    assert_eq!((test.state, test.works), (JobState::Succeeded, Some(works)), "{test:?}");
    assert!(test.message.as_deref().unwrap().contains(says), "{test:?}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_test_of_a_feed_reads_its_beginning_and_stores_nothing(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let fake = Fake::start(|_| Answer::Document(document(lines(3)))).await;
    let world =
        world_with_feed(&options, &fake, json!({"active": false, "inventories": [{"inventoryId": "main"}]}))
            .await;
    let test = world.tested().await;
    must_say(&test, true, "main has 3 products");
    assert_eq!(world.outcome(test.job).await, ("succeeded".to_owned(), [0, 1, 0]));
    assert_eq!(fake.receipts().len(), 1);
    assert_eq!(fake.receipts()[0].query.as_deref(), Some("inventory=main"));
    // a setting that maps warehouses only is one of stocks
    let warehouse = json!([{"warehouseId": "w1", "warehouse": world.tenant.warehouse}]);
    store_setting(&world, &fake.url(), json!({"warehouses": warehouse})).await;
    must_say(&world.tested().await, true, "w1 has 3 stocks");
    assert_eq!(fake.receipts()[1].query.as_deref(), Some("warehouse=w1"));
    let kept = "SELECT (SELECT count(*) FROM product) + (SELECT count(*) FROM partner_fetch) + (SELECT count(*) FROM partner_memo)
                + (SELECT count(*) FROM job_item_error)";
    assert_eq!(world.count(kept).await, 0);
    let audited =
        "SELECT count(*) FROM audit WHERE action = 'integration_setting.test' AND actor_name = 'test'";
    assert_eq!(world.count(audited).await, 2);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_test_says_why_a_partner_cannot_be_used_and_does_not_repeat_itself(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let fake = Fake::start(|_| Answer::Status(401)).await;
    let world = world_with_feed(&options, &fake, json!({})).await;
    let web_site = "<!DOCTYPE html>\n<html>\n<body>welcome</body>\n</html>\n";
    let turns = [
        // over a new connection; on a kept one, it would be repeated
        (Answer::Cut, "could not be read"),
        (Answer::Status(401), "refuses the credentials (HTTP 401)"),
        (Answer::Status(503), "HTTP 503"),
        (Answer::Status(404), "was not found (HTTP 404)"),
        (Answer::Redirect("http://127.0.0.1:1/".to_owned()), "redirect"),
        (Answer::Document(document(web_site)), "a page of HTML"),
        (Answer::Document(document("{\"name\":\"Mug\"}\n")), "none of its first 1 row has a productSku"),
    ];
    let count = turns.len();
    for (answer, says) in turns {
        fake.misbehave([Some(answer)]);
        let test = world.tested().await;
        must_say(&test, false, says);
        assert_eq!(world.outcome(test.job).await, ("succeeded".to_owned(), [0, 0, 1]));
    }
    assert_eq!(fake.receipts().len(), count);
    // what a test finds says nothing of the syncs
    assert_eq!(world.count("SELECT count(*) FROM integration_setting WHERE error IS NOT NULL").await, 0);
    let address = fake.url();
    drop(fake);
    store_setting(&world, &address, json!({})).await;
    must_say(&world.tested().await, false, "cannot connect");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_test_of_baselinker_lists_a_page_with_its_token(_: PgPoolOptions, options: PgConnectOptions) {
    let partner = BaseLinker::start().await.unwrap();
    partner.fill(3);
    let world = world_with(&options, &partner).await;
    must_say(&world.tested().await, true, "has 3 products");
    let methods: Vec<String> = partner.asked().into_iter().map(|asked| asked.method).collect();
    assert_eq!(methods, ["getInventoryProductsList"]);
    partner.next("getInventoryProductsList", Mischief::Status(503));
    must_say(&world.tested().await, false, "HTTP 503");
    let token = json!({"credentials": {"token": "another-token"}});
    super::baselinker::store_setting(&world, partner.url(), token).await;
    must_say(&world.tested().await, false, "token");
    assert_eq!(world.count("SELECT count(*) FROM partner_item").await, 0);
    assert_eq!(
        world.count("SELECT count(*) FROM job WHERE to_jsonb(job)::text LIKE '%another-token%'").await,
        0
    );
}
