//! The organisation of a job that concerns products of several organisations, of one, or of none
//! (`docs/reference/jobs.md#job`).

use http::Method;
use longshore_domain::job::inspection::Wanted;
use longshore_domain::job::search::{self, Filter};
use longshore_domain::job::{attention, failures, inspection};
use longshore_kernel::access::{Role, Scope};
use longshore_kernel::ids::{JobId, OrganisationId};
use longshore_testkit::world::Tenant;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use uuid::Uuid;

use crate::account::{MIGRATIONS, PASSWORD, World};
use crate::product::{PATH as PRODUCT, body};
use crate::support::Reply;
use crate::support::strangers;

/// Three tenants with a product each, and callers with access to some of them.
struct Three {
    world: World,
    third: Tenant,
    products: [Uuid; 3],
    /// An admin of the first two.
    both: String,
    /// An admin of all three.
    all: String,
}

impl Three {
    async fn new(options: &PgConnectOptions) -> Self {
        let world = World::new(options).await;
        let third = Tenant::create(&world.api.services, "Third").await.unwrap();
        let mut products = [Uuid::nil(); 3];
        for (product, tenant) in products.iter_mut().zip([&world.api.tenant, &world.other, &third]) {
            let made = world.api.post(&world.api.superadmin, PRODUCT, body(tenant, "P")).await.expect(201);
            *product = made.json()["id"].as_str().unwrap().parse().unwrap();
        }
        let [a, b, c] = [world.api.tenant.organisation, world.other.organisation, third.organisation];
        world.add_admin("both", json!({"password": PASSWORD, "organisations": [a, b]})).await;
        world.add_admin("all", json!({"password": PASSWORD, "organisations": [c, b, a]})).await;
        let (both, all) = (world.login("both").await, world.login("all").await);
        Self { world, third, products, both, all }
    }

    /// A user of each organisation.
    async fn users(&self) -> [String; 3] {
        let services = &self.world.api.services;
        let theirs = self.world.other.token(services, Role::User).await.unwrap();
        let thirds = self.third.token(services, Role::User).await.unwrap();
        [self.world.api.user.clone(), theirs, thirds]
    }

    /// Accepts a bulk switch; returns the job.
    async fn accept(&self, token: &str, ids: &[Uuid]) -> Value {
        let prefer = [("prefer", "respond-async")];
        let path = format!("{PRODUCT}/deactivate");
        self.world.api.call_with(token, Method::PUT, &path, json!(ids), &prefer).await.expect(202).json()
    }

    async fn get(&self, token: &str, job: &Value) -> Reply {
        self.world.api.get(token, &format!("/api/job/{}", job["id"].as_str().unwrap())).await
    }

    /// The number of jobs in a list, with a page and by counting.
    async fn listed(&self, token: &str) -> [Value; 2] {
        let total = async |body| {
            let page = self.world.api.post(token, "/api/job/list", body).await.expect(200).json();
            page["paging"]["total"].clone()
        };
        [total(Value::Null).await, total(json!({"limit": 0})).await]
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_job_of_several_organisations_is_visible_to_callers_with_access_to_all_of_them(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let three = Three::new(&options).await;
    let api = &three.world.api;
    let [a, b, _] = three.products;
    let job = three.accept(&three.both, &[a, b]).await;
    assert_eq!(job["organisation"], Value::Null);
    let id = job["id"].as_str().unwrap();
    let bound = api.tenant.eshop_token(&api.services).await.unwrap();
    for token in three.users().await.iter().chain([&three.world.admin, &api.connector, &bound]) {
        for (method, path) in [
            (Method::GET, format!("/api/job/{id}")),
            (Method::GET, format!("/api/job/{id}/events")),
            (Method::POST, format!("/api/job/{id}/error/list")),
            (Method::PUT, format!("/api/job/cancel/{id}")),
            (Method::PUT, format!("/api/job/retry/{id}")),
        ] {
            let reply = api.call_with(token, method.clone(), &path, Value::Null, &[]).await;
            assert_eq!(reply.status.as_u16(), 404, "{method} {path}: {}", reply.text);
        }
        assert_eq!(three.listed(token).await, [0, 0]);
    }
    for token in [&three.both, &three.all, &api.superadmin, &api.viewer] {
        assert_eq!(three.get(token, &job).await.expect(200).json(), job);
        assert_eq!(three.listed(token).await, [1, 1]);
        api.post(token, &format!("/api/job/{id}/error/list"), Value::Null).await.expect(200);
    }
    let path = format!("/api/job/cancel/{id}");
    let cancelled = api.put(&three.both, &path, Value::Null).await.expect(200).json();
    assert_eq!(cancelled["state"], "cancelled");
    // nor can users of one organisation see its audit
    let records = "SELECT count(*) FROM audit WHERE action = 'job.cancel' AND organisation_id IS NULL";
    assert_eq!(three.world.count(records).await, 1);
}

#[tokio::test]
async fn a_job_about_one_organisation_always_belongs_to_it() {
    let three = Three::new(&strangers().await).await;
    let [_, b, c] = three.products;
    let users = three.users().await;
    let their = three.world.other.organisation;
    for (count, (starter, ids)) in (1..).zip([
        (&three.world.api.superadmin, vec![b]),
        (&three.both, vec![b]),
        // unknown ids, and those that the caller may not see, belong to no organisation
        (&three.both, vec![Uuid::max(), c, b]),
        (&three.all, vec![b, Uuid::max(), b]),
    ]) {
        let job = three.accept(starter, &ids).await;
        assert_eq!(job["organisation"], json!(their));
        let [ours, theirs, thirds] = &users;
        assert_eq!(three.get(theirs, &job).await.expect(200).json(), job);
        three.get(ours, &job).await.expect(404);
        three.get(thirds, &job).await.expect(404);
        assert_eq!(three.listed(theirs).await, [count, count]);
        assert_eq!(three.listed(thirds).await, [0, 0]);
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_job_without_existing_records_belongs_to_its_caller(_: PgPoolOptions, options: PgConnectOptions) {
    let three = Three::new(&options).await;
    let api = &three.world.api;
    let [_, _, c] = three.products;
    let [user, ..] = three.users().await;
    let own = three.accept(&user, &[c, Uuid::max()]).await;
    assert_eq!(own["organisation"], json!(api.tenant.organisation));
    for (starter, seen_by, hidden_from) in [
        (&three.both, vec![&three.both, &three.all, &api.viewer], vec![&user, &three.world.admin]),
        (&api.superadmin, vec![&api.viewer], vec![&user, &three.both, &three.all]),
    ] {
        let job = three.accept(starter, &[Uuid::max()]).await;
        assert_eq!(job["organisation"], Value::Null);
        for token in seen_by {
            three.get(token, &job).await.expect(200);
        }
        for token in hidden_from {
            three.get(token, &job).await.expect(404);
        }
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_console_shows_a_job_of_several_organisations_to_callers_with_access_to_all_of_them(
    _: PgPoolOptions,
    options: PgConnectOptions,
) {
    let three = Three::new(&options).await;
    let [a, b, _] = three.products;
    let job = three.accept(&three.both, &[a, b, Uuid::max()]).await;
    let id: JobId = job["id"].as_str().unwrap().parse().unwrap();
    let alter = |sql| sqlx::raw_sql(sql).execute(&three.world.owner);
    alter(
        "INSERT INTO job_item_error (job_id, index, key, code, message, payload)
         SELECT id, 2, 'x', 'not_found', 'there is no such product', '' FROM job",
    )
    .await
    .unwrap();
    let db = &three.world.api.services.db;
    let [ours, theirs, thirds] =
        [three.world.api.tenant.organisation, three.world.other.organisation, three.third.organisation];
    let of = |organisations: &[OrganisationId]| Scope::Organisations(organisations.into());
    for (scope, sees) in [
        (of(&[ours]), false),
        (of(&[theirs]), false),
        (of(&[thirds]), false),
        (of(&[theirs, thirds]), false),
        (of(&[]), false),
        (of(&[theirs, ours]), true),
        (of(&[thirds, theirs, ours]), true),
        (Scope::Everything, true),
    ] {
        let counted = i64::from(sees);
        alter("UPDATE job SET state = 'succeeded', done = 3, changed = 2, failed = 1, chunks_open = 0, finished_at = now()")
            .await
            .unwrap();
        assert_eq!(
            inspection::inspect(db, &scope, id, &Wanted::default()).await.unwrap().is_some(),
            sees,
            "{scope:?}"
        );
        assert_eq!(inspection::kinds(db, &scope, &[id]).await.unwrap().len(), usize::from(sees), "{scope:?}");
        let found = search::search(db, &scope, &Filter::default()).await.unwrap().jobs;
        assert_eq!(found.len(), usize::from(sees), "{scope:?}");
        let reasons = failures::reasons(db, &scope).await.unwrap();
        assert_eq!(reasons.iter().map(|reason| reason.items).sum::<i64>(), counted, "{scope:?}");
        alter("UPDATE job SET state = 'failed'").await.unwrap();
        let groups = failures::groups(db, &scope, None).await.unwrap();
        let found: Vec<_> = groups.iter().map(|group| (group.jobs, group.organisations)).collect();
        assert_eq!(found, vec![(1, 2); usize::from(sees)], "{scope:?}");
        assert_eq!(attention::read(db, &scope).await.unwrap().failed, counted, "{scope:?}");
        alter("UPDATE job SET state = 'retrying', chunks_open = 1, finished_at = NULL").await.unwrap();
        assert_eq!(attention::read(db, &scope).await.unwrap().retrying, counted, "{scope:?}");
    }
}
