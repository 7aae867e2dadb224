//! Who takes part in a run beside the service: the load, the destinations of webhooks, readers, partners, warehouses,
//! organisations that sell, and one that floods.
//!
//! [`Company::open`] creates all of them, [`Company::play`] has them do what they do, [`Company::rest`] waits until no work is left,
//! and [`Company::checks`] checks what they were promised.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Context as _;
use futures::future::try_join_all;
use http::Method;
use longshore_kernel::access::Role as AccessRole;
use longshore_testkit::services;
use longshore_testkit::world::Tenant;
use serde_json::json;
use sqlx::Connection as _;
use uuid::Uuid;

use super::caller::{Caller, Request};
use super::check::{self, Cast, Course};
use super::crew::{Crew, connect};
use super::fleet::{Impostor, Misbehaviour, Shop};
use super::load::Load;
use super::minder::{self, Minder};
use super::neighbour::Neighbour;
use super::orders::{self, Merchant};
use super::partners::{self, Partner};
use super::reading::{self, Reading};
use super::report::{Check, Played};
use super::warehouses::{self, Warehouse};
use super::{QUIET_WITHIN, subscribe};

/// All of them; see the module.
#[derive(Debug)]
pub(crate) struct Company {
    pub(crate) load: Load,
    /// The webhooks of the load and their destinations; the last one has a certificate that nobody trusts.
    pub(crate) shops: Vec<(Uuid, Shop)>,
    pub(crate) partners: Vec<Partner>,
    pub(crate) warehouses: Vec<Warehouse>,
    neighbour: Neighbour,
    merchants: Vec<Merchant>,
    readings: [Reading; 2],
    impostor: Impostor,
}

/// How it came to rest.
#[derive(Debug)]
pub(crate) struct Rest {
    /// The work that was left.
    left: Vec<String>,
    /// Seconds until there was none.
    pub(crate) after: f64,
    /// The webhook-id of the last test.
    pub(crate) last_test: Uuid,
}

impl Company {
    /// Creates all of them; where nobody misbehaves, without those destinations and feeds that are there for it.
    pub(crate) async fn open(crew: &Crew, misbehaves: bool) -> anyhow::Result<Self> {
        let services = services::for_test(&crew.database_url.as_str().parse()?)?;
        let (tenant, at) = (Tenant::create(&services, "Chaos").await?, crew.outside);
        let caller = Caller::new(crew.bases(), &tenant.token(&services, AccessRole::User).await?)?;
        let impostor = Impostor::open(at).await?;
        let mut shops = Vec::new();
        for (name, fields) in [
            ("well", json!({})),
            ("well and ordered", json!({ "ordered": true })),
            (
                "in batches, at a rate",
                json!({ "batch": { "maxEvents": 50, "maxWaitMs": 300 }, "maxPerSecond": 20 }),
            ),
            ("in batches and ordered", json!({ "batch": { "maxEvents": 50 }, "ordered": true })),
            (
                "of some changes, and a part of each",
                json!({ "criteria": { (check::OF_CHANGED): { "eq": "active" } }, "select": ["active"] }),
            ),
            (check::OF_ORGANISATION, json!({ "eshop": null, "organisation": tenant.organisation })),
        ] {
            shops.push(subscribe(&caller, &tenant, Shop::open(at, name, None).await?, &fields, None).await?);
        }
        let connector = Caller::new(crew.bases(), &tenant.eshop_token(&services).await?)?;
        let plain = json!({});
        let own = Shop::open(at, "of a connector of the e-shop", None).await?;
        shops.push(subscribe(&connector, &tenant, own, &plain, None).await?);
        for how in Misbehaviour::ALL.into_iter().filter(|_| misbehaves) {
            let shop = Shop::open(at, how.as_str(), Some(how)).await?;
            shops.push(subscribe(&caller, &tenant, shop, &plain, None).await?);
        }
        for name in minder::NAMES {
            shops.push(subscribe(&caller, &tenant, Shop::open(at, name, None).await?, &plain, None).await?);
        }
        let shop = Shop::open(at, "bad certificate", None).await?;
        shops.push(subscribe(&caller, &tenant, shop, &plain, Some(impostor.url())).await?);
        let readings =
            [Reading::open(&caller, &tenant, "one").await?, Reading::open(&caller, &tenant, "other").await?];
        // which is true: the fake BaseLinker has just started to count
        services::nothing_was_sent_before(&check::queues(crew)?).await?;
        let mut psql = connect(crew).await?;
        let carrier = orders::carrier(&mut psql).await?;
        let partners = partners::open_all(&services, &caller, carrier, at, misbehaves).await?;
        try_join_all(partners.iter().map(Partner::begin)).await?;
        let neighbour = Neighbour::open(&services, &caller, &mut psql, at).await?;
        let merchants = orders::open_all(&services, &caller, carrier, &mut psql, at).await?;
        let warehouses = warehouses::open_all(&services, &caller, carrier, at).await?;
        orders::attach(&mut psql, carrier).await?;
        psql.close().await?;
        let load = Load::prepare(caller, tenant).await?;
        Ok(Self { load, shops, partners, warehouses, neighbour, merchants, readings, impostor })
    }

    /// Who operates its webhooks.
    pub(crate) fn minder<'r>(&'r self, crew: &'r Crew) -> anyhow::Result<Minder<'r>> {
        Minder::new(crew, &self.load.caller, &self.shops)
    }

    /// Has all of them do what they do until then.
    pub(crate) async fn play(&self, minder: &Minder<'_>, seed: u64, until: Instant) -> anyhow::Result<()> {
        let readings = self.readings.iter().zip(1..);
        tokio::try_join!(
            self.load.offer(seed, until),
            minder.mind(seed, until),
            try_join_all(readings.map(|(one, n)| one.read(&self.load.caller, seed + n, until))),
            self.neighbour.flood(seed, until),
            orders::sell(&self.merchants, seed, until),
            warehouses::trade(&self.warehouses, seed, 0, until),
            try_join_all(self.partners.iter().map(|partner| partner.work(seed, until))),
        )
        .map(drop)
    }

    /// After the faults: waits until no work is left, has each do what it does last, and waits again.
    pub(crate) async fn rest(&self, crew: &Crew, minder: &Minder<'_>) -> anyhow::Result<Rest> {
        let ended = Instant::now();
        // the owner of the shop with the bad certificate corrects its address
        let (webhook, shop) = self.shops.last().context("there is no shop")?;
        let correct = json!({ "destination": shop.url() }).to_string();
        let correct = Request::new(Method::PUT, format!("/api/eshop-webhook/{webhook}"), correct);
        self.load.caller.ask(&correct, &[200]).await?;
        try_join_all(self.partners.iter().map(Partner::be_well)).await?;
        self.neighbour.be_well();
        self.warehouses.iter().for_each(Warehouse::be_well);
        let mut left = Vec::from_iter(check::be_quiet(crew, QUIET_WITHIN).await?);
        let after = ended.elapsed().as_secs_f64();
        let last_test = minder.conclude().await?;
        partners::conclude(&self.partners).await?;
        orders::conclude(&self.merchants).await?;
        warehouses::conclude(&self.warehouses).await?;
        check::run_nightly_comparison(crew).await?;
        left.extend(check::be_quiet(crew, QUIET_WITHIN).await?);
        Ok(Rest { left, after, last_test })
    }

    /// What all of them were promised.
    pub(crate) async fn checks(
        &self,
        crew: &Crew,
        minder: &Minder<'_>,
        course: &Course<'_>,
        rest: Rest,
    ) -> anyhow::Result<Vec<Check>> {
        // the stock counts of partners' e-shops are jobs like the others
        for partner in &self.partners {
            self.load.promises().jobs.append(&mut partner.promises().counts);
        }
        let cast = Cast {
            load: &self.load,
            shops: &self.shops,
            partners: &self.partners,
            minder,
            neighbour: &self.neighbour,
            merchants: &self.merchants,
            warehouses: &self.warehouses,
        };
        try_join_all(self.readings.iter().map(|one| one.conclude(&self.load.caller))).await?;
        let mut checks = vec![Check::new("all comes to rest", 1, rest.left)];
        checks.extend(check::all(crew, cast, course).await?);
        checks.extend(reading::check(&mut connect(crew).await?, &self.readings).await?);
        let believed = self.impostor.believed();
        let found = (believed > 0).then(|| format!("{believed} times")).into_iter().collect();
        checks.push(Check::new("no client trusted a certificate without a known issuer", 1, found));
        Ok(checks)
    }

    /// When a shop without faults accepted deliveries.
    pub(crate) fn moments(&self) -> Vec<Instant> {
        self.shops[0].1.book().moments.iter().map(|(_, moment)| *moment).collect()
    }

    /// What was played, for the report.
    pub(crate) async fn played(&self, crew: &Crew, minder: &Minder<'_>) -> anyhow::Result<Played> {
        let mut psql = connect(crew).await?;
        let changes: i64 = sqlx::query_scalar("SELECT count(*) FROM event").fetch_one(&mut psql).await?;
        let duplicates = self.shops.iter().map(|(_, shop)| (shop.name.clone(), shop.book().duplicates()));
        Ok(Played {
            answers: self.load.caller.tally().answers.clone(),
            neighbour: self.neighbour.caller.tally().answers.clone(),
            partners: partners::synced(&self.partners)
                .flat_map(|partner| partner.serves.book().figures)
                .collect(),
            promised: self.promised(minder),
            changes: changes.unsigned_abs(),
            webhooks: (self.shops.len() + self.neighbour.shops.len()) as u64,
            duplicates: duplicates.collect(),
        })
    }

    fn promised(&self, minder: &Minder<'_>) -> BTreeMap<&'static str, u64> {
        let (promises, deeds) = (self.load.promises(), minder.deeds());
        let books: Vec<_> = self.merchants.iter().map(Merchant::book).collect();
        let sum = |of: fn(&orders::Book) -> u64| books.iter().map(|book| of(book)).sum::<u64>();
        let of_warehouses =
            |of: fn(&warehouses::Book) -> u64| self.warehouses.iter().map(|one| of(&one.book())).sum::<u64>();
        BTreeMap::from([
            ("names", promises.names.len() as u64),
            ("products", promises.created.len() as u64),
            ("jobs", promises.jobs.len() as u64),
            ("repeats", promises.repeated),
            ("keys with another body", promises.contradicted),
            ("syncs broken off", promises.broken_off),
            ("rotations", deeds.rotations),
            ("pauses", deeds.pauses.len() as u64),
            ("tests", deeds.tests.len() as u64),
            ("redeliveries", (deeds.redeliveries.len() + deeds.redelivery_jobs.len()) as u64),
            ("recoveries", deeds.recoveries.len() as u64),
            ("orders", sum(|book| (book.orders.len() + book.deleted.len()) as u64)),
            ("operations on orders", sum(|book| book.done)),
            ("refusals because of a status", sum(|book| book.refused)),
            ("jobs of orders and their stocks", sum(|book| book.jobs.len() as u64)),
            ("orders of warehouses", of_warehouses(|book| book.orders.len() as u64)),
            ("operations on orders of warehouses", of_warehouses(|book| book.done)),
            ("reports of warehouses", of_warehouses(|book| book.reports.len() as u64)),
            ("jobs of the neighbour", self.neighbour.jobs().len() as u64),
            (
                "syncs and send-outs of partners",
                self.partners.iter().map(|one| one.promises().syncs.len() as u64).sum(),
            ),
        ])
    }
}
