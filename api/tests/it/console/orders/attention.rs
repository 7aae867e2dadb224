//! What needs attention about orders.

use longshore_kernel::access::Role;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{Yard, page, shows};
use crate::console::{Browser, MIGRATIONS};

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_needs_attention_is_grouped_and_leads_to_its_orders(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let yard = Yard::new(&options).await;
    let api = &yard.world.api;
    let browser = yard.browser(Role::Admin).await;
    let nothing = browser.open("/console/order/attention").await.expect(200).text;
    for part in ["No incorrect orders.", "No order waits for goods.", "No old marks.", "No stock is short."] {
        assert!(nothing.contains(part), "{part}: {nothing}");
    }
    yard.stock(3).await;
    for number in ["WRONG-1", "WRONG-2"] {
        yard.order(number, 1, &json!({"carrier": null, "send": true})).await;
    }
    let picked = yard.order("PICKED", 3, &json!({"send": true})).await;
    let report = json!({"status": "take_out"});
    api.put(&api.superadmin, &format!("/api/expedition/{picked}/status"), report).await.expect(200);
    let waits = yard.order("WAITS", 2, &json!({"send": true})).await;
    // a count finds one; the mark is not processed
    yard.stock(1).await;
    sqlx::query("UPDATE product_stock SET marked_at = now() - interval '2 minutes'")
        .execute(&yard.world.owner)
        .await
        .unwrap();
    let shown = browser.open("/console/order/attention").await.expect(200).text;
    for part in [
        "no_carrier",
        "data-label=\"Orders\"><a href=\"/console/order?error=carrier+",
        ">2</a>",
        ">MUG</a>",
        "data-label=\"Pieces wanted\">2<",
        "2 min ago",
        "data-label=\"In stock\">1<",
        "<span class=\"refused\">3</span>",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(shows(&shown, &waits) && shows(&shown, &picked), "{shown}");
    let overview = browser.overview().await;
    for part in
        ["2 orders are incorrect.", "1 stock has waited for the allocator", "1 stock has fewer pieces"]
    {
        assert!(overview.contains(part), "{part}: {overview}");
    }
    // of another organisation, nothing
    let other = Tenant::create(&api.services, "Others").await.unwrap();
    let token = other.token(&api.services, Role::Admin).await.unwrap();
    let stranger = Browser::new(api, &token).open("/console/order/attention").await.expect(200).text;
    assert!(!stranger.contains("MUG") && stranger.contains("No incorrect orders."), "{stranger}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_warehouse_that_does_not_answer_is_named_with_what_waits_for_it(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let yard = Yard::new(&options).await;
    let (api, owner) = (&yard.world.api, &yard.world.owner);
    let browser = yard.browser(Role::Admin).await;
    let admin = api.tenant.token(&api.services, Role::Admin).await.unwrap();
    let setting = format!("/api/partner-integration/wms-setting/{}", api.tenant.wms);
    let body = json!({"baseUrl": "http://127.0.0.1:9/wms", "credentials": {"type": "none"}});
    api.post(&admin, &setting, body).await.expect(200);
    yard.stock(9).await;
    let waits = yard.order("WAITS", 1, &json!({"send": true})).await;
    let canceling = yard.order("CANCELING", 1, &json!({"send": true})).await;
    let due = browser.open(&page(&waits)).await.expect(200).text;
    assert!(due.contains("Due: the warehouse has not been called."), "{due}");
    let well = browser.open("/console/order/attention").await.expect(200).text;
    assert!(well.contains("Every warehouse answers."), "{well}");
    // it has answered that it has both, then fails; one is asked back
    for statement in [
        "UPDATE expedition_handover SET handover_state = 'accepted', handover_next_attempt_at = NULL, wms_internal_id = 'W-' || id",
        "UPDATE wms_lane SET failures = 6, failing_since = now() - interval '6 minutes', error = 'HTTP 500', error_at = now()",
    ] {
        sqlx::query(statement).execute(owner).await.unwrap();
    }
    let cancel = format!("/api/expedition/{canceling}/cancel");
    api.put(&admin, &cancel, Value::Null).await.expect(202);
    sqlx::query("UPDATE expedition SET status_since = now() - interval '2 hours' WHERE id = $1")
        .bind(canceling.parse::<Uuid>().unwrap())
        .execute(owner)
        .await
        .unwrap();
    let accepted = browser.open(&page(&waits)).await.expect(200).text;
    assert!(
        accepted.contains("The warehouse has it.") && accepted.contains(&format!("W-{waits}")),
        "{accepted}"
    );
    let asked = browser.open(&page(&canceling)).await.expect(200).text;
    assert!(asked.contains("Asked back; the warehouse has not answered."), "{asked}");
    let shown = browser.open("/console/order/attention").await.expect(200).text;
    for part in ["HTTP 500", "data-label=\"Orders waiting\">1<", "Failing "] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(shows(&shown, &canceling) && !shows(&shown, &waits), "{shown}");
    let overview = browser.overview().await;
    let said = "failing for 6 min, 1 order waiting, 1 cancel unanswered for over an hour: HTTP 500.";
    assert!(overview.contains(said), "{overview}");
    // a call that was answered with an error is a call that was made
    sqlx::query("UPDATE expedition_handover SET handover_state = 'sending', handover_attempts = 3, handover_error = 'HTTP 500', handover_next_attempt_at = now() WHERE id = $1")
        .bind(waits.parse::<Uuid>().unwrap())
        .execute(owner)
        .await
        .unwrap();
    let wms = browser.open(&format!("/console/wms/{}", api.tenant.wms)).await.expect(200).text;
    let calls = wms.split("id=\"calls-title\"").nth(1).unwrap();
    assert!(shows(calls, &waits) && calls.contains("HTTP 500"), "{wms}");
    assert!(!wms.contains("no answer") && wms.contains("Called, not settled"), "{wms}");
    // of another organisation, nothing
    let other = Tenant::create(&api.services, "Others").await.unwrap();
    let token = other.token(&api.services, Role::Admin).await.unwrap();
    let stranger = Browser::new(api, &token).open("/console/order/attention").await.expect(200).text;
    assert!(!stranger.contains("HTTP 500"), "{stranger}");
}
