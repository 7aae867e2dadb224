use std::time::{Duration, Instant};

use bytes::Bytes;
use longshore_testkit::client;
use longshore_testkit::receiver::{Answer, Receiver};

/// Long enough for a loaded machine; no test waits it out.
const SOON: Duration = Duration::from_secs(20);

async fn post(url: &str, id: &str) -> reqwest::Result<reqwest::Response> {
    client::outside()?.post(url).header("webhook-id", id).body(id.to_owned()).send().await
}

#[tokio::test]
async fn a_request_is_kept_unchanged_and_answered_204() {
    let receiver = Receiver::start().await.unwrap();
    let before = Instant::now();

    let answer = post(&receiver.url("/orders?shop=1"), "msg_1").await.unwrap();

    assert_eq!(answer.status(), 204);
    let receipts = receiver.receipts();
    let [receipt] = receipts.as_slice() else { panic!("{receipts:?}") };
    assert_eq!(receipt.method, "POST");
    assert_eq!(receipt.path, "/orders");
    assert_eq!(receipt.body, "msg_1");
    assert_eq!(receipt.header("webhook-id"), Some("msg_1"));
    assert!(receipt.at >= before && receipt.at <= Instant::now());
}

#[tokio::test]
async fn a_body_of_many_frames_is_kept_whole() {
    let receiver = Receiver::start().await.unwrap();
    let body = (0..3_000_000_u32).map(|n| n.to_le_bytes()[0]).collect::<Bytes>();

    client::outside().unwrap().post(receiver.url("/")).body(body.clone()).send().await.unwrap();

    assert_eq!(receiver.receipts()[0].body, body);
}

#[tokio::test]
async fn each_path_has_its_answer_and_a_sequence_repeats_its_last_one() {
    let receiver = Receiver::start().await.unwrap();
    receiver.answer("/busy", Answer::RetryAfter(429, 7));
    receiver.answer("/moved", Answer::Redirect(receiver.url("/elsewhere")));
    receiver.answer("/text", Answer::Body(418, "short and stout".into()));
    receiver.answer(
        "/mends",
        Answer::Sequence(vec![Answer::Status(500), Answer::Status(503), Answer::Status(200)]),
    );

    let busy = post(&receiver.url("/busy"), "a").await.unwrap();
    assert_eq!((busy.status().as_u16(), busy.headers()["retry-after"].as_bytes()), (429, b"7".as_slice()));
    let moved = post(&receiver.url("/moved"), "b").await.unwrap();
    assert_eq!(moved.headers()["location"], receiver.url("/elsewhere"));
    let text = post(&receiver.url("/text"), "c").await.unwrap();
    assert_eq!((text.status().as_u16(), text.text().await.unwrap()), (418, "short and stout".to_owned()));
    let mut statuses = Vec::new();
    for id in ["d", "e", "f", "g"] {
        statuses.push(post(&receiver.url("/mends"), id).await.unwrap().status().as_u16());
    }
    assert_eq!(statuses, [500, 503, 200, 200]);
    assert_eq!(receiver.receipts_at("/mends").len(), 4);
    assert!(receiver.receipts_at("/elsewhere").is_empty());
}

#[tokio::test]
async fn a_cut_connection_and_a_short_body_are_errors_for_the_caller() {
    let receiver = Receiver::start().await.unwrap();
    receiver.answer("/cut", Answer::Cut);
    receiver.answer("/short", Answer::Short);

    assert!(post(&receiver.url("/cut"), "a").await.is_err());
    assert!(post(&receiver.url("/short"), "b").await.unwrap().bytes().await.is_err());
    assert_eq!(receiver.requests(), 2);
}

#[tokio::test]
async fn a_flood_goes_on_for_as_long_as_the_caller_reads() {
    let receiver = Receiver::start().await.unwrap();
    receiver.answer_all(Answer::Flood);

    let mut answer = post(&receiver.url("/"), "a").await.unwrap();
    let mut read = 0;
    while read < 4 * 1024 * 1024 {
        read += answer.chunk().await.unwrap().expect("the flood ended").len();
    }
}

#[tokio::test]
async fn a_gate_holds_answers_back_and_the_peak_in_flight_is_known() {
    let receiver = Receiver::start().await.unwrap();
    let gate = receiver.hold("/", Answer::Status(200));
    let sent: Vec<_> = ["a", "b", "c"]
        .map(|id| {
            let url = receiver.url("/");
            tokio::spawn(async move { post(&url, id).await.unwrap().status() })
        })
        .into();

    receiver.wait_for(3, SOON).await.unwrap();
    assert!(sent.iter().all(|task| !task.is_finished()));
    gate.open();

    for task in sent {
        assert_eq!(task.await.unwrap(), 200);
    }
    assert_eq!(receiver.peak_in_flight(), 3);
}

#[tokio::test]
async fn an_arriving_request_wakes_those_who_wait() {
    let receiver = Receiver::start().await.unwrap();
    let url = receiver.url("/");
    let sender = tokio::spawn(async move {
        for id in ["a", "a", "b"] {
            post(&url, id).await.unwrap();
        }
    });

    receiver.wait_for_ids(2, SOON).await.unwrap();

    sender.await.unwrap();
    assert_eq!(receiver.counts_by("Webhook-Id"), [("a".to_owned(), 2), ("b".to_owned(), 1)].into());
}

#[tokio::test(start_paused = true)]
async fn a_wait_uses_the_real_clock_and_reports_the_received_requests() {
    let receiver = Receiver::start().await.unwrap();
    // A paused clock would skip to any deadline at once; the receiver's own clock does not.
    let waited = Instant::now();
    let too_few = receiver.wait_for(1, Duration::from_millis(50)).await.unwrap_err();
    assert!(waited.elapsed() >= Duration::from_millis(50));
    assert_eq!((too_few.requests, too_few.ids), (0, 0));
}

#[tokio::test]
async fn counting_keeps_ids_and_the_latest_arrival_but_no_request() {
    let receiver = Receiver::counting().await.unwrap();
    for id in ["a", "b", "b"] {
        post(&receiver.url("/"), id).await.unwrap();
    }

    assert!(receiver.receipts().is_empty());
    assert_eq!(receiver.requests(), 3);
    assert_eq!(receiver.counts_by("webhook-id"), [("a".to_owned(), 1), ("b".to_owned(), 2)].into());
    assert!(receiver.latest().is_some());
}

#[tokio::test]
async fn a_dropped_receiver_releases_its_port_and_hanging_connections() {
    let receiver = Receiver::start().await.unwrap();
    receiver.answer("/", Answer::Hang);
    let address = receiver.address();
    let url = receiver.url("/");
    let hanging = tokio::spawn(async move { post(&url, "a").await });
    receiver.wait_for(1, SOON).await.unwrap();

    drop(receiver);

    assert!(std::net::TcpStream::connect(address).is_err());
    assert!(hanging.await.unwrap().is_err());
}
