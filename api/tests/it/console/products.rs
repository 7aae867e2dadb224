//! The list of products, and what is done with several of them.

use longshore_kernel::access::Role;
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use super::{Browser, MIGRATIONS, hidden, next_page, world};
use crate::product::World;

const HERE: &str = "/console/product";

/// Whether a list shows a product.
fn shows(list: &str, product: &str) -> bool {
    list.contains(&format!("<a href=\"{HERE}/{product}\">"))
}

/// The jobs: what each does, with how many products, and with which criteria.
async fn jobs(world: &World) -> Vec<(String, i32, Option<Value>)> {
    sqlx::query_as("SELECT kind, total, parameters -> 'criteria' FROM job ORDER BY id")
        .fetch_all(&world.owner)
        .await
        .unwrap()
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_product_is_found_by_sku_name_state_eshop_and_organisation(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let mug =
        world.add("MUG-1", json!({"name": "Harbour mug", "eshops": [api.tenant.eshop.to_string()]})).await;
    let lamp = world.add("LAMP-1", json!({"name": "Pier lamp 100% <b>"})).await;
    let off = world.add("MUG-2", json!({"name": "Old mug", "active": false})).await;
    let (_, foreign) = world.stranger().await;
    let all = [&mug, &lamp, &off, &foreign];
    let browser = Browser::new(api, &api.superadmin);
    let (organisation, eshop) = (api.tenant.organisation, api.tenant.eshop);
    let none = Uuid::nil();
    for (query, found) in [
        (String::new(), &all[..]),
        ("sku=MUG-1".to_owned(), &all[..1]),
        ("sku=MUG".to_owned(), &[]),
        ("name=MUG".to_owned(), &[&mug, &off]),
        ("name=0%25+%3C".to_owned(), &[&lamp]),
        ("active=false".to_owned(), &[&off]),
        ("active=true&name=mug".to_owned(), &[&mug]),
        (format!("eshop={eshop}&active=true&name=mug"), &[&mug]),
        ("eshop=other+shop".to_owned(), &[&foreign]),
        (format!("eshop={none}"), &[]),
        (format!("organisation={organisation}"), &all[..3]),
        ("organisation=Other".to_owned(), &[&foreign]),
        (format!("organisation={none}"), &[]),
    ] {
        let list = browser.open(&format!("{HERE}?{query}")).await.expect(200).text;
        for id in all {
            assert_eq!(shows(&list, id), found.contains(&id), "{query}: {list}");
        }
        assert!(list.contains("Pier lamp 100% &lt;b&gt;") == found.contains(&&lamp), "{query}: {list}");
    }
    for (query, wrong) in [
        ("eshop=nobody&name=mug", "wrong-eshop"),
        ("organisation=nobody&name=mug", "wrong-organisation"),
        ("active=x&name=mug", "wrong-active"),
        ("size=7&name=mug", "wrong-size"),
        ("after=x&name=mug", "The search cannot be read"),
    ] {
        let page = browser.open(&format!("{HERE}?{query}")).await.expect(400).text;
        assert!(page.contains(wrong) && page.contains("value=\"mug\""), "{query}: {page}");
        assert!(!shows(&page, &mug), "{query}: {page}");
    }
    // the pages around it lead there, and it is in their bar
    for (page, link) in [
        (format!("/console/eshop/{eshop}"), format!("{HERE}?eshop={eshop}")),
        (format!("/console/organisation/{organisation}"), format!("{HERE}?organisation={organisation}")),
        (format!("{HERE}/{mug}"), HERE.to_owned()),
    ] {
        let shown = browser.open(&page).await.expect(200).text;
        assert!(shown.contains(&format!("href=\"{link}\"")), "{page}: {shown}");
    }
    let page = browser.open(&format!("{HERE}/{mug}")).await.expect(200).text;
    assert!(page.contains("aria-current=\"page\">Products</a>"), "{page}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn pages_of_products_lose_and_repeat_none(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    for n in 0..60 {
        let active = n % 2 == 0;
        world.add(&format!("N{n:03}"), json!({"active": active})).await;
    }
    let browser = Browser::new(&world.api, &world.api.user);
    for (query, step, oldest) in [
        ("size=25", 1, false),
        ("size=25&sort=oldest", 1, true),
        ("size=25&active=true", 2, false),
        ("size=25&active=true&sort=oldest", 2, true),
    ] {
        let (mut address, mut seen) = (Some(format!("{HERE}?{query}")), Vec::new());
        while let Some(here) = address.take() {
            let list = browser.open(&here).await.expect(200).text;
            seen.extend(list.split("<strong>N").skip(1).map(|rest| rest[..3].to_owned()));
            // the count is that of all, on each page
            assert!(list.contains(&format!("all that match ({})", 60 / step)), "{here}: {list}");
            address = next_page(&list);
            assert!(address.as_ref().is_none_or(|address| address.contains(query)), "{address:?}");
        }
        let mut expected: Vec<_> = (0..60).step_by(step).map(|n| format!("{n:03}")).collect();
        if !oldest {
            expected.reverse();
        }
        assert_eq!(seen, expected, "{query}");
    }
    // a place belongs to its search
    let list = browser.open(&format!("{HERE}?size=25")).await.expect(200).text;
    let next = next_page(&list).unwrap();
    browser.open(&format!("{next}&active=true")).await.expect(400);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_visitor_of_one_organisation_sees_and_switches_no_product_of_another(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    let own = world.add("OWN", json!({})).await;
    let (other, foreign) = world.stranger().await;
    let browser = Browser::new(api, &api.user);
    let list = browser.open(HERE).await.expect(200).text;
    assert!(shows(&list, &own) && !shows(&list, &foreign), "{list}");
    // there is one organisation, so that it is neither asked for nor shown
    assert!(!list.contains("name=\"organisation\"") && !list.contains("Organisation</th>"), "{list}");
    for query in [
        format!("organisation={}", other.organisation),
        format!("eshop={}", other.eshop),
        "sku=theirs".into(),
    ] {
        let list = browser.open(&format!("{HERE}?{query}")).await.expect(200).text;
        assert!(!shows(&list, &foreign) && list.contains("No product matches."), "{query}: {list}");
    }
    browser.open(&format!("{HERE}?eshop=other+shop")).await.expect(400);
    let question = browser.open(&format!("{HERE}/deactivate?all=true")).await.expect(200).text;
    assert!(question.contains("Deactivate 1 product?"), "{question}");
    browser.act(&format!("{HERE}/deactivate?all=true"), &[]).await.expect(303);
    let total: Vec<i32> = sqlx::query_scalar("SELECT total FROM job").fetch_all(&world.owner).await.unwrap();
    assert_eq!(total, [1]);
    let superadmin = Browser::new(api, &api.superadmin).open(HERE).await.expect(200).text;
    assert!(shows(&superadmin, &foreign) && superadmin.contains("name=\"organisation\""), "{superadmin}");
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn who_may_not_write_products_is_offered_nothing(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let product = world.add("OWN", json!({})).await;
    let viewer = Browser::new(&world.api, &world.api.viewer);
    let list = viewer.open(HERE).await.expect(200).text;
    assert!(shows(&list, &product), "{list}");
    for offer in ["name=\"id\"", "formaction", "all=true", "data-ask"] {
        assert!(!list.contains(offer), "{offer}: {list}");
    }
    for path in [format!("{HERE}/activate?id={product}"), format!("{HERE}/deactivate?all=true")] {
        viewer.open(&path).await.expect(403);
        viewer.send_bare(path.split('?').next().unwrap(), &[("id", &product)]).await.expect(403);
    }
    assert_eq!(jobs(&world).await, []);
    // there is no list for the program of a warehouse
    let tenant: &Tenant = &world.api.tenant;
    let program = tenant.token(&world.api.services, Role::Warehouse).await.unwrap();
    let reply = Browser::new(&world.api, &program).open(HERE).await;
    assert!(reply.status == 403 && !shows(&reply.text, &product), "{}", reply.text);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn selected_products_are_switched_by_one_job(_: PgPoolOptions, options: PgConnectOptions) {
    let world = world(&options).await;
    let ids = [world.add("ONE", json!({})).await, world.add("TWO", json!({})).await];
    world.add("THREE", json!({})).await;
    let browser = Browser::new(&world.api, &world.api.user);
    let list = browser.open(HERE).await.expect(200).text;
    for offer in [
        format!("name=\"id\" value=\"{}\"", ids[0]),
        format!("formaction=\"{HERE}/activate\""),
        format!("formaction=\"{HERE}/deactivate\""),
    ] {
        assert!(list.contains(&offer), "{offer}: {list}");
    }
    // those that are inactive can be activated only
    for (state, activate, deactivate) in [("true", false, true), ("false", true, false)] {
        world.execute("UPDATE product SET active = product_sku <> 'THREE'").await;
        let list = browser.open(&format!("{HERE}?active={state}")).await.expect(200).text;
        let offered = ["Activate selected", "Deactivate selected"].map(|button| list.contains(button));
        assert_eq!(offered, [activate, deactivate], "{state}: {list}");
    }
    let chosen = format!("{HERE}/deactivate?id={}&id={}&name=Prod", ids[0], ids[1]);
    let question = browser.open(&chosen).await.expect(200).text;
    assert!(question.contains("Deactivate 2 products?") && !question.contains("filters"), "{question}");
    assert!(question.contains(&format!("href=\"{HERE}?name=Prod\"")), "the way back: {question}");
    for deed in ["deactivate", "activate"] {
        let chosen = chosen.replace("deactivate", deed);
        let reply = browser.act(&chosen, &[]).await.expect(303);
        let location = reply.header("location").unwrap();
        assert!(location.ends_with("?done=products-running"), "{location}");
        let page = browser.open(location).await.expect(200).text;
        assert!(page.contains("A job works on the products."), "{page}");
    }
    let expected = ["product.deactivate", "product.activate"].map(|kind| (kind.to_owned(), 2, None));
    assert_eq!(jobs(&world).await, expected);
    for refused in ["", "?id=x", "?all=true&active=x"] {
        browser.open(&format!("{HERE}/deactivate{refused}")).await.expect(400);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn all_products_that_match_are_switched_if_they_are_as_many_as_was_said(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let world = world(&options).await;
    let api = &world.api;
    for sku in ["ONE", "TWO", "THREE"] {
        world.add(sku, json!({"name": "Harbour mug"})).await;
    }
    world.add("LAMP", json!({"name": "Pier lamp"})).await;
    let browser = Browser::new(api, &api.user);
    let search = format!("name=mug&eshop={}", api.tenant.eshop);
    world
        .execute("INSERT INTO product_eshop SELECT p.id, s.id FROM product p, eshop s ON CONFLICT DO NOTHING")
        .await;
    let list = browser.open(&format!("{HERE}?{search}")).await.expect(200).text;
    let all = format!("{HERE}/deactivate?{search}&all=true");
    assert!(list.contains(&format!("href=\"{}\"", all.replace('&', "&amp;"))), "{list}");
    assert!(list.contains("Deactivate all that match (3)"), "{list}");
    let question = browser.open(&all).await.expect(200).text;
    assert!(question.contains("Deactivate 3 products?") && question.contains("<strong>mug</strong>"));
    assert!(question.contains("name=\"expect\" value=\"3\""), "{question}");

    // a product more than the question said
    world.execute("UPDATE product SET name = 'Another mug' WHERE product_sku = 'LAMP'").await;
    let asked = hidden(&question);
    let fields: Vec<_> = asked.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let action = format!("{HERE}/deactivate");
    let refused = browser.send_bare(&action, &fields).await.expect(409).text;
    assert!(refused.contains("which is 4.") && refused.contains("Deactivate 4 products?"), "{refused}");
    // and one that never heard how many there are
    let unasked: Vec<_> = fields.iter().copied().filter(|(name, _)| *name != "expect").collect();
    browser.send_bare(&action, &unasked).await.expect(409);
    assert_eq!(
        (jobs(&world).await, world.count("SELECT count(*) FROM product WHERE NOT active").await),
        (vec![], 0)
    );

    let reply = browser.act(&all, &[]).await.expect(303);
    assert!(reply.header("location").unwrap().ends_with("?done=products-running"));
    let criteria = json!({"name": {"like": "mug"}, "eshops": {"eq": api.tenant.eshop}});
    assert_eq!(jobs(&world).await, [("product.deactivate".to_owned(), 4, Some(criteria))]);

    // without a filter, the question says so
    let all = format!("{HERE}/activate?all=true");
    let question = browser.open(&all).await.expect(200).text;
    let said = "There are no filters: this includes all products of all e-shops.";
    assert!(question.contains("Activate 4 products?") && question.contains(said), "{question}");
    browser.act(&all, &[]).await.expect(303);
    assert_eq!(jobs(&world).await[1], ("product.activate".to_owned(), 4, Some(json!({}))));
    // nothing matches
    browser.act(&format!("{HERE}/activate?all=true&sku=NONE"), &[]).await.expect(400);
    assert_eq!(jobs(&world).await.len(), 2);
}
