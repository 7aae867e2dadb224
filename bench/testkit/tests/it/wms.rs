use std::time::Duration;

use http::{Method, StatusCode};
use longshore_testkit::client;
use longshore_testkit::wms::{Asked, Breach, Manner, Mischief, On, Stage, Step, Wms};
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use uuid::Uuid;

/// Long enough for a loaded machine; no test waits it out.
const SOON: Duration = Duration::from_secs(20);

const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

fn expedition(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

fn order(expedition: Uuid, number: u64) -> Value {
    json!({"id": expedition, "number": number, "orderNumber": "E-1", "items": [{"productSku": "859", "quantity": 2}]})
}

async fn put(wms: &Wms, expedition: Uuid, number: u64) -> reqwest::Result<(StatusCode, Value)> {
    let key = format!("{expedition}.{number}");
    let url = format!("{}/expedition/{expedition}", wms.url());
    let call = client::outside()?.put(url).header("idempotency-key", &key).header("webhook-id", &key);
    let answer = call.body(order(expedition, number).to_string()).send().await?;
    let status = answer.status();
    Ok((status, serde_json::from_slice(&answer.bytes().await?).unwrap_or_default()))
}

async fn delete(wms: &Wms, expedition: Uuid, number: u64) -> reqwest::Result<StatusCode> {
    let url = format!("{}/expedition/{expedition}?number={number}", wms.url());
    Ok(client::outside()?.delete(url).body(json!({"number": number}).to_string()).send().await?.status())
}

#[tokio::test]
async fn the_same_number_twice_is_one_hand_over() {
    let wms = Wms::start().await.unwrap();
    let id = expedition(1);

    let (first, second) = tokio::join!(put(&wms, id, 1), put(&wms, id, 1));
    let again = put(&wms, id, 1).await.unwrap();

    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(first.0, 200);
    assert_eq!(first.1["wmsInternalId"], second.1["wmsInternalId"]);
    assert_eq!(first, again);
    let entry = wms.order(id).unwrap();
    assert_eq!((entry.stage, entry.number, entry.taken), (Stage::Taken, 1, vec![1]));
    assert_eq!((entry.calls[&1], entry.order["orderNumber"].as_str()), (3, Some("E-1")));
}

#[tokio::test]
async fn a_number_that_is_lower_or_withdrawn_is_out_of_date() {
    let wms = Wms::start().await.unwrap();
    let (id, unknown) = (expedition(1), expedition(2));
    assert_eq!(put(&wms, id, 2).await.unwrap().0, 200);
    assert_eq!(put(&wms, id, 1).await.unwrap().0, 410);

    // A withdrawal of a lower number leaves the higher one.
    assert_eq!(delete(&wms, id, 1).await.unwrap(), 410);
    assert_eq!(put(&wms, id, 2).await.unwrap().0, 200);
    assert_eq!(delete(&wms, id, 2).await.unwrap(), 204);
    assert_eq!(delete(&wms, id, 2).await.unwrap(), 204);
    assert_eq!(put(&wms, id, 2).await.unwrap().0, 410);
    assert_eq!(put(&wms, id, 3).await.unwrap().0, 200);

    // The withdrawal has overtaken its hand-over.
    assert_eq!(delete(&wms, unknown, 4).await.unwrap(), 404);
    assert_eq!(put(&wms, unknown, 4).await.unwrap().0, 410);
    assert_eq!(put(&wms, unknown, 3).await.unwrap().0, 410);
    assert_eq!(put(&wms, unknown, 5).await.unwrap().0, 200);
    assert_eq!((wms.order(id).unwrap().taken, wms.order(unknown).unwrap().taken), (vec![2, 3], vec![5]));
}

#[tokio::test]
async fn what_is_being_picked_is_given_back_only_by_a_wms_that_does_so() {
    let wms = Wms::start().await.unwrap();
    for (n, gives_back) in [(1, false), (2, true)] {
        let id = expedition(n);
        wms.give_back_picked(gives_back);
        put(&wms, id, 1).await.unwrap();
        wms.step(id, Step::Pick).unwrap();
        assert_eq!(delete(&wms, id, 1).await.unwrap(), if gives_back { 204 } else { 409 });
    }
    wms.step(expedition(1), Step::Pack).unwrap();
    assert_eq!(delete(&wms, expedition(1), 1).await.unwrap(), 409);
    assert_eq!(wms.step(expedition(2), Step::Pack).unwrap_err().stage, Stage::Withdrawn);
    // What has left is not taken a second time.
    assert_eq!(put(&wms, expedition(1), 2).await.unwrap().0, 422);
    // A number that was refused stays so, also once the earlier one is given back.
    let id = expedition(3);
    put(&wms, id, 1).await.unwrap();
    wms.step(id, Step::Pick).unwrap();
    assert_eq!(put(&wms, id, 2).await.unwrap().0, 422);
    assert_eq!(delete(&wms, id, 1).await.unwrap(), 204);
    assert_eq!(put(&wms, id, 2).await.unwrap().0, 410);
    assert_eq!(put(&wms, id, 3).await.unwrap().0, 200);
}

#[tokio::test]
async fn a_refused_order_stays_refused_until_its_next_number() {
    let wms = Wms::start().await.unwrap();
    let id = expedition(1);
    wms.refuse_sku("859");
    for _ in 0..2 {
        let (status, answer) = put(&wms, id, 1).await.unwrap();
        assert_eq!(
            (status.as_u16(), answer["violations"][0]["propertyPath"].as_str()),
            (422, Some("items[0].product"))
        );
    }
    let other = expedition(2);
    wms.misbehave(On::Order(other), Mischief::Refuse(json!([{"message": "no"}])));
    assert_eq!(put(&wms, other, 1).await.unwrap().0, 422);
    assert_eq!((wms.order(id).unwrap().stage, wms.order(other).unwrap().taken.len()), (Stage::Refused, 0));
}

#[tokio::test]
async fn an_order_that_it_has_under_another_id_is_refused_until_the_first_is_given_back() {
    let wms = Wms::start().await.unwrap();
    let order = |eshop: &str| json!({"eshop": eshop, "orderNumber": "E-1"});
    assert_eq!(wms.take(expedition(1), order("a")), 200);
    assert_eq!(wms.take(expedition(1), order("a")), 200, "the same hand-over");
    assert_eq!(wms.take(expedition(2), order("b")), 200, "another e-shop");
    assert_eq!(wms.take(expedition(3), order("a")), 422);
    assert_eq!(wms.order(expedition(3)).unwrap().violations[0]["code"], "duplicate_order");
    wms.step(expedition(1), Step::Pack).unwrap();
    assert_eq!(wms.take(expedition(4), order("a")), 422, "it was shipped");
    assert_eq!(delete(&wms, expedition(2), 1).await.unwrap(), 204);
    assert_eq!(wms.take(expedition(5), order("b")), 200);
    wms.break_rule(Breach::TakesDuplicate);
    assert_eq!(wms.take(expedition(6), order("b")), 200);
}

#[tokio::test]
async fn only_calls_that_are_signed_by_a_trusted_secret_are_done() {
    let wms = Wms::start().await.unwrap();
    wms.trust(SECRET).unwrap();
    let id = expedition(1);
    assert_eq!(put(&wms, id, 1).await.unwrap().0, 401);
    assert!(wms.book().is_empty());

    let (key, body) = (format!("{id}.1"), order(id, 1).to_string());
    let signed = async |secret: &str, at: i64| {
        let signature = Webhook::new(secret).unwrap().sign(&key, at, body.as_bytes()).unwrap();
        let url = format!("{}/expedition/{id}", wms.url());
        let call = client::outside().unwrap().request(Method::PUT, url).body(body.clone());
        let call = call.header("idempotency-key", &key).header("webhook-id", &key);
        let call = call.header("webhook-timestamp", at).header("webhook-signature", signature);
        call.send().await.unwrap().status().as_u16()
    };
    let now = longshore_kernel::clock::Clock::system().now().timestamp();
    assert_eq!(signed("whsec_b3RoZXI=", now).await, 401);
    assert_eq!(signed(SECRET, now - 600).await, 401);
    assert_eq!(signed(SECRET, now).await, 200);
    wms.break_rule(Breach::TrustsOld);
    assert_eq!(signed(SECRET, now - 600).await, 200);
    assert_eq!(signed("whsec_b3RoZXI=", now - 600).await, 401);
}

#[tokio::test]
async fn calls_that_longshore_does_not_make_are_refused() {
    let wms = Wms::start().await.unwrap();
    let id = expedition(1);
    let http = client::outside().unwrap();
    let at = |path: &str| format!("{}{path}", wms.url());
    let path = format!("/expedition/{id}");
    let unkeyed = http.put(at(&path)).body(order(id, 1).to_string());
    let foreign = http.put(at(&path)).body(order(expedition(2), 1).to_string());
    for call in [
        unkeyed,
        foreign,
        http.delete(at(&path)),
        http.get(at("/order/1")),
        http.delete(at("/order/1?number=1")),
    ] {
        assert_eq!(call.send().await.unwrap().status(), 400);
    }
    assert!(wms.book().is_empty());
}

#[tokio::test]
async fn a_fault_spoils_the_call_that_it_is_meant_for() {
    let wms = Wms::start().await.unwrap();
    let id = expedition(1);
    wms.misbehave(On::Delete, Mischief::RetryAfter(503, 7));
    wms.misbehave(On::Put, Mischief::DoneCut);
    wms.misbehave(On::Put, Mischief::Cut);
    wms.misbehave(On::Put, Mischief::Lie);

    assert!(put(&wms, id, 1).await.is_err());
    assert_eq!(wms.order(id).unwrap().stage, Stage::Taken);
    assert!(put(&wms, expedition(2), 1).await.is_err());
    assert_eq!(put(&wms, expedition(2), 1).await.unwrap().0, 200);
    assert_eq!(wms.order(expedition(2)), None);
    assert_eq!(put(&wms, expedition(2), 1).await.unwrap().0, 200);
    assert_eq!(delete(&wms, id, 1).await.unwrap(), 503);
    assert_eq!(delete(&wms, id, 1).await.unwrap(), 204);

    wms.misbehave(On::Any, Mischief::Forget);
    assert_eq!(put(&wms, expedition(3), 1).await.unwrap().0, 200);
    assert_eq!(wms.book().len(), 1);
    wms.misbehave_in_turn(vec![Mischief::Status(500), Mischief::None]);
    let statuses =
        [put(&wms, expedition(4), 1).await, put(&wms, expedition(4), 1).await].map(|a| a.unwrap().0.as_u16());
    assert_eq!(statuses, [500, 200]);
    let spoiled: Vec<Asked> =
        wms.asked().into_iter().filter(|asked| asked.mischief != Mischief::None).collect();
    assert_eq!(spoiled.len(), 6);
}

#[tokio::test]
async fn a_call_that_was_overtaken_arrives_after_the_next_one_and_changes_nothing() {
    let wms = Wms::start().await.unwrap();
    let id = expedition(1);
    wms.misbehave(On::Put, Mischief::Overtaken);
    assert!(put(&wms, id, 1).await.is_err());
    assert_eq!(wms.order(id), None);

    assert_eq!(delete(&wms, id, 1).await.unwrap(), 404);

    let entry = wms.order(id).unwrap();
    assert_eq!((entry.calls[&1], entry.taken.len(), entry.stage), (1, 0, Stage::Unknown));
}

#[tokio::test]
async fn those_who_wait_are_woken_by_the_call() {
    let wms = Wms::start().await.unwrap();
    let url = wms.url();
    let id = expedition(1);
    let sender = tokio::spawn(async move {
        let key = format!("{id}.1");
        let call = client::outside().unwrap().put(format!("{url}/expedition/{id}"));
        let call = call.header("idempotency-key", &key).header("webhook-id", &key);
        call.body(order(id, 1).to_string()).send().await.unwrap();
    });
    wms.wait_for(id, Stage::Taken, SOON).await.unwrap();
    sender.await.unwrap();
}

#[tokio::test]
async fn news_are_sent_once_they_are_taken_and_name_their_number() {
    let wms = Wms::start().await.unwrap();
    let id = expedition(1);
    put(&wms, id, 3).await.unwrap();
    wms.step(id, Step::Pick).unwrap();
    wms.pack_some(id, &[(expedition(9), 1)]).unwrap();

    assert_eq!(wms.report(Manner::InOrder, async |_| Err("busy")).await, Err("busy"));
    let mut sent = Vec::new();
    let taken = async |news: Vec<Value>| {
        sent.extend(news);
        Ok::<_, ()>(())
    };
    assert_eq!(wms.report(Manner::InOrder, taken).await, Ok(2));
    let statuses: Vec<_> =
        sent.iter().map(|news| (news["status"].as_str(), news["number"].as_u64())).collect();
    assert_eq!(statuses, [(Some("take_out"), Some(3)), (Some("waiting_for_the_carrier"), Some(3))]);
    assert_eq!(sent[1]["items"], json!([{"product": expedition(9), "expedited": 1}]));
    assert_ne!(sent[0]["id"], sent[1]["id"]);
    assert_eq!(wms.unsent(), 0);

    wms.step(id, Step::Ship).unwrap();
    wms.step(id, Step::Deliver).unwrap();
    let mut sent = Vec::new();
    let taken = async |news: Vec<Value>| {
        sent.extend(news);
        Ok::<_, ()>(())
    };
    wms.report(Manner::Twice, taken).await.unwrap();
    assert_eq!((sent.len(), &sent[0]), (4, &sent[1]));
    // whichever comes first says what left
    assert!(sent.iter().all(|news| news["items"] == json!([{"product": expedition(9), "expedited": 1}])));
}

#[tokio::test]
async fn an_order_is_given_up_or_its_cancel_is_answered_by_news() {
    let wms = Wms::start().await.unwrap();
    for n in 1..=3 {
        put(&wms, expedition(n), 1).await.unwrap();
    }
    let picked = wms.step(expedition(2), Step::Pick).unwrap();
    let given_up = wms.give_up(expedition(1), &json!([{"message": "broken"}])).unwrap();
    let accepted = wms.answer_cancel(expedition(2), true).unwrap();
    let refused = wms.answer_cancel(expedition(3), false).unwrap();
    assert_eq!(
        (given_up["status"].as_str(), given_up["errors"][0]["message"].as_str()),
        (Some("incorrect"), Some("broken"))
    );
    assert_eq!(
        (accepted["cancel"].as_str(), refused["cancel"].as_str()),
        (Some("accepted"), Some("refused"))
    );
    let stages = wms.book().into_values().map(|entry| entry.stage).collect::<Vec<_>>();
    assert_eq!(stages, [Stage::GivenUp, Stage::Withdrawn, Stage::Taken]);
    assert_eq!(put(&wms, expedition(2), 1).await.unwrap().0, 410);

    let mut sent = Vec::new();
    let taken = async |news: Vec<Value>| {
        sent.extend(news);
        Ok::<_, ()>(())
    };
    wms.report(Manner::Backwards, taken).await.unwrap();
    assert_eq!(sent, [refused, accepted, given_up, picked]);
}

#[tokio::test]
async fn a_web_page_hides_no_refusal() {
    let wms = Wms::start().await.unwrap();
    let id = expedition(1);
    put(&wms, id, 1).await.unwrap();
    wms.step(id, Step::Pick).unwrap();
    for spoilt in [Mischief::WebPage, Mischief::Short, Mischief::Large(10)] {
        wms.misbehave(On::Delete, spoilt);
        assert_eq!(delete(&wms, id, 1).await.unwrap(), 409);
    }
    wms.misbehave(On::Put, Mischief::WebPage);
    assert_eq!(put(&wms, id, 1).await.unwrap().0, 200);
}
