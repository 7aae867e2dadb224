//! Clients that control every byte, against a real listener.

#![expect(clippy::unwrap_used, reason = "a test fails where it must not go on")]

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use longshore_kernel::metrics::Metrics;
use longshore_kernel::proxy::Proxies;
use longshore_kernel::share::Ledger;
use longshore_serve::{HEAD_FREE, Limits, MOST_READ, accept, listen};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// The time limit for conditions on a slow machine.
const PATIENCE: Duration = Duration::from_secs(30);

const HEAD: &str = "GET / HTTP/1.1\r\nHost: test\r\n";
const HTTP_2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

struct Server {
    port: u16,
    /// requests for `/wait` have begun, and may end
    begun: Arc<Notify>,
    go: Arc<Notify>,
    _serving: AbortOnDropHandle<()>,
}

fn limits() -> Limits {
    Limits {
        connections: 100,
        of_address: 100,
        proxies: Proxies::default(),
        head: Duration::from_mins(10),
        reader: PATIENCE,
        heads: Ledger::new("memory", 1024 * 1024, 1),
    }
}

impl Server {
    async fn start(limits: Limits) -> Self {
        let listener = listen("0.0.0.0:0".parse().unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let wait = {
            let (begun, go) = (Arc::clone(&begun), Arc::clone(&go));
            async move || {
                begun.notify_one();
                go.notified().await;
                "done"
            }
        };
        let router = Router::new().route("/", get(async || "hello")).route("/wait", get(wait));
        let serving =
            tokio::spawn(accept(listener, router, limits, Metrics::new(), CancellationToken::new()));
        Self { port, begun, go, _serving: AbortOnDropHandle::new(serving) }
    }

    async fn connect(&self) -> TcpStream {
        self.connect_from(1).await
    }

    /// Connects from an address of this machine, by its last number.
    async fn connect_from(&self, last: u8) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, last], 0).into()).unwrap();
        socket.connect(([127, 0, 0, 1], self.port).into()).await.unwrap()
    }

    async fn sent(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        stream
    }

    /// Sends a request that runs until [`Self::go`].
    async fn running(&self) -> TcpStream {
        let stream = self.sent(b"GET /wait HTTP/1.1\r\nHost: test\r\n\r\n").await;
        self.begun.notified().await;
        stream
    }
}

/// Ends a head that was begun, and reads the answer.
async fn finish(mut stream: TcpStream) -> String {
    let _ = stream.write_all(b"Connection: close\r\n\r\n").await;
    end(stream).await
}

/// What comes until the connection ends.
async fn end(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    let reading = async {
        while let Ok(read @ 1..) = stream.read(&mut buffer).await {
            text.extend_from_slice(&buffer[..read]);
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

async fn is_served(server: &Server) {
    let answer = finish(server.sent(HEAD.as_bytes()).await).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

fn is_busy(answer: &str) {
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("\r\nRetry-After: 5\r\n"), "{answer}");
}

async fn until(condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap();
}

#[tokio::test]
async fn what_is_not_a_request_yet_takes_no_place_from_others() {
    for begun in [b"".as_slice(), b"G", HEAD.as_bytes(), &HTTP_2[..10], HTTP_2] {
        for (connections, of_address) in [(4, 100), (100, 4)] {
            let server = Server::start(Limits { connections, of_address, ..limits() }).await;
            let mut silent = Vec::new();
            for _ in 0..4 {
                silent.push(server.sent(begun).await);
            }
            is_served(&server).await;
            // the oldest has made room
            end(silent.remove(0)).await;
        }
    }
}

#[tokio::test]
async fn a_connection_between_two_requests_makes_room_after_those_that_never_sent_one() {
    let server = Server::start(Limits { connections: 2, ..limits() }).await;
    let silent = server.sent(HEAD.as_bytes()).await;
    let mut kept = server.sent(format!("{HEAD}\r\n").as_bytes()).await;
    assert!(kept.read(&mut [0; 4096]).await.unwrap() > 0);
    is_served(&server).await;
    end(silent).await;
    kept.write_all(HEAD.as_bytes()).await.unwrap();
    let answer = finish(kept).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test]
async fn running_requests_keep_their_places_and_the_next_client_is_told_to_come_back() {
    for (connections, of_address) in [(2, 100), (100, 2)] {
        let server = Server::start(Limits { connections, of_address, ..limits() }).await;
        let running = [server.running().await, server.running().await];
        is_busy(&end(server.connect().await).await);
        is_busy(&end(server.sent(format!("{HEAD}\r\n").as_bytes()).await).await);
        // another address has places of its own, and the total is for all
        let mut other = server.connect_from(2).await;
        let _ = other.write_all(HEAD.as_bytes()).await;
        let answer = finish(other).await;
        assert_eq!(answer.starts_with("HTTP/1.1 200 "), connections == 100, "{answer}");
        for stream in running {
            server.go.notify_one();
            let answer = finish(stream).await;
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("done"), "{answer}");
        }
        is_served(&server).await;
    }
}

#[tokio::test]
async fn a_trusted_proxy_has_the_connections_of_many_clients() {
    let proxies = Proxies::new(&["127.0.0.1/32".parse().unwrap()]);
    let server = Server::start(Limits { of_address: 1, proxies, ..limits() }).await;
    let running = [server.running().await, server.running().await];
    is_served(&server).await;
    drop(running);
}

#[tokio::test]
async fn a_head_counts_as_memory_past_its_first_bytes_until_its_request_is_answered() {
    let heads = Ledger::new("memory", 96 * 1024, 1);
    let server = Server::start(Limits { heads: heads.clone(), ..limits() }).await;
    let large = format!("X: {}\r\n", "y".repeat(HEAD_FREE + 20 * 1024));
    let more = (HEAD.len() + large.len() - HEAD_FREE) as u64;
    let first = server.sent(format!("{HEAD}{large}").as_bytes()).await;
    until(|| heads.used() == more).await;
    // an address has a third
    is_busy(&end(server.sent(format!("{HEAD}{large}").as_bytes()).await).await);
    is_served(&server).await;
    assert_eq!(heads.used(), more);
    let answer = finish(first).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    until(|| heads.used() == 0).await;
    let running = server.sent(format!("GET /wait HTTP/1.1\r\nHost: test\r\n{large}\r\n").as_bytes()).await;
    server.begun.notified().await;
    assert!(heads.used() >= more);
    server.go.notify_one();
    let answer = finish(running).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    until(|| heads.used() == 0).await;
}

#[tokio::test]
async fn a_head_without_end_is_read_up_to_its_limit() {
    let heads = Ledger::new("memory", 1024 * 1024, 1);
    let server = Server::start(Limits { heads: heads.clone(), ..limits() }).await;
    let line = format!("X: {}\r\n", "y".repeat(1_000));
    let mut sent = 0;
    let stream = server.sent(HEAD.as_bytes()).await;
    let (mut reader, mut writer) = stream.into_split();
    // a byte less than what is too much
    let fill = MOST_READ - 1 - HEAD.len();
    let filling = format!("{}X: {}", line.repeat(fill / line.len()), "y".repeat(fill % line.len() - 3));
    writer.write_all(filling.as_bytes()).await.unwrap();
    until(|| heads.used() == (MOST_READ - 1 - HEAD_FREE) as u64).await;
    let writing = async {
        while sent < 16 * 1024 * 1024 && writer.write_all(line.as_bytes()).await.is_ok() {
            sent += line.len();
        }
    };
    let mut answer = Vec::new();
    let reading = async { while let Ok(1..) = reader.read_buf(&mut answer).await {} };
    tokio::time::timeout(PATIENCE, async { tokio::join!(writing, reading) }).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 431 "), "{}", String::from_utf8_lossy(&answer));
    assert!(sent < 16 * 1024 * 1024);
    until(|| heads.used() == 0).await;
}

#[tokio::test]
async fn a_connection_without_a_request_ends() {
    let server = Server::start(Limits { head: Duration::from_millis(200), ..limits() }).await;
    for begun in [b"".as_slice(), b"G", HEAD.as_bytes(), &HTTP_2[..10], HTTP_2] {
        end(server.sent(begun).await).await;
    }
    let running = server.running().await;
    end(server.connect().await).await;
    server.go.notify_one();
    let answer = finish(running).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "a running request has its time: {answer}");
}
