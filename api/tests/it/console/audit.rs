//! The audit in the console.

use longshore_domain::account::audit::search::PAGE;
use longshore_kernel::access::Role;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{Browser, MIGRATIONS, job, world};
use crate::product::World;

/// Inserts so many records of an action, each a second older than the one before; returns nothing.
async fn records(world: &World, actor_type: &str, actor: &str, action: &str, count: i32) {
    sqlx::query(
        "INSERT INTO audit (id, at, actor_type, actor_name, action, entity_type, entity_id, organisation_id, changes, request_id)
         SELECT uuid_v7_at(at), at, $1, $2, $3, 'supplier', gen_random_uuid(), $4, '{}', 'request-' || n
         FROM generate_series(1, $5) AS n CROSS JOIN LATERAL (SELECT now() - make_interval(secs => n) AS at) AS t",
    )
    .bind(actor_type)
    .bind(actor)
    .bind(action)
    .bind(world.api.tenant.organisation)
    .bind(count)
    .execute(&world.owner)
    .await
    .unwrap();
}

/// The places where a page names the action.
fn named(page: &str, action: &str) -> usize {
    page.matches(&format!("<strong>{action}</strong>")).count()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn people_come_first_however_much_programs_do(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    records(&world, "admin", "Jana Nováková", "queue.pause", 1).await;
    records(&world, "token", "shop", "product.update", 12_000).await;
    // older than all of that
    sqlx::query(
        "INSERT INTO audit (id, at, actor_type, actor_name, action, entity_type, entity_id, changes)
         SELECT uuid_v7_at(now() - interval '1 day'), now() - interval '1 day', 'admin', 'Petr', 'queue.resume', 'queue', id, '{}' FROM queue WHERE name = 'lane'",
    )
    .execute(&world.owner)
    .await
    .unwrap();
    let browser = Browser::new(&world.api, &world.api.superadmin);
    let page = browser.open("/console/audit").await.expect(200).text;
    assert!(page.contains("Jana Nováková") && page.contains("Petr"), "{page}");
    assert_eq!(named(&page, "product.update"), 0, "{page}");
    let everything = browser.open("/console/audit?whose=all").await.expect(200).text;
    let updates = named(&everything, "product.update");
    assert!(updates > PAGE / 2 && updates < PAGE, "{everything}");
    assert!(everything.contains("Jana Nováková") && !everything.contains("Petr"), "{everything}");
    // an action is found behind any number of others, by a person or by anyone
    for query in ["action=queue.r", "action=queue.r&whose=all", "action=queue&actor=petr", "actor=petr"] {
        let page = browser.open(&format!("/console/audit?{query}")).await.expect(200).text;
        assert_eq!(named(&page, "queue.resume"), 1, "{query}: {page}");
        assert!(!page.contains("rel=\"next\""), "{query}: {page}");
    }
    // a scope of one organisation has the same, without the records of the service itself
    let user = Browser::new(&world.api, &world.api.user);
    let page = user.open("/console/audit?action=queue&whose=all").await.expect(200).text;
    assert!(page.contains("Jana Nováková") && !page.contains("Petr"), "{page}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn every_entry_is_on_one_page(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    records(&world, "token", "shop", "supplier.update", 70).await;
    records(&world, "admin", "Jana", "supplier.create", 45).await;
    for _ in 0..5 {
        job(&world, &api.tenant, "succeeded", None).await;
    }
    for (token, query) in
        [(&api.superadmin, "whose=all"), (&api.user, "whose=all"), (&api.user, "whose=all&action=s")]
    {
        let browser = Browser::new(api, token);
        let mut path = format!("/console/audit?{query}");
        let (mut updates, mut creations, mut jobs) = (0, 0, 0);
        loop {
            let page = browser.open(&path).await.expect(200).text;
            updates += named(&page, "supplier.update");
            creations += named(&page, "supplier.create");
            jobs += named(&page, "product sync");
            let Some((before, _)) = page.split_once("\" rel=\"next\"") else { break };
            path = before.rsplit("href=\"").next().unwrap().replace("&amp;", "&");
        }
        let expected_jobs = if query.contains("action") { 0 } else { 5 };
        assert_eq!((updates, creations, jobs), (70, 45, expected_jobs), "{query}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_records_of_a_job_are_one_line_that_leads_to_them(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let id = job(&world, &api.tenant, "succeeded", None).await;
    sqlx::query(
        "INSERT INTO audit (id, actor_type, actor_name, action, entity_type, entity_id, organisation_id, changes, job_id)
         SELECT uuid_v7(), 'token', 'somebody', 'product.sync', 'product', gen_random_uuid(), $1, '{}', $2 FROM generate_series(1, 2)",
    )
    .bind(api.tenant.organisation)
    .bind(id)
    .execute(&world.owner)
    .await
    .unwrap();
    let browser = Browser::new(api, &api.superadmin);
    let page = browser.open("/console/audit?whose=all").await.expect(200).text;
    assert_eq!(named(&page, "product sync"), 1, "{page}");
    assert!(page.contains(&format!("href=\"/console/audit?job={id}\">2 products</a>")), "{page}");
    assert_eq!(named(&page, "product.sync"), 0, "{page}");
    // a record has the action by which it is searched for
    let page = browser.open(&format!("/console/audit?job={id}")).await.expect(200).text;
    assert_eq!((named(&page, "product.sync"), named(&page, "product sync")), (2, 0), "{page}");
    // the request that asked for the job leads to it as well
    let page = browser.open("/console/audit?request=request-7").await.expect(200).text;
    assert!(page.contains("2 products"), "{page}");
    // a stranger sees neither
    let (stranger, _) = world.stranger().await;
    let token = stranger.token(&api.services, Role::Admin).await.unwrap();
    let stranger = Browser::new(api, &token);
    for query in ["whose=all".to_owned(), format!("job={id}"), "request=request-7".to_owned()] {
        let page = stranger.open(&format!("/console/audit?{query}")).await.expect(200).text;
        assert_eq!((named(&page, "product.sync"), named(&page, "product sync")), (0, 0), "{query}: {page}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_wrong_filter_is_marked_and_the_form_keeps_the_others(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let browser = Browser::new(&world.api, &world.api.superadmin);
    for (query, field, value) in [
        ("entity=MUG-1&action=product", "entity", "MUG-1"),
        ("organisation=x&action=product", "organisation", "x"),
        ("since=yesterday&action=product", "since", "yesterday"),
        ("job=7&action=product", "job", "7"),
    ] {
        let page = browser.open(&format!("/console/audit?{query}")).await.expect(400).text;
        assert!(page.contains(&format!("id=\"wrong-{field}\"")), "{query}: {page}");
        assert!(
            page.contains(&format!("value=\"{value}\"")) && page.contains("value=\"product\""),
            "{query}: {page}"
        );
        assert!(page.contains("aria-invalid=\"true\"") && page.contains("Log out"), "{query}: {page}");
    }
    browser.open("/console/audit?after=x").await.expect(400);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_one_account_or_token_did_is_found_by_its_id(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let (token, admin) = (uuid::Uuid::from_u128(7), uuid::Uuid::from_u128(8));
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!(
        "INSERT INTO admin (id, email, first_name, last_name, role, active, active_acceptance)
             VALUES ('{admin}', 'jana@ops.example', 'Jana', 'Ops', 'superadmin', true, nextval('acceptance'));
         INSERT INTO access_token (id, hash, name, role, created_by, last_used_at)
             VALUES ('{token}', sha256('old'), 'label printer', 'superadmin', 'Jana Ops', now() - interval '2 days')"
    )))
    .execute(&world.owner)
    .await
    .unwrap();
    // older than all that others with these names did
    let old = "INSERT INTO audit (id, at, actor_type, actor_id, actor_name, action, entity_type, entity_id, changes)
         SELECT uuid_v7_at(at), at, $1, $2, $3, $4, 'supplier', gen_random_uuid(), '{}'
         FROM (SELECT now() - interval '2 days' AS at) AS t";
    for (kind, id, name, action) in
        [("admin", admin, "Jana Ops", "queue.resume"), ("token", token, "label printer", "supplier.create")]
    {
        sqlx::query(old).bind(kind).bind(id).bind(name).bind(action).execute(&world.owner).await.unwrap();
    }
    records(&world, "admin", "Jana Ops", "queue.pause", 1).await;
    records(&world, "token", "label printer", "supplier.update", 12_000).await;
    let browser = Browser::new(api, &api.superadmin);
    // a person, behind any number of records of programs; a name that only one has leads to the same
    for by in [admin.to_string(), "jana".to_owned()] {
        let page = browser.open(&format!("/console/audit?by={by}")).await.expect(200).text;
        assert_eq!((named(&page, "queue.resume"), named(&page, "queue.pause")), (1, 0), "{by}: {page}");
        assert!(page.contains(&format!("href=\"/console/audit?by={admin}\"")), "{by}: {page}");
    }
    // a program that was not used lately: the search begins at its last use
    let tokens = browser.open("/console/token").await.expect(200).text;
    let (before, _) = tokens.split_once(": label printer<").unwrap();
    let link = before.rsplit("href=\"").next().unwrap().split('"').next().unwrap().replace("&amp;", "&");
    assert!(link.starts_with(&format!("/console/audit?by={token}&until=")), "{link}");
    let page = browser.open(&link).await.expect(200).text;
    assert_eq!((named(&page, "supplier.create"), named(&page, "supplier.update")), (1, 0), "{page}");
    // by its name, everything that programs did comes first; the page says where what people did is
    let page = browser.open("/console/audit?whose=all&actor=jana").await.expect(200).text;
    assert!(page.contains("href=\"/console/audit?actor=jana\">search what people did</a>"), "{page}");
    // another organisation sees neither
    let (stranger, _) = world.stranger().await;
    let theirs = stranger.token(&api.services, Role::Admin).await.unwrap();
    for id in [admin, token] {
        let page = Browser::new(api, &theirs).open(&format!("/console/audit?by={id}")).await.expect(200).text;
        assert!(page.contains("No record matches."), "{page}");
    }
    for (token, name) in [(&theirs, "jana"), (&theirs, "label"), (&api.superadmin, "petra")] {
        let page = Browser::new(api, token).open(&format!("/console/audit?by={name}")).await.expect(400).text;
        assert!(page.contains("Is the name of no account or token"), "{name}: {page}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_audit_is_filtered_by_names(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let api = &world.api;
    let mug = world.add("MUG", json!({"name": "Harbour mug"})).await;
    world.add("MUG-2", json!({"name": "Harbour mug, large"})).await;
    world.execute("UPDATE organisation SET name = 'Nordic Living'").await;
    let browser = Browser::new(api, &api.superadmin);
    let form = browser.open("/console/audit").await.expect(200).text;
    for part in ["<option value=\"Nordic Living\">", "<option value=\"user of a test\">"] {
        assert!(form.contains(part), "{part}: {form}");
    }
    let of = |query: &str| format!("/console/audit?{query}");
    for query in ["entity=MUG", "entity=mug", "by=user+of+a", "organisation=nordic&whose=all"] {
        let page = browser.open(&of(query)).await.expect(200).text;
        assert!(page.contains("product.create"), "{query}: {page}");
    }
    let page = browser.open(&of("entity=MUG")).await.expect(200).text;
    assert!(page.contains(&mug) && !page.contains("MUG-2"), "{page}");
    for (query, said) in [
        ("entity=harbour", "Names several: "),
        ("entity=nothing-like-it", "Is the name of no record"),
        ("by=of+a+test", "Names several: "),
        ("by=jana", "Is the name of no account or token"),
        ("organisation=southern", "Is the name of no organisation"),
    ] {
        let page = browser.open(&of(query)).await.expect(400).text;
        assert!(page.contains(said), "{query}: {page}");
    }
}
