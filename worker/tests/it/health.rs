//! The health endpoints, against clients that never end a request.

use std::time::Duration;

use longshore_kernel::migration::MIGRATIONS;
use longshore_serve::Limits;
use longshore_worker::health::{limits, serve};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

use crate::job::support::World;

/// The time limit for conditions on a slow machine.
const PATIENCE: Duration = Duration::from_secs(30);

const HEAD: &[u8] = b"GET /health/live HTTP/1.1\r\nHost: test\r\n";

async fn sent(port: u16, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

/// What comes until the connection ends.
async fn end(mut stream: TcpStream) -> String {
    let mut text = String::new();
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_string(&mut text)).await.unwrap();
    text
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn slow_clients_of_the_endpoints_are_few_and_end(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    for limits in [limits(), Limits { head: Duration::from_millis(300), ..limits() }] {
        assert!(limits.connections <= 64 && limits.head <= Duration::from_secs(15));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_quick = limits.head < Duration::from_secs(1);
        let most = limits.connections as usize;
        let _serving = AbortOnDropHandle::new(tokio::spawn(serve(listener, world.worker.clone(), limits)));
        let mut slow = Vec::new();
        for _ in 0..most {
            slow.push(sent(port, HEAD).await);
        }
        let answer = end(sent(port, &[HEAD, b"Connection: close\r\n\r\n"].concat()).await).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        if is_quick {
            for stream in slow {
                end(stream).await;
            }
        } else {
            end(slow.remove(0)).await;
        }
    }
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn browsers_guess_the_type_of_no_answer(_: PgPoolOptions, options: PgConnectOptions) {
    let world = World::new(&options).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let _serving = AbortOnDropHandle::new(tokio::spawn(serve(listener, world.worker.clone(), limits())));
    for path in ["/metrics", "/health/ready", "/nothing"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        let answer = end(sent(port, request.as_bytes()).await).await;
        assert!(answer.contains("x-content-type-options: nosniff\r\n"), "{path}: {answer}");
    }
}
