//! Cancelling and retrying several jobs from their list, and the list itself.

use longshore_kernel::access::Role;
use longshore_kernel::ids::JobId;
use longshore_testkit::world::Tenant;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{Browser, MIGRATIONS, audited, job, world};
use crate::product::World;

const LIST: &str = "/console/job";

async fn state(world: &World, job: JobId) -> String {
    sqlx::query_scalar("SELECT state FROM job WHERE id = $1").bind(job).fetch_one(&world.owner).await.unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn selected_jobs_are_cancelled_or_retried_each_with_its_audit_record(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let failed = [
        job(&world, &api.tenant, "failed", Some("it broke")).await,
        job(&world, &api.tenant, "failed", Some("it broke")).await,
    ];
    let running =
        [job(&world, &api.tenant, "running", None).await, job(&world, &api.tenant, "running", None).await];
    let browser = Browser::new(api, &api.superadmin);
    // what can be done with the jobs that are shown, and nothing else
    let [cancels, retries] = ["formaction=\"/console/job/cancel\"", "Retry all that match"];
    for (state, cancel, retry) in
        [("", true, true), ("failed", false, true), ("running", true, false), ("cancelled", false, false)]
    {
        let list = browser.open(&format!("{LIST}?state={state}")).await.expect(200).text;
        assert_eq!((list.contains(cancels), list.contains(retries)), (cancel, retry), "{state}: {list}");
        let chosen = format!("name=\"id\" value=\"{}\"", failed[0]);
        assert_eq!(list.contains(&chosen), ["", "failed"].contains(&state), "{state}: {list}");
    }
    let chosen = format!("{LIST}/retry?id={}&id={}&id={}&state=failed", failed[0], failed[1], running[0]);
    let question = browser.open(&chosen).await.expect(200).text;
    assert!(question.contains("Retry 3 jobs?"), "{question}");
    let reply = browser.act(&chosen, &[]).await.expect(303);
    let location = reply.header("location").unwrap();
    assert_eq!(location, format!("{LIST}?state=failed&done=jobs-retried&count=2&left=1"));
    let page = browser.open(location).await.expect(200).text;
    assert!(
        page.contains("2 jobs are in the queue again. 1 left: the state of these does not allow it."),
        "{page}"
    );
    for id in failed {
        assert_eq!(state(&world, id).await, "queued");
        assert_eq!(audited(&world, id.get()).await.unwrap().0, "job.retry");
    }
    assert_eq!(
        (state(&world, running[0]).await.as_str(), audited(&world, running[0].get()).await),
        ("running", None)
    );

    let chosen = format!("{LIST}/cancel?id={}&id={}", running[0], running[1]);
    let reply = browser.act(&chosen, &[]).await.expect(303);
    assert_eq!(reply.header("location"), Some("/console/job?done=jobs-cancelled&count=2"));
    for id in running {
        assert_eq!(state(&world, id).await, "cancelled");
    }
    let cancelled = "SELECT count(DISTINCT entity_id) FROM audit WHERE action = 'job.cancel'";
    let finished = "SELECT count(DISTINCT entity_id) FROM audit WHERE action = 'job.finish'";
    assert_eq!((world.count(cancelled).await, world.count(finished).await), (2, 2), "these are syncs");
    for refused in ["", "?id=x", "?all=true&kind=stock.sync", "?all=true&state=broken"] {
        browser.open(&format!("{LIST}/cancel{refused}")).await.expect(400);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn all_jobs_that_match_the_filter_are_retried_within_the_scope(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let other = Tenant::create(&api.services, "Other").await.unwrap();
    let matching = [
        job(&world, &api.tenant, "failed", Some("timed out")).await,
        job(&world, &api.tenant, "failed", Some("timed out")).await,
    ];
    let different = job(&world, &api.tenant, "failed", Some("it broke")).await;
    let foreign = job(&world, &other, "failed", Some("timed out")).await;
    let token = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let browser = Browser::new(api, &token);
    let all = format!("{LIST}/retry?all=true&error=timed");
    let question = browser.open(&all).await.expect(200).text;
    assert!(question.contains("Retry 2 jobs?") && question.contains("<strong>timed</strong>"), "{question}");
    let reply = browser.act(&all, &[]).await.expect(303);
    assert_eq!(reply.header("location"), Some("/console/job?error=timed&done=jobs-retried&count=2"));
    for id in matching {
        assert_eq!(state(&world, id).await, "queued");
    }
    for id in [different, foreign] {
        assert_eq!(state(&world, id).await, "failed");
    }
    // nothing is left to retry; those in the queue can be cancelled
    browser.open(&all).await.expect(400);
    let reply = browser.act(&format!("{LIST}/cancel?all=true"), &[]).await.expect(303);
    assert_eq!(reply.header("location"), Some("/console/job?done=jobs-cancelled&count=2"));
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_list_counts_jobs_by_state_and_finds_e_shops_by_name(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let other = Tenant::create(&api.services, "Other").await.unwrap();
    let mut ours = Vec::new();
    for (state, error) in [
        ("failed", Some("no")),
        ("failed", Some("no")),
        ("running", None),
        ("succeeded", None),
        ("cancelled", None),
    ] {
        ours.push(job(&world, &api.tenant, state, error).await);
    }
    let theirs = job(&world, &other, "failed", Some("no")).await;
    let everything = Browser::new(api, &api.superadmin);
    let list = everything.open(&format!("{LIST}?kind=product.sync")).await.expect(200).text;
    for count in ["all 6<", "failed 3<", "running 1<", "queued 0<", "succeeded 1<", "cancelled 1<"] {
        assert!(list.contains(count), "{count}: {list}");
    }
    assert!(list.contains("href=\"/console/job?kind=product.sync&amp;state=failed\""), "{list}");
    let token = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let admin = Browser::new(api, &token);
    let list = admin.open(LIST).await.expect(200).text;
    assert!(list.contains("all 5<") && list.contains("failed 2<"), "{list}");
    let shows = |list: &str, id: JobId| list.contains(&format!("href=\"/console/job/{id}\""));
    for (query, found) in [
        ("eshop=other+SHOP", true),
        ("organisation=Other", true),
        ("organisation=other&state=running", false),
    ] {
        let list = everything.open(&format!("{LIST}?{query}")).await.expect(200).text;
        assert_eq!((shows(&list, theirs), shows(&list, ours[0])), (found, false), "{query}: {list}");
    }
    let rows = |list: &str| list.matches("<a href=\"/console/job/").count();
    assert_eq!(rows(&everything.open(&format!("{LIST}?size=25")).await.expect(200).text), 6);
    for (query, wrong) in [
        ("eshop=shop&error=no", "wrong-eshop"),
        ("organisation=nobody&error=no", "wrong-organisation"),
        ("state=broken&error=no", "wrong-state"),
        ("since=yesterday&error=no", "wrong-since"),
        ("size=7&error=no", "wrong-size"),
    ] {
        let page = everything.open(&format!("{LIST}?{query}")).await.expect(400).text;
        assert!(page.contains(wrong) && page.contains("value=\"no\""), "{query}: {page}");
        assert_eq!(rows(&page), 0);
    }
    // the name of another's e-shop is none
    admin.open(&format!("{LIST}?eshop=other+shop")).await.expect(400);
}
