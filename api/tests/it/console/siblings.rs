//! What a connector that is bound to an e-shop sees: nothing of the other e-shops of its organisation, on any page.

use std::collections::{BTreeSet, HashMap};

use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use url::form_urlencoded;
use uuid::Uuid;

use super::{Browser, MIGRATIONS, job};
use crate::expedition::{World, path};
use crate::product::id;

/// In every name of the other e-shop, in lower case.
const SIGN: &str = "sibling";
/// Addresses of a page, by its query, that are followed.
const QUERIES: usize = 6;

/// The console's pages that have links and end: those that are open for long follow one of them.
fn pages() -> Vec<String> {
    let table: String = include_str!("../../../console/src/lib.rs").split_whitespace().collect();
    table
        .split(".route(\"")
        .skip(1)
        .filter(|route| route.contains("get("))
        .filter_map(|route| route.split('"').next())
        .filter(|page| !page.ends_with("/live") && !page.starts_with("/console/asset") && !page.contains('*'))
        .map(str::to_owned)
        .collect()
}

fn links(page: &str) -> impl Iterator<Item = String> {
    let all = page.split("href=\"").skip(1).filter_map(|rest| rest.split(['"', '#']).next());
    all.filter(|link| link.starts_with("/console") && !link.starts_with("/console/asset"))
        .map(|link| link.replace("&amp;", "&"))
}

/// An organisation with two e-shops, which have a product in common.
struct House {
    world: World,
    /// Ids of what the bound connector may see.
    own: Vec<String>,
    /// Ids of what belongs to the other e-shop.
    theirs: Vec<String>,
    sibling: Uuid,
}

impl House {
    async fn new(options: &PgConnectOptions) -> Self {
        let world = World::new(options).await;
        let sibling = world.eshop().await;
        world.execute("UPDATE eshop SET name = 'Sibling shop' WHERE name = 'Second shop'").await;
        let (api, tenant) = (&world.api, &world.api.tenant);
        let both = json!({"eshops": [tenant.eshop, sibling]});
        for product in [&world.mug, &world.lamp] {
            world.put(product, both.clone()).await.expect(200);
        }
        let made = async |path: &str, body: Value| {
            id(&api.post(&api.superadmin, path, body).await.expect(201).json())
        };
        let mut theirs = vec![sibling.to_string()];
        let hook =
            json!({"eshop": sibling, "event": "product_change", "destination": "https://sibling.example/in"});
        theirs.push(made("/api/eshop-webhook", hook).await);
        let kettle = json!({"eshops": [sibling], "name": "Sibling kettle", "internalSku": "SIBLING-I"});
        theirs.push(world.add("SIBLING-SKU", kettle).await);
        let token = json!({"name": "Sibling connector", "role": "connector", "organisation": tenant.organisation, "eshop": sibling});
        theirs.push(made("/api/access-token", token).await);

        // a program of the other e-shop packs its order of the common product
        let program =
            json!({"name": "Sibling program", "role": "admin", "organisation": tenant.organisation});
        let program = api.post(&api.superadmin, "/api/access-token", program).await.expect(201).json();
        let packed = world.sent("SIBLING-1", &json!({"eshop": sibling})).await;
        let delivered = json!({"status": "delivered"});
        api.put(program["token"].as_str().unwrap(), &path(&packed, "status"), delivered).await.expect(200);
        theirs.push(id(&packed));
        let lamps = json!([{"product": world.lamp, "quantity": 1}]);
        for (number, members) in [
            ("SIBLING-2", json!({"eshop": sibling, "carrier": null})),
            ("SIBLING-3", json!({"eshop": sibling, "items": lamps})),
        ] {
            theirs.push(id(&world.sent(number, &members).await));
        }
        // none of these orders is to be given a carrier
        let preference = json!({"organisation": tenant.organisation, "eshop": sibling, "carrier": world.carrier, "position": 0});
        theirs.push(made("/api/carrier-preference", preference).await);
        let other = Tenant { eshop: sibling.into(), ..tenant.clone() };
        theirs.push(job(&world, &other, "failed", Some("Sibling job broke")).await.to_string());
        theirs.push(job(&world, &other, "succeeded", None).await.to_string());
        theirs.push(job(&world, &other, "queued", None).await.to_string());

        let mut own = vec![
            tenant.organisation.to_string(),
            tenant.eshop.to_string(),
            tenant.wms.to_string(),
            world.mug.clone(),
            world.lamp.clone(),
        ];
        for (number, status) in [("1", "delivered"), ("2", "incorrect"), ("3", "waiting_for_goods")] {
            own.push(id(&world.at(status, number).await));
        }
        own.push(job(&world, tenant, "failed", Some("own job broke")).await.to_string());
        own.push(job(&world, tenant, "queued", None).await.to_string());
        for (eshop, name) in [(tenant.eshop.get(), "own"), (sibling, "sibling")] {
            let setting = json!({
                "integrationType": "feed", "active": true, "baseUrl": format!("https://{name}.example/"), "credentials": {"type": "none"},
            });
            let path = format!("/api/partner-integration/eshop-setting/{eshop}");
            api.post(&api.user, &path, setting).await.expect(200);
            sqlx::query(
                "UPDATE integration_setting SET error = $2 || ' feed is closed', error_at = now(), error_kind = 'product.sync',
                        error_job = (SELECT id FROM job WHERE eshop_id = $1 AND state = 'failed' LIMIT 1)
                 WHERE eshop_id = $1",
            )
                .bind(eshop)
                .bind(name)
                .execute(&world.owner)
                .await
                .unwrap();
        }
        Self { world, own, theirs, sibling }
    }

    /// Nothing of the other e-shop is on a page.
    fn must_be_own(&self, address: &str, page: &str) {
        let page = page.to_lowercase();
        for sign in self.theirs.iter().map(String::as_str).chain([SIGN]) {
            assert!(!page.contains(sign), "{address} shows {sign}: {page}");
        }
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_bound_connector_sees_nothing_of_another_eshop_on_any_page(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let house = House::new(&options).await;
    let api = &house.world.api;
    let bound = Browser::new(api, &api.tenant.eshop_token(&api.services).await.unwrap());
    let mut open: Vec<String> = pages()
        .iter()
        .flat_map(|page| -> Vec<String> {
            match page.strip_suffix("{id}") {
                Some(start) => house.own.iter().map(|id| format!("{start}{id}")).collect(),
                None if page.contains('{') => Vec::new(),
                None => vec![page.clone()],
            }
        })
        .collect();
    let (mut seen, mut read) = (BTreeSet::new(), BTreeSet::new());
    let mut queries: HashMap<String, usize> = HashMap::new();
    while let Some(address) = open.pop() {
        let page = address.split('?').next().unwrap_or_default().to_owned();
        let followed = queries.entry(page.clone()).or_default();
        if *followed == QUERIES || !seen.insert(address.clone()) {
            continue;
        }
        *followed += 1;
        let reply = bound.open(&address).await;
        assert!(reply.status.as_u16() < 500, "{address}: {}", reply.text);
        house.must_be_own(&address, &reply.text);
        house.must_be_own(&address, reply.header("location").unwrap_or_default());
        if reply.status == 200 {
            read.insert(page);
            open.extend(links(&reply.text).filter(|link| !link.ends_with("/live")));
        }
    }
    // the walk has come to what both e-shops have in common, which shows the other one to those who may see it
    let superadmin = Browser::new(api, &api.superadmin);
    let organisation = format!("/console/organisation/{}", api.tenant.organisation);
    let product = format!("/console/product/{}", house.world.mug);
    for (page, signs) in [
        (organisation, ["sibling shop", "sibling job broke", "sibling feed is closed"]),
        (product, ["sibling shop", "sibling-1", "sibling program"]),
    ] {
        assert!(read.contains(&page), "{page}: {read:?}");
        let shown = superadmin.open(&page).await.expect(200).text.to_lowercase();
        for sign in signs {
            assert!(shown.contains(sign), "{page} does not show {sign}: {shown}");
        }
    }
    for page in [
        "/console/order",
        "/console/product",
        "/console/job",
        "/console/failure",
        "/console/sync",
        "/console/preference",
    ] {
        assert!(read.contains(page), "{page}: {read:?}");
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn what_is_of_another_eshop_is_not_found_by_a_bound_connector(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let house = House::new(&options).await;
    let api = &house.world.api;
    let bound = Browser::new(api, &api.tenant.eshop_token(&api.services).await.unwrap());
    for page in pages().iter().filter(|page| page.contains("{id}")) {
        for theirs in &house.theirs {
            let address = page.replace("{id}", theirs);
            let reply = bound.open(&address).await;
            assert!(!reply.text.to_lowercase().contains(SIGN), "{address}: {}", reply.text);
            if page.ends_with("{id}") {
                assert!(matches!(reply.status.as_u16(), 403 | 404), "{address}: {}", reply.text);
            }
        }
    }
    let key = "SELECT md5('product.sync Sibling job broke')";
    let key: String = sqlx::query_scalar(key).fetch_one(&house.world.owner).await.unwrap();
    bound.open(&format!("/console/failure/{key}/retry")).await.expect(404);
    for page in ["order", "product", "job", "failure", "sync", "schedule", "preference"] {
        let address = format!("/console/{page}?eshop={}", house.sibling);
        let reply = bound.open(&address).await;
        assert!(!reply.text.to_lowercase().contains(SIGN), "{address}: {}", reply.text);
    }
    // the page of the search repeats what was searched for
    let texts = ["Sibling shop", "SIBLING-1", "SIBLING-SKU", "Sibling kettle"].map(str::to_owned);
    for text in texts.iter().chain(&house.theirs) {
        let query = form_urlencoded::Serializer::new(String::new()).append_pair("q", text).finish();
        let found = bound.open(&format!("/console/find?{query}")).await.expect(200).text;
        let others = house.theirs.iter().filter(|id| *id != text).map(String::as_str);
        for sign in others.chain((!text.to_lowercase().contains(SIGN)).then_some(SIGN)) {
            assert!(!found.to_lowercase().contains(sign), "{text}: {sign}: {found}");
        }
    }
}
