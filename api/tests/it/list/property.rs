//! The answers of the list engine equal those of a naive filter in memory, for random products and queries.

use chrono::{DateTime, Duration, Utc};
use longshore_domain::list::criteria::containing;
use longshore_domain::list::document::{self, Member};
use longshore_domain::list::fields::product::PRODUCT;
use longshore_domain::list::resource::field;
use longshore_kernel::input::Reader;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::fixture::{Good, at, eshop};
use crate::support::Api;
use crate::support::strangers;

const PRODUCTS: usize = 80;
const CASES: u32 = 400;

/// The values of products: few, so that queries match.
#[derive(Clone, Debug)]
pub(super) struct World {
    organisation: (Uuid, String),
    pub(super) eshops: Vec<(Uuid, String)>,
    goods: Vec<Good>,
}

/// A value of a field in the model.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
enum V {
    Id(Uuid),
    Text(String),
    Integer(i64),
    Timestamp(DateTime<Utc>),
    Boolean(bool),
}

const FIELDS: [&str; 12] = [
    "id",
    "name",
    "description",
    "productGroup",
    "weight",
    "active",
    "createdAt",
    "eshops",
    "referenceNumbers",
    "organisation.name",
    "eshops.name",
    "childrenProducts.quantity",
];

impl World {
    /// Products of a tenant, random but for the bundles among them.
    pub(super) async fn store(api: &Api, runner: &mut TestRunner) -> Self {
        let organisation = api.tenant.organisation;
        let mut eshops = vec![(api.tenant.eshop.get(), "Gifts shop".to_owned())];
        for name in ["aä%", "B_\\"] {
            eshops.push((eshop(api, organisation.get(), name).await, name.to_owned()));
        }
        let mut world =
            World { organisation: (organisation.get(), "Gifts".to_owned()), eshops, goods: Vec::new() };
        let ids: Vec<_> = world.eshops.iter().map(|(id, _)| *id).collect();
        for number in 0..PRODUCTS {
            let mut good = good(organisation.get(), ids.clone(), number).new_tree(runner).unwrap().current();
            if number % 10 == 9 {
                good.kind = "bundle";
                good.children = world.goods[number - 3..].iter().zip(1..).map(|(g, n)| (g.id, n)).collect();
            }
            good.store(&api.services.db.main).await;
            world.goods.push(good);
        }
        world
    }

    /// The values at a path: of one record, or of each related one.
    fn at(&self, good: &Good, path: &str) -> Vec<Option<V>> {
        let text = |t: &String| Some(V::Text(t.clone()));
        match path {
            "id" => vec![Some(V::Id(good.id))],
            "name" => vec![text(&good.name)],
            "description" => vec![good.description.as_ref().and_then(text)],
            "productGroup" => vec![good.group.map(V::Id)],
            "weight" => vec![good.weight.map(|w| V::Integer(w.into()))],
            "active" => vec![Some(V::Boolean(good.active))],
            "createdAt" => vec![Some(V::Timestamp(good.created_at))],
            "eshops" => good.eshops.iter().map(|e| Some(V::Id(*e))).collect(),
            "referenceNumbers" => good.references.iter().map(text).collect(),
            "organisation.name" => vec![text(&self.organisation.1)],
            "eshops.name" => {
                self.eshops.iter().filter(|(id, _)| good.eshops.contains(id)).map(|(_, n)| text(n)).collect()
            }
            "childrenProducts.quantity" => {
                good.children.iter().map(|(_, n)| Some(V::Integer((*n).into()))).collect()
            }
            _ => panic!("{path}"),
        }
    }

    fn matches(&self, good: &Good, question: &Question) -> bool {
        question.criteria.iter().all(|(path, asked)| {
            self.at(good, path)
                .iter()
                .any(|value| asked.iter().all(|(operator, operand)| holds(value.as_ref(), operator, operand)))
        })
    }
}

fn holds(value: Option<&V>, operator: &str, operand: &Operand) -> bool {
    match (operator, operand) {
        ("null", Operand::One(V::Boolean(wanted))) => value.is_none() == *wanted,
        (_, Operand::Several(several)) => value.is_some_and(|v| several.contains(v) == (operator == "in")),
        (_, Operand::One(one)) => value.is_some_and(|v| match (operator, v, one) {
            ("eq" | "flag", ..) => v == one,
            ("neq", ..) => v != one,
            ("gt", ..) => v > one,
            ("gte", ..) => v >= one,
            ("lt", ..) => v < one,
            ("lte", ..) => v <= one,
            ("like", V::Text(v), V::Text(part)) => contains(v, part),
            ("notLike", V::Text(v), V::Text(part)) => !contains(v, part),
            _ => panic!("{operator}"),
        }),
    }
}

#[derive(Clone, Debug)]
enum Operand {
    One(V),
    Several(Vec<V>),
}

/// The body of a list request in the model.
#[derive(Clone, Debug)]
pub(super) struct Question {
    criteria: Vec<(&'static str, Vec<(&'static str, Operand)>)>,
    sort: Vec<(&'static str, bool)>,
    limit: Option<usize>,
    offset: usize,
}

impl V {
    fn json(&self) -> Value {
        match self {
            Self::Id(v) => json!(v),
            Self::Text(v) => json!(v),
            Self::Integer(v) => json!(v),
            Self::Timestamp(v) => json!(v.to_rfc3339()),
            Self::Boolean(v) => json!(v),
        }
    }
}

impl Question {
    pub(super) fn body(&self) -> Value {
        let mut criteria = Map::new();
        for (path, asked) in &self.criteria {
            let of = |operand: &Operand| match operand {
                Operand::One(one) => one.json(),
                Operand::Several(several) => several.iter().map(V::json).collect(),
            };
            let asked: Map<_, _> = asked.iter().map(|(o, v)| ((*o).to_owned(), of(v))).collect();
            criteria.insert((*path).to_owned(), asked.into());
        }
        let way = |down: bool| if down { "DESC" } else { "ASC" };
        let sort: Vec<_> =
            self.sort.iter().map(|(f, down)| json!({"field": f, "order": way(*down)})).collect();
        let mut body = json!({"criteria": criteria, "sort": sort, "offset": self.offset, "select": ["id"]});
        if let Some(limit) = self.limit {
            body["limit"] = json!(limit);
        }
        body
    }

    /// The expected ids, and the number of matches.
    fn expected(&self, world: &World) -> (Vec<Uuid>, usize) {
        let mut found: Vec<&Good> = world.goods.iter().filter(|g| world.matches(g, self)).collect();
        let keys = if self.sort.is_empty() { vec![("createdAt", false)] } else { self.sort.clone() };
        let last = keys.last().is_some_and(|(_, down)| *down);
        let way = |order: std::cmp::Ordering, down: bool| if down { order.reverse() } else { order };
        found.sort_by(|a, b| {
            let mut order = std::cmp::Ordering::Equal;
            for (field, down) in &keys {
                let (a, b) = (world.at(a, field).remove(0), world.at(b, field).remove(0));
                // null comes after every value, in both orders
                let null = a.is_none().cmp(&b.is_none());
                order = order.then(null).then(way(a.partial_cmp(&b).unwrap(), *down));
            }
            order.then(way(a.id.cmp(&b.id), last))
        });
        let total = found.len();
        let page = found.into_iter().skip(self.offset).take(self.limit.unwrap_or(usize::MAX));
        (page.map(|g| g.id).collect(), total)
    }
}

/// Short texts with special characters.
fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop::sample::select(vec!["a", "B", "ä", "Ä", "%", "_", "\\", "'", "\"", " ", "$1", "{t}"]),
        0..4,
    )
    .prop_map(|parts| parts.concat())
}

fn moment() -> impl Strategy<Value = DateTime<Utc>> {
    (0i64..5).prop_map(|n| at("2026-05-01T12:00:00Z") + Duration::microseconds(n))
}

pub(super) fn good(organisation: Uuid, eshops: Vec<Uuid>, number: usize) -> impl Strategy<Value = Good> {
    let ids = prop::option::of((1u128..5).prop_map(Uuid::from_u128));
    let rest = (
        text(),
        prop::option::of(text()),
        ids,
        prop::option::of(0..5),
        any::<bool>(),
        prop::collection::vec(text(), 0..3),
        prop::sample::subsequence(eshops, 0..=3),
        moment(),
    );
    rest.prop_map(move |(name, description, group, weight, active, references, eshops, created_at)| Good {
        name: format!("n-{name}"),
        description: description.map(|d| format!("d-{d}")),
        group,
        weight,
        active,
        references,
        eshops,
        created_at,
        ..Good::new(organisation, &format!("sku-{number}"))
    })
}

fn operand(path: &'static str, operator: &'static str, world: &World) -> BoxedStrategy<Operand> {
    let value: BoxedStrategy<V> = match path {
        "id" => prop::sample::select(world.goods.iter().map(|g| V::Id(g.id)).collect::<Vec<_>>()).boxed(),
        "productGroup" => (1u128..6).prop_map(|n| V::Id(Uuid::from_u128(n))).boxed(),
        "eshops" => {
            prop::sample::select(world.eshops.iter().map(|(id, _)| V::Id(*id)).collect::<Vec<_>>()).boxed()
        }
        "weight" | "childrenProducts.quantity" => (-1i64..6).prop_map(V::Integer).boxed(),
        "active" => any::<bool>().prop_map(V::Boolean).boxed(),
        "createdAt" => moment().prop_map(V::Timestamp).boxed(),
        _ => {
            let mut known: Vec<V> = world.goods.iter().flat_map(|g| world.at(g, path)).flatten().collect();
            known.push(V::Text("nowhere".to_owned()));
            prop_oneof![text().prop_map(V::Text), prop::sample::select(known)].boxed()
        }
    };
    match operator {
        "null" => any::<bool>().prop_map(|b| Operand::One(V::Boolean(b))).boxed(),
        "in" | "nin" => prop::collection::vec(value, 0..5).prop_map(Operand::Several).boxed(),
        _ => value.prop_map(Operand::One).boxed(),
    }
}

fn operators(path: &str) -> Vec<&'static str> {
    match path {
        "id" | "productGroup" => vec!["eq", "neq", "in", "nin", "null"],
        "weight" | "createdAt" | "childrenProducts.quantity" => {
            vec!["eq", "neq", "in", "nin", "gt", "gte", "lt", "lte", "null"]
        }
        "active" => vec!["eq", "neq", "flag", "null"],
        "eshops" | "referenceNumbers" => vec!["eq", "in"],
        _ => vec!["eq", "neq", "in", "nin", "like", "notLike", "null"],
    }
}

pub(super) fn question(world: &World) -> impl Strategy<Value = Question> + use<> {
    let world = world.clone();
    let criteria = prop::sample::subsequence(FIELDS.to_vec(), 0..=3).prop_flat_map(move |paths| {
        let asked: Vec<_> = paths
            .into_iter()
            .map(|path| {
                let world = world.clone();
                // an array has one condition at a time: `contains this` and `contains one of those` may match
                // different elements
                let most = if matches!(path, "eshops" | "referenceNumbers") { 1 } else { 2 };
                prop::sample::subsequence(operators(path), 1..=most).prop_flat_map(move |names| {
                    let operands: Vec<_> = names.iter().map(|name| operand(path, name, &world)).collect();
                    operands.prop_map(move |operands| {
                        (path, names.iter().copied().zip(operands).collect::<Vec<_>>())
                    })
                })
            })
            .collect();
        asked
    });
    let sort = prop::sample::subsequence(vec!["weight", "createdAt", "active", "productGroup"], 0..=3)
        .prop_shuffle()
        .prop_flat_map(|keys| {
            let ways = prop::collection::vec(any::<bool>(), keys.len());
            ways.prop_map(move |ways| keys.iter().copied().zip(ways).collect::<Vec<_>>())
        });
    (criteria, sort, prop::option::of(0usize..30), 0usize..20)
        .prop_map(|(criteria, sort, limit, offset)| Question { criteria, sort, limit, offset })
}

/// Whether a text contains another, ignoring case; a % at either end is ignored.
fn contains(text: &str, part: &str) -> bool {
    let part = part.strip_prefix('%').unwrap_or(part);
    let part = part.strip_suffix('%').unwrap_or(part);
    text.to_lowercase().contains(&part.to_lowercase())
}

/// How many documents match criteria, as the predicate of these has it.
async fn matching(api: &Api, documents: &[Value], criteria: Value) -> u64 {
    let find = |_: &mut Reader, path: &str| {
        let field = field(PRODUCT.fields, path.split('.').next().unwrap()).unwrap();
        Member::below(&[], field, path).into_iter().collect()
    };
    let mut reader = Reader::default();
    let conditions = document::read(&mut reader, criteria, 20, find).unwrap();
    assert!(reader.into_violations().is_empty());
    let db = &api.services.db.main;
    let predicate = document::predicate(&**db, &conditions, |_| None).await.unwrap();
    let count: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM unnest($1::jsonb[]) AS d (document) WHERE jsonb_path_match(document, $2::jsonpath, '{}', true)",
    )
    .bind(documents)
    .bind(predicate)
    .fetch_one(&**db)
    .await
    .unwrap();
    count.try_into().unwrap()
}

#[tokio::test]
async fn only_a_row_that_is_there_matches() {
    let api = Api::new(&strangers().await).await;
    let documents = [
        json!({}),
        json!({"childrenProducts": null}),
        json!({"childrenProducts": []}),
        json!({"childrenProducts": [{"quantity": 1}]}),
        json!({"childrenProducts": [{"quantity": 1}, {"quantity": null}]}),
    ];
    for (asked, expected) in [
        (json!({"null": true}), 1),
        (json!({"null": false}), 2),
        (json!({"nin": []}), 2),
        (json!({"neq": 2}), 2),
    ] {
        let criteria = json!({"childrenProducts.quantity": asked});
        assert_eq!(matching(&api, &documents, criteria).await, expected, "{asked}");
    }
}

#[tokio::test]
async fn like_folds_the_case_of_documents_as_that_of_rows() {
    let api = Api::new(&strangers().await).await;
    let db = &api.services.db.main;
    for part in [
        "k",
        "K",
        "\u{212a}",
        "s",
        "ſ",
        "σ",
        "ς",
        "Σ",
        "İ",
        "i",
        "ı",
        "ß",
        "ẞ",
        "å",
        "Å",
        "ǆ",
        "ǅ",
        "µ",
        "μ",
        "ü.",
        "\"\\^[]-_%",
    ] {
        let find = |_: &mut Reader, path: &str| {
            Member::below(&[], field(PRODUCT.fields, path).unwrap(), path).into_iter().collect()
        };
        let criteria = json!({"name": {"like": format!("a{part}")}});
        let conditions = document::read(&mut Reader::default(), criteria, 20, find).unwrap();
        let predicate = document::predicate(&**db, &conditions, |_| None).await.unwrap();
        let differing: Vec<String> = sqlx::query_scalar(
            "SELECT name FROM (SELECT 'xA' || chr(n) || right($2, -1) AS name FROM generate_series(1, 55295) AS n OFFSET 0) AS names
             WHERE (name ILIKE $3) IS DISTINCT FROM jsonb_path_match(jsonb_build_object('name', name), $1::jsonpath)",
        )
        .bind(&predicate)
        .bind(part)
        .bind(containing(format!("a{part}").trim_end_matches('%')))
        .fetch_all(&**db)
        .await
        .unwrap();
        assert_eq!(differing, [""; 0], "{part}: {predicate}");
    }
}

#[tokio::test]
async fn answers_equal_those_of_a_naive_filter() {
    let api = Api::new(&strangers().await).await;
    let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
    let world = World::store(&api, &mut runner).await;
    // the runner is not async: it runs on its own thread, so that failures are shrunk
    let (ask, mut asked) = mpsc::channel::<(Value, oneshot::Sender<Value>)>(1);
    let checking = std::thread::spawn(move || {
        runner.run(&question(&world), |question| {
            let (sender, receiver) = oneshot::channel();
            ask.blocking_send((question.body(), sender)).unwrap();
            let answer = receiver.blocking_recv().unwrap();
            let (ids, total) = question.expected(&world);
            let got: Vec<_> = answer["results"].as_array().unwrap().iter().map(|r| r["id"].clone()).collect();
            prop_assert_eq!(got, ids.iter().map(|id| json!(id)).collect::<Vec<_>>());
            prop_assert_eq!(&answer["paging"]["total"], &json!(total));
            prop_assert_eq!(&answer["paging"]["returned"], &json!(ids.len()));
            Ok(())
        })
    });
    let (mut some, mut not_all, mut of_documents) = (0, 0, 0);
    let documents =
        api.post(&api.user, "/api/product/list", json!({"limit": 1_000})).await.expect(200).json();
    let documents = documents["results"].as_array().unwrap();
    while let Some((body, answer)) = asked.recv().await {
        let criteria = body["criteria"].clone();
        let reply = api.post(&api.user, "/api/product/list", body).await.expect(200).json();
        let total = reply["paging"]["total"].as_u64().unwrap();
        some += u32::from(total > 0);
        not_all += u32::from(total < PRODUCTS as u64);
        // a document does not lead to another one
        if ["organisation.name", "eshops.name"].iter().all(|path| criteria.get(path).is_none()) {
            let matching = matching(&api, documents, criteria.clone()).await;
            assert_eq!(matching, total, "{criteria}");
            of_documents += 1;
        }
        answer.send(reply).unwrap();
    }
    checking.join().unwrap().unwrap();
    assert!(of_documents > CASES / 4, "{of_documents}");
    // queries that match nothing or everything would prove little
    assert!(some > CASES / 4 && not_all > CASES / 2, "{some} with matches, {not_all} with a choice");
}
