//! The guarded client against destinations that misbehave.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method};
use longshore_kernel::config::OutboundSettings;
use longshore_testkit::receiver::{Answer, Receiver};
use longshore_worker::outbound::{Call, CallError, Client};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use url::Url;

fn client(allowed: &[&str]) -> Client {
    let webhook_allow_subnets = allowed.iter().map(|net| net.parse().unwrap()).collect();
    Client::new(&OutboundSettings { webhook_allow_http: true, webhook_allow_subnets, webhooks_per_eshop: 16 })
        .unwrap()
}

fn call(url: &str, deadline: Duration) -> Call {
    Call {
        method: Method::POST,
        url: Url::parse(url).unwrap(),
        headers: HeaderMap::new(),
        body: Bytes::from_static(b"{}"),
        deadline,
        answer_bytes: 16 * 1024,
    }
}

const LONG: Duration = Duration::from_secs(15);
const SHORT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn loopback_is_refused_in_any_notation_and_behind_any_name() {
    let receiver = Receiver::start().await.unwrap();
    let port = receiver.address().port();
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0x7f000001",
        "0177.0.0.1",
        "017700000001",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "localhost",
    ] {
        let answer = client(&[]).call(call(&format!("http://{host}:{port}/"), LONG)).await;
        assert_eq!(answer.unwrap_err(), CallError::Forbidden, "{host}");
    }
    assert_eq!(receiver.requests(), 0);
    let answer = client(&["127.0.0.0/8"]).call(call(&format!("http://localhost:{port}/"), LONG)).await;
    assert_eq!(answer.unwrap().status, 204);
}

#[tokio::test]
async fn an_answer_without_end_is_read_up_to_the_limit() {
    let receiver = Receiver::start().await.unwrap();
    receiver.answer_all(Answer::Flood);
    let reply = client(&["127.0.0.0/8"]).call(call(&receiver.url("/"), LONG)).await.unwrap();
    assert_eq!((reply.status.as_u16(), reply.body.len(), reply.fault), (200, 16 * 1024, None));
}

#[tokio::test]
async fn a_call_to_a_silent_destination_ends_at_the_deadline() {
    let receiver = Receiver::start().await.unwrap();
    receiver.answer_all(Answer::Hang);
    let started = Instant::now();
    let answer = client(&["127.0.0.0/8"]).call(call(&receiver.url("/"), SHORT)).await;
    assert_eq!(answer.unwrap_err(), CallError::Timeout(SHORT));
    assert!(started.elapsed() < LONG / 3);
}

#[tokio::test]
async fn a_dripping_answer_is_cut_off_at_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let dripping = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n").await.unwrap();
        let mut drops = tokio::time::interval(Duration::from_millis(20));
        while stream.write_all(b"x").await.is_ok() {
            drops.tick().await;
        }
    });
    let reply = client(&["127.0.0.0/8"]).call(call(&url, SHORT)).await.unwrap();
    assert_eq!((reply.status.as_u16(), reply.fault), (200, Some(CallError::Timeout(SHORT))));
    assert!((1..1000).contains(&reply.body.len()));
    // its connection is closed, which ends the dripping
    tokio::time::timeout(LONG, dripping).await.unwrap().unwrap();
}

#[tokio::test]
async fn connections_are_kept_and_redirects_are_not_followed() {
    let receiver = Receiver::start().await.unwrap();
    receiver.answer("/moved", Answer::Redirect(receiver.url("/elsewhere")));
    let client = client(&["127.0.0.0/8"]);
    let reply = client.call(call(&receiver.url("/moved"), LONG)).await.unwrap();
    assert_eq!(reply.status.as_u16(), 307);
    assert_eq!(receiver.requests(), 1);
}

#[tokio::test]
async fn a_name_without_an_address_and_a_port_without_a_listener_cannot_be_connected_to() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let client = client(&["127.0.0.0/8"]);
    for url in [url.as_str(), "http://nobody.invalid/"] {
        let error = client.call(call(url, LONG)).await.unwrap_err();
        assert!(matches!(error, CallError::Connect(_)), "{url}: {error:?}");
    }
}

#[tokio::test]
async fn a_self_signed_certificate_is_not_trusted_and_nothing_is_sent() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    // self-signed for localhost and 127.0.0.1, valid for a hundred years
    let certificate =
        CertificateDer::from_pem_slice(include_bytes!("../../../bench/data/self_signed.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("../../../bench/data/self_signed.key")).unwrap();
    let config =
        rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key);
    let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let mut shaken = 0;
        for _ in 0..2 {
            let (stream, _) = listener.accept().await.unwrap();
            shaken += usize::from(acceptor.accept(stream).await.is_ok());
        }
        shaken
    });
    let client = client(&["127.0.0.0/8"]);
    for host in ["localhost", "127.0.0.1"] {
        let error = client.call(call(&format!("https://{host}:{port}/"), LONG)).await.unwrap_err();
        assert!(
            matches!(&error, CallError::Connect(why) if why.starts_with("the certificate of the server is ")),
            "{host}: {error:?}"
        );
    }
    assert_eq!(server.await.unwrap(), 0, "the client left before it said anything");
}

#[tokio::test]
async fn a_destination_without_tls_is_not_called_in_plain_text() {
    let receiver = Receiver::start().await.unwrap();
    let url = receiver.url("/").replace("http://", "https://");
    let error = client(&["127.0.0.0/8"]).call(call(&url, LONG)).await.unwrap_err();
    assert!(matches!(error, CallError::Connect(_)), "{error:?}");
    assert_eq!(receiver.requests(), 0);
}

#[tokio::test]
async fn a_stored_http_url_is_not_called_when_http_is_no_longer_allowed() {
    let receiver = Receiver::start().await.unwrap();
    let webhook_allow_subnets = vec!["127.0.0.0/8".parse().unwrap()];
    let client = Client::new(&OutboundSettings {
        webhook_allow_http: false,
        webhook_allow_subnets,
        webhooks_per_eshop: 16,
    })
    .unwrap();
    let refused = client.call(call(&receiver.url("/"), LONG)).await.unwrap_err();
    assert_eq!((refused, receiver.requests()), (CallError::Insecure, 0));
}

/// A destination that answers with a head and then repeats the same bytes; the task returns how many it sent.
async fn flooding(first: &'static [u8], again: &'static [u8]) -> (String, tokio::task::JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let sending = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await.unwrap();
        stream.write_all(first).await.unwrap();
        if first.ends_with(b"kept") {
            let _ = stream.read(&mut [0; 4096]).await.unwrap();
        }
        let (piece, mut sent) = (again.repeat(100), 0);
        while stream.write_all(&piece).await.is_ok() {
            sent += piece.len();
        }
        sent
    });
    (url, sending)
}

/// Bytes that the sockets of both sides may hold in addition to those that are read.
const IN_SOCKETS: usize = 16 * 1024 * 1024;

#[tokio::test]
async fn interim_answers_without_end_end_the_call_and_its_connection() {
    let early: &[u8] = b"HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n";
    for again in [early, b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 102 Processing\r\n\r\n"] {
        let (url, sending) = flooding(b"", again).await;
        let started = Instant::now();
        let answer = client(&["127.0.0.0/8"]).call(call(&url, LONG)).await;
        assert_eq!(answer.unwrap_err(), CallError::Flooded);
        assert!(started.elapsed() < LONG / 3, "{:?}", started.elapsed());
        let sent = tokio::time::timeout(LONG, sending).await.unwrap().unwrap();
        assert!(sent < IN_SOCKETS, "{sent} bytes");
    }
}

#[tokio::test]
async fn each_answer_on_a_kept_connection_has_the_whole_budget() {
    let first = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nkept";
    let (url, sending) = flooding(first, b"HTTP/1.1 103 Early Hints\r\n\r\n").await;
    let client = client(&["127.0.0.0/8"]);
    let reply = client.call(call(&url, LONG)).await.unwrap();
    assert_eq!((reply.status.as_u16(), reply.body.as_slice()), (200, &b"kept"[..]));
    assert_eq!(client.call(call(&url, LONG)).await.unwrap_err(), CallError::Flooded);
    assert!(tokio::time::timeout(LONG, sending).await.unwrap().unwrap() < IN_SOCKETS);
}

#[tokio::test]
async fn a_head_without_end_ends_the_call_and_leaves_its_status() {
    let (url, sending) = flooding(b"HTTP/1.1 200 OK\r\nx: ", b"xxxxxxxxxxxxxxxx").await;
    let started = Instant::now();
    let reply = client(&["127.0.0.0/8"]).call(call(&url, LONG)).await.unwrap();
    assert_eq!((reply.status.as_u16(), reply.fault), (200, Some(CallError::Flooded)));
    assert!(started.elapsed() < LONG / 3);
    assert!(tokio::time::timeout(LONG, sending).await.unwrap().unwrap() < IN_SOCKETS);
}

/// A destination that answers every request of a connection with these bytes, and closes it then if `closes`.
async fn answering(bytes: Vec<u8>, closes: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let bytes = bytes.clone();
            tokio::spawn(async move {
                while stream.read(&mut [0; 4096]).await.is_ok_and(|read| read > 0)
                    && stream.write_all(&bytes).await.is_ok()
                    && !closes
                {}
            });
        }
    });
    url
}

/// An answer with these lines among its fields, and a body.
fn with_fields(fields: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nx-before: 1\r\n{fields}content-length: 6\r\nx-after: 2\r\n\r\n\r\n{{}}\0\r")
        .into_bytes()
}

#[tokio::test]
async fn a_head_that_breaks_the_grammar_is_read_as_browsers_read_it() {
    let many = |lines: usize| "x-many: of these\r\n".repeat(lines);
    let long = |kib: usize| format!("x-long: {}\r\n", "x".repeat(kib * 1024));
    for (fields, field) in [
        ("x-odd: folded\r\n over two lines\r\n", Some("folded over two lines")),
        ("x-odd: folded\n\t\tover two lines\n", Some("folded over two lines")),
        ("x-odd:\r\n begins on the second\r\n", Some("begins on the second")),
        ("x-odd: \x01and\x7f\r\n", Some("?and?")),
        ("x-odd: nothing\0\r\n", Some("nothing?")),
        ("x-odd: a carriage\rreturn\r\n", Some("a carriage return")),
        ("x-odd : blank\r\n", Some("blank")),
        ("x-odd\t : blank\r\n", Some("blank")),
        ("x-odd: line feeds alone\n", Some("line feeds alone")),
        ("no colon\r\nx-odd: next\r\n", Some("next")),
        ("nocolon\r\nx-odd: next\r\n", Some("next")),
        (": no name\r\nx-odd: next\r\n", Some("next")),
        ("n\u{e4}me: 1\r\nx-odd: next\r\n", Some("next")),
        ("na\0me: 1\r\nx-odd: next\r\n", Some("next")),
        ("\x01\r\nx-odd: next\r\n", Some("next")),
        (many(101).as_str(), None),
        (many(900).as_str(), None),
        (long(100).as_str(), None),
        (long(250).as_str(), None),
    ] {
        let url = answering(with_fields(fields), false).await;
        let client = client(&["127.0.0.0/8"]);
        // the second answer comes over the same connection
        for _ in 0..2 {
            let reply = client.call(call(&url, LONG)).await.unwrap();
            let named = |name| reply.headers.get(name).map(|value| value.to_str().unwrap());
            assert_eq!((reply.status.as_u16(), reply.fault.as_ref()), (200, None), "{fields:.80?}");
            assert_eq!(named("x-odd"), field, "{fields:.80?}");
            assert_eq!((named("x-before"), named("x-after")), (Some("1"), Some("2")), "{fields:.80?}");
            assert_eq!(reply.body, b"\r\n{}\0\r", "{fields:.80?}");
        }
        let opened = client.open(call(&url, LONG)).await.unwrap();
        assert_eq!(opened.status(), 200, "{fields:.80?}");
    }
}

#[tokio::test]
async fn lines_without_end_are_left_out_and_the_body_is_read() {
    let mut answer = with_fields("");
    let at = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    answer.splice(at..at, "\r\na: b".repeat(30_000).into_bytes());
    let reply = client(&["127.0.0.0/8"]).call(call(&answering(answer, false).await, LONG)).await.unwrap();
    assert_eq!((reply.status.as_u16(), reply.body.as_slice(), reply.fault), (200, &b"\r\n{}\0\r"[..], None));
}

#[tokio::test]
async fn a_status_line_with_control_characters_or_without_a_reason_is_read() {
    for line in [
        "HTTP/1.1 202 O\0K\x1b",
        "HTTP/1.1 202",
        "HTTP/1.1 202 ",
        "HTTP/1.0 202 \u{fc}",
        "HTTP/1.1 103 Early\r\na b\r\n\r\nHTTP/1.1 202 OK",
        "HTTP/1.1 202 OK\r\n nothing that it continues",
    ] {
        let url = answering(format!("{line}\r\ncontent-length: 0\r\n\r\n").into_bytes(), true).await;
        let reply = client(&["127.0.0.0/8"]).call(call(&url, LONG)).await.unwrap();
        assert_eq!((reply.status.as_u16(), reply.fault), (202, None), "{line:?}");
    }
}

#[tokio::test]
async fn a_head_that_cannot_be_read_leaves_its_status_and_a_fault() {
    for head in [
        "HTTP/1.1 201 Created\r\ncontent-length: many\r\n\r\n{}",
        "HTTP/1.1 201 Created\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
        "HTTP/1.0 201 Created\r\ntransfer-encoding: chunked\r\n\r\n{}",
        "HTTP/1.1 201 Created\r\ncontent-le",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\n",
    ] {
        let url = answering(head.into(), true).await;
        let client = client(&["127.0.0.0/8"]);
        let reply = client.call(call(&url, LONG)).await.unwrap();
        assert_eq!((reply.status.as_u16(), reply.body.len()), (201, 0), "{head:?}");
        assert!(matches!(reply.fault, Some(CallError::Broken(_))), "{head:?}: {:?}", reply.fault);
        let mut opened = client.open(call(&url, LONG)).await.unwrap();
        assert_eq!(opened.status(), 201, "{head:?}");
        assert!(opened.next().await.is_err(), "{head:?}");
    }
    let url = answering(b"HTTP/1.1 201 Created\r\nserver: gone\r\n".to_vec(), false).await;
    let reply = client(&["127.0.0.0/8"]).call(call(&url, SHORT)).await.unwrap();
    assert_eq!((reply.status.as_u16(), reply.fault), (201, Some(CallError::Timeout(SHORT))));
    for nothing in
        ["", "HTTP/1.1 20", "HTTP/1.1 100 Continue\r\n\r\n", "SSH-2.0-OpenSSH_9.6\r\n", "<html>\r\n"]
    {
        let answer = client(&["127.0.0.0/8"]).call(call(&answering(nothing.into(), true).await, LONG)).await;
        assert!(matches!(answer, Err(CallError::Broken(_))), "{nothing:?}: {answer:?}");
    }
}

/// What a destination does with the second request of a connection.
#[derive(Clone, Copy, Debug)]
enum Second {
    /// It closes the connection before it comes.
    Unawaited,
    /// It reads it, and closes the connection.
    Unanswered,
    /// It resets the connection, without reading it.
    Unread,
    /// It begins an answer, and closes the connection.
    Begun,
}

/// A destination that answers one request of a connection, as long as it answers; the channel has how many requests were read.
async fn closing(second: Second) -> (String, tokio::sync::watch::Sender<bool>, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (answers, read) = (tokio::sync::watch::Sender::new(true), Arc::new(AtomicUsize::new(0)));
    let (answering, reading) = (answers.clone(), Arc::clone(&read));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (answering, reading) = (answering.subscribe(), Arc::clone(&reading));
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 4096]).await.unwrap();
                reading.fetch_add(1, Relaxed);
                if !*answering.borrow() {
                    return;
                }
                stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
                match second {
                    Second::Unawaited => return,
                    Second::Unread => return stream.readable().await.unwrap(),
                    Second::Unanswered | Second::Begun => {}
                }
                if stream.read(&mut [0; 4096]).await.is_ok_and(|bytes| bytes > 0) {
                    reading.fetch_add(1, Relaxed);
                    if let Second::Begun = second {
                        stream.write_all(b"HTTP/1.1 2").await.unwrap();
                    }
                }
            });
        }
    });
    (url, answers, read)
}

#[tokio::test]
async fn a_call_on_a_kept_connection_that_was_closed_is_made_at_once_on_a_new_one() {
    for second in [Second::Unawaited, Second::Unanswered, Second::Unread] {
        let (url, ..) = closing(second).await;
        let client = client(&["127.0.0.0/8"]);
        // several connections are kept, all of which end
        for _ in 0..20 {
            let calls = (0..4).map(|_| client.call(call(&url, LONG)));
            for answer in futures::future::join_all(calls).await {
                assert_eq!(answer.unwrap().status, 204, "{second:?}");
            }
            assert_eq!(client.open(call(&url, LONG)).await.unwrap().status(), 204, "{second:?}");
        }
    }
}

#[tokio::test]
async fn a_call_is_repeated_once_and_only_if_no_byte_of_an_answer_came() {
    let (url, answers, read) = closing(Second::Unanswered).await;
    let client = client(&["127.0.0.0/8"]);
    assert_eq!(client.call(call(&url, LONG)).await.unwrap().status, 204);
    answers.send_replace(false);
    let error = client.call(call(&url, LONG)).await.unwrap_err();
    assert!(matches!(error, CallError::Broken(_)), "{error:?}");
    assert_eq!(read.load(Relaxed), 3, "over the kept connection, and over a new one");
    assert!(client.call(call(&url, LONG)).await.is_err());
    assert_eq!(read.load(Relaxed), 4, "no connection was kept");

    let (url, _, read) = closing(Second::Begun).await;
    assert_eq!(client.call(call(&url, LONG)).await.unwrap().status, 204);
    let error = client.call(call(&url, LONG)).await.unwrap_err();
    assert!(matches!(error, CallError::Broken(_)), "{error:?}");
    assert_eq!(read.load(Relaxed), 2);
}

#[tokio::test]
async fn some_interim_answers_and_a_long_body_are_accepted() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        for _ in 0..3 {
            let _ = stream.read(&mut [0; 4096]).await.unwrap();
            for _ in 0..1_000 {
                stream
                    .write_all(b"HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n")
                    .await
                    .unwrap();
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3000000\r\n\r\n").await.unwrap();
            stream.write_all(&vec![b'x'; 3_000_000]).await.unwrap();
        }
    });
    let client = client(&["127.0.0.0/8"]);
    for _ in 0..3 {
        let mut opened = client.open(call(&url, LONG)).await.unwrap();
        let mut bytes = 0;
        while let Some(piece) = opened.next().await.unwrap() {
            bytes += piece.len();
        }
        assert_eq!((opened.status().as_u16(), bytes), (200, 3_000_000));
    }
}

/// The URL of the destination of the test below.
const CROWDED: &str = "LONGSHORE_TEST_CROWDED";

#[test]
fn the_limit_of_open_files_is_not_reported_as_a_fault_of_the_destination() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let receiver = runtime.block_on(Receiver::start()).unwrap();
    // in a separate process of this binary, because the limit applies to a process
    let output = std::process::Command::new("prlimit")
        .arg("--nofile=48")
        .arg(std::env::current_exe().unwrap())
        .args(["outbound::calls_until_there_is_no_room", "--exact", "--ignored", "--nocapture"])
        .env(CROWDED, receiver.url("/"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

#[test]
#[ignore = "the process of the test above"]
#[expect(clippy::disallowed_methods, reason = "a test run has no settings of the product")]
fn calls_until_there_is_no_room() {
    let url = std::env::var(CROWDED).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = client(&["127.0.0.0/8"]);
    let held: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
    let error = runtime.block_on(client.call(call(&url, LONG))).unwrap_err();
    assert!(matches!(error, CallError::Local(_)), "{error:?}");
    drop(held);
    assert_eq!(runtime.block_on(client.call(call(&url, LONG))).unwrap().status, 204);
}
