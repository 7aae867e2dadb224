//! The state of a WMS: how a call is read, spoiled and answered.

use std::collections::{HashMap, VecDeque};

use http::HeaderValue;
use http::header::CONTENT_TYPE;
use longshore_kernel::clock::Clock;
use longshore_kernel::ids;
use serde_json::{Value, json};
use uuid::Uuid;

use super::Asked;
use super::book::{self, Book, Entry, Stage};
use super::breach::{Breach, Breaches, LARGE, SLOW};
use super::call::Call;
use super::mischief::{Mischief, On};
use super::report::NotNow;
use crate::receiver::{Answer, Document, Receipt};
use crate::signature::Verifier;

#[derive(Debug)]
pub(super) struct State {
    pub(super) book: Book,
    /// Who was taken last with an e-shop and its number.
    pub(super) numbers: HashMap<(String, String), Uuid>,
    pub(super) asked: Vec<Asked>,
    pub(super) verifiers: Vec<Verifier>,
    pub(super) mischief: VecDeque<(On, Mischief)>,
    /// Faults for every call in turn, and how many were used.
    pub(super) turns: (Vec<Mischief>, usize),
    pub(super) breaches: Breaches,
    pub(super) refused_skus: Vec<String>,
    pub(super) gives_back_picked: bool,
    pub(super) keeps_orders: bool,
    /// Calls that others have overtaken in the network.
    pub(super) overtaken: Vec<Call>,
    /// News that were not sent yet, in the order of what happened.
    pub(super) news: VecDeque<Value>,
    /// Its part of the ids that it gives, and how many it has given.
    pub(super) prefix: String,
    pub(super) given: u64,
    pub(super) clock: Clock,
}

impl State {
    pub(super) fn new(keeps_orders: bool) -> Self {
        let prefix = ids::random_id().simple().to_string();
        Self {
            book: Book::new(),
            numbers: HashMap::new(),
            asked: Vec::new(),
            verifiers: Vec::new(),
            mischief: VecDeque::new(),
            turns: (Vec::new(), 0),
            breaches: Breaches::default(),
            refused_skus: Vec::new(),
            gives_back_picked: false,
            keeps_orders,
            overtaken: Vec::new(),
            news: VecDeque::new(),
            prefix: prefix[..8].to_owned(),
            given: 0,
            clock: Clock::system(),
        }
    }

    /// The answer to a call, after it has done what the book's rules and the fault say.
    pub(super) fn answer(&mut self, receipt: &Receipt) -> Answer {
        let method = receipt.method.to_string();
        let tested = Call::asks_about(receipt);
        let read = if tested.is_some() && self.breaches.has(Breach::KnowsNoTest) {
            Err((405, "there is no GET".to_owned()))
        } else if !(self.is_signed(receipt) || tested.is_some() && self.breaches.has(Breach::TestsUnverified))
        {
            Err((401, "the signature is not valid".to_owned()))
        } else if let Some(expedition) = tested {
            let is_known = self.book.contains_key(&expedition) || self.breaches.has(Breach::FindsAny);
            Err(if is_known {
                (200, "it is here".to_owned())
            } else {
                (404, "there is no such order".to_owned())
            })
        } else {
            Call::of(receipt).map_err(|why| (400, why))
        };
        let call = match read {
            Ok(call) => call,
            Err((status, why)) => {
                let mischief = Mischief::None;
                self.asked.push(Asked { method, expedition: None, number: 0, status, mischief });
                return Answer::Json(status, json!({"detail": why}));
            }
        };
        let mischief = self.next_mischief(&call);
        let late: Vec<Call> =
            self.overtaken.extract_if(.., |late| late.expedition == call.expedition).collect();
        let (status, answer) = self.spoiled(&call, mischief.clone());
        for late in late {
            self.done(&late);
        }
        let Call { expedition, number, .. } = call;
        self.asked.push(Asked { method, expedition: Some(expedition), number, status, mischief });
        answer
    }

    fn next_mischief(&mut self, call: &Call) -> Mischief {
        let at = self.mischief.iter().position(|(on, _)| call.is_met_by(*on));
        if let Some((_, mischief)) = at.and_then(|at| self.mischief.remove(at)) {
            return mischief;
        }
        let (turns, turn) = &mut self.turns;
        let mischief = turns.get(*turn % turns.len().max(1)).cloned();
        *turn += 1;
        mischief.unwrap_or(Mischief::None)
    }

    /// Does a call as far as its fault lets it; the status that was meant, 0 for none, and what is sent.
    fn spoiled(&mut self, call: &Call, mischief: Mischief) -> (u16, Answer) {
        match mischief {
            Mischief::None => {
                let answered = self.done(call);
                (answered.0, self.usual(answered))
            }
            Mischief::Forget => {
                self.forget();
                let answered = self.done(call);
                (answered.0, self.usual(answered))
            }
            Mischief::Refuse(violations) => {
                let answered = self.refused(call, violations);
                (answered.0, self.usual(answered))
            }
            Mischief::Status(status) => (status, Answer::Status(status)),
            Mischief::RetryAfter(status, seconds) => (status, Answer::RetryAfter(status, seconds)),
            Mischief::Lie => (200, Answer::Status(200)),
            Mischief::Hang => (0, Answer::Hang),
            Mischief::Cut => (0, Answer::Cut),
            Mischief::DoneHang => (self.done(call).0, Answer::Hang),
            Mischief::DoneCut => (self.done(call).0, Answer::Cut),
            Mischief::DoneStatus(status) => (self.done(call).0, Answer::Status(status)),
            Mischief::Late(wait) => {
                let answered = self.done(call);
                (answered.0, Answer::After(wait, Box::new(self.usual(answered))))
            }
            Mischief::Short => self.done_with(call, Answer::Short),
            Mischief::Flood => self.done_with(call, Answer::Flood),
            Mischief::Large(bytes) => self.done_with(call, Answer::Large(bytes)),
            Mischief::WebPage => {
                self.done_with(call, Answer::Body(200, "<!DOCTYPE html><html>welcome</html>".into()))
            }
            Mischief::Redirect(url) => (307, Answer::Redirect(url)),
            Mischief::Overtaken => {
                self.overtaken.push(call.clone());
                (0, Answer::Cut)
            }
        }
    }

    /// Does a call, and spoils the contents of its answer. These have a status of success, so an answer that says no stays as
    /// it is: it would be a lie otherwise.
    fn done_with(&mut self, call: &Call, spoilt: Answer) -> (u16, Answer) {
        let answered = self.done(call);
        let status = answered.0;
        (status, if (200..300).contains(&status) { spoilt } else { self.usual(answered) })
    }

    /// Does a call by the rules.
    pub(super) fn done(&mut self, call: &Call) -> book::Answered {
        let Some(order) = &call.order else {
            let gives_back = self.gives_back_picked;
            return self.book.entry(call.expedition).or_default().delete(
                call.number,
                gives_back,
                self.breaches,
            );
        };
        let refusal = self.duplicate(call.expedition, order).or_else(|| self.refusal(order));
        self.put(call, order, refusal)
    }

    fn refused(&mut self, call: &Call, violations: Value) -> book::Answered {
        match &call.order {
            Some(order) => self.put(call, order, Some(violations)),
            None => (422, json!({"violations": violations})),
        }
    }

    fn put(&mut self, call: &Call, order: &Value, refusal: Option<Value>) -> book::Answered {
        let number = number_of(order).filter(|_| refusal.is_none());
        let order = if self.keeps_orders { order.clone() } else { Value::Null };
        let (given, prefix) = (&mut self.given, &self.prefix);
        let internal_id = || {
            *given += 1;
            format!("W-{prefix}-{given}")
        };
        let entry = self.book.entry(call.expedition).or_default();
        let answered = entry.put((call.number, order), refusal, internal_id, self.breaches);
        if entry.stage == Stage::Taken {
            self.numbers.extend(number.map(|number| (number, call.expedition)));
        }
        answered
    }

    /// It has the order under another id: what it has against that.
    fn duplicate(&self, expedition: Uuid, order: &Value) -> Option<Value> {
        let first = *self.numbers.get(&number_of(order)?)?;
        let is_here = first != expedition && self.book.get(&first).is_some_and(|entry| entry.stage.is_here());
        if !is_here || self.breaches.has(Breach::TakesDuplicate) {
            return None;
        }
        let message = format!("this order is here as {first}");
        Some(json!([{"propertyPath": "orderNumber", "message": message, "code": "duplicate_order"}]))
    }

    /// What it has against an order.
    fn refusal(&self, order: &Value) -> Option<Value> {
        let items = order["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_refused =
            |item: &Value| self.refused_skus.iter().any(|sku| item["productSku"] == sku.as_str());
        let at = items.iter().position(is_refused)?;
        let path = format!("items[{at}].product");
        let message = "this product is not known here";
        Some(json!([{"propertyPath": path, "message": message, "code": "unknown_product"}]))
    }

    /// The answer as it is sent where nothing spoils it but a broken rule.
    fn usual(&self, (status, mut body): book::Answered) -> Answer {
        match self.breaches.0 {
            Some(Breach::Slow) => return Answer::After(SLOW, Box::new(Answer::Status(status))),
            Some(Breach::Large) => return Answer::Large(LARGE),
            Some(Breach::Redirects) => return Answer::Redirect("/elsewhere".to_owned()),
            Some(Breach::NoJson) if status == 200 => {
                let half = r#"{"wmsInternalId":"#.into();
                return Answer::Document(Document {
                    headers: vec![(CONTENT_TYPE, "application/json".to_owned())],
                    body: half,
                    ..Document::default()
                });
            }
            Some(Breach::OddId) if !body["wmsInternalId"].is_null() => {
                body["wmsInternalId"] = json!({"id": 1});
            }
            Some(Breach::RefusesSilently) if status == 422 => return Answer::Status(status),
            _ => {}
        }
        if body.is_null() { Answer::Status(status) } else { Answer::Json(status, body) }
    }

    fn is_signed(&self, receipt: &Receipt) -> bool {
        if self.verifiers.is_empty() || self.breaches.has(Breach::TrustsForged) {
            return true;
        }
        let mut receipt = receipt.clone();
        if self.breaches.has(Breach::ReadsOneSignature)
            && let Some(first) = receipt.header("webhook-signature").and_then(|all| all.split(' ').next())
            && let Ok(first) = HeaderValue::from_str(first)
        {
            receipt.headers.insert("webhook-signature", first);
        }
        !self.breaches.has(Breach::TrustsNone)
            && self.verifiers.iter().any(|verifier| {
                if self.breaches.has(Breach::TrustsOld) {
                    verifier.verify_of_any_age(&receipt).is_ok()
                } else {
                    verifier.verify(&receipt).is_ok()
                }
            })
    }

    pub(super) fn forget(&mut self) {
        self.book.clear();
        self.numbers.clear();
        self.news.clear();
        self.overtaken.clear();
    }

    pub(super) fn entry(&mut self, expedition: Uuid) -> Result<&mut Entry, NotNow> {
        self.book.get_mut(&expedition).ok_or(NotNow { expedition, stage: Stage::Unknown })
    }

    /// Adds news about an order; returns them with what all news have.
    pub(super) fn say(&mut self, expedition: Uuid, mut news: Value) -> Value {
        self.given += 1;
        news["id"] = json!(format!("N-{}-{}", self.prefix, self.given));
        news["expedition"] = json!(expedition);
        news["number"] = json!(self.book.get(&expedition).map_or(0, |entry| entry.number));
        news["at"] = json!(self.clock.now());
        self.news.push_back(news.clone());
        news
    }
}

/// The e-shop of an order, and the number that it has there.
fn number_of(order: &Value) -> Option<(String, String)> {
    Some((order["eshop"].as_str()?.to_owned(), order["orderNumber"].as_str()?.to_owned()))
}
