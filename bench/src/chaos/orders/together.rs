//! Calls of the same moment: an order is edited, sent and cancelled at once; and of a stock, some orders take pieces while others
//! give as many back. Each turn has stocks of its own, so that no later change of a stock makes up for a mistake.

use std::time::Instant;

use futures::future::try_join_all;
use http::Method;
use rand::Rng as _;
use rand::rngs::StdRng;
use serde_json::json;
use uuid::Uuid;

use super::{BOOKED, CANCELED, COLD_PIECES, Fate, Merchant, ON_HOLD, SENT, WAITING, bulk, is_wrong_status};
use crate::chaos::caller::Request;
use crate::chaos::load::pause;
use crate::chaos::site::PROCESSES;

/// Orders of a turn that are edited while they are sent.
const EDITED: usize = 4;

/// The pieces that such an order wants since it was edited; before, it wanted one of another product.
const WANTED: i64 = 3;

/// Stocks of a turn of which pieces are taken and given back.
const SHARED: usize = 6;

/// The pieces of such a stock, and more than it ever has.
const SHARED_PIECES: i64 = 2;
const TOO_MANY: i64 = 100;

/// How often a call is repeated that always comes upon another change.
const TRIES: u32 = 10;

/// The orders of a stock of which one piece is booked, and one is free.
#[derive(Debug)]
struct Queue {
    /// It has the booked piece.
    booked: Uuid,
    /// It waits for more than there is.
    large: Uuid,
    /// Not sent yet: the first of them gets the free piece.
    next: Uuid,
    last: Uuid,
}

impl Merchant {
    /// Edits orders while they are sent, until then. What they want afterwards has no stock before that; it then gets as much as
    /// one order wants, and there are two.
    pub(super) async fn edit_and_send(&self, mut lot: StdRng, until: Instant) -> anyhow::Result<()> {
        for turn in 0.. {
            if !pause(&mut lot, 2.0..6.0, until).await {
                break;
            }
            let had = format!("HAD-{turn}");
            let wanted: Vec<String> = (0..EDITED).map(|number| format!("WANTED-{turn}-{number}")).collect();
            let products: Vec<String> = wanted.iter().chain([&had]).cloned().collect();
            self.name(&products, "to begin with").await?;
            let counted = self.count(&[(had.as_str(), COLD_PIECES)], "respond-async").await?;
            if !self.has_ended(counted, until).await? {
                break;
            }
            let item = [(had.as_str(), 1)];
            let orders = wanted.iter().map(async |sku| self.place(&first_of(sku), &item, false).await);
            let orders = try_join_all(orders).await?;
            let contested: Vec<(Uuid, &String)> = orders.into_iter().zip(&wanted).collect();
            let is_sent_by_job = lot.random_bool(0.25);
            let cancelled = self.edit_at_once(&mut lot, &contested, is_sent_by_job).await?;
            for ((order, sku), is_cancelled) in contested.into_iter().zip(cancelled) {
                let is_edited = self.is_edited(order).await?;
                self.place(&second_of(sku), &[(sku.as_str(), WANTED)], true).await?;
                // the earlier in turn is served
                let (first, second) = if is_sent_by_job {
                    // at any time
                    (SENT, SENT)
                } else if is_cancelled {
                    (CANCELED, BOOKED)
                } else if is_edited {
                    (BOOKED, WAITING)
                } else {
                    (BOOKED, BOOKED)
                };
                let fates = [(first_of(sku), Fate::OneOf(first)), (second_of(sku), Fate::OneOf(second))];
                self.book().orders.extend(fates);
            }
            let counts: Vec<(&str, i64)> = wanted.iter().map(|sku| (sku.as_str(), WANTED)).collect();
            self.count(&counts, "respond-async").await?;
        }
        Ok(())
    }

    /// Edits and sends orders, and cancels some of them, all at once; returns which are cancelled.
    async fn edit_at_once(
        &self,
        lot: &mut StdRng,
        contested: &[(Uuid, &String)],
        is_sent_by_job: bool,
    ) -> anyhow::Result<Vec<bool>> {
        let (mut calls, mut cancelled) = (Vec::new(), Vec::new());
        for (order, sku) in contested {
            let path = format!("/api/expedition/{order}");
            let edit = json!({ "items": [{ "productSku": sku, "quantity": WANTED }] });
            calls.push(Request::new(Method::PUT, path.clone(), edit.to_string()));
            if !is_sent_by_job {
                calls.push(Request::new(Method::PUT, format!("{path}/send"), "{}"));
            }
            if lot.random_bool(0.5) {
                calls.push(Request::new(Method::PATCH, path.clone(), json!({ "ref1": sku }).to_string()));
            }
            let is_cancelled = !is_sent_by_job && lot.random_bool(0.25);
            if is_cancelled {
                calls.push(Request::new(Method::PUT, format!("{path}/cancel"), "{}"));
            }
            cancelled.push(is_cancelled);
        }
        let send_all = async {
            if is_sent_by_job {
                let ids: Vec<Uuid> = contested.iter().map(|(order, _)| *order).collect();
                let reply = self.caller.ask(&bulk("send", &ids), &[202]).await?;
                self.promise(&reply, ids.len(), 0)?;
            }
            anyhow::Ok(())
        };
        tokio::try_join!(send_all, try_join_all(calls.iter().map(|call| self.ask_beside(call))))?;
        Ok(cancelled)
    }

    /// Whether an order wants what it was edited to; it must not have that before it is there.
    async fn is_edited(&self, order: Uuid) -> anyhow::Result<bool> {
        let read = Request::new(Method::GET, format!("/api/expedition/{order}"), "");
        let record = self.caller.ask(&read, &[200]).await?.body;
        let is_edited = record["sumOfQuantity"] == WANTED;
        if is_edited && record["status"].as_str().is_some_and(|status| BOOKED.contains(&status)) {
            self.caller.violation(format!("an order is booked in a stock that has nothing: {record}"));
        }
        Ok(is_edited)
    }

    /// Takes pieces of stocks and gives as many back at the same moment, until then. What comes free is for those that wait.
    pub(super) async fn take_and_give_back(&self, mut lot: StdRng, until: Instant) -> anyhow::Result<()> {
        for turn in 0.. {
            if !pause(&mut lot, 2.0..6.0, until).await {
                break;
            }
            let stocks: Vec<String> = (0..SHARED).map(|number| format!("SHARED-{turn}-{number}")).collect();
            self.name(&stocks, "to begin with").await?;
            let counts: Vec<(&str, i64)> = stocks.iter().map(|sku| (sku.as_str(), SHARED_PIECES)).collect();
            let counted = self.count(&counts, "respond-async").await?;
            if !self.has_ended(counted, until).await? {
                break;
            }
            // whether as many pieces are missing afterwards, too, and not only as many booked
            let is_all_even = lot.random_bool(0.5);
            let queues = try_join_all(stocks.iter().map(|sku| self.queue(sku, is_all_even))).await?;
            let mut calls = Vec::new();
            // one call after another goes to another process, and those on one stock to the same
            for queues in queues.chunks(PROCESSES) {
                let mut command = |operation: &str, of: fn(&Queue) -> Uuid| {
                    let path = |queue: &Queue| format!("/api/expedition/{}/{operation}", of(queue));
                    calls.extend(queues.iter().map(|queue| Request::new(Method::PUT, path(queue), "{}")));
                };
                command("send", |queue| queue.next);
                command("rollback", |queue| queue.booked);
                command("send", |queue| queue.last);
                if is_all_even {
                    command("cancel", |queue| queue.large);
                }
            }
            try_join_all(calls.iter().map(|call| self.ask_beside(call))).await?;
        }
        Ok(())
    }

    /// Creates the orders of a stock, and says what they come to.
    async fn queue(&self, sku: &str, is_all_even: bool) -> anyhow::Result<Queue> {
        let place = async |name: &str, pieces, send, ends| {
            let number = format!("{name}-of-{sku}");
            let id = self.place(&number, &[(sku, pieces)], send).await?;
            self.book().orders.insert(number, Fate::OneOf(ends));
            anyhow::Ok(id)
        };
        let (large, last, pieces) =
            if is_all_even { (CANCELED, WAITING, TOO_MANY) } else { (WAITING, BOOKED, 1) };
        Ok(Queue {
            booked: place("booked", 1, true, ON_HOLD).await?,
            large: place("large", TOO_MANY, true, large).await?,
            next: place("next", 1, false, BOOKED).await?,
            last: place("last", pieces, false, last).await?,
        })
    }

    /// Asks for something beside other calls, after which the status of the order may no longer allow it.
    async fn ask_beside(&self, call: &Request) -> anyhow::Result<()> {
        for _ in 0..TRIES {
            let reply = self.caller.ask(call, &[200, 400, 409]).await?;
            match reply.body["code"].as_str() {
                _ if reply.status == 200 => self.book().done += 1,
                _ if is_wrong_status(&reply) => self.book().refused += 1,
                // a process that stands still may hold what others change
                Some("conflict") => continue,
                _ => self.caller.violation(format!("{} {}: {}", call.method, call.path, reply.body)),
            }
            return Ok(());
        }
        self.caller.violation(format!("{} {}: a conflict, {TRIES} times", call.method, call.path));
        Ok(())
    }
}

/// The number of the order that is edited to want a product.
fn first_of(sku: &str) -> String {
    format!("first-of-{sku}")
}

/// The number of another order of the product.
fn second_of(sku: &str) -> String {
    format!("second-of-{sku}")
}
