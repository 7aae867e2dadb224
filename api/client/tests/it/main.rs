//! The client against a fake service over real HTTP. The command line and the measurements use it against the
//! service itself.

#![expect(clippy::unwrap_used, reason = "a test fails where it must not go on")]

use std::fmt::Write as _;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longshore_client::{Bytes, Call, Client, Error, JobState, ListQuery, RetryPolicy, Rows, Uuid, Value};
use longshore_testkit::receiver::{Answer, By, Document, Receiver};
use serde_json::json;

const JOB: Uuid = Uuid::from_u128(7);

fn client(service: &Receiver) -> Client {
    Client::new(service.url(""), "lsh_test").unwrap()
}

fn job(state: &str, done: u64) -> Value {
    let progress = json!({"total": 3, "done": done, "changed": done, "unchanged": 0, "failed": 0});
    json!({"id": JOB, "kind": "product.sync", "state": state, "progress": progress, "error": null})
}

fn body(status: u16, body: &Value) -> Answer {
    Answer::Body(status, Bytes::from(body.to_string()))
}

fn refusal(status: u16, code: &str) -> Answer {
    let violation = json!({"propertyPath": "name", "message": "is required", "code": "required"});
    let problem = json!({"status": status, "code": code, "detail": "name is required", "requestId": "r-1",
                         "violations": [violation]});
    body(status, &problem)
}

#[tokio::test]
async fn a_busy_service_is_called_again_with_the_same_key_unless_the_policy_forbids_it() {
    let service = Receiver::start().await.unwrap();
    let busy = [Answer::RetryAfter(503, 0), Answer::RetryAfter(429, 0), body(200, &job("queued", 0))];
    service.answer_all(Answer::Sequence(busy.to_vec()));
    let client = client(&service);
    let accepted = client.retry_job(JOB).send().await.unwrap();
    assert_eq!((accepted.id, accepted.state), (JOB, JobState::Queued));
    assert_eq!(service.counts_by("idempotency-key").into_values().collect::<Vec<_>>(), [3]);
    assert_eq!(service.counts_by("authorization"), [("Bearer lsh_test".to_owned(), 3)].into());

    // attempts are bounded
    service.forget();
    service.answer_all(Answer::RetryAfter(503, 0));
    client.retry_job(JOB).send().await.unwrap_err();
    assert_eq!(service.requests(), 6);
    service.forget();
    client.retry_job(JOB).retry(RetryPolicy::never()).send().await.unwrap_err();
    assert_eq!(service.requests(), 1);

    // a single call shows its answer, and a read has no key
    service.forget();
    service.answer_all(Answer::RetryAfter(503, 7));
    let answer = client.job(JOB).once().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.retry_after()), (503, Some(Duration::from_secs(7))));
    assert_eq!((service.requests(), service.counts_by("idempotency-key").len()), (1, 0));
}

#[tokio::test]
async fn a_refusal_names_the_call_the_code_and_each_field() {
    let service = Receiver::start().await.unwrap();
    service.answer_all(refusal(400, "invalid_data"));
    let call: Call<Value> = client(&service).post("/api/product").json(&json!({}));
    let error = call.send().await.unwrap_err();
    assert_eq!(error.to_string(), "POST /api/product: name is required (400 invalid_data, request r-1)");
    assert!(error.is_refusal());
    let problem = error.problem().unwrap();
    assert_eq!((problem.code.as_str(), problem.violations[0].field.as_str()), ("invalid_data", "name"));
    assert_eq!(service.requests(), 1);

    service.answer_all(refusal(500, "internal"));
    assert!(!client(&service).job(JOB).send().await.unwrap_err().is_refusal());
    service.answer_all(Answer::Body(404, Bytes::from_static(b"<html>")));
    let strange = client(&service).job(JOB).send().await.unwrap_err();
    assert!(matches!(&strange, Error::Unexpected { reason, .. } if reason.contains("404")), "{strange:?}");
    let nowhere = Client::new("http://127.0.0.1:1", "t").unwrap().job(JOB).send().await.unwrap_err();
    let message = nowhere.to_string();
    assert!(
        message.contains("GET /api/job/") && message.contains("cannot reach http://127.0.0.1:1: "),
        "{message}"
    );
}

#[tokio::test]
async fn a_list_is_read_page_by_page_to_its_end() {
    let service = Receiver::start().await.unwrap();
    service.answer_all(Answer::By(By::new(|request| {
        let query = request.json().unwrap();
        assert_eq!(query["count"], "none");
        let from: u64 = query["after"].as_str().map_or(0, |after| after.parse().unwrap());
        let results: Vec<u64> =
            (from..5).take(usize::try_from(query["limit"].as_u64().unwrap()).unwrap()).collect();
        let to = from + results.len() as u64;
        let next = (to < 5).then(|| to.to_string());
        let paging = json!({"returned": to - from, "from": from, "to": to, "total": null, "next": next});
        body(200, &json!({"results": results, "paging": paging}))
    })));
    let pages = || client(&service).pages::<u64>("/api/number/list", ListQuery::new().limit(2));
    assert_eq!(pages().all().await.unwrap(), [0, 1, 2, 3, 4]);
    assert_eq!((service.requests(), service.counts_by("idempotency-key").len()), (3, 0));

    let mut pages = pages();
    assert_eq!(pages.next().await.unwrap().unwrap().results, [0, 1]);
    service.answer_all(Answer::Cut);
    pages.next().await.unwrap_err();
    // after an error, the same page is next
    service.answer_all(body(
        200,
        &json!({"results": [2], "paging": {"returned": 1, "from": 2, "to": 3, "total": 3, "next": null}}),
    ));
    assert_eq!(pages.next().await.unwrap().unwrap().results, [2]);
    assert!(pages.next().await.unwrap().is_none());
}

fn events(events: &[(&str, Value)], is_cut: bool) -> Answer {
    let mut text = ":\n\n".to_owned();
    for (name, job) in events {
        write!(text, "event: {name}\ndata: {job}\n\n").unwrap();
    }
    let cut_after = is_cut.then_some(text.len());
    // what is missing behind the cut
    text.push_str(if is_cut { "event: end\n" } else { "" });
    Answer::Document(Document { body: text.into(), cut_after, ..Document::default() })
}

#[tokio::test]
async fn the_progress_of_a_job_goes_on_after_a_broken_connection() {
    let service = Receiver::start().await.unwrap();
    service.answer_all(Answer::Sequence(vec![
        events(&[("progress", job("queued", 0)), ("progress", job("running", 1))], true),
        Answer::Cut,
        Answer::Status(503),
        refusal(503, "unavailable"),
        events(&[("progress", job("running", 2)), ("end", job("succeeded", 3))], false),
    ]));
    let mut quick = RetryPolicy::default();
    quick.initial = Duration::from_millis(1);
    let client = Client::builder(service.url(""), "t").retry(quick).build().unwrap();
    let mut following = client.follow_job(JOB);
    let mut seen = Vec::new();
    while let Some(event) = following.next().await.unwrap() {
        seen.push((event.job.progress.done, event.is_end));
    }
    assert_eq!(seen, [(0, false), (1, false), (2, false), (3, true)]);
    assert_eq!(service.requests(), 5);
    service.answer_all(refusal(404, "not_found"));
    assert!(client.job_ended(JOB).await.unwrap_err().is_refusal());
    service.answer_all(Answer::Cut);
    service.forget();
    assert!(matches!(client.job_ended(JOB).await, Err(Error::Unreachable { .. })));
    assert_eq!(service.requests(), 8);
}

struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the disk is gone"))
    }
}

#[tokio::test]
async fn rows_are_streamed_with_progress_and_sent_again_only_from_where_they_can_be_read_again() {
    let service = Receiver::start().await.unwrap();
    let busy = || Answer::Sequence(vec![Answer::RetryAfter(503, 0), body(200, &job("queued", 0))]);
    service.answer_all(busy());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.ndjson");
    let rows = "{\"productSku\":\"1\"}\n".repeat(10_000);
    std::fs::write(&file, &rows).unwrap();
    let (sent, begun) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(0)));
    let from_file = Rows::from_file(&file).unwrap().on_progress({
        let (sent, begun) = (Arc::clone(&sent), Arc::clone(&begun));
        move |bytes| {
            sent.store(bytes, Ordering::Relaxed);
            *begun.lock().unwrap() += u32::from(bytes == 0);
        }
    });
    assert_eq!(from_file.size(), Some(rows.len() as u64));
    let client = client(&service);
    client.sync_products(JOB, Some("main"), from_file).send().await.unwrap();
    assert_eq!((sent.load(Ordering::Relaxed), *begun.lock().unwrap()), (rows.len() as u64, 2));
    let header = json!({"eshop": JOB, "line": 0, "inventoryId": "main"});
    for receipt in service.receipts() {
        assert_eq!(receipt.header("content-type"), Some("application/x-ndjson"));
        assert_eq!(receipt.body, format!("{header}\n{rows}"));
    }
    assert_eq!(service.counts_by("idempotency-key").into_values().collect::<Vec<_>>(), [2]);

    // those of CSV have their header in the query
    service.forget();
    let csv = folder.path().join("rows.CSV");
    std::fs::write(&csv, "productSku;quantity\n").unwrap();
    client.sync_stocks(JOB, "W 1&2", Rows::from_file(&csv).unwrap()).send().await.unwrap();
    let receipt = &service.receipts()[0];
    assert_eq!(receipt.header("content-type"), Some("text/csv"));
    assert_eq!(receipt.query, Some(format!("eshop={JOB}&warehouseId=W+1%262")));
    assert_eq!(receipt.body, "productSku;quantity\n");

    service.forget();
    service.answer_all(busy());
    let once = Rows::from_reader(io::Cursor::new(rows.clone()));
    client.sync_stocks(JOB, "main", once).send().await.unwrap_err();
    assert_eq!(service.requests(), 1);

    // rows that cannot be read are an error of their own
    let broken = client.sync_products(JOB, None, Rows::from_reader(Broken)).send().await.unwrap_err();
    assert_eq!(broken.to_string(), "the rows cannot be read: the disk is gone");
    let missing = Rows::from_file(folder.path().join("none")).unwrap_err();
    assert!(missing.reason().contains("none: "), "{missing}");
}
